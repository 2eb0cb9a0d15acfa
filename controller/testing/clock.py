"""Virtual time: it stands still until the test moves it.

    clock = VirtualClock()
    group.start_soon(clock.sleep, 30)
    await clock.advance(29.9)      # still asleep
    await clock.advance(0.1)       # awake, and everything that followed has run

Sleeps and deadlines end in the order of their times. Between two instants the event loop is
settled: it is turned until no task but the test is ready to run. So a chain "sleep 5, then sleep
5" is over after `advance(10)`, whatever the machine is doing, and no test needs a real sleep.

Settling reads the loop's own queue of ready callbacks (`_ready` of asyncio's event loop, the same
attribute from Python 3.4 to 3.14). Yielding a fixed number of times was rejected: it is either
too few for a deep chain or too slow for a thousand steps. A task that waits for a socket, a thread
or a child process is not ready, and settling does not wait for it: its tests use real time. Other
event loops (uvloop) have no such queue.

Time is kept in whole nanoseconds, so that 0.1 three times is exactly 0.3.
"""

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import anyio
from anyio.lowlevel import checkpoint
from typing_extensions import override

from controller.clock import Clock

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST_TURNS = 20_000
"""The most turns of the event loop until nothing is ready; tests with many objects need many."""

CENTURY_SECONDS = 36_525.0 * 86_400


@dataclass(order=True, slots=True)
class _Timer:
    """A call at an instant; calls at equal instants are made in the order of their scheduling.

    Args:
        due: nanoseconds from the start of the clock.
        order: the number of this call among all that were scheduled.
        action: the function to call; None if the call was cancelled.
    """

    due: int
    order: int
    action: Callable[[], None] | None = field(compare=False)


def _to_nanoseconds(seconds: float) -> int:
    """Return a delay in nanoseconds; one that is longer than a century ends after a century."""
    return round(min(seconds, CENTURY_SECONDS) * 1_000_000_000)


class VirtualClock(Clock):
    """A clock that only `advance` moves.

    Args:
        start: what `now()` answers at first; `monotonic()` begins at 0.
    """

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed_nanoseconds = 0
        self._timers: list[_Timer] = []
        self._scheduled_count = 0

    @override
    def now(self) -> datetime:
        """Return the virtual time of day."""
        return self._start + timedelta(microseconds=self._elapsed_nanoseconds // 1000)

    @override
    def monotonic(self) -> float:
        """Return the virtual seconds since the clock was created."""
        return self._elapsed_nanoseconds / 1_000_000_000

    @override
    async def sleep(self, seconds: float) -> None:
        """Wait until the test has moved the time on by `seconds`."""
        if seconds <= 0:
            await checkpoint()
            return
        due = anyio.Event()
        timer = self._schedule(seconds, due.set)
        try:
            await due.wait()
        finally:
            timer.action = None  # a sleep that was cancelled is open no longer

    @override
    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        """Return a context that is cancelled after `seconds`, like anyio's `move_on_after`."""
        return self._cancel_after(seconds)

    @contextmanager
    def _cancel_after(self, seconds: float) -> Iterator[anyio.CancelScope]:
        """Cancel the context's code when `seconds` have passed; yield its cancel scope."""
        with anyio.CancelScope() as scope:
            timer = self._schedule(seconds, scope.cancel)
            if seconds <= 0:
                scope.cancel()  # at once, as in anyio: the time need not move
            try:
                yield scope
            finally:
                timer.action = None

    @property
    def waiting(self) -> int:
        """The number of open sleeps and deadlines; 0 at the end of a test that leaks none."""
        return sum(timer.action is not None for timer in self._timers)

    @property
    def next_due(self) -> float | None:
        """Seconds until the next sleep or deadline ends; None if none is open."""
        self._drop_cancelled()
        return (self._timers[0].due - self._elapsed_nanoseconds) / 1e9 if self._timers else None

    def skip(self, seconds: float) -> None:
        """Move the time on by `seconds` at once, as if the process had been frozen.

        The sleeps and deadlines that are due by then end at the next `advance`.
        """
        self._elapsed_nanoseconds += _to_nanoseconds(seconds)

    async def advance(self, seconds: float) -> None:
        """Move the time on by `seconds`; end sleeps and deadlines in time order, and settle."""
        target = self._elapsed_nanoseconds + _to_nanoseconds(seconds)
        await settle()
        while (due := self._find_next_due()) is not None and due <= target:
            await self._move_to(due)
        self._elapsed_nanoseconds = target

    async def advance_until(
        self, predicate: Callable[[], bool], *, limit: float = 3600.0
    ) -> float:
        """Move on from one due instant to the next until `predicate` holds.

        Args:
            predicate: reads the state; called after each instant has settled.
            limit: give up when more than this many seconds would pass.

        Returns:
            How many seconds passed; 0 if it held as soon as the loop had settled.

        Raises:
            AssertionError: nothing more is due within `limit`, and `predicate` does not hold.
        """
        start = self._elapsed_nanoseconds
        await settle()
        while not predicate():
            due = self._find_next_due()
            if due is None or due > start + _to_nanoseconds(limit):
                raise AssertionError(f"did not come true within {limit} virtual seconds")
            await self._move_to(due)
        return (self._elapsed_nanoseconds - start) / 1e9

    async def _move_to(self, due: int) -> None:
        """Move the time to `due`, in nanoseconds, run the timers due by then, and settle."""
        self._elapsed_nanoseconds = max(self._elapsed_nanoseconds, due)
        while self._timers and self._timers[0].due <= self._elapsed_nanoseconds:
            timer = heapq.heappop(self._timers)
            if timer.action is not None:
                timer.action()
        await settle()

    def _schedule(self, seconds: float, action: Callable[[], None]) -> _Timer:
        """Schedule `action` in `seconds` from now; never if `seconds` is infinite."""
        self._scheduled_count += 1
        if math.isinf(seconds):
            return _Timer(0, self._scheduled_count, action)  # not in `_timers`, so it never runs
        # At least a nanosecond: a remainder of rounding must not turn a sleep into a busy loop.
        timer = _Timer(
            self._elapsed_nanoseconds + max(1, _to_nanoseconds(seconds)),
            self._scheduled_count,
            action,
        )
        heapq.heappush(self._timers, timer)
        return timer

    def _find_next_due(self) -> int | None:
        """Return when the next timer is due, in nanoseconds; None if there is no timer."""
        self._drop_cancelled()
        return self._timers[0].due if self._timers else None

    def _drop_cancelled(self) -> None:
        """Remove cancelled timers from the front, so that the first timer is open."""
        while self._timers and self._timers[0].action is None:
            heapq.heappop(self._timers)


async def settle() -> None:
    """Turn the event loop until no other task is ready to run.

    Raises:
        AssertionError: some task is ready again after each turn, as in a busy loop.
    """
    ready: deque[object] = vars(asyncio.get_running_loop())["_ready"]
    for _ in range(MOST_TURNS):
        await checkpoint()
        if not ready:
            return
    raise AssertionError(
        f"the event loop did not come to rest in {MOST_TURNS} turns: {ready[0]!r}"
    )
