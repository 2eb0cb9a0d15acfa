"""Events of passes over a pool: one for each of up to eight allocations, else one for all."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from controller.client import Client
from controller.errors import Invalid
from controller.events import Recorder
from tests.reconcilers import make
from tests.reconcilers.lab import Lab


def _make_lab(count: int, size: int = 2, cidr: str = "10.40.0.0/22") -> Lab:
    """Return a lab with a pool, and with `count` waiting allocations of `size` addresses each."""
    lab = Lab()
    lab.server.add("networkpools", make.pool(cidr=cidr))
    _add_requests(lab, count, size)
    return lab


NEVER_FITS = ": it never has 2000 addresses in a row, 1024 at the most"
"""How the message about a request of 2000 addresses ends; the pool has 1024."""


def _add_requests(lab: Lab, count: int, size: int = 2, stem: str = "a") -> None:
    """Add `count` waiting allocations, the oldest first, with names that begin with `stem`."""
    for number in range(count):
        name = f"{stem}{number:03}"
        lab.server.add("ipallocations", make.allocation(name, size=size, age=count - number))


@asynccontextmanager
async def _recorded_passes(lab: Lab) -> AsyncIterator[Callable[[], Awaitable[list[str]]]]:
    """Yield a function that runs a pass with the real recorder and returns all stored notes."""
    recorder = Recorder(Client(lab.server), lab.clock, "test/pools")
    pools = lab.make_pool_reconciler(recorder=recorder)

    async def run_pass() -> list[str]:
        await pools.reconcile(make.key("lab"))
        await lab.clock.advance(1)
        return [event["note"] for event in lab.server.all("events")]

    async with anyio.create_task_group() as group:
        group.start_soon(recorder.run)
        yield run_pass
        group.cancel_scope.cancel()


async def test_each_of_a_few_grants_has_an_event_of_its_own() -> None:
    lab = _make_lab(2)
    async with _recorded_passes(lab) as one_pass:
        notes = await one_pass()
    assert notes == [
        "Allocated 2 IPs (10.40.0.0 - 10.40.0.1) for a000",
        "Allocated 2 IPs (10.40.0.2 - 10.40.0.3) for a001",
    ]
    event = lab.server.all("events")[1]
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("NetworkPool", "lab")
    assert (event["related"]["kind"], event["related"]["name"]) == ("IPAllocation", "a001")


async def test_each_of_a_few_failures_has_an_event_of_its_own() -> None:
    why = f"pool exhausted: no contiguous block available{NEVER_FITS}"
    async with _recorded_passes(_make_lab(2, size=2000)) as one_pass:
        notes = await one_pass()
    assert notes == [
        f"Failed to allocate IPs for a000: {why}",
        f"Failed to allocate IPs for a001: {why}",
    ]


async def test_a_grant_of_the_next_pass_has_an_event_of_its_own_too() -> None:
    lab = _make_lab(1)
    async with _recorded_passes(lab) as one_pass:
        await one_pass()
        _add_requests(lab, 1, stem="b")
        notes = await one_pass()
    assert "Allocated 2 IPs (10.40.0.2 - 10.40.0.3) for b000" in notes


@pytest.mark.parametrize(("count", "events"), [(8, 8), (9, 1)])
async def test_up_to_eight_grants_have_events_of_their_own_and_more_share_one(
    count: int, events: int
) -> None:
    lab = _make_lab(count)
    await lab.run_pool_pass()
    assert lab.recorded.reasons == ["IPsAllocated"] * events
    assert all(lab.recorded.related) == (events == count), "a shared event relates to none"


async def test_the_event_of_many_grants_names_the_batch() -> None:
    lab = _make_lab(9)
    await lab.run_pool_pass()
    ((_, _, note),) = lab.recorded.events
    assert note.startswith(
        "Allocated 18 IPs for 9 IPAllocations:"
        " a000 (10.40.0.0 - 10.40.0.1), a001 (10.40.0.2 - 10.40.0.3), "
    )
    assert note.endswith(", a008 (10.40.0.16 - 10.40.0.17)")


async def test_the_event_of_very_many_grants_says_how_many_it_does_not_name() -> None:
    lab = _make_lab(100)
    await lab.run_pool_pass()
    ((_, _, note),) = lab.recorded.events
    assert 900 < len(note.encode()) <= 1024
    named_count = note.count(" - ")
    assert note.endswith(f", ... and {100 - named_count} more")


async def test_the_event_of_many_failures_names_the_batch() -> None:
    lab = _make_lab(30, size=2000)
    await lab.run_pool_pass()
    ((kind, reason, note),) = lab.recorded.events
    assert (kind, reason) == ("Warning", "AllocationFailed")
    assert note.startswith(
        "Failed to allocate IPs for 30 IPAllocations:"
        f" a000 (pool exhausted: no contiguous block available{NEVER_FITS}), a001 ("
    )
    assert len(note.encode()) <= 1024
    assert note.endswith(" more")


async def test_failures_of_both_kinds_in_one_pass_are_reported_together() -> None:
    lab = _make_lab(5)
    _add_requests(lab, 5, size=2000, stem="big")
    lab.server.fail(
        Invalid(422, "Invalid", "status is odd"), times=5, verb="patch", plural="ipallocations"
    )
    await lab.run_pool_pass()
    ((_, reason, note),) = lab.recorded.events
    assert reason == "AllocationFailed"
    assert "for 10 IPAllocations: a000 (422 Invalid: status is odd), " in note
    assert "big000 (pool exhausted: " in note


async def test_a_long_reason_leaves_room_for_the_others() -> None:
    lab = _make_lab(9)
    lab.server.fail(
        Invalid(422, "Invalid", "ü" * 2000), times=9, verb="patch", plural="ipallocations"
    )
    await lab.run_pool_pass()
    ((_, _, note),) = lab.recorded.events
    assert len(note.encode()) <= 1024
    assert "a000 (" in note
    assert "a001 (" in note
    assert note.endswith(" more")


async def test_after_32_events_of_their_own_further_grants_of_a_minute_share_one() -> None:
    lab = _make_lab(0)
    async with _recorded_passes(lab) as one_pass:
        notes: list[str] = []
        for number in range(50):
            _add_requests(lab, 1, stem=f"a{number:02}-")
            notes = await one_pass()
        assert len(notes) == 33, "32 events of their own, and one for the others"
        assert lab.server.count(plural="events") == 34
        assert notes[31].endswith(" for a31-000")
        assert notes[32].endswith(" for a32-000")
        await lab.clock.advance(60)
        _add_requests(lab, 1, stem="late")
        notes = await one_pass()
    assert notes[-1].endswith(" for late000")


async def test_many_grants_in_one_pool_do_not_combine_the_events_of_another() -> None:
    lab = _make_lab(0)
    lab.server.add("networkpools", make.pool("other", cidr="10.60.0.0/24"))
    for number in range(33):
        _add_requests(lab, 1, stem=f"a{number:02}-")
        await lab.run_pool_pass()
    assert lab.recorded.related[-1] == ""
    lab.server.add("ipallocations", make.allocation("calm", of="other"))
    await lab.run_pool_pass("other")
    assert lab.recorded.related[-1] == "calm"


@pytest.mark.slow
async def test_a_thousand_allocations_cost_few_events() -> None:
    lab = _make_lab(1000, cidr="10.40.0.0/16")
    async with _recorded_passes(lab) as one_pass:
        for _ in range(11):
            await one_pass()
        notes = await one_pass()
    assert all("cidr" in allocation["status"] for allocation in lab.server.all("ipallocations"))
    assert 1 <= len(notes) <= 4
    assert lab.server.count(plural="events") <= 12
