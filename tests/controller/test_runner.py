"""The runner: retries, delays, metrics and logs by the outcome or error of a reconciler."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from controller.errors import (
    AlreadyExists,
    Conflict,
    FieldManagerConflict,
    NoAnswer,
    TerminalError,
    TooManyRequests,
)
from controller.loggers import add_fields
from controller.meta import Key
from controller.metrics import Metrics
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.queueorder import KeyBackoff, Retries
from controller.runner import Controller, find_most_severe
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock, settle

KEY = Key("ns", "name")


class RunnerHarness:
    """A controller whose reconciler returns or raises the entries of a script, then settles.

    Attributes:
        runs: the times at which the reconciler was called.
        reconcile_seconds: how long the reconciler takes.
    """

    def __init__(
        self,
        *script: Outcome | Exception,
        concurrency: int = 1,
        timeout_seconds: float | None = None,
        retries: Retries | None = None,
        most_tries: int | None = None,
    ) -> None:
        self.clock = VirtualClock()
        self.queue = WorkQueue[Key](self.clock, backoff=KeyBackoff(retries))
        self.registry = CollectorRegistry()
        self.runs: list[float] = []
        self._script = list(script)
        self.controller = Controller(
            "pools",
            self._reconcile,
            queue=self.queue,
            concurrency=concurrency,
            metrics=Metrics(self.registry).create_reconcile_metrics("pools", concurrency),
            timeout_seconds=timeout_seconds,
            most_tries=most_tries,
        )
        self.reconcile_seconds = 0.0

    async def _reconcile(self, key: Key) -> Outcome:
        self.runs.append(self.clock.monotonic())
        await self.clock.sleep(self.reconcile_seconds)
        answer = self._script.pop(0) if self._script else SETTLED
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def play(self, seconds: float = 3600) -> list[float]:
        """Queue KEY, run the controller for `seconds`; return when the reconciler was called."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.controller.run)
            self.queue.add(KEY)
            await self.clock.advance(seconds)
            group.cancel_scope.cancel()
        return self.runs

    def count(self, name: str, **labels: str) -> float:
        value = self.registry.get_sample_value(
            f"controller_runtime_{name}", {"controller": "pools", **labels}
        )
        assert value is not None
        return value

    def count_results(self) -> dict[str, float]:
        """Return the number of reconciliations by result, without zeros."""
        results = ("success", "error", "requeue", "requeue_after")
        return {
            result: count
            for result in results
            if (count := self.count("reconcile_total", result=result))
        }


async def test_a_settled_key_is_not_queued_again() -> None:
    harness = RunnerHarness(SETTLED)
    assert await harness.play() == [0]
    assert harness.count_results() == {"success": 1}


async def test_a_key_with_the_outcome_again_is_reconciled_after_the_delay() -> None:
    harness = RunnerHarness(Again(30), Again(0.5))
    assert await harness.play() == [0, 30, 30.5]
    assert harness.count_results() == {"requeue_after": 2, "success": 1}


async def test_blocked_without_a_delay_waits_for_a_change() -> None:
    harness = RunnerHarness(Blocked("PoolNotFound"))
    assert await harness.play() == [0]


async def test_a_blocked_key_with_a_delay_is_reconciled_after_the_delay() -> None:
    harness = RunnerHarness(Blocked("PoolNotFound", 60))
    assert await harness.play() == [0, 60]


async def test_failures_back_off_exponentially() -> None:
    harness = RunnerHarness(*[NoAnswer("connection reset")] * 6)
    runs = await harness.play()
    waits = [round(after - before, 3) for before, after in pairwise(runs)]
    assert waits == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16]
    assert harness.count_results() == {"error": 6, "success": 1}
    assert harness.count("reconcile_errors_total") == 6


@pytest.mark.parametrize("outcome", [SETTLED, Again(1), Blocked("X", 1)])
async def test_every_outcome_resets_the_failures(outcome: Outcome) -> None:
    harness = RunnerHarness(NoAnswer("x"), NoAnswer("x"), outcome)
    await harness.play(0.5)
    assert harness.queue.count_failures(KEY) == 0


async def test_a_terminal_error_is_not_retried_and_its_failures_are_kept() -> None:
    harness = RunnerHarness(NoAnswer("x"), TerminalError("no such CIDR"))
    assert len(await harness.play()) == 2
    assert harness.count_results() == {"error": 2}
    assert harness.count("terminal_reconcile_errors_total") == 1
    assert harness.queue.count_failures(KEY) == 1


async def test_the_server_decides_how_long_a_throttled_key_waits() -> None:
    harness = RunnerHarness(TooManyRequests(429, retry_after=7))
    assert await harness.play() == [0, 7]
    assert harness.queue.count_failures(KEY) == 0


async def test_throttling_without_a_time_is_backed_off() -> None:
    harness = RunnerHarness(TooManyRequests(429))
    assert await harness.play() == [0, 0.005]


@pytest.mark.parametrize("conflict", [Conflict(409), AlreadyExists(409)])
async def test_a_conflict_is_retried_and_is_no_error(conflict: Conflict) -> None:
    harness = RunnerHarness(conflict)
    assert await harness.play() == [0, 0.005]
    assert harness.count_results() == {"requeue": 1, "success": 1}
    assert harness.count("reconcile_errors_total") == 0


@pytest.mark.survives_bugs
async def test_a_bug_is_backed_off_and_counted_and_stops_no_worker() -> None:
    harness = RunnerHarness(ZeroDivisionError("x"))
    assert await harness.play() == [0, 0.005]
    assert harness.count("reconcile_panics_total") == 1


@pytest.mark.survives_bugs
async def test_a_forgotten_return_is_reported_as_a_bug() -> None:
    harness = RunnerHarness(None)  # type: ignore[arg-type] # what an unchecked reconciler would return
    assert await harness.play() == [0, 0.005]
    assert harness.count("reconcile_panics_total") == 1


async def test_the_fifth_conflict_of_a_key_in_a_row_is_an_error_that_says_why() -> None:
    harness = RunnerHarness(*[AlreadyExists(409, "AlreadyExists", "widgets a exists")] * 6)
    with capture_logs(processors=[add_fields]) as lines:
        await harness.play()
    assert harness.count_results()["requeue"] == 4
    assert harness.count_results()["error"] == 2
    errors = [line for line in lines if line["log_level"] == "error"]
    assert [line["in_a_row"] for line in errors] == [5, 6]
    assert "widgets a exists" in errors[0]["error"]
    assert "informer selects" in errors[0]["hint"]
    assert (errors[0]["namespace"], errors[0]["name"]) == KEY


async def test_conflicts_with_a_success_between_them_are_no_error() -> None:
    harness = RunnerHarness(*[Conflict(409)] * 4, Again(1), *[Conflict(409)] * 4)
    await harness.play()
    assert harness.count_results()["requeue"] == 8
    assert "error" not in harness.count_results()


async def test_fields_of_another_manager_are_an_error_at_once() -> None:
    harness = RunnerHarness(FieldManagerConflict(409, "Conflict", 'conflict with "other"'))
    with capture_logs() as lines:
        runs = await harness.play()
    assert len(runs) == 2, "retried with back-off"
    assert harness.count_results()["error"] == 1
    assert [line["kind"] for line in lines if line["log_level"] == "error"] == [
        "FieldManagerConflict"
    ]


async def test_a_group_of_conflicts_is_a_conflict() -> None:
    group = ExceptionGroup("writes", [Conflict(409), ExceptionGroup("more", [Conflict(409)])])
    harness = RunnerHarness(group)
    await harness.play()
    assert harness.count_results() == {"requeue": 1, "success": 1}


def test_a_group_of_errors_counts_as_its_most_severe_error() -> None:
    conflict, throttled = Conflict(409), TooManyRequests(429, retry_after=1)
    final, lost = TerminalError("x"), NoAnswer("x")
    assert find_most_severe(ExceptionGroup("", [conflict, throttled])) is throttled
    assert find_most_severe(ExceptionGroup("", [conflict, final, throttled])) is final
    assert find_most_severe(ExceptionGroup("", [conflict, final, lost])) is lost
    bug = ExceptionGroup("", [lost, KeyError("x")])
    assert find_most_severe(bug) is bug


def create_counting_reconciler(
    running: list[Key], running_counts: list[int], release: anyio.Event
) -> Callable[[Key], Awaitable[Outcome]]:
    """Return a reconciler that records which keys run at the same time and ends when released."""

    async def reconcile(key: Key) -> Outcome:
        assert key not in running
        running.append(key)
        running_counts.append(len(running))
        await release.wait()
        running.remove(key)
        return SETTLED

    return reconcile


async def test_as_many_keys_run_at_once_as_the_concurrency_allows_and_never_one_twice() -> None:
    clock, running, running_counts, release = (
        VirtualClock(),
        list[Key](),
        list[int](),
        anyio.Event(),
    )
    queue = WorkQueue[Key](clock)
    controller = Controller(
        "c",
        create_counting_reconciler(running, running_counts, release),
        queue=queue,
        concurrency=3,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        for _ in range(2):
            for number in range(5):
                queue.add(Key("", str(number)))
            await settle()
        assert len(running) == 3
        release.set()
        await settle()
        controller.stop()
    assert max(running_counts) == 3
    assert (
        len(running_counts) == 8
    )  # five keys, and once more those three that ran when added again


async def test_a_key_added_a_thousand_times_while_it_is_worked_on_is_worked_on_once_more() -> None:
    clock = VirtualClock()
    queue = WorkQueue[Key](clock)
    running, most_at_once, runs = 0, 0, 0

    async def reconcile(_: Key) -> Outcome:
        nonlocal running, most_at_once, runs
        runs, running = runs + 1, running + 1
        most_at_once = max(most_at_once, running)
        await clock.sleep(1)
        running -= 1
        return SETTLED

    controller = Controller("test", reconcile, queue=queue, concurrency=16)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        queue.add(KEY)
        for _ in range(1000):
            await clock.advance(0.0005)
            queue.add(KEY)
        await clock.advance(60)
        group.cancel_scope.cancel()
    assert (runs, most_at_once) == (2, 1)


async def test_a_stopped_controller_finishes_what_runs_and_begins_nothing() -> None:
    clock, running, running_counts, release = (
        VirtualClock(),
        list[Key](),
        list[int](),
        anyio.Event(),
    )
    queue = WorkQueue[Key](clock)
    controller = Controller(
        "c", create_counting_reconciler(running, running_counts, release), queue=queue
    )
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        for name in ("a", "b"):
            queue.add(Key("", name))
        await settle()
        controller.stop()
        await settle()
        assert running == [Key("", "a")]
        release.set()
    assert len(running_counts) == 1


async def test_a_key_keeps_its_priority_when_it_comes_back() -> None:
    for answer in (NoAnswer("x"), Again(1), TooManyRequests(429, retry_after=1)):
        harness = RunnerHarness(answer)
        harness.queue.add(KEY, priority=-100)
        async with anyio.create_task_group() as group:
            group.start_soon(harness.controller.run)
            await settle()
            group.cancel_scope.cancel()
        await harness.clock.advance(1)
        assert harness.queue.get_statistics().ready == {-100: 1}


async def test_a_worker_counts_as_active_while_it_works_and_no_longer() -> None:
    queue, registry, active = WorkQueue[Key](VirtualClock()), CollectorRegistry(), list[float]()

    def count() -> float:
        name = "controller_runtime_active_workers"
        return registry.get_sample_value(name, {"controller": "pools"}) or 0.0

    async def reconcile(key: Key) -> Outcome:
        active.append(count())
        return SETTLED

    metrics = Metrics(registry).create_reconcile_metrics("pools", 1)
    controller = Controller("pools", reconcile, queue=queue, metrics=metrics)
    queue.add(KEY)
    queue.shut_down()
    await controller.run()
    assert active == [1]
    assert count() == 0


async def test_cancelling_reaches_the_reconciler_and_ends_the_run() -> None:
    harness, cancelled = RunnerHarness(), list[bool]()

    async def reconcile(key: Key) -> Outcome:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)
        return SETTLED

    controller = Controller("c", reconcile, queue=harness.queue)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        harness.queue.add(KEY)
        await settle()
        assert harness.queue.get_statistics().processing == 1
        group.cancel_scope.cancel()
    assert cancelled == [True]
    assert harness.queue.get_statistics().processing == 0


def test_all_series_of_a_controller_exist_before_its_first_key() -> None:
    harness = RunnerHarness(concurrency=4)
    for result in ("success", "error", "requeue", "requeue_after"):
        assert harness.count("reconcile_total", result=result) == 0
    for name in ("errors", "panics", "timeouts"):
        assert harness.count(f"reconcile_{name}_total") == 0
    assert harness.count("terminal_reconcile_errors_total") == 0
    assert harness.count("active_workers") == 0
    assert harness.count("max_concurrent_reconciles") == 4
    assert harness.count("reconcile_time_seconds_count") == 0


def test_a_controller_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="concurrency must be at least 1"):
        RunnerHarness(concurrency=0)


async def test_a_reconciliation_that_takes_too_long_is_cancelled_counted_and_backed_off() -> None:
    harness = RunnerHarness(timeout_seconds=10)
    harness.reconcile_seconds = 11
    runs = await harness.play(10.001)
    assert runs == [0]
    assert harness.count("reconcile_timeouts_total") == 1
    assert harness.count_results()["error"] == 1
    assert harness.clock.waiting == 0


async def test_a_cancelled_reconciliation_is_tried_again() -> None:
    harness = RunnerHarness(timeout_seconds=10)
    harness.reconcile_seconds = 11
    assert await harness.play(20.5) == [0, 10.005, 20.015]


async def test_a_reconciliation_within_its_timeout_is_not_cancelled() -> None:
    harness = RunnerHarness(timeout_seconds=10)
    harness.reconcile_seconds = 9
    assert await harness.play(100) == [0]
    assert harness.count_results()["success"] == 1
    assert harness.count("reconcile_timeouts_total") == 0


class UncancellableHarness:
    """A controller with a timeout whose reconciler catches its cancellation and goes on."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.queue = WorkQueue[Key](self.clock)
        self.registry = CollectorRegistry()
        self.cancelled_at: list[float] = []
        self.gives_up = False
        self.reconciled: list[Key] = []
        self.controller = Controller(
            "pools",
            self.reconcile,
            queue=self.queue,
            concurrency=2,
            metrics=Metrics(self.registry).create_reconcile_metrics("pools", 2),
            timeout_seconds=10,
        )

    async def reconcile(self, key: Key) -> Outcome:
        while key == KEY and not self.gives_up and len(self.cancelled_at) < 50:
            try:
                await self.clock.sleep(3600)
            except asyncio.CancelledError:
                self.cancelled_at.append(self.clock.monotonic())
        self.reconciled.append(key)
        return SETTLED


async def test_a_pass_that_catches_its_cancellation_is_named_and_cancelled_less_and_less() -> None:
    harness, other = UncancellableHarness(), Key("ns", "other")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.controller.run)
        harness.queue.add(KEY)
        with capture_logs(processors=[add_fields]) as lines:
            await harness.clock.advance(100)
        assert harness.cancelled_at == [10, 11, 13, 17, 25, 41, 73]
        (line,) = [line for line in lines if "after its timeout" in line["event"]]
        assert line["log_level"] == "error"
        assert line["reconciler"].endswith("UncancellableHarness.reconcile")
        assert (line["namespace"], line["name"]) == KEY
        assert (
            harness.registry.get_sample_value(
                "controller_runtime_reconcile_timeouts_total", {"controller": "pools"}
            )
            == 1
        )
        harness.queue.add(other)
        await settle()
        assert harness.reconciled == [other]
        harness.gives_up = True
        with capture_logs() as lines:
            await harness.clock.advance(100)
        assert "not reconciled within 10 s, and cancelled" in [line.get("error") for line in lines]
        assert harness.reconciled == [other, KEY, KEY], "KEY is reconciled again"
        harness.controller.stop()


async def test_a_late_pass_in_a_task_group_does_not_go_on_after_the_group() -> None:
    clock, reached = VirtualClock(), list[str]()

    async def reconcile(_: Key) -> Outcome:
        async with anyio.create_task_group() as group:
            group.start_soon(clock.sleep, 60)
            await clock.sleep(60)
        reached.append("after the group")
        return SETTLED

    queue = WorkQueue[Key](clock)
    controller = Controller("pools", reconcile, queue=queue, timeout_seconds=10)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        queue.add(KEY)
        await clock.advance(100)
        controller.stop()
        group.cancel_scope.cancel()
    assert reached == []


async def test_a_late_pass_that_is_cancelled_with_its_worker_ends_it() -> None:
    harness = UncancellableHarness()
    async with anyio.create_task_group() as group:
        group.start_soon(harness.controller.run)
        harness.queue.add(KEY)
        await harness.clock.advance(5)
        harness.gives_up = True
        group.cancel_scope.cancel()
    assert harness.cancelled_at == [5]


@pytest.mark.survives_bugs
async def test_a_key_that_failed_as_often_as_it_may_waits_for_a_change() -> None:
    harness = RunnerHarness(*[ValueError("no")] * 5, most_tries=3)
    with capture_logs() as lines:
        assert len(await harness.play()) == 3
    blocked = [line for line in lines if line["event"] == "Blocked until something changes"]
    assert [(line["reason"], line["tries"]) for line in blocked] == [("TriesExhausted", 3)]
    # A change gives it as many tries again.
    assert len(await harness.play()) == 6
    assert harness.queue.get_statistics().failing == 0


@pytest.mark.survives_bugs
async def test_a_success_counts_the_tries_anew_and_early_conflicts_are_no_tries() -> None:
    conflict, error = Conflict(409, "Conflict", "changed"), ValueError("no")
    harness = RunnerHarness(error, conflict, conflict, conflict, error, SETTLED, most_tries=3)
    assert len(await harness.play()) == 6
    harness = RunnerHarness(*[conflict] * 20, most_tries=2)
    assert len(await harness.play()) == 6  # four that are no errors, then two that are


@pytest.mark.survives_bugs
async def test_the_delays_of_a_controller_can_be_set() -> None:
    retries = Retries(first_seconds=1.0, longest_seconds=3.0)
    harness = RunnerHarness(*[ValueError("no")] * 4, retries=retries)
    runs = await harness.play()
    assert [after - before for before, after in pairwise(runs)] == [1.0, 2.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"first_seconds": 0.0}, "0 < first_seconds"),
        ({"first_seconds": 5.0, "longest_seconds": 1.0}, "not 5.0 and 1.0"),
        ({"longest_seconds": float("inf")}, "first_seconds <= longest_seconds"),
        ({"most_tries": 0}, "most_tries must be at least 1, not 0"),
    ],
)
def test_retries_with_invalid_values_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Retries(**arguments)
