"""Faults of watches: silence, early ends, and events that are missing, cut or invented."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgspec
from typing_extensions import override

from envtest.faults.fault import Answer, End, Fault, Step, encode_event, encode_status

# Parts of events as the server writes them. They are searched as text, because an earlier fault
# may have cut the line.
_BOOKMARK = b'{"type":"BOOKMARK"'
_INITIAL_END = b'"k8s.io/initial-events-end":"true"'
_EXPIRED = msgspec.Raw(encode_status(410, "Expired", "too old resource version: 1 (2)"))


@dataclass(frozen=True, slots=True)
class StopAfter(Fault):
    """The watch ends after some events.

    Args:
        events: the number of events that arrive, bookmarks included.
        end: how it ends; `End.SILENCE` is a half-open connection.
    """

    events: int = 0
    end: End = End.SILENCE
    watches_only: ClassVar[bool] = True

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield a piece; end the watch after the last event, or after piece 0 without events."""
        yield piece
        if number >= self.events:
            yield self.end


def silence_watch(events: int = 0) -> StopAfter:
    """Return a fault that leaves the connection open but silent after some events."""
    return StopAfter(events, End.SILENCE)


@dataclass(frozen=True, slots=True)
class ClosedAtOnce(Fault):
    """The client gets an empty watch with status 200; the request does not reach the server."""

    watches_only: ClassVar[bool] = True
    replaces_server: ClassVar[bool] = True

    @override
    async def intercept_request(self) -> Answer | None:
        return Answer(200, b"")


@dataclass(frozen=True, slots=True)
class DroppedEvents(Fault):
    """Events that the server sent just before the connection ends do not arrive.

    Args:
        events: the number of events that arrive.
        dropped: the number of events after them that do not; with the last one the watch ends.
        end: how the watch ends.
    """

    events: int = 0
    dropped: int = 1
    end: End = End.RESET
    watches_only: ClassVar[bool] = True

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield the first events; drop the next ones, and end the watch at the last of them."""
        if number <= self.events:
            yield piece
        elif number >= self.events + self.dropped:
            yield self.end


@dataclass(frozen=True, slots=True)
class SwallowedBookmarks(Fault):
    """Bookmarks do not arrive, as behind a proxy that holds back small chunks.

    Args:
        initial_end_only: whether only the bookmark after the initial events is dropped.
    """

    initial_end_only: bool = False
    watches_only: ClassVar[bool] = True

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield a piece unless it is a dropped bookmark; piece 0 is no line of the watch."""
        if not (number and self._is_swallowed(piece)):
            yield piece

    def _is_swallowed(self, piece: bytes) -> bool:
        """Return whether a line is a bookmark that is dropped."""
        if not piece.startswith(_BOOKMARK):
            return False
        return not self.initial_end_only or _INITIAL_END in piece


@dataclass(frozen=True, slots=True)
class TruncatedEvent(Fault):
    """One line is cut, but has its line end, as if it were complete.

    Args:
        events: the number of complete events before it.
        size: the number of bytes of the cut event that arrive.
    """

    events: int = 0
    size: int = 20
    watches_only: ClassVar[bool] = True

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield a piece; of the event to cut, yield the beginning and a line end."""
        yield piece[: self.size] + b"\n" if number == self.events + 1 else piece


@dataclass(frozen=True, slots=True)
class InsertedEvent(Fault):
    """A line arrives that the server did not send.

    Args:
        line: the line with its end.
        events: the number of events that arrive before it.
        end: how the watch ends after it; None if it continues.
    """

    line: bytes
    events: int = 0
    end: End | None = None
    watches_only: ClassVar[bool] = True

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield a piece; after piece number `events`, yield the line as well.

        Piece 0 is the head of the answer, and piece n is the nth event.
        """
        yield piece
        if number == self.events:
            yield self.line
            if self.end is not None:
                yield self.end


def insert_expired_event(events: int = 0) -> InsertedEvent:
    """Return a fault that ends a watch with an ERROR event of code 410."""
    return InsertedEvent(encode_event("ERROR", _EXPIRED), events, End.CLOSED)


def insert_unknown_event(events: int = 0) -> InsertedEvent:
    """Return a fault that inserts an event of an unknown type."""
    return InsertedEvent(encode_event("RENAMED", {"metadata": {"name": "odd"}}), events)


def insert_error_without_reason(events: int = 0) -> InsertedEvent:
    """Return a fault that ends a watch with an ERROR event whose Status has no reason."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}}
    return InsertedEvent(encode_event("ERROR", body), events, End.CLOSED)


@dataclass(frozen=True, slots=True)
class LargeEvents(Fault):
    """Objects arrive larger than etcd stores them: each gets a long annotation.

    Args:
        size: the length of the annotation in bytes.
    """

    size: int = 5 * 1024 * 1024
    watches_only: ClassVar[bool] = True

    @override
    def alter_piece(self, number: int, piece: bytes) -> Iterator[Step]:
        """Yield an event with a long annotation; piece 0 and bookmarks unchanged."""
        if not number or piece.startswith(_BOOKMARK):
            yield piece
            return
        event = msgspec.json.decode(piece)
        metadata = event["object"].setdefault("metadata", {})
        metadata["annotations"] = {**metadata.get("annotations", {}), "weight": "x" * self.size}
        yield encode_event(event["type"], event["object"])
