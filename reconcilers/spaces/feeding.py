"""Keeps the index of offers current from a cache of pools.

What a pool hands out that cannot be decoded is unknown. It counts with what it handed out when it
could be read, if the cache still shows that, and is named beside.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from controller.cache import Cache, Change
from controller.meta import Key, Object
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, PoolOffer

T = TypeVar("T", bound=Object)


def feed(
    spaces: SpaceIndex, cache: Cache[T], offers_of: Callable[[T], Sequence[PoolOffer]]
) -> Callable[[], None]:
    """Keep the offers of a cache's pools in an index.

    Args:
        cache: pools of one kind.
        offers_of: returns what a pool hands out; nothing if its spec cannot be served.

    Returns:
        A function that ends this and drops the pools.
    """
    kind = cache.resource.kind

    def note(change: Change[T]) -> None:
        old, new = change.old, change.new
        if new is not None:
            spaces.put(PoolName(kind, new.metadata.key), offers_of(new))
        elif old is not None:
            spaces.drop(PoolName(kind, old.metadata.key))

    def note_unreadable(key: Key) -> None:
        spaces.note_unreadable(PoolName(kind, key), unreadable=key in cache.unreadable)

    def close() -> None:
        cache.unsubscribe(note)
        cache.unsubscribe_unreadable(note_unreadable)
        for pool in cache:
            spaces.drop(PoolName(kind, pool.metadata.key))
        for key in cache.unreadable:
            spaces.note_unreadable(PoolName(kind, key), unreadable=False)

    for pool in cache:
        note(Change(None, pool))
    cache.subscribe(note)
    for key in cache.unreadable:
        note_unreadable(key)
    cache.subscribe_unreadable(note_unreadable)
    return close
