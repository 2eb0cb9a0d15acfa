"""Claims of a NetworkPool in a namespace that --pool-namespaces does not name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from envtest import ControlPlane
from reconcilers.api import names
from reconcilers.integrations.clusterapi import crds
from tests.contract.clusterapi.lab import (
    Body,
    ClusterApiLab,
    find_condition,
    get_reason,
    get_status,
)
from tests.contract.conftest import administrator
from tests.contract.product import install_kinds, product, under_shipped_roles

pytestmark = pytest.mark.asyncio(loop_scope="package")


def is_closed_with(held_count: int) -> Callable[[Body], bool]:
    """Return a predicate: a pool's namespace is not allowed, and so many addresses are held."""

    def is_closed(pool: Body) -> bool:
        counted = get_status(pool).get("allocatedIPs")
        return (get_reason(pool), counted) == ("NamespaceNotAllowed", held_count)

    return is_closed


async def test_a_networkpool_in_another_namespace_keeps_its_held_addresses_and_hands_out_none(
    tmp_path: Path,
) -> None:
    async with ControlPlane.start() as plane, administrator(plane) as admin:
        await install_kinds(plane, "clusterapi", crds.build_pool_crds())
        lab = ClusterApiLab(admin, "default")
        await lab.create("NetworkPool", "p", {"cidr": "10.0.0.0/24"})
        await lab.create_claim("a", "p", "NetworkPool")
        await lab.create_claim("b", "p", "NetworkPool")
        kubeconfig = await under_shipped_roles(
            plane, admin, where=tmp_path, integration="clusterapi"
        )
        namespace_flag = f"--namespace={names.DEFAULT_NAMESPACE}"
        with product("clusterapi", kubeconfig, tmp_path / "first", namespace_flag):
            held_addresses = {await lab.wait_until_served("a"), await lab.wait_until_served("b")}
        elsewhere = ("--pool-namespaces=network", f"--pool-namespaces={names.DEFAULT_NAMESPACE}")
        with product("clusterapi", kubeconfig, tmp_path / "second", namespace_flag, *elsewhere):
            await lab.create_claim("late", "p", "NetworkPool")
            late = await lab.until(
                "IPAddressClaim", "late", lambda claim: bool(find_condition(claim))
            )
            assert "namespace default may not hold NetworkPools" in find_condition(late)["message"]
            await lab.until("NetworkPool", "p", is_closed_with(2))
            addresses = {
                address["spec"]["address"] for address in await lab.list_objects("IPAddress")
            }
            assert addresses == held_addresses
            await lab.delete("IPAddressClaim", "a")
            await lab.wait_until_gone("IPAddress", "a")
            await lab.until("NetworkPool", "p", is_closed_with(1))
            assert "addressRef" not in get_status(await lab.find("IPAddressClaim", "late"))
