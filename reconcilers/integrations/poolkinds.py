"""The kinds of pools of which people may ask by name: NetworkPools and those of all platforms."""

from typing import Any

from controller.resource import Resource
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.api import POOLS as CLUSTER_API_POOLS
from reconcilers.integrations.kubermatic.api import POOLS as IPAM_POOLS
from reconcilers.integrations.vitistack.api import NETWORKS

POOL_KINDS: tuple[Resource[Any], ...] = (NETWORK_POOL, *CLUSTER_API_POOLS, IPAM_POOLS, NETWORKS)
