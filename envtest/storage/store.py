"""The store: tables of objects under one revision counter, as etcd under an API server.

Everything here is synchronous: between a check and the write that relies on it nobody else runs,
which is what makes preconditions hold without locks.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import msgspec

from envtest.storage.disk import Disk
from envtest.storage.log import Event, EventLog, EventType, Stored, now

_encode = msgspec.json.Encoder(order="sorted").encode


class Table:
    """The objects of one kind, by key (`namespace/name`, or `name` alone), in etcd's key order."""

    def __init__(self, place: str, floor: int) -> None:
        self.place = place
        self.log = EventLog(floor)
        self.changes = 0
        self._objects: dict[str, Stored] = {}
        self._order: list[str] = []

    def get(self, key: str) -> Stored | None:
        """Return the current object, if there is one."""
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._order)

    def scan(self, prefix: str = "", after: str = "") -> Iterator[str]:
        """Yield keys with a prefix, in order, beginning behind `after`."""
        start = bisect_left(self._order, max(prefix, after))
        for key in self._order[start:]:
            if not key.startswith(prefix):
                return
            if key != after:
                yield key

    def at(self, revision: int) -> dict[str, Stored | None]:
        """Return, for keys that changed after a revision, what they held then.

        Only meaningful for revisions at or above the log's floor.
        """
        then: dict[str, Stored | None] = {}
        for event in self.log.after(revision):
            then.setdefault(event.current.key, event.previous)
        return then

    def put(self, stored: Stored) -> Stored | None:
        """Set an object without an event; return what was there."""
        previous = self._objects.get(stored.key)
        if previous is None:
            insort(self._order, stored.key)
        self._objects[stored.key] = stored
        self.changes += 1
        return previous

    def pop(self, key: str) -> Stored:
        """Remove an object without an event."""
        del self._order[bisect_left(self._order, key)]
        self.changes += 1
        return self._objects.pop(key)


class Store:
    """All tables, the revision they share, and the disk behind them."""

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk
        self._tables: dict[str, Table] = {}
        self.revision = disk.revision() if disk else 1
        # Told of every change, in order, before the writer gets its answer.
        self.listeners: list[Callable[[str, Event], None]] = []
        self._bell: anyio.Event | None = None
        if disk:
            for place, key, revision, body in disk.load():
                self.table(place).put(Stored(key, revision, body))

    def table(self, place: str) -> Table:
        """Return the table of a place such as `lab.example.com/widgets`, made on first use."""
        found = self._tables.get(place)
        if found is None:
            found = self._tables[place] = Table(place, self.revision)
        return found

    def drop(self, place: str) -> None:
        """Forget an empty table and its history; its watches end."""
        table = self._tables.pop(place, None)
        if table is not None:
            table.log.close()

    def close_watches(self) -> None:
        """End every watch, as on shutdown."""
        for table in self._tables.values():
            table.log.close()

    def settle(self) -> None:
        """Declare all history up to now compacted, as after a start."""
        for table in self._tables.values():
            table.log.compact(self.revision)

    def write(self, place: str, key: str, body: dict[str, Any]) -> Stored:
        """Store an object under a new revision; sets its resourceVersion."""
        revision = self.revision + 1
        body["metadata"]["resourceVersion"] = str(revision)
        stored = Stored(key, revision, _encode(body))
        if self._disk:
            self._disk.write(place, key, revision, stored.body)
        self.revision = revision
        table = self.table(place)
        previous = table.put(stored)
        self._tell(table, "ADDED" if previous is None else "MODIFIED", stored, previous)
        return stored

    def delete(self, place: str, key: str, body: dict[str, Any]) -> Stored:
        """Remove an object; `body` is its last state, which the event carries."""
        revision = self.revision + 1
        body["metadata"]["resourceVersion"] = str(revision)
        last = Stored(key, revision, _encode(body))
        if self._disk:
            self._disk.write(place, key, revision, None)
        self.revision = revision
        table = self.table(place)
        previous = table.pop(key)
        self._tell(table, "DELETED", last, previous)
        return last

    def bell(self) -> anyio.Event:
        """Return what the next change of anything rings."""
        if self._bell is None:
            self._bell = anyio.Event()
        return self._bell

    def tables(self) -> list[Table]:
        """Return all tables."""
        return list(self._tables.values())

    def close(self) -> None:
        """Release the disk."""
        if self._disk:
            self._disk.close()

    def _tell(
        self, table: Table, kind: EventType, current: Stored, previous: Stored | None
    ) -> None:
        """Log a change and let listeners know."""
        event = Event(kind, current.revision, current, previous, now())
        table.log.append(event)
        for listener in self.listeners:
            listener(table.place, event)
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.set()
