"""The history of one kind: what changed, in order, for as long as it is kept.

Watches read it by position, so a slow watcher costs the server nothing but its place in the log;
who falls behind the oldest entry must start over, as with a real watch cache.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import msgspec

# The real watch cache keeps about 75 seconds; longer is kinder to clients that are debugged.
KEPT_SECONDS = 300.0
KEPT_EVENTS = 8192
# How far back events keep their bytes for the wire: watchers that keep up share them, and for
# those that catch up they are made anew, which is cheaper than holding all of history twice.
SHARED_EVENTS = 512

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision: its JSON without apiVersion and kind, never changed."""

    key: str
    revision: int
    body: bytes


class StoredChange(msgspec.Struct, eq=False):
    """One change. `current` of a deletion is the last state with the deletion's revision."""

    type: EventType
    revision: int
    current: Stored
    previous: Stored | None
    # When it happened, in seconds since the epoch: history is aged across restarts, too.
    at: float
    # How the event looks on the wire, by the form that was asked for; filled by the first watcher.
    frames: dict[object, bytes] = msgspec.field(default_factory=dict)


class Waiter:
    """Wakes the reader of a log at the next event, or at a time that it names.

    With many watchers of one kind this is done for every event and watcher, so waiting costs one
    future and the timer stays. (anyio's Event and deadline, tried first, cost as much as sending.)
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
        """Wait for some seconds; events do not end the wait."""
        timer = self._loop.call_later(seconds, self.wake)
        self._future = self._loop.create_future()
        try:
            await self._future
        finally:
            timer.cancel()

    def wake(self) -> None:
        """Wake the reader, if it waits."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake_at_due(self) -> None:
        self._timer = None
        self.wake()


class EventLog:
    """A bounded list of events, and the watches that wait for the next one."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._events: list[StoredChange] = []
        self._revisions: list[int] = []
        self._first = 0
        self.waiters: set[Waiter] = set()
        # Set when the kind is served no more: watches end.
        self.closed = False

    def append(self, event: StoredChange) -> Sequence[StoredChange]:
        """Add the newest event and wake every watcher; return the events that had to go."""
        self._events.append(event)
        self._revisions.append(event.revision)
        if len(self._events) > SHARED_EVENTS:
            self._events[-1 - SHARED_EVENTS].frames.clear()
        self._wake_all()
        return self._trim(event.at)

    def restore(self, event: StoredChange) -> None:
        """Add an event of the past, in order."""
        self._events.append(event)
        self._revisions.append(event.revision)

    def close(self) -> None:
        """End every watch once it has read what is there."""
        self.closed = True
        self._wake_all()

    def _wake_all(self) -> None:
        for waiter in self.waiters:
            waiter.wake()

    def position_after(self, revision: int) -> int:
        """Return the position of the first event above a revision."""
        return self._first + bisect_right(self._revisions, revision)

    def since(self, position: int, most: int = 512) -> Sequence[StoredChange] | None:
        """Return events from a position on, or None when the position is compacted."""
        if position < self._first:
            return None
        start = position - self._first
        return self._events[start : start + most]

    def after(self, revision: int) -> Sequence[StoredChange]:
        """Return every kept event above a revision."""
        return self._events[bisect_right(self._revisions, revision) :]

    def compact(self, revision: int) -> Sequence[StoredChange]:
        """Forget everything up to a revision; return the events that went."""
        gone = self._drop(bisect_right(self._revisions, revision))
        self.floor = max(self.floor, revision)
        return gone

    def _trim(self, now: float) -> Sequence[StoredChange]:
        """Drop what is too old or too much; a quarter at a time, so that it stays cheap."""
        if len(self._events) > KEPT_EVENTS:
            return self._drop(KEPT_EVENTS // 4)
        if now - self._events[0].at > KEPT_SECONDS + 60:
            return self._drop(sum(now - event.at > KEPT_SECONDS for event in self._events))
        return ()

    def _drop(self, count: int) -> Sequence[StoredChange]:
        gone = self._events[:count]
        if count:
            self.floor = self._revisions[count - 1]
            self._first += count
            del self._events[:count]
            del self._revisions[:count]
        return gone
