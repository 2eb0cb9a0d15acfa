"""What we keep in tenants' load balancers is watched, so that edits by others are seen at once.

The number of open watches is limited, as for Services; a tenant without one is looked at with each
of its passes. They have a connection of their own: a tenant that stops serving the kinds of its
balancer is watched for its Services all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import anyio
from typing_extensions import override

from controller.cache import Cache
from controller.clock import Clock
from controller.clusters import ClusterKind, Clusters
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import LoadBalancerKind, WatchedKind, WatchedOffers
from reconcilers.tenantcluster.watches import tenant_watches

K = TypeVar("K", bound=Object)

WatchedCaches = Sequence[tuple[WatchedKind, ClusterKind[Any]]]
"""What is watched of one backend, with its caches."""


@dataclass(frozen=True, slots=True)
class _BackendWatches:
    """The watches of one backend.

    Args:
        watches: the open watches, in the tenants that have it.
        kinds: what is watched.
    """

    backend: LoadBalancerKind
    watches: Clusters
    kinds: WatchedCaches


class BalancerWatches:
    """The watches of what we write in tenants.

    Args:
        kinds: the load balancers that tenants may have.
        clusters: the TenantClusters, to find a watched tenant's kubeconfig.
        clock: the time, for the watches' pauses.
        settings: how many watches may be open.
    """

    def __init__(
        self,
        kinds: LoadBalancerKinds,
        clusters: Cache[TenantCluster],
        tenants: TenantClients,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._kinds = kinds
        self._backends: list[_BackendWatches] = []
        for backend in kinds:
            watches = tenant_watches(clusters, tenants, clock=clock, settings=settings)
            caches = [
                (
                    watched,
                    watches.kind(
                        watched.resource, namespace=watched.namespace, fields=watched.fields
                    ),
                )
                for watched in backend.watches
            ]
            if caches:
                self._backends.append(_BackendWatches(backend, watches, caches))
        self.kinds: WatchedCaches = list(chain.from_iterable(b.kinds for b in self._backends))
        """What is watched, of all backends."""

    async def run(self) -> None:
        """Run the watches; a service of the manager does."""
        async with anyio.create_task_group() as group:
            for backend in self._backends:
                group.start_soon(backend.watches.run)

    def of(self, tenant: TenantCluster) -> WatchedOffers | None:
        """Return the watched objects of a tenant; None if its backend has none.

        What another backend of the tenant was watched for is not watched from now on.
        """
        kind, key = self._kinds.of(tenant), tenant.metadata.key
        watched = None
        for backend in self._backends:
            if backend.backend is kind:
                watched = _WatchedTenant(key, backend.watches, backend.kinds)
            else:
                backend.watches.close(key)
        return watched

    def close(self, key: Key) -> None:
        """End the watch of a tenant that we keep nothing in any more."""
        for backend in self._backends:
            backend.watches.close(key)


class _WatchedTenant(WatchedOffers):
    """What is watched in one tenant."""

    def __init__(self, key: Key, watches: Clusters, kinds: WatchedCaches) -> None:
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
