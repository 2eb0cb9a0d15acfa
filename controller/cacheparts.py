"""Parts of caches: the objects for which something is true, kept from change to change."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from controller.cache import Cache, Change
from controller.meta import Object

T = TypeVar("T", bound=Object)


class CachePart(Generic[T]):
    """The objects of a cache for which something is true, kept from change to change.

    For few among many: to iterate over them costs as much as there are of them.

    Args:
        cache: all objects.
        belongs: whether an object is among them; it must not raise.
    """

    def __init__(self, cache: Cache[T], belongs: Callable[[T], bool]) -> None:
        self._cache = cache
        self._belongs = belongs
        self._keys = {one.metadata.key for one in cache if belongs(one)}
        cache.subscribe(self._note)

    def __iter__(self) -> Iterator[T]:
        """Iterate over them, in no order."""
        found = map(self._cache.get, self._keys)
        return (one for one in found if one is not None)

    def _note(self, change: Change[T]) -> None:
        if change.old is not None:
            self._keys.discard(change.old.metadata.key)
        if change.new is not None and self._belongs(change.new):
            self._keys.add(change.new.metadata.key)
