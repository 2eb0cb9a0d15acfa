"""Which load balancers tenants may have."""

from controller.clock import Clock
from reconcilers.api.tenantaddons import CILIUM, DEFAULT_LOAD_BALANCER
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from reconcilers.loadbalancers.metallb.adapter import MetalLBKind


def load_balancer_kinds(clock: Clock, settings: TenantSettings) -> LoadBalancerKinds:
    """Return the load balancers of tenants, by the provider that a TenantCluster names.

    Args:
        clock: the time.
        settings: where they live in tenants, which Services they serve, and the bounded waits.
    """
    return LoadBalancerKinds(
        {
            DEFAULT_LOAD_BALANCER: MetalLBKind(clock, settings),
            CILIUM: CiliumKind(clock, settings.cilium_wait),
        }
    )
