"""An IPAllocation that cannot be read keeps its address, until it is corrected or deleted."""

import pytest

from tests.contract.loosening import create_loosely, loosen_field
from tests.contract.vitistack.lab import NETWORK, PATHS, VitistackLab

pytestmark = pytest.mark.asyncio(loop_scope="package")


UNREADABLE = {
    "IPAllocation": (
        "interfaceName",
        {"networkNamespaceName": NETWORK, "networkConfigurationName": "vm"},
    ),
    "NetworkConfiguration": (
        "networkInterfaces",
        {"networkNamespaceName": NETWORK, "name": "odd"},
    ),
}
"""By kind: the field that gets a value of a wrong type, and the other fields of the spec."""


@pytest.mark.parametrize("kind", UNREADABLE)
async def test_a_network_hands_out_nothing_while_a_holder_cannot_be_read(
    lab: VitistackLab, kind: str
) -> None:
    await lab.create_network()
    field, spec = UNREADABLE[kind]
    version, plural = PATHS[kind]
    async with loosen_field(lab.admin, f"{plural}.vitistack.io", field):
        body = {
            "apiVersion": f"vitistack.io/{version}",
            "kind": kind,
            "metadata": {"name": "odd"},
            "spec": {**spec, field: 7},
        }
        await create_loosely(lab.admin, lab.build_path(kind), body)
        await lab.create_allocation("a")
        waiting = await lab.until(
            "IPAllocation",
            "a",
            lambda allocation: "cannot be read" in allocation.get("status", {}).get("message", ""),
        )
        assert f"{lab.namespace}/odd cannot be read" in waiting["status"]["message"]
        assert not waiting["status"].get("address")
        await lab.delete(kind, "odd")
        await lab.until(
            "IPAllocation",
            "a",
            lambda allocation: bool(allocation.get("status", {}).get("address")),
        )
