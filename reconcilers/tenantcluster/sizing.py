"""How many addresses a tenant starts with."""

from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ELASTIC, ProviderNetwork
from reconcilers.api.tenantcluster import TenantCluster


def load_balancer_count(tenant: TenantCluster, network: ProviderNetwork) -> int:
    """Return how many load-balancer addresses the tenant starts with, quota applied.

    The tenant's own lbPoolSize goes before the provider's size. An elastic tenant without an
    ingress starts with none: it would keep addresses that nothing asks for, and it can grow.
    """
    override = tenant.networking.lbPoolSize
    if override is not None:
        wanted = override
    elif network.sizing.allocationMode != ELASTIC:
        wanted = network.sizing.defaultPoolSize
    elif tenant.spec.addons is not None and not tenant.spec.addons.ingress_enabled:
        wanted = 0
    else:
        wanted = network.sizing.initialPoolSize
    return _clamped(wanted, network.quota.maxLoadBalancerIPs)


def node_count(pool: NetworkPool, network: ProviderNetwork) -> int:
    """Return how many node addresses a tenant gets from `pool`, quota applied."""
    return _clamped(pool.spec.default_count(names.TYPE_NODES), network.quota.maxNodeIPs)


def _clamped(wanted: int, limit: int | None) -> int:
    return wanted if limit is None else min(wanted, limit)
