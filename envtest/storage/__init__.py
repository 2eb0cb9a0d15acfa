"""Objects, their revisions and their history: in memory for reading, on disk for keeping."""

from envtest.storage.disk import Disk, DiskError
from envtest.storage.log import Event, EventLog, Stored, Waiter
from envtest.storage.store import Store, Table

__all__ = ["Disk", "DiskError", "Event", "EventLog", "Store", "Stored", "Table", "Waiter"]
