"""Which kinds are pools, and which kinds hold addresses of them, of all platforms."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.resource import Resource
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.clusterapi.api import CONTRACT_VERSIONS, addresses, claims
from reconcilers.integrations.clusterapi.api import POOLS as CLUSTER_API_POOLS
from reconcilers.integrations.core.scopedlists import NotRead, limits_in
from reconcilers.integrations.kubermatic.api import ALLOCATIONS as IPAM_ALLOCATIONS
from reconcilers.integrations.kubermatic.api import CLUSTERS
from reconcilers.integrations.kubermatic.api import POOLS as IPAM_POOLS
from reconcilers.integrations.metal3.api import ADDRESS_KIND, CLAIM_KIND
from reconcilers.integrations.metal3.api import POOLS as IP_POOLS
from reconcilers.integrations.vitistack.api import ALLOCATIONS as NETWORK_ALLOCATIONS
from reconcilers.integrations.vitistack.api import NETWORKS
from reconcilers.pictures.poolpicture import PoolPicture

POOL_KINDS: tuple[Resource[Any], ...] = (
    NETWORK_POOL,
    *CLUSTER_API_POOLS,
    IPAM_POOLS,
    IP_POOLS,
    NETWORKS,
)
"""The kinds of pools of which people may ask by name."""
_CLAIMS = frozenset(
    {claims(CONTRACT_VERSIONS[0]).full_name, addresses(CONTRACT_VERSIONS[0]).full_name}
)
HOLDERS: Mapping[str, frozenset[str]] = {
    NETWORK_POOL.kind: _CLAIMS | {IP_ALLOCATION.full_name},
    **{kind.kind: _CLAIMS for kind in CLUSTER_API_POOLS},
    IPAM_POOLS.kind: frozenset({IPAM_ALLOCATIONS.full_name, CLUSTERS.full_name}),
    IP_POOLS.kind: _CLAIMS | {CLAIM_KIND, ADDRESS_KIND},
    NETWORKS.kind: frozenset({NETWORK_ALLOCATIONS.full_name}),
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
