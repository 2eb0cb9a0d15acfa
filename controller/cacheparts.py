"""Parts of caches: the objects for which something is true, kept from change to change."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from controller.cache import Cache, Change
from controller.meta import Object

T = TypeVar("T", bound=Object)


class CachePart(Generic[T]):
    """The objects of a cache for which something is true, kept from change to change.

    To iterate costs as much as there are such objects, not as much as the cache has.

    Args:
        cache: all objects.
        belongs: whether the condition holds for an object; it must not raise.
    """

    def __init__(self, cache: Cache[T], belongs: Callable[[T], bool]) -> None:
        self._cache = cache
        self._belongs = belongs
        self._keys = {obj.metadata.key for obj in cache if belongs(obj)}
        cache.subscribe(self._note)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the objects, in no order."""
        objects = map(self._cache.get, self._keys)
        return (obj for obj in objects if obj is not None)

    def _note(self, change: Change[T]) -> None:
        if change.old is not None:
            self._keys.discard(change.old.metadata.key)
        if change.new is not None and self._belongs(change.new):
            self._keys.add(change.new.metadata.key)
