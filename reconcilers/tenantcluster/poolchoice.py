"""From which pool: the first in priority whose free space fits, after all who wait were served.

Counting the waiting keeps clusters that are created together from all choosing a pool that has
room for one of them.
"""

from collections.abc import Callable, Iterator

import structlog

from allocator import InvalidPool, Space
from controller.cache import Cache
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import MAX_ASSIGNMENTS, NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.networkpool.protocol import choose, settle, taken, waiting
from reconcilers.networkpool.view import POOL_INDEX, View

_log = structlog.get_logger(__name__)

_NO_LIMIT = MAX_ASSIGNMENTS * MAX_ASSIGNMENTS


class PoolChoice:
    """Looks at pools as they will be."""

    def __init__(
        self,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        max_addresses: int,
    ) -> None:
        self._pools = pools
        self._allocations = allocations
        self._max_addresses = max_addresses

    def first_fit(
        self, provider: ProviderConfig, count: Callable[[NetworkPool], int]
    ) -> NetworkPool | None:
        """Return the first pool of `provider` that has `count(pool)` free addresses in a row."""
        for pool in self._candidates(provider):
            outlook = self.outlook(pool)
            if outlook is not None and outlook.fits(count(pool)):
                return pool
            _log.info("pool has insufficient capacity, trying next", pool=str(pool.metadata.key))
        return None

    def _candidates(self, provider: ProviderConfig) -> Iterator[NetworkPool]:
        namespace = provider.metadata.namespace
        for name in provider.spec.networking.pools_in_order():
            pool = self._pools.get(Key(namespace, name))
            if pool is None:
                _log.info("pool not found, trying next", pool=f"{namespace}/{name}")
            elif not pool.metadata.terminating:
                yield pool

    def serves(self, pool: Key) -> bool:
        """Return whether a pool is there and not being deleted."""
        found = self._pools.get(pool)
        return found is not None and not found.metadata.terminating

    def outlook(self, pool: NetworkPool) -> Space | None:
        """Return the pool's space once everybody who waits for it was served; None if unsound."""
        try:
            geometry = ranges.layout(pool.spec, self._max_addresses)
        except InvalidPool:
            return None
        key = pool.metadata.key
        view = View(
            self._allocations.position,
            self._allocations.by_index(POOL_INDEX, str(key)),
            lambda name: self._allocations.get(Key(key.namespace, name)),
        )
        promises = settle(pool, view).open
        space = Space(geometry, taken(view, promises))
        choose(pool, waiting(view, promises), space, _NO_LIMIT)
        return space
