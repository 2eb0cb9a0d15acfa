"""Edits of our MetalLB pool by a user are repaired, and Services get our addresses again."""

from functools import partial
from operator import eq
from pathlib import Path

import pytest

from allocator import AddressRange
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.edits import edit
from tests.metallb.site import PROJECTED, Site, Tenant, run_site
from tests.numbers import Note
from tests.polling import until
from tests.tenants import format_entry, frozen

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

REQUEUE_FLAG = "--tenant-requeue-young=1s"
"""The interval of passes over a tenant; a minute by default."""
FOREIGN = "10.99.0.0-10.99.0.3"
OUTSIDE = {f"10.99.0.{number}" for number in range(4)}


async def _edit(site: Site, *entries: str) -> None:
    """Write other addresses into the tenant's pool, as `kubectl edit` does."""
    change = {"spec": {"addresses": list(entries)}}
    await edit(site.tenants["a"].client, IP_ADDRESS_POOL, key=PROJECTED, change=change)


async def _wait_until_repaired(site: Site) -> None:
    """Wait until the tenant's pool has our two ranges, and both Services have their addresses."""
    await until(lambda: _read_state(site), _is_repaired)


async def _read_state(site: Site) -> tuple[list[AddressRange], tuple[str, ...], dict[str, str]]:
    """Return our ranges, the entries of the pool in the tenant, and the addresses of Services."""
    tenant = site.tenants["a"]
    return await site.list_ranges("a"), await tenant.list_entries(), await tenant.read_addresses()


def _is_repaired(seen: tuple[list[AddressRange], tuple[str, ...], dict[str, str]]) -> bool:
    """Return whether the pool has our two ranges, and both Services have addresses of them."""
    held_ranges, entries, shown_addresses = seen
    ours = [
        ip
        for ip in shown_addresses.values()
        if any(held_range.contains(ip) for held_range in held_ranges)
    ]
    return len(held_ranges) == len(ours) == 2 and sorted(entries) == sorted(
        map(format_entry, held_ranges)
    )


async def _read_shown(tenant: Tenant) -> set[str]:
    """Return the addresses that Services show."""
    return set((await tenant.read_addresses()).values())


async def test_a_pool_that_a_user_edits_is_repaired(tmp_path: Path, record_property: Note) -> None:
    """Our controllers are frozen until MetalLB has read an edit, so it has to read the repair."""
    async with (
        run_site(tmp_path) as site,
        site.controllers(REQUEUE_FLAG, "--growth-when-exhausted=1s") as ours,
        site.record_clusters() as recording,
    ):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer("10.40.0.0/28", allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("one", "two")
        await _wait_until_repaired(site)
        first, second = await tenant.list_entries()

        for entries, capacity in (((FOREIGN,), 4), ((second,), 1), ((first, second, FOREIGN), 6)):
            with frozen(ours.process.pid):
                await _edit(site, *entries)
                await until(tenant.read_capacity, partial(eq, capacity))
                if entries == (FOREIGN,):
                    await until(
                        lambda: _read_shown(tenant),
                        lambda shown_addresses: shown_addresses <= OUTSIDE,
                    )
            await _wait_until_repaired(site)
        with frozen(ours.process.pid):
            await delete(tenant.client, IP_ADDRESS_POOL, PROJECTED)
            await until(tenant.read_capacity, lambda capacity: capacity == 0)
        await _wait_until_repaired(site)
        assert await tenant.list_entries() == (first, second), "nothing was handed out anew"
        assert await recording.findings() == []
        record_property("edits by hand", recording.summary())
