"""All controllers and services, put on one manager."""

from collections.abc import Sequence

import anyio

from controller.clock import Clock
from controller.manager import Manager
from controller.webhooks import Webhook
from reconcilers.clusteraccess.clusteridentity import ClusterIdentity
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantkubeconfigs import OpenTransport
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.sharing import NOTHING_SHARED, HoldersBeside
from reconcilers.ipallocation.release import ReleaseCheck
from reconcilers.metrics.objectgauges import Gauges
from reconcilers.networkpool.orphans import OrphanCollector
from reconcilers.networkpool.statusjournal import count_promises
from reconcilers.tenantcluster.ownership.identity import TenantIdentities
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.check import TenantReleaseCheck
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from reconcilers.webhooks.admission import webhooks
from reconcilers.webhooks.validators import ListOtherHoldings, list_nothing
from reconcilers.wiring import controllers
from reconcilers.wiring.loadbalancers import load_balancer_kinds
from reconcilers.wiring.shared import Shared


def assemble(
    manager: Manager,
    clock: Clock,
    settings: Settings,
    open_tenant: OpenTransport | None = None,
) -> TenantClients:
    """Add the four controllers to `manager`; return the clients of tenants, to close at the end.

    Args:
        manager: runs them.
        clock: their time.
        settings: their intervals and thresholds.
        open_tenant: makes a connection of a tenant's kubeconfig; strict by default.
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
        shared: what every part is given.
        open_tenant: makes a connection of a tenant's kubeconfig; strict by default.
        release: finds out whether a tenant has released a range; by default the tenant is asked.
    """
    clock, settings = shared.clock, shared.settings
    clusters, allocations = shared.informers.clusters.cache, shared.informers.allocations.cache
    management = ClusterIdentity(shared.client, clock)
    kinds = load_balancer_kinds(clock, settings.tenant)
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
    controllers.add_networkpools(shared, _integrations(shared))
    controllers.add_ipallocations(shared, release)
    controllers.add_tenantclusters(
        shared, kinds, tenants, vanished=vanished, records=records, release=release
    )
    controllers.add_tenant_clients(shared, tenants, vanished=vanished, records=records)
    controllers.add_providerconfigs(shared)
    return tenants


def _integrations(shared: Shared) -> HoldersBeside:
    """Add the integrations that are on; return what they hold of NetworkPools."""
    if not shared.settings.integration:
        return NOTHING_SHARED
    # To load them takes as long as a tenth of everything else, and most run without.
    from reconcilers.wiring.integrations import add_integrations  # noqa: PLC0415

    return add_integrations(shared)


def add_orphans(shared: Shared) -> None:
    """Add the collector of orphans, which begins once all caches that it reads are synced."""
    informers = shared.informers
    collector = OrphanCollector(
        shared.client,
        pools=informers.pools.cache,
        allocations=informers.allocations.cache,
        clusters=informers.clusters.cache,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=shared.settings.orphans,
        collected=shared.metrics.count_collected,
    )

    async def run() -> None:
        for informer in (informers.pools, informers.allocations, informers.clusters):
            await informer.wait_synced()
        await collector.run()

    shared.manager.add_service("orphans", run)


def add_gauges(shared: Shared) -> None:
    """Add the metrics that the leader computes from the caches."""
    informers = shared.informers
    leading = False

    async def lead() -> None:
        nonlocal leading
        leading = True
        try:
            await anyio.sleep_forever()
        finally:
            leading = False

    shared.manager.metrics.registry.register(
        Gauges(
            informers.pools.cache,
            informers.allocations.cache,
            providers=informers.providers.cache,
            clusters=informers.clusters.cache,
            clock=shared.clock,
            leading=lambda: leading,
            count_promises=count_promises,
        )
    )
    shared.manager.add_service("gauges", lead)


def add_webhooks(shared: Shared) -> None:
    """Add the webhooks, if the manager's options have an address for them."""
    if shared.manager.options.webhook_bind in ("", "0"):
        return
    client, settings = shared.manager.client, shared.settings
    list_others: ListOtherHoldings = list_nothing
    added: Sequence[Webhook[bytes]] = ()
    if settings.integration:
        from reconcilers.wiring import integrations  # noqa: PLC0415 - as above

        list_others = integrations.lister_of_others(client, settings)
        added = tuple(
            integrations.integration_webhooks(client, settings.integration, shared.spaces)
        )
    caches, clock = shared.informers.caches, shared.clock
    ours = webhooks(
        client,
        caches,
        clock=clock,
        settings=settings,
        list_others=list_others,
        spaces=shared.spaces,
    )
    for webhook in (*ours, *added):
        shared.manager.add_webhook(webhook)
