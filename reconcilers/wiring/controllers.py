"""The four controllers: the objects that each watches, and which keys a change enqueues.

A *pass* reconciles one object. A *shard* is a part of all keys, on which one replica works. With
--shards, a pool and its allocations belong to the shard of the pool's key. A TenantCluster and a
ProviderConfig belong to the shard of their own key.
"""

from collections.abc import Callable, Iterable

from controller.cache import Change
from controller.cacheparts import CachePart
from controller.conditions import find_condition, is_true
from controller.meta import Key, Object
from controller.triggers import (
    ClusterWatch,
    KeyWatch,
    Watch,
    generation_changed,
    spec_at_once,
    to_self,
)
from controller.workqueue import LOW_PRIORITY
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, POOL_INDEX, TENANT_INDEX, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import NETWORK_POOL, AllocationOutline
from reconcilers.api.tenantcluster import (
    DEMAND_MET,
    LOAD_BALANCER_SIZED,
    NETWORK_READY,
    TenantCluster,
)
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.integrations.core.sharing import NOTHING_SHARED, IntegrationHolders
from reconcilers.ipallocation.reconciler import (
    IPAllocationReconciler,
    describe_unreleased,
    is_served,
)
from reconcilers.ipallocation.release import ReleaseCheck
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import WatchedKind
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.facts import concerns_pool, is_unserved
from reconcilers.networkpool.poolkind import make_networkpool_passes
from reconcilers.promises.unreadable import read_outline
from reconcilers.providerconfig.reconciler import ProviderConfigReconciler
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.releaselog import GoneHolders
from reconcilers.tenantcluster.allocations.unreadable_members import UnreadableOwners
from reconcilers.tenantcluster.providerreference import find_provider_key, refers_to
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from reconcilers.tenantcluster.services import may_change_demand
from reconcilers.wiring.shared import Shared
from reconcilers.wiring.tenants import make_tenant_parts

OTHERS_CLOSED_AFTER = 300.0
"""Seconds between two searches for clients of tenants that other replicas work on."""


def add_networkpools(shared: Shared, sharing: IntegrationHolders = NOTHING_SHARED) -> None:
    """Add the controller of NetworkPools, which alone hands out their ranges.

    Args:
        shared: the objects that every part is built with.
        sharing: the claims and observed objects that hold addresses of NetworkPools, too.
    """
    settings = shared.settings
    pools, allocations = shared.informers.pools, shared.informers.allocations
    passes = make_networkpool_passes(
        shared.client,
        pools.cache,
        allocations=allocations.cache,
        events=PoolEvents(
            shared.recorder,
            shared.clock,
            interval=settings.pool.event_interval,
            metrics=shared.metrics,
        ),
        clock=shared.clock,
        settings=settings.pool,
        claims=sharing.claims,
        observed=sharing.observed,
        spaces=shared.spaces,
    )

    def may_matter_to_pool(change: Change[IPAllocation]) -> bool:
        """Return whether a pass over the pool may do something about a change."""
        allocation = change.new or change.old
        pool = pools.cache.get(allocation.pool_key) if allocation is not None else None
        # If the pool is not Ready, any change of an allocation may repair it.
        is_pool_ready = pool is not None and is_true(pool.status.conditions, READY)
        return not is_pool_ready or concerns_pool(change, shared.client.field_manager)

    def find_pools_of_unreadable(allocation: Key) -> Iterable[Key]:
        """Return the pools that may depend on an allocation that cannot be decoded."""
        outline = read_outline(allocations.cache.unreadable.get(allocation, ""))
        if isinstance(outline, AllocationOutline):
            # The pool's name could be read. The last readable version may have named another pool.
            older = allocations.cache.get(allocation)
            return [outline.pool_key, *([] if older is None else [older.pool_key])]
        # The pool's name cannot be read, or the allocation is gone: the allocation may be of any
        # pool in its namespace. If even its key cannot be read, the namespace is empty, and the
        # allocation may be of any pool.
        keys = (pool.metadata.key for pool in pools.cache)
        return [pool for pool in keys if allocation.namespace in {"", pool.namespace}]

    def choose_delay(change: Change[IPAllocation]) -> float:
        """Return how many seconds to gather changes like this before a pass."""
        # A request is served at once. Requests that come during its pass are served by the next.
        return 0.0 if change.new is not None and is_unserved(change.new) else settings.pool.gather

    controller = shared.manager.add_controller(
        "networkpool",
        passes.reconcile,
        watches=[
            Watch(
                pools,
                to_self,
                delay=spec_at_once(settings.pool.gather),
                unreadable=lambda pool: [pool],
            ),
            # A pass that only reports overlaps comes after the passes that hand out ranges.
            KeyWatch(shared.overlaps.get_pools_of_kind(NETWORK_POOL.kind), LOW_PRIORITY),
            Watch(
                allocations,
                lambda allocation: [allocation.pool_key],
                predicate=may_matter_to_pool,
                delay=choose_delay,
                unreadable=find_pools_of_unreadable,
            ),
        ],
        concurrency=settings.concurrency,
        forget=passes.forget,
    )
    for integration in sharing.integrations:
        integration.enqueue_networkpools(controller)


def add_ipallocations(shared: Shared, release: ReleaseCheck) -> None:
    """Add the controller of IPAllocations: it adds finalizers, reports and releases.

    Args:
        shared: the objects that every part is built with.
        release: finds out whether a tenant has released a range.
    """
    informers, settings = shared.informers, shared.settings
    allocations = informers.allocations.cache
    reconciler = IPAllocationReconciler(
        shared.client,
        allocations,
        pools=informers.pools.cache,
        release=release,
        clock=shared.clock,
        settings=settings.allocation,
    )

    def find_unserved_by_key(pool: Key) -> Iterable[Key]:
        """Return the allocations of a pool that are not Allocated."""
        pool_allocations = allocations.list_by_index(POOL_INDEX, str(pool))
        return [a.metadata.key for a in pool_allocations if a.status.phase != ALLOCATED]

    def find_unserved(pool: NetworkPool) -> Iterable[Key]:
        """Return the allocations of a pool that are not Allocated."""
        return find_unserved_by_key(pool.metadata.key)

    def find_terminating(cluster: TenantCluster) -> Iterable[Key]:
        """Return the allocations of a cluster that are being deleted."""
        tenant_allocations = allocations.list_by_index(TENANT_INDEX, str(cluster.metadata.key))
        return [a.metadata.key for a in tenant_allocations if a.metadata.is_terminating]

    def find_tenant(key: Key) -> Key:
        """Return the TenantCluster of an allocation; the key itself if the cache lacks it."""
        allocation = allocations.get(key)
        return key if allocation is None else allocation.spec.tenantClusterRef.key

    def find_pool(key: Key) -> Key | None:
        """Return the pool of an allocation; None if the cache lacks it."""
        allocation = allocations.get(key)
        return None if allocation is None else allocation.pool_key

    shards = shared.manager.shards

    def describe_gone(gone: IPAllocation) -> dict[str, str] | None:
        """Return the log fields of an allocation that is gone; None if another replica logs it."""
        is_here = shards is None or shards.holds(gone.pool_key)
        return describe_unreleased(gone) if is_here else None

    async def log_gone() -> None:
        """Log the allocations that are deleted without a release by us."""
        await GoneHolders("released IPAllocation", describe_gone).run(allocations)

    shared.manager.add_service("gone-ipallocations", log_gone, leader_only=shards is None)
    shared.manager.add_controller(
        "ipallocation",
        reconciler.reconcile,
        watches=[
            # At the start most allocations are served: a pass over each would keep a core busy
            # for seconds.
            Watch(
                informers.allocations,
                to_self,
                lambda change: not is_served_at_start(change),
                unreadable=lambda allocation: [allocation],
            ),
            Watch(
                informers.pools,
                find_unserved,
                has_existence_changed,
                unreadable=find_unserved_by_key,
            ),
            # The status of a cluster changes when its load balancer no longer has a deleted range,
            # so the release may go on. The watch is not required: a release reads a cluster live
            # if the cache lacks it.
            Watch(informers.clusters, find_terminating, is_required=False),
        ],
        concurrency=settings.concurrency,
        # All allocations live in one namespace; a tenant with hundreds must not delay the others.
        group=find_tenant,
        shard_by=find_pool,
        forget=reconciler.forget,
    )


def add_tenantclusters(
    shared: Shared,
    kinds: LoadBalancerKinds,
    tenants: TenantClients,
    *,
    vanished: VanishedClusters,
    records: TenantRecords,
    release: ReleaseCheck,
) -> None:
    """Add the controller of TenantClusters, and the watches in tenants.

    Args:
        shared: the objects that every part is built with.
        kinds: the load balancers that tenants may have.
        vanished: the clusters that were deleted without our finalizer's work.
        records: what is remembered of each cluster.
        release: finds out whether a tenant has released a range.
    """
    informers, settings = shared.informers, shared.settings
    clusters = informers.clusters.cache
    parts = make_tenant_parts(
        shared.client,
        informers.caches,
        kinds=kinds,
        tenants=tenants,
        vanished=vanished,
        records=records,
        release=release,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=settings,
        metrics=shared.metrics,
    )
    # With shards, every replica works on tenants, so the watches run in every replica. The
    # reconciler opens and closes a watch for each tenant.
    has_one_leader = shared.manager.shards is None
    for name, watches in (("services", parts.services.watches), ("pools", parts.offers)):
        shared.manager.add_service(f"tenant-{name}", watches.run, leader_only=has_one_leader)

    waiting_clusters = CachePart(clusters, is_waiting_for_room)

    def find_waiting_clusters(_: NetworkPool | None = None) -> Iterable[Key]:
        """Return the clusters that need room, whatever pool has changed."""
        return [cluster.metadata.key for cluster in waiting_clusters]

    def has_owner(change: Change[IPAllocation]) -> bool:
        """Return whether the cluster of a changed allocation exists, or existed once.

        An allocation for a cluster that never existed needs no pass until the cluster is created.
        """
        allocation = change.new or change.old
        # The annotation has the uid of a cluster, so that cluster existed.
        if allocation is None or names.ANNOTATION_TENANT_UID in allocation.metadata.annotations:
            return True
        return allocation.spec.tenantClusterRef.key in clusters

    def find_users(config: ProviderConfig) -> Iterable[Key]:
        """Return the clusters that a ProviderConfig serves, by name or as the default."""
        return [
            cluster.metadata.key
            for cluster in clusters
            if refers_to(cluster, config, settings.namespace, by_default=True)
        ]

    def find_users_by_key(config: Key) -> Iterable[Key]:
        """Return the clusters that an unreadable ProviderConfig may serve.

        Clusters that name no ProviderConfig are included: this one may be the default.
        """
        return [
            cluster.metadata.key
            for cluster in clusters
            if find_provider_key(cluster, settings.namespace, config) == config
        ]

    shared.manager.add_controller(
        "tenantcluster",
        parts.reconciler.reconcile,
        watches=[
            Watch(informers.clusters, to_self, unreadable=lambda cluster: [cluster]),
            Watch(
                informers.allocations,
                lambda allocation: [allocation.spec.tenantClusterRef.key],
                has_owner,
                unreadable=UnreadableOwners(informers.allocations.cache).list_to_reconcile,
            ),
            # Only changes of the spec count: the capacity in the status changes with every range.
            Watch(
                informers.providers, find_users, generation_changed, unreadable=find_users_by_key
            ),
            Watch(
                informers.pools,
                find_waiting_clusters,
                has_more_room,
                unreadable=lambda _: find_waiting_clusters(),
            ),
            ClusterWatch(parts.services.kind, lambda cluster, _: [cluster], may_change_demand),
            *(
                ClusterWatch(caches, _make_cluster_mapping(watched), watched.may_matter)
                for watched, caches in parts.offers.kinds
            ),
        ],
        concurrency=settings.concurrency,
        # A namespace with many clusters must not delay the clusters of the others.
        group=lambda cluster: cluster.namespace,
        forget=parts.reconciler.forget,
    )


def _make_cluster_mapping(watched: WatchedKind) -> Callable[[Key, Object], Iterable[Key]]:
    """Return a function that maps an object in a tenant to its TenantCluster.

    The projection is the set of objects that we write into the tenant. An object that does not
    concern the projection is mapped to no cluster.
    """

    def find_cluster(cluster: Key, obj: Object) -> Iterable[Key]:
        """Return the cluster if the object concerns our projection; else nothing."""
        return [cluster] if watched.is_concerned(obj) else []

    return find_cluster


def add_tenant_client_closer(
    shared: Shared, tenants: TenantClients, vanished: VanishedClusters, records: TenantRecords
) -> None:
    """Add a service that closes the clients of tenants that other replicas work on.

    It looks for them every OTHERS_CLOSED_AFTER seconds. They exist only with shards. An allocation
    belongs to the shard of its pool, so this replica asks the tenants of other replicas whether a
    range was released. Nothing else closes these clients: only the replica that works on a cluster
    notices that the cluster is gone.

    A cluster's record is what this process remembers of the cluster. Its client is closed, but the
    rest is kept while the cluster has allocations: it has the grace period of a teardown, which is
    longer than OTHERS_CLOSED_AFTER.

    Args:
        shared: the objects that every part is built with.
        vanished: the clusters that were deleted without our finalizer's work.
        records: what is remembered of each cluster.
    """
    shards = shared.manager.shards
    if shards is None:
        return  # one replica works on all tenants

    async def close_others() -> None:
        """Close the clients, and drop the records that are no longer needed, until cancelled."""
        while True:
            await shared.clock.sleep(OTHERS_CLOSED_AFTER)
            for key in records.list_keys():
                if shards.holds(key):
                    continue  # this replica works on the cluster
                await tenants.close_clients(key)
                named_records = records.list_by_name(key)
                uids = {record.uid for record in named_records if vanished.is_needed(record)}
                for record in records.retain(key, uids):
                    await tenants.forget(record.access)

    shared.manager.add_service("tenant-clients", close_others, leader_only=False)


def add_providerconfigs(shared: Shared) -> None:
    """Add the controller of ProviderConfigs: it reports capacity, and checks credentials."""
    informers, settings = shared.informers, shared.settings
    configs = informers.providers.cache
    reconciler = ProviderConfigReconciler(
        shared.client,
        configs,
        pools=informers.pools.cache,
        clusters=informers.clusters.cache,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=settings,
    )

    def find_configs_by_key(pool: Key) -> Iterable[Key]:
        """Return the ProviderConfigs that name a pool.

        A ProviderConfig names pools of its own namespace only.
        """
        return [
            config.metadata.key
            for config in configs
            if config.metadata.namespace == pool.namespace
            and pool.name in config.spec.networking.list_pools_in_order()
        ]

    def find_configs(pool: NetworkPool) -> Iterable[Key]:
        """Return the ProviderConfigs that name a pool."""
        return find_configs_by_key(pool.metadata.key)

    def find_terminating(cluster: TenantCluster) -> Iterable[Key]:
        """Return the ProviderConfigs that are being deleted and that a cluster names."""
        return [
            config.metadata.key
            for config in configs
            if config.metadata.is_terminating
            and refers_to(cluster, config, settings.namespace, by_default=False)
        ]

    shared.manager.add_controller(
        "providerconfig",
        reconciler.reconcile,
        watches=[
            Watch(informers.providers, to_self, unreadable=lambda config: [config]),
            Watch(informers.pools, find_configs, unreadable=find_configs_by_key),
            Watch(informers.clusters, find_terminating),
        ],
        concurrency=1,
    )


def is_waiting_for_room(cluster: TenantCluster) -> bool:
    """Return whether more room in a pool may help a cluster.

    A cluster that is not Ready, or that lacks addresses, may wait for room. A Ready cluster waits
    if it cannot grow, or cannot reach its size, because the pools are full.
    """
    conditions = cluster.status.conditions
    size_conditions = (
        find_condition(conditions, kind) for kind in (DEMAND_MET, LOAD_BALANCER_SIZED)
    )
    return (
        not cluster.is_ready
        or not is_true(conditions, NETWORK_READY)
        or any(
            condition is not None and condition.reason == "PoolExhausted"
            for condition in size_conditions
        )
    )


def is_served_at_start(change: Change[IPAllocation]) -> bool:
    """Return whether a change adds an already served allocation to the cache."""
    return change.old is None and change.new is not None and is_served(change.new)


def has_existence_changed(change: Change[NetworkPool]) -> bool:
    """Return whether a pool was created or deleted, or its deletion began."""
    return _is_there(change.old) != _is_there(change.new)


def _is_there(pool: NetworkPool | None) -> bool:
    """Return whether a pool exists and is not being deleted."""
    return pool is not None and not pool.metadata.is_terminating


def has_more_room(change: Change[NetworkPool]) -> bool:
    """Return whether a pool is new, has a larger free block in a family, or has a new spec."""
    if change.new is None:
        return False  # a deleted pool has no room
    if change.old is None:
        return True  # a new pool
    before, after = change.old, change.new
    second_before, second_after = before.status.secondary, after.status.secondary
    # A pool with one family has no second block.
    second_free_before = second_before.largest_free if second_before is not None else 0
    second_free_after = second_after.largest_free if second_after is not None else 0
    return (
        after.status.largest_free > before.status.largest_free
        or second_free_after > second_free_before
        or after.metadata.generation != before.metadata.generation
    )
