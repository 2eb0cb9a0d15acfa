"""Keep the views of IPAMPools current by watches."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

from controller.cache import Change
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.core.live import (
    LivePlatform,
    PlatformSource,
    list_pool_names,
    watch_holders,
    watch_pools,
    watch_resource,
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
from reconcilers.integrations.kubermatic.contents import list_contents
from reconcilers.integrations.kubermatic.picture import make_picture
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEXES,
    KubermaticCaches,
)
from reconcilers.spaces.offers import PoolName


def make_live_platform(
    served_kinds: Collection[Resource[Object]], source: PlatformSource
) -> LivePlatform | None:
    """Return the live views of IPAMPools.

    Returns:
        None if one of KKP's kinds is not served.
    """
    if not all(kind in served_kinds for kind in KINDS):
        return None
    pools = source.make_informer(POOLS, POOL_INDEXES)
    allocations = source.make_informer(ALLOCATIONS, ALLOCATION_INDEXES)
    clusters = source.make_informer(CLUSTERS, CLUSTER_INDEXES)
    caches = KubermaticCaches(pools.cache, allocations.cache, clusters.cache)

    def list_pools_of_change(change: Change[KkpCluster]) -> Iterable[PoolName]:
        """Return all pools if a change of a Cluster concerns views; else none."""
        is_shown_alike = (
            change.old
            and change.new
            and _list_shown_fields(change.old) == _list_shown_fields(change.new)
        )
        # Any pool may have an allocation of this Cluster and show the Cluster's name with it.
        return () if is_shown_alike else list_pool_names(POOLS.kind, pools.cache)

    def make_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        """Return the pictures of the wanted pools, one for each datacenter."""
        return Views(
            [make_picture(contents) for contents in list_contents(caches, is_wanted, not_read)]
        )

    watched = [
        watch_pools(pools),
        watch_holders(allocations, POOLS.kind, lambda allocation: allocation.pool),
        watch_resource(clusters, list_pools_of_change),
    ]
    return LivePlatform(watched, partial(list_pool_names, POOLS.kind, pools.cache), make_views)


def _list_shown_fields(cluster: KkpCluster) -> tuple[str, str, bool]:
    """Return the fields of a cluster that views show. Other fields of its status change often."""
    return cluster.datacenter, cluster.namespace, cluster.is_served("")
