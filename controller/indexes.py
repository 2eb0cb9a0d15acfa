"""Field indexes of a cache: for each value, the keys of the objects that have it, in order."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from controller.meta import Key, Object

T = TypeVar("T", bound=Object)
IndexFunction = Callable[[T], Iterable[str]]


class Indexes(Generic[T]):
    """Keeps sorted lists of keys by index name and value.

    Sorted lists and not sets: a reader wants the objects in order, and reads outnumber writes.
    An insertion moves memory only, which stays under 10 µs for tens of thousands of keys.

    Args:
        functions: by index name, the values that an object has there. They must be pure (the
            values of the outgoing object are computed again to find its entries) and must not
            raise: every object of the type has to be readable.
    """

    def __init__(self, functions: Mapping[str, IndexFunction[T]]) -> None:
        self._functions = dict(functions)
        self._keys: dict[str, dict[str, list[Key]]] = {name: {} for name in self._functions}

    def keys(self, index: str, value: str) -> Sequence[Key]:
        """Return the keys under `value`, sorted; to be read before the next change.

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
        """Take `key` out from under `old`'s values and put it under `new`'s."""
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
