"""Passes over a pool: what is handed out, in how many writes, and what happens on failures."""

from dataclasses import replace
from typing import Any

import pytest

from controller.errors import Forbidden, Invalid, NoAnswer, NotFound, ServerFailure
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.configuration.settings import PoolSettings, Settings
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica

FINALIZER = "butler.butlerlabs.dev/networkpool"


def _lab(*allocations: Any, pool: Any = None, settings: Settings | None = None) -> Lab:
    lab = Lab(settings)
    lab.server.add("networkpools", pool or make.pool())
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def _ranges(lab: Lab) -> dict[str, str | None]:
    return {
        obj["metadata"]["name"]: (obj.get("status") or {}).get("cidr")
        for obj in lab.server.all("ipallocations")
    }


async def _until_calm(lab: Lab, replica: Replica | None = None, passes: int = 30) -> Outcome:
    """Run passes, each when the one before asked for it, until one asks for no more soon."""
    for _ in range(passes):
        outcome = await (replica or lab).pools.reconcile(make.key("lab"))
        if not isinstance(outcome, Again) or outcome.after >= 60:
            return outcome
        await lab.clock.advance(outcome.after)
    raise AssertionError(f"still not calm after {passes} passes")


async def test_a_new_pool_gets_the_finalizer_a_memory_and_a_status() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(finalizers=[], memory=None))
    await lab.pool()
    assert lab.server.see("networkpools", "lab")["metadata"]["finalizers"] == [FINALIZER]
    status = lab.see("networkpools", "lab")
    assert make.revision_of(status) == "0"
    assert (status["totalIPs"], status["availableIPs"], status["allocatedIPs"]) == (256, 256, 0)


async def test_all_waiting_allocations_are_served_in_one_pass() -> None:
    lab = _lab(make.allocation("a", age=2), make.allocation("b", size=4, age=1))
    assert await lab.pool() == Again(5.0)
    assert _ranges(lab) == {"a": "10.40.0.0/29", "b": "10.40.0.8/30"}
    status = lab.see("ipallocations", "a")
    assert status["phase"] == "Allocated"
    assert status["addresses"] == [f"10.40.0.{n}" for n in range(8)]
    assert (status["allocatedCount"], status["allocatedBy"]) == (8, "networkpool-controller")
    ready = lab.condition("ipallocations", "a", "Ready")
    chosen = "out of the smallest free block that fits (256 addresses; 1 block fitted)"
    message = f"allocated 8 IPs: 10.40.0.0/29 from lab, {chosen}"
    assert (ready["status"], ready["message"]) == ("True", message)
    assert [event[1:] for event in lab.recorded.events] == [
        ("IPsAllocated", "Allocated 8 IPs (10.40.0.0 - 10.40.0.7) for a"),
        ("IPsAllocated", "Allocated 4 IPs (10.40.0.8 - 10.40.0.11) for b"),
    ]


@pytest.mark.slow
async def test_a_thousand_allocations_cost_hardly_more_than_one_write_each() -> None:
    lab = _lab(pool=make.pool(cidr="10.0.0.0/16"))
    for number in range(1000):
        lab.server.add("ipallocations", make.allocation(f"a{number:04}", size=2))
    await _until_calm(lab)
    assert all(_ranges(lab).values())
    created = 1000
    written = lab.server.count(verb="patch", plural="ipallocations")
    assert created + written <= 2.1 * 1000
    assert lab.server.count(verb="patch", plural="networkpools") <= 8


async def test_at_rest_there_are_no_requests() -> None:
    lab = _lab(make.allocation("a"), make.allocation("too-big", size=500))
    await _until_calm(lab)
    await lab.clock.advance(120)
    await lab.pool()
    lab.server.requests.clear()
    for _ in range(3):
        assert await lab.pool() == Again(60.0)
        await lab.clock.advance(60)
    assert lab.server.requests == []


async def test_a_refusal_that_cannot_be_written_is_tried_again_once_in_a_resync() -> None:
    lab = _lab(make.allocation("too-big", size=500))
    denied = Forbidden(403, "Forbidden", "denied by a policy")
    lab.server.fail(denied, times=100, verb="patch", plural="ipallocations")
    await lab.pool()
    lab.server.requests.clear()
    for _ in range(11):
        await lab.clock.advance(5)
        await lab.pool()
    assert lab.server.count(verb="patch", plural="ipallocations") == 0
    await lab.clock.advance(10)
    await lab.pool()
    assert lab.server.count(verb="patch", plural="ipallocations") == 1
    lab.server.recover()
    await lab.clock.advance(60)
    await lab.pool()
    assert lab.condition("ipallocations", "too-big", "Ready")["reason"] == "PoolExhausted"


async def test_settled_promises_go_with_the_next_assigning_write() -> None:
    lab = _lab(make.allocation("a"))
    await lab.pool()
    await lab.pool()
    assert len(lab.see("networkpools", "lab")["assignments"]) == 1, "no write of their own"
    resource_version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    lab.server.add("ipallocations", make.allocation("b"))
    await lab.pool()
    status = lab.see("networkpools", "lab")
    assert [p["name"] for p in status["assignments"]] == ["b"]
    assert make.revision_of(status) == resource_version


async def test_a_pool_whose_kind_is_not_served_for_a_moment_is_not_taken_for_deleted() -> None:
    lab = _lab()
    await _until_calm(lab)
    served_kinds = lab.server.served
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.served = tuple(kind for kind in served_kinds if kind != "networkpools")
    with pytest.raises(NotFound, match="404 page not found"):  # tried again, ever later
        await lab.pools.reconcile(make.key("lab"))
    lab.server.served = served_kinds
    await _until_calm(lab)
    assert _ranges(lab) == {"a": "10.40.0.0/29"}


async def test_settled_promises_go_after_a_quiet_minute() -> None:
    lab = _lab(make.allocation("a"))
    await lab.pool()
    await lab.clock.advance(59)
    await lab.pool()
    assert len(lab.see("networkpools", "lab")["assignments"]) == 1
    await lab.clock.advance(1)
    await lab.pool()
    assert lab.see("networkpools", "lab")["assignments"] == []


async def test_a_count_that_can_never_fit_says_what_would() -> None:
    lab = _lab(make.allocation("a", size=257))
    await lab.pool()
    message = lab.condition("ipallocations", "a", "Ready")["message"]
    assert message.endswith("it never has 257 addresses in a row, 256 at the most")


async def test_an_allocation_that_does_not_fit_is_failed_with_the_reason() -> None:
    lab = _lab(make.allocation("holder", held_range=("10.40.0.9", "10.40.0.9")))
    lab.server.add("ipallocations", make.allocation("a", size=256))
    await lab.pool()
    assert lab.see("ipallocations", "a")["phase"] == "Failed"
    ready = lab.condition("ipallocations", "a", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "PoolExhausted")
    assert ready["message"] == "pool exhausted: no contiguous block available"
    assert lab.recorded.events == [
        (
            "Warning",
            "AllocationFailed",
            "Failed to allocate IPs for a: pool exhausted: no contiguous block available",
        )
    ]


async def test_a_failed_allocation_is_served_when_space_is_freed() -> None:
    lab = _lab(
        make.allocation("holder", held_range=("10.40.0.0", "10.40.0.255")),
        make.allocation("waiter"),
    )
    await lab.pool()
    assert lab.see("ipallocations", "waiter")["phase"] == "Failed"
    lab.server.vanish("ipallocations", "holder")
    await lab.pool()
    assert lab.see("ipallocations", "waiter")["phase"] == "Allocated"


async def test_nothing_is_failed_unless_the_pool_could_be_written() -> None:
    lab = _lab(make.allocation("a", size=257))
    lab.server.fail(ServerFailure(500, "InternalError", "no"), plural="networkpools")
    with pytest.raises(ServerFailure):
        await lab.pool()
    assert lab.see("ipallocations", "a").get("phase") is None


async def test_a_replica_with_an_old_view_of_the_pool_marks_no_allocation_as_failed() -> None:
    lab = _lab(make.allocation("b", age=9, held_range=("10.40.0.0", "10.40.0.255")))
    slow = lab.another()
    lab.server.add("ipallocations", make.allocation("a", size=8))
    slow.hold("networkpools", "ipallocations")
    lab.server.vanish("ipallocations", "b")
    await lab.pool()
    assert _ranges(lab) == {"a": "10.40.0.0/29"}
    await slow.pools.reconcile(make.key("lab"))
    assert lab.see("ipallocations", "a")["phase"] == "Allocated"


async def test_a_conflict_forgets_the_choice_and_begins_again() -> None:
    lab = _lab(make.allocation("a"))
    lab.hold("networkpools")
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.50.0.0/24"}})
    assert await lab.pool() == Again(5.0)
    assert _ranges(lab) == {"a": "10.50.0.0/29"}


async def test_a_pool_that_goes_during_a_pass_is_no_error() -> None:
    lab = _lab(make.allocation("a"))
    lab.hold("networkpools")
    lab.server.vanish("networkpools", "lab")
    assert await lab.pool() == SETTLED
    assert _ranges(lab) == {"a": None}


async def test_while_the_cache_is_behind_the_pass_waits_and_then_lists() -> None:
    lab = _lab(make.allocation("a"))
    lab.hold("ipallocations")
    lab.server.add("ipallocations", make.allocation("b", age=5))
    uid = lab.server.see("networkpools", "lab")["metadata"]["uid"]
    reached = make.journal_of(uid, lab.server.revision)
    lab.server.edit("networkpools", "lab", {"status": reached})
    assert await lab.pool() == Again(0.1)
    assert lab.server.requests == []
    await lab.clock.advance(1.0)
    await lab.pool()
    assert lab.server.count(verb="list", plural="ipallocations") == 1
    assert _ranges(lab) == {"b": "10.40.0.0/29", "a": "10.40.0.8/29"}


async def test_a_lost_answer_of_an_allocations_write_is_no_lost_range() -> None:
    lab = _lab(make.allocation("a"))
    lab.hold("ipallocations")
    lab.server.lose_answers(verb="patch", plural="ipallocations")
    assert await lab.pool() == Again(1.0)
    lab.flow()
    await lab.pool()
    assert _ranges(lab) == {"a": "10.40.0.0/29"}
    assert lab.see("networkpools", "lab")["allocatedIPs"] == 8


async def test_a_write_that_never_ran_is_tried_again() -> None:
    lab = _lab(make.allocation("a"))
    lab.server.fail(NoAnswer("timed out"), verb="patch", plural="ipallocations")
    outcome = await lab.pool()
    assert outcome == Again(1.0)
    await lab.pool()
    assert _ranges(lab) == {"a": "10.40.0.0/29"}
    assert lab.see("networkpools", "lab")["allocatedIPs"] == 8, "the very range of the promise"


async def test_a_lost_answer_of_the_pools_write_is_completed_at_once() -> None:
    lab = _lab(make.allocation("a"))
    lab.server.lose_answers(verb="patch", plural="networkpools")
    with pytest.raises(NoAnswer):
        await lab.pool()
    await lab.pool()
    assert _ranges(lab) == {"a": "10.40.0.0/29"}


async def test_promises_of_others_are_completed_after_two_seconds_unchanged() -> None:
    waiting = make.allocation("a")
    lab = _lab(waiting)
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    entry = make.promise(waiting, "10.40.0.64", "10.40.0.71", version=version)
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.with_promises(stored, make.list_promise(entry)))
    assert await lab.pool() == Again(2.0)
    await lab.clock.advance(1.9)
    await lab.pool()
    assert _ranges(lab) == {"a": None}
    await lab.clock.advance(0.1)
    await lab.pool()
    assert _ranges(lab) == {"a": "10.40.0.64/29"}


async def test_promises_of_others_are_checked_in_time_despite_own_work() -> None:
    foreign = make.allocation("a")
    lab = _lab(foreign, *(make.allocation(f"b{n}") for n in range(3)))
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    entry = make.promise(foreign, "10.40.0.64", "10.40.0.71", version=version)
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.with_promises(stored, make.list_promise(entry)))
    assert await lab.pool() == Again(2.0)


async def test_a_write_refused_for_good_is_reported_and_stops_no_other_write() -> None:
    lab = _lab(make.allocation("bad", age=5), make.allocation("good"))
    lab.server.fail(
        Invalid(422, "Invalid", "status is odd"),
        times=1000,
        verb="patch",
        plural="ipallocations",
        name="bad",
    )
    await lab.pool()
    assert _ranges(lab) == {"bad": None, "good": "10.40.0.8/29"}
    assert [p["name"] for p in lab.see("networkpools", "lab")["assignments"]] == ["bad", "good"]
    assert [reason for _, reason, _ in lab.recorded.events] == ["AllocationFailed", "IPsAllocated"]


async def test_a_write_refused_for_good_causes_no_hot_loop() -> None:
    lab = _lab(make.allocation("bad"))
    lab.server.fail(
        Invalid(422, "Invalid", "status is odd"), times=1000, verb="patch", plural="ipallocations"
    )
    for _ in range(200):
        outcome = await lab.pool()
        assert isinstance(outcome, Again)
        await lab.clock.advance(outcome.after)
        if lab.clock.monotonic() >= 600:
            break
    writes = lab.server.count(verb="patch", plural="ipallocations")
    assert writes <= 2 * 11, "ten minutes, once each, and a write to void the promise"
    assert lab.clock.monotonic() >= 600
    assert [p["name"] for p in lab.see("networkpools", "lab")["assignments"]] == ["bad"]


async def test_a_full_list_of_open_promises_is_waited_for_without_spinning() -> None:
    settings = Settings(pool=replace(PoolSettings(), batch=512))
    lab = Lab(settings)
    pool = make.pool(cidr="10.40.0.0/21")
    waiting = [make.allocation(f"a{n:03}", size=1) for n in range(520)]
    lab.server.add("networkpools", pool)
    entries = []
    for number, allocation in enumerate(waiting):
        created = lab.server.add("ipallocations", allocation)
        address = f"10.40.{number >> 8}.{number & 255}"
        version = created["metadata"]["resourceVersion"]
        entries.append(
            make.list_promise(make.promise(allocation, address, address, version=version))
        )
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.with_promises(stored, *entries[:512]))
    outcome = await lab.pool()
    assert outcome == Again(2.0)
    await lab.clock.advance(2.0)
    await _until_calm(lab)
    assert all(_ranges(lab).values())


async def test_an_unsound_pool_says_so_and_recovers() -> None:
    lab = _lab(make.allocation("a"), pool=make.pool(reserved=["10.41.0.0/28"]))
    assert await lab.pool() == Blocked("ValidationFailed")
    ready = lab.condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ValidationFailed")
    assert ready["message"].startswith("validation errors: [reserved CIDR ")
    assert lab.condition("networkpools", "lab", "Stalled")["status"] == "True"
    assert _ranges(lab) == {"a": None}
    lab.server.requests.clear()
    await lab.pool()
    assert lab.server.requests == [], "said once is enough"
    lab.server.edit("networkpools", "lab", {"spec": {"reserved": []}})
    await lab.pool()
    assert lab.condition("networkpools", "lab", "Ready")["status"] == "True"
    assert lab.condition("networkpools", "lab", "Stalled") == {}
    assert _ranges(lab) == {"a": "10.40.0.0/29"}
