"""The composition root: which controller watches what, and who is handed to whom.

NetworkPool      itself, the IPAllocations that name it, and pools that overlap with it
IPAllocation     itself, its pool where that appears, goes, or turns ready, and while it is given
                 back its TenantCluster, whose status tells what was written into the tenant
TenantCluster    itself, its IPAllocations, its ProviderConfig, pools while it waits, and the
                 Services of elastic tenants
ProviderConfig   itself, the pools it names, and the clusters that refer to it
"""

from collections.abc import Iterable
from dataclasses import dataclass

import anyio

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.informer import Informer
from controller.manager import Manager, Watch
from controller.mapping import to_self
from controller.meta import Key
from controller.predicates import generation_changed
from controller.triggers import ClusterWatch
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.gauges import Gauges
from reconcilers.ipallocation.gate import Gate
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.metrics import IpamMetrics
from reconcilers.networkpool.neighbours import neighbours
from reconcilers.networkpool.reconciler import NetworkPoolReconciler
from reconcilers.networkpool.view import POOL_INDEX, pool_index
from reconcilers.orphans.collector import OrphanCollector
from reconcilers.providerconfig.reconciler import ProviderConfigReconciler
from reconcilers.settings import Settings
from reconcilers.tenantcluster.assembly import tenant_side
from reconcilers.tenantcluster.gate import TenantGate
from reconcilers.tenantcluster.kubeconfigs import OpenTransport
from reconcilers.tenantcluster.membership import TENANT_INDEX, tenant_index
from reconcilers.tenantcluster.services import matters
from reconcilers.tenantcluster.tenants import Tenants
from reconcilers.tenantcluster.world import World
from reconcilers.waking import has_more_room, refers_to, serves_differently, waits_for_room
from reconcilers.webhooks.serving import Caches, webhooks


@dataclass(frozen=True, slots=True)
class Informers:
    """What all four controllers read."""

    pools: Informer[NetworkPool]
    allocations: Informer[IPAllocation]
    clusters: Informer[TenantCluster]
    providers: Informer[ProviderConfig]


def assemble(
    manager: Manager,
    clock: Clock,
    settings: Settings,
    open_tenant: OpenTransport | None = None,
) -> Tenants:
    """Add the four controllers to `manager`; return the ways into tenants, closed at the end.

    Args:
        manager: runs them.
        clock: their time.
        settings: their intervals and thresholds.
        open_tenant: makes a connection of a tenant's kubeconfig; strict by default.
    """
    informers = Informers(
        pools=manager.informer(NETWORK_POOL),
        allocations=manager.informer(
            IP_ALLOCATION, indexes={POOL_INDEX: pool_index, TENANT_INDEX: tenant_index}
        ),
        clusters=manager.informer(TENANT_CLUSTER),
        providers=manager.informer(PROVIDER_CONFIG),
    )
    recorder = Recorder(
        _client(manager), clock, names.COMPONENT, dropped=manager.metrics.events_dropped
    )
    manager.add_service("events", recorder.run, leader_only=False)
    tenants = Tenants(_client(manager), settings.tenant, clock, open_tenant)
    gate = TenantGate(
        _client(manager), informers.clusters.cache, tenants, recorder, clock, settings.tenant
    )
    metrics = IpamMetrics(manager.metrics.registry)
    _networkpools(manager, informers, recorder, clock, settings, metrics)
    _ipallocations(manager, informers, gate, clock, settings)
    _tenantclusters(
        manager,
        informers,
        tenants=tenants,
        gate=gate,
        recorder=recorder,
        clock=clock,
        settings=settings,
    )
    _providerconfigs(manager, informers, recorder, clock, settings)
    _orphans(manager, informers, recorder, clock, settings, metrics)
    _gauges(manager, informers, clock)
    _webhooks(manager, informers, clock, settings)
    return tenants


def _webhooks(manager: Manager, informers: Informers, clock: Clock, settings: Settings) -> None:
    """Add the webhooks; they are served where the manager's options say so."""
    caches = Caches(
        informers.pools.cache,
        informers.allocations.cache,
        informers.clusters.cache,
        informers.providers.cache,
    )
    for webhook in webhooks(manager.client, caches, clock, settings):
        manager.add_webhook(webhook)


def _client(manager: Manager) -> Client:
    """Return the manager's client under the name by which we know our own writes again."""
    return manager.client.named(names.FIELD_MANAGER)


def _networkpools(
    manager: Manager,
    informers: Informers,
    recorder: Recorder,
    clock: Clock,
    settings: Settings,
    metrics: IpamMetrics,
) -> None:
    reconciler = NetworkPoolReconciler(
        _client(manager),
        informers.pools.cache,
        informers.allocations.cache,
        recorder,
        clock,
        settings.pool,
        metrics=metrics,
    )
    pools = informers.pools.cache

    def overlapping(pool: NetworkPool) -> Iterable[Key]:
        return [one.key for one in neighbours(pool, pools, settings.pool.max_addresses)]

    manager.controller(
        "networkpool",
        reconciler.reconcile,
        watches=[
            Watch(informers.pools, to_self),
            Watch(informers.pools, overlapping, generation_changed),
            Watch(informers.allocations, lambda allocation: [allocation.pool_key]),
        ],
        concurrency=settings.concurrency,
    )


def _ipallocations(
    manager: Manager, informers: Informers, gate: Gate, clock: Clock, settings: Settings
) -> None:
    reconciler = IPAllocationReconciler(
        _client(manager),
        informers.allocations.cache,
        informers.pools.cache,
        gate,
        clock,
        settings.allocation,
    )

    allocations = informers.allocations.cache

    def unserved(pool: NetworkPool) -> Iterable[Key]:
        found = allocations.by_index(POOL_INDEX, str(pool.metadata.key))
        return [a.metadata.key for a in found if a.status.phase != ALLOCATED]

    def given_back(cluster: TenantCluster) -> Iterable[Key]:
        found = allocations.by_index(TENANT_INDEX, str(cluster.metadata.key))
        return [a.metadata.key for a in found if a.metadata.terminating]

    manager.controller(
        "ipallocation",
        reconciler.reconcile,
        watches=[
            Watch(informers.allocations, to_self),
            Watch(informers.pools, unserved, serves_differently),
            Watch(informers.clusters, given_back),
        ],
        concurrency=settings.concurrency,
    )


def _tenantclusters(  # noqa: PLR0913 - what it hands on
    manager: Manager,
    informers: Informers,
    *,
    tenants: Tenants,
    gate: Gate,
    recorder: Recorder,
    clock: Clock,
    settings: Settings,
) -> None:
    clusters = informers.clusters.cache
    world = World(
        informers.pools.cache,
        informers.allocations.cache,
        clusters,
        informers.providers.cache,
    )
    side = tenant_side(
        _client(manager),
        world,
        tenants=tenants,
        gate=gate,
        recorder=recorder,
        clock=clock,
        settings=settings,
    )
    manager.add_service("tenant-services", side.services.watches.run)

    def waiting(_: NetworkPool) -> Iterable[Key]:
        return [cluster.metadata.key for cluster in clusters if waits_for_room(cluster)]

    def users(config: ProviderConfig) -> Iterable[Key]:
        return [
            cluster.metadata.key
            for cluster in clusters
            if refers_to(cluster, config, settings.namespace, by_default=True)
        ]

    manager.controller(
        "tenantcluster",
        side.reconciler.reconcile,
        watches=[
            Watch(informers.clusters, to_self),
            Watch(informers.allocations, lambda a: [a.spec.tenantClusterRef.key]),
            # By spec: capacity in their status moves with every range that is handed out.
            Watch(informers.providers, users, generation_changed),
            Watch(informers.pools, waiting, has_more_room),
            ClusterWatch(side.services.kind, lambda cluster, _: [cluster], matters),
        ],
        concurrency=settings.concurrency,
    )


def _providerconfigs(
    manager: Manager, informers: Informers, recorder: Recorder, clock: Clock, settings: Settings
) -> None:
    configs = informers.providers.cache
    reconciler = ProviderConfigReconciler(
        _client(manager),
        configs,
        pools=informers.pools.cache,
        clusters=informers.clusters.cache,
        recorder=recorder,
        clock=clock,
        settings=settings,
    )

    def naming(pool: NetworkPool) -> Iterable[Key]:
        return [
            config.metadata.key
            for config in configs
            if config.metadata.namespace == pool.metadata.namespace
            and pool.metadata.name in config.spec.networking.pools_in_order()
        ]

    def leaving(cluster: TenantCluster) -> Iterable[Key]:
        return [
            config.metadata.key
            for config in configs
            if config.metadata.terminating
            and refers_to(cluster, config, settings.namespace, by_default=False)
        ]

    manager.controller(
        "providerconfig",
        reconciler.reconcile,
        watches=[
            Watch(informers.providers, to_self),
            Watch(informers.pools, naming),
            Watch(informers.clusters, leaving),
        ],
        concurrency=1,
    )


def _orphans(
    manager: Manager,
    informers: Informers,
    recorder: Recorder,
    clock: Clock,
    settings: Settings,
    metrics: IpamMetrics,
) -> None:
    collector = OrphanCollector(
        _client(manager),
        pools=informers.pools.cache,
        allocations=informers.allocations.cache,
        clusters=informers.clusters.cache,
        recorder=recorder,
        clock=clock,
        settings=settings.orphans,
        collected=metrics.collected,
    )

    async def run() -> None:
        for informer in (informers.pools, informers.allocations, informers.clusters):
            await informer.wait_synced()
        await collector.run()

    manager.add_service("orphans", run)


def _gauges(manager: Manager, informers: Informers, clock: Clock) -> None:
    leading = anyio.Event()

    async def lead() -> None:
        leading.set()

    manager.metrics.registry.register(
        Gauges(
            informers.pools.cache,
            informers.allocations.cache,
            informers.providers.cache,
            clock,
            leading.is_set,
        )
    )
    manager.add_service("gauges", lead)
