"""The status of waiting allocations whose pool hands out nothing, and when it is written."""

from typing import Any

import pytest

from controller.errors import Invalid
from controller.outcome import Blocked
from reconcilers.configuration.settings import PoolSettings, Settings
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica
from tests.reconcilers.platform import Platform

RESERVED_OUTSIDE = ["10.99.0.0/28"]
"""A reserved CIDR outside the pool: it makes the pool invalid, so that it hands out nothing."""
NOT_READY = "NetworkPool butler-system/lab is not ready: ValidationFailed"
SMALL_BATCHES = Settings(pool=PoolSettings(batch=4))
"""Settings with which a pass writes at most four allocations."""


def _make_lab(*allocations: Any, settings: Settings | None = None) -> Lab:
    """Return a lab with an invalid pool, and with these allocations of it."""
    lab = Lab(settings)
    lab.server.add("networkpools", make.pool(reserved=RESERVED_OUTSIDE))
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def _read_status(lab: Lab, name: str) -> tuple[Any, Any, Any]:
    """Return the phase of an allocation, and reason and message of its Ready condition."""
    ready = lab.find_condition("ipallocations", name, "Ready")
    phase = lab.read_status("ipallocations", name).get("phase")
    return phase, ready.get("reason"), ready.get("message")


def _repair_pool(lab: Lab) -> None:
    """Make the pool valid, so that it hands out addresses."""
    lab.server.edit("networkpools", "lab", {"spec": {"reserved": []}})


@pytest.mark.parametrize("phase", [None, "Pending", "Failed"])
async def test_an_allocation_shows_in_the_same_pass_why_its_pool_hands_out_nothing(
    phase: str | None,
) -> None:
    lab = _make_lab(make.allocation("a", phase=phase))
    assert await lab.run_pool_pass() == Blocked("ValidationFailed")
    assert _read_status(lab, "a") == ("Pending", "PoolNotReady", NOT_READY)


async def test_the_reason_is_written_once_and_replaced_when_the_pool_serves_again() -> None:
    lab = _make_lab(make.allocation("a"), make.allocation("huge", size=1000))
    await lab.run_pool_pass()
    lab.server.requests.clear()
    await lab.run_pool_pass()
    assert lab.server.requests == []
    _repair_pool(lab)
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert _read_status(lab, "huge")[:2] == ("Failed", "PoolExhausted")


async def test_an_allocation_without_our_finalizer_is_not_written() -> None:
    lab = _make_lab(make.allocation("a", finalizers=[]))
    await lab.run_pool_pass()
    assert lab.server.count(verb="patch", plural="ipallocations") == 0


async def test_many_allocations_are_written_in_batches_by_passes_that_follow_at_once() -> None:
    lab = _make_lab(
        *(make.allocation(f"a{number}") for number in range(10)), settings=SMALL_BATCHES
    )
    outcomes = [await lab.run_pool_pass() for _ in range(3)]
    at_once = Blocked("ValidationFailed", 0.0)
    assert outcomes == [at_once, at_once, Blocked("ValidationFailed")]
    assert {_read_status(lab, f"a{number}") for number in range(10)} == {
        ("Pending", "PoolNotReady", NOT_READY)
    }
    assert lab.server.count(verb="patch", plural="ipallocations") == 10


async def test_a_refused_write_keeps_no_other_allocation_waiting_and_is_retried_later() -> None:
    names = [f"a{number}" for number in range(10)]
    lab = _make_lab(*map(make.allocation, names), settings=SMALL_BATCHES)
    for name in names[:4]:
        lab.server.fail(Invalid(422, "Invalid", "no"), times=1, verb="patch", name=name)
    for _ in range(3):
        await lab.run_pool_pass()
    assert [_read_status(lab, name)[0] for name in names] == [None] * 4 + ["Pending"] * 6
    lab.server.requests.clear()
    outcome = await lab.run_pool_pass()
    assert lab.server.requests == []
    assert isinstance(outcome, Blocked)
    assert outcome.after is not None
    await lab.clock.advance(outcome.after)
    await lab.run_pool_pass()
    assert [_read_status(lab, name)[0] for name in names] == ["Pending"] * 10


async def test_a_replica_with_an_old_view_of_the_pool_overwrites_no_answer_of_another() -> None:
    lab = _make_lab(make.allocation("a", size=1000))
    stale = Replica(lab)
    await lab.run_pool_pass()
    stale.hold_events("networkpools")
    _repair_pool(lab)
    await lab.run_pool_pass()
    answer = _read_status(lab, "a")
    assert answer[:2] == ("Failed", "PoolExhausted")
    await stale.pools.reconcile(make.key("lab"))
    assert _read_status(lab, "a") == answer


async def test_two_leaders_do_not_overwrite_each_others_reports() -> None:
    lab = _make_lab(make.allocation("a"), make.allocation("b"))
    second = Replica(lab)
    for _ in range(2):
        await lab.run_pool_pass()
        await second.pools.reconcile(make.key("lab"))
        await lab.run_allocation_pass("a")
        await second.allocations.reconcile(make.key("a"))
    assert lab.server.count(verb="patch", plural="ipallocations") == 2


async def test_the_reason_that_the_pool_is_missing_is_replaced_once_the_pool_is_created() -> None:
    lab = Lab()
    lab.server.add("ipallocations", make.allocation("a"))
    await lab.run_allocation_pass("a")
    assert _read_status(lab, "a")[1] == "PoolNotFound"
    lab.server.add("networkpools", make.pool(reserved=RESERVED_OUTSIDE))
    for _ in range(2):
        await lab.run_pool_pass()
        await lab.run_allocation_pass("a")
    assert _read_status(lab, "a") == ("Pending", "PoolNotReady", NOT_READY)


async def test_an_allocation_reports_once_that_its_pool_is_being_deleted() -> None:
    lab = _make_lab(
        make.allocation("a"), make.allocation("b", held_range=("10.40.0.0", "10.40.0.7"))
    )
    await lab.run_pool_pass()
    lab.server.delete("networkpools", "lab")
    for _ in range(3):
        await lab.run_pool_pass()
        await lab.run_allocation_pass("a")
    assert _read_status(lab, "a")[2] == "NetworkPool butler-system/lab is being deleted"
    patches = lab.server.count(verb="patch", plural="ipallocations", name="a")
    assert patches == 2, "one because the pool is invalid, one because it is deleted"


@pytest.mark.parametrize("number", [1, 300, 1000])
async def test_a_burst_costs_two_writes_for_each_allocation(number: int) -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/16"))
    async with platform.running():
        await platform.clock.advance(1)
        platform.server.requests.clear()
        for index in range(number):
            allocation = make.allocation(f"a{index:04}", tenant="x/y", size=4, finalizers=[])
            platform.server.add("ipallocations", allocation)
        await platform.clock.advance(20)
    phases = {platform.phase("ipallocations", f"a{index:04}") for index in range(number)}
    assert phases == {"Allocated"}
    writes = platform.server.count(verb="patch", plural="ipallocations")
    assert writes == 2 * number
    pool_writes = platform.server.count(verb="patch", plural="networkpools")
    assert pool_writes <= 2 + 0.1 * number, "the pool is written for batches, not for each"
