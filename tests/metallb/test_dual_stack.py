"""A tenant that has addresses of both families, with the real MetalLB on dual-stack servers."""

from pathlib import Path
from typing import Any

import pytest

from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import Site, Tenant, site
from tests.polling import until
from tests.tenants import HOME, POOL, TEAM, entry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

QUICK = ("--growth-when-exhausted=1s", "--shrink-after=5s", "--tenant-requeue-deleting=200ms")
SIX = {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}
PREFER = {"ipFamilyPolicy": "PreferDualStack"}
REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}
CIDRS = ("10.40.0.0/28", "fd40::/48")


async def _ready(here: Site, **sizes: Any) -> Tenant:
    await here.offer(*CIDRS, allocationMode="elastic", **sizes)
    await here.create_cluster("a", **REQUIRE)
    await here.ready("a")
    return here.tenants["a"]


async def _entries(here: Site, *names: str) -> tuple[str, ...]:
    """Return what the tenant's pool should have: both ranges of each of these allocations."""
    found: list[str] = []
    for name in names:
        await here.allocated(name)
        allocation = await here.allocation(name)
        assert allocation is not None
        held = statusranges.list_held_ranges(allocation)
        assert [one.family for one in held] == [4, 6]
        found += map(entry, held)
    return tuple(found)


async def test_services_of_both_families_get_both_addresses_from_the_tenants_pool(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here, here.controllers(*QUICK):
        tenant = await _ready(here, initialPoolSize=2, growthIncrement=2)
        assert await tenant.entries() == await _entries(here, "team-a-lb")
        await tenant.serve("prefer", spec=PREFER)
        await tenant.serve("require", spec=REQUIRE)
        await tenant.served("prefer", "require")
        shown = await tenant.all_addresses()
        held = await here.ranges_of("a")
        for addresses in shown.values():
            assert [":" in one for one in addresses] == [False, True]
            assert all(any(span.contains(one) for span in held) for one in addresses)


async def test_a_tenant_grows_for_the_family_that_is_out_and_gives_both_back_together(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here, here.controllers(*QUICK), here.recorded() as recording:
        tenant = await _ready(here, initialPoolSize=1, growthIncrement=1)
        initial = await _entries(here, "team-a-lb")
        await tenant.serve("one", spec=SIX)
        first = await tenant.served("one")
        await tenant.serve("two", spec=SIX)  # an address of IPv4 is free, and does not help
        await tenant.served("one", "two")
        grown = await _entries(here, "team-a-lb-1")
        assert await tenant.entries() == (*initial, *grown)

        await tenant.stop_serving("two")
        await here.gone(IP_ALLOCATION, HOME, "team-a-lb-1")
        assert await tenant.entries() == initial
        assert await tenant.addresses() == first

        await tenant.stop_serving("one")
        await delete(here.client, TENANT_CLUSTER, Key(TEAM, "a"))
        await here.gone(IP_ALLOCATION, HOME, "team-a-lb")
        pool = await until(
            lambda: here.client.get(NETWORK_POOL, POOL),
            lambda found: (found.status.allocationCount, found.status.available) == (0, 16),
        )
        assert pool.status.secondary is not None
        assert pool.status.secondary.available == 2**80
        assert await recording.findings() == []
