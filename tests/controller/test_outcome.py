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


@pytest.mark.parametrize("delay", [math.nan, math.inf, -math.inf, -1, timedelta(seconds=-1)])
@pytest.mark.parametrize("create_outcome", [Again, lambda delay: Blocked("PoolNotFound", delay)])
def test_a_delay_that_is_negative_or_not_finite_is_refused(
    create_outcome: Callable[[Any], Outcome], delay: Any
) -> None:
    with pytest.raises(ValueError, match=r"takes seconds from 0 on, not "):
        create_outcome(delay)


@pytest.mark.parametrize("delay", ["30", None, True, [1]])
def test_a_delay_that_is_no_number_is_refused(delay: Any) -> None:
    with pytest.raises(TypeError, match=r"Again\(after\) takes seconds or a timedelta, not "):
        Again(delay)


def test_a_delay_may_be_a_timedelta() -> None:
    assert Again(timedelta(minutes=1)) == Again(60)
    assert Blocked("PoolNotFound", timedelta(milliseconds=1500)).after == 1.5
    assert Blocked("PoolNotFound").after is None


async def record_runs(
    reconcile: Callable[[Key], Any], seconds: float, *keys: Key
) -> dict[Key, list[float]]:
    """Return the times at which a controller called `reconcile`, by key.

    Args:
        reconcile: the reconciler, also one with a bug.
        seconds: how long the controller runs.
        keys: the keys that are queued at first.
    """
    clock, run_times = VirtualClock(), dict[Key, list[float]]()
    queue = WorkQueue[Key](clock)

    def record_and_reconcile(key: Key) -> Awaitable[Outcome]:
        run_times.setdefault(key, []).append(clock.monotonic())
        answer: Awaitable[Outcome] = reconcile(key)
        return answer

    controller = Controller("pools", record_and_reconcile, queue=queue)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        for key in keys:
            queue.add(key)
        await clock.advance(seconds)
        group.cancel_scope.cancel()
    return run_times


async def test_a_key_that_is_always_requeued_at_once_is_delayed_more_and_more() -> None:
    async def reconcile(key: Key) -> Outcome:
        return Again(0) if key == KEY else SETTLED

    run_times = await record_runs(reconcile, 10, KEY, OTHER)
    assert run_times[KEY][:5] == [0, 0, 0.005, 0.015, 0.035]
    assert 90 <= len(run_times[KEY]) <= 110
    assert run_times[OTHER] == [0]


async def test_a_key_that_is_requeued_at_once_is_not_delayed_if_its_reconciler_is_slow() -> None:
    clock, start_times = VirtualClock(), list[float]()
    queue = WorkQueue[Key](clock)

    async def reconcile(_: Key) -> Outcome:
        start_times.append(clock.monotonic())
        await clock.sleep(0.5)
        return Again(0)

    async with anyio.create_task_group() as group:
        group.start_soon(Controller("pools", reconcile, queue=queue).run)
        queue.add(KEY)
        await clock.advance(9.9)
        group.cancel_scope.cancel()
    assert start_times == [number / 2 for number in range(20)]


async def test_the_delays_of_a_key_start_anew_after_another_outcome() -> None:
    answers: list[Outcome] = [Again(0), Again(0), Again(0), Again(1), Again(0), Again(0)]

    async def reconcile(_: Key) -> Outcome:
        return answers.pop(0) if answers else SETTLED

    run_times = await record_runs(reconcile, 10, KEY)
    assert run_times[KEY] == [0, 0, 0.005, 0.015, 1.015, 1.015, 1.02]


async def test_a_reconciler_that_is_not_async_is_logged_once_and_retried_with_back_off() -> None:
    def reconcile(_: Key) -> Outcome:
        return SETTLED

    with capture_logs() as lines:
        run_times = await record_runs(reconcile, 1, KEY, OTHER)
    assert len(run_times[KEY]) == len(run_times[OTHER]) > 5
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["The reconciler must be async"]
    assert "async def" in errors[0]["error"]


class ErrorWithoutStr(Exception):
    """An exception that cannot be shown."""

    @override
    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


@pytest.mark.survives_bugs
@pytest.mark.parametrize("answer", [None, Again, "settled", 30, ErrorWithoutStr()])
async def test_a_return_value_that_is_no_outcome_retries_its_key_and_no_other(answer: Any) -> None:
    async def reconcile(key: Key) -> Any:
        if key == OTHER:
            return SETTLED
        if isinstance(answer, Exception):
            raise answer
        return answer

    run_times = await record_runs(reconcile, 1, KEY, OTHER)
    assert len(run_times[KEY]) > 5
    assert run_times[OTHER] == [0]
