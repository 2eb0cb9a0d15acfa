"""A tenant's Services: from a watch if one may be open, else from a LIST now.

The watch makes growth due half a minute after a Service appeared without an address. The number of
open watches is limited; the Services of a tenant without one are listed in each pass.
"""

from collections.abc import Sequence

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.clusters import ClusterKind
from controller.errors import MalformedAnswer
from controller.meta import Key
from reconcilers.api.services import LOAD_BALANCER, SERVICE, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import UNAUTHORIZED, TenantUnavailable
from reconcilers.configuration.settings import TenantSettings
from reconcilers.tenantcluster.watches import tenant_watches


class TenantServices:
    """Returns the Services of tenants.

    Args:
        clusters: the TenantClusters, to find a watched tenant's kubeconfig.
        clock: the time, for the watches' pauses.
        settings: how many watches may be open.
    """

    def __init__(
        self,
        clusters: Cache[TenantCluster],
        tenants: TenantClients,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._tenants = tenants
        self.watches = tenant_watches(clusters, tenants, clock=clock, settings=settings)
        """The open watches; a service of the manager runs them."""
        self.kind: ClusterKind[Service] = self.watches.kind(SERVICE)
        """What they watch."""

    async def for_tenant(self, tenant: TenantCluster, *, watched: bool) -> Sequence[Service]:
        """Return the tenant's Services, as the watch shows them or as they are now.

        Args:
            watched: whether to open a watch if their number allows it.

        Raises:
            TenantUnavailable: the tenant cannot be reached, or refuses.
            ControllerError: the management cluster did not answer.
        """
        key = tenant.metadata.key
        if self._tenants.is_refused(tenant):
            # A watch may be of the cluster that the tenant must not use; a request checks access.
            watched = False
        if watched and self.watches.open(key) and self.watches.last_error(key) is None:
            cache = self.kind.cache(key)
            if cache is not None and not cache.unreadable:
                return tuple(cache)
        try:
            return await self._list(tenant)
        except TenantUnavailable as error:
            if error.reason != UNAUTHORIZED:
                raise
            return await self._list(tenant)  # with the Secret read again

    async def _list(self, tenant: TenantCluster) -> Sequence[Service]:
        async with self._tenants.client(tenant) as client:
            page = await client.list(SERVICE)
            if page.unreadable:
                raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
            return page.items

    def close(self, key: Key) -> None:
        """End the watch of a tenant that has gone, or that is elastic no more."""
        self.watches.close(key)


def may_change_demand(change: Change[Service]) -> bool:
    """Return whether a change of a Service can change who needs an address, or who has one."""
    return _relevant(change.old) != _relevant(change.new)


def _relevant(service: Service | None) -> object:
    """Return the parts of a Service that count; None if it neither is nor was a load balancer."""
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
