"""What the reconcilers of this integration read: caches, and what they say about one claim.

A claim is left alone while its Cluster is paused or missing, or while it or its pool is paused.
All reconcilers ask this module before they serve a claim. So a paused claim is not served because
another object changed.

The *facts* of a claim are what the claim and its IPAddress hold of a pool, and whether it waits.
They also say whether it is left alone, so that thousands of paused claims cost a pass nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from typing_extensions import override

from allocator import AddressRange
from controller.cache import Cache
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.addresses import (
    ClaimSpace,
    PoolSpace,
    parse_ip_space,
    parse_prefix_space,
)
from reconcilers.integrations.clusterapi.api import (
    Cluster,
    IPAddress,
    IPAddressClaim,
    PoolOutline,
    PoolRef,
    is_paused,
)
from reconcilers.integrations.clusterapi.clusterstates import (
    ClusterState,
    find_cluster_state,
    find_labelled_cluster,
    may_be_paused,
)
from reconcilers.integrations.clusterapi.statuses import (
    read_record,
    read_restored_record,
    read_shown_reason,
    waits,
)
from reconcilers.integrations.core.claimreading import ClaimFields
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.holdings import Facts, Holdings
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.queue import TenantRow

ServedPool = api.Pool | NetworkPool
"""A pool that claims may name."""
KINDS: tuple[Resource[ServedPool], ...] = (*api.POOLS, NETWORK_POOL)
"""All kinds of pools that claims may name."""
PoolCache = Cache[api.Pool] | Cache[NetworkPool]
"""The pools of one of these kinds."""


def read_journal(pool: ServedPool) -> Journal:
    """Return the journal of a pool: the addresses that it reserves for claims.

    NetworkPools have it in their status, and pools of the in-cluster provider in an annotation.
    """
    if isinstance(pool, NetworkPool):
        return STATUS_JOURNALS.read(pool)
    return api.JOURNALS.read(pool)


_BY_NAME = {(kind.group, kind.kind): kind for kind in KINDS}


def kind_of(ref: PoolRef) -> Resource[ServedPool] | None:
    """Return the kind of pool that a claim or address names; None if it is not one of ours."""
    return _BY_NAME.get((ref.apiGroup, ref.kind))


class ClaimPool(NamedTuple):
    """A pool that claims name; as text, it is the name of its space in indexes."""

    kind: Resource[ServedPool]
    key: Key

    @override
    def __str__(self) -> str:
        return f"{self.kind.kind}/{self.key}"


def list_spaces(obj: IPAddressClaim | IPAddress | PoolOutline) -> Iterable[str]:
    """Return the space that a claim or an address concerns, for an index."""
    pool = find_pool_name(obj)
    return () if pool is None else (str(pool),)


def find_pool_name(obj: IPAddressClaim | IPAddress | PoolOutline) -> ClaimPool | None:
    """Return the pool that an object names; None if it is not of a kind that is served here."""
    kind = kind_of(obj.spec.poolRef)
    return None if kind is None else ClaimPool(kind, pool_key(kind, obj))


def why_pool_stops(pool: ServedPool) -> str:
    """Return why a pool of claims hands out nothing, whatever is free; empty if it serves."""
    if pool.metadata.is_terminating:
        return "its pool is being deleted"
    return "its pool is paused by its annotation" if is_paused(pool.metadata.annotations) else ""


def pool_key(kind: Resource[ServedPool], obj: IPAddressClaim | IPAddress | PoolOutline) -> Key:
    """Return the key of the pool of that kind that a claim or address names."""
    return Key(obj.metadata.namespace if kind.namespaced else "", obj.spec.poolRef.name)


def list_pools_named(kind: Resource[ServedPool], obj: IPAddressClaim | IPAddress) -> Iterable[Key]:
    """Return the pool that a claim or an IPAddress names; empty if it is of another kind."""
    return [pool_key(kind, obj)] if kind_of(obj.spec.poolRef) == kind else []


def get_promised_address(promise: Promise) -> AddressRange:
    """Return the address range of a promise to a claim; such a promise has exactly one range."""
    [part] = promise.ranges
    return part.range


def can_name(kind: Resource[ServedPool], namespace: str, pool: Key) -> bool:
    """Return whether claims of a namespace can name a pool; an empty namespace is unknown."""
    return not kind.namespaced or namespace in {"", pool.namespace}


def list_cluster_names(obj: IPAddressClaim | IPAddress) -> Iterable[str]:
    """Return the Cluster of a claim, or of an address by its label, for an index."""
    if isinstance(obj, IPAddressClaim):
        return (str(obj.cluster),) if obj.cluster else ()
    key = find_labelled_cluster(obj)
    return () if key is None else (str(key),)


def parse_geometry(pool: api.Pool) -> PoolSpace:
    """Return the space of a pool: the addresses or prefixes that it may hand out.

    Raises:
        InvalidPool: its spec cannot be read.
    """
    return (
        parse_ip_space(pool.spec)
        if isinstance(pool, api.IPPool)
        else parse_prefix_space(pool.spec)
    )


def get_gateway(pool: ServedPool) -> str:
    """Return the gateway that IPAddresses of a pool get; empty for no gateway."""
    return pool.spec.gateway or ""


def make_holder(obj: IPAddressClaim | IPAddress) -> Holder:
    """Return the identity of a holder: of the claim, or of the claim that an IPAddress is for.

    An IPAddress has the key of its claim.
    """
    return Holder(api.CLAIM_KIND, obj.metadata.key)


def compute_claim_facts(
    claim: IPAddressClaim | None,
    address: IPAddress | None,
    space: ClaimSpace,
    *,
    is_stopped: bool = False,
) -> Facts | None:
    """Return the facts of a claim and the IPAddress of its name for a pool; None if both are None.

    Args:
        claim: the claim, if it names the pool.
        address: the IPAddress, if it names the pool, whichever controller made it.
        space: in which spaces of the pool addresses lie.
        is_stopped: whether the claim must not be served now, so that it has no place in the queue.
    """
    if claim is None and address is None:
        return None
    # `place` is the position in the pool's queue. Claims with equal `row` get equal refusals, so
    # that one of them is asked for all; None makes a row of its own.
    parts: dict[PromisedRange, None] = {}
    place, row, outside = None, None, None
    if claim is not None:
        restored, created = read_restored_record(claim), claim.metadata.creationTimestamp
        record = read_record(claim) or restored
        if record is not None:
            parts.update(dict.fromkeys(space.find_parts(record.address, record.prefix)))
        if created is not None and waits(claim) and not is_stopped:
            place = created, make_holder(claim)
            # A claim that already has an address is asked for that address, and may be refused
            # for a reason of its own. All others of a tenant would be refused alike.
            if address is None and restored is None:
                tenant = find_claim_tenant(claim, space)
                row = TenantRow(tenant, (api.CLAIM_KIND, read_shown_reason(claim)))
    if address is not None:
        spec = address.spec
        parts.update(dict.fromkeys(space.find_parts(spec.address, spec.prefix)))
        outside = space.find_outside(spec.address, spec.prefix)
    return Facts(
        tuple(parts),
        place,
        row,
        is_in_use=address is not None,
        outside=outside,
    )


def find_claim_tenant(claim: IPAddressClaim, space: ClaimSpace) -> Tenant:
    """Return the tenant that a claim counts for, as the pool shares between tenants.

    That is the claim's Cluster for spaces with Cluster tenants, else the claim's namespace. All
    claims without a Cluster are one tenant.
    """
    if not space.has_cluster_tenants:
        return Tenant(api.CLAIM_KIND, claim.metadata.namespace)
    return Tenant(api.CLAIM_KIND, claim.cluster.name if claim.cluster is not None else "")


def compute_claim_holdings(
    claims: Mapping[Key, IPAddressClaim], addresses: Mapping[Key, IPAddress], space: ClaimSpace
) -> Holdings:
    """Return the holdings of a pool that all of these claims and IPAddresses name.

    Args:
        claims: by key.
        addresses: by key.
        space: what the pool may hand out.
    """
    keys = dict.fromkeys([*claims, *addresses])
    facts = (
        (key, compute_claim_facts(claims.get(key), addresses.get(key), space)) for key in keys
    )
    return Holdings(
        space.layouts,
        (
            (Holder(api.CLAIM_KIND, key), holder_facts)
            for key, holder_facts in facts
            if holder_facts is not None
        ),
    )


class ContractFields(ClaimFields[ClaimPool, IPAddressClaim, IPAddress]):
    """What IPAddressClaims and IPAddresses say by themselves, in all versions."""

    def __init__(self) -> None:
        super().__init__(api.CLAIMS, api.ADDRESSES)

    @override
    def namespace_of(self, pool: ClaimPool) -> str:
        return pool.key.namespace

    @override
    def pool_of_claim(self, claim: IPAddressClaim) -> ClaimPool | None:
        return find_pool_name(claim)

    @override
    def pool_of_address(self, address: IPAddress) -> ClaimPool | None:
        return find_pool_name(address)

    @override
    def pool_of_outline(self, outline: Object) -> ClaimPool | None:
        """Return the pool that an undecodable claim or IPAddress names; None for other kinds."""
        assert isinstance(outline, PoolOutline), "both kinds have this type for outlines"
        return find_pool_name(outline)

    @override
    def claim_of_address(self, address: IPAddress) -> Key:
        return address.metadata.key  # an IPAddress has the name of its claim

    @override
    def waits(self, claim: IPAddressClaim) -> bool:
        return waits(claim)

    @override
    def holds(self, claim: IPAddressClaim) -> bool:
        return read_record(claim) is not None


CONTRACT_FIELDS = ContractFields()


_CLUSTER_STOPS: Mapping[ClusterState, str] = {
    ClusterState.SERVED: "",
    ClusterState.PAUSED: "Cluster {} is paused",
    ClusterState.ABSENT: "Cluster {}, which the claim names, does not exist",
    ClusterState.UNREADABLE: "Cluster {}, which the claim names, cannot be read; correct it",
}
"""Why a claim is not served, by the state of its Cluster."""


@dataclass(frozen=True, slots=True)
class ClaimCaches:
    """The caches of this integration.

    Args:
        claims: all IPAddressClaims.
        addresses: all IPAddresses.
        clusters: all Clusters; None where the kind is not served, so that none is found.
        pools: the pools by kind name; only of the kinds that are served.
        claim_kind: the kind of claims, in the version that is used.
        address_kind: the kind of addresses, in that version.
        logged: the uids of claims and IPAddresses whose release has a log line, until they are
            gone.
    """

    claims: Cache[IPAddressClaim]
    addresses: Cache[IPAddress]
    clusters: Cache[Cluster] | None
    pools: Mapping[str, PoolCache]
    claim_kind: Resource[IPAddressClaim]
    address_kind: Resource[IPAddress]
    logged: set[str] = field(default_factory=set)

    @property
    def is_synced(self) -> bool:
        """Whether claims and IPAddresses have been listed."""
        return self.claims.is_synced and self.addresses.is_synced

    @property
    def history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach.

        While it is False etcd may have been restored from a backup, and the caches may show
        objects that the server has no longer.
        """
        caches = (self.claims, self.addresses, *self.pools.values())
        return all(cache.history_confirmed for cache in caches)

    def pool_of(self, obj: IPAddressClaim | IPAddress) -> ServedPool | None:
        """Return the pool that a claim or address names; None if it does not exist."""
        kind = kind_of(obj.spec.poolRef)
        cache = self.pools.get(kind.kind) if kind is not None else None
        if cache is None or kind is None:
            return None
        return cache.get(pool_key(kind, obj))

    def find_shard_key(self, key: Key) -> Key:
        """Return the key by which the shard of a claim is found: that of its pool.

        So one replica writes both the pool's promises and its claims. A deleted claim has no pool
        any more; its IPAddress names the pool. Without an IPAddress the claim's own key will do,
        because nothing is left to release.
        """
        obj = self.claims.get(key) or self.addresses.get(key)
        pool = None if obj is None else find_pool_name(obj)
        return key if pool is None else pool.key

    def is_pool_unreadable(self, obj: IPAddressClaim | IPAddress) -> bool:
        """Return whether the pool that a claim or an IPAddress names cannot be decoded."""
        kind = kind_of(obj.spec.poolRef)
        cache = self.pools.get(kind.kind) if kind is not None else None
        return cache is not None and kind is not None and pool_key(kind, obj) in cache.unreadable

    def why_pool_absent(self, claim: IPAddressClaim) -> str:
        """Return why the pool that a claim names serves no claim; empty if the pool is usable.

        Reasons: the pool cannot be decoded, does not exist, or is being deleted.
        """
        pool, name = self.pool_of(claim), f"{claim.spec.poolRef.kind} {claim.spec.poolRef.name}"
        if self.is_pool_unreadable(claim):
            return f"{name} cannot be read; correct or delete it"
        if pool is None:
            return f"{name} does not exist"
        return f"{name} is being deleted" if pool.metadata.is_terminating else ""

    def is_stopped(self, claim: IPAddressClaim) -> bool:
        """Return whether controllers neither serve nor release a claim now.

        The claim or its Cluster is paused, or the Cluster does not exist or cannot be decoded.

        A missing Cluster stops a claim, unless the claim is being deleted: its machines may be
        gone already, and nothing would ever release the address. A Cluster that cannot be decoded
        stops every claim: it may be paused.
        """
        if is_paused(claim.metadata.annotations):
            return True
        state = find_cluster_state(self.clusters, claim.cluster)
        is_absent_at_end = state is ClusterState.ABSENT and claim.metadata.is_terminating
        return state is not ClusterState.SERVED and not is_absent_at_end

    def why_stopped(self, claim: IPAddressClaim) -> str:
        """Return why a claim without address is not served; empty if it is served.

        In this order: claim deleted or paused, Cluster missing or paused, pool deleted or paused.
        """
        pool = self.pool_of(claim)
        if claim.metadata.is_terminating:
            return "the claim is being deleted"
        if is_paused(claim.metadata.annotations):
            return "the claim is paused by its annotation"
        why = _CLUSTER_STOPS[find_cluster_state(self.clusters, claim.cluster)]
        if why or pool is None:
            return why.format(claim.cluster)
        return why_pool_stops(pool)

    def names_missing_cluster(self, claim: IPAddressClaim) -> bool:
        """Return whether a claim names a Cluster that does not exist."""
        state = find_cluster_state(self.clusters, claim.cluster)
        return self.clusters is not None and state is ClusterState.ABSENT

    def is_claim_paused(self, claim: IPAddressClaim) -> bool:
        """Return whether a person paused a claim, by itself, its Cluster or its pool."""
        key, pool = claim.cluster, self.pool_of(claim)
        cluster = self.clusters.get(key) if key and self.clusters is not None else None
        return (
            is_paused(claim.metadata.annotations)
            or (cluster is not None and cluster.paused)
            or (pool is not None and is_paused(pool.metadata.annotations))
        )

    def is_cluster_gone(self, address: IPAddress) -> bool:
        """Return whether an IPAddress of a cluster-scoped pool names a Cluster that is gone.

        `clusterctl move` leaves it so: claim and Cluster live on elsewhere, and so does the
        address. A claim that is deleted together with its Cluster releases its address first.
        """
        kind, cluster = kind_of(address.spec.poolRef), find_labelled_cluster(address)
        if kind is None or kind.namespaced or self.clusters is None:
            return False
        return find_cluster_state(self.clusters, cluster) is ClusterState.ABSENT

    def is_address_stopped(self, address: IPAddress) -> bool:
        """Return whether an IPAddress without claim must not be released now.

        A person paused its pool or its Cluster, or one of them cannot be decoded.
        """
        pool = self.pool_of(address)
        # A pool that cannot be decoded may be paused.
        if self.is_pool_unreadable(address):
            return True
        if pool is not None and is_paused(pool.metadata.annotations):
            return True
        return may_be_paused(self.clusters, find_labelled_cluster(address))
