"""State of the live page, computed on changes, and the difference since a reader's last one.

No state is computed while there is no reader. It takes at most a tenth of the time: the process
has other work. Only pools that a change concerns are computed again. If nothing changed, only the
time of the page and its failures are renewed. A reader is not sent each state but what differs
between its last one and the newest, so a slow reader costs nothing. Each difference is computed
and encoded once for all readers that have the same state.
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
    documents_of,
    page_state,
    tenants_in,
    time_and_failures,
)
from reconcilers.addressmap.pagemessages import difference, encode, whole
from reconcilers.addressmap.tenants import number_looks
from reconcilers.spaces.offers import PoolName
from reconcilers.ui.watched import PageInformers, ReadEvent

LEAST_SECONDS = 0.25
"""Between two states."""
SHARE = 10
"""A state that took so long to work out is followed by as many times that of rest."""
REFRESH_SECONDS = 10.0
"""After so long without a change the time of the page and what fails are shown again."""
EVENTS_SHOWN = 100
_NO_STATE = -1
"""The number of no state."""


class Feed:
    """States of the page, and what differs between them.

    Args:
        watched: the objects.
        clock: the time.
    """

    def __init__(self, watched: PageInformers, clock: Clock) -> None:
        self.state: Document | None = None
        """The newest, as `page_state` returns it; None before the first."""
        self.number = 0
        """How many states there were."""
        self.published = anyio.Event()
        """Set at the next state; another one then takes its place."""
        self.readers = 0
        """How many read now."""
        self._watched = watched
        self._clock = clock
        self._has_changed = True
        self._dirty: set[PoolName] = set()
        self._names: list[PoolName] = []
        self._messages: dict[int, str] = {}
        """Encoded messages that lead to the newest state, by the number of the reader's state."""
        self._documents: dict[PoolName, list[Document]] = {}
        self._numbers: dict[str, int] = {}
        self._tenants = TenantDocuments()
        self._not_read = watched.all_not_read()
        self._stale = anyio.Event()
        watched.on_change(self._note_change)

    async def run(self) -> None:
        """Compute states while there is a reader, until cancelled."""
        await self._watched.wait_read()
        while True:
            if not self.readers:
                await self._stale.wait()
            with self._clock.move_on_after(REFRESH_SECONDS):
                await self._stale.wait()
            self._stale = anyio.Event()
            if not self.readers:
                continue  # who comes wakes this
            if self._watched.others is not None:
                self._watched.others.want()
            begun = self._clock.monotonic()
            self._publish(self._next_state())
            took = self._clock.monotonic() - begun
            await self._clock.sleep(max(LEAST_SECONDS, SHARE * took))

    @contextmanager
    def reading(self) -> Iterator["FeedReader"]:
        """Count a reader: states are computed inside the context."""
        is_current = self.state is not None and (self.readers > 0 or self._is_unchanged())
        self.readers += 1
        try:
            # Without a reader no state was computed, so the first state has to be a new one.
            self._stale.set()
            yield FeedReader(self, _NO_STATE if is_current else self.number)
        finally:
            self.readers -= 1

    def message(self, seen: Document | None, number: int) -> str:
        """Return the changes from a reader's state to the newest, encoded.

        Args:
            seen: the reader's state; None if it has none.
            number: the number of that state.
        """
        assert self.state is not None, "a reader asks after a state was published"
        known = _NO_STATE if seen is None else number
        if known not in self._messages:
            news = whole(self.state) if seen is None else difference(seen, self.state)
            self._messages[known] = encode(news)
        return self._messages[known]

    def _publish(self, state: Document) -> None:
        self.state = state
        self.number += 1
        self._messages = {}
        self.published.set()
        self.published = anyio.Event()

    def _note_change(self, pools: Collection[PoolName]) -> None:
        self._dirty.update(pools)
        self._has_changed = True
        self._stale.set()

    def _is_unchanged(self) -> bool:
        """Return whether all objects are those of the newest state."""
        seen = (self._names, self._not_read)
        return not self._has_changed and seen == (
            self._watched.names,
            self._watched.all_not_read(),
        )

    def _next_state(self) -> Document:
        """Return the state now; if no object changed, the last one with the time of now."""
        now, failures = self._clock.now(), list(self._watched.failures())
        if self.state is not None and self._is_unchanged():
            return self.state | time_and_failures(now, failures)
        names, not_read = self._watched.names, self._watched.all_not_read()
        dirty, self._dirty, self._has_changed = self._dirty, set(), False
        if not_read != self._not_read:  # it decides of which pools it is known what is free
            dirty.update(names)
        self._names, self._not_read = names, not_read
        known = self._documents
        missing = {name for name in names if name in dirty or name not in known}
        objects = self._watched.objects(missing.__contains__)
        new_documents = documents_of(objects, missing) if missing else {}
        self._documents = {
            name: new_documents[name] if name in new_documents else known[name] for name in names
        }
        all_documents = [
            document for documents in self._documents.values() for document in documents
        ]
        # A tenant that comes takes no other tenant's look while another reader has it in view.
        # The objects lack the pools of other platforms that did not change.
        tenants_in_pools = chain.from_iterable(map(tenants_in, all_documents))
        self._numbers = number_looks(objects, self._numbers, tenants_in_pools)
        state = page_state(
            objects, now, pools=all_documents, numbers=self._numbers, tenants=self._tenants
        )
        events = [escape_values(_event(event)) for event in self._latest()]
        return state | time_and_failures(now, failures) | {"events": events}

    def _latest(self) -> list[ReadEvent]:
        dated = (event for event in self._watched.events.cache if event.at is not None)
        return nlargest(EVENTS_SHOWN, dated, key=lambda event: (event.at, event.metadata.name))


class FeedReader:
    """A reader of states; made by `Feed.reading`.

    Args:
        feed: the states.
        number: the first message leads to a state with a higher number.
    """

    def __init__(self, feed: Feed, number: int) -> None:
        self._feed = feed
        self._number = number
        self._seen: Document | None = None

    async def news(self) -> str:
        """Return everything at first, then what the newest state has that the last one had not."""
        while self._feed.number == self._number:
            await self._feed.published.wait()
        message = self._feed.message(self._seen, self._number)
        self._seen, self._number = self._feed.state, self._feed.number
        return message


def _event(event: ReadEvent) -> Document:
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
