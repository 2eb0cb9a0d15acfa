"""Watches of tenants: how many may be open, and how a tenant is reached for one."""

from functools import partial

from controller.cache import Cache
from controller.clock import Clock
from controller.clusters import Clusters, ClusterSettings
from controller.errors import ControllerError
from controller.meta import Key
from controller.renewable import Connection
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.configuration.settings import TenantSettings

_IDLE_REQUEUES = 2
"""An unused watch is closed after two of the longest requeues, so that a pass finds it open."""


def make_tenant_watches(
    clusters: Cache[TenantCluster], tenants: TenantClients, clock: Clock, settings: TenantSettings
) -> Clusters:
    """Return watches of tenants; none is open yet, and a service of the manager runs them.

    Args:
        clusters: the TenantClusters, to find a watched tenant's kubeconfig.
        clock: the time, for the watches' pauses.
        settings: how many watches may be open, and how much a tenant may send.
    """
    bounds = ClusterSettings(
        limit=settings.service_watches,
        idle_seconds=_IDLE_REQUEUES * settings.requeue_old,
        max_list_bytes=settings.answer_limit,
    )
    return Clusters(partial(_connect, clusters, tenants), clock, bounds)


async def _connect(clusters: Cache[TenantCluster], tenants: TenantClients, key: Key) -> Connection:
    """Connect to the tenant of the TenantCluster with this key.

    The connection's identity is the uid of the TenantCluster: a cluster that is recreated under
    its name is another tenant, so the watch starts again from an empty cache.

    Raises:
        ControllerError: the TenantCluster is gone, or the tenant cannot be reached.
    """
    tenant = clusters.get(key)
    if tenant is None:
        # The watch retries until the pass that finds the cluster gone closes it.
        raise ControllerError(f"TenantCluster {key} is gone")
    return Connection(await tenants.open_connection(tenant), identity=tenant.metadata.uid)
