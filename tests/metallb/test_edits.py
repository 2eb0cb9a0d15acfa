"""What a user does to our MetalLB pool is put right, and Services get addresses of ours."""

from functools import partial
from operator import eq
from pathlib import Path
from typing import Any

import pytest

from allocator import AddressRange
from controller.errors import Conflict
from controller.meta import Version
from reconcilers.cli.local.objects import delete
from reconcilers.loadbalancers.metallb.kinds import IP_ADDRESS_POOL
from tests.metallb.site import PROJECTED, Site, Tenant, site
from tests.numbers import Note
from tests.polling import until
from tests.tenants import entry, frozen

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

LOOKS = "--tenant-requeue-young=1s"
"""Between two looks at a tenant's pool; a minute by default."""
FOREIGN = "10.99.0.0-10.99.0.3"
OUTSIDE = {f"10.99.0.{number}" for number in range(4)}


async def _edit(here: Site, *entries: str) -> None:
    """Write other addresses into the tenant's pool, as `kubectl edit` does."""
    client = here.tenants["a"].client
    spec: dict[str, Any] = {"spec": {"addresses": list(entries)}}
    while True:
        live = await client.get(IP_ADDRESS_POOL, PROJECTED)
        try:
            await client.patch(IP_ADDRESS_POOL, Version.from_object(live), spec)
        except Conflict:
            continue
        return


async def _put_right(here: Site) -> None:
    """Wait until the tenant's pool holds two ranges of ours, and both Services addresses of it."""
    await until(lambda: _read_state(here), _is_right)


async def _read_state(here: Site) -> tuple[list[AddressRange], tuple[str, ...], dict[str, str]]:
    tenant = here.tenants["a"]
    return await here.ranges_of("a"), await tenant.entries(), await tenant.addresses()


def _is_right(seen: tuple[list[AddressRange], tuple[str, ...], dict[str, str]]) -> bool:
    held_ranges, entries, shown_addresses = seen
    ours = [
        ip
        for ip in shown_addresses.values()
        if any(held_range.contains(ip) for held_range in held_ranges)
    ]
    return len(held_ranges) == len(ours) == 2 and sorted(entries) == sorted(
        map(entry, held_ranges)
    )


async def _read_shown(tenant: Tenant) -> set[str]:
    return set((await tenant.addresses()).values())


async def test_a_pool_edited_by_hand_is_put_right(tmp_path: Path, record_property: Note) -> None:
    """Ours stand still until MetalLB has taken each edit in, so each is put right in MetalLB."""
    async with (
        site(tmp_path) as here,
        here.controllers(LOOKS, "--growth-when-exhausted=1s") as ours,
        here.record_clusters() as recording,
    ):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await here.offer("10.40.0.0/28", allocationMode="elastic", **sizes)
        await here.create_cluster("a")
        await here.ready("a")
        tenant = here.tenants["a"]
        await tenant.serve("one", "two")
        await _put_right(here)
        first, second = await tenant.entries()

        for entries, capacity in (((FOREIGN,), 4), ((second,), 1), ((first, second, FOREIGN), 6)):
            with frozen(ours.process.pid):
                await _edit(here, *entries)
                await until(tenant.capacity, partial(eq, capacity))
                if entries == (FOREIGN,):
                    await until(
                        lambda: _read_shown(tenant),
                        lambda shown_addresses: shown_addresses <= OUTSIDE,
                    )
            await _put_right(here)
        with frozen(ours.process.pid):
            await delete(tenant.client, IP_ADDRESS_POOL, PROJECTED)
            await until(tenant.capacity, lambda capacity: capacity == 0)
        await _put_right(here)
        assert await tenant.entries() == (first, second), "nothing was handed out anew"
        assert await recording.findings() == []
        record_property("edits by hand", recording.summary())
