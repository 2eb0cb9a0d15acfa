"""Which load balancer tenants have."""

from controller.clock import Clock
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.metallb.adapter import MetalLBKind
from reconcilers.loadbalancers.port import LoadBalancerKind


def load_balancer_kind(clock: Clock, settings: TenantSettings) -> LoadBalancerKind:
    """Return the load balancer of tenants.

    Args:
        clock: the time.
        settings: where it lives in tenants, and which Services it serves.
    """
    return MetalLBKind(clock, settings)
