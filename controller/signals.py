"""Runs a manager until SIGTERM or SIGINT, and dumps all stacks on SIGUSR1.

The first SIGTERM or SIGINT stops the manager; a second one exits the process. The process ends
shortly after the grace period, even if a thread still runs, or code that blocks the event loop or
ignores its cancellation. A lost lease exits the process, too: the work is cancelled at once, and
work that ignores this ends with the process, before another process can lead.

SIGINT stops the manager also if the process was started with that signal ignored, as a shell
without job control does with background commands. controller-runtime does the same.

SIGUSR1 writes the stacks of all threads and tasks to standard error, as plain text like a
traceback, and stops nothing. Threads are written by faulthandler directly from the signal, so they
are written even if the event loop hangs; tasks are written by the event loop. Python 3.14 ends the
dump of threads at one that is just starting, with "<freed thread state>": send the signal again.

The event loop is watched: how late it turns is a metric, and the code that blocks it is logged.
Code that computes or waits without `await` stops everything else in the process: the lease is not
renewed, probes are not answered. The loop itself cannot log that while it is blocked. So a thread
checks whether the loop still turns, and if it does not, logs the stack of the loop's thread.
"""

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, TextIO

import anyio
from prometheus_client import Histogram

from controller.argumenttypes import check_type
from controller.clock import Clock, SystemClock
from controller.leases import LeaderLost
from controller.loggers import get_logger
from controller.manager import Manager
from controller.supervisor import call_guarded

STOPPING = (signal.SIGTERM, signal.SIGINT)
ENDING_SECONDS = 5.0
"""How long after the grace period a process may take to release its lease and to close."""
BEAT_SECONDS = 0.25
"""How often the loop notes that it turns, and the thread checks that."""
BLOCKED_SECONDS = 1.0
"""The loop counts as blocked when it has not turned for so long; a leader has ten seconds."""

log = get_logger(__name__)


async def run_until_signal(manager: Manager, clock: Clock | None = None) -> None:
    """Run `manager` until it ends or is stopped by a signal.

    After the first SIGTERM or SIGINT, running reconciliations may take the manager's grace period
    to end. If the process has not ended five seconds after that, it exits with status 1. A second
    signal exits it at once with status 1. So does a lost lease, if the work has not ended shortly
    before another process can lead. SIGUSR1 dumps all stacks.

    How late the event loop turns is a metric of the manager. Code that blocks it for a second is
    logged with its stack. In the end the manager's transport is closed.

    Args:
        clock: measures the time after the loss of the lease; the system's by default.

    Raises:
        TypeError: `manager` is no Manager.
        ConfigurationError: an address, a certificate or the lease is not configured correctly.
        UnexpectedEnd: a controller or a service ended by itself.
        SystemExit: the lease was lost; one log line says why, and the status is 1.
    """
    check_type(manager, Manager, argument="run_until_signal: manager", expected="a Manager")
    failures: list[Exception] = []
    async with anyio.create_task_group() as group:
        group.start_soon(_stop_on_signal, manager)
        group.start_soon(dump_on_signal)
        group.start_soon(LoopWatch(manager.metrics.loop_lag).run)
        if manager.options.leader_elect:
            group.start_soon(_exit_after_lost_lease, manager, clock or SystemClock())
        try:
            await call_guarded(manager.run)
        except Exception as error:  # noqa: BLE001 - raised below, outside of the group's wrapping
            failures.append(error)
        finally:
            with anyio.CancelScope(shield=True):
                await manager.aclose()
        group.cancel_scope.cancel()
    if failures and isinstance(failures[0], LeaderLost) and not _is_loop_ending():
        # Not raised: forty lines of traceback would hide that another replica has taken over.
        log.error("The lease is lost, exiting", error=str(failures[0]))
        raise SystemExit(1)
    if failures:
        raise failures[0]


def _is_loop_ending() -> bool:
    """Return whether the event loop ends already and cancels all tasks, after a SystemExit."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def dump_on_signal(stream: TextIO | None = None) -> None:
    """Write the stacks of tasks and threads at each SIGUSR1, until cancelled.

    Returns at once on systems without that signal.

    Args:
        stream: where to write; standard error by default.
    """
    if not hasattr(signal, "SIGUSR1"):
        return
    target = stream or sys.stderr
    with anyio.open_signal_receiver(signal.SIGUSR1) as signals, _dump_threads_on_signal(target):
        async for _ in signals:
            target.write(describe_tasks())
            target.flush()
            log.info("Dumped tasks and threads", tasks=len(asyncio.all_tasks()))


def describe_tasks() -> str:
    """Return the stacks of all tasks of the running event loop as text."""
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    return "".join(
        f"Task {task.get_name()}:\n" + "".join(_list_stack_lines(task.get_coro()))
        for task in tasks
    )


async def _exit_after_lost_lease(manager: Manager, clock: Clock) -> None:
    """Wait until the lease is lost; exit the process shortly before another process can lead.

    If the work ends earlier, the caller cancels this.
    """
    await manager.lost.wait()
    if manager.shards is None:  # with shards, `lost` is set only after the work had that time
        await clock.sleep(manager.options.create_lease_settings().ending_seconds)
    log.error("Lease lost and running work did not end in time, exiting now")
    os._exit(1)


async def _stop_on_signal(manager: Manager) -> None:
    """Stop the manager at the first signal; exit the process at the second."""
    seconds = manager.options.grace_seconds + ENDING_SECONDS
    with anyio.open_signal_receiver(*STOPPING) as signals, _exit_timer_on_signal(seconds):
        is_stopping = False
        async for number in signals:
            if is_stopping:
                log.warning("Second signal, exiting at once", signal=number.name)
                # Not sys.exit: that would wait for the tasks that do not end.
                os._exit(1)
            log.info("Stopping", signal=number.name)
            is_stopping = True
            manager.stop()


@contextmanager
def _exit_timer_on_signal(seconds: float) -> Iterator[None]:
    """Exit the process `seconds` after a signal that comes inside the context.

    The timer goes on after the context: threads that still run keep a process from ending.
    """

    def start_timer(_number: int, _frame: object) -> None:
        """Start the timer: the handler of both signals."""
        timer = threading.Timer(seconds, _exit_from_timer, [seconds])
        timer.daemon = True
        timer.start()

    # Python calls the handler between two instructions, also while code blocks the event loop. The
    # loop gets the signal by a file descriptor in the C handler, which this does not change.
    for number in STOPPING:
        signal.signal(number, start_timer)
        # As asyncio does for its handlers: the signal interrupts no system call.
        signal.siginterrupt(number, False)
    yield  # anyio's receiver, which is open around this context, removes the handlers


def _exit_from_timer(seconds: float) -> None:
    """Exit the process with status 1, from the timer's thread; sys.exit would end that thread."""
    log.error("The process has not ended after the signal, exiting at once", seconds=seconds)
    os._exit(1)


@contextmanager
def _dump_threads_on_signal(target: TextIO) -> Iterator[None]:
    """Write the stacks of threads at each SIGUSR1 inside the context."""
    try:
        faulthandler.register(signal.SIGUSR1, file=target, all_threads=True, chain=True)
    except (AttributeError, OSError, ValueError, RuntimeError) as error:
        # Standard error may be no real file, when it is captured.
        log.debug("Threads cannot be dumped on SIGUSR1", error=str(error))
        yield
        return
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGUSR1)


def _list_stack_lines(awaitable: Any) -> Iterator[str]:
    """Yield a line for each frame, from the task's own function to the place where it waits."""
    while awaitable is not None:
        frame, inner = _get_frame_and_awaited(awaitable)
        if frame is None:
            if inner is None:  # the end: a future, for example, whose repr may be long
                yield f"  waiting for {awaitable!r:.200}\n"
        else:
            code: CodeType = frame.f_code
            yield f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_qualname}\n'
        awaitable = inner


def _get_frame_and_awaited(awaitable: Any) -> tuple[FrameType | None, Any]:
    """Return the frame of a coroutine or generator, and the object that it awaits.

    Each is None if it is unknown; both are None for any other object, such as a future.
    """
    for frame_name, awaited_name in (
        ("cr_frame", "cr_await"),  # a coroutine
        ("gi_frame", "gi_yieldfrom"),  # a generator
        ("ag_frame", "ag_await"),  # an asynchronous generator
    ):
        if hasattr(awaitable, frame_name):
            return getattr(awaitable, frame_name), getattr(awaitable, awaited_name)
    return None, None


class LoopWatch:
    """Measures how late the running event loop turns, and logs the code that blocks it.

    Args:
        lag: observes by how many seconds the loop turns late.
        blocked_seconds: a warning is logged when the loop has not turned for so long, and again
            each time that this duration has doubled.
    """

    def __init__(self, lag: Histogram, *, blocked_seconds: float = BLOCKED_SECONDS) -> None:
        self._lag = lag
        self._blocked_seconds = blocked_seconds
        self._last_turn = 0.0
        self._thread = 0

    async def run(self) -> None:
        """Watch the running event loop until cancelled."""
        ended = threading.Event()
        # When the loop turned last, and its thread, for the watching thread.
        self._last_turn, self._thread = time.monotonic(), threading.get_ident()
        threading.Thread(
            target=self._log_blocks, args=(ended,), name="event loop watch", daemon=True
        ).start()
        try:
            while True:
                due = time.monotonic() + BEAT_SECONDS
                # Real time, whatever the clock of the manager is: the loop is a real one.
                await anyio.sleep(BEAT_SECONDS)
                self._last_turn = time.monotonic()
                self._lag.observe(max(0.0, self._last_turn - due))
        finally:
            ended.set()

    def _log_blocks(self, ended: threading.Event) -> None:
        """Log the stack of the event loop whenever it is blocked; runs in a thread of its own."""
        known_turn, limit = self._last_turn, self._blocked_seconds
        while not ended.wait(BEAT_SECONDS):
            last_turn = self._last_turn
            if last_turn != known_turn:  # the loop goes on: the next block has the first limit
                known_turn, limit = last_turn, self._blocked_seconds
            # The loop sleeps for BEAT_SECONDS between two turns; only longer is blocked.
            seconds = time.monotonic() - last_turn - BEAT_SECONDS
            if seconds < limit:
                continue
            limit *= 2
            log.warning(
                "The event loop is blocked", seconds=round(seconds, 1), stack=self._format_stack()
            )

    def _format_stack(self) -> str:
        """Return the stack of the event loop's thread; empty if the thread has ended."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - documented, no other way
        return "".join(traceback.format_stack(frame)) if frame is not None else ""
