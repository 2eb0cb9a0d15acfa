"""A tenant changes from the real LB-IPAM to the real MetalLB, and back."""

from functools import partial
from pathlib import Path

import pytest

from controller.codec import Page
from controller.meta import Key
from envtest.lbipam import lbipam_definitions
from envtest.metallb import NAMESPACE, definitions, metallb_controller
from envtest.settings import read_settings
from reconcilers.api.resources import NAMESPACE as NAMESPACES
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL, CiliumPool
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL, IPAddressPool
from tests.cilium.contest import SERVICES, Contest, contest
from tests.polling import until
from tests.tenants import TEAM

pytestmark = [pytest.mark.slow, pytest.mark.by_hand]


async def choose(race: Contest, provider: str) -> None:
    """Name another load balancer in the TenantCluster."""
    change = {"spec": {"addons": {"loadBalancer": {"provider": provider}}}}
    await race.here.patch(TENANT_CLUSTER, Key(TEAM, "a"), change)


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
    kinds = [*await lbipam_definitions(settings), *definitions(settings)]
    async with contest(tmp_path, kinds=kinds) as race:
        await race.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
        list_cilium = partial(race.client.list, CILIUM_POOL)
        list_metallb = partial(race.client.list, IP_ADDRESS_POOL)
        race.operator(program)
        allocated_range = await race.begin()

        await choose(race, "metallb")
        await until(list_metallb, has_ranges)
        assert not (await list_cilium()).items
        async with metallb_controller(race.tenant.plane.kubeconfig(), settings):
            await race.tenant.wait_until_served(*SERVICES)
            assert await race.is_kept()
            await choose(race, "cilium")
            await until(list_cilium, has_ranges)
        assert not has_ranges(await list_metallb())
        shown_addresses = await race.tenant.wait_until_served(*SERVICES)
        assert all(allocated_range.contains(address) for address in shown_addresses.values())
        assert await race.is_kept()
        await race.delete()
        await race.lost(allocated_range)
