"""The unreadable objects of a cache, with the reasons, indexed by their outlines.

An object that cannot be decoded still refers to other objects, and its outline (see Resource) may
have the reference. So the index functions of the cache are called with outlines, too. An outline
has only some fields of an object. If a function raises for it, or there is no outline, the object
may have any value in that index. Such an object is called unplaced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from typing_extensions import override

from controller.callbacks import call_for_texts
from controller.codec import DecodeFailure
from controller.meta import Key, Object

_NO_KEYS: AbstractSet[Key] = frozenset()


class UnreadableObjects(Mapping[Key, str]):
    """The reasons by key; the cost of a change does not grow with the number of objects.

    Args:
        functions: the index functions of the cache, by index name.
    """

    def __init__(self, functions: Mapping[str, Callable[[Any], Iterable[str]]]) -> None:
        self._functions = dict(functions)
        self._reasons: dict[Key, str] = {}
        # By key and index name, the values of the outline; None if the object is unplaced.
        self._values: dict[Key, Mapping[str, AbstractSet[str] | None]] = {}
        # By index name and value, the keys; the value None has the unplaced objects.
        self._keys: dict[str, dict[str | None, set[Key]]] = {name: {} for name in functions}

    @override
    def __getitem__(self, key: Key) -> str:
        """Return why an object is unreadable; raise KeyError if it is not."""
        return self._reasons[key]

    @override
    def __iter__(self) -> Iterator[Key]:
        return iter(self._reasons)

    @override
    def __len__(self) -> int:
        return len(self._reasons)

    def put(self, key: Key, reason: str) -> None:
        """Note an unreadable object, or a new reason for an object that is noted."""
        self.remove(key)
        self._reasons[key] = reason
        outline = reason.outline if isinstance(reason, DecodeFailure) else None
        self._values[key] = {name: self._compute_values(name, outline) for name in self._functions}
        for name, values in self._values[key].items():
            for value in _list_places(values):
                self._keys[name].setdefault(value, set()).add(key)

    def remove(self, key: Key) -> None:
        """Forget an object that can be read or was deleted; does nothing if it is not noted."""
        self._reasons.pop(key, None)
        for name, values in self._values.pop(key, {}).items():
            for value in _list_places(values):
                keys = self._keys[name][value]
                keys.discard(key)
                if not keys:
                    del self._keys[name][value]

    def list_by_index(self, index: str, value: str) -> AbstractSet[Key]:
        """Return the keys whose outline has `value` in `index`; valid until the next change.

        Raises:
            KeyError: there is no index of that name.
        """
        return self._keys[index].get(value, _NO_KEYS)

    def list_unplaced(self, index: str) -> AbstractSet[Key]:
        """Return the keys that may have any value in `index`; valid until the next change.

        Raises:
            KeyError: there is no index of that name.
        """
        return self._keys[index].get(None, _NO_KEYS)

    def find_near(self, index: str, value: str) -> Mapping[Key, str]:
        """Return the objects that may have `value` in `index`, with the reasons.

        Raises:
            KeyError: there is no index of that name.
        """
        keys = (*self.list_by_index(index, value), *self.list_unplaced(index))
        return {key: self._reasons[key] for key in keys}

    def _compute_values(self, index: str, outline: Object | None) -> AbstractSet[str] | None:
        """Return the values of an outline in an index; None if they are unknown."""
        if outline is None:
            return None
        try:
            return call_for_texts(self._functions[index], outline)
        except Exception:  # noqa: BLE001 - an outline lacks fields; the caller reads "unplaced"
            return None


def _list_places(values: AbstractSet[str] | None) -> Iterable[str | None]:
    """Return the values under which an index has an object: None for an unplaced object."""
    return (None,) if values is None else values


def find_near(unreadable: Mapping[Key, str], index: str, value: str) -> Mapping[Key, str]:
    """Return the unreadable objects that may have `value` in `index`, and perhaps others.

    The unreadable objects of a cache are found by its index. Those of a list have no index, so all
    of them are returned.

    Args:
        unreadable: the unreadable objects of a cache or of a list, with the reasons.
        index: the name of an index of the cache.
        value: the value in the index.

    Raises:
        KeyError: the cache has unreadable objects, and no index of that name.
    """
    if not unreadable or not isinstance(unreadable, UnreadableObjects):
        return unreadable  # nothing to search, or no index to search by
    return unreadable.find_near(index, value)
