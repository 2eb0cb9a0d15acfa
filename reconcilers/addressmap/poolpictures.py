"""The pictures of all pools of a cluster, whatever their kinds.

Claims of other platforms that hold addresses of a NetworkPool count like IPAllocations. So a pool
has one picture and one set of figures.
"""

from collections.abc import Sequence

from controller.meta import Key
from reconcilers.addressmap.objects import Objects
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Wanted, want_every_pool
from reconcilers.integrations.poolkinds import list_pool_limits
from reconcilers.networkpool.picture import make_picture
from reconcilers.networkpool.unreadable import may_concern_pool
from reconcilers.pictures.poolpicture import NO_HOLDERS, PoolPicture
from reconcilers.promises.unreadable import UnreadableObject, is_terminating
from reconcilers.spaces.offers import PoolName


def draw_pools(objects: Objects, is_wanted: Wanted = want_every_pool) -> list[PoolPicture]:
    """Return the pictures of NetworkPools by name, then those of other platforms' pools.

    Args:
        objects: all objects of a cluster.
        is_wanted: returns whether to include a pool.
    """
    others = [pool for pool in objects.integrations.pictures if is_wanted(pool.name)]
    return [*draw_network_pools(objects, is_wanted), *others]


def draw_network_pools(objects: Objects, is_wanted: Wanted = want_every_pool) -> list[PoolPicture]:
    """Return the pictures of NetworkPools by namespace and name.

    Args:
        objects: all objects of a cluster.
        is_wanted: returns whether to include a pool.
    """
    allocations: dict[Key, list[IPAllocation]] = {}
    for allocation in objects.allocations.values():
        allocations.setdefault(allocation.pool_key, []).append(allocation)
    holders = objects.integrations.holders
    return [
        make_picture(
            objects.pools[key],
            allocations.get(key, ()),
            others=holders.get(key, NO_HOLDERS),
            not_read=[str(limit) for limit in list_not_read(objects, key)],
        )
        for key in sorted(objects.pools)
        if is_wanted(PoolName(NETWORK_POOL.kind, key))
    ]


def list_not_read(objects: Objects, pool: Key) -> Sequence[NotRead | UnreadableObject]:
    """Return the lists and objects that may hold addresses of a NetworkPool, but were not read."""
    return [
        *list_pool_limits(NETWORK_POOL.kind, pool.namespace, objects.all_not_read),
        *_list_unreadable_allocations(objects, pool),
        *objects.integrations.unreadable.get(pool, ()),
    ]


def _list_unreadable_allocations(objects: Objects, pool: Key) -> list[UnreadableObject]:
    """Return the IPAllocations that cannot be decoded and may name a NetworkPool."""
    return [
        UnreadableObject(kind, key, is_terminating(failure))
        for (kind, key), failure in objects.unreadable.items()
        if kind == IP_ALLOCATION.kind and may_concern_pool(key, failure, pool)
    ]
