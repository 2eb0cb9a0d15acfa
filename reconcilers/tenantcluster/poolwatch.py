"""What we keep in tenants' MetalLB is watched, so that edits by others are seen at once.

The number of open watches is limited, as for Services; a tenant without one is looked at with each
of its passes. They have a connection of their own: a tenant that stops serving MetalLB's kinds is
watched for its Services all the same.
"""

from collections.abc import Iterable

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.clusters import ClusterKind
from controller.meta import Key, Object
from reconcilers.api import names
from reconcilers.api.resources import (
    IP_ADDRESS_POOL,
    L2_ADVERTISEMENT,
    IPAddressPool,
    L2Advertisement,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.loadbalancers.metallb.projection import is_ours
from reconcilers.loadbalancers.metallb.uptake import counted
from reconcilers.settings import TenantSettings
from reconcilers.tenantclients import TenantClients
from reconcilers.tenantcluster.watches import tenant_watches


class PoolWatches:
    """The watches of our IPAddressPool and L2Advertisement in tenants.

    Args:
        clusters: the TenantClusters, to find a watched tenant's kubeconfig.
        tenants: clients of the tenants.
        clock: the time, for the watches' pauses.
        settings: how many watches may be open, and where MetalLB lives.
    """

    def __init__(
        self,
        clusters: Cache[TenantCluster],
        tenants: TenantClients,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self.watches = tenant_watches(clusters, tenants, clock, settings)
        """The open watches; a service of the manager runs them."""
        namespace = settings.metallb_namespace
        self._pool = Key(namespace, names.METALLB_POOL)
        self.pools: ClusterKind[IPAddressPool] = self.watches.kind(
            IP_ADDRESS_POOL, namespace=namespace, fields=f"metadata.name={names.METALLB_POOL}"
        )
        self.advertisements: ClusterKind[L2Advertisement] = self.watches.kind(
            L2_ADVERTISEMENT,
            namespace=namespace,
            fields=f"metadata.name={names.METALLB_ADVERTISEMENT}",
        )

    def open(self, key: Key) -> None:
        """Watch a tenant from now on, if the number of watches allows it."""
        self.watches.open(key)

    def shown(self, key: Key) -> IPAddressPool | None:
        """Return the pool of a tenant as the watch shows it; None if it does not show it."""
        cache = self.pools.cache(key)
        return cache.get(self._pool) if cache is not None else None

    def close(self, key: Key) -> None:
        """End the watch of a tenant that we keep nothing in any more."""
        self.watches.close(key)


def concerned(cluster: Key, obj: Object) -> Iterable[Key]:
    """Map an object in a tenant to the TenantCluster, if it is one of those that we write."""
    kept = {names.METALLB_POOL, names.METALLB_ADVERTISEMENT}
    return [cluster] if obj.metadata.name in kept else []


def may_be_edited(change: Change[IPAddressPool] | Change[L2Advertisement]) -> bool:
    """Return whether a change is one of what we write, or shows that MetalLB has read it.

    How many addresses of the pool are in use changes with every Service.
    """
    return _written(change.old) != _written(change.new)


def _written(obj: IPAddressPool | L2Advertisement | None) -> object:
    """Return what we write of an object; None if it does not exist."""
    if obj is None:
        return None
    read = counted(obj.status) if isinstance(obj, IPAddressPool) else None
    return (obj.metadata.uid, is_ours(obj), obj.spec, read)
