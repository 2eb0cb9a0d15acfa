"""The caches of our four kinds, as reconcilers and webhooks read them."""

from dataclasses import dataclass

from controller.cache import Cache
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches of the management cluster's objects of our kinds.

    Args:
        allocations: the IPAllocations, indexed by pool and by TenantCluster.
    """

    pools: Cache[NetworkPool]
    allocations: Cache[IPAllocation]
    clusters: Cache[TenantCluster]
    providers: Cache[ProviderConfig]
