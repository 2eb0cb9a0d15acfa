"""Objects, their revisions and their history: read from memory, and kept on disk."""

from envtest.storage.disk import Disk, DiskError
from envtest.storage.log import EventLog, StoredChange, StoredObject, Waiter
from envtest.storage.store import Store, Table

__all__ = [
    "Disk",
    "DiskError",
    "EventLog",
    "Store",
    "StoredChange",
    "StoredObject",
    "Table",
    "Waiter",
]
