"""The four controllers: what each watches, and which keys a change enqueues.

With --shards a pool and its allocations belong to the pool's shard, a TenantCluster and a
ProviderConfig each to its own.
"""

from collections.abc import Callable, Iterable

from controller.cache import Change
from controller.cacheparts import CachePart
from controller.conditions import find, is_true
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
from reconcilers.integrations.core.sharing import NOTHING_SHARED, HoldersBeside
from reconcilers.ipallocation.reconciler import (
    IPAllocationReconciler,
    describe_unreleased,
    is_served,
)
from reconcilers.ipallocation.release import ReleaseCheck
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import WatchedKind
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.facts import concerns_pool, waits
from reconcilers.networkpool.poolkind import make_networkpool_passes
from reconcilers.promises.unreadable import outline_of
from reconcilers.providerconfig.reconciler import ProviderConfigReconciler
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.releaselog import GoneHolders
from reconcilers.tenantcluster.allocations.unreadable_members import UnreadableOwners
from reconcilers.tenantcluster.providerreference import find_provider_key, refers_to
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.teardown import VanishedClusters
from reconcilers.tenantcluster.services import may_change_demand
from reconcilers.wiring.shared import Shared
from reconcilers.wiring.tenants import tenant_parts

OTHERS_CLOSED_AFTER = 300.0
"""Seconds after which clients of tenants that other replicas work on are closed."""


def add_networkpools(shared: Shared, sharing: HoldersBeside = NOTHING_SHARED) -> None:
    """Add the controller of NetworkPools, which alone hands out their ranges.

    Args:
        shared: what every part is given.
        sharing: what holds addresses of NetworkPools beside IPAllocations.
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

    def concerns(change: Change[IPAllocation]) -> bool:
        allocation = change.new or change.old
        pool = pools.cache.get(allocation.pool_key) if allocation is not None else None
        # Whatever keeps a pool from serving may end by a change that is none otherwise.
        serves = pool is not None and is_true(pool.status.conditions, READY)
        return not serves or concerns_pool(change, shared.client.field_manager)

    def find_pools_of_unreadable(allocation: Key) -> Iterable[Key]:
        outline = outline_of(allocations.cache.unreadable.get(allocation, ""))
        if isinstance(outline, AllocationOutline):
            older = allocations.cache.get(allocation)
            return [outline.pool_key, *([] if older is None else [older.pool_key])]
        # Which pool an allocation names may be unreadable, too; or the allocation is gone. If even
        # the key is unreadable, the namespace is empty, and it may be of any pool.
        keys = (pool.metadata.key for pool in pools.cache)
        return [pool for pool in keys if allocation.namespace in {"", pool.namespace}]

    def choose_delay(change: Change[IPAllocation]) -> float:
        # Requests are served at once; while they are, those that come meanwhile gather anyway.
        return 0.0 if change.new is not None and waits(change.new) else settings.pool.gather

    controller = shared.manager.controller(
        "networkpool",
        passes.reconcile,
        watches=[
            Watch(
                pools,
                to_self,
                delay=spec_at_once(settings.pool.gather),
                unreadable=lambda pool: [pool],
            ),
            # A pass that only reports overlaps comes after those that hand out ranges.
            KeyWatch(shared.overlaps.of_kind(NETWORK_POOL.kind), LOW_PRIORITY),
            Watch(
                allocations,
                lambda allocation: [allocation.pool_key],
                predicate=concerns,
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
    """Add the controller of IPAllocations: finalizer, Pending, Released.

    Args:
        shared: what every part is given.
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
        pool_allocations = allocations.by_index(POOL_INDEX, str(pool))
        return [a.metadata.key for a in pool_allocations if a.status.phase != ALLOCATED]

    def find_unserved(pool: NetworkPool) -> Iterable[Key]:
        return find_unserved_by_key(pool.metadata.key)

    def find_terminating(cluster: TenantCluster) -> Iterable[Key]:
        tenant_allocations = allocations.by_index(TENANT_INDEX, str(cluster.metadata.key))
        return [a.metadata.key for a in tenant_allocations if a.metadata.terminating]

    def tenant(key: Key) -> Key:
        allocation = allocations.get(key)
        return key if allocation is None else allocation.spec.tenantClusterRef.key

    def pool(key: Key) -> Key | None:
        allocation = allocations.get(key)
        return None if allocation is None else allocation.pool_key

    shards = shared.manager.shards

    def describe_gone(gone: IPAllocation) -> dict[str, str] | None:
        is_here = shards is None or shards.holds(gone.pool_key)
        return describe_unreleased(gone) if is_here else None

    async def log_gone() -> None:
        await GoneHolders("released IPAllocation", describe_gone).run(allocations)

    shared.manager.add_service("gone-ipallocations", log_gone, leader_only=shards is None)
    shared.manager.controller(
        "ipallocation",
        reconciler.reconcile,
        watches=[
            # At the start most are served: a look at each would keep a core busy for seconds.
            Watch(
                informers.allocations,
                to_self,
                lambda change: not is_known_served(change),
                unreadable=lambda allocation: [allocation],
            ),
            Watch(
                informers.pools, find_unserved, existence_changed, unreadable=find_unserved_by_key
            ),
            # A cluster's status changes once the projection without a deleted range was written.
            # A release reads a cluster live that the cache does not show.
            Watch(informers.clusters, find_terminating, is_required=False),
        ],
        concurrency=settings.concurrency,
        # All allocations live in one namespace; a tenant with hundreds must not delay the others.
        group=tenant,
        shard_by=pool,
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
    """Add the controller of TenantClusters, and the watches of elastic tenants' Services.

    Args:
        shared: what every part is given.
        kinds: the load balancers that tenants may have.
        vanished: clusters that went in spite of our finalizer.
        records: what is remembered of each cluster.
        release: finds out whether a tenant has released a range.
    """
    informers, settings = shared.informers, shared.settings
    clusters = informers.clusters.cache
    parts = tenant_parts(
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
    # With shards every replica has tenants of its own; reconcilers open and close the watches.
    one_leads = shared.manager.shards is None
    for name, watches in (("services", parts.services.watches), ("pools", parts.offers)):
        shared.manager.add_service(f"tenant-{name}", watches.run, leader_only=one_leads)

    in_need = CachePart(clusters, waits_for_room)

    def find_waiting_clusters(_: NetworkPool | None = None) -> Iterable[Key]:
        return [cluster.metadata.key for cluster in in_need]

    def has_owner(change: Change[IPAllocation]) -> bool:
        # A range for a cluster that never existed needs no work until the cluster comes.
        allocation = change.new or change.old
        if allocation is None or names.ANNOTATION_TENANT_UID in allocation.metadata.annotations:
            return True
        return allocation.spec.tenantClusterRef.key in clusters

    def find_users(config: ProviderConfig) -> Iterable[Key]:
        return [
            cluster.metadata.key
            for cluster in clusters
            if refers_to(cluster, config, settings.namespace, by_default=True)
        ]

    def find_users_by_key(config: Key) -> Iterable[Key]:
        return [
            cluster.metadata.key
            for cluster in clusters
            if find_provider_key(cluster, settings.namespace, config) == config
        ]

    shared.manager.controller(
        "tenantcluster",
        parts.reconciler.reconcile,
        watches=[
            Watch(informers.clusters, to_self, unreadable=lambda cluster: [cluster]),
            Watch(
                informers.allocations,
                lambda a: [a.spec.tenantClusterRef.key],
                has_owner,
                unreadable=UnreadableOwners(informers.allocations.cache).of,
            ),
            # By spec: capacity in their status moves with every range that is handed out.
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
                ClusterWatch(caches, _concerned_by(watched), watched.may_matter)
                for watched, caches in parts.offers.kinds
            ),
        ],
        concurrency=settings.concurrency,
        group=lambda cluster: cluster.namespace,
        forget=parts.reconciler.forget,
    )


def _concerned_by(watched: WatchedKind) -> Callable[[Key, Object], Iterable[Key]]:
    """Return a mapping from an object in a tenant to the TenantCluster that it concerns."""

    def find_cluster(cluster: Key, obj: Object) -> Iterable[Key]:
        return [cluster] if watched.is_concerned(obj) else []

    return find_cluster


def add_tenant_clients(
    shared: Shared, tenants: TenantClients, vanished: VanishedClusters, records: TenantRecords
) -> None:
    """Close clients of tenants that other replicas work on, where replicas share the work.

    They are opened to ask whether a range was released, as allocations belong to the pool's shard.
    Nothing else closes them: that a cluster is gone is noticed by the replica that works on it.
    What else is remembered stays while the cluster has allocations: the grace of a teardown is
    longer than the time between two looks.

    Args:
        shared: what every part is given.
        vanished: clusters that went in spite of our finalizer.
        records: what is remembered of each cluster.
    """
    shards = shared.manager.shards
    if shards is None:
        return

    async def close_others() -> None:
        while True:
            await shared.clock.sleep(OTHERS_CLOSED_AFTER)
            for key in records.names():
                if shards.holds(key):
                    continue
                await tenants.close(key)
                named_records = records.of_name(key)
                uids = {record.uid for record in named_records if vanished.is_needed(record)}
                for record in records.retain(key, uids):
                    await tenants.forget(record.access)

    shared.manager.add_service("tenant-clients", close_others, leader_only=False)


def add_providerconfigs(shared: Shared) -> None:
    """Add the controller of ProviderConfigs: capacity, credentials, and their deletion."""
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
        return [
            config.metadata.key
            for config in configs
            if config.metadata.namespace == pool.namespace
            and pool.name in config.spec.networking.pools_in_order()
        ]

    def find_configs(pool: NetworkPool) -> Iterable[Key]:
        return find_configs_by_key(pool.metadata.key)

    def find_terminating(cluster: TenantCluster) -> Iterable[Key]:
        return [
            config.metadata.key
            for config in configs
            if config.metadata.terminating
            and refers_to(cluster, config, settings.namespace, by_default=False)
        ]

    shared.manager.controller(
        "providerconfig",
        reconciler.reconcile,
        watches=[
            Watch(informers.providers, to_self, unreadable=lambda config: [config]),
            Watch(informers.pools, find_configs, unreadable=find_configs_by_key),
            Watch(informers.clusters, find_terminating),
        ],
        concurrency=1,
    )


def waits_for_room(cluster: TenantCluster) -> bool:
    """Return whether a cluster needs more room in a pool, Ready or not."""
    conditions = cluster.status.conditions
    growth = (find(conditions, kind) for kind in (DEMAND_MET, LOAD_BALANCER_SIZED))
    return (
        not cluster.is_ready
        or not is_true(conditions, NETWORK_READY)
        or any(said is not None and said.reason == "PoolExhausted" for said in growth)
    )


def is_known_served(change: Change[IPAllocation]) -> bool:
    """Return whether an allocation was served when this replica first saw it."""
    return change.old is None and change.new is not None and is_served(change.new)


def existence_changed(change: Change[NetworkPool]) -> bool:
    """Return whether a pool appeared, went, or began to be deleted."""
    return _is_there(change.old) != _is_there(change.new)


def _is_there(pool: NetworkPool | None) -> bool:
    """Return whether a pool exists and is not being deleted."""
    return pool is not None and not pool.metadata.terminating


def has_more_room(change: Change[NetworkPool]) -> bool:
    """Return whether a pool appeared or could serve more, or larger, requests than before."""
    if change.new is None:
        return False
    if change.old is None:
        return True
    before, after = change.old, change.new
    second, earlier = after.status.secondary, before.status.secondary
    return (
        after.status.largest_free > before.status.largest_free
        or (second.largest_free if second else 0) > (earlier.largest_free if earlier else 0)
        or after.metadata.generation != before.metadata.generation
    )
