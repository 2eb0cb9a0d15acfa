"""The caches that the reconcilers of this integration read, and the facts of one claim in them.

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
    is_waiting,
    read_record,
    read_restored_record,
    read_shown_reason,
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


def find_pool_kind(ref: PoolRef) -> Resource[ServedPool] | None:
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
    kind = find_pool_kind(obj.spec.poolRef)
    return None if kind is None else ClaimPool(kind, get_pool_key(kind, obj))


def explain_pool_stop(pool: ServedPool) -> str:
    """Return why a pool of claims hands out nothing, whatever is free; empty if it serves."""
    if pool.metadata.is_terminating:
        return "its pool is being deleted"
    return "its pool is paused by its annotation" if is_paused(pool.metadata.annotations) else ""


def get_pool_key(kind: Resource[ServedPool], obj: IPAddressClaim | IPAddress | PoolOutline) -> Key:
    """Return the key of the pool of that kind that a claim or address names."""
    return Key(obj.metadata.namespace if kind.namespaced else "", obj.spec.poolRef.name)


def list_named_pools(kind: Resource[ServedPool], obj: IPAddressClaim | IPAddress) -> Iterable[Key]:
    """Return the pool that a claim or an IPAddress names; empty if it is of another kind."""
    return [get_pool_key(kind, obj)] if find_pool_kind(obj.spec.poolRef) == kind else []


def get_promised_address(promise: Promise) -> AddressRange:
    """Return the address range of a promise to a claim; such a promise has exactly one range."""
    [part] = promise.ranges
    return part.range


def can_name(kind: Resource[ServedPool], namespace: str, pool: Key) -> bool:
    """Return whether claims of a namespace can name a pool.

    Args:
        namespace: the namespace of the claims; empty if unknown, so that they can name any pool.
    """
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
    parts: dict[PromisedRange, None] = {}
    # The position of the claim in the pool's queue; None if the claim does not wait.
    place = None
    # Claims of one row are refused for the same reason, so that the pass tries only one of them.
    # None: the claim has a row of its own.
    row = None
    outside = None
    if claim is not None:
        restored, created = read_restored_record(claim), claim.metadata.creationTimestamp
        record = read_record(claim) or restored
        if record is not None:
            parts.update(dict.fromkeys(space.find_parts(record.address, record.prefix)))
        if created is not None and is_waiting(claim) and not is_stopped:
            place = created, make_holder(claim)
            # A claim that already has an address may only get that address, so it may be refused
            # for a reason of its own.
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
    """Return the tenant of a claim, whose share of the pool the claim uses up.

    The tenant is the claim's Cluster for spaces with Cluster tenants, else the claim's namespace.
    All claims without a Cluster are one tenant.
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
    """Reads the fields of IPAddressClaims and IPAddresses of Cluster API's IPAM contract."""

    def __init__(self) -> None:
        super().__init__(api.CLAIMS, api.ADDRESSES)

    @override
    def get_namespace(self, pool: ClaimPool) -> str:
        return pool.key.namespace

    @override
    def find_pool_of_claim(self, claim: IPAddressClaim) -> ClaimPool | None:
        return find_pool_name(claim)

    @override
    def find_pool_of_address(self, address: IPAddress) -> ClaimPool | None:
        return find_pool_name(address)

    @override
    def find_pool_of_outline(self, outline: Object) -> ClaimPool | None:
        """Return the pool that an undecodable claim or IPAddress names; None for other kinds."""
        assert isinstance(outline, PoolOutline), "both kinds have this type for outlines"
        return find_pool_name(outline)

    @override
    def find_claim_of_address(self, address: IPAddress) -> Key:
        return address.metadata.key  # an IPAddress has the name of its claim

    @override
    def is_waiting(self, claim: IPAddressClaim) -> bool:
        return is_waiting(claim)

    @override
    def has_address(self, claim: IPAddressClaim) -> bool:
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
        clusters: all Clusters; None if the kind is not served, so that no Cluster is found.
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
    def is_history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach.

        While it is False etcd may have been restored from a backup, and the caches may show
        objects that the server has no longer.
        """
        caches = (self.claims, self.addresses, *self.pools.values())
        return all(cache.is_history_confirmed for cache in caches)

    def find_pool(self, obj: IPAddressClaim | IPAddress) -> ServedPool | None:
        """Return the pool that a claim or address names; None if it does not exist."""
        kind = find_pool_kind(obj.spec.poolRef)
        cache = self.pools.get(kind.kind) if kind is not None else None
        if cache is None or kind is None:
            return None
        return cache.get(get_pool_key(kind, obj))

    def find_shard_key(self, key: Key) -> Key:
        """Return the key of the object whose shard a claim belongs to: the pool of the claim.

        So one replica writes both the promises of the pool and the claims. The pool of a claim
        that no longer exists is named by its IPAddress. Without an IPAddress nothing has to be
        released, so the key of the claim itself is returned.

        Args:
            key: the key of the claim.
        """
        obj = self.claims.get(key) or self.addresses.get(key)
        pool = None if obj is None else find_pool_name(obj)
        return key if pool is None else pool.key

    def is_pool_unreadable(self, obj: IPAddressClaim | IPAddress) -> bool:
        """Return whether the pool that a claim or an IPAddress names cannot be decoded."""
        kind = find_pool_kind(obj.spec.poolRef)
        cache = self.pools.get(kind.kind) if kind is not None else None
        return (
            cache is not None and kind is not None and get_pool_key(kind, obj) in cache.unreadable
        )

    def explain_absent_pool(self, claim: IPAddressClaim) -> str:
        """Return why the pool that a claim names serves no claim; empty if the pool is usable.

        Reasons: the pool cannot be decoded, does not exist, or is being deleted.
        """
        pool, name = self.find_pool(claim), f"{claim.spec.poolRef.kind} {claim.spec.poolRef.name}"
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

    def explain_stop(self, claim: IPAddressClaim) -> str:
        """Return why a claim without address is not served; empty if nothing stops it.

        Only the first reason is returned, in this order: claim being deleted or paused, Cluster
        missing, unreadable or paused, pool being deleted or paused.
        """
        pool = self.find_pool(claim)
        if claim.metadata.is_terminating:
            return "the claim is being deleted"
        if is_paused(claim.metadata.annotations):
            return "the claim is paused by its annotation"
        why = _CLUSTER_STOPS[find_cluster_state(self.clusters, claim.cluster)]
        if why or pool is None:
            return why.format(claim.cluster)
        return explain_pool_stop(pool)

    def names_missing_cluster(self, claim: IPAddressClaim) -> bool:
        """Return whether a claim names a Cluster that does not exist."""
        state = find_cluster_state(self.clusters, claim.cluster)
        return self.clusters is not None and state is ClusterState.ABSENT

    def is_claim_paused(self, claim: IPAddressClaim) -> bool:
        """Return whether a person paused a claim, by itself, its Cluster or its pool."""
        key, pool = claim.cluster, self.find_pool(claim)
        cluster = self.clusters.get(key) if key and self.clusters is not None else None
        return (
            is_paused(claim.metadata.annotations)
            or (cluster is not None and cluster.is_paused)
            or (pool is not None and is_paused(pool.metadata.annotations))
        )

    def is_cluster_gone(self, address: IPAddress) -> bool:
        """Return whether an IPAddress of a cluster-scoped pool names a Cluster that is gone.

        Only `clusterctl move` leaves such an IPAddress: claim and Cluster now exist in another
        API server, and machines there use the address. A claim that is deleted together with its
        Cluster releases its address before the Cluster is gone.
        """
        kind, cluster = find_pool_kind(address.spec.poolRef), find_labelled_cluster(address)
        if kind is None or kind.namespaced or self.clusters is None:
            return False
        return find_cluster_state(self.clusters, cluster) is ClusterState.ABSENT

    def is_address_stopped(self, address: IPAddress) -> bool:
        """Return whether an IPAddress without claim must not be released now.

        A person paused its pool or its Cluster, or one of them cannot be decoded.
        """
        pool = self.find_pool(address)
        # The pool may be paused.
        if self.is_pool_unreadable(address):
            return True
        if pool is not None and is_paused(pool.metadata.annotations):
            return True
        return may_be_paused(self.clusters, find_labelled_cluster(address))
