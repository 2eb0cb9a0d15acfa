"""Durable storage: one SQLite file in WAL mode, one transaction per write.

Every write is committed before the server answers. `synchronous=NORMAL` means that the bytes are
in the operating system's hands: a killed process loses nothing, a power cut may lose the last
moments. FULL would cost a disk flush per write, which a test server need not pay.

The file holds versions of objects, as etcd does: every state and every deletion since the last
compaction, and of what is older the state that was current then. So watches go on over a restart.
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
# Files of the first format held current objects only.
_ADOPT = """
BEGIN IMMEDIATE;
INSERT INTO versions SELECT place, key, revision, 0, 0, body FROM objects;
UPDATE facts SET value = (SELECT value FROM facts WHERE name = 'revision')
    WHERE name = 'compacted';
DROP TABLE objects;
COMMIT;
"""
_INSERT = "INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)"
_LOAD = "SELECT place, key, revision, deleted, at, body FROM versions ORDER BY revision"
_FORGET = "DELETE FROM versions WHERE place = ? AND key = ? AND revision = ?"
_SET = "UPDATE facts SET value = ? WHERE name = ?"
_REMEDY = "give another folder, or restore this one from a copy"

_check = msgspec.json.Decoder(msgspec.Raw).decode


class DiskError(Exception):
    """The data folder cannot be used; the message says why and what to do."""


class StoredVersion(NamedTuple):
    """One state of one object, or its deletion.

    Attributes:
        place: the table.
        key: in the table.
        revision: at which it came.
        deleted: whether this is the end of the object; the body is then its last state.
        at: when, in seconds since the epoch.
        body: JSON.
    """

    place: str
    key: str
    revision: int
    deleted: bool
    at: float
    body: bytes


class Disk:
    """The SQLite file: versions of objects and the highest revision ever given out."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "objects.sqlite"
        with self._explain_errors():
            folder.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                _create(self._path)
            elif (
                self._path.stat().st_size <= 1
            ):  # SQLite takes a file of one byte for an empty one
                raise DiskError(f"{self._path} is empty: it was cut short; {_REMEDY}")
            self._database = _open_exclusively(self._path)
        # The highest revision of what was ever kept: that of the file's newest version. It is
        # stored by itself only when versions are forgotten, which makes a write one statement.
        self._highest = max(self._fact("revision"), self._newest())

    def revision(self) -> int:
        """Return the highest revision that was ever acknowledged."""
        return self._highest

    def read_compacted_revision(self) -> int:
        """Return the revision up to which the history is compacted."""
        return self._fact("compacted")

    def floors(self) -> dict[str, int]:
        """Return the revisions up to which the histories of single tables are forgotten."""
        with self._explain_errors():
            return dict(self._database.execute("SELECT place, revision FROM floors"))

    def load(self) -> Iterator[StoredVersion]:
        """Yield all versions, in the order in which they came.

        Raises:
            DiskError: the file is damaged.
        """
        with self._explain_errors():
            for row in self._database.execute(_LOAD):
                version = StoredVersion._make(row)
                _check(version.body)
                yield version

    def write(self, version: StoredVersion) -> None:
        """Store a version; durable on return.

        Raises:
            DiskError: there is no room for it; nothing has changed.
        """
        try:
            self._database.execute(_INSERT, version)
        except sqlite3.Error as error:
            raise DiskError(
                f"{self._path} takes no more ({error}); make room, or give another folder"
            ) from error
        self._highest = max(self._highest, version.revision)

    def forget(self, place: str, floor: int, gone: Iterable[tuple[str, int]]) -> None:
        """Drop versions of a table, by key and revision; its history begins after `floor`."""
        cursor = self._database.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        cursor.executemany(_FORGET, ((place, *row) for row in gone))
        cursor.execute("INSERT OR REPLACE INTO floors VALUES (?, ?)", (place, floor))
        cursor.execute(_SET, (self._highest, "revision"))
        cursor.execute("COMMIT")

    def compact(self, revision: int) -> None:
        """Note that the histories of all tables, known or not, begin after a revision."""
        self._database.execute(_SET, (revision, "compacted"))

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _fact(self, name: str) -> int:
        with self._explain_errors():
            cursor = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,))
            return int(cursor.fetchone()[0])

    def _newest(self) -> int:
        with self._explain_errors():
            cursor = self._database.execute("SELECT MAX(revision) FROM versions")
            return int(cursor.fetchone()[0] or 0)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Say in a sentence why the file cannot be used.

        Raises:
            DiskError: it cannot.
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
    """Create the file in one step, so that an empty one is known to be damaged."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    # Secrets are among the objects. The log that SQLite keeps next to it takes the same mode.
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
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'objects'").fetchone():
            database.executescript(_ADOPT)
        stack.pop_all()
    return database
