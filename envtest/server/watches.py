"""WATCH: a stream of events from a position in a kind's history.

A watch holds no queue of its own. It reads the log in batches and is woken by the next one, so
a client that reads slowly costs nothing, until its position is compacted and the stream ends.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass

import msgspec

from envtest.server.api import Api
from envtest.server.call import AuthorizedCall
from envtest.server.failures import StatusError, build_expired, internal
from envtest.server.forms import Form
from envtest.server.options import ListOptions, list_options
from envtest.server.reads import (
    revision_fault,
    select,
    selector,
    too_new,
    wait_until_fresh,
)
from envtest.server.rendering import check_include, table
from envtest.server.resource import StoredResource
from envtest.storage import EventLog, Stored, StoredChange, Waiter

# Seconds between bookmarks, and how long before its end a watch gets a last one.
BOOKMARK_EVERY = 60.0
_LAST_BOOKMARK = 2.0
# The real server ends a watch without timeoutSeconds after 30 to 60 minutes.
_LONGEST = 1800
_BATCH = 256
# Seconds between two pieces of one watch: what happens within them is sent together. The first
# event after a pause goes at once; in a storm of writes sending each one alone costs the most.
_PACE = 0.002

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


class _Frames:
    """Encodes events, bookmarks and errors of one watch."""

    def __init__(self, api: Api, resource: StoredResource, form: Form, include: str) -> None:
        self._api = api
        self._resource = resource
        self._form = form
        self._include = include
        self._headers = True

    def event_frame(self, event: StoredChange) -> bytes:
        """Return the watch frame of an event, encoded once for all watches of the same resource.

        Frames of the table form are encoded per watch; frames of old events are not cached.
        """
        if self._form == "table":
            return self.frame(event.type, event.current)
        known = event.frames.get(self._resource)
        if known is None:
            known = self.frame(event.type, event.current)
            if self._api.store.is_recent(event):
                event.frames[self._resource] = known
        return known

    def frame(self, kind: str, stored: Stored) -> bytes:
        """Return one event of the stream."""
        body = self._resource.json_of(stored)
        if self._form == "table":
            body = self._row(body, stored.revision)
        return _line_of(kind, body)

    def _row(self, body: bytes, revision: int, *, marked: bool = False) -> bytes:
        """Return a table of one row; what is marked by an annotation carries it in any case."""
        include = "Metadata" if marked and self._include == "None" else self._include
        headers, self._headers = self._headers, False
        return msgspec.json.encode(
            table(
                self._resource.rules,
                [_decode(body)],
                meta={"resourceVersion": str(revision)},
                include=include,
                headers=headers,
            )
        )

    def bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Return a bookmark; one kind of it says that the initial events are over."""
        meta: dict[str, object] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        resource = self._resource
        custom = resource.rules.custom
        kind = {"kind": resource.kind, "apiVersion": resource.api_version}
        body: dict[str, object] = {**kind, "metadata": meta}
        data = _encode(body) if custom else msgspec.json.encode(body)
        if self._form == "table":
            data = self._row(data, revision, marked=initial_end)
        return _line_of("BOOKMARK", data)

    def error(self, error: StatusError) -> bytes:
        """Return the event that ends a stream with a Status."""
        return _line_of("ERROR", msgspec.json.encode(error.body()))


@dataclass(slots=True)
class ServedWatch:
    """One watch, checked and ready to stream."""

    api: Api
    call: AuthorizedCall
    options: ListOptions
    form: Form

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield bytes until the time is up, the kind is gone or the position is compacted."""
        include = self.call.query.get("includeObject", "")
        frames = _Frames(self.api, self.call.resource, form=self.form, include=include)
        log = self.api.table(self.call.resource).log
        revision = int(self.options.version or 0)
        wants_present = self.options.initial_events
        if wants_present is None:
            wants_present = revision == 0
        if self.options.initial_events and revision:
            await wait_until_fresh(self.api, self.options.version)
            if revision > self.api.store.revision:
                yield frames.error(too_new(self.api, revision))
                return
        if wants_present or revision == 0:
            revision = self.api.store.revision
        if revision < log.floor:
            yield frames.error(
                build_expired(f"too old resource version: {revision} ({log.floor})")
            )
            return
        position = log.position_after(revision)
        if wants_present:
            for chunk in self._present(frames, revision):
                yield chunk
        # Closed with the stream, not when it is garbage-collected.
        async with aclosing(
            self._follow(frames, log, position=position, after=revision)
        ) as following:
            async for chunk in following:
                yield chunk

    def _present(self, frames: _Frames, revision: int) -> Sequence[bytes]:
        """Return the present objects as ADDED events, in batches."""
        present = ListOptions(
            labels=self.options.labels,
            fields=self.options.fields,
            limit=0,
            token="",
            version="",
            match="",
            watch=True,
            bookmarks=False,
            initial_events=None,
            timeout=0,
        )
        stored_objects = select(self.api, self.call, present).items
        lines = [frames.frame("ADDED", stored) for stored in stored_objects]
        if self.options.initial_events and self.options.bookmarks:
            lines.append(frames.bookmark(revision, initial_end=True))
        return [b"".join(lines[at : at + _BATCH]) for at in range(0, len(lines), _BATCH)]

    async def _follow(
        self, frames: _Frames, log: EventLog, position: int, after: int
    ) -> AsyncGenerator[bytes]:
        """Yield events of a log from a position on, and bookmarks in between.

        A watch may begin after a revision that is still to come.
        """
        deadline = time.monotonic() + (self.options.timeout or _LONGEST)
        due = self._next_bookmark(deadline)
        paced = 0.0
        with closing(Waiter(log)) as waiter:
            while (now := time.monotonic()) < deadline:
                events = log.since(position, _BATCH)
                if events is None:
                    return
                if 0 < len(events) < _BATCH and now < paced:
                    await waiter.sleep(paced - now)
                    continue
                if events:
                    position += len(events)
                    if events[0].revision <= after:
                        events = [event for event in events if event.revision > after]
                    lines = (self._line(frames, event) for event in events)
                    chunk = b"".join(line for line in lines if line)
                    if chunk:
                        yield chunk
                        paced = time.monotonic() + _PACE
                    continue
                if log.closed:
                    return
                if now >= due:
                    yield frames.bookmark(self.api.store.revision)
                    due = self._next_bookmark(deadline)
                await waiter.wait(min(due, deadline))

    def _next_bookmark(self, deadline: float) -> float:
        """Return when a bookmark is due: regularly, and shortly before the end."""
        if not self.options.bookmarks:
            return deadline
        now = time.monotonic()
        last = deadline - _LAST_BOOKMARK
        return min(now + BOOKMARK_EVERY, last if last > now else deadline)

    def _line(self, frames: _Frames, event: StoredChange) -> bytes:
        """Return an event as this watch sees it; empty if it is not selected."""
        namespace = self.call.info.namespace
        prefix = f"{namespace}/" if namespace and self.call.resource.namespaced else ""
        if not event.current.key.startswith(prefix):
            return b""
        if not self.options.labels and not self.options.fields:
            return frames.event_frame(event)
        matches = selector(self.call.resource, self.options)
        before = event.previous is not None and matches(event.previous)
        if event.type == "DELETED":
            return frames.event_frame(event) if before else b""
        if matches(event.current):
            kind = "MODIFIED" if before else "ADDED"
            return (
                frames.event_frame(event)
                if kind == event.type
                else frames.frame(kind, event.current)
            )
        if before and event.previous is not None:
            return frames.frame("DELETED", _at_revision(event.previous, event.revision))
        return b""


def _line_of(kind: str, body: bytes) -> bytes:
    """Return an object with the type of the event."""
    return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"


def _at_revision(stored: Stored, revision: int) -> Stored:
    """Return an object's state under a later revision, as it leaves a selection."""
    body = _decode(stored.body)
    body["metadata"]["resourceVersion"] = str(revision)
    return Stored(stored.key, revision, _encode(body))


def open_watch(api: Api, call: AuthorizedCall, form: Form) -> ServedWatch:
    """Check a watch request.

    Raises:
        StatusError: when it makes no sense; what is too old becomes an event of the stream.
    """
    options = list_options(call.query, call.resource.rules, watch=True)
    fault = revision_fault(options.version) if options.version else ""
    if fault:
        raise internal(fault)
    if form == "table":
        check_include(call.query.get("includeObject", ""))
    return ServedWatch(api, call, options=options, form=form)
