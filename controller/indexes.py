"""What a cache keeps beside its objects: field indexes, and tombstones of what was deleted."""

from bisect import bisect_left, insort
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

from controller.callbacks import call_for_texts, check_plain, safe_repr
from controller.loggers import get_logger
from controller.meta import Key, Object

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]

log = get_logger(__name__)

_NONE: AbstractSet[str] = frozenset()


class IndexFailure(Exception):
    """An index function raised, or returned what is no collection of texts."""


class NotIndexed(str):
    """Why an object is not in a cache: an index function raised for it."""

    __slots__ = ()


class Indexes(Generic[T]):
    """Sorted lists of keys by index name and value.

    Lists and not sets, because readers want the objects in order and reads outnumber writes. An
    insertion moves memory only: less than 10 µs for tens of thousands of keys.

    Args:
        functions: by index name, a function from an object to its values. It must be pure (it is
            called again with the old object to find its entries).
        kind: the full name of the objects' kind, for log lines.

    Raises:
        TypeError: a function is async or cannot be called.
    """

    def __init__(self, functions: Mapping[str, IndexFunction[T]], kind: str = "") -> None:
        for name, function in functions.items():
            check_plain(function, f"the function of index {name!r}", "object")
        self._kind = kind
        self._functions = dict(functions)
        self._keys: dict[str, dict[str, list[Key]]] = {name: {} for name in self._functions}
        self._latest: tuple[T, Mapping[str, AbstractSet[str]]] | None = None

    def keys(self, index: str, value: str) -> Sequence[Key]:
        """Return the keys under `value`, sorted; valid until the next `move`.

        Raises:
            KeyError: there is no index of that name.
        """
        return self._keys[index].get(value, ())

    def find_index_failure(self, obj: T) -> NotIndexed | None:
        """Return why an index function raises for `obj`, before anything changes; else None."""
        try:
            self.compute_values(obj)
        except IndexFailure as failure:
            log.exception("cannot index object", resource=self._kind, object=str(obj.metadata.key))
            return NotIndexed(failure)
        return None

    def compute_values(self, obj: T) -> Mapping[str, AbstractSet[str]]:
        """Return the values of an object by index name, before anything changes.

        Raises:
            IndexFailure: a function raised, or returned no collection of texts.
        """
        if self._latest is not None and self._latest[0] is obj:
            return self._latest[1]
        values: dict[str, AbstractSet[str]] = {}
        for name, function in self._functions.items():
            try:
                values[name] = call_for_texts(function, obj)
            except Exception as error:
                raise IndexFailure(f"index {name!r} raised {safe_repr(error)}") from error
        # Kept for the `move` that follows, so that each function is called once for an event.
        self._latest = (obj, values)
        return values

    def move(self, key: Key, old: T | None, new: T | None) -> None:
        """Move `key` from the values of `old` to those of `new`; None stands for no object.

        Raises:
            IndexFailure: a function raised for `new`; nothing has changed. Does not happen for an
                object whose `compute_values` were asked for before.
        """
        after = self.compute_values(new) if new is not None else {}
        before = self._find_listed_values(key, old)
        for name, lists in self._keys.items():
            removed, entered = before.get(name, _NONE), after.get(name, _NONE)
            for value in removed - entered:
                keys = lists[value]
                del keys[bisect_left(keys, key)]
                if not keys:
                    del lists[value]
            for value in entered - removed:
                insort(lists.setdefault(value, []), key)

    def _find_listed_values(self, key: Key, old: T | None) -> Mapping[str, AbstractSet[str]]:
        """Return the values under which `key` is listed."""
        if old is None:
            return {}
        try:
            return self.compute_values(old)
        except IndexFailure:
            # The function is not pure: it returned when the object came. So look everywhere.
            return {
                name: {value for value, keys in lists.items() if key in keys}
                for name, lists in self._keys.items()
            }


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

    def hide_deleted(self, obj: T | None) -> T | None:
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
