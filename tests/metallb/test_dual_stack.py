"""A tenant that has addresses of both families, with the real MetalLB on dual-stack servers."""

from pathlib import Path
from typing import Any

import pytest

from controller.meta import Key
from reconcilers.addressing import statusranges
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL, TENANT_CLUSTER
from reconcilers.cli.local.objects import delete
from tests.metallb.site import Site, Tenant, run_site
from tests.polling import until
from tests.tenants import HOME, POOL, TEAM, format_entry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

QUICK = ("--growth-when-exhausted=1s", "--shrink-after=5s", "--tenant-requeue-deleting=200ms")
SIX = {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}
PREFER = {"ipFamilyPolicy": "PreferDualStack"}
REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}
CIDRS = ("10.40.0.0/28", "fd40::/48")


async def _create_ready_tenant(site: Site, **sizes: Any) -> Tenant:
    """Create a pool and the cluster `a` of both families; return the tenant once it is Ready."""
    await site.offer(*CIDRS, allocationMode="elastic", **sizes)
    await site.create_cluster("a", **REQUIRE)
    await site.ready("a")
    return site.tenants["a"]


async def _list_expected_entries(site: Site, *names: str) -> tuple[str, ...]:
    """Return the expected entries of the tenant's pool: both ranges of each allocation."""
    entries: list[str] = []
    for name in names:
        await site.wait_until_allocated(name)
        allocation = await site.find_allocation(name)
        assert allocation is not None
        held_ranges = statusranges.list_held_ranges(allocation)
        assert [held_range.family for held_range in held_ranges] == [4, 6]
        entries += map(format_entry, held_ranges)
    return tuple(entries)


async def test_services_of_both_families_get_both_addresses_from_the_tenants_pool(
    tmp_path: Path,
) -> None:
    async with run_site(tmp_path) as site, site.controllers(*QUICK):
        tenant = await _create_ready_tenant(site, initialPoolSize=2, growthIncrement=2)
        assert await tenant.list_entries() == await _list_expected_entries(site, "team-a-lb")
        await tenant.create_services("prefer", spec=PREFER)
        await tenant.create_services("require", spec=REQUIRE)
        await tenant.wait_until_served("prefer", "require")
        all_addresses = await tenant.list_all_addresses()
        held_ranges = await site.list_ranges("a")
        for addresses in all_addresses.values():
            assert [":" in address for address in addresses] == [False, True]
            assert all(
                any(span.contains(address) for span in held_ranges) for address in addresses
            )


async def test_a_tenant_grows_for_the_family_that_is_out_and_gives_both_back_together(
    tmp_path: Path,
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        tenant = await _create_ready_tenant(site, initialPoolSize=1, growthIncrement=1)
        initial = await _list_expected_entries(site, "team-a-lb")
        await tenant.create_services("one", spec=SIX)
        first = await tenant.wait_until_served("one")
        await tenant.create_services(
            "two", spec=SIX
        )  # an address of IPv4 is free, and does not help
        await tenant.wait_until_served("one", "two")
        grown = await _list_expected_entries(site, "team-a-lb-1")
        assert await tenant.list_entries() == (*initial, *grown)

        await tenant.stop_serving("two")
        await site.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb-1")
        assert await tenant.list_entries() == initial
        assert await tenant.read_addresses() == first

        await tenant.stop_serving("one")
        await delete(site.client, TENANT_CLUSTER, Key(TEAM, "a"))
        await site.wait_until_gone(IP_ALLOCATION, HOME, "team-a-lb")
        pool = await until(
            lambda: site.client.get(NETWORK_POOL, POOL),
            lambda pool: (pool.status.allocationCount, pool.status.available) == (0, 16),
        )
        assert pool.status.secondary is not None
        assert pool.status.secondary.available == 2**80
        assert await recording.findings() == []
