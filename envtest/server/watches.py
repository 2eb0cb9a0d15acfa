"""WATCH: a stream of events from a position in a kind's history.

A watch has no queue of its own. It reads the log of its kind in batches, and waits for the next
event at the end of the log. So a slow client costs no memory. If its position is compacted before
it has read on, the stream ends.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass

import msgspec

from envtest.server.api import Api
from envtest.server.call import AuthorizedCall
from envtest.server.failures import StatusError, build_expired, build_unclassified_error
from envtest.server.forms import Form
from envtest.server.options import ListOptions, read_list_options
from envtest.server.reads import (
    SelectionPredicate,
    build_too_new_error,
    find_revision_fault,
    select_objects,
    wait_until_fresh,
)
from envtest.server.rendering import build_table, check_include
from envtest.server.resource import StoredResource
from envtest.storage import EventLog, StoredChange, StoredObject, Waiter

# Seconds between bookmarks, and seconds before the end of a watch at which it gets a last one.
BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK_SECONDS = 2.0
# The real server ends a watch without timeoutSeconds after 30 to 60 minutes.
_LONGEST_SECONDS = 1800
_BATCH_EVENTS = 256
# The least number of seconds between two chunks of one watch. Events in between are sent together,
# because a chunk for each event is the largest cost in a storm of writes. The first event after a
# pause is sent at once.
_CHUNK_INTERVAL_SECONDS = 0.002

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode


class _EventEncoder:
    """Encodes events, bookmarks and errors of one watch, each to a line of the stream (frame)."""

    def __init__(self, api: Api, resource: StoredResource, form: Form, include: str) -> None:
        self._api = api
        self._resource = resource
        self._form = form
        self._include = include
        # Only the first table of a watch describes the columns.
        self._are_headers_due = True

    def encode_shared(self, event: StoredChange) -> bytes:
        """Return the frame of an event, encoded once for all watches of the same resource.

        Tables are encoded for each watch, because their content differs between watches. Frames of
        old events are not cached, because few watches ask for them.
        """
        if self._form == "table":
            return self.encode_event(event.type, event.current)
        frame = event.frames.get(self._resource)
        if frame is None:
            frame = self.encode_event(event.type, event.current)
            if self._api.store.is_recent(event):
                event.frames[self._resource] = frame
        return frame

    def encode_event(self, event_type: str, stored: StoredObject) -> bytes:
        """Return the frame of an object with an event type: ADDED, MODIFIED or DELETED."""
        body = self._resource.encode_object(stored)
        if self._form == "table":
            body = self._encode_row(body, stored.revision)
        return _encode_line(event_type, body)

    def _encode_row(self, body: bytes, revision: int, *, initial_end: bool = False) -> bytes:
        """Return a Table with one row for an object.

        Args:
            body: the object as JSON.
            revision: the resourceVersion of the table.
            initial_end: whether the object is the bookmark after the initial events. Its row
                always has metadata, because an annotation marks it.
        """
        include = "Metadata" if initial_end and self._include == "None" else self._include
        headers, self._are_headers_due = self._are_headers_due, False
        return msgspec.json.encode(
            build_table(
                self._resource.rules,
                [_decode(body)],
                meta={"resourceVersion": str(revision)},
                include=include,
                headers=headers,
            )
        )

    def encode_bookmark(self, revision: int, *, initial_end: bool = False) -> bytes:
        """Return the frame of a bookmark; `initial_end` marks the end of the initial events."""
        meta: dict[str, object] = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        resource = self._resource
        body: dict[str, object] = {
            "kind": resource.kind,
            "apiVersion": resource.api_version,
            "metadata": meta,
        }
        # kube-apiserver encodes custom resources with their keys in alphabetical order.
        data = _encode(body) if resource.rules.is_custom else msgspec.json.encode(body)
        if self._form == "table":
            data = self._encode_row(data, revision, initial_end=initial_end)
        return _encode_line("BOOKMARK", data)

    def encode_error(self, error: StatusError) -> bytes:
        """Return the frame of an error, which is the last of a stream."""
        return _encode_line("ERROR", msgspec.json.encode(error.build_status()))


@dataclass(slots=True)
class ServedWatch:
    """One watch, checked and ready to stream."""

    api: Api
    call: AuthorizedCall
    options: ListOptions
    form: Form

    async def stream(self) -> AsyncGenerator[bytes]:
        """Yield frames until the timeout, the end of the kind or the compaction of the position.

        A future or compacted revision yields one error frame.
        """
        include = self.call.query.get("includeObject", "")
        frames = _EventEncoder(self.api, self.call.resource, form=self.form, include=include)
        log = self.api.get_table(self.call.resource).log
        revision = int(self.options.version or 0)
        wants_present = self.options.initial_events
        if wants_present is None:
            # Without sendInitialEvents, only a watch without a revision gets the present objects.
            wants_present = revision == 0
        if self.options.initial_events and revision:
            # The present objects have to be at least as new as the client demands.
            await wait_until_fresh(self.api, self.options.version)
            if revision > self.api.store.revision:
                yield frames.encode_error(build_too_new_error(self.api, revision))
                return
        # The present objects are read now, and a watch without a revision begins now.
        if wants_present or revision == 0:
            revision = self.api.store.revision
        if revision < log.floor:
            yield frames.encode_error(
                build_expired(f"too old resource version: {revision} ({log.floor})")
            )
            return
        position = log.find_position_after(revision)
        if wants_present:
            for chunk in self._build_present(frames, revision):
                yield chunk
        # aclosing ends the inner generator, and its waiter, together with this stream. Otherwise
        # it would end only when it is garbage-collected.
        async with aclosing(
            self._stream_log(frames, log, position=position, after=revision)
        ) as following:
            async for chunk in following:
                yield chunk

    def _build_present(self, frames: _EventEncoder, revision: int) -> Sequence[bytes]:
        """Return the present objects as frames of ADDED events, in chunks.

        A bookmark marks their end if the client asked for initial events and bookmarks.
        """
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
        stored_objects = select_objects(self.api, self.call, present).items
        lines = [frames.encode_event("ADDED", stored) for stored in stored_objects]
        if self.options.initial_events and self.options.bookmarks:
            lines.append(frames.encode_bookmark(revision, initial_end=True))
        return [
            b"".join(lines[start : start + _BATCH_EVENTS])
            for start in range(0, len(lines), _BATCH_EVENTS)
        ]

    async def _stream_log(
        self, frames: _EventEncoder, log: EventLog, position: int, after: int
    ) -> AsyncGenerator[bytes]:
        """Yield frames of the events of a log, and of bookmarks when they are due.

        Args:
            frames: encodes the events.
            log: the history of the kind.
            position: the position in the log at which to begin.
            after: a revision; events up to it are left out. A watch may ask for a future revision,
                so this may be above the revision of the position.
        """
        deadline = time.monotonic() + (self.options.timeout or _LONGEST_SECONDS)
        next_bookmark = self._find_next_bookmark(deadline)
        earliest_chunk = 0.0
        with closing(Waiter(log)) as waiter:
            while (now := time.monotonic()) < deadline:
                events = log.list_from(position, _BATCH_EVENTS)
                if events is None:
                    # The position is compacted: the client has to list again.
                    return
                if 0 < len(events) < _BATCH_EVENTS and now < earliest_chunk:
                    # Gather more events before the next chunk; a full batch need not wait.
                    await waiter.sleep(earliest_chunk - now)
                    continue
                if events:
                    position += len(events)
                    if events[0].revision <= after:
                        events = [event for event in events if event.revision > after]
                    lines = (self._encode_selected(frames, event) for event in events)
                    chunk = b"".join(line for line in lines if line)
                    if chunk:
                        yield chunk
                        earliest_chunk = time.monotonic() + _CHUNK_INTERVAL_SECONDS
                    continue
                # Everything was sent. A closed log gets no more events.
                if log.closed:
                    return
                if now >= next_bookmark:
                    yield frames.encode_bookmark(self.api.store.revision)
                    next_bookmark = self._find_next_bookmark(deadline)
                await waiter.wait(min(next_bookmark, deadline))

    def _find_next_bookmark(self, deadline: float) -> float:
        """Return when the next bookmark is due, as a time of `time.monotonic`.

        Bookmarks are sent regularly, and shortly before the end. If no more is due, the result is
        the deadline, at which the watch ends without one.
        """
        if not self.options.bookmarks:
            return deadline
        now = time.monotonic()
        last_bookmark = deadline - _LAST_BOOKMARK_SECONDS
        return min(now + BOOKMARK_SECONDS, last_bookmark if last_bookmark > now else deadline)

    def _encode_selected(self, frames: _EventEncoder, event: StoredChange) -> bytes:
        """Return the frame of an event for this watch; empty if the watch does not select it.

        An object that begins to match the selectors is ADDED, and one that matches no longer is
        DELETED.
        """
        namespace = self.call.info.namespace
        prefix = f"{namespace}/" if namespace and self.call.resource.namespaced else ""
        if not event.current.key.startswith(prefix):
            return b""
        if not self.options.labels and not self.options.fields:
            return frames.encode_shared(event)
        matches = SelectionPredicate(self.call.resource, self.options)
        did_match = event.previous is not None and matches(event.previous)
        if event.type == "DELETED":
            return frames.encode_shared(event) if did_match else b""
        if matches(event.current):
            event_type = "MODIFIED" if did_match else "ADDED"
            return (
                frames.encode_shared(event)
                if event_type == event.type
                else frames.encode_event(event_type, event.current)
            )
        if did_match and event.previous is not None:
            return frames.encode_event(
                "DELETED", _copy_at_revision(event.previous, event.revision)
            )
        return b""


def _encode_line(event_type: str, body: bytes) -> bytes:
    """Return a line of the stream: an event type with an object that is JSON already."""
    return b'{"type":"' + event_type.encode() + b'","object":' + body + b"}\n"


def _copy_at_revision(stored: StoredObject, revision: int) -> StoredObject:
    """Return an object under a later revision.

    An object that matches a selector no longer is sent in its last matching state, under the
    revision of the change, so that the client can continue from there.
    """
    body = _decode(stored.body)
    body["metadata"]["resourceVersion"] = str(revision)
    return StoredObject(stored.key, revision, _encode(body))


def open_watch(api: Api, call: AuthorizedCall, form: Form) -> ServedWatch:
    """Validate a watch request; return the watch.

    Raises:
        StatusError: its options are invalid. A revision that is too old is no error here: it
            becomes an event of the stream.
    """
    options = read_list_options(call.query, call.resource.rules, watch=True)
    fault = find_revision_fault(options.version) if options.version else ""
    if fault:
        raise build_unclassified_error(fault)
    if form == "table":
        check_include(call.query.get("includeObject", ""))
    return ServedWatch(api, call, options=options, form=form)
