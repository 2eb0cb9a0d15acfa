"""Claims of a NetworkPool in a namespace that --pool-namespaces does not name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from envtest import ControlPlane
from reconcilers.api import names
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import Body, Lab, condition, reason, status
from tests.contract.conftest import administrator
from tests.contract.product import install_kinds, product, under_shipped_roles

pytestmark = pytest.mark.asyncio(loop_scope="package")


def holds(addresses: int) -> Callable[[Body], bool]:
    """Return a question: whether the pool's figures show that many held addresses."""

    def has_figures(pool: Body) -> bool:
        pool_status = status(pool)
        is_closed = reason(pool) == "NamespaceNotAllowed"
        return is_closed and pool_status.get("allocatedIPs") == addresses

    return has_figures


async def test_addresses_are_kept_and_counted_and_none_is_handed_out(tmp_path: Path) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "clusterapi", crds.crds())
        lab = Lab(admin, "default")
        await lab.create("NetworkPool", "p", {"cidr": "10.0.0.0/24"})
        await lab.claim("a", "p", "NetworkPool")
        await lab.claim("b", "p", "NetworkPool")
        kubeconfig = await under_shipped_roles(
            plane, admin, where=tmp_path, integration="clusterapi"
        )
        home = f"--namespace={names.DEFAULT_NAMESPACE}"
        with product("clusterapi", kubeconfig, tmp_path / "first", home):
            kept = {await lab.wait_until_served("a"), await lab.wait_until_served("b")}
        elsewhere = ("--pool-namespaces=network", f"--pool-namespaces={names.DEFAULT_NAMESPACE}")
        with product("clusterapi", kubeconfig, tmp_path / "second", home, *elsewhere):
            await lab.claim("late", "p", "NetworkPool")
            late = await lab.until("IPAddressClaim", "late", lambda c: bool(condition(c)))
            assert "namespace default may not hold NetworkPools" in condition(late)["message"]
            await lab.until("NetworkPool", "p", holds(2))
            addresses = {address["spec"]["address"] for address in await lab.items("IPAddress")}
            assert addresses == kept
            await lab.delete("IPAddressClaim", "a")
            await lab.wait_until_gone("IPAddress", "a")
            await lab.until("NetworkPool", "p", holds(1))
            assert "addressRef" not in status(await lab.find("IPAddressClaim", "late"))
