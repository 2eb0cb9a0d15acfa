"""The controller of TenantClusters, and the watches of elastic tenants' Services beside it."""

from collections.abc import Iterable

from controller.meta import Key
from controller.triggers import ClusterWatch, Watch, generation_changed, to_self
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.tenantcluster.assembly import tenant_side
from reconcilers.tenantcluster.gate import TenantGate
from reconcilers.tenantcluster.services import matters
from reconcilers.tenantcluster.tenants import Tenants
from reconcilers.tenantcluster.world import World
from reconcilers.waking import has_more_room, refers_to, waits_for_room
from reconcilers.wiring.shared import Shared


def add(shared: Shared, tenants: Tenants, gate: TenantGate) -> None:
    """Add it to the manager.

    Args:
        shared: what every part is handed.
        tenants: the ways into tenants.
        gate: says whether a tenant let go of a range.
    """
    informers, settings = shared.informers, shared.settings
    clusters = informers.clusters.cache
    side = tenant_side(
        shared.client,
        World(
            informers.pools.cache,
            informers.allocations.cache,
            clusters,
            informers.providers.cache,
        ),
        tenants=tenants,
        gate=gate,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=settings,
        metrics=shared.metrics,
    )
    shared.manager.add_service("tenant-services", side.services.watches.run)

    def waiting(_: NetworkPool) -> Iterable[Key]:
        return [cluster.metadata.key for cluster in clusters if waits_for_room(cluster)]

    def users(config: ProviderConfig) -> Iterable[Key]:
        return [
            cluster.metadata.key
            for cluster in clusters
            if refers_to(cluster, config, settings.namespace, by_default=True)
        ]

    shared.manager.controller(
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
        group=lambda cluster: cluster.namespace,
    )
