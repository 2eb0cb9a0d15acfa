"""The queue of a controller's keys: each is queued once at most, and processed once at a time.

    add ──────────────┐
    add_after ─ Delays ┴─→ ReadyLevels ─ get ─→ processing ─ done ─→ removed
                               ↑                    │ added meanwhile
                               └────────────────────┘

The rules are those of client-go's work queue, with the priorities of controller-runtime's:

- A key that is queued already is not queued again. It keeps the earlier of two delays and the
  higher of two priorities.
- Ready keys of different groups take turns, if there are groups (queueorder.py).
- A key that is added while it is processed is queued again when the processing is done, so no
  change is lost.
- There is one event loop, and there are no locks and no tasks: a waiting `get` wakes itself when
  the first delayed key is due. Rejected: a task that moves delayed keys. It needs an owner, and
  delayed keys are lost if no owner runs it.
"""

import math
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from controller.clock import Clock
from controller.queueorder import AGEING_SECONDS, Delays, Group, KeyBackoff, ReadyLevels

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""For the objects of an initial list: they wait behind live changes (as in controller-runtime)."""


class QueueShutDown(Exception):
    """Raised by `get`: the queue was shut down and is empty."""


class QueueObserver:
    """Called when a key changes its state. This class does nothing; QueueMetrics counts."""

    def note_added(self, priority: int) -> None:
        """Note that a key became ready."""

    def note_raised(self, before: int, after: int) -> None:
        """Note that a ready key was moved to a higher priority."""

    def note_taken(self, priority: int, waited: float) -> None:
        """Note that `get` returned a key, `waited` seconds after it became ready."""

    def note_processed(self, worked: float) -> None:
        """Note that a key was processed for `worked` seconds."""

    def note_delayed(self) -> None:
        """Note that a key was added with a delay."""

    def note_dropped(self, depths: Mapping[int, int]) -> None:
        """Note that a shut-down removed ready keys; `depths` is their number by priority."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A snapshot of a queue.

    Args:
        ready: number of ready keys by priority.
        delayed: number of keys that are not due yet.
        processing: number of keys returned by `get` and not done.
        failing: number of keys with failures.
        oldest_ready_seconds: how long the oldest ready key has been ready.
        unfinished_seconds: seconds spent so far on the keys in processing, added up.
        longest_running_seconds: seconds spent so far on the key that has been in processing for
            longest.
    """

    ready: Mapping[int, int]
    delayed: int
    processing: int
    failing: int
    oldest_ready_seconds: float
    unfinished_seconds: float
    longest_running_seconds: float


@dataclass(eq=False, slots=True)
class _Waiter:
    """A task in `get`; it is woken by its event, or wakes itself at monotonic second `until`."""

    until: float
    event: anyio.Event = field(default_factory=anyio.Event)


@dataclass(slots=True)
class _Processing:
    """A key in processing.

    Args:
        priority: the priority that the key was taken with.
        begun_at: when (monotonic seconds) `get` returned the key.
        next_priority: the priority to queue the key with at its end; None if it was not added
            meanwhile.
    """

    priority: int
    begun_at: float
    next_priority: int | None = None


class WorkQueue(Generic[K]):
    """A queue of keys for one controller.

    Args:
        clock: for delays and durations.
        backoff: how long a failing key waits; by default 5 ms, doubling up to 1000 s.
        observer: called when something happens to keys, for metrics.
        ageing: seconds after which a ready key is old and may go before higher priorities.
        group: from a key to its group (a tenant, for example); groups take turns within a
            priority. None for no groups.
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
        # Not `or`: a back-off without failures is empty, and so false.
        self._backoff = KeyBackoff[K]() if backoff is None else backoff
        self._observer = observer or QueueObserver()
        self._ready = ReadyLevels[K](ageing, group)
        self._delays = Delays[K]()
        self._processing: dict[K, _Processing] = {}
        self._waiters: deque[_Waiter] = deque()
        # The latest due time (monotonic seconds) that a waiter has waited for.
        self._reached_due_time = -math.inf
        self._is_shut_down = False

    def add(self, key: K, *, priority: int = 0) -> None:
        """Queue `key` for the next free worker; does nothing after `shut_down`.

        Args:
            key: the key to reconcile.
            priority: keys with a higher one go first; a key keeps the highest of several calls.
        """
        if self._is_shut_down:
            return
        now = self._queue_due_keys()
        delayed_priority = self._delays.discard(key)
        if delayed_priority is not None:
            priority = max(priority, delayed_priority)
        self._enqueue(key, priority, now)
        self._wake_waiters()

    def add_after(self, key: K, seconds: float, *, priority: int = 0) -> None:
        """Queue `key` in `seconds`, or earlier if it is queued earlier already.

        Does nothing after `shut_down`.

        Args:
            key: the key to reconcile.
            seconds: the delay from now.
            priority: as for `add`.
        """
        if seconds <= 0:
            self.add(key, priority=priority)
            return
        if self._is_shut_down:
            return
        self._observer.note_delayed()
        now = self._queue_due_keys()
        current = self._processing.get(key)
        if key in self._ready or (current is not None and current.next_priority is not None):
            self._enqueue(key, priority, now)  # queued earlier already: only raise its priority
        else:
            self._delays.put(key, now + seconds, priority)
        self._wake_waiters()

    def add_rate_limited(self, key: K, *, priority: int = 0) -> None:
        """Queue `key` after its back-off, which doubles with each call until `forget`.

        Args:
            key: the key to reconcile.
            priority: as for `add`.
        """
        if not self._is_shut_down:
            self.add_after(key, self._backoff.note_failure(key), priority=priority)

    def forget(self, key: K) -> None:
        """Reset the back-off of `key`: its next failure counts as the first."""
        self._backoff.forget(key)

    def count_failures(self, key: K) -> int:
        """Return how often `key` was added rate limited since the last `forget`."""
        return self._backoff.count_failures(key)

    def get_priority(self, key: K) -> int:
        """Return the priority that `key` was taken with; 0 if it is not in processing."""
        current = self._processing.get(key)
        return 0 if current is None else current.priority

    async def get(self) -> K:
        """Wait for the next key and start its processing; the caller must call `done` after it.

        No key is lost if this is cancelled.

        Raises:
            QueueShutDown: the queue was shut down and is empty.
        """
        # Other tasks have to run even if there always is a key, and `get` never waits.
        await checkpoint()
        while True:
            now = self._queue_due_keys()
            ready = self._ready.pop(now)
            if ready is not None:
                self._processing[ready.key] = _Processing(ready.priority, now)
                self._observer.note_taken(ready.priority, now - ready.since)
                self._wake_waiters()  # the next waiter, if there are more keys
                return ready.key
            if self._is_drained:
                raise QueueShutDown
            await self._wait_for_key()

    def done(self, key: K) -> None:
        """End the processing of `key`; queue it again if it was added meanwhile.

        Raises:
            KeyError: `key` is not in processing.
        """
        entry = self._processing.pop(key)
        now = self._queue_due_keys()
        self._observer.note_processed(now - entry.begun_at)
        if entry.next_priority is not None:
            self._enqueue(key, entry.next_priority, now)
        self._wake_waiters()

    def shut_down(self, *, drain: bool = True) -> None:
        """Accept no more keys, and remove the delayed keys.

        Args:
            drain: let `get` return the ready keys, and keys that were added while they were
                processed; False to remove these keys, too.
        """
        self._queue_due_keys()  # a due key counts as ready, so `drain` keeps it
        self._is_shut_down = True
        self._delays.clear()
        if not drain:
            self._observer.note_dropped(self._ready.clear())
            for current in self._processing.values():
                current.next_priority = None
        self._wake_waiters()

    def get_statistics(self) -> QueueStatistics:
        """Return a snapshot of the keys that are ready, delayed and in processing."""
        now = self._queue_due_keys()
        self._wake_waiters()  # keys may have become ready just now
        oldest_since = self._ready.find_oldest_since()
        running = [now - current.begun_at for current in self._processing.values()]
        return QueueStatistics(
            ready=self._ready.count_by_priority(),
            delayed=len(self._delays),
            processing=len(self._processing),
            failing=len(self._backoff),
            oldest_ready_seconds=0.0 if oldest_since is None else now - oldest_since,
            unfinished_seconds=sum(running),
            longest_running_seconds=max(running, default=0.0),
        )

    @property
    def _is_drained(self) -> bool:
        """Whether the queue was shut down, and no key is ready or to be queued again."""
        return (
            self._is_shut_down
            and not self._ready
            and all(current.next_priority is None for current in self._processing.values())
        )

    def _enqueue(self, key: K, priority: int, since: float) -> None:
        """Make a key ready; a key in processing becomes ready when that is done.

        Args:
            priority: a ready key keeps the higher of both priorities.
            since: when (monotonic seconds) the key became ready.
        """
        current = self._processing.get(key)
        if current is not None:
            if current.next_priority is None or current.next_priority < priority:
                current.next_priority = priority
            return
        was_ready = key in self._ready
        old_priority = self._ready.push(key, priority, since)
        if old_priority is not None:
            self._observer.note_raised(old_priority, priority)
        elif not was_ready:
            self._observer.note_added(priority)

    def _queue_due_keys(self) -> float:
        """Make the delayed keys ready that are due; return the present time (monotonic seconds).

        That time is never before the due time of a delay that has passed (see `_wait_for_key`).
        """
        now = max(self.clock.monotonic(), self._reached_due_time)
        while (due := self._delays.pop_due(now)) is not None:
            key, since, priority = due
            self._enqueue(key, priority, since)
        return now

    def _wake_waiters(self) -> None:
        """Wake one waiter if a key is ready, or if no waiter wakes itself for the next due key.

        One waiter is enough: it calls this again when it has taken a key. If the queue is drained,
        all waiters are woken, and `get` raises in each.
        """
        waiters = self._waiters
        if not waiters:
            return
        if self._is_drained:
            while waiters:
                waiters.popleft().event.set()
        elif self._ready:
            waiters.popleft().event.set()
        else:
            due = self._delays.earliest
            if due is not None and all(due < waiter.until for waiter in waiters):
                waiters.popleft().event.set()

    async def _wait_for_key(self) -> None:
        """Wait until a key is ready or the queue shuts down, or the next delay has passed."""
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
                    # The key is due now, even if rounding makes the clock a little early.
                    self._reached_due_time = max(self._reached_due_time, due)
        except BaseException:
            # Cancelled. Another waiter has to take the key that this one was woken for, or to wait
            # for the next due key in its place.
            self._remove_waiter(waiter)
            self._wake_waiters()
            raise
        self._remove_waiter(waiter)

    def _remove_waiter(self, waiter: _Waiter) -> None:
        """Remove a waiter; `_wake_waiters` has removed it already if it woke this waiter."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
