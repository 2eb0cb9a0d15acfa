"""The objects of the fake API, and all writes to them, which its watches deliver.

A revision is a resourceVersion as a number. All kinds share one counter.
"""

import math
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from controller.clock import Clock
from controller.codec import encode
from controller.meta import Key
from controller.testing.rules import FakeKind, Json

BOOKMARK_SECONDS = 60.0
IsSelected = Callable[[Mapping[str, Any]], bool]
"""Returns whether the selectors of a list or watch select an object, which is decoded JSON."""


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A write to an object: the object before and after it.

    Args:
        kind: the object's kind.
        key: the object's namespace and name.
        revision: the resourceVersion of the write.
        old: the object before the write; None if it did not exist.
        new: the object after the write; None if it was deleted.
    """

    kind: FakeKind
    key: Key
    revision: int
    old: Json | None
    new: Json | None

    @property
    def plural(self) -> str:
        """The kind's plural."""
        return self.kind.resource.plural

    @property
    def type(self) -> str:
        """The type of its watch event: ADDED, MODIFIED or DELETED."""
        if self.new is None:
            return "DELETED"
        return "ADDED" if self.old is None else "MODIFIED"

    @property
    def object(self) -> Json:
        """The object in its watch event: after the write, or before a deletion.

        A deleted object has the resourceVersion of the deletion.
        """
        if self.new is not None:
            return self.new
        assert self.old is not None
        return _copy_at_revision(self.old, self.revision)


@dataclass(slots=True)
class _KindHistory:
    """The objects of one kind, their writes in order, and the event that the next write sets."""

    objects: dict[Key, Json] = field(default_factory=dict)
    log: list[WriteRecord] = field(default_factory=list)
    changed: anyio.Event = field(default_factory=anyio.Event)


class History:
    """The objects of all kinds, and all writes so far.

    Args:
        clock: for bookmarks and for the ends of watches.
        first: the resourceVersion of the empty server.
    """

    def __init__(self, clock: Clock, first: int = 1) -> None:
        self.revision = first
        """The newest resourceVersion."""
        self.listeners: list[Callable[[WriteRecord], None]] = []
        """Called with every write, right after it."""
        self.log: list[WriteRecord] = []
        """All writes so far."""
        self._clock = clock
        self._kind_histories: dict[str, _KindHistory] = {}

    def get(self, kind: FakeKind, key: Key) -> Json | None:
        """Return the stored object; None if it does not exist."""
        return self._get_kind_history(kind).objects.get(key)

    def list_selected(self, kind: FakeKind, is_selected: IsSelected) -> list[Json]:
        """Return the selected objects of a kind, sorted by namespace and name."""
        objects = self._get_kind_history(kind).objects
        return [obj for _, obj in sorted(objects.items()) if is_selected(obj)]

    def put(self, kind: FakeKind, key: Key, obj: Json) -> Json:
        """Store an object with a new resourceVersion, and wake watches; return it as stored."""
        old = self.get(kind, key)
        self.revision += 1
        stored = _copy_at_revision(obj, self.revision)
        self._get_kind_history(kind).objects[key] = stored
        self._record(WriteRecord(kind, key, revision=self.revision, old=old, new=stored))
        return stored

    def restore(self, kind: FakeKind, key: Key, obj: Json) -> Json:
        """Store an object at its own resourceVersion without waking watches; return it.

        Raises:
            ValueError: its resourceVersion is no decimal number.
        """
        version = obj["metadata"].get("resourceVersion")
        if not (isinstance(version, str) and version.isascii() and version.isdecimal()):
            raise ValueError(f"{kind.resource.full_name} {key}: resourceVersion {version!r}")
        self._get_kind_history(kind).objects[key] = obj
        self.revision = max(self.revision, int(version))
        return obj

    def remove(self, kind: FakeKind, key: Key, last: Json) -> None:
        """Remove an object, and wake watches.

        Args:
            last: its last state, which watches deliver.
        """
        del self._get_kind_history(kind).objects[key]
        self.revision += 1
        self._record(WriteRecord(kind, key, revision=self.revision, old=last, new=None))

    def _get_kind_history(self, kind: FakeKind) -> _KindHistory:
        """Return the objects and writes of a kind; empty at first."""
        name = kind.resource.full_name
        if name not in self._kind_histories:
            self._kind_histories[name] = _KindHistory()
        return self._kind_histories[name]

    def _record(self, write: WriteRecord) -> None:
        """Record a write, wake the watches of its kind, and call the listeners."""
        kind_history = self._get_kind_history(write.kind)
        kind_history.log.append(write)
        self.log.append(write)
        kind_history.changed.set()
        kind_history.changed = anyio.Event()
        for listener in tuple(self.listeners):
            listener(write)

    async def watch(
        self, kind: FakeKind, is_selected: IsSelected, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a watch until the request's `timeoutSeconds` have passed.

        Without `timeoutSeconds` it never ends. Several lines may be yielded together.

        Args:
            kind: the kind that is watched.
            is_selected: returns whether the selectors of the watch select an object.
            query: the parameters of the request.
        """
        clock, kind_history = self._clock, self._get_kind_history(kind)
        end = clock.monotonic() + float(query.get("timeoutSeconds") or "inf")
        interval = BOOKMARK_SECONDS if query.get("allowWatchBookmarks") == "true" else math.inf
        bookmark = clock.monotonic() + interval
        first_revision = query.get("resourceVersion", "")
        # The index of the next write to deliver, in the log of the kind.
        position = len(kind_history.log)
        # Without a resourceVersion, or if asked to, a watch begins with the present objects.
        if "sendInitialEvents" in query or first_revision in {"", "0"}:
            lines = [_encode_line("ADDED", obj) for obj in self.list_selected(kind, is_selected)]
            if "sendInitialEvents" in query:
                lines.append(self._encode_bookmark(kind, {"k8s.io/initial-events-end": "true"}))
            if lines:
                yield b"".join(lines)
        else:
            position = bisect_right(kind_history.log, int(first_revision), key=_get_revision)
        while True:
            # The line of a write to an object that is not selected is empty.
            lines = [_encode_event(entry, is_selected) for entry in kind_history.log[position:]]
            position = len(kind_history.log)
            if any(lines):
                yield b"".join(lines)
                continue  # other writes may have come while the lines were read
            with clock.move_on_after(min(bookmark, end) - clock.monotonic()):
                await kind_history.changed.wait()
            if clock.monotonic() >= end:
                return
            if clock.monotonic() >= bookmark:
                bookmark = clock.monotonic() + interval
                yield self._encode_bookmark(kind, {})

    def _encode_bookmark(self, kind: FakeKind, annotations: Mapping[str, str]) -> bytes:
        """Return the line of a bookmark at the newest resourceVersion."""
        meta: Json = {"resourceVersion": str(self.revision)}
        if annotations:
            meta["annotations"] = annotations
        head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        return _encode_line("BOOKMARK", {**head, "metadata": meta})


def _get_revision(write: WriteRecord) -> int:
    """Return the resourceVersion of a write, by which writes are searched."""
    return write.revision


def _copy_at_revision(obj: Json, revision: int) -> Json:
    """Return a copy of an object with another resourceVersion."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def _encode_event(write: WriteRecord, is_selected: IsSelected) -> bytes:
    """Return the line for a write in a watch with a selector.

    If the write changes whether the object is selected, the event is ADDED or DELETED. The line is
    empty if the object is selected neither before nor after the write.
    """
    was_selected = write.old is not None and is_selected(write.old)
    if write.new is not None and is_selected(write.new):
        return _encode_line("MODIFIED" if was_selected else "ADDED", write.new)
    if not was_selected or write.old is None:  # the latter only for the type checker
        return b""
    return _encode_line("DELETED", _copy_at_revision(write.old, write.revision))


def _encode_line(kind: str, obj: Mapping[str, Any]) -> bytes:
    """Return the line of a watch event; `kind` is its type, for example ADDED."""
    return encode({"type": kind, "object": obj}) + b"\n"
