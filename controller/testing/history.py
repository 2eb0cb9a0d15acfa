"""The objects of the fake API, and what happened to them, for its watches."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from controller.clock import Clock
from controller.codec import encode
from controller.meta import Key
from controller.testing.rules import Json, Kind

BOOKMARK_SECONDS = 60.0
Selected = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Happened:
    """One write: the object before and after it, None where there is none."""

    kind: Kind
    revision: int
    old: Json | None
    new: Json | None


class History:
    """The objects of all kinds, and all writes so far.

    Args:
        clock: for bookmarks and for the ends of watches.
    """

    def __init__(self, clock: Clock) -> None:
        self.revision = 1
        self._clock = clock
        self._objects: dict[tuple[str, Key], Json] = {}
        self._log: list[Happened] = []
        self._changed = anyio.Event()

    def get(self, kind: Kind, key: Key) -> Json | None:
        """Return an object, None if there is none."""
        return self._objects.get((kind.resource.full_name, key))

    def all(self, kind: Kind, selected: Selected) -> list[Json]:
        """Return the selected objects of a kind, by namespace and name."""
        name = kind.resource.full_name
        found = sorted((key, obj) for (of, key), obj in self._objects.items() if of == name)
        return [obj for _, obj in found if selected(obj)]

    def put(self, kind: Kind, key: Key, obj: Json) -> Json:
        """Store an object with a new resourceVersion; return it as it is stored."""
        old = self.get(kind, key)
        stored = self._versioned(obj)
        self._objects[kind.resource.full_name, key] = stored
        self._append(Happened(kind, self.revision, old, stored))
        return stored

    def remove(self, kind: Kind, key: Key, last: Json) -> None:
        """Remove an object, whose last state was `last`."""
        del self._objects[kind.resource.full_name, key]
        self._append(Happened(kind, self.revision + 1, self._versioned(last), None))

    def _versioned(self, obj: Json) -> Json:
        self.revision += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}

    def _append(self, happened: Happened) -> None:
        self._log.append(happened)
        self._changed.set()
        self._changed = anyio.Event()

    async def watch(
        self, kind: Kind, selected: Selected, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """Yield the lines of a watch until its `timeoutSeconds` have passed.

        Args:
            kind: the kind.
            selected: whether an object is watched.
            query: the parameters of the request.
        """
        clock, position = self._clock, len(self._log)
        end = clock.monotonic() + float(query.get("timeoutSeconds") or "inf")
        bookmarks = query.get("allowWatchBookmarks") == "true"
        sent = query.get("resourceVersion", "")
        if "sendInitialEvents" in query or sent in {"", "0"}:
            lines = [_line("ADDED", obj) for obj in self.all(kind, selected)]
            if "sendInitialEvents" in query:
                lines.append(self._bookmark(kind, {"k8s.io/initial-events-end": "true"}))
            if lines:
                yield b"".join(lines)
        else:
            position = sum(one.revision <= int(sent) for one in self._log)
        while True:
            news = [_event(one, selected) for one in self._log[position:] if one.kind is kind]
            position = len(self._log)
            if any(news):
                yield b"".join(news)
                continue
            changed, left = self._changed, end - clock.monotonic()
            with clock.move_on_after(min(BOOKMARK_SECONDS, left)) as waiting:
                await changed.wait()
            if waiting.cancelled_caught and clock.monotonic() >= end:
                return
            if waiting.cancelled_caught and bookmarks:
                yield self._bookmark(kind, {})

    def _bookmark(self, kind: Kind, annotations: Mapping[str, str]) -> bytes:
        meta: Json = {"resourceVersion": str(self.revision)}
        if annotations:
            meta["annotations"] = annotations
        of = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        return _line("BOOKMARK", {**of, "metadata": meta})


def _event(happened: Happened, selected: Selected) -> bytes:
    """Return the line for a write, as it looks through a selector; empty if it is not seen."""
    old, new = happened.old, happened.new
    was = old is not None and selected(old)
    if new is not None and selected(new):
        return _line("MODIFIED" if was else "ADDED", new)
    if old is None or not was:
        return b""
    left = {**old, "metadata": {**old["metadata"], "resourceVersion": str(happened.revision)}}
    return _line("DELETED", left)


def _line(kind: str, obj: Mapping[str, Any]) -> bytes:
    return encode({"type": kind, "object": obj}) + b"\n"
