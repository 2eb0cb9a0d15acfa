"""Watches the objects that we keep in tenants' load balancers, to see edits by others at once.

The number of open watches is limited, as for Services. In a tenant without a watch, each pass
reads the objects. These watches have a connection of their own: if a tenant stops serving the
kinds of its balancer, the watch of its Services goes on.

A backend is a kind of load balancer that tenants may have.
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
from reconcilers.tenantcluster.watches import make_tenant_watches

K = TypeVar("K", bound=Object)

WatchedCaches = Sequence[tuple[WatchedKind, ClusterKind[Any]]]
"""Each watched kind of a backend, with its caches, one for each tenant."""


@dataclass(frozen=True, slots=True)
class _BackendWatches:
    """The watches of one backend.

    Args:
        watches: the open watches, in the tenants that have this backend.
        kinds: the watched kinds, with their caches.
    """

    backend: LoadBalancerKind
    watches: Clusters
    kinds: WatchedCaches


class BalancerWatches:
    """The watches of the objects that we write in tenants.

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
            watches = make_tenant_watches(clusters, tenants, clock=clock, settings=settings)
            caches = [
                (
                    watched,
                    watches.watch_kind(
                        watched.resource, namespace=watched.namespace, fields=watched.fields
                    ),
                )
                for watched in backend.watches
            ]
            if caches:
                self._backends.append(_BackendWatches(backend, watches, caches))
        self.kinds: WatchedCaches = list(
            chain.from_iterable(backend.kinds for backend in self._backends)
        )
        """The watched kinds of all backends."""

    async def run(self) -> None:
        """Run the watches of all backends until cancelled, as a service of the manager."""
        async with anyio.create_task_group() as group:
            for backend in self._backends:
                group.start_soon(backend.watches.run)

    def choose_watched(self, tenant: TenantCluster) -> WatchedOffers | None:
        """Return the watched objects of a tenant's backend; None if nothing of it is watched.

        Also close the watches of all other backends in the tenant: it may have changed its load
        balancer.
        """
        kind, key = self._kinds.find_chosen(tenant), tenant.metadata.key
        watched_offers = None
        for backend in self._backends:
            if backend.backend is kind:
                watched_offers = _WatchedTenant(key, backend.watches, backend.kinds)
            else:
                backend.watches.close(key)
        return watched_offers

    def close(self, key: Key) -> None:
        """Close the watches of a tenant in which we no longer keep any object."""
        for backend in self._backends:
            backend.watches.close(key)


class _WatchedTenant(WatchedOffers):
    """The watched objects of one tenant."""

    def __init__(self, key: Key, watches: Clusters, kinds: WatchedCaches) -> None:
        self._key = key
        self._watches = watches
        self._kinds = kinds

    @override
    def open(self) -> None:
        """Open the watches of the tenant, if the number of open watches allows it."""
        self._watches.open(self._key)

    @override
    def get(self, resource: Resource[K], key: Key) -> K | None:
        """Return the cached object; None if the cache lacks it, or the watch is not open."""
        for watched, kind in self._kinds:
            if watched.resource is resource and (cache := kind.get_cache(self._key)) is not None:
                obj = cache.get(key)
                # Always of that type; the check is for the type checker.
                return obj if isinstance(obj, resource.type) else None
        return None
