"""The load balancers that tenants may have."""

from controller.clock import Clock
from reconcilers.api.tenantaddons import CILIUM, DEFAULT_LOAD_BALANCER
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.cilium.adapter import CiliumKind
from reconcilers.loadbalancers.metallb.adapter import MetalLBKind


def make_load_balancer_kinds(clock: Clock, settings: TenantSettings) -> LoadBalancerKinds:
    """Return the load balancers of tenants, by the provider that a TenantCluster names.

    Args:
        clock: the time.
        settings: the load balancers' namespaces in tenants, the Services that they serve, and how
            long to wait for a release that a load balancer cannot confirm.
    """
    return LoadBalancerKinds(
        {
            DEFAULT_LOAD_BALANCER: MetalLBKind(clock, settings),
            CILIUM: CiliumKind(clock, settings.cilium_wait),
        }
    )
