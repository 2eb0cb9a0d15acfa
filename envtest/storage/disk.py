"""Durable storage: one SQLite file in WAL mode, one transaction per write.

Every write is committed before the server answers. With `synchronous=NORMAL` the operating system
has the bytes then: a killed process loses nothing, and a power failure may lose the last writes.
FULL would flush the disk at each write, which is too slow for a test server.

As etcd does, the file has versions of objects: every state and every deletion since the last
compaction, and the state of each object at that compaction. So watches continue after a restart.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

_SCHEMA = """
CREATE TABLE IF NOT EXISTS versions (
    place TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL,
    deleted INTEGER NOT NULL, at REAL NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (place, key, revision)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS floors (place TEXT PRIMARY KEY, revision INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO facts VALUES ('revision', 1), ('compacted', 1);
"""
_INSERT = "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)"
_LOAD = "SELECT place, key, revision, deleted, at, body FROM versions ORDER BY revision"
_FORGET = "DELETE FROM versions WHERE place = ? AND key = ? AND revision = ?"
_SET = "UPDATE facts SET value = ? WHERE name = ?"
_REMEDY = "give another folder, or restore this one from a copy"

_refuse_malformed_json = msgspec.json.Decoder(msgspec.Raw).decode


class DiskError(Exception):
    """The data folder cannot be used; the message says why and what to do."""


class StoredVersion(NamedTuple):
    """One state of one object, or its deletion.

    Attributes:
        table_name: the name of the table (the column `place`).
        key: the key in the table.
        revision: the revision of the write.
        deleted: whether the write deleted the object; the body is then its last state.
        at: the time of the write, in seconds since the epoch.
        body: the object as JSON.
    """

    table_name: str
    key: str
    revision: int
    deleted: bool
    at: float
    body: bytes


class Disk:
    """The SQLite file: versions of objects, and the highest revision of any write."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "objects.sqlite"
        with self._explain_errors():
            folder.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                _create(self._path)
            elif self._path.stat().st_size <= 1:
                # SQLite takes a file of one byte for an empty one.
                raise DiskError(f"{self._path} is empty: it was cut short; {_REMEDY}")
            self._database = _open_exclusively(self._path)
        # Usually the highest revision is that of the newest version in the file, so a write need
        # not store it. Deleting versions may delete the newest, so `drop_versions` stores it then.
        self._highest = max(self._read_fact("revision"), self._read_newest_revision())

    def read_revision(self) -> int:
        """Return the highest revision of any write."""
        return self._highest

    def read_compacted_revision(self) -> int:
        """Return the revision up to which the history is compacted."""
        return self._read_fact("compacted")

    def read_floors(self) -> dict[str, int]:
        """Return, by table, the revision up to which its history was dropped."""
        with self._explain_errors():
            return dict(self._database.execute("SELECT place, revision FROM floors"))

    def iterate_versions(self) -> Iterator[StoredVersion]:
        """Yield all versions, in the order of their revisions.

        Raises:
            DiskError: the file is damaged.
        """
        with self._explain_errors():
            for row in self._database.execute(_LOAD):
                version = StoredVersion._make(row)
                _refuse_malformed_json(version.body)
                yield version

    def write(self, version: StoredVersion) -> None:
        """Store a version; durable on return.

        Raises:
            DiskError: it cannot be stored, for example because the disk is full.
        """
        with self._undo_failed_writes():
            self._database.execute(_INSERT, version)
        self._highest = max(self._highest, version.revision)

    def drop_versions(
        self, table_name: str, floor: int, versions: Iterable[tuple[str, int]]
    ) -> None:
        """Drop versions of a table in one transaction; its history then begins after `floor`.

        Args:
            table_name: the name of the table (the column `place`).
            floor: the revision up to which the history is dropped.
            versions: key and revision of each version to drop.

        Raises:
            DiskError: they cannot be dropped, for example because the disk is full; all are kept.
        """
        with self._undo_failed_writes():
            cursor = self._database.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany(
                _FORGET, ((table_name, key, revision) for key, revision in versions)
            )
            cursor.execute("INSERT OR REPLACE INTO floors VALUES (?, ?)", (table_name, floor))
            # The newest version may be among the dropped ones, so its revision is stored apart.
            cursor.execute(_SET, (self._highest, "revision"))

    def compact(self, revision: int) -> None:
        """Record the revision of a compaction: all histories begin after it, also of new kinds.

        The versions are deleted by `drop_versions`.

        Raises:
            DiskError: it cannot be recorded, for example because the disk is full.
        """
        with self._undo_failed_writes():
            self._database.execute(_SET, (revision, "compacted"))

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _read_fact(self, name: str) -> int:
        """Return a number of the table `facts`."""
        with self._explain_errors():
            cursor = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,))
            return int(cursor.fetchone()[0])

    def _read_newest_revision(self) -> int:
        """Return the revision of the newest version in the file; 0 if it has none."""
        with self._explain_errors():
            cursor = self._database.execute("SELECT MAX(revision) FROM versions")
            return int(cursor.fetchone()[0] or 0)

    @contextmanager
    def _undo_failed_writes(self) -> Iterator[None]:
        """Roll back a failed transaction, so that no later write joins it.

        Raises:
            DiskError: SQLite could not write.
        """
        try:
            with self._database:
                yield
        except sqlite3.Error as error:
            raise DiskError(
                f"{self._path} takes no more ({error}); make room, or give another folder"
            ) from error

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turn errors of SQLite and the file system into DiskErrors that say what to do.

        Raises:
            DiskError: the file cannot be used.
        """
        try:
            yield
        except sqlite3.OperationalError as error:
            raise DiskError(
                f"{self._path} cannot be opened ({error}); is another server using this folder?"
            ) from error
        except (sqlite3.DatabaseError, msgspec.DecodeError) as error:
            raise DiskError(f"{self._path} is damaged ({error}); {_REMEDY}") from error
        except OSError as error:
            raise DiskError(
                f"{self._path} cannot be used: {error}; give another folder"
            ) from error


def _create(path: Path) -> None:
    """Create the file under another name, then rename it.

    So an empty file of the final name cannot be one that is just being created: it is damaged.
    """
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    # The objects include Secrets. SQLite gives its log file the same mode.
    new.touch(mode=0o600)
    _open_exclusively(new).close()
    new.replace(path)


def _open_exclusively(path: Path) -> sqlite3.Connection:
    """Open the database file exclusively; on an error the connection is closed again."""
    with ExitStack() as stack:
        database = sqlite3.connect(path, isolation_level=None, timeout=0)
        stack.callback(database.close)
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        # Damage is reported at the start, not by the first request that reads the damaged row.
        fault = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if fault != "ok":
            raise sqlite3.DatabaseError(": ".join(fault.split("\n")))
        database.executescript(_SCHEMA)
        stack.pop_all()
    return database
