"""Parts of caches: the objects that meet a condition, updated with each change."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from controller.cache import Cache, Change
from controller.meta import Object

T = TypeVar("T", bound=Object)


class CachePart(Generic[T]):
    """The objects of a cache that meet a condition, updated with each change.

    The cost of an iteration grows with the objects in the part, not with those in the cache.

    Args:
        cache: all objects.
        belongs: returns whether an object belongs to the part; it must not raise.
    """

    def __init__(self, cache: Cache[T], belongs: Callable[[T], bool]) -> None:
        self._cache = cache
        self._belongs = belongs
        self._keys = {obj.metadata.key for obj in cache if belongs(obj)}
        cache.subscribe(self._update_keys)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the objects, in no order."""
        objects = map(self._cache.get, self._keys)
        # None: the cache has removed the object, and has not called `_update_keys` yet.
        return (obj for obj in objects if obj is not None)

    def _update_keys(self, change: Change[T]) -> None:
        """Add or remove the changed object, which may enter or leave the part by its change."""
        if change.old is not None:
            self._keys.discard(change.old.metadata.key)
        if change.new is not None and self._belongs(change.new):
            self._keys.add(change.new.metadata.key)
