"""The caches of this integration, and what claims and IPAddresses in them mean to one pool.

The *facts* of a claim are what the claim and its IPAddresses hold of a pool, and whether the claim
waits.

A pool serves no claim while it is paused, or while its Cluster is paused or missing. A claim is
left alone while it or its own Cluster is paused. All reconcilers use these rules.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from typing_extensions import override

from allocator import AddressRange
from controller.cache import Cache
from controller.indexes import IndexFunction
from controller.meta import Key
from reconcilers.integrations.clusterapi.api import Cluster, IPAddress, IPAddressClaim, is_paused
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX, list_cluster_pauses
from reconcilers.integrations.clusterapi.clusterstates import (
    ClusterState,
    find_cluster_state,
    find_labelled_cluster,
    may_be_paused,
)
from reconcilers.integrations.core.claimreading import (
    ClaimReader,
    ClaimSource,
    ReadSource,
    make_claim_holder,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.metal3.addressnames import find_prefixes, parse_name
from reconcilers.integrations.metal3.api import Metal3Address, Metal3Claim, Metal3Pool
from reconcilers.integrations.metal3.claimformats import (
    AddressT,
    ClaimFormat,
    ClaimT,
    EitherAddress,
    EitherClaim,
)
from reconcilers.integrations.metal3.entries import (
    OUTSIDE,
    EntrySpace,
    make_promised_ranges,
    parse_single,
)
from reconcilers.promises.holdings import Facts, HolderSource, Place
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise, PromisedRange
from reconcilers.promises.queue import Row

Result_co = TypeVar("Result_co", covariant=True)
ResultT = TypeVar("ResultT")
Metal3Reader = ClaimReader[Key, EntrySpace]
"""Reads what the claims of IPPools hold."""
CLAIM_INDEX = "claim"
"""The index by which caches find the IPAddresses of a claim."""
PREFIX_INDEX = "prefix"
"""The index by which caches find pools and IPAddresses of one `namePrefix`, in one namespace."""


_CLUSTER_STOPS: Mapping[ClusterState, str] = {
    ClusterState.SERVED: "",
    ClusterState.PAUSED: "Cluster {} is paused",
    ClusterState.ABSENT: "Cluster {} does not exist",
    ClusterState.UNREADABLE: "Cluster {} cannot be read; correct it",
}
"""Why a pool hands out nothing, by the state of its Cluster."""


def make_claim_indexes(
    claim_format: ClaimFormat[ClaimT, AddressT],
) -> Mapping[str, IndexFunction[ClaimT]]:
    """Return the indexes of a cache of claims."""

    def list_spaces(claim: ClaimT) -> Iterable[str]:
        return index_values_of(claim_format.find_pool_of_claim(claim))

    return {
        SPACE_INDEX: list_spaces,
        CLUSTER_INDEX: lambda claim: index_values_of(find_cluster_of_claim(claim)),
    }


def make_address_indexes(
    claim_format: ClaimFormat[ClaimT, AddressT],
) -> Mapping[str, IndexFunction[AddressT]]:
    """Return the indexes of a cache of IPAddresses."""
    return {
        SPACE_INDEX: lambda address: index_values_of(claim_format.find_pool_of_address(address)),
        CLAIM_INDEX: lambda address: index_values_of(claim_format.find_claim_of_address(address)),
        PREFIX_INDEX: lambda address: map(str, list_prefix_keys(address)),
    }


POOL_INDEXES: Mapping[str, IndexFunction[Metal3Pool]] = {
    PREFIX_INDEX: lambda pool: [str(Key(pool.metadata.namespace, pool.spec.namePrefix))],
    CLUSTER_INDEX: lambda pool: index_values_of(pool.cluster),
}
"""The indexes of a cache of pools."""


def index_values_of(key: Key | None) -> Sequence[str]:
    """Return the index values of an object with this key; empty for None."""
    return () if key is None else (str(key),)


def list_prefix_keys(address: EitherAddress) -> list[Key]:
    """Return the possible `namePrefix`es of an IPAddress, each as Key(namespace, prefix)."""
    meta = address.metadata
    return [Key(meta.namespace, prefix) for prefix in find_prefixes(meta.name)]


def find_cluster_of_claim(claim: EitherClaim) -> Key | None:
    """Return the Cluster that an IPAddressClaim is for; None for none, and for an IPClaim."""
    return claim.cluster if isinstance(claim, IPAddressClaim) else None


class WorkOnClaims(Protocol[Result_co]):
    """A function that works for either kind of claims, because it is generic in the kind."""

    def __call__(self, claim_caches: "IPPoolClaimCaches[ClaimT, AddressT]", /) -> Result_co:
        """Do the work for one kind and return the result."""


@dataclass(frozen=True, slots=True)
class IPPoolClaimCaches(ClaimSource[Key, EntrySpace, ClaimT, AddressT]):
    """The caches of one kind of claims.

    Args:
        claim_format: reads and renders the claims and their IPAddresses.
        claims: all claims of the kind, with `make_claim_indexes`.
        addresses: the IPAddresses of these claims, with `make_address_indexes`.
        pools: all IPPools, with POOL_INDEXES.
        clusters: all Clusters; None if none can stop these claims: IPClaims name no Cluster, or
            the kind of Clusters is not served.
    """

    claim_format: ClaimFormat[ClaimT, AddressT]
    claims: Cache[ClaimT]
    addresses: Cache[AddressT]
    pools: Cache[Metal3Pool]
    clusters: Cache[Cluster] | None

    @property
    @override
    def fields(self) -> ClaimFormat[ClaimT, AddressT]:
        return self.claim_format

    @override
    def list_pools_of_address(self, address: AddressT) -> Iterable[Key]:
        """Return the pool of an IPAddress, and the pools that could need its name.

        While an IPAddress has a name, no pool can create another IPAddress of that name.
        """
        pool = self.claim_format.find_pool_of_address(address)
        keys = dict.fromkeys(() if pool is None else (pool,))
        for prefix in list_prefix_keys(address):
            for other in self.pools.list_by_index(PREFIX_INDEX, str(prefix)):
                keys[other.metadata.key] = None
        return list(keys)

    @override
    def list_addresses_of_pool(self, pool: Key, space: EntrySpace) -> Iterable[AddressT]:
        """Return the IPAddresses that name a pool or have a name that it could need, each once."""
        prefix = Key(pool.namespace, space.name_prefix)
        addresses = [
            *self.addresses.list_by_index(SPACE_INDEX, str(pool)),
            *self.addresses.list_by_index(PREFIX_INDEX, str(prefix)),
        ]
        return {address.metadata.key: address for address in addresses}.values()

    @override
    def list_addresses_of_claim(self, claim: Key) -> Sequence[AddressT]:
        return list(self.addresses.list_by_index(CLAIM_INDEX, str(claim)))

    @override
    def list_pause_sources(self) -> Sequence[HolderSource[Key, object]]:
        return list_cluster_pauses(
            self.clusters,
            self.claims,
            pools=self.list_pools_of_claim,
            holder=partial(make_claim_holder, self),
        )

    @override
    def find_address(self, addresses: Iterable[AddressT], promise: Promise) -> AddressT | None:
        """Return the IPAddress with a promised address that the claim owns; None without one."""
        [part] = promise.ranges  # a claim gets one address
        for address in addresses:
            owner = self.claim_format.find_owning_claim(address)
            is_of_claim = owner is not None and owner.uid == promise.uid
            if is_of_claim and parse_single(address.spec.address) == part.range:
                return address
        return None

    @override
    def compute_facts(
        self, pool: Key, space: EntrySpace, claim: ClaimT | None, addresses: Sequence[AddressT]
    ) -> Facts | None:
        """Return the facts of a claim and its IPAddresses for a pool; None if there are none."""
        is_stopped = claim is not None and bool(self.why_claim_stops(claim))
        return compute_facts(
            self.claim_format,
            pool,
            space=space,
            claim=claim,
            addresses=addresses,
            is_stopped=is_stopped,
        )

    def why_claim_stops(self, claim: EitherClaim) -> str:
        """Return why nothing is done about a claim; empty if it is served.

        A claim whose Cluster does not exist is served: it may be used without a Cluster.
        """
        if is_paused(claim.metadata.annotations):
            return "the claim is paused by its annotation"
        cluster = find_cluster_of_claim(claim)
        state = find_cluster_state(self.clusters, cluster)
        return "" if state is ClusterState.ABSENT else _CLUSTER_STOPS[state].format(cluster)

    def read_source(self) -> ReadSource[Key, EntrySpace, ClaimT, AddressT]:
        """Return these caches in the form in which a reader has sources of several kinds."""
        return ReadSource(self)

    def visit(self, work: WorkOnClaims[ResultT]) -> ResultT:
        """Call a function with these caches and return its result.

        In a collection of both kinds, the type checker cannot tell whether a claim and a claim
        format are of the same kind. Within `work` it can, because `work` is generic in the kind.
        """
        return work(self)


EitherCaches = (
    IPPoolClaimCaches[Metal3Claim, Metal3Address] | IPPoolClaimCaches[IPAddressClaim, IPAddress]
)
"""The caches of one of the two kinds of claims, where both stand in one collection."""


@dataclass(frozen=True, slots=True)
class Metal3Caches:
    """The caches of this integration.

    Args:
        pools: all IPPools, with POOL_INDEXES.
        claim_caches_by_kind: of each served kind of claims, by the full name of the kind.
        clusters: all Clusters; None where the kind is not served, so that none exists.
        logged: the uids of claims and IPAddresses whose release has a log line, until they are
            gone.
        unnamed: the uids of claims for which this process creates or created an IPAddress, until
            the status of the claim names the IPAddress or the IPAddress is deleted. No machine
            uses such an address.
    """

    pools: Cache[Metal3Pool]
    claim_caches_by_kind: Mapping[str, EitherCaches]
    clusters: Cache[Cluster] | None
    logged: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)

    @property
    def is_history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach."""
        return self.pools.is_history_confirmed and all(
            claim_caches.claims.is_history_confirmed
            and claim_caches.addresses.is_history_confirmed
            for claim_caches in self.claim_caches_by_kind.values()
        )

    @property
    def is_synced(self) -> bool:
        """Whether claims and IPAddresses have been listed."""
        return all(
            claim_caches.claims.is_synced and claim_caches.addresses.is_synced
            for claim_caches in self.claim_caches_by_kind.values()
        )

    def why_pool_stops(self, pool: Metal3Pool) -> str:
        """Return why a pool hands out nothing, whatever is free; empty if it serves."""
        if pool.metadata.is_terminating:
            return "it is being deleted"
        if is_paused(pool.metadata.annotations):
            return "it is paused by its annotation"
        why = _CLUSTER_STOPS[find_cluster_state(self.clusters, pool.cluster)]
        return why.format(pool.cluster)

    def is_pool_paused(self, pool: Metal3Pool) -> bool:
        """Return whether a pool, or its Cluster, is paused or may be."""
        return is_paused(pool.metadata.annotations) or may_be_paused(self.clusters, pool.cluster)

    def is_address_paused(self, address: EitherAddress, pool: Metal3Pool | None) -> bool:
        """Return whether an IPAddress without claim is left alone due to a pause."""
        is_pool_paused = pool is not None and self.is_pool_paused(pool)
        return is_pool_paused or may_be_paused(self.clusters, find_labelled_cluster(address))


def compute_facts(
    claim_format: ClaimFormat[ClaimT, AddressT],
    pool: Key,
    space: EntrySpace,
    claim: ClaimT | None,
    addresses: Iterable[AddressT],
    *,
    is_stopped: bool,
) -> Facts | None:
    """Return the facts of a claim: what it holds of a pool, and its place in the queue.

    The claim holds the addresses of its IPAddresses, the addresses that their names stand for, and
    the address that its status names if that IPAddress is missing.

    Args:
        claim_format: reads claims of this kind.
        space: what the pool may hand out.
        claim: the claim; None if it does not exist.
        addresses: the IPAddresses that name the claim, of any pool.
        is_stopped: whether the claim must not be served now, so that it has no place in the queue.

    Returns:
        The facts; None if the claim does not name the pool and has none of its addresses or names.
    """
    names_pool = claim is not None and claim_format.find_pool_of_claim(claim) == pool
    pool_addresses: list[AddressT] = []
    ranges: dict[PromisedRange, None] = {}  # a set that keeps the order
    for address in addresses:
        # The name of an IPAddress contains an address. While the name is taken, no IPAddress can
        # be created for that address.
        addresses_of_name = _list_addresses_of_name(address, pool, space)
        if addresses_of_name or claim_format.find_pool_of_address(address) == pool:
            pool_addresses.append(address)
            ranges.update(dict.fromkeys(make_promised_ranges(space, addresses_of_name)))
    if not names_pool and not pool_addresses:
        return None
    is_in_use, outside = False, None
    for address in pool_addresses:
        parsed = parse_single(address.spec.address)
        if parsed is None or claim_format.find_pool_of_address(address) != pool:
            continue  # only its name is in the way
        promised_range = space.make_promised_range(parsed)
        ranges[promised_range] = None
        is_in_use = True
        outside = promised_range.range if promised_range.space == OUTSIDE else outside
    if claim is None or not names_pool:
        return Facts(tuple(ranges), is_in_use=is_in_use, outside=outside)
    name = claim_format.get_address_name(claim)
    has_named_address = any(address.metadata.name == name for address in pool_addresses)
    if claim_format.has_address(claim) and not has_named_address:
        # Until the IPAddress shows which address it is, each reading of the name is held.
        readings = [*make_promised_ranges(space, space.find_named_addresses(name))]
        ranges.update(dict.fromkeys(readings))
        is_in_use = is_in_use or bool(readings)
    place = None if is_stopped else _find_place(claim_format, claim)
    row = None
    if place is not None:
        row = _find_row(claim_format, claim, space, has_address=bool(pool_addresses))
    return Facts(tuple(ranges), place, row, is_in_use=is_in_use, outside=outside)


def _find_place(claim_format: ClaimFormat[ClaimT, AddressT], claim: ClaimT) -> Place | None:
    """Return the place of a claim in the queue of its pool; None if the claim does not wait."""
    created = claim.metadata.creationTimestamp
    if created is None or not claim_format.is_waiting(claim):
        return None
    return created, Holder(claim_format.claim_kind, claim.metadata.key)


def _find_row(
    claim_format: ClaimFormat[ClaimT, AddressT],
    claim: ClaimT,
    space: EntrySpace,
    *,
    has_address: bool,
) -> Row | None:
    """Return the row of a waiting claim; the pool decides once for all claims of a row.

    Args:
        space: what the pool may hand out.
        has_address: whether an IPAddress of the pool names the claim.

    Returns:
        None for a claim that needs a decision of its own: it has an IPAddress or a pre-allocation,
        or asks for a certain address.
    """
    is_preallocated = claim.metadata.name in space.preallocations
    if has_address or is_preallocated or claim_format.get_requested_address(claim):
        return None
    return claim_format.claim_kind, claim_format.make_error_identity(claim)


def _list_addresses_of_name(
    address: EitherAddress, pool: Key, space: EntrySpace
) -> list[AddressRange]:
    """Return the addresses of a pool that the name of an IPAddress may stand for.

    The name is the pool's namePrefix and an address with dashes, so an IPv4 and an IPv6 address
    may have the same name. Only addresses within an entry of the pool's spec are returned. The
    pool cannot hand them out while the name is taken, whatever address or pool the IPAddress has.
    """
    meta = address.metadata
    if meta.namespace != pool.namespace:
        return []  # names are unique only within a namespace
    addresses = parse_name(meta.name, space.name_prefix)
    return [parsed for parsed in addresses if space.find_entry(parsed) is not None]
