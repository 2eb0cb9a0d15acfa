"""The store: tables of objects under one revision counter, like etcd for an API server.

A table has a name such as `lab.example.com/widgets`, or `pods` in the core group.

All methods are synchronous. So no other task runs between a check and the write that relies on it,
and preconditions need no locks.
"""

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import msgspec

from envtest.storage.disk import Disk, StoredVersion
from envtest.storage.log import SHARED_EVENTS, EventLog, EventType, StoredChange, StoredObject

_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Table:
    """The objects of one kind, by key (`namespace/name`, or `name` alone), in etcd's key order."""

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self.log = EventLog(floor)
        # The number of changes, by which caches see that the table has changed.
        self.changes = 0
        # Called with every change of these objects, after the listeners of the store.
        self.listeners: list[Callable[[StoredChange], None]] = []
        self._objects: dict[str, StoredObject] = {}
        self._order: list[str] = []

    def get(self, key: str) -> StoredObject | None:
        """Return the current object with a key; None if there is none."""
        return self._objects.get(key)

    def __getitem__(self, key: str) -> StoredObject:
        return self._objects[key]

    def __len__(self) -> int:
        return len(self._order)

    def iterate_keys(self, prefix: str = "", after: str = "") -> Iterator[str]:
        """Yield the keys with a prefix, in order, that come after the key `after`."""
        start = bisect_left(self._order, max(prefix, after))
        for key in self._order[start:]:
            if not key.startswith(prefix):
                return
            if key != after:
                yield key

    def read_former_states(self, revision: int) -> dict[str, StoredObject | None]:
        """Return the objects that changed after a revision, as they were at that revision.

        The state is None for an object that did not exist. The revision must not be below the
        log's floor.
        """
        former_states: dict[str, StoredObject | None] = {}
        for event in self.log.list_after(revision):
            # Only the first event after the revision has the state at the revision.
            former_states.setdefault(event.current.key, event.previous)
        return former_states

    def put(self, stored: StoredObject) -> StoredObject | None:
        """Set an object without an event; return the previous object, or None."""
        previous = self._objects.get(stored.key)
        if previous is None:
            insort(self._order, stored.key)
        self._objects[stored.key] = stored
        self.changes += 1
        return previous

    def restore(self, version: StoredVersion) -> None:
        """Add a version that was read from disk; versions have to come in order.

        After the last version the caller has to call `sort`.
        """
        stored = StoredObject(version.key, version.revision, version.body)
        previous = self._objects.pop(version.key, None)
        if not version.deleted:
            self._objects[version.key] = stored
        # Older versions are on disk for the state of the objects, and belong to no event.
        if version.revision > self.log.floor:
            event_type: EventType = "ADDED" if previous is None else "MODIFIED"
            event_type = "DELETED" if version.deleted else event_type
            self.log.restore(
                StoredChange(
                    event_type, version.revision, current=stored, previous=previous, at=version.at
                )
            )

    def sort_keys(self) -> None:
        """Sort the keys after all versions were restored."""
        self._order = sorted(self._objects)

    def pop(self, key: str) -> StoredObject:
        """Remove an object without an event."""
        del self._order[bisect_left(self._order, key)]
        self.changes += 1
        return self._objects.pop(key)


class Store:
    """All tables, the revision they share, and the disk behind them."""

    def __init__(self, disk: Disk | None = None, clock: Callable[[], float] = time.time) -> None:
        """Load the objects and their history from disk.

        Args:
            disk: stores all writes; None for a store in memory.
            clock: returns seconds since the epoch, by which history ages.
        """
        self._disk = disk
        self._clock = clock
        self._tables: dict[str, Table] = {}
        # Table name -> the revision after which its history begins, once the table is created.
        self._floors = disk.read_floors() if disk else {}
        self._compacted = disk.read_compacted_revision() if disk else 1
        self.revision = disk.read_revision() if disk else 1
        # Called with every change, in order, before the writer gets its answer.
        self.listeners: list[Callable[[str, StoredChange], None]] = []
        self._next_change: anyio.Event | None = None
        if disk:
            for version in disk.iterate_versions():
                self.get_table(version.table_name).restore(version)
            for table in self._tables.values():
                table.sort_keys()

    def get_table(self, table_name: str) -> Table:
        """Return the table of a name such as `lab.example.com/widgets`; create it if missing."""
        table = self._tables.get(table_name)
        if table is None:
            floor = max(self._floors.get(table_name, 0), self._compacted)
            table = self._tables[table_name] = Table(table_name, floor)
        return table

    def drop_table(self, table_name: str) -> None:
        """Drop an empty table and its history; its watches end."""
        table = self._tables.pop(table_name, None)
        if table is not None:
            # The log itself stays for its watches, which read it to the end.
            self._drop_versions(table_name, self.revision, table.log.list_after(0))
            self._floors[table_name] = self.revision
            table.log.close()

    def close_watches(self) -> None:
        """End every watch, as on shutdown."""
        for table in self._tables.values():
            table.log.close()

    def drop_start_history(self) -> None:
        """Drop the history of a new server's start, so that clients do not see these events."""
        # The history begins at revision 1 until it is compacted first. A server that starts again
        # keeps its history.
        if self._compacted == 1:
            self.compact(self.revision)

    def compact(self, revision: int) -> None:
        """Drop all history up to a revision."""
        for table in self._tables.values():
            dropped_events = table.log.compact(revision)
            self._drop_versions(table.name, table.log.floor, dropped_events)
        self._compacted = max(self._compacted, revision)
        if self._disk:
            self._disk.compact(self._compacted)

    def write(self, table_name: str, key: str, body: dict[str, Any]) -> StoredObject:
        """Store an object under a new revision, which is set as resourceVersion in `body`."""
        stored, at = self._persist(table_name, key, body, deleted=False)
        table = self.get_table(table_name)
        previous = table.put(stored)
        self._publish_change(
            table,
            "ADDED" if previous is None else "MODIFIED",
            current=stored,
            previous=previous,
            at=at,
        )
        return stored

    def delete(self, table_name: str, key: str) -> StoredObject:
        """Remove an object; return its last state under the revision of the deletion.

        An update that removes the last finalizer is not stored, so the last state still has it.

        Raises:
            KeyError: there is no such object.
        """
        table = self.get_table(table_name)
        body = _decode(table[key].body)
        last, at = self._persist(table_name, key, body, deleted=True)
        self._publish_change(table, "DELETED", current=last, previous=table.pop(key), at=at)
        return last

    def _persist(
        self, table_name: str, key: str, body: dict[str, Any], *, deleted: bool
    ) -> tuple[StoredObject, float]:
        """Write an object to disk under the next revision; return it, and the time of the write.

        The revision counter is raised only after the write to disk has succeeded.
        """
        revision, at = self.revision + 1, self._clock()
        body["metadata"]["resourceVersion"] = str(revision)
        stored = StoredObject(key, revision, _encode(body))
        if self._disk:
            self._disk.write(
                StoredVersion(
                    table_name, key, revision=revision, deleted=deleted, at=at, body=stored.body
                )
            )
        self.revision = revision
        return stored, at

    def is_recent(self, event: StoredChange) -> bool:
        """Return whether an event is recent enough to keep its encoded frames."""
        return event.revision > self.revision - SHARED_EVENTS

    def get_next_change(self) -> anyio.Event:
        """Return the event that is set by the next change of any object."""
        if self._next_change is None:
            self._next_change = anyio.Event()
        return self._next_change

    def list_tables(self) -> list[Table]:
        """Return all tables."""
        return list(self._tables.values())

    def close(self) -> None:
        """Release the disk."""
        if self._disk:
            self._disk.close()

    def _publish_change(  # the parts of one change
        self,
        table: Table,
        event_type: EventType,
        current: StoredObject,
        previous: StoredObject | None,
        at: float,
    ) -> None:
        """Log a change and call the listeners."""
        event = StoredChange(
            event_type, current.revision, current=current, previous=previous, at=at
        )
        dropped_events = table.log.append(event)
        if dropped_events:
            self._drop_versions(table.name, table.log.floor, dropped_events)
        for listener in self.listeners:
            listener(table.name, event)
        for listen in table.listeners:
            listen(event)
        waiting_event, self._next_change = self._next_change, None
        if waiting_event is not None:
            waiting_event.set()

    def _drop_versions(
        self, table_name: str, floor: int, dropped_events: Sequence[StoredChange]
    ) -> None:
        """Delete from disk the versions that only the dropped events needed.

        These are the states that the events replaced, and the versions of deletions.
        """
        if not self._disk:
            return
        replaced_states = [
            (e.current.key, e.previous.revision) for e in dropped_events if e.previous is not None
        ]
        deletions = [(e.current.key, e.revision) for e in dropped_events if e.type == "DELETED"]
        self._disk.drop_versions(table_name, floor, replaced_states + deletions)
