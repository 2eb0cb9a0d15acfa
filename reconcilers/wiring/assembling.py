"""All of it, put on one manager."""

from controller.clock import Clock
from controller.manager import Manager
from reconcilers.settings import Settings
from reconcilers.tenantcluster.gate import TenantGate
from reconcilers.tenantcluster.kubeconfigs import OpenTransport
from reconcilers.tenantcluster.tenants import Tenants
from reconcilers.wiring import (
    beside,
    ipallocations,
    networkpools,
    providerconfigs,
    tenantclusters,
)
from reconcilers.wiring.shared import Shared


def assemble(
    manager: Manager,
    clock: Clock,
    settings: Settings,
    open_tenant: OpenTransport | None = None,
) -> Tenants:
    """Add the four controllers to `manager`; return the ways into tenants, closed at the end.

    Args:
        manager: runs them.
        clock: their time.
        settings: their intervals and thresholds.
        open_tenant: makes a connection of a tenant's kubeconfig; strict by default.
    """
    shared = Shared.of(manager, clock, settings)
    tenants = Tenants(shared.client, settings.tenant, clock, open_tenant)
    gate = TenantGate(
        shared.client,
        shared.informers.clusters.cache,
        tenants,
        shared.recorder,
        clock,
        settings.tenant,
    )
    networkpools.add(shared)
    ipallocations.add(shared, gate)
    tenantclusters.add(shared, tenants, gate)
    providerconfigs.add(shared)
    beside.add_orphans(shared)
    beside.add_gauges(shared)
    beside.add_webhooks(shared)
    return tenants
