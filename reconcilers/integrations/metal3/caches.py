"""The caches of this integration, and what claims and IPAddresses in them mean to one pool.

A *side* is one kind of claims with the kind of its IPAddresses: metal3's, or Cluster API's. The
*facts* of a claim are what the claim and its IPAddresses hold of a pool, and whether it waits.

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
    holder_of_claim,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.metal3.addressnames import find_prefixes, parse_name
from reconcilers.integrations.metal3.api import Metal3Address, Metal3Claim, Metal3Pool
from reconcilers.integrations.metal3.entries import OUTSIDE, EntrySpace, parse_single, parts_of
from reconcilers.integrations.metal3.sides import (
    AddressT,
    ClaimSide,
    ClaimT,
    EitherAddress,
    EitherClaim,
)
from reconcilers.promises.holdings import Facts, HolderSource
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise, PromisedRange

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


def make_claim_indexes(side: ClaimSide[ClaimT, AddressT]) -> Mapping[str, IndexFunction[ClaimT]]:
    """Return the indexes of a cache of claims."""

    def list_spaces(claim: ClaimT) -> Iterable[str]:
        return index_values_of(side.pool_of_claim(claim))

    return {
        SPACE_INDEX: list_spaces,
        CLUSTER_INDEX: lambda claim: index_values_of(cluster_of(claim)),
    }


def make_address_indexes(
    side: ClaimSide[ClaimT, AddressT],
) -> Mapping[str, IndexFunction[AddressT]]:
    """Return the indexes of a cache of IPAddresses."""
    return {
        SPACE_INDEX: lambda address: index_values_of(side.pool_of_address(address)),
        CLAIM_INDEX: lambda address: index_values_of(side.claim_of_address(address)),
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


def cluster_of(claim: EitherClaim) -> Key | None:
    """Return the Cluster that an IPAddressClaim is for; None for none, and for an IPClaim."""
    return claim.cluster if isinstance(claim, IPAddressClaim) else None


class SideWork(Protocol[Result_co]):
    """A function that works for either kind of claims, because it is generic in the kind."""

    def __call__(self, side_caches: "SideCaches[ClaimT, AddressT]", /) -> Result_co:
        """Do the work for one kind and return the result."""


@dataclass(frozen=True, slots=True)
class SideCaches(ClaimSource[Key, EntrySpace, ClaimT, AddressT]):
    """The caches of one kind of claims.

    Args:
        side: the kind.
        claims: its claims, with `make_claim_indexes`.
        addresses: its IPAddresses, with `make_address_indexes`.
        pools: all IPPools, with POOL_INDEXES.
        clusters: all Clusters; None if none can stop these claims: IPClaims name no Cluster, or
            the kind of Clusters is not served.
    """

    side: ClaimSide[ClaimT, AddressT]
    claims: Cache[ClaimT]
    addresses: Cache[AddressT]
    pools: Cache[Metal3Pool]
    clusters: Cache[Cluster] | None

    @property
    @override
    def fields(self) -> ClaimSide[ClaimT, AddressT]:
        return self.side

    @override
    def pools_of_address(self, address: AddressT) -> Iterable[Key]:
        """Return the pool of an IPAddress, and the pools that could need its name."""
        pool = self.side.pool_of_address(address)
        keys = dict.fromkeys(() if pool is None else (pool,))
        for prefix in list_prefix_keys(address):
            for other in self.pools.by_index(PREFIX_INDEX, str(prefix)):
                keys[other.metadata.key] = None
        return list(keys)

    @override
    def addresses_of_pool(self, pool: Key, space: EntrySpace) -> Iterable[AddressT]:
        """Return the IPAddresses that name a pool or have a name that it could need, each once."""
        prefix = Key(pool.namespace, space.name_prefix)
        addresses = [
            *self.addresses.by_index(SPACE_INDEX, str(pool)),
            *self.addresses.by_index(PREFIX_INDEX, str(prefix)),
        ]
        return {address.metadata.key: address for address in addresses}.values()

    @override
    def addresses_of(self, claim: Key) -> Sequence[AddressT]:
        return list(self.addresses.by_index(CLAIM_INDEX, str(claim)))

    @override
    def list_pause_sources(self) -> Sequence[HolderSource[Key, object]]:
        return list_cluster_pauses(
            self.clusters,
            self.claims,
            pools=self.list_pools_of_claim,
            holder=partial(holder_of_claim, self),
        )

    @override
    def find_address(self, addresses: Iterable[AddressT], promise: Promise) -> AddressT | None:
        """Return the IPAddress with a promised address that the claim owns; None without one."""
        [part] = promise.ranges  # a claim gets one address
        for address in addresses:
            owner = self.side.find_owning_claim(address)
            is_of_claim = owner is not None and owner.uid == promise.uid
            if is_of_claim and parse_single(address.spec.address) == part.range:
                return address
        return None

    @override
    def facts_of(
        self, pool: Key, space: EntrySpace, claim: ClaimT | None, addresses: Sequence[AddressT]
    ) -> Facts | None:
        """Return the facts of a claim and its IPAddresses for a pool; None if there are none."""
        is_stopped = claim is not None and bool(self.why_claim_stops(claim))
        return compute_facts(
            self.side,
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
        cluster = cluster_of(claim)
        state = find_cluster_state(self.clusters, cluster)
        return "" if state is ClusterState.ABSENT else _CLUSTER_STOPS[state].format(cluster)

    def read_source(self) -> ReadSource[Key, EntrySpace, ClaimT, AddressT]:
        """Return these caches in the form in which a reader has sources of several kinds."""
        return ReadSource(self)

    def visit(self, work: SideWork[ResultT]) -> ResultT:
        """Return the result of a function that takes either kind, called with this kind.

        In a collection of both kinds, the type checker cannot tell whether a claim and a side are
        of the same kind. Within `work` it can, because `work` is generic in the kind.
        """
        return work(self)


EitherCaches = SideCaches[Metal3Claim, Metal3Address] | SideCaches[IPAddressClaim, IPAddress]
"""The caches of one of the two kinds of claims, where both stand in one collection."""


@dataclass(frozen=True, slots=True)
class Metal3Caches:
    """The caches of this integration.

    Args:
        pools: all IPPools, with POOL_INDEXES.
        sides: the kinds of claims that are served, by the full name of the kind.
        clusters: all Clusters; None where the kind is not served, so that none exists.
        logged: the uids of claims and IPAddresses whose release has a log line, until they are
            gone.
        unnamed: the uids of claims for which this process creates or created an IPAddress, until
            a status names it or it is gone. No machine uses such an address.
    """

    pools: Cache[Metal3Pool]
    sides: Mapping[str, EitherCaches]
    clusters: Cache[Cluster] | None
    logged: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)

    @property
    def history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach."""
        return self.pools.history_confirmed and all(
            side.claims.history_confirmed and side.addresses.history_confirmed
            for side in self.sides.values()
        )

    @property
    def synced(self) -> bool:
        """Whether claims and IPAddresses have been listed."""
        return all(side.claims.synced and side.addresses.synced for side in self.sides.values())

    def why_pool_stops(self, pool: Metal3Pool) -> str:
        """Return why a pool hands out nothing, whatever is free; empty if it serves."""
        if pool.metadata.terminating:
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
    side: ClaimSide[ClaimT, AddressT],
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
        side: the kind of the claim.
        space: what the pool may hand out.
        claim: the claim; None if it does not exist.
        addresses: the IPAddresses that name the claim, of any pool.
        is_stopped: whether the claim must not be served now, so that it has no place in the queue.

    Returns:
        The facts; None if the claim does not name the pool and has none of its addresses or names.
    """
    is_asker = claim is not None and side.pool_of_claim(claim) == pool
    of_pool: list[AddressT] = []
    parts: dict[PromisedRange, None] = {}
    for address in addresses:
        # The name of an IPAddress contains an address. While the name is taken, no IPAddress can
        # be created for that address.
        addresses_of_name = _list_addresses_of_name(address, pool, space)
        if addresses_of_name or side.pool_of_address(address) == pool:
            of_pool.append(address)
            parts.update(dict.fromkeys(parts_of(space, addresses_of_name)))
    if not is_asker and not of_pool:
        return None
    is_in_use, outside = False, None
    for address in of_pool:
        parsed = parse_single(address.spec.address)
        if parsed is None or side.pool_of_address(address) != pool:
            continue  # only its name is in the way
        part = space.make_part(parsed)
        parts[part] = None
        is_in_use = True
        outside = part.range if part.space == OUTSIDE else outside
    place = row = None
    if claim is not None and is_asker:
        name = side.address_name(claim)
        is_named = any(address.metadata.name == name for address in of_pool)
        if side.holds(claim) and not is_named:
            # Until the IPAddress shows which address it is, each reading of the name is held.
            readings = [*parts_of(space, space.find_named_addresses(name))]
            parts.update(dict.fromkeys(readings))
            is_in_use = is_in_use or bool(readings)
        created = claim.metadata.creationTimestamp
        if created is not None and side.waits(claim) and not is_stopped:
            place = created, Holder(side.claim_kind, claim.metadata.key)
            has_wish = side.requested_address(claim) or claim.metadata.name in space.preallocations
            # Claims of a row get the same answer, so that one of them is asked for all. A claim
            # with a wish or an IPAddress has an answer of its own, so it is in no row.
            row = None if has_wish or of_pool else (side.claim_kind, side.shown_error(claim))
    return Facts(tuple(parts), place, row, is_in_use=is_in_use, outside=outside)


def _list_addresses_of_name(
    address: EitherAddress, pool: Key, space: EntrySpace
) -> list[AddressRange]:
    """Return the addresses of a pool that the name of an IPAddress may stand for.

    The name is the pool's namePrefix and an address with dashes, so an IPv4 and an IPv6 address
    may have one name. Only addresses within an entry of the pool's spec count. They cannot be
    handed out while the name is taken, even if the IPAddress has another address or pool.
    """
    meta = address.metadata
    if meta.namespace != pool.namespace:
        return []  # names are unique only within a namespace
    addresses = parse_name(meta.name, space.name_prefix)
    return [parsed for parsed in addresses if space.find_entry(parsed) is not None]
