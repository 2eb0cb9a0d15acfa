"""The addresses that claims and IPAddresses hold of each pool, for views and audits.

They are computed from the objects, because a pool's own status may be stale.

Addresses are in blocks of the pool: a block is what the pool hands out to one claim. A block has a
state for each of its holders: "held", "promised" (only the journal has it), or "resting" (the
holder released it, but a grace period runs). The state of the block as a whole can also be
"shared" (several objects hold it) or "outside" (not in the pool's ranges).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from allocator import AddressRange, InvalidPool
from controller.meta import Key
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.addresses import OTHER_FAMILY, PoolSpace
from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from reconcilers.integrations.clusterapi.api import CLAIM_KIND, IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    KINDS,
    ClaimCaches,
    ClaimPool,
    ServedPool,
    compute_claim_facts,
    compute_claim_holdings,
    get_promised_address,
    parse_geometry,
    read_journal,
)
from reconcilers.integrations.clusterapi.networkpoolspace import parse_network_pool_space
from reconcilers.integrations.clusterapi.reading import make_source
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.claimreading import check_caches_readable
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.views import (
    Wanted,
    want_every_pool,
)
from reconcilers.promises.holdings import Facts, Holdings
from reconcilers.promises.journal import PromisedRange
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName

CLAIM, ADDRESS = "IPAddressClaim", "IPAddress"
ALL_SIZES = 1 << 130
"""Views show pools of any size; only controllers limit the size of a pool."""
Holders = Mapping[AddressRange, tuple[str, tuple[Key, ...]]]
"""By blocks of a pool's space: the state of the block, and the keys of its holders."""


@dataclass(frozen=True)
class PoolContents:
    """A pool with the claims and IPAddresses that name it.

    Args:
        space: what the pool may hand out; None if its spec is invalid.
        fault: why the spec is invalid; empty if it is valid.
        holdings: the blocks that claims and IPAddresses hold; None if the spec is invalid.
        claims: the claims that name the pool, by key.
        addresses: the IPAddresses that name the pool, by key.
        unreadable: claims and IPAddresses that cannot be decoded and may hold addresses of it.
    """

    kind: Resource[ServedPool]
    pool: ServedPool
    space: PoolSpace | None
    fault: str
    holdings: Holdings | None
    claims: Mapping[Key, IPAddressClaim]
    addresses: Mapping[Key, IPAddress]
    unreadable: Sequence[UnreadableObject] = ()

    @cached_property
    def held_blocks(self) -> Holders:
        """By held blocks: the state of the blocks as a whole, and the keys of the holders."""
        return {
            blocks: (self._find_state(blocks, states), tuple(sorted(states)))
            for blocks, states in self.holder_states.items()
        }

    @cached_property
    def holder_states(self) -> Mapping[AddressRange, Mapping[Key, str]]:
        """By held blocks, and by the key of a holder: the state of the blocks for that holder.

        A promise counts until the status of its claim records the address.
        """
        states: dict[AddressRange, dict[Key, str]] = {}
        if self.space is None:
            return {}
        for promise in read_journal(self.pool).promises:
            claim = self.claims.get(promise.key)
            # Without the promised uid this is another claim of the same name.
            if claim and promise.kind == CLAIM_KIND and claim.metadata.uid == promise.uid:
                promised = get_promised_address(promise)
                blocks = self.space.find_blocks(promised.start_text, self.space.prefix)
                if blocks is not None and read_record(claim) is None:
                    states.setdefault(blocks, {})[promise.key] = "promised"
        for key, state, part in self._parts:
            if part.space == self.space.name:
                states.setdefault(part.range, {})[key] = state
        return states

    @cached_property
    def other_family_ranges(self) -> Mapping[Key, Collection[AddressRange]]:
        """The held addresses of the family that the pool does not hand out to claims, by holder.

        A NetworkPool may hand out that family to IPAllocations. Other pools do not have it, so
        such an address is outside of the pool.
        """
        ranges: dict[Key, dict[AddressRange, None]] = {}
        for key, _, part in self._parts:
            if part.space == OTHER_FAMILY:
                ranges.setdefault(key, {})[part.range] = None
        return {key: ranges[key].keys() for key in sorted(ranges)}

    @cached_property
    def _parts(self) -> Sequence[tuple[Key, str, PromisedRange]]:
        """The ranges that claims hold, then the ranges of IPAddresses.

        Each entry has the key of the holder, the state, and the range. The order matters: if claim
        and IPAddress of one key have the same range, the state of the IPAddress counts.
        """
        if self.space is None:
            return ()
        parts = [
            (key, "held", part)
            for key, claim in self.claims.items()
            for part in _list_ranges(compute_claim_facts(claim, None, self.space))
        ]
        for key, address in self.addresses.items():
            state = "resting" if RELEASED_AT in address.metadata.annotations else "held"
            facts = compute_claim_facts(None, address, self.space)
            parts += ((key, state, part) for part in _list_ranges(facts))
        return parts

    def _find_state(self, blocks: AddressRange, states: Mapping[Key, str]) -> str:
        """Return the state of blocks as a whole.

        Args:
            blocks: the numbers of the blocks, as `find_blocks` returns them.
            states: the state for each holder of the blocks, by its key; at least one.
        """
        assert self.space is not None, "it has blocks"
        if len(states) > 1:
            return "shared"
        [state] = states.values()
        return state if self.space.layout.can_ever_pin(blocks) else "outside"

    def find_holder(self, key: Key) -> IPAddressClaim | IPAddress:
        """Return the holder with a key: the claim if there is one, else the IPAddress."""
        return self.claims.get(key) or self.addresses[key]

    def describe_holder(self, key: Key) -> str:
        """Return kind and name of the holder with a key: the claim if there is one."""
        return f"{CLAIM if key in self.claims else ADDRESS} {key}"


def _list_ranges(facts: Facts | None) -> tuple[PromisedRange, ...]:
    """Return the ranges that facts contain; empty without facts."""
    return () if facts is None else facts.ranges


def list_contents(
    caches: ClaimCaches, is_wanted: Wanted = want_every_pool
) -> Iterator[PoolContents]:
    """Yield the wanted pools with their contents, by kind, namespace and name.

    A NetworkPool is left out if no claim or IPAddress names it, and no object that cannot be
    decoded may name it. Objects that cannot be decoded are in `unreadable` of each pool whose
    addresses they may hold.

    Args:
        caches: the objects.
        is_wanted: returns whether to yield a pool.
    """
    for kind in KINDS:
        for pool in sorted(caches.pools[kind.kind], key=lambda pool: pool.metadata.key):
            if not is_wanted(PoolName(kind.kind, pool.metadata.key)):
                continue
            pool_name = ClaimPool(kind, pool.metadata.key)
            space = str(pool_name)
            claims = {
                claim.metadata.key: claim
                for claim in caches.claims.list_by_index(SPACE_INDEX, space)
            }
            addresses = {
                address.metadata.key: address
                for address in caches.addresses.list_by_index(SPACE_INDEX, space)
            }
            unreadable = find_unreadable(
                partial(check_caches_readable, make_source(caches), pool_name)
            )
            if kind != NETWORK_POOL or claims or addresses or unreadable:
                contents = _make_contents(kind, pool, claims=claims, addresses=addresses)
                yield replace(contents, unreadable=unreadable) if unreadable else contents


def _parse_space(pool: ServedPool) -> PoolSpace:
    """Return the addresses that a pool of any kind may hand out to claims.

    Raises:
        InvalidPool: its spec is invalid.
    """
    if isinstance(pool, NetworkPool):
        return parse_network_pool_space(pool, ALL_SIZES)
    return parse_geometry(pool)


def _make_contents(
    kind: Resource[ServedPool],
    pool: ServedPool,
    claims: Mapping[Key, IPAddressClaim],
    addresses: Mapping[Key, IPAddress],
) -> PoolContents:
    """Return the contents of a pool; with an invalid spec they lack space and holdings.

    Args:
        claims: the claims that name the pool, by key.
        addresses: the IPAddresses that name the pool, by key.
    """
    try:
        space = _parse_space(pool)
    except InvalidPool as invalid:
        return PoolContents(
            kind,
            pool,
            space=None,
            fault="; ".join(invalid.messages),
            holdings=None,
            claims=claims,
            addresses=addresses,
        )
    holdings = compute_claim_holdings(claims, addresses, space)
    return PoolContents(
        kind, pool, space=space, fault="", holdings=holdings, claims=claims, addresses=addresses
    )
