"""What a NetworkPool hands out, in the form in which pools of all kinds are compared."""

from collections.abc import Iterable
from functools import lru_cache

from allocator import InvalidPool, Layout
from controller.cache import Cache
from reconcilers.addressing import poolgeometry
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, PoolOffer, build_offers
from reconcilers.spaces.sharing import Kinds


def make_offers(pool: NetworkPool, max_addresses: int) -> tuple[PoolOffer, ...]:
    """Return the offers of a pool, of both families; none if its spec contradicts itself.

    Args:
        max_addresses: the largest pool, in addresses.
    """
    return make_layout_offers(pool, _parse_layouts(pool.spec, max_addresses))


def make_layout_offers(pool: NetworkPool, layouts: Iterable[Layout]) -> tuple[PoolOffer, ...]:
    """Return the offers of a pool with this geometry."""
    name = PoolName(NETWORK_POOL.kind, pool.metadata.key)
    return build_offers(name, (block for layout in layouts for block in layout.blocks))


@lru_cache(maxsize=4_096)
def _parse_layouts(spec: NetworkPoolSpec, max_addresses: int) -> tuple[Layout, ...]:
    """Return the geometry of a spec; empty if the spec is invalid."""
    try:
        return poolgeometry.parse_layouts(spec, max_addresses)
    except InvalidPool:
        return ()


def index_network_pools(pools: Cache[NetworkPool], max_addresses: int) -> SpaceIndex:
    """Return an index of what NetworkPools hand out, kept current from their cache.

    Args:
        pools: all pools.
        max_addresses: the largest pool, in addresses.
    """
    spaces = SpaceIndex()
    feed(spaces, pools, lambda pool: make_offers(pool, max_addresses))
    # The index expects no other kinds, so its comparisons are complete from the start.
    spaces.settle(Kinds.NETWORK_POOLS)
    return spaces
