"""Read KKP's objects: the caches of its kinds, and the allocations of one pool for a pass.

A *view* has the allocations of a pool that a pass has read. Its *position* is the resourceVersion
up to which the watch of allocations delivered everything. Responses to writes of this process
never move it, because they do not show writes of others.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from controller.cache import Cache, Change
from controller.client import Client
from controller.clock import Clock
from controller.indexes import IndexFunction
from controller.meta import Key
from controller.unreadables import find_near
from reconcilers.integrations.core.objects import ObjectsByKind, is_of_kinds
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.facts import (
    Spaces,
    compute_facts,
    compute_holdings,
    get_layouts,
    make_holder,
)
from reconcilers.promises.holdings import (
    CachedSource,
    Facts,
    Holdings,
    KeptHoldings,
    build_indexed_source,
)
from reconcilers.promises.identities import Find, Holder, find_by_key
from reconcilers.promises.reading import CacheWait
from reconcilers.promises.unreadable import check_holders

POOL_INDEX = "pool"
DATACENTER_INDEX = "datacenter"
NAMESPACE_INDEX = "namespace"


POOL_INDEXES: Mapping[str, IndexFunction[IPAMPool]] = {
    DATACENTER_INDEX: lambda pool: tuple(pool.spec.datacenters),
}
ALLOCATION_INDEXES: Mapping[str, IndexFunction[IPAMAllocation]] = {
    POOL_INDEX: lambda allocation: (allocation.metadata.name,),
    NAMESPACE_INDEX: lambda allocation: (allocation.metadata.namespace,),
}
CLUSTER_INDEXES: Mapping[str, IndexFunction[KkpCluster]] = {
    DATACENTER_INDEX: lambda cluster: (cluster.datacenter,),
    NAMESPACE_INDEX: lambda cluster: (cluster.namespace,) if cluster.namespace else (),
}


@dataclass(frozen=True, slots=True)
class KubermaticCaches:
    """The caches of this integration.

    Args:
        pools: all IPAMPools, with POOL_INDEXES.
        allocations: all IPAMAllocations, with ALLOCATION_INDEXES.
        clusters: all Clusters, with CLUSTER_INDEXES.
        worker: the worker name whose clusters are served.
    """

    pools: Cache[IPAMPool]
    allocations: Cache[IPAMAllocation]
    clusters: Cache[KkpCluster]
    worker: str = ""

    @property
    def is_history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach.

        While it is False etcd may have been restored from a backup, and the caches may show
        objects that the server has no longer.
        """
        caches = (self.pools, self.allocations, self.clusters)
        return all(cache.is_history_confirmed for cache in caches)

    def list_served(self, datacenter: str) -> list[KkpCluster]:
        """Return the clusters of a datacenter that are served, the oldest first."""
        clusters = self.clusters.list_by_index(DATACENTER_INDEX, datacenter)
        served_clusters = [cluster for cluster in clusters if self._is_served(cluster)]
        return sorted(
            served_clusters,
            key=lambda cluster: (str(cluster.metadata.creationTimestamp), cluster.metadata.key),
        )

    def list_pools_in(self, datacenters: Iterable[str]) -> Iterable[IPAMPool]:
        """Return the pools that name one of these datacenters, sorted by name."""
        pools = (self.pools.list_by_index(DATACENTER_INDEX, name) for name in datacenters)
        by_name = {pool.metadata.name: pool for pool in chain.from_iterable(pools)}
        return [pool for _, pool in sorted(by_name.items())]

    def find_cluster(self, namespace: str) -> KkpCluster | None:
        """Return the served cluster with this namespace; None if there is none."""
        clusters = self.clusters.list_by_index(NAMESPACE_INDEX, namespace)
        return next((cluster for cluster in clusters if self._is_served(cluster)), None)

    def is_cluster_paused(self, namespace: str) -> bool:
        """Return whether the Cluster with this namespace is paused, or may be.

        It may be if it cannot be decoded: the cache has an older version of it.
        """
        return any(
            cluster.spec.pause or cluster.metadata.key in self.clusters.unreadable
            for cluster in self.clusters.list_by_index(NAMESPACE_INDEX, namespace)
        )

    def _is_served(self, cluster: KkpCluster) -> bool:
        """Return whether a cluster is served.

        A cluster that cannot be decoded is not served: the cache has an older version of it.
        """
        return cluster.is_served(self.worker) and cluster.metadata.key not in (
            self.clusters.unreadable
        )


def fill_caches(objects: ObjectsByKind) -> KubermaticCaches:
    """Return caches of objects that were read; clusters with a worker name are not served."""
    return KubermaticCaches(
        objects.build_cache(POOLS, indexes=POOL_INDEXES),
        objects.build_cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES),
        objects.build_cache(CLUSTERS, indexes=CLUSTER_INDEXES),
    )


def fill_defaults(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest with the default that KKP fills in: the namespace of a Cluster."""
    status = dict(body.get("status") or {})
    if not is_of_kinds(body, [CLUSTERS]) or status.get("namespaceName"):
        return body
    name = (body.get("metadata") or {}).get("name", "")
    return {**body, "status": {**status, "namespaceName": f"cluster-{name}"}}


def check_readable(pool: str, unreadable: Mapping[Key, str]) -> None:
    """Raise if IPAMAllocations that cannot be decoded may belong to a pool.

    Args:
        pool: the name of the pool.
        unreadable: the IPAMAllocations that cannot be decoded, with the reason.

    Raises:
        UnreadableHolders: an undecodable IPAMAllocation may be the pool's.
    """
    candidates = find_near(unreadable, POOL_INDEX, pool)
    check_holders({ALLOCATIONS.kind: candidates}, lambda key, _: may_belong_to(key, pool))


def may_belong_to(allocation: Key, pool: str) -> bool:
    """Return whether an IPAMAllocation may belong to a pool, which has the same name.

    A key without namespace stands for an object whose name could not be decoded either.
    """
    return allocation.name == pool or not allocation.namespace


def may_affect_addresses(change: Change[KkpCluster]) -> bool:
    """Return whether a Cluster was created or deleted, or fields that passes read have changed."""
    old, new = change.old, change.new
    return old is None or new is None or _list_relevant_fields(old) != _list_relevant_fields(new)


def _list_relevant_fields(cluster: KkpCluster) -> tuple[object, ...]:
    """Return the fields of a Cluster that decide whether and where it is served."""
    meta = cluster.metadata
    paused = cluster.spec.pause
    return (
        meta.uid,
        cluster.datacenter,
        cluster.namespace,
        paused,
        meta.is_terminating,
        meta.labels,
    )


@dataclass(frozen=True, slots=True)
class KkpView:
    """The allocations of one pool, as they were read.

    Args:
        position: the resourceVersion up to which all allocations were read.
        list_allocations: returns the allocations of the pool. A pass that reads the cache calls
            this only if it examines all holders.
        find: returns the allocation of a holder.
        unreadable: the keys of allocations that cannot be decoded; for them, `find` may return an
            older version.
        is_listed: whether they were read by a LIST, not from the cache.
    """

    position: int
    list_allocations: Callable[[], Sequence[IPAMAllocation]]
    find: Find[IPAMAllocation]
    unreadable: Container[Key] = frozenset()
    is_listed: bool = False


class KkpHoldings:
    """Stores between passes which addresses of pools are held, and which Clusters wait.

    Changes of the caches update it.

    Args:
        check_interval: seconds between two checks that the stored holdings agree with the caches.
    """

    def __init__(self, caches: KubermaticCaches, clock: Clock, check_interval: float) -> None:
        self._caches = caches
        self._kept = KeptHoldings[str, Spaces](
            [
                build_indexed_source(
                    caches.allocations,
                    POOL_INDEX,
                    pools=lambda allocation: (allocation.metadata.name,),
                    holder=lambda allocation: make_holder(
                        allocation.metadata.namespace, allocation.metadata.name
                    ),
                ),
                CachedSource(
                    caches.clusters,
                    self._list_clusters_of,
                    pools=self._list_pools_of,
                    holder=lambda cluster, pool: make_holder(cluster.namespace, pool),
                ),
            ],
            self._find_facts,
            get_layouts,
            clock=clock,
            check_interval=check_interval,
        )

    def get_holdings(self, pool: str, spaces: Spaces, view: KkpView) -> Holdings:
        """Return the holdings of a pool.

        They are valid until the next await: then an event may change the stored holdings.

        Args:
            pool: the name of the pool.
            spaces: the addresses that the pool hands out.
            view: the allocations of the pool, read just now.
        """
        # The stored holdings follow the caches, so they do not fit a view that was listed.
        if not view.is_listed:
            return self._kept.get_holdings(pool, spaces)
        namespaces = (cluster.namespace for cluster in self._list_clusters_of(pool, spaces))
        return compute_holdings(
            pool,
            spaces,
            allocations=view.list_allocations(),
            find_cluster=self._find_cluster_in,
            namespaces=namespaces,
        )

    def forget(self, pool: str) -> None:
        """Forget a pool that is gone."""
        self._kept.forget(pool)

    def _find_facts(self, pool: str, holder: Holder, spaces: Spaces) -> Facts | None:
        """Return the facts of a holder, from the caches; None if the pool does not concern it."""
        del pool
        allocation = self._caches.allocations.get(holder.key)
        return compute_facts(
            holder, allocation, cluster=self._find_cluster_in(holder.key.namespace), spaces=spaces
        )

    def _find_cluster_in(self, namespace: str) -> KkpCluster | None:
        """Return the served Cluster of a namespace, even if it cannot be decoded just now.

        The cache sends no change for a Cluster that becomes undecodable, so stored holdings cannot
        follow that. Each pass leaves out such a Cluster.
        """
        clusters = self._caches.clusters.list_by_index(NAMESPACE_INDEX, namespace)
        return next(
            (cluster for cluster in clusters if cluster.is_served(self._caches.worker)), None
        )

    def _list_clusters_of(self, pool: str, spaces: Spaces) -> Iterable[KkpCluster]:
        """Return the Clusters of all datacenters of a pool that have a namespace."""
        del pool
        by_datacenter = (
            self._caches.clusters.list_by_index(DATACENTER_INDEX, name) for name in spaces
        )
        return [cluster for cluster in chain.from_iterable(by_datacenter) if cluster.namespace]

    def _list_pools_of(self, cluster: KkpCluster) -> Iterable[str]:
        """Return the names of the stored pools that serve the datacenter of a Cluster."""
        if not cluster.namespace:
            return ()  # a holder is named by the namespace
        kept = self._kept.list_offers()
        return [pool for pool, spaces in kept if cluster.datacenter in spaces]


class KkpReader:
    """Reads the allocations of pools.

    Args:
        client: for LISTs.
        patience: seconds to wait for a cache that lags before a LIST is sent.
    """

    def __init__(
        self, client: Client, allocations: Cache[IPAMAllocation], clock: Clock, patience: float
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._wait = CacheWait(clock, patience)

    async def read_up_to(self, pool: str, revision: int) -> KkpView:
        """Return a view that includes everything up to a revision, from the cache or by LIST.

        Args:
            revision: the resourceVersion that the pool's journal names for allocations.

        Raises:
            Behind: the cache lags, and the pass waits for it before it sends a LIST.
            UnreadableHolders: allocations that may be the pool's cannot be decoded.
            ControllerError: the LIST failed.
        """
        cache = self._allocations
        check_readable(pool, cache.unreadable)
        if self._wait.has_read(cache, revision, pool):
            list_allocations = partial(cache.list_by_index, POOL_INDEX, pool)
            find = find_by_key(JOURNALS.kind, cache.get)
            return KkpView(
                cache.position, list_allocations, find=find, unreadable=cache.unreadable.keys()
            )
        return await self.list_live(pool)

    async def list_live(self, pool: str) -> KkpView:
        """Return the view of a LIST that begins now.

        Later passes use the cache again once it shows as much as this LIST.

        Raises:
            UnreadableHolders: allocations that may be the pool's cannot be decoded.
            ControllerError: the list failed.
        """
        page = await self._client.list(ALLOCATIONS, fields=f"metadata.name={pool}")
        check_readable(pool, page.unreadable)
        self._wait.note_list(pool, page.items)
        by_key = {allocation.metadata.key: allocation for allocation in page.items}
        find = find_by_key(JOURNALS.kind, by_key.get)
        return KkpView(
            page.revision,
            lambda: page.items,
            find=find,
            unreadable=page.unreadable.keys(),
            is_listed=True,
        )

    def forget(self, pool: str) -> None:
        """Forget a pool that is gone."""
        self._wait.forget(pool)
