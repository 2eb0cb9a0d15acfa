"""IPAMPools, kept current by watches, to be shown."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from controller.cache import Change
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.core.live import (
    Live,
    PlatformSource,
    WatchedResource,
    names_of,
    watch_holders,
    watch_pools,
)
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    KINDS,
    POOLS,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.contents import contents_of
from reconcilers.integrations.kubermatic.picture import picture_of
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEXES,
    KubermaticCaches,
)
from reconcilers.spaces.offers import PoolName


def make_live(served_kinds: Collection[Resource[Object]], source: PlatformSource) -> Live | None:
    """Return the IPAMPools; None where one of KKP's kinds is not served."""
    if not all(kind in served_kinds for kind in KINDS):
        return None
    pools = source.informer(POOLS, POOL_INDEXES)
    allocations = source.informer(ALLOCATIONS, ALLOCATION_INDEXES)
    clusters = source.informer(CLUSTERS, CLUSTER_INDEXES)
    caches = KubermaticCaches(pools.cache, allocations.cache, clusters.cache)

    def of_cluster(change: Change[KkpCluster]) -> Iterable[PoolName]:
        # Any pool may show its name, as whose an allocation is.
        same = change.old and change.new and _place(change.old) == _place(change.new)
        return () if same else names_of(POOLS.kind, pools.cache)

    def make_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        return Views(
            [picture_of(contents) for contents in contents_of(caches, is_wanted, not_read)]
        )

    watched = [
        watch_pools(pools),
        watch_holders(allocations, POOLS.kind, lambda allocation: allocation.pool),
        WatchedResource(clusters, of_cluster),
    ]
    return Live(watched, partial(names_of, POOLS.kind, pools.cache), make_views)


def _place(cluster: KkpCluster) -> tuple[str, str, bool]:
    """Return the fields of a cluster that views show; its status has more, and changes often."""
    return cluster.datacenter, cluster.namespace, cluster.is_served("")
