"""Field indexes of a cache, and tombstones of objects that our requests deleted."""

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
    """An index function raised, or its result is no collection of texts."""


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
        # The object of the latest call of `compute_values`, and the result.
        self._latest: tuple[T, Mapping[str, AbstractSet[str]]] | None = None

    def get_keys(self, index: str, value: str) -> Sequence[Key]:
        """Return the keys under `value`, sorted; valid until the next `move`.

        Raises:
            KeyError: there is no index of that name.
        """
        return self._keys[index].get(value, ())

    def find_index_failure(self, obj: T) -> NotIndexed | None:
        """Return why `obj` cannot be indexed, and log it; None if it can. No index changes."""
        try:
            self.compute_values(obj)
        except IndexFailure as failure:
            log.exception("cannot index object", resource=self._kind, object=str(obj.metadata.key))
            return NotIndexed(failure)
        return None

    def compute_values(self, obj: T) -> Mapping[str, AbstractSet[str]]:
        """Return the values of an object by index name; no index changes.

        The latest result is kept, so that each function is called once for an event: first by
        `find_index_failure`, then by `move`.

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
        self._latest = (obj, values)
        return values

    def move(self, key: Key, old: T | None, new: T | None) -> None:
        """Move `key` from the values of `old` to those of `new`; None stands for no object.

        Raises:
            IndexFailure: a function raised for `new`; no index has changed. Callers avoid this
                error by `find_index_failure`.
        """
        new_values = self.compute_values(new) if new is not None else {}
        old_values = self._find_listed_values(key, old)
        for name, lists in self._keys.items():
            old_of_index, new_of_index = old_values.get(name, _NONE), new_values.get(name, _NONE)
            for value in old_of_index - new_of_index:
                keys = lists[value]
                del keys[bisect_left(keys, key)]
                if not keys:
                    del lists[value]
            for value in new_of_index - old_of_index:
                insort(lists.setdefault(value, []), key)

    def _find_listed_values(self, key: Key, old: T | None) -> Mapping[str, AbstractSet[str]]:
        """Return the values under which `key` is listed, by index name; none without `old`."""
        if old is None:
            return {}
        try:
            return self.compute_values(old)
        except IndexFailure:
            # The function is not pure, because it did not raise when the object was added. So its
            # values are unknown, and all lists are searched for the key.
            return {
                name: {value for value, keys in lists.items() if key in keys}
                for name, lists in self._keys.items()
            }


class Tombstones:
    """The uids of objects that the server deleted for us, while the watch may still show them.

    Events and lists that lag behind may still contain such an object. It is hidden, because a uid
    is never used again. An earlier object of the same name is hidden, too: it was deleted before
    the server could create the later one. A tombstone is removed when the deletion is delivered,
    or when a newer list lacks the object. The position alone cannot tell, because the response to
    a deletion does not have the deletion's resourceVersion.
    """

    def __init__(self) -> None:
        # By key and uid: a resourceVersion that the deleted object had.
        self._revisions: dict[Key, dict[str, int]] = {}

    def __len__(self) -> int:
        """Return the number of tombstones."""
        return sum(len(uids) for uids in self._revisions.values())

    def add(self, key: Key, uid: str, revision: int) -> None:
        """Hide the object with that uid.

        Args:
            key: namespace and name of the object.
            uid: the uid of the object.
            revision: a resourceVersion that the object had, best its last one.
        """
        self._revisions.setdefault(key, {})[uid] = revision

    def hide_deleted(self, obj: T | None) -> T | None:
        """Return `obj`; None if `obj`, or a later object of its name, has a tombstone."""
        if obj is None or not self._revisions:
            return obj
        metadata = obj.metadata
        revisions = self._revisions.get(metadata.key)
        if revisions is None:
            return obj
        is_deleted = metadata.uid in revisions or metadata.revision <= max(revisions.values())
        return None if is_deleted else obj

    def remove(self, key: Key, uid: str) -> None:
        """Remove the tombstone of an object whose deletion was delivered."""
        uids = self._revisions.get(key, {})
        uids.pop(uid, None)
        if not uids:
            self._revisions.pop(key, None)

    def remove_absent(self, revision: int, uids: Container[str]) -> None:
        """Remove the tombstones of objects that a list at `revision` no longer contains."""
        for key, revisions in list(self._revisions.items()):
            # A list below a tombstone's revision may be older than the object, and lack it, too.
            remaining = {
                uid: deleted_revision
                for uid, deleted_revision in revisions.items()
                if deleted_revision > revision or uid in uids
            }
            if remaining:
                self._revisions[key] = remaining
            else:
                del self._revisions[key]

    def clear(self) -> None:
        """Remove all tombstones, because the history with the deletions was replaced."""
        self._revisions.clear()
