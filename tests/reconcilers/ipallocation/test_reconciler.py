"""The life of one request: finalizer, Pending while no pool can serve it, Released at the end."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from controller.outcome import SETTLED, Again, Blocked
from reconcilers.ipallocation.release import InUse
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

FINALIZER = "butler.butlerlabs.dev/ipallocation"
READY = [
    {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
]


def _make_lab(*allocations: Any, pool: Any = None) -> Lab:
    lab = Lab()
    if pool is not None:
        lab.server.add("networkpools", pool)
    for allocation in allocations:
        lab.server.add("ipallocations", allocation)
    return lab


def _serving(**status: Any) -> Any:
    reported = {"conditions": READY, "observedGeneration": 1} | status
    return make.pool(status=reported)


async def test_the_finalizer_is_added_before_anything_else() -> None:
    lab = _make_lab(make.allocation("a", finalizers=["example.com/other"]))
    assert await lab.run_allocation_pass("a") == SETTLED
    meta = lab.server.see("ipallocations", "a")["metadata"]
    assert meta["finalizers"] == ["example.com/other", FINALIZER]
    assert lab.read_status("ipallocations", "a").get("phase") is None


async def test_a_pool_that_is_missing_is_reported_at_once() -> None:
    lab = _make_lab(make.allocation("a"))
    assert await lab.run_allocation_pass("a") == Blocked("PoolNotFound", 15.0)
    ready = lab.find_condition("ipallocations", "a", "Ready")
    assert lab.read_status("ipallocations", "a")["phase"] == "Pending"
    assert (ready["reason"], ready["message"]) == (
        "PoolNotFound",
        "NetworkPool butler-system/lab does not exist",
    )


async def test_a_pool_that_is_being_deleted_is_reported_at_once() -> None:
    lab = _make_lab(make.allocation("a"), pool=make.pool(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert await lab.run_allocation_pass("a") == Blocked("PoolNotReady", 15.0)
    ready = lab.find_condition("ipallocations", "a", "Ready")
    assert ready["message"] == "NetworkPool butler-system/lab is being deleted"
    lab.server.requests.clear()
    await lab.run_allocation_pass("a")
    assert lab.server.requests == [], "it was reported before"


@pytest.mark.parametrize(
    "conditions",
    [
        READY,
        [],
        [READY[0] | {"status": "False", "reason": "ValidationFailed"}],
        [*READY, READY[0] | {"type": "ForeignManager"}],
    ],
    ids=["serves", "was not reconciled yet", "hands out nothing", "is left to another controller"],
)
async def test_an_allocation_whose_pool_exists_is_left_to_the_pass_over_the_pool(
    conditions: Any,
) -> None:
    lab = _make_lab(make.allocation("a"), pool=make.pool(status={"conditions": conditions}))
    for _ in range(2):
        assert await lab.run_allocation_pass("a") == Again(300.0)
        await lab.clock.advance(300)
    assert lab.server.requests == []


async def test_an_allocation_that_the_pool_serves_is_written_once_and_never_pending() -> None:
    lab = _make_lab(make.allocation("a"), pool=_serving(largestFreeBlock=256, availableIPs=256))
    await lab.run_allocation_pass("a")
    await lab.run_pool_pass()
    await lab.run_allocation_pass("a")
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    assert lab.server.count(verb="patch", plural="ipallocations") == 1


@pytest.mark.parametrize(
    ("allocation", "seconds"),
    [
        (make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")), 300.0),
        (make.allocation("a", phase="Failed"), 300.0),
    ],
    ids=["Allocated", "Failed"],
)
async def test_allocations_that_need_nothing_are_reconciled_now_and_then(
    allocation: Any, seconds: float
) -> None:
    lab = _make_lab(allocation, pool=_serving())
    assert await lab.run_allocation_pass("a") == Again(seconds)
    assert lab.server.requests == []


async def test_a_failed_allocation_whose_pool_is_deleted_waits_for_the_pool() -> None:
    lab = _make_lab(make.allocation("a", phase="Failed"), pool=_serving())
    lab.server.vanish("networkpools", "lab")
    assert await lab.run_allocation_pass("a") == Blocked("PoolNotFound", 15.0)
    assert lab.read_status("ipallocations", "a")["phase"] == "Pending"


async def test_released_is_written_before_the_finalizer_goes() -> None:
    lab = _make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    lab.server.delete("ipallocations", "a")
    await lab.run_allocation_pass("a")
    assert not lab.server.has("ipallocations", "a")
    last = lab.server.history[-1].object
    assert last["status"]["phase"] == "Released"
    assert last["status"]["releasedAt"] == "2026-01-01T00:00:00Z"
    assert last["status"]["startAddress"] == "10.40.0.0", "what it held stays on record"


async def test_an_allocation_without_a_range_leaves_without_asking_the_tenant() -> None:
    lab = _make_lab(make.allocation("a", phase="Failed"))
    lab.gate.why = "a Service has it"
    lab.server.delete("ipallocations", "a")
    assert await lab.run_allocation_pass("a") == SETTLED
    assert not lab.server.has("ipallocations", "a")


async def test_the_range_is_kept_while_the_tenant_has_it() -> None:
    lab = _make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    lab.gate.why = "Service default/web still shows an address of the range"
    lab.server.delete("ipallocations", "a")
    for _ in range(2):
        assert await lab.run_allocation_pass("a") == Blocked("WaitingForTenant", 5.0)
    assert lab.read_status("ipallocations", "a")["phase"] == "Allocated"
    ready = lab.find_condition("ipallocations", "a", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForTenant")
    assert ready["message"] == lab.gate.why
    assert lab.server.count(verb="patch") == 1, "said once is enough"
    lab.gate.why = ""
    await lab.run_allocation_pass("a")
    assert not lab.server.has("ipallocations", "a")


async def test_writing_why_a_release_waits_does_not_move_its_mark() -> None:
    lab = _make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    lab.server.delete("ipallocations", "a")
    marked = int(lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"])
    marks = []
    check = lab.gate.check

    async def note_check(allocation: Any, mark: int) -> Any:
        marks.append(mark)
        lab.gate.why = f"reason {len(marks)}"
        return await check(allocation, mark)

    lab.gate.check = note_check  # type: ignore[method-assign]
    for _ in range(3):
        await lab.run_allocation_pass("a")
    assert marks == [marked] * 3


async def test_a_mark_of_a_history_before_a_restore_is_replaced() -> None:
    lab = _make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7")))
    lab.server.delete("ipallocations", "a")
    marks = []

    async def answer_in_use(allocation: Any, mark: int) -> InUse:
        marks.append(mark)
        return InUse("a Service has it")

    lab.gate.check = answer_in_use  # type: ignore[method-assign]
    await lab.run_allocation_pass("a")
    gone: Any = lab.caches["ipallocations"].get(make.key("a"))
    restored = structs.replace(gone, metadata=replace(gone.metadata, resourceVersion="3"))
    lab.caches["ipallocations"].replace([restored], 4)
    await lab.run_allocation_pass("a")
    assert marks[1] == 3 < marks[0]


async def test_a_finalizer_left_behind_by_a_crash_goes_too() -> None:
    said = {"reason": "Released", "message": "the range was given back"}
    status = {"phase": "Released", "conditions": [READY[0] | {"status": "False"} | said]}
    lab = _make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"), status=status))
    lab.gate.why = "a Service has it, too late"
    lab.server.delete("ipallocations", "a")
    await lab.run_allocation_pass("a")
    assert not lab.server.has("ipallocations", "a")


async def test_a_phase_released_that_a_person_wrote_gives_nothing_back() -> None:
    status = {"phase": "Released", "conditions": READY}
    lab = _make_lab(make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"), status=status))
    lab.gate.why = "Service default/web still shows an address of the range"
    lab.server.delete("ipallocations", "a")
    assert await lab.run_allocation_pass("a") == Blocked("WaitingForTenant", 5.0)
    lab.gate.why = ""
    await lab.run_allocation_pass("a")
    assert not lab.server.has("ipallocations", "a")


async def test_a_phase_released_that_a_person_wrote_is_served_again_with_its_range() -> None:
    status = {"phase": "Released", "conditions": READY, "releasedAt": "2026-01-01T00:00:00Z"}
    allocation = make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"), status=status)
    lab = _make_lab(allocation, make.allocation("b", phase="Released"), pool=make.pool())
    await lab.run_pool_pass()
    for name, range_ in (("a", "10.40.0.0/29"), ("b", "10.40.0.8/29")):
        stored = lab.read_status("ipallocations", name)
        assert (stored["phase"], stored["cidr"]) == ("Allocated", range_)
        assert not stored.get("releasedAt")


async def test_an_edit_meanwhile_ends_the_pass_and_is_no_error() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.hold_events("ipallocations")
    lab.server.edit("ipallocations", "a", {"metadata": {"labels": {"x": "y"}}})
    assert await lab.run_allocation_pass("a") == Again(0.7)
    assert lab.read_status("ipallocations", "a").get("phase") is None


async def test_an_allocation_that_is_gone_meanwhile_is_no_error() -> None:
    lab = _make_lab(make.allocation("a"))
    lab.hold_events("ipallocations")
    lab.server.vanish("ipallocations", "a")
    assert await lab.run_allocation_pass("a") == Again(0.7)
    lab.deliver_events()
    assert await lab.run_allocation_pass("a") == SETTLED
