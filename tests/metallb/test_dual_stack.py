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
    """Return the expected entries of the tenant's pool: both ranges of each allocation."""
    entries: list[str] = []
    for name in names:
        await here.wait_until_allocated(name)
        allocation = await here.allocation(name)
        assert allocation is not None
        held_ranges = statusranges.list_held_ranges(allocation)
        assert [held_range.family for held_range in held_ranges] == [4, 6]
        entries += map(entry, held_ranges)
    return tuple(entries)


async def test_services_of_both_families_get_both_addresses_from_the_tenants_pool(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here, here.controllers(*QUICK):
        tenant = await _ready(here, initialPoolSize=2, growthIncrement=2)
        assert await tenant.entries() == await _entries(here, "team-a-lb")
        await tenant.serve("prefer", spec=PREFER)
        await tenant.serve("require", spec=REQUIRE)
        await tenant.wait_until_served("prefer", "require")
        all_addresses = await tenant.all_addresses()
        held_ranges = await here.ranges_of("a")
        for addresses in all_addresses.values():
            assert [":" in address for address in addresses] == [False, True]
            assert all(
                any(span.contains(address) for span in held_ranges) for address in addresses
            )


async def test_a_tenant_grows_for_the_family_that_is_out_and_gives_both_back_together(
    tmp_path: Path,
) -> None:
    async with (
        site(tmp_path) as here,
        here.controllers(*QUICK),
        here.record_clusters() as recording,
    ):
        tenant = await _ready(here, initialPoolSize=1, growthIncrement=1)
        initial = await _entries(here, "team-a-lb")
        await tenant.serve("one", spec=SIX)
        first = await tenant.wait_until_served("one")
        await tenant.serve("two", spec=SIX)  # an address of IPv4 is free, and does not help
        await tenant.wait_until_served("one", "two")
        grown = await _entries(here, "team-a-lb-1")
        assert await tenant.entries() == (*initial, *grown)

        await tenant.stop_serving("two")
        await here.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb-1")
        assert await tenant.entries() == initial
        assert await tenant.addresses() == first

        await tenant.stop_serving("one")
        await delete(here.client, TENANT_CLUSTER, Key(TEAM, "a"))
        await here.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb")
        pool = await until(
            lambda: here.client.get(NETWORK_POOL, POOL),
            lambda pool: (pool.status.allocationCount, pool.status.available) == (0, 16),
        )
        assert pool.status.secondary is not None
        assert pool.status.secondary.available == 2**80
        assert await recording.findings() == []
