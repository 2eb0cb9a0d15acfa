"""The history of one kind: what changed, in order, for as long as it is kept.

Watches read it by position, so a slow watcher costs the server nothing but its place in the log;
who falls behind the oldest entry must start over, as with a real watch cache.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

import anyio
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


class Event(msgspec.Struct, eq=False):
    """One change. `current` of a deletion is the last state with the deletion's revision."""

    type: EventType
    revision: int
    current: Stored
    previous: Stored | None
    # When it happened, in seconds since the epoch: history is aged across restarts, too.
    at: float
    # How the event looks on the wire, by the form that was asked for; filled by the first watcher.
    frames: dict[object, bytes] = msgspec.field(default_factory=dict)


class EventLog:
    """A bounded list of events and the bell that rings for each new one."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._events: list[Event] = []
        self._revisions: list[int] = []
        self._first = 0
        # Made by the first who wants to wait: most writes have no watcher.
        self._changed: anyio.Event | None = None
        # Set when the kind is served no more: watches end.
        self.closed = False

    def append(self, event: Event) -> Sequence[Event]:
        """Add the newest event and wake every watcher; return the events that had to go."""
        self._events.append(event)
        self._revisions.append(event.revision)
        if len(self._events) > SHARED_EVENTS:
            self._events[-1 - SHARED_EVENTS].frames.clear()
        self._ring()
        return self._trim(event.at)

    def restore(self, event: Event) -> None:
        """Add an event of the past, in order."""
        self._events.append(event)
        self._revisions.append(event.revision)

    def close(self) -> None:
        """End every watch once it has read what is there."""
        self.closed = True
        self._ring()

    def _ring(self) -> None:
        bell, self._changed = self._changed, None
        if bell is not None:
            bell.set()

    @property
    def changed(self) -> anyio.Event:
        """The bell of the next append: take it before looking, wait for it after."""
        if self._changed is None:
            self._changed = anyio.Event()
        return self._changed

    def position_after(self, revision: int) -> int:
        """Return the position of the first event above a revision."""
        return self._first + bisect_right(self._revisions, revision)

    def since(self, position: int, most: int = 512) -> Sequence[Event] | None:
        """Return events from a position on, or None when the position is compacted."""
        if position < self._first:
            return None
        start = position - self._first
        return self._events[start : start + most]

    def after(self, revision: int) -> Sequence[Event]:
        """Return every kept event above a revision."""
        return self._events[bisect_right(self._revisions, revision) :]

    def compact(self, revision: int) -> Sequence[Event]:
        """Forget everything up to a revision; return the events that went."""
        gone = self._drop(bisect_right(self._revisions, revision))
        self.floor = max(self.floor, revision)
        return gone

    def _trim(self, now: float) -> Sequence[Event]:
        """Drop what is too old or too much; a quarter at a time, so that it stays cheap."""
        if len(self._events) > KEPT_EVENTS:
            return self._drop(KEPT_EVENTS // 4)
        if now - self._events[0].at > KEPT_SECONDS + 60:
            return self._drop(sum(now - event.at > KEPT_SECONDS for event in self._events))
        return ()

    def _drop(self, count: int) -> Sequence[Event]:
        gone = self._events[:count]
        if count:
            self.floor = self._revisions[count - 1]
            self._first += count
            del self._events[:count]
            del self._revisions[:count]
        return gone
