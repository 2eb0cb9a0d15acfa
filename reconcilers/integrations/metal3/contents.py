"""List the addresses that claims of both kinds hold of IPPools, for views and audits.

They are read from the claims and IPAddresses, because `status.indexes` may be stale.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from allocator import AddressRange
from controller.cache import Cache
from reconcilers.integrations.clusterapi.api import ADDRESSES, CLAIMS
from reconcilers.integrations.core.claimreading import find_facts
from reconcilers.integrations.core.heldparts import list_open_promises
from reconcilers.integrations.core.objects import SPACE_INDEX, ObjectsByKind
from reconcilers.integrations.core.views import Wanted, want_every_pool
from reconcilers.integrations.metal3.api import JOURNALS, POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    EitherCaches,
    IPPoolClaimCaches,
    Metal3Caches,
    make_address_indexes,
    make_claim_indexes,
)
from reconcilers.integrations.metal3.claimformats import (
    AddressT,
    ClaimFormat,
    ClaimT,
    EitherClaim,
    IPAddressClaimFormat,
    IPClaimFormat,
)
from reconcilers.integrations.metal3.entries import EntrySpace, parse_space
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Holder
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName


@dataclass(frozen=True, slots=True)
class HeldAddress:
    """An address that a claim of a pool holds or is promised.

    Args:
        address: a single address.
        holder: the claim, which may not exist while IPAddresses name it.
        is_promised: whether the journal promises it and it is not written to the claim yet.
    """

    address: AddressRange
    holder: Holder
    is_promised: bool = False


@dataclass(frozen=True, slots=True)
class WaitingClaim:
    """A claim without an address.

    Args:
        kind: the kind of the claim, as people read it.
        error: the error that the claim shows; empty for none.
    """

    kind: str
    claim: EitherClaim
    error: str


@dataclass(frozen=True, slots=True)
class IPPoolContents:
    """What a pool may hand out, and what is held of it.

    Args:
        space: what it may hand out.
        holdings: what is held, and which claims wait.
        caches: the objects.
        unreadable: objects that may hold some of it and cannot be decoded.
    """

    pool: Metal3Pool
    space: EntrySpace
    holdings: Holdings
    caches: Metal3Caches
    unreadable: Sequence[UnreadableObject] = ()

    def list_held(self) -> Iterator[HeldAddress]:
        """Yield the addresses that claims hold, then those that open promises reserve."""
        for holder in self.holdings.holders:
            for part in self.holdings.get_facts(holder).ranges:
                yield HeldAddress(part.range, holder)
        for promise in list_open_promises(JOURNALS.read(self.pool), self.find_claim):
            for part in promise.ranges:
                yield HeldAddress(part.range, promise.holder, is_promised=True)

    def list_waiting_claims(self) -> Iterator[WaitingClaim]:
        """Yield the claims without an address; paused claims do not wait."""
        if self.caches.is_pool_paused(self.pool):
            return  # a paused pool pauses all its claims
        for claim_caches in self.caches.claim_caches_by_kind.values():
            yield from claim_caches.visit(self._list_waiting_claims_of_kind)

    def _list_waiting_claims_of_kind(
        self, claim_caches: IPPoolClaimCaches[ClaimT, AddressT], /
    ) -> Iterator[WaitingClaim]:
        """Yield the claims of one kind without an address that are neither paused nor deleted."""
        for claim in claim_caches.claims.list_by_index(SPACE_INDEX, str(self.pool.metadata.key)):
            is_paused = bool(claim_caches.why_claim_stops(claim))
            is_terminating = claim.metadata.is_terminating
            if not (
                is_paused or is_terminating or claim_caches.claim_format.get_address_name(claim)
            ):
                yield WaitingClaim(
                    claim_caches.claim_format.claims.kind,
                    claim,
                    claim_caches.claim_format.read_error(claim),
                )

    def find_claim(self, holder: Holder) -> EitherClaim | None:
        """Return the claim of a holder; None if there is none."""
        claim_caches = self.caches.claim_caches_by_kind.get(holder.kind)
        return None if claim_caches is None else claim_caches.claims.get(holder.key)


def list_contents(
    caches: Metal3Caches, is_wanted: Wanted = want_every_pool
) -> Iterator[IPPoolContents]:
    """Yield every pool and what is held of it, by key.

    Args:
        caches: the objects.
        is_wanted: returns whether to yield a pool.
    """
    sources = [claim_caches.read_source() for claim_caches in caches.claim_caches_by_kind.values()]
    for pool in sorted(caches.pools, key=lambda pool: pool.metadata.key):
        key = pool.metadata.key
        if not is_wanted(PoolName(POOLS.kind, key)):
            continue
        space = parse_space(pool.spec)
        holders = dict.fromkeys(
            holder for source in sources for holder in source.list_holders(key, space)
        )
        facts = (
            (holder, holder_facts)
            for holder in holders
            if (holder_facts := find_facts(sources, key, holder=holder, space=space)) is not None
        )
        unreadable = [
            unreadable_object
            for source in sources
            for unreadable_object in find_unreadable(partial(source.check_readable, key))
        ]
        yield IPPoolContents(
            pool,
            space,
            holdings=Holdings(space.layouts, facts),
            caches=caches,
            unreadable=unreadable,
        )


def fill_caches(objects: ObjectsByKind, contract: ObjectsByKind) -> Metal3Caches:
    """Return caches of objects, in the form in which reconcilers read them.

    Args:
        objects: the objects of metal3's kinds.
        contract: the objects of Cluster API's kinds, also the claims and IPAddresses of other
            pools than IPPools. The index by pool leaves these out.
    """
    contract_format = IPAddressClaimFormat(CLAIMS, ADDRESSES)
    pools = objects.build_cache(POOLS, indexes=POOL_INDEXES)
    return make_caches(
        pools,
        _fill_claim_caches(IPClaimFormat(), objects, pools),
        _fill_claim_caches(contract_format, contract, pools),
    )


def _fill_claim_caches(
    claim_format: ClaimFormat[ClaimT, AddressT], objects: ObjectsByKind, pools: Cache[Metal3Pool]
) -> IPPoolClaimCaches[ClaimT, AddressT]:
    """Return the caches of one kind of claims and of their IPAddresses."""
    return IPPoolClaimCaches(
        claim_format,
        objects.build_cache(claim_format.claims, indexes=make_claim_indexes(claim_format)),
        addresses=objects.build_cache(
            claim_format.addresses, indexes=make_address_indexes(claim_format)
        ),
        pools=pools,
        clusters=None,
    )


def make_caches(pools: Cache[Metal3Pool], *claim_caches_by_kind: EitherCaches) -> Metal3Caches:
    """Return the caches of pools and of kinds of claims, without Clusters."""
    return Metal3Caches(
        pools,
        {
            claim_caches.claim_format.claim_kind: claim_caches
            for claim_caches in claim_caches_by_kind
        },
        None,
    )
