"""What the tenants' side reads of the management cluster."""

from dataclasses import dataclass

from controller.cache import Cache
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster


@dataclass(frozen=True, slots=True)
class World:
    """What the reconciler reads.

    Args:
        pools: the NetworkPools.
        allocations: the IPAllocations, indexed by pool and tenant.
        clusters: the TenantClusters.
        providers: the ProviderConfigs.
    """

    pools: Cache[NetworkPool]
    allocations: Cache[IPAllocation]
    clusters: Cache[TenantCluster]
    providers: Cache[ProviderConfig]
