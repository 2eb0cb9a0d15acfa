"""All controllers and services, put on one manager."""

import anyio

from controller.clock import Clock
from controller.httpserver import Bind
from controller.manager import Manager
from controller.transport import Transport
from reconcilers.clusteridentity import ClusterIdentity
from reconcilers.gauges import Gauges
from reconcilers.integrations.clusterapi.serving import ClusterApi
from reconcilers.integrations.core.holders import AllHolders
from reconcilers.integrations.kubermatic.observer import KubermaticObserver
from reconcilers.integrations.kubermatic.serving import Kubermatic
from reconcilers.integrations.vitistack.serving import Vitistack
from reconcilers.networkpool.orphans import OrphanCollector
from reconcilers.networkpool.view import OtherHolders
from reconcilers.settings import CLUSTER_API, KUBERMATIC, VITISTACK, Settings
from reconcilers.tenantclients import OpenTransport, TenantClients
from reconcilers.tenantcluster.ownership.identity import TenantIdentities
from reconcilers.tenantcluster.release.check import TenantReleaseCheck
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from reconcilers.ui.serving import Page
from reconcilers.ui.watched import Watched, events_of
from reconcilers.webhooks.admission import cluster_api_webhooks, kubermatic_webhooks, webhooks
from reconcilers.wiring import controllers
from reconcilers.wiring.shared import Informers, Shared


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
    clusters, allocations = shared.informers.clusters.cache, shared.informers.allocations.cache
    management = ClusterIdentity(shared.client, clock)
    guard = TenantIdentities(management, clusters, allocations, settings.tenant.metallb_namespace)
    tenants = TenantClients(shared.client, settings.tenant, clock, open_tenant, guard)
    vanished = VanishedClusters(clusters, allocations, clock)
    release = TenantReleaseCheck(
        shared.client,
        shared.informers.caches,
        vanished,
        tenants,
        recorder=shared.recorder,
        clock=clock,
        settings=settings.tenant,
    )
    sharing: list[ClusterApi | KubermaticObserver] = []
    if KUBERMATIC in settings.integration and settings.kubermatic.observe:
        sharing.append(add_kubermatic_observer(shared))
    if CLUSTER_API in settings.integration:
        others = AllHolders([one.holders for one in sharing])
        sharing.append(add_cluster_api(shared, others))
    networkpools = controllers.add_networkpools(
        shared, AllHolders([one.holders for one in sharing])
    )
    for one in sharing:
        one.enqueue_networkpools(networkpools)
    if KUBERMATIC in settings.integration and not settings.kubermatic.observe:
        Kubermatic(shared.manager, shared.recorder, clock, settings)
    if VITISTACK in settings.integration:
        Vitistack(shared.manager, shared.recorder, clock, settings)
    controllers.add_ipallocations(shared, release)
    controllers.add_tenantclusters(shared, tenants, vanished, release)
    controllers.add_tenant_clients(shared, tenants)
    controllers.add_providerconfigs(shared)
    add_orphans(shared)
    add_gauges(shared)
    add_webhooks(shared)
    return tenants


def add_page(manager: Manager, transport: Transport, bind: Bind, cert_dir: str) -> Page:
    """Add the page of addresses to what `assemble` has put on a manager; each replica serves it.

    Args:
        manager: what was assembled; its caches are what the page shows.
        transport: the API server, which reviews who may see the page.
        bind: where to listen.
        cert_dir: folder with tls.crt and tls.key; empty for a certificate that no client verifies.
    """
    found = Informers.from_manager(manager)
    events = events_of(transport, manager.clock)
    watched = Watched(found.pools, found.allocations, found.clusters, found.providers, events)
    page = Page(watched, transport, manager.clock, bind, cert_dir)
    manager.add_service("ui", page.run, leader_only=False)
    return page


def add_cluster_api(shared: Shared, others: OtherHolders) -> ClusterApi:
    """Add the service that answers Cluster API's claims for addresses.

    Args:
        shared: what every part is given.
        others: what other integrations hold of NetworkPools.
    """
    service = ClusterApi(
        shared.manager,
        shared.informers.pools,
        shared.informers.allocations,
        shared.recorder,
        shared.clock,
        shared.settings,
    )
    service.others = others
    return service


def add_kubermatic_observer(shared: Shared) -> KubermaticObserver:
    """Add the service that has NetworkPools keep clear of what KKP allocates."""
    return KubermaticObserver(
        shared.manager,
        shared.informers.pools,
        shared.informers.allocations,
        shared.recorder,
        shared.clock,
    )


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
        collected=shared.metrics.collected,
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
            informers.providers.cache,
            informers.clusters.cache,
            shared.clock,
            lambda: leading,
        )
    )
    shared.manager.add_service("gauges", lead)


def add_webhooks(shared: Shared) -> None:
    """Add the webhooks; the manager's options decide whether and where they are served."""
    caches = shared.informers.caches
    for webhook in webhooks(shared.manager.client, caches, shared.clock, shared.settings):
        shared.manager.add_webhook(webhook)
    if CLUSTER_API in shared.settings.integration:
        for webhook in cluster_api_webhooks(shared.manager.client):
            shared.manager.add_webhook(webhook)
    if KUBERMATIC in shared.settings.integration:
        for webhook in kubermatic_webhooks(shared.manager.client):
            shared.manager.add_webhook(webhook)
