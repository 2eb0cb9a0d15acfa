"""States of the live page, computed after changes, and messages with the changes for each reader.

A *reader* is a page that is open in a browser. A *state* is all data of the page at one time. No
state is computed while there is no reader. Computing states takes at most about a tenth of the
time, because the process has other work. Only pools that a change concerns are computed again. If
nothing changed, only the page's time and its failures are renewed.

A reader does not get each state, but the changes from its last state to the newest one, so a slow
reader costs nothing. Each message is computed and encoded once for all readers with the same
state.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from heapq import nlargest
from itertools import chain

import anyio

from controller.clock import Clock
from controller.meta import Key
from controller.plaintext import escape_values
from reconcilers.addressmap.pagedata import (
    Document,
    TenantDocuments,
    build_documents_by_pool,
    build_page_state,
    build_time_and_failures,
    list_tenants,
)
from reconcilers.addressmap.pagemessages import build_change_message, build_whole_message, encode
from reconcilers.addressmap.tenants import assign_look_numbers
from reconcilers.spaces.offers import PoolName
from reconcilers.ui.watched import PageInformers, ReadEvent

LEAST_SECONDS = 0.25
"""The least time between two states."""
SHARE = 10
"""After a state, computing rests for this many times the time that the state took."""
REFRESH_SECONDS = 10.0
"""After this time without a change, the page's time and its failures are renewed."""
EVENTS_SHOWN = 100
_NO_STATE = -1
"""The number of a reader that has no state yet."""


class Feed:
    """The newest state of the page, and messages that lead to it.

    Args:
        watched: the objects that the page shows.
        clock: the time.
    """

    def __init__(self, watched: PageInformers, clock: Clock) -> None:
        self.state: Document | None = None
        """The newest state, from `build_page_state`; None before the first."""
        self.number = 0
        """The number of the newest state; the first has 1."""
        self.published = anyio.Event()
        """Set when the next state is published; then a new event replaces it."""
        self.readers = 0
        """The number of current readers."""
        self._watched = watched
        self._clock = clock
        # Whether any object, and which pools, have changed since the newest state.
        self._has_changed = True
        self._changed_pools: set[PoolName] = set()
        # The pools in the newest state, their documents, and the numbers of tenants' looks.
        self._names: list[PoolName] = []
        self._messages: dict[int, str] = {}
        """Encoded messages that lead to the newest state, by the number of the reader's state."""
        self._documents: dict[PoolName, list[Document]] = {}
        self._look_numbers: dict[str, int] = {}
        self._tenants = TenantDocuments()
        self._not_read = watched.list_all_not_read()
        # Set after a change, and by a new reader: then `run` computes a state.
        self._wake_event = anyio.Event()
        watched.on_change(self._note_change)

    async def run(self) -> None:
        """Compute states while there is a reader, until cancelled."""
        await self._watched.wait_until_read()
        while True:
            if not self.readers:
                await self._wake_event.wait()  # without a reader no state is needed
            # With a reader, the page's time and its failures are renewed even without a change.
            with self._clock.move_on_after(REFRESH_SECONDS):
                await self._wake_event.wait()
            self._wake_event = anyio.Event()
            if not self.readers:
                continue  # the last reader has left; the next reader sets the event
            if self._watched.others is not None:
                # Views of other platforms' pools are kept current only for a while after this.
                self._watched.others.keep_current()
            started_at = self._clock.monotonic()
            self._publish(self._compute_state())
            duration = self._clock.monotonic() - started_at
            await self._clock.sleep(max(LEAST_SECONDS, SHARE * duration))

    @contextmanager
    def open_reader(self) -> Iterator["FeedReader"]:
        """Yield a new reader of states; states are computed while there is such a context.

        The reader begins with the newest state if that is current. It may be stale, because no
        state is computed while there is no reader. Then the reader begins with the next state.
        """
        is_current = self.state is not None and (self.readers > 0 or self._is_unchanged())
        self.readers += 1
        try:
            self._wake_event.set()  # wakes `run`
            yield FeedReader(self, _NO_STATE if is_current else self.number)
        finally:
            self.readers -= 1

    def encode_message(self, reader_state: Document | None, number: int) -> str:
        """Return the message that leads from a reader's state to the newest state, as JSON.

        It is computed once for all readers with the same state.

        Args:
            reader_state: the reader's last state; None if it has none.
            number: the number of that state.
        """
        assert self.state is not None, "a reader asks after a state was published"
        message_key = _NO_STATE if reader_state is None else number
        if message_key not in self._messages:
            message = (
                build_whole_message(self.state)
                if reader_state is None
                else build_change_message(reader_state, self.state)
            )
            self._messages[message_key] = encode(message)
        return self._messages[message_key]

    def _publish(self, state: Document) -> None:
        """Make a state the newest one, and wake the readers."""
        self.state = state
        self.number += 1
        self._messages = {}
        self.published.set()
        self.published = anyio.Event()

    def _note_change(self, pools: Collection[PoolName]) -> None:
        """Note a change, and wake `run`.

        Args:
            pools: the pools that the change concerns; empty if it concerns only other objects.
        """
        self._changed_pools.update(pools)
        self._has_changed = True
        self._wake_event.set()

    def _is_unchanged(self) -> bool:
        """Return whether no object has changed since the newest state."""
        return (
            not self._has_changed
            and self._names == self._watched.names
            and self._not_read == self._watched.list_all_not_read()
        )

    def _compute_state(self) -> Document:
        """Return the current state.

        If no object changed, it is the newest state with another time. Else the documents of
        changed and of new pools are built again; the other pools keep theirs.
        """
        now, failures = self._clock.now(), list(self._watched.list_failures())
        if self.state is not None and self._is_unchanged():
            return self.state | build_time_and_failures(now, failures)
        names, not_read = self._watched.names, self._watched.list_all_not_read()
        changed_pools, self._changed_pools = self._changed_pools, set()
        self._has_changed = False
        if not_read != self._not_read:
            # A list that can be read now, or no longer, may have holders of any pool.
            changed_pools.update(names)
        self._names, self._not_read = names, not_read
        old_documents = self._documents
        missing = {name for name in names if name in changed_pools or name not in old_documents}
        # Views of other platforms' pools are built for these pools alone.
        objects = self._watched.collect_objects(is_wanted=missing.__contains__)
        new_documents = build_documents_by_pool(objects, missing) if missing else {}
        self._documents = {
            name: new_documents[name] if name in new_documents else old_documents[name]
            for name in names
        }
        all_documents = [
            document for documents in self._documents.values() for document in documents
        ]
        # Tenants keep their looks, because readers show them. `objects` lacks the unchanged pools
        # of other platforms, so their tenants are taken from the documents.
        tenants_in_pools = chain.from_iterable(map(list_tenants, all_documents))
        self._look_numbers = assign_look_numbers(objects, self._look_numbers, tenants_in_pools)
        state = build_page_state(
            objects, now, pools=all_documents, numbers=self._look_numbers, tenants=self._tenants
        )
        events = [
            escape_values(_build_event_document(event)) for event in self._list_latest_events()
        ]
        return state | build_time_and_failures(now, failures) | {"events": events}

    def _list_latest_events(self) -> list[ReadEvent]:
        """Return the latest EVENTS_SHOWN events, the newest first."""
        dated = (event for event in self._watched.events.cache if event.at is not None)
        return nlargest(EVENTS_SHOWN, dated, key=lambda event: (event.at, event.metadata.name))


class FeedReader:
    """A reader of states; `Feed.open_reader` creates it.

    Args:
        feed: publishes the states.
        number: the number of the state that is too old for the first message; `read` waits for
            another state.
    """

    def __init__(self, feed: Feed, number: int) -> None:
        self._feed = feed
        self._number = number
        self._state: Document | None = None

    async def read(self) -> str:
        """Return the next message, encoded: first the whole state, later the changes.

        Wait until there is a newer state than the reader's last one.
        """
        while self._feed.number == self._number:
            await self._feed.published.wait()
        message = self._feed.encode_message(self._state, self._number)
        self._state, self._number = self._feed.state, self._feed.number
        return message


def _build_event_document(event: ReadEvent) -> Document:
    """Return an event as the page lists it."""
    regarding = event.regarding
    return {
        "id": f"{event.metadata.namespace}/{event.metadata.name}",
        "at": event.at.strftime("%Y-%m-%d %H:%M:%S") if event.at else "",
        "type": event.type,
        "reason": event.reason,
        "note": event.note,
        "about": f"{regarding.kind} {Key(regarding.namespace, regarding.name)}",
        "count": event.series.count if event.series else 1,
    }
