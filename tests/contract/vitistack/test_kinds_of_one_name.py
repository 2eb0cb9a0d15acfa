"""Our kind IPAllocation beside vitistack's kind of that name, in one namespace."""

import pytest

from reconcilers.api import names
from tests.contract.vitistack.lab import VitistackLab, get_status
from tests.polling import until

pytestmark = [pytest.mark.asyncio(loop_scope="package")]
ROOT = f"/apis/{names.API_VERSION}/namespaces"


async def test_an_ipallocation_of_each_kind_with_one_name_is_served(lab: VitistackLab) -> None:
    await lab.create_network()
    pool = {"cidr": "10.40.0.0/24"}
    request = {
        "poolRef": {"name": "same"},
        "tenantClusterRef": {"namespace": lab.namespace, "name": "missing"},
        "type": "loadbalancer",
        "count": 4,
    }
    for kind, plural, spec in (
        ("NetworkPool", "networkpools", pool),
        ("IPAllocation", "ipallocations", request),
    ):
        body = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": "same"}}
        answer = await lab.admin.post(
            f"{ROOT}/{lab.namespace}/{plural}", json={**body, "spec": spec}
        )
        assert answer.status_code == 201, answer.text
    await lab.create_allocation("same")
    await lab.wait_for_address("same", "10.0.2.2")

    async def read_own_status() -> dict[str, str]:
        """Return phase and first address of our IPAllocation."""
        answer = await lab.admin.get(f"{ROOT}/{lab.namespace}/ipallocations/same")
        return {
            name: get_status(answer.json()).get(name, "") for name in ("phase", "startAddress")
        }

    await until(
        read_own_status,
        lambda status: status == {"phase": "Allocated", "startAddress": "10.40.0.0"},
    )
