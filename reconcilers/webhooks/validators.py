"""Reads what the rules of each kind need, and applies them.

Everything is read from the caches, which every replica has, with two exceptions:

- A write that narrows or deletes a pool is validated by a view: the pool's allocations, as of a
  time. The journal in the pool's status names the revision up to which a view must have read. If
  the cache is behind that revision, the allocations are listed. The journal also has the promises,
  the ranges that are not written to allocations yet; the view shows the ranges that are written.
  So no address that was handed out is missed. Addresses handed out later follow the new spec.
- Before a write is refused because of a cache, the API server is read. An edit of a pool right
  after an allocation was deleted must not be refused because of that allocation.

Warnings may be based on a stale cache. So may decisions that a reconciler checks again: the
finalizer keeps a ProviderConfig or a pool that is deleted too early.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import MalformedAnswer, NotFound
from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.networkpool.otherholders import OtherHoldings
from reconcilers.networkpool.reading import PoolReader
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, read_allocations_revision
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.unreadable import UnreadableHoldings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules import providerspecs
from reconcilers.specrules.poolnamespaces import describe_refused_namespace
from reconcilers.specrules.verdict import NOTHING, Verdict, build_forbidden_cause, refuse_namespace
from reconcilers.tenantcluster.allocations.membership import (
    is_foreign,
    list_balancer_members,
    list_members,
)
from reconcilers.tenantcluster.allocations.unreadable_members import (
    list_unreadable_members,
    select_unreadable_members,
)
from reconcilers.tenantcluster.provider import Providers, ProviderUnknown, ProviderUnreadable
from reconcilers.tenantcluster.providerreference import refers_to
from reconcilers.webhooks import ipallocation, networkpool, providerconfig, tenantcluster
from reconcilers.webhooks.tenantcluster import Provision


class _Validator:
    """The objects that the rules of pools and of allocations read.

    Args:
        client: for live reads.
        pools: all pools.
        allocations: all allocations, indexed by pool.
        clock: the time.
        max_addresses: the largest pool, in addresses.
        namespaces: the namespaces whose pools count; empty for all.
    """

    def __init__(
        self,
        client: Client,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        clock: Clock,
        max_addresses: int,
        *,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._allowed_namespaces = namespaces
        self._client = client
        self._pools = pools
        self._allocations = allocations
        # The API server waits for the answer, so the reader does not wait for a stale cache.
        self._reader = PoolReader(allocations, client, clock, wait_seconds=0.0)
        self._limit = max_addresses


ListOtherHoldings = Callable[[NetworkPool], Awaitable[OtherHoldings]]
"""Returns the pool's addresses that no IPAllocation holds, with their holders, read live."""


async def list_nothing(pool: NetworkPool) -> OtherHoldings:
    """Return no other holdings: without integrations only IPAllocations hold addresses."""
    del pool
    return OtherHoldings()


class PoolValidator(_Validator):
    """Validates NetworkPools.

    Args:
        client: for live reads.
        pools: all pools.
        allocations: all allocations, indexed by pool.
        clock: the time.
        max_addresses: the largest pool, in addresses.
        spaces: what pools of all kinds hand out.
        list_others: lists the holders of a pool's addresses that are no IPAllocations.
        namespaces: the namespaces whose pools count; empty for all.
    """

    def __init__(  # noqa: PLR0913 - what the rules read
        self,
        client: Client,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        clock: Clock,
        max_addresses: int,
        *,
        spaces: SpaceIndex,
        list_others: ListOtherHoldings = list_nothing,
        namespaces: Sequence[str] = (),
    ) -> None:
        super().__init__(client, pools, allocations, clock, max_addresses, namespaces=namespaces)
        self._spaces = spaces
        self._list_others = list_others

    async def review_creation(self, new: NetworkPool) -> Verdict:
        """Return the verdict on a new pool: its namespace, then its spec."""
        if refused := refuse_namespace(new.metadata.namespace, self._allowed_namespaces):
            return refused
        return networkpool.review_creation(new, self._spaces, self._limit)

    async def review_update(self, new: NetworkPool, old: NetworkPool | None) -> Verdict:
        """Return the verdict on an edit of a pool.

        1. The namespace may not hold pools: refused.
        2. The edit gives up no address: decided without reading allocations.
        3. The cache is current and shows no conflict: allowed.
        4. Else the allocations are listed live, and decide.
        5. An object that may hold addresses and cannot be read refuses the edit, too.
        """
        if refused := refuse_namespace(new.metadata.namespace, self._allowed_namespaces):
            return refused
        others = OtherHoldings()  # replaced below, if the verdict depends on them

        def review(view: AllocationsView | None) -> Verdict:
            """Return the verdict by a view, which is None if the edit gives up no address."""
            return networkpool.review_update(
                new,
                old,
                view=view,
                spaces=self._spaces,
                max_addresses=self._limit,
                claimed=others.ranges,
                claimed_kinds=others.kinds,
            )

        if not networkpool.gives_up_addresses(new, old, self._limit):
            return review(None)
        others = await self._list_others(new if old is None else old)
        key, unknown = new.metadata.key, others.unknown
        try:
            if old is not None and self._is_cache_current(old) and not unknown:
                verdict = review(await self._reader.read_up_to(old, STATUS_JOURNALS.read(old)))
                if verdict.allowed:
                    return verdict
            verdict = review(await self._reader.read_live(key))
        except UnreadableHoldings as unreadable:
            # The edit is refused below. The cached allocations only add the holders to the answer.
            verdict = review(self._reader.read_cached(key))
            unknown = "; ".join(filter(None, [unknown, str(unreadable)]))
        if not unknown:
            return verdict
        message = (
            f"cannot tell whose addresses would be left out: {unknown}. Repair or delete them"
        )
        return replace(
            verdict, causes=(*verdict.causes, build_forbidden_cause(("spec",), f"{message} first"))
        )

    async def review_deletion(self, old: NetworkPool) -> Verdict:
        """Return the verdict on a deletion, by the cache if that allows it, else by a live list.

        Objects that cannot be read do not refuse the deletion: the pool's finalizer waits until
        they are deleted or repaired. The verdict names them beside the readable holders.
        """
        others = await self._list_others(old)
        unknown = others.unknown

        def review(view: AllocationsView) -> Verdict:
            """Return the verdict by a view, with the objects that are `unknown` by then."""
            return networkpool.review_deletion(
                old, view, claimed=others.ranges, unknown=unknown, claimed_kinds=others.kinds
            )

        try:
            if self._is_cache_current(old):
                verdict = review(await self._reader.read_up_to(old, STATUS_JOURNALS.read(old)))
                if verdict.allowed:
                    return verdict
            return review(await self._reader.read_live(old.metadata.key))
        except UnreadableHoldings as unreadable:
            # The allocations that can be read may still refuse the deletion.
            unknown = "; ".join(filter(None, [unknown, str(unreadable)]))
            return review(self._reader.read_cached(old.metadata.key))

    def _is_cache_current(self, old: NetworkPool) -> bool:
        """Return whether the cache of allocations shows everything that a pool has handed out.

        The pool's journal names the revision that the cache must have reached. False if the pool
        has no journal, because then that revision is not known.
        """
        revision = read_allocations_revision(old)
        cache = self._allocations
        return revision is not None and cache.is_synced and cache.position >= revision


class AllocationValidator(_Validator):
    """Validates IPAllocations.

    Args:
        client: for live reads.
        pools: all pools.
        allocations: all allocations, indexed by pool.
        clock: the time.
        max_addresses: the largest pool, in addresses.
        clusters: all TenantClusters.
        namespaces: the namespaces whose pools count; empty for all.
    """

    def __init__(  # noqa: PLR0913 - what the rules read
        self,
        client: Client,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        clock: Clock,
        max_addresses: int,
        *,
        clusters: Cache[TenantCluster],
        namespaces: Sequence[str] = (),
    ) -> None:
        super().__init__(client, pools, allocations, clock, max_addresses, namespaces=namespaces)
        self._clusters = clusters

    async def review_creation(self, new: IPAllocation) -> Verdict:
        """Return the verdict on a new request.

        If the cache has the pool, and the request is allowed by it, that is the verdict. Else the
        pool is read live, and decides.
        """

        def read_view() -> AllocationsView:
            """Return the cached allocations of the pool, which warnings are based on."""
            return self._reader.read_cached(new.pool_key)

        pool = self._pools.get(new.pool_key)
        verdict = ipallocation.review_creation(
            new,
            pool,
            read_view=read_view,
            max_addresses=self._limit,
            namespaces=self._allowed_namespaces,
        )
        if pool is not None and verdict.allowed:
            return verdict
        # The cache may lack a pool that was just created, or show it before an edit.
        try:
            pool = await self._client.get(NETWORK_POOL, new.pool_key)
        except NotFound:
            pool = None  # the verdict has a warning about that
        return ipallocation.review_creation(
            new,
            pool,
            read_view=read_view,
            max_addresses=self._limit,
            namespaces=self._allowed_namespaces,
        )

    async def review_update(self, new: IPAllocation, old: IPAllocation | None) -> Verdict:
        """Return the verdict on an edit: a changed spec is refused."""
        return ipallocation.review_update(new, old)

    async def review_deletion(self, old: IPAllocation) -> Verdict:
        """Allow the deletion, as the finalizer keeps the order; warn if the range is in use."""
        cluster = self._clusters.get(old.spec.tenantClusterRef.key)
        if cluster is not None and is_foreign(old, cluster):
            cluster = None  # a later cluster of that name does not use the range
        return ipallocation.review_deletion(old, cluster)


class ClusterValidator:
    """Validates TenantClusters.

    Args:
        client: for live reads.
        providers: finds the ProviderConfig that counts for a cluster.
        spaces: what pools of all kinds hand out.
        allocations: all allocations, indexed by tenant.
        default_namespace: the namespace of a reference that names none.
        namespaces: the namespaces whose ProviderConfigs count; empty for all.
    """

    def __init__(
        self,
        client: Client,
        providers: Providers,
        spaces: SpaceIndex,
        allocations: Cache[IPAllocation],
        default_namespace: str,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._allowed_namespaces = namespaces
        self._client = client
        self._providers = providers
        self._spaces = spaces
        self._allocations = allocations
        self._default_namespace = default_namespace

    async def review_creation(self, new: TenantCluster) -> Verdict:
        """Return the verdict on a new cluster."""
        return tenantcluster.review_spec(new, await self._find_provision(new), self._spaces)

    async def review_update(self, new: TenantCluster, old: TenantCluster | None) -> Verdict:
        """Return the verdict on an edit of a cluster.

        Another ProviderConfig is refused while the cluster has addresses. If the status or the
        cache shows addresses, a live list decides. Both may miss an address that was handed out a
        moment ago; then the edit is allowed. That does no harm: the address still counts, and is
        released like any other.
        """
        after = await self._find_provision(new)
        verdict = tenantcluster.review_spec(new, after, self._spaces)
        if old is None:
            return (
                verdict  # the stored cluster cannot be read, so nothing is known to compare with
            )
        holders = [member.metadata.key for member in list_balancer_members(self._allocations, old)]
        balancer_warnings = tenantcluster.list_balancer_warnings(old, new, holders)
        verdict = replace(verdict, warnings=(*verdict.warnings, *balancer_warnings))
        if new.spec.providerConfigRef == old.spec.providerConfigRef:
            return verdict  # the ProviderConfig does not change
        provisions = (await self._find_provision(old), after)
        change = tenantcluster.review_provider_change(
            old, provisions, self._list_cached_members(old)
        )
        if change.causes:
            # The cache may be behind: an allocation may be deleted already.
            change = tenantcluster.review_provider_change(
                old, provisions, await self._list_live_members(old)
            )
        return Verdict((*verdict.causes, *change.causes), verdict.warnings)

    def _list_cached_members(self, cluster: TenantCluster) -> list[Key]:
        """Return the keys of a cluster's allocations in the cache.

        Allocations that cannot be read, and may belong to the cluster, are included.
        """
        key, uid = cluster.metadata.key, cluster.metadata.uid
        readable = [
            allocation.metadata.key for allocation in list_members(self._allocations, cluster)
        ]
        unreadable = list_unreadable_members(self._allocations, key, uid)
        return [*readable, *(allocation.key for allocation in unreadable)]

    async def _list_live_members(self, cluster: TenantCluster) -> list[Key]:
        """Return the keys of a cluster's allocations by a live list; unreadable ones included."""
        page = await self._client.list(IP_ALLOCATION)
        key, uid = cluster.metadata.key, cluster.metadata.uid
        readable = [
            allocation.metadata.key
            for allocation in page.items
            if allocation.spec.tenantClusterRef.key == key and not is_foreign(allocation, cluster)
        ]
        unreadable = select_unreadable_members(page.unreadable, key, uid)
        return [*readable, *(allocation.key for allocation in unreadable)]

    async def review_deletion(self, old: TenantCluster) -> Verdict:  # noqa: ARG002 - whatever it is
        """Allow the deletion: the finalizer releases all addresses first."""
        return NOTHING

    async def _find_provision(self, cluster: TenantCluster) -> Provision:
        """Return the ProviderConfig that counts for a cluster, read live if the cache lacks it.

        If the ProviderConfig is absent or unreadable, `config` is None; `unknown_reason` says why
        it is unreadable.
        """
        try:
            config = await self._providers.find_for_tenant(cluster)
        except ProviderUnknown as unknown:
            return Provision(unknown.key, config=None, unknown_reason=str(unknown))
        reference = cluster.spec.providerConfigRef
        if reference is None:
            # The default counts, or none: the spec has no name by which to read one live.
            key = config.metadata.key if config is not None else None
            return Provision(key, config, refusal_reason=self._describe_refusal(key))
        key = Key(reference.namespace or self._default_namespace, reference.name)
        if config is None:
            try:
                config = await self._client.get(PROVIDER_CONFIG, key)
            except NotFound:
                config = None
            except MalformedAnswer:
                return Provision(key, config=None, unknown_reason=str(ProviderUnreadable(key)))
        return Provision(key, config, refusal_reason=self._describe_refusal(key))

    def _describe_refusal(self, provider: Key | None) -> str:
        """Return why the namespace of a ProviderConfig is ignored; empty if it counts."""
        if provider is None:
            return ""
        return describe_refused_namespace(provider.namespace, self._allowed_namespaces)


class ProviderValidator:
    """Validates ProviderConfigs.

    Args:
        client: for live reads.
        clusters: all TenantClusters.
        default_namespace: the namespace of a reference that names none.
        namespaces: the namespaces that may hold ProviderConfigs; empty for all.
    """

    def __init__(
        self,
        client: Client,
        clusters: Cache[TenantCluster],
        default_namespace: str,
        namespaces: Sequence[str] = (),
    ) -> None:
        self._allowed_namespaces = namespaces
        self._client = client
        self._clusters = clusters
        self._default_namespace = default_namespace

    async def review_creation(self, new: ProviderConfig) -> Verdict:
        """Return the verdict on a new ProviderConfig: its namespace, then its spec."""
        refused = refuse_namespace(new.metadata.namespace, self._allowed_namespaces)
        return refused or providerspecs.review_provider(new)

    async def review_update(self, new: ProviderConfig, old: ProviderConfig | None) -> Verdict:  # noqa: ARG002 - it must be sound, whatever it was
        """Return the verdict on an edit: the namespace, then the new spec, as for a new object."""
        refused = refuse_namespace(new.metadata.namespace, self._allowed_namespaces)
        return refused or providerspecs.review_provider(new)

    async def review_deletion(self, old: ProviderConfig) -> Verdict:
        """Return the verdict on a deletion; if the cache shows a reference, by a live list."""
        referring = self._find_referring(old, self._clusters)
        if self._clusters.is_synced and not referring:
            return NOTHING
        # The cache is not filled yet, or may show a reference that is gone.
        page = await self._client.list(TENANT_CLUSTER)
        return providerconfig.review_deletion(old, self._find_referring(old, page.items))

    def _find_referring(
        self, config: ProviderConfig, clusters: Iterable[TenantCluster]
    ) -> list[Key]:
        """Return the clusters whose spec names a ProviderConfig.

        A cluster that names no ProviderConfig does not count, even if `config` is its default.
        """
        return [
            cluster.metadata.key
            for cluster in clusters
            if refers_to(cluster, config, self._default_namespace, by_default=False)
        ]
