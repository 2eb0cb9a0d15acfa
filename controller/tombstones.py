"""Hides objects that the server deleted for us, until the watch has delivered that."""

from collections.abc import Container
from typing import TypeVar

from controller.meta import Key, Object

T = TypeVar("T", bound=Object)


class Tombstones:
    """The uids of objects that the server deleted for us, while the watch may still show them.

    Events and lists that lag behind may still contain such an object; a uid is never used again,
    so it is hidden. So is an earlier object of the same name, which was deleted before that one
    could be created. A tombstone is removed when the deletion is delivered or a newer list comes.
    (The response to a deletion does not hold the deletion's resourceVersion, so the position
    alone cannot tell.)
    """

    def __init__(self) -> None:
        self._revisions: dict[Key, dict[str, int]] = {}

    def __len__(self) -> int:
        return sum(len(uids) for uids in self._revisions.values())

    def add(self, key: Key, uid: str, revision: int) -> None:
        """Hide the object with that uid; `revision` is at most that of its last version."""
        self._revisions.setdefault(key, {})[uid] = revision

    def visible(self, obj: T | None) -> T | None:
        """Return `obj`, or None if it or a later object of its name has a tombstone."""
        if obj is None or not self._revisions:
            return obj
        metadata = obj.metadata
        revisions = self._revisions.get(metadata.key)
        if revisions is None:
            return obj
        hidden = metadata.uid in revisions or metadata.revision <= max(revisions.values())
        return None if hidden else obj

    def remove(self, key: Key, uid: str) -> None:
        """Remove the tombstone of an object whose deletion was delivered."""
        uids = self._revisions.get(key, {})
        uids.pop(uid, None)
        if not uids:
            self._revisions.pop(key, None)

    def remove_absent(self, revision: int, uids: Container[str]) -> None:
        """Remove the tombstones of objects that a list at `revision` no longer contains."""
        for key, known in list(self._revisions.items()):
            kept = {uid: at for uid, at in known.items() if at > revision or uid in uids}
            if kept:
                self._revisions[key] = kept
            else:
                del self._revisions[key]

    def clear(self) -> None:
        """Remove all: the history of the deletions was replaced."""
        self._revisions.clear()
