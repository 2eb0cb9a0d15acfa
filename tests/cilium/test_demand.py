"""An elastic tenant with the real LB-IPAM: both families, growth, the quota, and shrink."""

from functools import partial
from pathlib import Path

import pytest

from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.loadbalancers.cilium.pools import CILIUM_POOL
from tests.cilium.rivalry import run_with_rival
from tests.polling import until
from tests.tenants import HOME, TEAM

pytestmark = [pytest.mark.slow, pytest.mark.by_hand]
FLAGS = ("--growth-when-exhausted=1s", "--shrink-after=5s")
BOTH = {"ipFamilyPolicy": "RequireDualStack"}
GROWN = "team-a-lb-1"


def misses_quota(cluster: TenantCluster) -> bool:
    """Return whether a TenantCluster says that its quota keeps it from growing."""
    demand = find_condition(cluster.status.conditions, "LoadBalancerDemandMet")
    return demand is not None and demand.status == "False" and "quota" in demand.message.lower()


async def test_a_tenant_of_both_families_grows_up_to_its_quota_and_shrinks_again(
    program: Path, tmp_path: Path
) -> None:
    async with run_with_rival(tmp_path, *FLAGS) as setup:
        setup.start_operator(program)
        site, tenant = setup.site, setup.tenant
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer("10.40.0.0/28", "fd40::/48", quota=2, allocationMode="elastic", **sizes)
        await site.create_cluster("a", **BOTH)
        await site.ready("a")
        await tenant.create_services("one", spec=BOTH)
        await tenant.wait_until_served("one")
        await tenant.create_services("two", spec=BOTH)
        await tenant.wait_until_served("one", "two")
        grown = await site.find_allocation(GROWN)
        assert grown is not None
        assert [span.family for span in statusranges.list_held_ranges(grown)] == [4, 6]
        for addresses in (await tenant.list_all_addresses()).values():
            assert [":" in address for address in addresses] == [False, True]

        await tenant.create_services("three", spec=BOTH)
        await until(partial(site.client.get, TENANT_CLUSTER, Key(TEAM, "a")), misses_quota)
        for pool in (await setup.client.list(CILIUM_POOL)).items:
            assert len(pool.blocks) == 2
        held_ranges = statusranges.list_held_ranges(grown)
        for name, addresses in (await tenant.list_all_addresses()).items():
            if any(span.contains(ip) for span in held_ranges for ip in addresses):
                await tenant.stop_serving("three", name)
        await site.wait_until_gone(IP_ALLOCATION, HOME, GROWN)
        await until(partial(setup.client.list, CILIUM_POOL), lambda page: len(page.items) == 1)
