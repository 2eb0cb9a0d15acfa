"""Keeps the index of offers current from a cache of pools.

The offers of a pool that cannot be decoded are unknown, and the index notes the pool as
unreadable. If the cache still has an older version, the offers of that version stay in the index.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from controller.cache import Cache, Change
from controller.meta import Key, Object
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, PoolOffer

T = TypeVar("T", bound=Object)


def feed(
    spaces: SpaceIndex, cache: Cache[T], build_offers: Callable[[T], Sequence[PoolOffer]]
) -> Callable[[], None]:
    """Keep the offers of a cache's pools in an index.

    Args:
        cache: pools of one kind.
        build_offers: returns the offers of a pool; none if its spec is invalid.

    Returns:
        A function that stops the feeding and removes the cache's pools from the index.
    """
    kind = cache.resource.kind

    def note_change(change: Change[T]) -> None:
        """Put the offers of a new or changed pool into the index; drop a deleted pool."""
        old, new = change.old, change.new
        if new is not None:
            spaces.put(PoolName(kind, new.metadata.key), build_offers(new))
        elif old is not None:
            spaces.drop(PoolName(kind, old.metadata.key))

    def note_unreadable(key: Key) -> None:
        """Note in the index whether the pool of this key can be decoded."""
        spaces.note_unreadable(PoolName(kind, key), unreadable=key in cache.unreadable)

    def close() -> None:
        """Stop the feeding, and remove the pools of the cache from the index."""
        cache.unsubscribe(note_change)
        cache.unsubscribe_unreadable(note_unreadable)
        for pool in cache:
            spaces.drop(PoolName(kind, pool.metadata.key))
        for key in cache.unreadable:
            spaces.note_unreadable(PoolName(kind, key), unreadable=False)

    for pool in cache:
        note_change(Change(None, pool))
    cache.subscribe(note_change)
    for key in cache.unreadable:
        note_unreadable(key)
    cache.subscribe_unreadable(note_unreadable)
    return close
