"""The life of one request: finalizer, Pending with the reason, and Released at the end."""

from dataclasses import replace
from typing import Any

import pytest

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


def _lab(*allocations: Any, pool: Any = None) -> Lab:
    lab = Lab()
    if pool is not None:
        lab.server.add("networkpools", pool)
    for one in allocations:
        lab.server.add("ipallocations", one)
    return lab


def _serving(**status: Any) -> Any:
    reported = {"conditions": READY, "allocationsRevision": "1", "observedGeneration": 1} | status
    return make.pool(status=reported)


async def test_the_finalizer_is_added_before_anything_else() -> None:
    lab = _lab(make.allocation("a", finalizers=["example.com/other"]))
    assert await lab.allocation("a") == SETTLED
    meta = lab.server.see("ipallocations", "a")["metadata"]
    assert meta["finalizers"] == ["example.com/other", FINALIZER]
    assert lab.see("ipallocations", "a").get("phase") is None


async def test_a_pool_that_is_missing_is_reported_at_once() -> None:
    lab = _lab(make.allocation("a"))
    assert await lab.allocation("a") == Blocked("PoolNotFound", 15.0)
    ready = lab.condition("ipallocations", "a", "Ready")
    assert lab.see("ipallocations", "a")["phase"] == "Pending"
    assert (ready["reason"], ready["message"]) == (
        "PoolNotFound",
        "NetworkPool butler-system/lab does not exist",
    )


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (
            make.pool(
                status={
                    "conditions": [
                        READY[0] | {"status": "False", "reason": "ValidationFailed"},
                    ]
                }
            ),
            "NetworkPool butler-system/lab is not ready: ValidationFailed",
        ),
        (
            make.pool(deletionTimestamp="2026-01-01T00:00:00Z"),
            "NetworkPool butler-system/lab is being deleted",
        ),
    ],
)
async def test_a_pool_that_does_not_serve_is_reported_at_once(pool: Any, message: str) -> None:
    lab = _lab(make.allocation("a"), pool=pool)
    assert await lab.allocation("a") == Blocked("PoolNotReady", 15.0)
    assert lab.condition("ipallocations", "a", "Ready")["message"] == message


async def test_an_allocation_that_can_be_served_at_once_is_never_pending() -> None:
    lab = _lab(make.allocation("a"), pool=_serving(largestFreeBlock=256, availableIPs=256))
    outcome = await lab.allocation("a")
    assert isinstance(outcome, Again)
    await lab.clock.advance(0.6)
    await lab.allocation("a")
    assert lab.see("ipallocations", "a").get("phase") is None
    await lab.pool()
    assert lab.see("ipallocations", "a")["phase"] == "Allocated"
    assert [h.object["status"]["phase"] for h in lab.server.history[-1:]] == ["Allocated"]


async def test_an_allocation_that_waits_is_pending_within_a_second() -> None:
    lab = _lab(make.allocation("a"), pool=_serving())
    outcome = await lab.allocation("a")
    assert isinstance(outcome, Again)
    assert outcome.after < 1
    await lab.clock.advance(outcome.after)
    assert await lab.allocation("a") == Blocked("Reconciling", 15.0)
    assert lab.see("ipallocations", "a")["phase"] == "Pending"
    ready = lab.condition("ipallocations", "a", "Ready")
    assert ready["message"] == "waiting for NetworkPool butler-system/lab to assign a range"
    lab.server.requests.clear()
    await lab.allocation("a")
    assert lab.server.requests == [], "said once is enough"


async def test_a_promised_allocation_is_left_alone() -> None:
    waiting = make.allocation("a")
    lab = _lab(waiting, pool=_serving())
    version = lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"]
    entry = make.listed(make.promise(waiting, "10.40.0.0", "10.40.0.7", version=version))
    lab.server.edit("networkpools", "lab", {"status": {"assignments": [entry]}})
    await lab.clock.advance(30)
    for _ in range(2):
        assert await lab.allocation("a") == Again(15.0)
    assert lab.server.requests == []


@pytest.mark.parametrize(
    ("allocation", "seconds"),
    [
        (make.allocation("a", held=("10.40.0.0", "10.40.0.7")), 300.0),
        (make.allocation("a", phase="Failed"), 30.0),
    ],
    ids=["Allocated", "Failed"],
)
async def test_allocations_that_wait_for_others_are_reconciled_periodically(
    allocation: Any, seconds: float
) -> None:
    lab = _lab(allocation, pool=_serving())
    assert await lab.allocation("a") == Again(seconds)
    assert lab.server.requests == []


async def test_a_failed_allocation_whose_pool_is_deleted_waits_for_the_pool() -> None:
    lab = _lab(make.allocation("a", phase="Failed"), pool=_serving())
    lab.server.vanish("networkpools", "lab")
    assert await lab.allocation("a") == Blocked("PoolNotFound", 15.0)
    assert lab.see("ipallocations", "a")["phase"] == "Pending"


async def test_released_is_written_before_the_finalizer_goes() -> None:
    lab = _lab(make.allocation("a", held=("10.40.0.0", "10.40.0.7")))
    lab.server.delete("ipallocations", "a")
    await lab.allocation("a")
    assert not lab.server.has("ipallocations", "a")
    last = lab.server.history[-1].object
    assert last["status"]["phase"] == "Released"
    assert last["status"]["releasedAt"] == "2026-01-01T00:00:00Z"
    assert last["status"]["startAddress"] == "10.40.0.0", "what it held stays on record"


async def test_an_allocation_without_a_range_leaves_without_asking_the_tenant() -> None:
    lab = _lab(make.allocation("a", phase="Failed"))
    lab.gate.why = "a Service has it"
    lab.server.delete("ipallocations", "a")
    assert await lab.allocation("a") == SETTLED
    assert not lab.server.has("ipallocations", "a")


async def test_the_range_is_kept_while_the_tenant_has_it() -> None:
    lab = _lab(make.allocation("a", held=("10.40.0.0", "10.40.0.7")))
    lab.gate.why = "Service default/web still shows an address of the range"
    lab.server.delete("ipallocations", "a")
    for _ in range(2):
        assert await lab.allocation("a") == Blocked("WaitingForTenant", 5.0)
    assert lab.see("ipallocations", "a")["phase"] == "Allocated"
    ready = lab.condition("ipallocations", "a", "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "WaitingForTenant")
    assert ready["message"] == lab.gate.why
    assert lab.server.count(verb="patch") == 1, "said once is enough"
    lab.gate.why = ""
    await lab.allocation("a")
    assert not lab.server.has("ipallocations", "a")


async def test_writing_why_a_release_waits_does_not_move_its_mark() -> None:
    lab = _lab(make.allocation("a", held=("10.40.0.0", "10.40.0.7")))
    lab.server.delete("ipallocations", "a")
    marked = int(lab.server.see("ipallocations", "a")["metadata"]["resourceVersion"])
    marks = []
    check = lab.gate.check

    async def noted(allocation: Any, mark: int) -> Any:
        marks.append(mark)
        lab.gate.why = f"reason {len(marks)}"
        return await check(allocation, mark)

    lab.gate.check = noted  # type: ignore[method-assign]
    for _ in range(3):
        await lab.allocation("a")
    assert marks == [marked] * 3


async def test_a_mark_of_a_history_before_a_restore_is_replaced() -> None:
    lab = _lab(make.allocation("a", held=("10.40.0.0", "10.40.0.7")))
    lab.server.delete("ipallocations", "a")
    marks = []

    async def noted(allocation: Any, mark: int) -> InUse:
        marks.append(mark)
        return InUse("a Service has it")

    lab.gate.check = noted  # type: ignore[method-assign]
    await lab.allocation("a")
    gone: Any = lab.caches["ipallocations"].get(make.key("a"))
    restored = replace(gone, metadata=replace(gone.metadata, resourceVersion="3"))
    lab.caches["ipallocations"].replace([restored], 4)
    await lab.allocation("a")
    assert marks[1] == 3 < marks[0]


async def test_a_finalizer_left_behind_by_a_crash_goes_too() -> None:
    said = {"reason": "Released", "message": "the range was given back"}
    status = {"phase": "Released", "conditions": [READY[0] | {"status": "False"} | said]}
    lab = _lab(make.allocation("a", held=("10.40.0.0", "10.40.0.7"), status=status))
    lab.gate.why = "a Service has it, too late"
    lab.server.delete("ipallocations", "a")
    await lab.allocation("a")
    assert not lab.server.has("ipallocations", "a")


async def test_a_phase_released_that_a_person_wrote_gives_nothing_back() -> None:
    status = {"phase": "Released", "conditions": READY}
    lab = _lab(make.allocation("a", held=("10.40.0.0", "10.40.0.7"), status=status))
    lab.gate.why = "Service default/web still shows an address of the range"
    lab.server.delete("ipallocations", "a")
    assert await lab.allocation("a") == Blocked("WaitingForTenant", 5.0)
    lab.gate.why = ""
    await lab.allocation("a")
    assert not lab.server.has("ipallocations", "a")


async def test_a_phase_released_that_a_person_wrote_is_served_again_with_its_range() -> None:
    status = {"phase": "Released", "conditions": READY, "releasedAt": "2026-01-01T00:00:00Z"}
    held = make.allocation("a", held=("10.40.0.0", "10.40.0.7"), status=status)
    lab = _lab(held, make.allocation("b", phase="Released"), pool=make.pool())
    await lab.pool()
    for name, range_ in (("a", "10.40.0.0/29"), ("b", "10.40.0.8/29")):
        shown = lab.see("ipallocations", name)
        assert (shown["phase"], shown["cidr"]) == ("Allocated", range_)
        assert not shown.get("releasedAt")


async def test_an_edit_meanwhile_ends_the_pass_and_is_no_error() -> None:
    lab = _lab(make.allocation("a"))
    lab.hold("ipallocations")
    lab.server.edit("ipallocations", "a", {"metadata": {"labels": {"x": "y"}}})
    assert await lab.allocation("a") == Again(0.7)
    assert lab.see("ipallocations", "a").get("phase") is None


async def test_an_allocation_that_is_gone_meanwhile_is_no_error() -> None:
    lab = _lab(make.allocation("a"))
    lab.hold("ipallocations")
    lab.server.vanish("ipallocations", "a")
    assert await lab.allocation("a") == Again(0.7)
    lab.flow()
    assert await lab.allocation("a") == SETTLED


_ROOMY = {"largestFreeBlock": 256, "availableIPs": 256}


async def _shows_pending(lab: Lab, name: str, seconds: float) -> bool:
    """Look as often as the outcomes ask for `seconds`; return whether it shows Pending then."""
    until = lab.clock.monotonic() + seconds
    while lab.clock.monotonic() < until:
        outcome = await lab.allocation(name)
        if isinstance(outcome, Blocked):
            break
        assert isinstance(outcome, Again)
        await lab.clock.advance(min(outcome.after, until - lab.clock.monotonic()))
    return lab.see("ipallocations", name).get("phase") == "Pending"


@pytest.mark.parametrize(
    "pool",
    [
        _serving(),
        _serving(**_ROOMY),
        make.pool(status=_ROOMY | {"conditions": READY, "allocationsRevision": ""}),
        make.pool(status={"conditions": [READY[0] | {"type": "ForeignManager"}]}),
        None,
    ],
    ids=["full", "stuck though there is room", "without memory", "foreign manager", "missing"],
)
async def test_whatever_it_waits_for_shows_within_a_second(pool: Any) -> None:
    lab = _lab(make.allocation("a"), pool=pool)
    assert await _shows_pending(lab, "a", 1.0)


@pytest.mark.parametrize(("seconds", "pending"), [(60.0, False), (330.0, True)])
async def test_an_allocation_of_a_new_pool_is_not_pending_before_minutes_have_passed(
    seconds: float, pending: bool
) -> None:
    lab = _lab(make.allocation("a"), pool=make.pool(status={"allocationsRevision": ""}))
    assert await _shows_pending(lab, "a", seconds) == pending


async def test_a_waiting_allocation_is_not_pending_while_its_pool_makes_progress() -> None:
    busy = make.allocation("busy")
    lab = _lab(make.allocation("a"), busy, pool=_serving(**_ROOMY))
    version = lab.server.see("ipallocations", "busy")["metadata"]["resourceVersion"]
    uid = lab.server.see("ipallocations", "busy")["metadata"]["uid"]
    await lab.allocation("a")
    entry = make.listed(make.promise(busy, "10.40.0.0", "10.40.0.7", version=version))
    lab.server.edit("networkpools", "lab", {"status": {"assignments": [entry | {"uid": uid}]}})
    assert not await _shows_pending(lab, "a", 4.0)
    assert await _shows_pending(lab, "a", 4.1), "but not for ever"


async def test_one_that_was_first_looked_at_during_a_batch_is_not_pending_while_it_lasts() -> None:
    busy = make.allocation("busy")
    lab = _lab(make.allocation("a"), busy, pool=_serving(**_ROOMY))
    meta = lab.server.see("ipallocations", "busy")["metadata"]
    made = make.promise(busy, "10.40.0.0", "10.40.0.7", version=meta["resourceVersion"])
    entry = make.listed(made) | {"uid": meta["uid"]}
    lab.server.edit("networkpools", "lab", {"status": {"assignments": [entry]}})
    assert not await _shows_pending(lab, "a", 2.0)
    assert await _shows_pending(lab, "a", 7.0), "a promise that is never kept is no progress"


async def test_one_that_waits_behind_thousands_is_not_pending_and_hardly_looked_at() -> None:
    others = [make.allocation(f"other-{number:03}") for number in range(100)]
    lab = _lab(make.allocation("a"), *others, pool=_serving(**_ROOMY))
    served = []
    for other in others:
        meta = lab.server.see("ipallocations", other.metadata.name)["metadata"]
        made = make.promise(other, "10.40.0.0", "10.40.0.7", version=meta["resourceVersion"])
        served.append(make.listed(made) | {"uid": meta["uid"]})
    await lab.allocation("a")
    lab.server.edit("networkpools", "lab", {"status": {"assignments": served}})
    looks, due = 0, 0.0
    for second in range(100):
        # A slow server: one promise of a large batch is kept in a second.
        lab.server.edit("ipallocations", f"other-{second:03}", {"status": {"phase": "Allocated"}})
        if due <= second:
            outcome = await lab.allocation("a")
            assert isinstance(outcome, Again)
            looks, due = looks + 1, second + outcome.after
        await lab.clock.advance(1.0)
    assert lab.see("ipallocations", "a").get("phase") is None
    assert looks < 15


async def test_one_that_waits_in_a_burst_is_not_looked_at_while_nothing_can_be_seen() -> None:
    lab = _lab(make.allocation("a"), pool=_serving(**_ROOMY))
    assert await lab.allocation("a") == Again(0.7), "nothing was handed out yet"
    lab.server.edit("networkpools", "lab", {"status": {"allocatedIPs": 1}})
    await lab.clock.advance(0.7)
    assert await lab.allocation("a") == Again(2.0)


async def test_a_waiting_allocation_is_pending_once_its_pool_makes_no_progress() -> None:
    lab = _lab(make.allocation("a"), pool=_serving(**_ROOMY))
    await lab.allocation("a")
    lab.server.edit("networkpools", "lab", {"status": {"allocatedIPs": 1}})
    assert not await _shows_pending(lab, "a", 4.0), "the next write of the pool may take so long"
    assert await _shows_pending(lab, "a", 4.1)


async def test_a_pool_left_to_another_controller_is_named_as_the_reason() -> None:
    foreign = make.pool(status={"conditions": [*READY, READY[0] | {"type": "ForeignManager"}]})
    lab = _lab(make.allocation("a"), pool=foreign)
    assert await lab.allocation("a") == Blocked("PoolNotReady", 15.0)
    ready = lab.condition("ipallocations", "a", "Ready")
    assert ready["message"] == "NetworkPool butler-system/lab is not ready: ForeignManager"


async def test_requests_deleted_while_they_wait_leave_no_memory_behind() -> None:
    lab = _lab(pool=_serving(largestFreeBlock=0))
    for number in range(3):
        name = f"a{number}"
        lab.server.add("ipallocations", make.allocation(name))
        await lab.allocation(name)
        await lab.clock.advance(1)
        await lab.allocation(name)
        assert lab.see("ipallocations", name)["phase"] == "Pending"
        lab.server.delete("ipallocations", name)
        await lab.allocation(name)
        assert not lab.server.has("ipallocations", name)
        await lab.allocation(name)
    assert not lab.allocations._waiting_since


async def test_a_request_that_is_made_again_under_its_name_waits_anew() -> None:
    lab = _lab(make.allocation("a"), pool=_serving(largestFreeBlock=0))
    await lab.allocation("a")
    await lab.clock.advance(0.5)
    lab.server.vanish("ipallocations", "a")
    lab.server.add("ipallocations", make.allocation("a", uid="another"))
    await lab.allocation("a")
    await lab.clock.advance(0.5)
    await lab.allocation("a")
    assert lab.see("ipallocations", "a").get("phase") is None
