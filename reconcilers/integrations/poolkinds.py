"""The kinds of pools of all platforms, and for each the kinds that hold its addresses."""

from collections.abc import Iterable, Mapping
from functools import cache

from controller.meta import Object
from controller.resource import Resource
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.core.scopedlists import NotRead, list_limits
from reconcilers.integrations.registry import list_platforms
from reconcilers.pictures.poolpicture import PoolPicture


@cache
def list_pool_kinds() -> tuple[Resource[Object], ...]:
    """Return the kinds of pools of all platforms, NetworkPool first."""
    return (NETWORK_POOL, *(kind for platform in list_platforms() for kind in platform.pools))


@cache
def get_holder_kinds() -> Mapping[str, frozenset[str]]:
    """Return the kinds whose objects hold addresses of pools, or wait for some.

    Returns:
        By kind of pools, the full names (plural and group) of the kinds of holders.
    """
    platforms = list_platforms()
    return {
        NETWORK_POOL.kind: frozenset({IP_ALLOCATION.full_name}).union(
            *(platform.networkpool_holders for platform in platforms)
        ),
        **{kind.kind: platform.holders for platform in platforms for kind in platform.pools},
    }


def list_pool_limits(kind: str, namespace: str, not_read: Iterable[NotRead]) -> list[NotRead]:
    """Return the limits that hide objects which may hold addresses of pools.

    Args:
        kind: the kind of the pools.
        namespace: the namespace of the pools; empty for cluster-scoped pools.
        not_read: all limits on what the user may read.
    """
    limits = list(not_read)
    return list_limits(namespace, get_holder_kinds()[kind], limits) if limits else []


def as_readable(pool: PoolPicture, not_read: Iterable[NotRead]) -> PoolPicture:
    """Return the picture of a pool, marked with the kinds of holders that the user may not read.

    Objects of all namespaces hold addresses of a cluster-scoped pool. So if the user may read one
    namespace alone, only the total of the pool is known.

    Args:
        pool: the picture, from the objects that the user may read.
        not_read: all limits on what the user may read.
    """
    limits = list_pool_limits(pool.name.kind, pool.name.key.namespace, not_read)
    return pool.with_not_read([str(limit) for limit in limits])
