"""Adds all controllers and services to one manager."""

from collections.abc import Sequence

import anyio

from controller.clock import Clock
from controller.manager import Manager
from controller.webhooks import Webhook
from reconcilers.clusteraccess.clusteridentity import ClusterIdentity
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantkubeconfigs import OpenTransport
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.sharing import NOTHING_SHARED, IntegrationHolders
from reconcilers.ipallocation.release import ReleaseCheck
from reconcilers.metrics.objectgauges import Gauges
from reconcilers.networkpool.orphans import OrphanCollector
from reconcilers.networkpool.statusjournal import count_promises
from reconcilers.tenantcluster.ownership.identity import TenantIdentities
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.check import TenantReleaseCheck
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from reconcilers.webhooks.admission import make_webhooks
from reconcilers.webhooks.validators import ListOtherHoldings, list_nothing
from reconcilers.wiring import controllers
from reconcilers.wiring.loadbalancers import make_load_balancer_kinds
from reconcilers.wiring.shared import Shared


def assemble(
    manager: Manager,
    clock: Clock,
    settings: Settings,
    open_tenant: OpenTransport | None = None,
) -> TenantClients:
    """Add all controllers, services and webhooks to a manager.

    Args:
        manager: runs them.
        clock: their time.
        settings: their intervals and thresholds.
        open_tenant: makes a connection from a tenant's kubeconfig; by default the strict loader.

    Returns:
        The clients of tenants, which the caller closes at the end.
    """
    shared = Shared.from_manager(manager, clock, settings)
    tenants = add_controllers(shared, open_tenant)
    add_orphans(shared)
    add_gauges(shared)
    add_webhooks(shared)
    return tenants


def add_controllers(
    shared: Shared,
    open_tenant: OpenTransport | None = None,
    *,
    release: ReleaseCheck | None = None,
) -> TenantClients:
    """Add the four controllers and the integrations; return the clients of tenants.

    Args:
        shared: the objects that every part is built with.
        open_tenant: makes a connection from a tenant's kubeconfig; by default the strict loader.
        release: finds out whether a tenant has released a range; by default it asks the tenant.
    """
    clock, settings = shared.clock, shared.settings
    clusters, allocations = shared.informers.clusters.cache, shared.informers.allocations.cache
    management = ClusterIdentity(shared.client, clock)
    kinds = make_load_balancer_kinds(clock, settings.tenant)
    guard = TenantIdentities(management, clusters, allocations=allocations, kinds=kinds)
    records = TenantRecords()
    tenants = TenantClients(
        shared.client,
        settings.tenant,
        clock=clock,
        accesses=records,
        open_transport=open_tenant,
        guard=guard,
    )
    vanished = VanishedClusters(clusters, allocations, records=records, clock=clock)
    release = release or TenantReleaseCheck(
        shared.client,
        shared.informers.caches,
        vanished=vanished,
        records=records,
        tenants=tenants,
        kinds=kinds,
        recorder=shared.recorder,
        clock=clock,
        settings=settings.tenant,
    )
    controllers.add_networkpools(shared, _add_integrations(shared))
    controllers.add_ipallocations(shared, release)
    controllers.add_tenantclusters(
        shared, kinds, tenants, vanished=vanished, records=records, release=release
    )
    controllers.add_tenant_client_closer(shared, tenants, vanished=vanished, records=records)
    controllers.add_providerconfigs(shared)
    return tenants


def _add_integrations(shared: Shared) -> IntegrationHolders:
    """Add the integrations that are on; return their objects that hold NetworkPools' addresses."""
    if not shared.settings.integration:
        return NOTHING_SHARED
    # Imported here, because it takes long and most installations have no integration.
    from reconcilers.wiring.integrations import add_integrations  # noqa: PLC0415

    return add_integrations(shared)


def add_orphans(shared: Shared) -> None:
    """Add the collector of orphans, which starts once its caches are synced.

    An orphan is an allocation whose TenantCluster is gone. While a cache is incomplete, an
    existing TenantCluster could look gone.
    """
    informers = shared.informers
    collector = OrphanCollector(
        shared.client,
        pools=informers.pools.cache,
        allocations=informers.allocations.cache,
        clusters=informers.clusters.cache,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=shared.settings.orphans,
        count_collected=shared.metrics.count_collected,
    )

    async def run() -> None:
        """Wait for the caches, then collect orphans until cancelled."""
        for informer in (informers.pools, informers.allocations, informers.clusters):
            await informer.wait_synced()
        await collector.run()

    shared.manager.add_service("orphans", run)


def add_gauges(shared: Shared) -> None:
    """Add the metrics that the leader computes from the caches.

    Only the leader reports them: each replica would report the same figures, and sums over
    replicas would be wrong.
    """
    informers = shared.informers
    is_leading = False

    async def lead() -> None:
        """Set `is_leading` while this runs; the manager runs it only in the leader."""
        nonlocal is_leading
        is_leading = True
        try:
            await anyio.sleep_forever()
        finally:
            is_leading = False

    shared.manager.metrics.registry.register(
        Gauges(
            informers.pools.cache,
            informers.allocations.cache,
            providers=informers.providers.cache,
            clusters=informers.clusters.cache,
            clock=shared.clock,
            is_leading=lambda: is_leading,
            count_promises=count_promises,
        )
    )
    shared.manager.add_service("gauges", lead)


def add_webhooks(shared: Shared) -> None:
    """Add the webhooks of all kinds, if the manager's options have an address for them."""
    if shared.manager.options.webhook_bind in ("", "0"):
        return  # webhooks are off
    client, settings = shared.manager.client, shared.settings
    list_others: ListOtherHoldings = list_nothing
    integration_webhooks: Sequence[Webhook[bytes]] = ()
    if settings.integration:
        # Imported here, because most installations have no integration.
        from reconcilers.wiring import integrations  # noqa: PLC0415

        list_others = integrations.make_lister_of_others(client, settings)
        integration_webhooks = tuple(
            integrations.make_integration_webhooks(client, settings.integration, shared.spaces)
        )
    caches, clock = shared.informers.caches, shared.clock
    own_webhooks = make_webhooks(
        client,
        caches,
        clock=clock,
        settings=settings,
        list_others=list_others,
        spaces=shared.spaces,
    )
    for webhook in (*own_webhooks, *integration_webhooks):
        shared.manager.add_webhook(webhook)
