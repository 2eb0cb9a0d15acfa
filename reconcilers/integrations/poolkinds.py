"""Which kinds are pools, and which kinds hold addresses of them, of all platforms."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.resource import Resource
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.core.scopedlists import NotRead, limits_in
from reconcilers.integrations.registry import PLATFORMS
from reconcilers.pictures.poolpicture import PoolPicture

POOL_KINDS: tuple[Resource[Any], ...] = (
    NETWORK_POOL,
    *(kind for platform in PLATFORMS for kind in platform.pools),
)
"""The kinds of pools of which people may ask by name."""
HOLDERS: Mapping[str, frozenset[str]] = {
    NETWORK_POOL.kind: frozenset({IP_ALLOCATION.full_name}).union(
        *(platform.networkpool_holders for platform in PLATFORMS)
    ),
    **{kind.kind: platform.holders for platform in PLATFORMS for kind in platform.pools},
}
"""By kind of pools: the kinds that hold addresses of them or wait, as plural and group."""


def as_readable(pool: PoolPicture, not_read: Iterable[NotRead]) -> PoolPicture:
    """Return the picture of a pool for a user who may not read everything.

    A pool of the whole cluster is held from all namespaces. So if one namespace alone may be read,
    only its total is known.

    Args:
        pool: the picture, from the objects that the user may read.
        not_read: everything that may not be read.
    """
    limits = limits_in(pool.name.key.namespace, HOLDERS[pool.name.kind], not_read)
    return pool.with_not_read([str(limit) for limit in limits])
