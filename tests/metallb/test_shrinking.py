"""What a tenant does not use any more goes back, and no Service loses an address by it."""

from pathlib import Path

import pytest

from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from tests.metallb.site import run_site
from tests.numbers import Note
from tests.polling import until
from tests.tenants import HOME, POOL, format_entry

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("real_programs")]

SLOW_GROWTH = (
    "--growth-when-exhausted=5s",
    "--shrink-after=5s",
    "--tenant-requeue-deleting=200ms",
)
QUICK = ("--growth-when-exhausted=1s", "--shrink-after=5s", "--tenant-requeue-deleting=200ms")


async def test_a_range_without_services_goes_back_and_services_keep_their_addresses(
    tmp_path: Path, record_property: Note
) -> None:
    async with (
        run_site(tmp_path) as site,
        site.controllers(*QUICK),
        site.record_clusters() as recording,
    ):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer("10.40.0.0/28", allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("one")
        await tenant.wait_until_served("one")
        await tenant.create_services("two", "three")
        before = await tenant.wait_until_served("one", "two", "three")
        grown = [await site.wait_until_allocated(f"team-a-lb-{number}") for number in (1, 2)]
        (number, idle) = next(
            (number, span)
            for number, span in enumerate(grown, start=1)
            if span.contains(before["two"])
        )
        await tenant.stop_serving("two")
        await site.wait_until_gone(IP_ALLOCATION, HOME, f"team-a-lb-{number}")

        del before["two"]
        held_ranges = await site.list_ranges("a")
        assert idle not in held_ranges
        assert sorted(await tenant.list_entries()) == sorted(map(format_entry, held_ranges))
        assert await tenant.read_addresses() == before
        await until(
            lambda: site.client.get(NETWORK_POOL, POOL),
            lambda pool: (pool.status.availableIPs, pool.status.allocationCount) == (13, 3),
        )
        assert await recording.findings() == []
        for name, address in before.items():
            recorded_addresses = recording.records.list_shown_by(tenant.key, Key("default", name))
            assert recorded_addresses == {address}, "it never had another"
        record_property("shrink", recording.summary())


@pytest.mark.usefixtures("counting_metallb")
async def test_a_range_that_a_service_needs_as_it_is_taken_out_comes_back_to_the_tenant(
    tmp_path: Path,
) -> None:
    async with run_site(tmp_path) as site, site.controllers(*SLOW_GROWTH):
        sizes = {"initialPoolSize": 1, "growthIncrement": 1}
        await site.offer("10.40.0.0/28", allocationMode="elastic", **sizes)
        await site.create_cluster("a")
        await site.ready("a")
        tenant = site.tenants["a"]
        await tenant.create_services("one")
        await tenant.wait_until_served("one")
        await tenant.create_services("two")
        kept = (await tenant.wait_until_served("one", "two"))["one"]
        idle = format_entry(await site.wait_until_allocated("team-a-lb-1"))
        before = await site.find_allocation("team-a-lb-1")
        assert before is not None
        await tenant.stop_serving("two")
        await until(lambda: site.find_allocation("team-a-lb-1"), _is_out_of_use)
        with tenant.freeze_metallb():
            await until(tenant.list_entries, lambda entries: idle not in entries)
            await tenant.create_services("three")
        addresses = await tenant.wait_until_served("one", "three")
        assert addresses["one"] == kept
        assert f"{addresses['three']}-{addresses['three']}" == idle
        after = await site.find_allocation("team-a-lb-1")
        assert after is not None
        assert after.metadata.uid == before.metadata.uid, "it was never released"


def _is_out_of_use(allocation: IPAllocation | None) -> bool:
    """Return whether it is noted on an allocation that no Service uses it."""
    return (
        allocation is not None and names.ANNOTATION_IDLE_SINCE in allocation.metadata.annotations
    )
