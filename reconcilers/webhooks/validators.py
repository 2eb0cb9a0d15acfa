"""Reads what the rules of each kind need, and applies them.

Everything is read from the caches, which every replica has, with two exceptions:

- What may leave allocations out, or end a pool, is validated by a view that has read as far as the
  pool's journal says, from a LIST if the cache has not. Promises are in the pool itself;
  one that is not there any more was settled by an object that such a view shows. So nothing
  that was handed out is missed, and what is handed out later is chosen by the new spec.
- A refusal because of what a cache shows is checked against what the server shows: an edit of a
  pool right after an allocation was deleted must not be refused because of that allocation.

Warnings may be based on a cache that is behind; so may whatever a reconciler ensures anyway: a
ProviderConfig or a pool that is deleted too early is kept by its finalizer.
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
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS, memory
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.unreadable import UnreadableHoldings
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules import providerspecs
from reconcilers.specrules.poolnamespaces import describe_refused_namespace
from reconcilers.specrules.verdict import NOTHING, Verdict, forbidden, refuse_namespace
from reconcilers.tenantcluster.allocations.membership import balancer_members, is_foreign, members
from reconcilers.tenantcluster.allocations.unreadable_members import (
    unreadable_in_list,
    unreadable_members,
)
from reconcilers.tenantcluster.provider import Providers, ProviderUnknown, ProviderUnreadable
from reconcilers.tenantcluster.providerreference import refers_to
from reconcilers.webhooks import ipallocation, networkpool, providerconfig, tenantcluster
from reconcilers.webhooks.tenantcluster import Provision


class _Validator:
    """Validates what depends on pools and their allocations.

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
        # The answer cannot be postponed, so there is no waiting for a cache that is behind.
        self._reader = PoolReader(allocations, client, clock, wait_seconds=0.0)
        self._limit = max_addresses


ListOtherHoldings = Callable[[NetworkPool], Awaitable[OtherHoldings]]
"""Returns what others than IPAllocations hold of a pool, by lists that begin now."""


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
        list_others: what others than IPAllocations hold of a pool.
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
        """Validate a new pool."""
        if refused := refuse_namespace(new.metadata.namespace, self._allowed_namespaces):
            return refused
        return networkpool.review_creation(new, self._spaces, self._limit)

    async def review_update(self, new: NetworkPool, old: NetworkPool | None) -> Verdict:
        """Validate an edit; allocations are read only if the pool would lose addresses."""
        if refused := refuse_namespace(new.metadata.namespace, self._allowed_namespaces):
            return refused
        others = OtherHoldings()

        def review(view: AllocationsView | None) -> Verdict:
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
            if old is not None and self._covers(old) and not unknown:
                verdict = review(await self._reader.read_up_to(old, STATUS_JOURNALS.read(old)))
                if verdict.allowed:
                    return verdict
            verdict = review(await self._reader.live(key))
        except UnreadableHoldings as unreadable:
            verdict = review(self._reader.read_cached(key))
            unknown = "; ".join(filter(None, [unknown, str(unreadable)]))
        if not unknown:
            return verdict
        message = (
            f"cannot tell whose addresses would be left out: {unknown}. Repair or delete them"
        )
        return replace(verdict, causes=(*verdict.causes, forbidden(("spec",), f"{message} first")))

    async def review_deletion(self, old: NetworkPool) -> Verdict:
        """Validate a deletion.

        Objects that cannot be read do not block it: the pool's finalizer does, until they are gone
        or repaired. They are named all the same, beside the holders that can be read.
        """
        others = await self._list_others(old)
        unknown = others.unknown

        def review(view: AllocationsView) -> Verdict:
            return networkpool.review_deletion(
                old, view, claimed=others.ranges, unknown=unknown, claimed_kinds=others.kinds
            )

        try:
            if self._covers(old):
                verdict = review(await self._reader.read_up_to(old, STATUS_JOURNALS.read(old)))
                if verdict.allowed:
                    return verdict
            return review(await self._reader.live(old.metadata.key))
        except UnreadableHoldings as unreadable:
            unknown = "; ".join(filter(None, [unknown, str(unreadable)]))
            return review(self._reader.read_cached(old.metadata.key))

    def _covers(self, old: NetworkPool) -> bool:
        """Return whether the cache shows all that was handed out and settled since.

        Of a pool without memory it is unknown what was handed out.
        """
        revision = memory(old)
        cache = self._allocations
        return revision is not None and cache.synced and cache.position >= revision


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
        """Validate a new request, by the pool as it is if what the cache shows is against it."""

        def view() -> AllocationsView:
            return self._reader.read_cached(new.pool_key)

        pool = self._pools.get(new.pool_key)
        verdict = ipallocation.review_creation(
            new, pool, view=view, max_addresses=self._limit, namespaces=self._allowed_namespaces
        )
        if pool is not None and verdict.allowed:
            return verdict
        try:
            pool = await self._client.get(NETWORK_POOL, new.pool_key)
        except NotFound:
            pool = None
        return ipallocation.review_creation(
            new, pool, view=view, max_addresses=self._limit, namespaces=self._allowed_namespaces
        )

    async def review_update(self, new: IPAllocation, old: IPAllocation | None) -> Verdict:
        """Refuse a changed spec."""
        return ipallocation.review_update(new, old)

    async def review_deletion(self, old: IPAllocation) -> Verdict:
        """Allow the deletion, as the finalizer keeps the order; warn if the range is in use."""
        cluster = self._clusters.get(old.spec.tenantClusterRef.key)
        if cluster is not None and is_foreign(old, cluster):
            cluster = None
        return ipallocation.review_deletion(old, cluster)


class ClusterValidator:
    """Validates TenantClusters.

    Args:
        client: for live reads.
        providers: finds the ProviderConfig that counts for a cluster.
        spaces: what pools of all kinds hand out.
        allocations: all allocations, indexed by tenant.
        default_namespace: what a reference without a namespace means.
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
        """Validate a new cluster."""
        return tenantcluster.review_spec(new, await self._provision(new), self._spaces)

    async def review_update(self, new: TenantCluster, old: TenantCluster | None) -> Verdict:
        """Validate an edit.

        Whether the cluster has addresses is known by its status, or by the cache. That it had
        some that neither shows is possible for a moment; it then keeps them, counted and given
        back as ever, so nothing is listed for it.
        """
        after = await self._provision(new)
        verdict = tenantcluster.review_spec(new, after, self._spaces)
        if old is None:
            return verdict
        holders = [member.metadata.key for member in balancer_members(self._allocations, old)]
        moving = tenantcluster.list_balancer_warnings(old, new, holders)
        verdict = replace(verdict, warnings=(*verdict.warnings, *moving))
        if new.spec.providerConfigRef == old.spec.providerConfigRef:
            return verdict
        both = (await self._provision(old), after)
        moved = tenantcluster.review_provider_change(old, both, self._cached_members(old))
        if moved.causes:
            moved = tenantcluster.review_provider_change(old, both, await self._list_members(old))
        return Verdict((*verdict.causes, *moved.causes), verdict.warnings)

    def _cached_members(self, cluster: TenantCluster) -> list[Key]:
        """Return a cluster's cached allocations, and unreadable ones that may be its."""
        key, uid = cluster.metadata.key, cluster.metadata.uid
        readable = [allocation.metadata.key for allocation in members(self._allocations, cluster)]
        unreadable = unreadable_members(self._allocations, key, uid)
        return [*readable, *(allocation.key for allocation in unreadable)]

    async def _list_members(self, cluster: TenantCluster) -> list[Key]:
        """Return a cluster's allocations, and unreadable ones that may be its, by a live list."""
        page = await self._client.list(IP_ALLOCATION)
        key, uid = cluster.metadata.key, cluster.metadata.uid
        readable = [
            allocation.metadata.key
            for allocation in page.items
            if allocation.spec.tenantClusterRef.key == key and not is_foreign(allocation, cluster)
        ]
        unreadable = unreadable_in_list(page.unreadable, key, uid)
        return [*readable, *(allocation.key for allocation in unreadable)]

    async def review_deletion(self, old: TenantCluster) -> Verdict:  # noqa: ARG002 - whatever it is
        """Allow the deletion: the finalizer releases all addresses first."""
        return NOTHING

    async def _provision(self, cluster: TenantCluster) -> Provision:
        """Return the ProviderConfig that counts for a cluster, read live if the cache lacks it."""
        try:
            config = await self._providers.for_tenant(cluster)
        except ProviderUnknown as unknown:
            return Provision(unknown.key, None, str(unknown))
        reference = cluster.spec.providerConfigRef
        if reference is None:
            key = config.metadata.key if config is not None else None
            return Provision(key, config, refused=self._describe_refusal(key))
        key = Key(reference.namespace or self._default_namespace, reference.name)
        if config is None:
            try:
                config = await self._client.get(PROVIDER_CONFIG, key)
            except NotFound:
                config = None
            except MalformedAnswer:
                return Provision(key, None, str(ProviderUnreadable(key)))
        return Provision(key, config, refused=self._describe_refusal(key))

    def _describe_refusal(self, provider: Key | None) -> str:
        if provider is None:
            return ""
        return describe_refused_namespace(provider.namespace, self._allowed_namespaces)


class ProviderValidator:
    """Validates ProviderConfigs.

    Args:
        client: for live reads.
        clusters: all TenantClusters.
        default_namespace: what a reference without a namespace means.
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
        """Validate a new ProviderConfig."""
        refused = refuse_namespace(new.metadata.namespace, self._allowed_namespaces)
        return refused or providerspecs.review_provider(new)

    async def review_update(self, new: ProviderConfig, old: ProviderConfig | None) -> Verdict:  # noqa: ARG002 - it must be sound, whatever it was
        """Validate an edit."""
        refused = refuse_namespace(new.metadata.namespace, self._allowed_namespaces)
        return refused or providerspecs.review_provider(new)

    async def review_deletion(self, old: ProviderConfig) -> Verdict:
        """Validate a deletion."""
        referring = self._referring(old, self._clusters)
        if self._clusters.synced and not referring:
            return NOTHING
        page = await self._client.list(TENANT_CLUSTER)
        return providerconfig.review_deletion(old, self._referring(old, page.items))

    def _referring(self, config: ProviderConfig, clusters: Iterable[TenantCluster]) -> list[Key]:
        return [
            cluster.metadata.key
            for cluster in clusters
            if refers_to(cluster, config, self._default_namespace, by_default=False)
        ]
