"""The history of one kind: its changes in order, for a limited time.

Watches read it by position, so a slow watch costs no memory. As with the watch cache of
kube-apiserver, a watch whose position is older than the oldest event ends, and the client has to
list again.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import msgspec

# The real watch cache keeps about 75 seconds. Clients in a debugger may need longer.
KEPT_SECONDS = 300.0
KEPT_EVENTS = 8192
# How much older the oldest event may become, so that many events are dropped at once.
_SLACK_SECONDS = 60.0
# The number of newest events that keep their encoded frames, which current watches share. Older
# events are encoded again for watches that catch up, which costs less than keeping all frames.
SHARED_EVENTS = 512

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision: its JSON without apiVersion and kind, never changed."""

    key: str
    revision: int
    body: bytes


class StoredChange(msgspec.Struct, eq=False):
    """One change of an object.

    After a deletion, `current` is the last state of the object under the deletion's revision.
    """

    type: EventType
    revision: int
    current: StoredObject
    previous: StoredObject | None
    # The time of the change, in seconds since the epoch, so that ages are right after a restart.
    at: float
    # The encoded event by resource (version); the first watch that needs it adds it.
    frames: dict[object, bytes] = msgspec.field(default_factory=dict)


class Waiter:
    """Wakes a watch at the next event of a log, or at a given time.

    Each event wakes every watch of its kind, so waiting must be cheap. It costs one future, and a
    timer is kept for several waits. anyio's Event and deadline would cost as much as sending.
    """

    def __init__(self, log: "EventLog") -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    async def wait(self, due: float) -> None:
        """Wait for the next event, the end of the log or the time `due` (of `time.monotonic`)."""
        if self._timer is None or due != self._due:
            self.close()
            self._due = due
            self._timer = self._loop.call_later(due - time.monotonic(), self._wake_at_due)
        self._future = self._loop.create_future()
        self._log.waiters.add(self)
        try:
            await self._future
        finally:
            self._log.waiters.discard(self)

    async def sleep(self, seconds: float) -> None:
        """Wait for some seconds; events do not end this wait."""
        timer = self._loop.call_later(seconds, self.wake)
        self._future = self._loop.create_future()
        try:
            await self._future
        finally:
            timer.cancel()

    def wake(self) -> None:
        """Wake the watch if it is waiting."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_at_due(self) -> None:
        """Wake the watch at its given time; the timer has run out, so it is forgotten."""
        self._timer = None
        self.wake()


class EventLog:
    """A bounded list of events, and the watches that wait for the next one.

    Args:
        floor: the revision after which the history begins; no event is older.
    """

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._events: list[StoredChange] = []
        self._revisions: list[int] = []
        # The position of the first event in the list. Positions count all events ever.
        self._first = 0
        self.waiters: set[Waiter] = set()
        # Whether no more events will come, as the kind is no longer served: watches end.
        self.closed = False

    def append(self, event: StoredChange) -> Sequence[StoredChange]:
        """Add the newest event and wake every watch; return the events that were dropped."""
        self._events.append(event)
        self._revisions.append(event.revision)
        if len(self._events) > SHARED_EVENTS:
            # Only the newest events keep their frames, and this one no longer is one of them.
            self._events[-1 - SHARED_EVENTS].frames.clear()
        self._wake_all()
        return self._drop_old(event.at)

    def restore(self, event: StoredChange) -> None:
        """Add an event that was read from disk; events have to come in order."""
        self._events.append(event)
        self._revisions.append(event.revision)

    def close(self) -> None:
        """End every watch once it has read all events."""
        self.closed = True
        self._wake_all()

    def _wake_all(self) -> None:
        """Wake every watch that waits for the next event."""
        for waiter in self.waiters:
            waiter.wake()

    def find_position_after(self, revision: int) -> int:
        """Return the position of the first event above a revision."""
        return self._first + bisect_right(self._revisions, revision)

    def list_from(self, position: int, limit: int = 512) -> Sequence[StoredChange] | None:
        """Return at most `limit` events from a position on; None if the position is compacted."""
        if position < self._first:
            return None
        start = position - self._first
        return self._events[start : start + limit]

    def list_after(self, revision: int) -> Sequence[StoredChange]:
        """Return all events above a revision that are still kept."""
        return self._events[bisect_right(self._revisions, revision) :]

    def compact(self, revision: int) -> Sequence[StoredChange]:
        """Drop all events up to a revision; return them."""
        dropped_events = self._drop(bisect_right(self._revisions, revision))
        self.floor = max(self.floor, revision)
        return dropped_events

    def _drop_old(self, now: float) -> Sequence[StoredChange]:
        """Drop the oldest events if the list is too long or they are too old; return them.

        Many are dropped at once, because each deletion moves the rest of the list.
        """
        if len(self._events) > KEPT_EVENTS:
            return self._drop(KEPT_EVENTS // 4)
        if now - self._events[0].at > KEPT_SECONDS + _SLACK_SECONDS:
            return self._drop(sum(now - event.at > KEPT_SECONDS for event in self._events))
        return ()

    def _drop(self, count: int) -> Sequence[StoredChange]:
        """Drop the oldest events; return them. The history then begins after the last of them."""
        dropped_events = self._events[:count]
        # Without a dropped event the history begins where it did.
        if count:
            self.floor = self._revisions[count - 1]
            self._first += count
            del self._events[:count]
            del self._revisions[:count]
        return dropped_events
