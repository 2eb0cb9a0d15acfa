"""Durable storage: one SQLite file in WAL mode, one transaction per write.

Every write is committed before the server answers. `synchronous=NORMAL` means that the bytes are
in the operating system's hands: a killed process loses nothing, a power cut may lose the last
moments. FULL would cost a disk flush per write, which a test server need not pay.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    place TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (place, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO facts VALUES ('revision', 1);
"""


class DiskError(Exception):
    """The data folder cannot be used; the message says why and what to do."""


class Disk:
    """The file that survives: current objects and the highest revision ever given out."""

    def __init__(self, folder: Path) -> None:
        path = folder / "objects.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._database = _opened(path)
        except sqlite3.OperationalError as error:
            raise DiskError(
                f"{path} cannot be opened ({error}); is another server using this folder?"
            ) from error
        except (sqlite3.DatabaseError, OSError) as error:
            raise DiskError(f"{path} cannot be used: {error}; give another folder") from error

    def revision(self) -> int:
        """Return the highest revision that was ever acknowledged."""
        row = self._database.execute("SELECT value FROM facts WHERE name = 'revision'").fetchone()
        return int(row[0])

    def load(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield (place, key, revision, body) of every object, in key order."""
        yield from self._database.execute(
            "SELECT place, key, revision, body FROM objects ORDER BY place, key"
        )

    def write(self, place: str, key: str, revision: int, body: bytes | None) -> None:
        """Keep an object, or forget it when body is None; durable on return."""
        cursor = self._database.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        if body is None:
            cursor.execute("DELETE FROM objects WHERE place = ? AND key = ?", (place, key))
        else:
            cursor.execute(
                "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (place, key, revision, body)
            )
        cursor.execute("UPDATE facts SET value = ? WHERE name = 'revision'", (revision,))
        cursor.execute("COMMIT")

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def _opened(path: Path) -> sqlite3.Connection:
    """Return a connection that alone has the file; where that fails, none is left behind."""
    with ExitStack() as stack:
        database = sqlite3.connect(path, isolation_level=None, timeout=0)
        stack.callback(database.close)
        database.execute("PRAGMA locking_mode=EXCLUSIVE")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.executescript(_SCHEMA)
        stack.pop_all()
    return database
