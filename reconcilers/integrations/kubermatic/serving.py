"""The integration as a service: it runs while the API server serves the kinds of KKP."""

from collections.abc import Iterable
from functools import partial

from controller.cache import Change
from controller.informer import Informer
from controller.loggers import get_logger
from controller.meta import Key
from controller.triggers import Trigger, Watch, generation_changed, to_self
from reconcilers.api import names
from reconcilers.integrations.core.discovery import Work
from reconcilers.integrations.core.gauges import KeptFigures, PoolGauges, wrap_with_gauges
from reconcilers.integrations.core.serving import (
    AllKindsSteps,
    IntegrationParts,
    add_integration_service,
)
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
    may_affect_addresses,
    may_belong_to,
)
from reconcilers.integrations.kubermatic.reports import Reports
from reconcilers.promises.passes import PoolPasses

_log = get_logger(__name__)


def add_service(parts: IntegrationParts) -> None:
    """Add the service that serves IPAMPools to the manager."""
    steps = AllKindsSteps(
        parts.manager.client,
        KINDS,
        missing="The kinds of KKP",
        make_work=partial(_make_work, parts),
        log=_log,
    )
    add_integration_service(parts, steps, service="kubermatic", groups=(GROUP,))


def _make_work(parts: IntegrationParts) -> Work:
    """Set up the caches, the two controllers and the metrics; return the work that runs them.

    One controller makes passes over IPAMPools; the other one writes the condition of Clusters
    from what these passes report.
    """
    _log.info("Serving IPAMPools of KKP")
    extension = parts.manager.create_extension()
    pools = extension.get_informer(POOLS, indexes=POOL_INDEXES)
    allocations = extension.get_informer(ALLOCATIONS, indexes=ALLOCATION_INDEXES)
    clusters = extension.get_informer(CLUSTERS, indexes=CLUSTER_INDEXES)
    worker = parts.settings.kubermatic.worker_name
    caches = KubermaticCaches(
        pools.cache, allocations.cache, clusters=clusters.cache, worker=worker
    )
    client = extension.client.with_field_manager(names.FIELD_MANAGER)
    settings, reports = parts.settings.pool, Reports(parts.recorder)
    reader = KkpReader(
        client, allocations.cache, clock=parts.clock, patience=settings.cache_patience
    )
    kind = Pools(
        client,
        caches,
        reader=reader,
        reports=reports,
        clock=parts.clock,
        settings=settings,
        spaces=parts.spaces,
    )
    extension.add_controller(
        "kubermatic-ipampool",
        PoolPasses(kind, client, clock=parts.clock, settings=settings).reconcile,
        watches=_make_watches(
            parts, caches, pools=pools, allocations=allocations, clusters=clusters
        ),
        concurrency=parts.settings.concurrency,
    )

    def list_clusters_of_pool(pool: IPAMPool) -> Iterable[Key]:
        """Yield the Clusters of all datacenters that a pool names."""
        for name in pool.spec.datacenters:
            clusters = caches.clusters.list_by_index(DATACENTER_INDEX, name)
            yield from (cluster.metadata.key for cluster in clusters)

    def list_all_clusters(_: Key) -> Iterable[Key]:
        # A pool that cannot be decoded may name any datacenter.
        return (cluster.metadata.key for cluster in caches.clusters)

    condition = extension.add_controller(
        "kubermatic-cluster",
        ClusterReconciler(client, caches, reports=reports, clock=parts.clock).reconcile,
        # A condition waits until each pool of the datacenter has had a pass. So it may become
        # due when a pool is deleted or no longer names the datacenter.
        watches=[
            Watch(clusters, to_self, unreadable=lambda cluster: [cluster]),
            Watch(pools, list_clusters_of_pool, has_changed_spec, unreadable=list_all_clusters),
        ],
        concurrency=settings.width,
    )
    reports.changed = condition.queue.add

    figures = KeptFigures(lambda: gauges.list_figures(caches))
    figures.drop_on_changes_of(pools.cache)
    figures.drop_on_changes_of(allocations.cache)

    def note_cluster(change: Change[KkpCluster]) -> None:
        """Drop the figures if a change of a Cluster may affect addresses."""
        # After each note the figures are computed again, and KKP writes the status of a Cluster
        # often.
        if may_affect_addresses(change):
            figures.drop(change)

    clusters.cache.subscribe(note_cluster)
    # A Cluster that cannot be decoded is not served, so it does not count as waiting.
    clusters.cache.subscribe_unreadable(figures.drop)
    pool_gauges = PoolGauges(
        gauges.METRICS,
        "an IPAMPool",
        labels=gauges.LABELS,
        list_figures=figures,
        clock=parts.clock,
    )
    return wrap_with_gauges(pool_gauges, parts.manager.metrics.registry, extension.run)


def _make_watches(
    parts: IntegrationParts,
    caches: KubermaticCaches,
    pools: Informer[IPAMPool],
    allocations: Informer[IPAMAllocation],
    clusters: Informer[KkpCluster],
) -> list[Trigger]:
    """Return the triggers of passes over pools.

    - A pool: itself, and pools that share addresses with it.
    - An allocation: its pool. If it cannot be decoded: each pool that it may belong to.
    - A Cluster: the pools of its datacenter, and the pools of its allocations. If it cannot be
      decoded: all pools.
    """

    def list_pools_of_cluster(cluster: KkpCluster) -> Iterable[Key]:
        """Yield the pools of a Cluster's datacenter, and those that it has allocations of."""
        yield from (pool.metadata.key for pool in caches.list_pools_in([cluster.datacenter]))
        # A Cluster that has moved still has allocations of the pools of its old datacenter.
        allocations = caches.allocations.list_by_index(NAMESPACE_INDEX, cluster.namespace)
        yield from (allocation.pool for allocation in allocations)

    def list_pools_of_unreadable(allocation: Key) -> Iterable[Key]:
        """Return the pools that an undecodable allocation may belong to."""
        keys = (pool.metadata.key for pool in caches.pools)
        return [pool for pool in keys if may_belong_to(allocation, pool.name)]

    def list_all_pools(_: Key) -> Iterable[Key]:
        # The datacenter of a Cluster that cannot be decoded is unknown.
        return (pool.metadata.key for pool in caches.pools)

    gather = parts.settings.pool.gather
    return [
        *watch_pools(pools, parts.overlaps, gather),
        Watch(
            allocations,
            lambda allocation: [allocation.pool],
            delay=gather,
            unreadable=list_pools_of_unreadable,
        ),
        Watch(
            clusters,
            list_pools_of_cluster,
            may_affect_addresses,
            delay=gather,
            unreadable=list_all_pools,
        ),
    ]


def has_changed_spec(change: Change[IPAMPool]) -> bool:
    """Return whether a pool was created, deleted or got another spec after the first list.

    The pools of the first list need no trigger: each gets a pass, which reports to its Clusters.
    """
    return not change.initial and generation_changed(change)
