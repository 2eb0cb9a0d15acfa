"""A list that comes as the beginning of a watch (sendInitialEvents), collected until it is whole.

The server sends every object as ADDED, in no order of revisions, and then a bookmark with an
annotation that says: this was all, and you are at this revision; the same watch goes on from
there. Until then nothing may be believed: what is missing is not gone, and no revision in it is a
position to come back to. So it is collected here and reaches the cache in one piece.

A proxy that holds back or drops the bookmark would keep us waiting for ever, with no more than a
warning in client-go; here there is a deadline for it.
"""

from typing import Generic, TypeVar

from controller.codec import Added, Bookmark, Deleted, Modified, Page, Unreadable
from controller.meta import Key, Object

T = TypeVar("T", bound=Object)

STREAM_SECONDS = 30.0
"""How long a whole list may take to come this way."""


class InitialEvents(Generic[T]):
    """The list so far.

    Args:
        revision: the list may not be older than this; empty for the newest.
        due: monotonic seconds by which it must be whole.
    """

    def __init__(self, revision: str, due: float) -> None:
        self.revision = revision
        self.due = due
        self.opened = False
        """Whether the server took the watch."""
        self._items: dict[Key, T] = {}
        self._unreadable: dict[Key, str] = {}

    def take(
        self, event: Added[T] | Modified[T] | Deleted[T] | Unreadable | Bookmark
    ) -> Page[T] | None:
        """Add an event; returns the list if that was its end."""
        match event:
            case Bookmark(revision, initial_end=True):
                return Page(tuple(self._items.values()), revision, self._unreadable)
            case Bookmark():
                pass
            case Unreadable(key, _, reason, deleted):
                self._items.pop(key, None)
                self._unreadable[key] = reason
                if deleted:
                    del self._unreadable[key]
            case _:
                self._unreadable.pop(event.key, None)
                self._items[event.key] = event.object
                if isinstance(event, Deleted):
                    del self._items[event.key]
        return None
