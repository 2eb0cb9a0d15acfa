"""Keys that need a look: each at most once, never two looks at one key at a time.

    add ──────────────┐
    add_after ─ Delays ┴─→ ReadyLevels ─ get ─→ in work ─ done ─→ gone
                               ↑                  │ added meanwhile
                               └──────────────────┘

The rules are those of client-go's work queue with the priorities of controller-runtime's:

- A key that is queued already is not queued again; of two delays the earlier counts, of two
  priorities the higher.
- Of the keys that are ready those of different groups take turns, if there are groups.
- A key that is added while it is in work is queued when that work is done, so no change is lost.
- One event loop, no locks, no task of its own: whoever waits in `get` keeps the time. A pump
  task was rejected because it needs an owner, and a queue nobody pumps loses delayed keys.
"""

import math
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from controller.backoff import KeyBackoff
from controller.clock import Clock
from controller.delays import Delays
from controller.priorities import AGEING_SECONDS, Group, ReadyLevels
from controller.queueview import QueueObserver, QueueStatistics

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For what an initial list brings: it waits behind live changes (controller-runtime's number)."""


class QueueShutDown(Exception):
    """Raised by `get`: the queue was shut down and everything it still had is handed out."""


@dataclass(eq=False, slots=True)
class _Waiter:
    """A task in `get`: woken by its event, or by itself at `until`."""

    until: float
    event: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _Work:
    """What is known of a key in work; `again` is the priority to queue it with when done."""

    priority: int
    begun: float
    again: int | None = None


class WorkQueue(Generic[K]):
    """A queue of keys for one controller.

    Args:
        clock: drives the delays.
        backoff: how long a failing key waits; 5 ms doubling up to 1000 s by default.
        observer: told what happens, for metrics.
        ageing: seconds after which a ready key gets its share ahead of higher priorities.
        group: from a key to the group (a tenant, say) that it shares its turns with; groups take
            turns within a priority. None for no turns.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        backoff: KeyBackoff[K] | None = None,
        observer: QueueObserver | None = None,
        ageing: float = AGEING_SECONDS,
        group: Group[K] | None = None,
    ) -> None:
        self.clock = clock
        self._backoff = backoff or KeyBackoff[K]()
        self._observer = observer
        self._ready = ReadyLevels[K](ageing, group)
        self._delays = Delays[K]()
        self._in_work: dict[K, _Work] = {}
        self._waiters: deque[_Waiter] = deque()
        self._reached = -math.inf
        self._closed = False

    def add(self, key: K, *, priority: int = 0) -> None:
        """Queue `key` for a look as soon as a worker is free.

        Args:
            key: what is to be looked at.
            priority: higher ones first; of several for one key the highest counts.
        """
        if self._closed:
            return
        now = self._promote()
        waiting = self._delays.discard(key)
        self._enqueue(key, priority if waiting is None else max(priority, waiting), now)
        self._wake()

    def add_after(self, key: K, seconds: float, *, priority: int = 0) -> None:
        """Queue `key` in `seconds`, or sooner if it is queued sooner already.

        Args:
            key: what is to be looked at.
            seconds: from now.
            priority: as for `add`.
        """
        if seconds <= 0:
            self.add(key, priority=priority)
            return
        if self._closed:
            return
        if self._observer is not None:
            self._observer.retried()
        now = self._promote()
        work = self._in_work.get(key)
        if key in self._ready or (work is not None and work.again is not None):
            self._enqueue(key, priority, now)
        else:
            self._delays.put(key, now + seconds, priority)
        self._wake()

    def add_rate_limited(self, key: K, *, priority: int = 0) -> None:
        """Queue `key` after its back-off, which doubles with each call until `forget`.

        Args:
            key: what is to be looked at.
            priority: as for `add`.
        """
        if not self._closed:
            self.add_after(key, self._backoff.failed(key), priority=priority)

    def forget(self, key: K) -> None:
        """End the back-off of `key`: its next failure counts as its first."""
        self._backoff.forget(key)

    def failures(self, key: K) -> int:
        """Return how often `key` was rate limited since it was last forgotten."""
        return self._backoff.failures(key)

    def priority(self, key: K) -> int:
        """Return the priority that `key`, now in work, was handed out with; 0 if it is not."""
        work = self._in_work.get(key)
        return 0 if work is None else work.priority

    async def get(self) -> K:
        """Wait for the next key and take it into work; `done` must follow.

        Cancelling loses no key.

        Raises:
            QueueShutDown: the queue was shut down and has nothing left.
        """
        # Always a checkpoint, so that a worker that never waits cannot starve the others.
        await checkpoint()
        while True:
            now = self._promote()
            taken = self._ready.pop(now)
            if taken is not None:
                self._in_work[taken.key] = _Work(taken.priority, now)
                if self._observer is not None:
                    self._observer.taken(taken.priority, now - taken.since)
                self._wake()
                return taken.key
            if self._drained:
                raise QueueShutDown
            await self._wait()

    def done(self, key: K) -> None:
        """End the work on `key`; if it was added meanwhile it is queued again now.

        Raises:
            KeyError: `key` is not in work.
        """
        work = self._in_work.pop(key)
        now = self._promote()
        if self._observer is not None:
            self._observer.done(now - work.begun)
        if work.again is not None:
            self._enqueue(key, work.again, now)
        self._wake()

    def shut_down(self, *, drain: bool = True) -> None:
        """Accept no more keys; delayed ones are dropped.

        Args:
            drain: hand out what is ready, and what was added again while in work; otherwise
                these are dropped too and only the work that has begun remains.
        """
        self._promote()
        self._closed = True
        self._delays.clear()
        if not drain:
            dropped = self._ready.clear()
            if self._observer is not None:
                self._observer.dropped(dropped)
            for work in self._in_work.values():
                work.again = None
        self._wake()

    def statistics(self) -> QueueStatistics:
        """Return a snapshot of what is queued, delayed and in work."""
        now = self._promote()
        self._wake()
        oldest = self._ready.oldest()
        running = [now - work.begun for work in self._in_work.values()]
        return QueueStatistics(
            ready=self._ready.depths(),
            delayed=len(self._delays),
            in_work=len(self._in_work),
            failing=len(self._backoff),
            workers_waiting=len(self._waiters),
            oldest_ready_seconds=0.0 if oldest is None else now - oldest,
            unfinished_seconds=sum(running),
            longest_running_seconds=max(running, default=0.0),
        )

    @property
    def _drained(self) -> bool:
        return (
            self._closed
            and not self._ready
            and all(work.again is None for work in self._in_work.values())
        )

    def _enqueue(self, key: K, priority: int, since: float) -> None:
        work = self._in_work.get(key)
        if work is not None:
            work.again = priority if work.again is None else max(priority, work.again)
            return
        known = key in self._ready
        left = self._ready.push(key, priority, since)
        if self._observer is None:
            return
        if left is not None:
            self._observer.moved(left, priority)
        elif not known:
            self._observer.added(priority)

    def _promote(self) -> float:
        """Make the delayed keys that are due ready, and return the time now."""
        now = max(self.clock.monotonic(), self._reached)
        while (due := self._delays.pop_due(now)) is not None:
            key, since, priority = due
            self._enqueue(key, priority, since)
        return now

    def _wake(self) -> None:
        """Wake one waiter if there is a key for it, or if nobody keeps the time.

        One is enough: who takes a key calls this again, so the call is handed on.
        """
        waiters = self._waiters
        if not waiters:
            return
        if self._drained:
            while waiters:
                waiters.popleft().event.set()
        elif self._ready:
            waiters.popleft().event.set()
        else:
            due = self._delays.earliest
            if due is not None and all(due < waiter.until for waiter in waiters):
                waiters.popleft().event.set()

    async def _wait(self) -> None:
        due = self._delays.earliest
        waiter = _Waiter(math.inf if due is None else due)
        self._waiters.append(waiter)
        try:
            if due is None:
                await waiter.event.wait()
            else:
                with self.clock.move_on_after(due - self.clock.monotonic()) as scope:
                    await waiter.event.wait()
                if scope.cancelled_caught:
                    # What was waited for has come, even where rounding says a hair is missing.
                    self._reached = max(self._reached, due)
        except BaseException:
            # Cancelled, perhaps after being woken or as the one who kept the time.
            self._withdraw(waiter)
            self._wake()
            raise
        self._withdraw(waiter)

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
