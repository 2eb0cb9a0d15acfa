"""Field indexes of a cache: for each value, the sorted keys of the objects that have it."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from controller.meta import Key, Object

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]


class Indexes(Generic[T]):
    """Sorted lists of keys by index name and value.

    Lists and not sets, because readers want the objects in order and reads outnumber writes. An
    insertion moves memory only: less than 10 µs for tens of thousands of keys.

    Args:
        functions: by index name, a function from an object to its values. It must be pure (it is
            called again with the old object to find its entries) and must not raise.
    """

    def __init__(self, functions: Mapping[str, IndexFunction[T]]) -> None:
        self._functions = dict(functions)
        self._keys: dict[str, dict[str, list[Key]]] = {name: {} for name in self._functions}

    def keys(self, index: str, value: str) -> Sequence[Key]:
        """Return the keys under `value`, sorted; valid until the next `move`.

        Raises:
            KeyError: there is no index of that name.
        """
        return self._keys[index].get(value, ())

    def values(self, index: str) -> Iterable[str]:
        """Return the values that at least one object has.

        Raises:
            KeyError: there is no index of that name.
        """
        return self._keys[index].keys()

    def move(self, key: Key, old: T | None, new: T | None) -> None:
        """Move `key` from the values of `old` to those of `new`; None stands for no object."""
        for name, function in self._functions.items():
            before = set(function(old)) if old is not None else set()
            after = set(function(new)) if new is not None else set()
            lists = self._keys[name]
            for value in before - after:
                keys = lists[value]
                del keys[bisect_left(keys, key)]
                if not keys:
                    del lists[value]
            for value in after - before:
                insort(lists.setdefault(value, []), key)
