"""Passes over a pool: the ranges they hand out, how many writes they need, and failed writes."""

from dataclasses import replace
from typing import Any

import pytest

from controller.errors import Forbidden, Invalid, NoAnswer, NotFound, ServerFailure
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.configuration.settings import PoolSettings, Settings
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Replica

FINALIZER = "butler.butlerlabs.dev/networkpool"


def _make_lab(*allocations: Any, pool: Any = None, settings: Settings | None = None) -> Lab:
    """Return a lab with a pool, `make.pool()` by default, and with these allocations of it."""
    lab = Lab(settings)
    lab.server.add("networkpools", pool or make.pool())
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def _read_ranges(lab: Lab) -> dict[str, str | None]:
    """Return the CIDR in the status of each allocation, by name."""
    return {
        obj["metadata"]["name"]: (obj.get("status") or {}).get("cidr")
        for obj in lab.server.all("ipallocations")
    }


async def _run_until_settled(
    lab: Lab, replica: Replica | None = None, passes: int = 30
) -> Outcome:
    """Run passes, each when the one before asked for it, until one asks for none in a minute."""
    for _ in range(passes):
        outcome = await (replica or lab).pools.reconcile(make.key("lab"))
        if not isinstance(outcome, Again) or outcome.after >= 60:
            return outcome
        await lab.clock.advance(outcome.after)
    raise AssertionError(f"not settled after {passes} passes")


async def test_a_new_pool_gets_a_finalizer_a_journal_and_figures() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(finalizers=[], memory=None))
    await lab.run_pool_pass()
    assert lab.server.see("networkpools", "lab")["metadata"]["finalizers"] == [FINALIZER]
    status = lab.read_status("networkpools", "lab")
    assert make.read_revision(status) == "0"
    assert (status["totalIPs"], status["availableIPs"], status["allocatedIPs"]) == (256, 256, 0)


async def test_all_waiting_allocations_are_served_in_one_pass() -> None:
    lab = _make_lab(make.allocation("a", age=2), make.allocation("b", size=4, age=1))
    assert await lab.run_pool_pass() == Again(5.0)
    assert _read_ranges(lab) == {"a": "10.40.0.0/29", "b": "10.40.0.8/30"}
    status = lab.read_status("ipallocations", "a")
    assert status["phase"] == "Allocated"
    assert status["addresses"] == [f"10.40.0.{n}" for n in range(8)]
    assert (status["allocatedCount"], status["allocatedBy"]) == (8, "networkpool-controller")
    ready = lab.find_condition("ipallocations", "a", "Ready")
    chosen = "out of the smallest free block that fits (256 addresses; 1 block fitted)"
    message = f"allocated 8 IPs: 10.40.0.0/29 from lab, {chosen}"
    assert (ready["status"], ready["message"]) == ("True", message)
    assert [event[1:] for event in lab.recorded.events] == [
        ("IPsAllocated", "Allocated 8 IPs (10.40.0.0 - 10.40.0.7) for a"),
        ("IPsAllocated", "Allocated 4 IPs (10.40.0.8 - 10.40.0.11) for b"),
    ]


@pytest.mark.slow
async def test_a_thousand_allocations_cost_one_write_each_and_eight_of_the_pool() -> None:
    lab = _make_lab(pool=make.pool(cidr="10.0.0.0/16"))
    for number in range(1000):
        lab.server.add("ipallocations", make.allocation(f"a{number:04}", size=2))
    await _run_until_settled(lab)
    assert all(_read_ranges(lab).values())
    assert lab.server.count(verb="patch", plural="ipallocations") <= 1.1 * 1000
    assert lab.server.count(verb="patch", plural="networkpools") <= 8


async def test_a_pass_sends_no_request_if_nothing_has_changed() -> None:
    lab = _make_lab(make.allocation("a"), make.allocation("too-big", size=500))
    await _run_until_settled(lab)
    await lab.clock.advance(120)
    await lab.run_pool_pass()
    lab.server.requests.clear()
    for _ in range(3):
        assert await lab.run_pool_pass() == Again(60.0)
        await lab.clock.advance(60)
    assert lab.server.requests == []


async def test_a_refusal_that_cannot_be_written_is_tried_again_once_a_minute() -> None:
    lab = _make_lab(make.allocation("too-big", size=500))
    denied = Forbidden(403, "Forbidden", "denied by a policy")
    lab.server.fail(denied, times=100, verb="patch", plural="ipallocations")
    await lab.run_pool_pass()
    lab.server.requests.clear()
    for _ in range(11):
        await lab.clock.advance(5)
        await lab.run_pool_pass()
    assert lab.server.count(verb="patch", plural="ipallocations") == 0
    await lab.clock.advance(10)
    await lab.run_pool_pass()
    assert lab.server.count(verb="patch", plural="ipallocations") == 1
    lab.server.recover()
    await lab.clock.advance(60)
    await lab.run_pool_pass()
    assert lab.find_condition("ipallocations", "too-big", "Ready")["reason"] == "PoolExhausted"


async def test_settled_promises_are_dropped_by_the_next_write_of_a_promise() -> None:
    lab = _make_lab(make.allocation("a"))
    await lab.run_pool_pass()
    await lab.run_pool_pass()
    assert len(lab.read_status("networkpools", "lab")["assignments"]) == 1, (
        "settled promises cause no write of their own"
    )
    resource_version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    lab.server.add("ipallocations", make.allocation("b"))
    await lab.run_pool_pass()
    status = lab.read_status("networkpools", "lab")
    assert [p["name"] for p in status["assignments"]] == ["b"]
    assert make.read_revision(status) == resource_version


async def test_a_pool_is_not_taken_for_deleted_while_its_kind_is_not_served() -> None:
    lab = _make_lab()
    await _run_until_settled(lab)
    served_kinds = lab.server.served
    lab.server.add("ipallocations", make.allocation("a"))
    lab.server.served = tuple(kind for kind in served_kinds if kind != "networkpools")
    with pytest.raises(NotFound, match="404 page not found"):  # the runner retries
        await lab.pools.reconcile(make.key("lab"))
    lab.server.served = served_kinds
    await _run_until_settled(lab)
    assert _read_ranges(lab) == {"a": "10.40.0.0/29"}


async def test_a_promise_that_was_kept_is_dropped_from_the_journal_after_a_minute() -> None:
    lab = _make_lab(make.allocation("a"))
    await lab.run_pool_pass()
    await lab.clock.advance(59)
    await lab.run_pool_pass()
    assert len(lab.read_status("networkpools", "lab")["assignments"]) == 1
    await lab.clock.advance(1)
    await lab.run_pool_pass()
    assert lab.read_status("networkpools", "lab")["assignments"] == []


async def test_the_refusal_of_a_count_above_the_pools_size_names_the_largest_count() -> None:
    lab = _make_lab(make.allocation("a", size=257))
    await lab.run_pool_pass()
    message = lab.find_condition("ipallocations", "a", "Ready")["message"]
    assert message.endswith("it never has 257 addresses in a row, 256 at the most")


async def test_an_allocation_that_does_not_fit_is_failed_with_the_reason() -> None:
    lab = _make_lab(make.allocation("holder", held_range=("10.40.0.9", "10.40.0.9")))
    lab.server.add("ipallocations", make.allocation("a", size=256))
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a")["phase"] == "Failed"
    ready = lab.find_condition("ipallocations", "a", "Ready")
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
    lab = _make_lab(
        make.allocation("holder", held_range=("10.40.0.0", "10.40.0.255")),
        make.allocation("waiter"),
    )
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "waiter")["phase"] == "Failed"
    lab.server.vanish("ipallocations", "holder")
    await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "waiter")["phase"] == "Allocated"


async def test_no_allocation_is_marked_as_failed_if_the_pool_cannot_be_written() -> None:
    lab = _make_lab(make.allocation("a", size=257))
    lab.server.fail(ServerFailure(500, "InternalError", "no"), plural="networkpools")
    with pytest.raises(ServerFailure):
        await lab.run_pool_pass()
    assert lab.read_status("ipallocations", "a").get("phase") is None


async def test_a_replica_with_an_old_view_of_the_pool_marks_no_allocation_as_failed() -> None:
    lab = _make_lab(make.allocation("b", age=9, held_range=("10.40.0.0", "10.40.0.255")))
    stale = lab.make_replica()
    lab.server.add("ipallocations", make.allocation("a", size=8))
    stale.hold_events("networkpools", "ipallocations")
    lab.server.vanish("ipallocations", "b")
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"a": "10.40.0.0/29"}
    await stale.pools.reconcile(make.key("lab"))
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"


async def test_a_pass_whose_write_conflicts_chooses_again_from_the_new_spec() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.hold_events("networkpools")
    lab.server.edit("networkpools", "lab", {"spec": {"cidr": "10.50.0.0/24"}})
    assert await lab.run_pool_pass() == Again(5.0)
    assert _read_ranges(lab) == {"a": "10.50.0.0/29"}


async def test_a_pass_ends_without_error_if_its_pool_is_deleted_meanwhile() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.hold_events("networkpools")
    lab.server.vanish("networkpools", "lab")
    assert await lab.run_pool_pass() == SETTLED
    assert _read_ranges(lab) == {"a": None}


async def test_while_the_cache_is_behind_the_pass_waits_and_then_lists() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.hold_events("ipallocations")
    lab.server.add("ipallocations", make.allocation("b", age=5))
    uid = lab.server.see("networkpools", "lab")["metadata"]["uid"]
    reached = make.build_journal_status(uid, lab.server.revision)
    lab.server.edit("networkpools", "lab", {"status": reached})
    assert await lab.run_pool_pass() == Again(0.1)
    assert lab.server.requests == []
    await lab.clock.advance(1.0)
    await lab.run_pool_pass()
    assert lab.server.count(verb="list", plural="ipallocations") == 1
    assert _read_ranges(lab) == {"b": "10.40.0.0/29", "a": "10.40.0.8/29"}


async def test_a_range_is_not_lost_if_the_answer_to_its_write_is_lost() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.hold_events("ipallocations")
    lab.server.lose_answers(verb="patch", plural="ipallocations")
    assert await lab.run_pool_pass() == Again(1.0)
    lab.deliver_events()
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"a": "10.40.0.0/29"}
    assert lab.read_status("networkpools", "lab")["allocatedIPs"] == 8


async def test_a_write_that_did_not_reach_the_server_is_retried_with_the_same_range() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.server.fail(NoAnswer("timed out"), verb="patch", plural="ipallocations")
    outcome = await lab.run_pool_pass()
    assert outcome == Again(1.0)
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"a": "10.40.0.0/29"}
    assert lab.read_status("networkpools", "lab")["allocatedIPs"] == 8, (
        "the promised range, and no other"
    )


async def test_the_next_pass_writes_promises_if_the_answer_to_their_write_was_lost() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.server.lose_answers(verb="patch", plural="networkpools")
    with pytest.raises(NoAnswer):
        await lab.run_pool_pass()
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"a": "10.40.0.0/29"}


async def test_a_promise_of_another_replica_is_written_if_it_stays_open_for_two_seconds() -> None:
    waiting = make.allocation("a")
    lab = _make_lab(waiting)
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    entry = make.promise(waiting, "10.40.0.64", "10.40.0.71", version=version)
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit(
        "networkpools", "lab", make.replace_promises(stored, make.render_promise(entry))
    )
    assert await lab.run_pool_pass() == Again(2.0)
    await lab.clock.advance(1.9)
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"a": None}
    await lab.clock.advance(0.1)
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"a": "10.40.0.64/29"}


async def test_a_pass_that_serves_others_returns_in_time_for_another_replicas_promise() -> None:
    foreign = make.allocation("a")
    lab = _make_lab(foreign, *(make.allocation(f"b{n}") for n in range(3)))
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    entry = make.promise(foreign, "10.40.0.64", "10.40.0.71", version=version)
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit(
        "networkpools", "lab", make.replace_promises(stored, make.render_promise(entry))
    )
    assert await lab.run_pool_pass() == Again(2.0)


async def test_a_rejected_write_is_reported_and_does_not_stop_the_other_writes() -> None:
    lab = _make_lab(make.allocation("bad", age=5), make.allocation("good"))
    lab.server.fail(
        Invalid(422, "Invalid", "status is odd"),
        times=1000,
        verb="patch",
        plural="ipallocations",
        name="bad",
    )
    await lab.run_pool_pass()
    assert _read_ranges(lab) == {"bad": None, "good": "10.40.0.8/29"}
    assert [p["name"] for p in lab.read_status("networkpools", "lab")["assignments"]] == [
        "bad",
        "good",
    ]
    assert [reason for _, reason, _ in lab.recorded.events] == ["AllocationFailed", "IPsAllocated"]


async def test_a_rejected_write_is_retried_once_a_minute() -> None:
    lab = _make_lab(make.allocation("bad"))
    lab.server.fail(
        Invalid(422, "Invalid", "status is odd"), times=1000, verb="patch", plural="ipallocations"
    )
    for _ in range(200):
        outcome = await lab.run_pool_pass()
        assert isinstance(outcome, Again)
        await lab.clock.advance(outcome.after)
        if lab.clock.monotonic() >= 600:
            break
    writes = lab.server.count(verb="patch", plural="ipallocations")
    assert writes <= 2 * 11, (
        "in ten minutes: one attempt per minute, and one write each to void the promise"
    )
    assert lab.clock.monotonic() >= 600
    assert [p["name"] for p in lab.read_status("networkpools", "lab")["assignments"]] == ["bad"]


async def test_a_pass_over_a_full_journal_waits_until_another_replicas_promises_are_due() -> None:
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
            make.render_promise(make.promise(allocation, address, address, version=version))
        )
    stored = lab.server.see("networkpools", "lab")
    lab.server.edit("networkpools", "lab", make.replace_promises(stored, *entries[:512]))
    outcome = await lab.run_pool_pass()
    assert outcome == Again(2.0)
    await lab.clock.advance(2.0)
    await _run_until_settled(lab)
    assert all(_read_ranges(lab).values())


async def test_an_invalid_pool_reports_the_fault_and_allocates_once_it_is_corrected() -> None:
    lab = _make_lab(make.allocation("a"), pool=make.pool(reserved=["10.41.0.0/28"]))
    assert await lab.run_pool_pass() == Blocked("ValidationFailed")
    ready = lab.find_condition("networkpools", "lab", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ValidationFailed")
    assert ready["message"].startswith("validation errors: [reserved CIDR ")
    assert lab.find_condition("networkpools", "lab", "Stalled")["status"] == "True"
    assert _read_ranges(lab) == {"a": None}
    lab.server.requests.clear()
    await lab.run_pool_pass()
    assert lab.server.requests == [], "the fault is reported once"
    lab.server.edit("networkpools", "lab", {"spec": {"reserved": []}})
    await lab.run_pool_pass()
    assert lab.find_condition("networkpools", "lab", "Ready")["status"] == "True"
    assert lab.find_condition("networkpools", "lab", "Stalled") == {}
    assert _read_ranges(lab) == {"a": "10.40.0.0/29"}
