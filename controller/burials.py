"""Objects that the server told us are deleted, while the watch still has to tell the same.

Until it does, events and lists that lag may still speak of them. A uid never comes back, so
nothing with a buried uid is shown again; and a burial is over with the first word of the watch or
of a list that is newer: nothing is kept for ever. (The revision of a deletion is not in its
answer, so the position alone cannot tell when it has been passed.)
"""

from collections.abc import Container
from typing import TypeVar

from controller.meta import Key, Object

T = TypeVar("T", bound=Object)


class Burials:
    """The uids that are not shown, with the revision at which each was deleted."""

    def __init__(self) -> None:
        self._at: dict[Key, dict[str, int]] = {}

    def __len__(self) -> int:
        return sum(len(uids) for uids in self._at.values())

    def bury(self, key: Key, uid: str, revision: int) -> None:
        """Hide what had that uid.

        Args:
            key: which object.
            uid: of the one that is gone, not of any that follows it under that name.
            revision: its resourceVersion when it was deleted, or any lower one.
        """
        self._at.setdefault(key, {})[uid] = revision

    def visible(self, obj: T | None) -> T | None:
        """Return what may be shown of `obj`: itself, or nothing."""
        if obj is None or not self._at:
            return obj
        return None if obj.metadata.uid in self._at.get(obj.metadata.key, ()) else obj

    def ended(self, key: Key, uid: str) -> None:
        """Forget one whose deletion was delivered."""
        uids = self._at.get(key, {})
        uids.pop(uid, None)
        if not uids:
            self._at.pop(key, None)

    def listed(self, revision: int, uids: Container[str]) -> None:
        """Forget those that a list, as new as they were, no longer has."""
        for key in list(self._at):
            kept = {uid: at for uid, at in self._at[key].items() if at > revision or uid in uids}
            if kept:
                self._at[key] = kept
            else:
                del self._at[key]

    def clear(self) -> None:
        """Forget all: the history in which they were deleted is no more."""
        self._at.clear()
