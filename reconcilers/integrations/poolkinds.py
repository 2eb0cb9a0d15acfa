"""Which kinds are pools, and which hold addresses of NetworkPools, of all platforms."""

from typing import Any

from controller.resource import Resource
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.integrations.clusterapi.api import CONTRACT_VERSIONS, addresses, claims
from reconcilers.integrations.clusterapi.api import POOLS as CLUSTER_API_POOLS
from reconcilers.integrations.kubermatic.api import POOLS as IPAM_POOLS
from reconcilers.integrations.vitistack.api import NETWORKS

POOL_KINDS: tuple[Resource[Any], ...] = (NETWORK_POOL, *CLUSTER_API_POOLS, IPAM_POOLS, NETWORKS)
"""The kinds of pools of which people may ask by name."""
NETWORK_POOL_HOLDERS = frozenset(
    resource.full_name
    for resource in (IP_ALLOCATION, claims(CONTRACT_VERSIONS[0]), addresses(CONTRACT_VERSIONS[0]))
)
"""The kinds that hold addresses of NetworkPools of their namespace: plural and group of each."""
