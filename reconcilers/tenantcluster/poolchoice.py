"""From which pool: the first in priority whose free space fits, after all who wait were served.

Counting the waiting keeps clusters that are created together from all choosing a pool that has
room for one of them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count as counter

import structlog

from allocator import InvalidPool
from controller.cache import Cache, Change
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.tenantcluster.outlook import Outlook

_log = structlog.get_logger(__name__)


class PoolChoice:
    """Looks at pools as they will be.

    Args:
        pools: all of them.
        allocations: all of them, indexed by pool.
        max_addresses: the largest pool, in addresses.
    """

    def __init__(
        self,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        max_addresses: int,
    ) -> None:
        self._pools = pools
        self._allocations = allocations
        self._max_addresses = max_addresses
        self._outlooks: dict[Key, Outlook] = {}
        self._numbers = counter()
        self._reserved: dict[Key, dict[str, int]] = {}
        allocations.subscribe(self._allocation_changed)
        pools.subscribe(self._pool_changed)

    def first_fit(
        self, provider: ProviderConfig, count: Callable[[NetworkPool], int]
    ) -> NetworkPool | None:
        """Return the first pool of `provider` that has `count(pool)` free addresses in a row."""
        for pool in self._candidates(provider):
            outlook = self._outlook(pool)
            if outlook is not None and outlook.fits(count(pool), self._allocations.position):
                return pool
            _log.info("pool has insufficient capacity, trying next", pool=str(pool.metadata.key))
        return None

    @contextmanager
    def reserved(self, pool: NetworkPool, count: int) -> Iterator[None]:
        """Keep `count` addresses of `pool` from other choices while the context lasts."""
        key, name = pool.metadata.key, f"reservation {next(self._numbers)}"
        self._reserved.setdefault(key, {})[name] = count
        self._tell(key, lambda outlook: outlook.reserve(name, count))
        try:
            yield
        finally:
            del self._reserved[key][name]
            self._tell(key, lambda outlook: outlook.forget(name))

    def will_serve(self, allocation: IPAllocation) -> bool:
        """Return whether the pool that an allocation asks is about to serve it."""
        pool = self._pools.get(allocation.pool_key)
        outlook = self._outlook(pool) if pool and not pool.metadata.terminating else None
        return outlook is not None and outlook.has_room_for(allocation)

    def serves(self, pool: Key) -> bool:
        """Return whether a pool is there and not being deleted."""
        found = self._pools.get(pool)
        return found is not None and not found.metadata.terminating

    def _candidates(self, provider: ProviderConfig) -> Iterator[NetworkPool]:
        namespace = provider.metadata.namespace
        for name in provider.spec.networking.pools_in_order():
            pool = self._pools.get(Key(namespace, name))
            if pool is None:
                _log.info("pool not found, trying next", pool=f"{namespace}/{name}")
            elif not pool.metadata.terminating:
                yield pool

    def _outlook(self, pool: NetworkPool) -> Outlook | None:
        """Return how the pool will be once everybody was served; None if it is unsound."""
        key = pool.metadata.key
        known = self._outlooks.get(key)
        if known is not None and not known.stale:
            return known
        try:
            geometry = ranges.layout(pool.spec, self._max_addresses)
        except InvalidPool:
            return None
        found = self._allocations.by_index(POOL_INDEX, str(key))
        outlook = Outlook(pool, geometry, found, self._allocations.position)
        for name, count in self._reserved.get(key, {}).items():
            outlook.reserve(name, count)
        self._outlooks[key] = outlook
        return outlook

    def _allocation_changed(self, change: Change[IPAllocation]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or not _same_request(old, new)):
            self._tell(old.pool_key, lambda outlook: outlook.drop(old))
        if new is not None:
            self._tell(new.pool_key, lambda outlook: outlook.note(new))

    def _pool_changed(self, change: Change[NetworkPool]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._outlooks.pop(old.metadata.key, None)
        elif new is not None:
            self._tell(new.metadata.key, lambda outlook: outlook.note_pool(new))

    def _tell(self, pool: Key, news: Callable[[Outlook], None]) -> None:
        outlook = self._outlooks.get(pool)
        if outlook is not None and not outlook.stale:
            news(outlook)


def _same_request(old: IPAllocation, new: IPAllocation) -> bool:
    return old.metadata.uid == new.metadata.uid and old.pool_key == new.pool_key
