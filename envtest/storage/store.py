"""The store: tables of objects under one revision counter, as etcd under an API server.

Everything here is synchronous: between a check and the write that relies on it no other task runs,
which is what makes preconditions hold without locks.
"""

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import msgspec

from envtest.storage.disk import Disk, StoredVersion
from envtest.storage.log import SHARED_EVENTS, EventLog, EventType, Stored, StoredChange

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Table:
    """The objects of one kind, by key (`namespace/name`, or `name` alone), in etcd's key order."""

    def __init__(self, place: str, floor: int) -> None:
        self.place = place
        self.log = EventLog(floor)
        self.changes = 0
        # Called with every change of these objects, after the listeners of the store.
        self.listeners: list[Callable[[StoredChange], None]] = []
        self._objects: dict[str, Stored] = {}
        self._order: list[str] = []

    def get(self, key: str) -> Stored | None:
        """Return the current object, if there is one."""
        return self._objects.get(key)

    def __getitem__(self, key: str) -> Stored:
        return self._objects[key]

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

    def read_former_states(self, revision: int) -> dict[str, Stored | None]:
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

    def restore(self, version: StoredVersion) -> None:
        """Restore a stored version, in order; `sort` has to follow the last one."""
        stored = Stored(version.key, version.revision, version.body)
        previous = self._objects.pop(version.key, None)
        if not version.deleted:
            self._objects[version.key] = stored
        if version.revision > self.log.floor:
            kind: EventType = "ADDED" if previous is None else "MODIFIED"
            kind = "DELETED" if version.deleted else kind
            self.log.restore(
                StoredChange(
                    kind, version.revision, current=stored, previous=previous, at=version.at
                )
            )

    def sort(self) -> None:
        """Bring keys in order after a restoration."""
        self._order = sorted(self._objects)

    def pop(self, key: str) -> Stored:
        """Remove an object without an event."""
        del self._order[bisect_left(self._order, key)]
        self.changes += 1
        return self._objects.pop(key)


class Store:
    """All tables, the revision they share, and the disk behind them."""

    def __init__(self, disk: Disk | None = None, clock: Callable[[], float] = time.time) -> None:
        """Load what the disk holds.

        Args:
            disk: what survives; nothing if there is none.
            clock: seconds since the epoch, by which history is aged.
        """
        self._disk = disk
        self._clock = clock
        self._tables: dict[str, Table] = {}
        # Where the history of a table begins that has none yet.
        self._floors = disk.floors() if disk else {}
        self._compacted = disk.read_compacted_revision() if disk else 1
        self.revision = disk.revision() if disk else 1
        # Called with every change, in order, before the writer gets its answer.
        self.listeners: list[Callable[[str, StoredChange], None]] = []
        self._next_change: anyio.Event | None = None
        if disk:
            for version in disk.load():
                self.table(version.place).restore(version)
            for table in self._tables.values():
                table.sort()

    def table(self, place: str) -> Table:
        """Return the table of a place such as `lab.example.com/widgets`, made on first use."""
        table = self._tables.get(place)
        if table is None:
            floor = max(self._floors.get(place, 0), self._compacted)
            table = self._tables[place] = Table(place, floor)
        return table

    def drop(self, place: str) -> None:
        """Forget an empty table and its history; its watches end."""
        table = self._tables.pop(place, None)
        if table is not None:
            # Its watches still read what is in the log.
            self._forget(place, self.revision, table.log.after(0))
            self._floors[place] = self.revision
            table.log.close()

    def close_watches(self) -> None:
        """End every watch, as on shutdown."""
        for table in self._tables.values():
            table.log.close()

    def settle(self) -> None:
        """Forget the events of the start of a new server."""
        if self._compacted == 1:
            self.compact(self.revision)

    def compact(self, revision: int) -> None:
        """Forget all history up to a revision."""
        for table in self._tables.values():
            gone = table.log.compact(revision)
            self._forget(table.place, table.log.floor, gone)
        self._compacted = max(self._compacted, revision)
        if self._disk:
            self._disk.compact(self._compacted)

    def write(self, place: str, key: str, body: dict[str, Any]) -> Stored:
        """Store an object under a new revision; sets its resourceVersion."""
        stored, at = self._keep(place, key, body, deleted=False)
        table = self.table(place)
        previous = table.put(stored)
        self._publish(
            table,
            "ADDED" if previous is None else "MODIFIED",
            current=stored,
            previous=previous,
            at=at,
        )
        return stored

    def delete(self, place: str, key: str) -> Stored:
        """Remove an object; its last state, under the revision of the deletion, is in the event.

        A write that takes the last finalizer is never stored, so the event still shows it.

        Raises:
            KeyError: there is no such object.
        """
        table = self.table(place)
        body = _decode(table[key].body)
        last, at = self._keep(place, key, body, deleted=True)
        self._publish(table, "DELETED", current=last, previous=table.pop(key), at=at)
        return last

    def _keep(
        self, place: str, key: str, body: dict[str, Any], *, deleted: bool
    ) -> tuple[Stored, float]:
        """Give out a revision and make the object durable under it."""
        revision, at = self.revision + 1, self._clock()
        body["metadata"]["resourceVersion"] = str(revision)
        stored = Stored(key, revision, _encode(body))
        if self._disk:
            self._disk.write(
                StoredVersion(
                    place, key, revision=revision, deleted=deleted, at=at, body=stored.body
                )
            )
        self.revision = revision
        return stored, at

    def is_recent(self, event: StoredChange) -> bool:
        """Return whether an event may keep its bytes for the wire: watchers will ask for them."""
        return event.revision > self.revision - SHARED_EVENTS

    def next_change(self) -> anyio.Event:
        """Return the event that is set by the next change of any object."""
        if self._next_change is None:
            self._next_change = anyio.Event()
        return self._next_change

    def tables(self) -> list[Table]:
        """Return all tables."""
        return list(self._tables.values())

    def close(self) -> None:
        """Release the disk."""
        if self._disk:
            self._disk.close()

    def _publish(  # the parts of one change
        self, table: Table, kind: EventType, current: Stored, previous: Stored | None, at: float
    ) -> None:
        """Log a change and call the listeners."""
        event = StoredChange(kind, current.revision, current=current, previous=previous, at=at)
        gone = table.log.append(event)
        if gone:
            self._forget(table.place, table.log.floor, gone)
        for listener in self.listeners:
            listener(table.place, event)
        for listen in table.listeners:
            listen(event)
        changed, self._next_change = self._next_change, None
        if changed is not None:
            changed.set()

    def _forget(self, place: str, floor: int, gone: Sequence[StoredChange]) -> None:
        """Drop from disk what only these events needed: what they replaced, and deletions."""
        if not self._disk:
            return
        replaced = [(e.current.key, e.previous.revision) for e in gone if e.previous is not None]
        ended = [(e.current.key, e.revision) for e in gone if e.type == "DELETED"]
        self._disk.forget(place, floor, replaced + ended)
