"""State of the live page, computed on changes, and the difference since a reader's last one.

No state is computed while there is no reader. It takes at most a tenth of the time: the process
has other work. Only pools that a change concerns are worked out anew. A reader is not sent each
state but what differs between the last one that it has and the newest, so one that is slow costs
nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain
from typing import Any

import anyio

from controller.clock import Clock
from controller.meta import Key
from reconcilers.addressmap.page import Document, document, documents_of, tenants_in
from reconcilers.addressmap.tenants import numbered
from reconcilers.spaces.offers import PoolName
from reconcilers.ui.watched import ReadEvent, Watched

LEAST_SECONDS = 0.25
"""Between two states."""
SHARE = 10
"""A state that took so long to work out is followed by as many times that of rest."""
REFRESH_SECONDS = 10.0
"""After so long without a change the time of the page and what fails are shown anew."""
EVENTS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class State:
    """What the page shows at one moment.

    Args:
        parts: of the page's document, all but the pools.
        pools: by the page's name for each.
    """

    parts: Mapping[str, Any]
    pools: Mapping[str, Document]


class Feed:
    """States of the page, and what differs between them.

    Args:
        watched: the objects.
        clock: the time.
    """

    def __init__(self, watched: Watched, clock: Clock) -> None:
        self.state: State | None = None
        """The newest."""
        self.number = 0
        """How many states there were."""
        self.published = anyio.Event()
        """Set at the next state; another one then takes its place."""
        self.readers = 0
        """How many read now."""
        self._watched = watched
        self._clock = clock
        self._dirty: set[PoolName] = set()
        self._documents: dict[PoolName, list[Document]] = {}
        self._numbers: dict[str, int] = {}
        self._not_read = watched.all_not_read()
        self._stale = anyio.Event()
        watched.on_change(self._changed)

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
            self.state = self._worked_out()
            self.number += 1
            self.published.set()
            self.published = anyio.Event()
            took = self._clock.monotonic() - begun
            await self._clock.sleep(max(LEAST_SECONDS, SHARE * took))

    @contextmanager
    def reading(self) -> Iterator["Reader"]:
        """Count a reader: states are computed inside the context."""
        self.readers += 1
        try:
            # No state was computed without a reader: the first state has to be a new one.
            self._stale.set()
            yield Reader(self)
        finally:
            self.readers -= 1

    def _changed(self, pools: Collection[PoolName]) -> None:
        self._dirty.update(pools)
        self._stale.set()

    def _worked_out(self) -> State:
        """Return the state now."""
        dirty, self._dirty = self._dirty, set()
        known, names = self._documents, self._watched.names
        not_read = self._watched.all_not_read()
        if not_read != self._not_read:  # it decides of which pools it is known what is free
            self._not_read = not_read
            dirty.update(names)
        missing = {name for name in names if name in dirty or name not in known}
        objects = self._watched.objects(missing.__contains__)
        made = documents_of(objects, missing) if missing else {}
        self._documents = {name: made[name] if name in made else known[name] for name in names}
        every = [one for documents in self._documents.values() for one in documents]
        # Who comes takes no other tenant's look while another reader has it in view.
        # The objects lack those of other platforms' pools that did not change.
        shown = chain.from_iterable(map(tenants_in, every))
        self._numbers = numbered(objects, self._numbers, shown)
        parts = document(objects, self._clock.now(), every, self._numbers)
        parts.pop("pools")
        parts["events"] = [_event(one) for one in self._latest()]
        parts["failures"] = list(self._watched.failures())
        return State(parts, {f"{one['name']} {one['cidr']}": one for one in every})

    def _latest(self) -> list[ReadEvent]:
        dated = (one for one in self._watched.events.cache if one.at is not None)
        return nlargest(EVENTS_SHOWN, dated, key=lambda one: (one.at, one.metadata.name))


class Reader:
    """One that reads states; made by `Feed.reading`."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._number = feed.number
        self._seen: State | None = None

    async def news(self) -> Document:
        """Return everything at first, then what the newest state has that the last one had not."""
        while self._feed.number == self._number:
            await self._feed.published.wait()
        seen, self._seen, self._number = self._seen, self._feed.state, self._feed.number
        assert self._seen is not None, "there is one for each number"
        return difference(seen, self._seen)


def difference(before: State | None, now: State) -> Document:
    """Return what a reader of one state lacks of another; everything without one."""
    if before is None:
        return {**now.parts, "pools": dict(now.pools), "order": list(now.pools)}
    new = {name: part for name, part in now.parts.items() if before.parts.get(name) != part}
    pools = {name: one for name, one in now.pools.items() if before.pools.get(name) is not one}
    order = {"order": list(now.pools)} if list(before.pools) != list(now.pools) else {}
    return {**new, "pools": pools, **order}


def _event(one: ReadEvent) -> Document:
    regarding = one.regarding
    return {
        "id": f"{one.metadata.namespace}/{one.metadata.name}",
        "at": one.at.strftime("%Y-%m-%d %H:%M:%S") if one.at else "",
        "type": one.type,
        "reason": one.reason,
        "note": one.note,
        "about": f"{regarding.kind} {Key(regarding.namespace, regarding.name)}",
        "count": one.series.count if one.series else 1,
    }
