"""A tenant changes from the real LB-IPAM to the real MetalLB, and back."""

from functools import partial
from pathlib import Path

import pytest

from controller.codec import Page
from controller.meta import Key
from envtest.lbipam import read_lbipam_definitions
from envtest.metallb import NAMESPACE, read_metallb_definitions, run_metallb_controller
from envtest.settings import read_settings
from reconcilers.api.resources import NAMESPACE as NAMESPACES
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CiliumPool
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, IPAddressPool
from tests.cilium.rivalry import SERVICES, RivalSetup, run_with_rival
from tests.polling import until
from tests.tenants import TEAM

pytestmark = [pytest.mark.slow, pytest.mark.by_hand]


async def choose(setup: RivalSetup, provider: str) -> None:
    """Name another load balancer in the TenantCluster."""
    change = {"spec": {"addons": {"loadBalancer": {"provider": provider}}}}
    await setup.site.patch(TENANT_CLUSTER, Key(TEAM, "a"), change)


def has_ranges(page: Page[CiliumPool] | Page[IPAddressPool]) -> bool:
    """Return whether a pool of a load balancer hands out addresses."""
    return any(
        pool.blocks if isinstance(pool, CiliumPool) else pool.spec.addresses for pool in page.items
    )


async def test_a_tenant_moves_to_metallb_and_back_and_keeps_its_range(
    program: Path, tmp_path: Path
) -> None:
    settings = read_settings()
    if settings.metallb is None:
        pytest.skip("KUBEBUILDER_ASSETS has no metallb-controller: `make real` builds it")
    kinds = [*await read_lbipam_definitions(settings), *read_metallb_definitions(settings)]
    async with run_with_rival(tmp_path, kinds=kinds) as setup:
        await setup.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        list_cilium = partial(setup.client.list, CILIUM_POOL)
        list_metallb = partial(setup.client.list, IP_ADDRESS_POOL)
        setup.start_operator(program)
        allocated_range = await setup.serve_with_rival()

        await choose(setup, "metallb")
        await until(list_metallb, has_ranges)
        assert not (await list_cilium()).items
        async with run_metallb_controller(setup.tenant.plane.get_kubeconfig(), settings):
            await setup.tenant.wait_until_served(*SERVICES)
            assert await setup.is_rival_waiting()
            await choose(setup, "cilium")
            await until(list_cilium, has_ranges)
        assert not has_ranges(await list_metallb())
        shown_addresses = await setup.tenant.wait_until_served(*SERVICES)
        assert all(allocated_range.contains(address) for address in shown_addresses.values())
        assert await setup.is_rival_waiting()
        await setup.delete_allocation()
        await setup.wait_until_rival_has(allocated_range)
