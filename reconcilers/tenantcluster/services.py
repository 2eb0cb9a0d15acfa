"""A tenant's Services: from a watch if one may be open, else from a LIST now.

With a watch, a Service without an address starts a pass soon after it appears. The number of open
watches is limited; in a tenant without a watch, each pass lists the Services.
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
from reconcilers.tenantcluster.watches import make_tenant_watches


class TenantServices:
    """Reads the Services of tenants.

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
        self.watches = make_tenant_watches(clusters, tenants, clock=clock, settings=settings)
        """The open watches; a service of the manager runs them."""
        self.kind: ClusterKind[Service] = self.watches.watch_kind(SERVICE)
        """The watched kind: Services, with a cache for each tenant."""

    async def read(self, tenant: TenantCluster, *, watched: bool) -> Sequence[Service]:
        """Return the tenant's Services: from the cache of its watch, else from a LIST.

        Args:
            watched: whether to open a watch if the number of open watches allows it.

        Raises:
            TenantUnavailable: the tenant cannot be reached, or rejects the request.
            MalformedAnswer: a Service of the LIST cannot be read.
            ControllerError: the management cluster did not answer.
        """
        key = tenant.metadata.key
        if self._tenants.is_refused(tenant):
            # An open watch may lead to a cluster that this TenantCluster must not use. A LIST goes
            # through the check of that.
            watched = False
        if watched and self.watches.open(key) and self.watches.get_last_error(key) is None:
            cache = self.kind.get_cache(key)
            # A cache with unreadable Services is incomplete. The LIST below then reports them.
            if cache is not None and not cache.unreadable:
                return tuple(cache)
        try:
            return await self._list(tenant)
        except TenantUnavailable as error:
            if error.reason != UNAUTHORIZED:
                raise
            # The failure dropped the client, so this request reads the kubeconfig Secret again.
            return await self._list(tenant)

    async def _list(self, tenant: TenantCluster) -> Sequence[Service]:
        """Return all Services of a tenant, read live.

        Raises:
            MalformedAnswer: a Service cannot be read. Without it, its address would seem unused.
        """
        async with self._tenants.open_client(tenant) as client:
            page = await client.list(SERVICE)
            if page.unreadable:
                raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
            return page.items

    def close(self, key: Key) -> None:
        """Close the watch of a tenant that is gone, or whose Services are no longer needed."""
        self.watches.close(key)


def may_change_demand(change: Change[Service]) -> bool:
    """Return whether a change of a Service can change which Services need or have addresses."""
    return _select_demand_fields(change.old) != _select_demand_fields(change.new)


def _select_demand_fields(service: Service | None) -> object:
    """Return the parts of a Service that decide whether it needs or has an address.

    None for no Service, and for a Service that neither is a load balancer nor shows an address.
    """
    if service is None:
        return None
    # A Service that changed its type shows its address until the load balancer has removed it.
    has_balancer = service.spec.type == LOAD_BALANCER or service.status.loadBalancer.ingress
    if not has_balancer:
        return None
    meta = service.metadata
    return (
        meta.uid,
        meta.is_terminating,
        meta.labels,
        meta.annotations,
        service.spec,
        service.status,
    )
