"""A tenant's Services: from a watch of its own where there is a place for one, else read now.

The watch makes growth due half a minute after a Service turned up without an address. The number
of open ones is bounded; a tenant that finds no place, or that cannot be watched at the moment, is
read at each pass.
"""

from collections.abc import Sequence

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.clusters import ClusterKind, Clusters, ClusterSettings
from controller.errors import ControllerError, MalformedAnswer
from controller.meta import Key
from controller.renewable import Connection
from reconcilers.api.resources import SERVICE, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.elastic.inventory import LOAD_BALANCER
from reconcilers.tenantcluster.kubeconfigs import NoWayIn
from reconcilers.tenantcluster.tenants import UNAUTHORIZED, Tenants

_IDLE_TIERS = 2
"""A watch keeps its place for two of the longest tiers, so that a look always finds it open."""


class TenantServices:
    """Knows the Services of tenants.

    Args:
        clusters: the TenantClusters, to find a watched tenant's kubeconfig.
        tenants: the ways into tenants.
        clock: for the watches' pauses.
        settings: how many watches may be open.
    """

    def __init__(
        self,
        clusters: Cache[TenantCluster],
        tenants: Tenants,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._clusters = clusters
        self._tenants = tenants
        bounds = ClusterSettings(
            limit=settings.service_watches, idle_seconds=_IDLE_TIERS * settings.requeue_old
        )
        self.watches = Clusters(self._open, clock, bounds)
        """The open watches; a service of the manager runs them."""
        self.kind: ClusterKind[Service] = self.watches.kind(SERVICE)
        """What they watch."""

    async def of(self, tenant: TenantCluster, *, watched: bool) -> Sequence[Service]:
        """Return the tenant's Services, as the watch shows them or as they are now.

        Args:
            tenant: the cluster.
            watched: whether it is worth a watch, if there is a place for one.

        Raises:
            NoWayIn: the tenant cannot be entered, or does not answer.
            ControllerError: the management cluster did not answer.
        """
        key = tenant.metadata.key
        if watched and self.watches.open(key) and self.watches.last_error(key) is None:
            cache = self.kind.cache(key)
            if cache is not None and not cache.unreadable:
                return tuple(cache)
        try:
            return await self._now(tenant)
        except NoWayIn as none:
            if none.reason != UNAUTHORIZED:
                raise
            return await self._now(tenant)  # with the Secret read again

    async def _now(self, tenant: TenantCluster) -> Sequence[Service]:
        async with self._tenants.inside(tenant) as client:
            page = await client.list(SERVICE)
            if page.unreadable:
                raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
            return page.items

    def close(self, key: Key) -> None:
        """End the watch of a tenant that has gone, or that is elastic no more."""
        self.watches.close(key)

    async def _open(self, key: Key) -> Connection:
        tenant = self._clusters.get(key)
        if tenant is None:
            raise ControllerError(f"TenantCluster {key} is gone")
        return Connection(await self._tenants.open(tenant), identity=tenant.metadata.uid)


def matters(change: Change[Service]) -> bool:
    """Return whether a change of a Service can change who needs an address, or who has one."""
    return _view(change.old) != _view(change.new)


def _view(service: Service | None) -> object:
    """Return what is read of a Service; nothing of one that has no business with us."""
    if service is None:
        return None
    balanced = service.spec.type == LOAD_BALANCER or service.status.loadBalancer.ingress
    if not balanced:
        return None
    meta = service.metadata
    return (
        meta.uid,
        meta.terminating,
        meta.labels,
        meta.annotations,
        service.spec,
        service.status,
    )
