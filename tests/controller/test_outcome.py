"""Outcomes refuse impossible delays; a wrong answer of a reconciler costs its key a retry."""

import math
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.runner import Controller
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock

KEY, OTHER = Key("ns", "a"), Key("ns", "b")


@pytest.mark.parametrize("after", [math.nan, math.inf, -math.inf, -1, timedelta(seconds=-1)])
@pytest.mark.parametrize("make", [Again, lambda after: Blocked("PoolNotFound", after)])
def test_a_delay_that_is_no_time_from_now_is_refused(
    make: Callable[[Any], Outcome], after: Any
) -> None:
    with pytest.raises(ValueError, match=r"takes seconds from 0 on, not "):
        make(after)


@pytest.mark.parametrize("after", ["30", None, True, [1]])
def test_a_delay_that_is_no_number_is_refused(after: Any) -> None:
    with pytest.raises(TypeError, match=r"Again\(after\) takes seconds or a timedelta, not "):
        Again(after)


def test_a_delay_may_be_a_timedelta() -> None:
    assert Again(timedelta(minutes=1)) == Again(60)
    assert Blocked("PoolNotFound", timedelta(milliseconds=1500)).after == 1.5
    assert Blocked("PoolNotFound").after is None


async def record_runs(
    reconcile: Callable[[Key], Any], seconds: float, *keys: Key
) -> dict[Key, list[float]]:
    """Return when a controller called `reconcile`, by key."""
    clock, seen = VirtualClock(), dict[Key, list[float]]()
    queue = WorkQueue[Key](clock)

    def note(key: Key) -> Awaitable[Outcome]:
        seen.setdefault(key, []).append(clock.monotonic())
        answer: Awaitable[Outcome] = reconcile(key)
        return answer

    controller = Controller("pools", note, queue=queue)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        for key in keys:
            queue.add(key)
        await clock.advance(seconds)
        group.cancel_scope.cancel()
    return seen


async def test_a_key_that_always_wants_to_come_back_at_once_is_paced_and_delays_no_other() -> None:
    async def reconcile(key: Key) -> Outcome:
        return Again(0) if key == KEY else SETTLED

    seen = await record_runs(reconcile, 10, KEY, OTHER)
    assert seen[KEY][:5] == [0, 0, 0.005, 0.015, 0.035]
    assert 90 <= len(seen[KEY]) <= 110
    assert seen[OTHER] == [0]


async def test_a_key_whose_reconciliation_takes_long_is_not_paced() -> None:
    clock, begun = VirtualClock(), list[float]()
    queue = WorkQueue[Key](clock)

    async def reconcile(_: Key) -> Outcome:
        begun.append(clock.monotonic())
        await clock.sleep(0.5)
        return Again(0)

    async with anyio.create_task_group() as group:
        group.start_soon(Controller("pools", reconcile, queue=queue).run)
        queue.add(KEY)
        await clock.advance(9.9)
        group.cancel_scope.cancel()
    assert begun == [number / 2 for number in range(20)]


async def test_another_outcome_ends_the_pacing() -> None:
    answers: list[Outcome] = [Again(0), Again(0), Again(0), Again(1), Again(0), Again(0)]

    async def reconcile(_: Key) -> Outcome:
        return answers.pop(0) if answers else SETTLED

    seen = await record_runs(reconcile, 10, KEY)
    assert seen[KEY] == [0, 0, 0.005, 0.015, 1.015, 1.015, 1.02]


async def test_a_reconciler_that_is_not_async_is_logged_once_and_retried_with_back_off() -> None:
    def reconcile(_: Key) -> Outcome:
        return SETTLED

    with capture_logs() as lines:
        seen = await record_runs(reconcile, 1, KEY, OTHER)
    assert len(seen[KEY]) == len(seen[OTHER]) > 5
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["The reconciler must be async"]
    assert "async def" in errors[0]["error"]


class Unprintable(Exception):
    """An exception that cannot be shown."""

    @override
    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


@pytest.mark.survives_bugs
@pytest.mark.parametrize("answer", [None, Again, "settled", 30, Unprintable()])
async def test_a_return_value_that_is_no_outcome_retries_its_key_and_no_other(answer: Any) -> None:
    async def reconcile(key: Key) -> Any:
        if key == OTHER:
            return SETTLED
        if isinstance(answer, Exception):
            raise answer
        return answer

    seen = await record_runs(reconcile, 1, KEY, OTHER)
    assert len(seen[KEY]) > 5
    assert seen[OTHER] == [0]
