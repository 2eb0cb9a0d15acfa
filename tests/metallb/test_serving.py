"""Services in a tenant get addresses of ours, and the tenant grows for those that wait."""

from pathlib import Path
from time import monotonic

import pytest

from controller.meta import Key
from tests.metallb.site import Site, run_site
from tests.numbers import Note
from tests.polling import until
from tests.tenants import format_entry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

EXHAUSTED = "--growth-when-exhausted=2s"
NEVER_OTHERWISE = "--growth-after=1h"


async def _grow_for_a_second_service(site: Site) -> str:
    """Have one Service served, and the tenant grown for another.

    Returns:
        How long it took from when the second Service was created until the range that the tenant
        was grown by was in MetalLB's pool, and which MetalLB that is.
    """
    sizes = {"initialPoolSize": 1, "growthIncrement": 2}
    await site.offer("10.40.0.0/24", allocationMode="elastic", **sizes)
    await site.create_cluster("a")
    await site.ready("a")
    tenant = site.tenants["a"]
    await tenant.create_services("first")
    first = await tenant.wait_until_served("first")
    initial = await site.wait_until_allocated("team-a-lb")
    assert initial.contains(first["first"])

    await tenant.create_services("second")
    began = monotonic()
    entries = await until(tenant.list_entries, lambda items: len(items) > 1)
    seconds = monotonic() - began
    both = await tenant.wait_until_served("first", "second")
    grown = await site.wait_until_allocated("team-a-lb-1")
    assert entries == (format_entry(initial), format_entry(grown))
    assert grown.contains(both["second"])
    assert both["first"] == first["first"], "who had an address keeps it"
    return f"{seconds:.1f} s, MetalLB {tenant.metallb.version}"


async def test_a_service_gets_an_address_and_a_second_one_makes_the_tenant_grow(
    tmp_path: Path, record_property: Note
) -> None:
    async with run_site(tmp_path) as site, site.controllers(), site.record_clusters() as recording:
        took = await _grow_for_a_second_service(site)
        assert await recording.findings() == []
    record_property("from Service to MetalLB's pool, default timings", took)


async def test_a_tenant_grows_at_once_when_its_pool_is_exhausted_if_that_is_asked_for(
    tmp_path: Path, record_property: Note
) -> None:
    flags = (EXHAUSTED, NEVER_OTHERWISE)
    async with (
        run_site(tmp_path) as site,
        site.controllers(*flags),
        site.record_clusters() as recording,
    ):
        took = await _grow_for_a_second_service(site)
        assert await recording.findings() == []
    record_property(f"from Service to MetalLB's pool, {EXHAUSTED}", took)


async def test_fifty_services_at_once_all_get_addresses_within_the_quota(
    tmp_path: Path, record_property: Note
) -> None:
    services = [f"web-{number}" for number in range(50)]
    async with (
        run_site(tmp_path) as site,
        site.controllers(EXHAUSTED),
        site.record_clusters() as recording,
    ):
        sizes = {"initialPoolSize": 8, "growthIncrement": 8}
        await site.offer("10.40.0.0/24", quota=60, allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services(*services)
        began = monotonic()
        shown_addresses = await tenant.wait_until_served(*services)
        record_property(f"50 addresses, {EXHAUSTED}", f"{monotonic() - began:.1f} s")

        held_ranges = await site.list_ranges("a")
        assert len(set(shown_addresses.values())) == 50, "each its own"
        assert all(
            any(held_range.contains(ip) for held_range in held_ranges)
            for ip in shown_addresses.values()
        )
        assert sum(held_range.size for held_range in held_ranges) == 56, (
            "seven ranges of eight: no more than needed"
        )
        assert sorted(await tenant.list_entries()) == sorted(map(format_entry, held_ranges))
        assert await recording.findings() == []
        for name, address in shown_addresses.items():
            recorded_addresses = recording.records.list_shown_by(tenant.key, Key("default", name))
            assert recorded_addresses == {address}, "it never had another"
