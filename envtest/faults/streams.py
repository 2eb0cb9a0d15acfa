"""Faults of watches: silent, closed, with events missing, cut or made up."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgspec
from typing_extensions import override

from envtest.faults.fault import Answer, End, Fault, Step, event, status

# As the server writes them; read as text, since an earlier fault may have cut the line.
_BOOKMARK = b'{"type":"BOOKMARK"'
_INITIAL_END = b'"k8s.io/initial-events-end":"true"'
_EXPIRED = msgspec.Raw(status(410, "Expired", "too old resource version: 1 (2)"))


@dataclass(frozen=True, slots=True)
class StopAfter(Fault):
    """The watch stops after some events.

    Args:
        events: that arrive, bookmarks included.
        end: how it stops; `End.SILENCE` is the half-open connection.
    """

    events: int = 0
    end: End = End.SILENCE
    watches_only: ClassVar[bool] = True

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        yield piece
        if number >= self.events:
            yield self.end


def half_open(events: int = 0) -> StopAfter:
    """Return the fault of a connection that stays open but silent after some events."""
    return StopAfter(events, End.SILENCE)


@dataclass(frozen=True, slots=True)
class ClosedAtOnce(Fault):
    """The watch is answered with 200 and closed in good order; the server is not asked."""

    watches_only: ClassVar[bool] = True
    instead: ClassVar[bool] = True

    @override
    async def before(self) -> Answer | None:
        return Answer(200, b"")


@dataclass(frozen=True, slots=True)
class DroppedEvents(Fault):
    """Events are lost in the connection's last moments: the server sent them, none arrived.

    Args:
        events: that arrive before.
        dropped: that do not; with the last of them the connection ends.
        end: how.
    """

    events: int = 0
    dropped: int = 1
    end: End = End.RESET
    watches_only: ClassVar[bool] = True

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        if number <= self.events:
            yield piece
        elif number >= self.events + self.dropped:
            yield self.end


@dataclass(frozen=True, slots=True)
class SwallowedBookmarks(Fault):
    """Bookmarks do not arrive, as through proxies that hold back small pieces.

    Args:
        initial_end_only: swallow only the one that ends a streamed list.
    """

    initial_end_only: bool = False
    watches_only: ClassVar[bool] = True

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        if not (number and self._is_swallowed(piece)):
            yield piece

    def _is_swallowed(self, piece: bytes) -> bool:
        if not piece.startswith(_BOOKMARK):
            return False
        return not self.initial_end_only or _INITIAL_END in piece


@dataclass(frozen=True, slots=True)
class TruncatedEvent(Fault):
    """One line is cut short, but ended as if it were whole.

    Args:
        events: whole ones before it.
        size: bytes of the cut one that arrive.
    """

    events: int = 0
    size: int = 20
    watches_only: ClassVar[bool] = True

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        yield piece[: self.size] + b"\n" if number == self.events + 1 else piece


@dataclass(frozen=True, slots=True)
class InsertedEvent(Fault):
    """A line arrives that the server did not send.

    Args:
        line: with its end.
        events: that arrive before it.
        end: how the watch ends right after it; None if it goes on.
    """

    line: bytes
    events: int = 0
    end: End | None = None
    watches_only: ClassVar[bool] = True

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        yield piece
        if number == self.events:
            yield self.line
            if self.end is not None:
                yield self.end


def expired_event(events: int = 0) -> InsertedEvent:
    """Return the fault of a watch that ends with 410 in an ERROR event."""
    return InsertedEvent(event("ERROR", _EXPIRED), events, End.CLOSED)


def unknown_event(events: int = 0) -> InsertedEvent:
    """Return the fault of an event whose type is unknown."""
    return InsertedEvent(event("RENAMED", {"metadata": {"name": "odd"}}), events)


def error_without_reason(events: int = 0) -> InsertedEvent:
    """Return the fault of a watch that ends with an ERROR event without a reason."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return InsertedEvent(event("ERROR", body), events, End.CLOSED)


@dataclass(frozen=True, slots=True)
class LargeEvents(Fault):
    """Objects arrive larger than etcd would hold: an annotation is added to each.

    Args:
        size: of the annotation, in bytes.
    """

    size: int = 5 * 1024 * 1024
    watches_only: ClassVar[bool] = True

    @override
    def alter(self, number: int, piece: bytes) -> Iterator[Step]:
        if not number or piece.startswith(_BOOKMARK):
            yield piece
            return
        sent = msgspec.json.decode(piece)
        metadata = sent["object"].setdefault("metadata", {})
        metadata["annotations"] = {**metadata.get("annotations", {}), "weight": "x" * self.size}
        yield event(sent["type"], sent["object"])
