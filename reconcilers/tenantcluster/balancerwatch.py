"""What we keep in tenants' load balancers is watched, so that edits by others are seen at once.

The number of open watches is limited, as for Services; a tenant without one is looked at with each
of its passes. They have a connection of their own: a tenant that stops serving the kinds of its
balancer is watched for its Services all the same.
"""

from typing import Any, TypeVar

from typing_extensions import override

from controller.cache import Cache
from controller.clock import Clock
from controller.clusters import ClusterKind, Clusters
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.port import LoadBalancerKind, WatchedKind, WatchedOffers
from reconcilers.tenantcluster.watches import tenant_watches

K = TypeVar("K", bound=Object)


class BalancerWatches:
    """The watches of what we write in tenants.

    Args:
        kind: the load balancer of tenants.
        clusters: the TenantClusters, to find a watched tenant's kubeconfig.
        tenants: clients of the tenants.
        clock: the time, for the watches' pauses.
        settings: how many watches may be open.
    """

    def __init__(
        self,
        kind: LoadBalancerKind,
        clusters: Cache[TenantCluster],
        tenants: TenantClients,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self.watches = tenant_watches(clusters, tenants, clock, settings)
        """The open watches; a service of the manager runs them."""
        self.kinds: list[tuple[WatchedKind, ClusterKind[Any]]] = [
            (
                watched,
                self.watches.kind(
                    watched.resource, namespace=watched.namespace, fields=watched.fields
                ),
            )
            for watched in kind.watches
        ]
        """What is watched, with its caches."""

    def of(self, key: Key) -> WatchedOffers:
        """Return the watched objects of a tenant."""
        return _WatchedTenant(key, self.watches, self.kinds)

    def close(self, key: Key) -> None:
        """End the watch of a tenant that we keep nothing in any more."""
        self.watches.close(key)


class _WatchedTenant(WatchedOffers):
    """What is watched in one tenant."""

    def __init__(
        self, key: Key, watches: Clusters, kinds: list[tuple[WatchedKind, ClusterKind[Any]]]
    ) -> None:
        self._key = key
        self._watches = watches
        self._kinds = kinds

    @override
    def open(self) -> None:
        self._watches.open(self._key)

    @override
    def get(self, resource: Resource[K], key: Key) -> K | None:
        for watched, kind in self._kinds:
            if watched.resource is resource and (cache := kind.cache(self._key)) is not None:
                obj = cache.get(key)
                return obj if isinstance(obj, resource.type) else None
        return None
