"""Objects, their revisions and their history: in memory for reading, on disk for keeping."""

from envtest.storage.disk import Disk, DiskError
from envtest.storage.log import Alarm, Event, EventLog, Stored
from envtest.storage.store import Store, Table

__all__ = ["Alarm", "Disk", "DiskError", "Event", "EventLog", "Store", "Stored", "Table"]
