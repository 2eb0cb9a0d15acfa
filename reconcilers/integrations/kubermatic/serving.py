"""The integration as a service: it runs while the API server serves the kinds of KKP."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from typing_extensions import override

from controller.cache import Change
from controller.informer import Informer
from controller.meta import Key, Object
from controller.resource import Resource
from controller.triggers import Trigger, Watch, generation_changed, to_self
from reconcilers.api import names
from reconcilers.integrations.core.discovery import Work
from reconcilers.integrations.core.gauges import KeptFigures, PoolGauges, with_gauges
from reconcilers.integrations.core.serving import AllKindsIntegration
from reconcilers.integrations.core.watches import watch_pools
from reconcilers.integrations.kubermatic import gauges
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    GROUP,
    KINDS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.clusters import ClusterReconciler
from reconcilers.integrations.kubermatic.pools import Pools
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    DATACENTER_INDEX,
    NAMESPACE_INDEX,
    POOL_INDEXES,
    KkpReader,
    KubermaticCaches,
    concerns,
    may_be_of,
)
from reconcilers.integrations.kubermatic.reports import Reports
from reconcilers.promises.passes import PoolPasses


class Kubermatic(AllKindsIntegration):
    """Serves KKP's IPAMPools while their kinds are served."""

    service = "kubermatic"
    groups: ClassVar[Sequence[str]] = (GROUP,)
    kinds: ClassVar[Sequence[Resource[Object]]] = KINDS
    missing = "The kinds of KKP"

    @override
    def _work(self) -> Work:
        self._log.info("Serving IPAMPools of KKP")
        extension = self._manager.extension()
        pools = extension.informer(POOLS, indexes=POOL_INDEXES)
        allocations = extension.informer(ALLOCATIONS, indexes=ALLOCATION_INDEXES)
        clusters = extension.informer(CLUSTERS, indexes=CLUSTER_INDEXES)
        worker = self._settings.kubermatic.worker_name
        caches = KubermaticCaches(
            pools.cache, allocations.cache, clusters=clusters.cache, worker=worker
        )
        client = extension.client.with_field_manager(names.FIELD_MANAGER)
        settings, reports = self._settings.pool, Reports(self._recorder)
        reader = KkpReader(
            client, allocations.cache, clock=self._clock, patience=settings.cache_patience
        )
        kind = Pools(
            client,
            caches,
            reader=reader,
            reports=reports,
            clock=self._clock,
            settings=settings,
            spaces=self._spaces,
        )
        extension.controller(
            "kubermatic-ipampool",
            PoolPasses(kind, client, clock=self._clock, settings=settings).reconcile,
            watches=self._watches(caches, pools, allocations=allocations, clusters=clusters),
            concurrency=self._settings.concurrency,
        )

        def in_datacenters(pool: IPAMPool) -> Iterable[Key]:
            for name in pool.spec.datacenters:
                clusters = caches.clusters.by_index(DATACENTER_INDEX, name)
                yield from (cluster.metadata.key for cluster in clusters)

        def every_cluster(_: Key) -> Iterable[Key]:
            return (cluster.metadata.key for cluster in caches.clusters)

        condition = extension.controller(
            "kubermatic-cluster",
            ClusterReconciler(client, caches, reports=reports, clock=self._clock).reconcile,
            # A condition may wait for the pass over a pool that comes, or for one that goes.
            watches=[
                Watch(clusters, to_self, unreadable=lambda cluster: [cluster]),
                Watch(pools, in_datacenters, spec_changed, unreadable=every_cluster),
            ],
            concurrency=settings.width,
        )
        reports.changed = condition.queue.add

        figures = KeptFigures(lambda: gauges.list_figures(caches))
        pools.cache.subscribe(figures.note)
        allocations.cache.subscribe(figures.note)
        allocations.cache.subscribe_unreadable(figures.note)

        def note(change: Change[KkpCluster]) -> None:
            if concerns(change):
                figures.note(change)

        clusters.cache.subscribe(note)
        pool_gauges = PoolGauges(
            gauges.METRICS,
            "an IPAMPool",
            labels=gauges.LABELS,
            list_figures=figures,
            clock=self._clock,
        )
        return with_gauges(pool_gauges, self._manager.metrics.registry, extension.run)

    def _watches(
        self,
        caches: KubermaticCaches,
        pools: Informer[IPAMPool],
        allocations: Informer[IPAMAllocation],
        clusters: Informer[KkpCluster],
    ) -> list[Trigger]:
        """Return the triggers: which changes lead to a pass over which pools."""

        def of_cluster(cluster: KkpCluster) -> Iterable[Key]:
            yield from (pool.metadata.key for pool in caches.pools_in([cluster.datacenter]))
            theirs = caches.allocations.by_index(NAMESPACE_INDEX, cluster.namespace)
            yield from (allocation.pool for allocation in theirs)

        def of_unreadable(allocation: Key) -> Iterable[Key]:
            names = (pool.metadata.key for pool in caches.pools)
            return [pool for pool in names if may_be_of(allocation, pool.name)]

        def every_pool(_: Key) -> Iterable[Key]:
            return (pool.metadata.key for pool in caches.pools)

        gather = self._settings.pool.gather
        return [
            *watch_pools(pools, self._overlaps, gather),
            Watch(
                allocations,
                lambda allocation: [allocation.pool],
                None,
                gather,
                unreadable=of_unreadable,
            ),
            Watch(clusters, of_cluster, concerns, gather, unreadable=every_pool),
        ]


def spec_changed(change: Change[IPAMPool]) -> bool:
    """Return whether a pool came, went or has another spec; at the start each has its own pass."""
    return not change.initial and generation_changed(change)
