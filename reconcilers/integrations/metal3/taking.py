"""What a claim gets of its pool.

In this order: the IPAddress that names it, its pre-allocation, the address of its annotation, or a
free address of the first entry that has one. Passes over pools carry it out.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Generic

from allocator import AddressRange, RequestRefused, Space
from reconcilers.api import names
from reconcilers.integrations.core.claimproblems import (
    ALLOCATION_FAILED,
    POOL_EXHAUSTED,
    ClaimProblem,
)
from reconcilers.integrations.core.claimreading import ClaimSpaceView
from reconcilers.integrations.metal3.api import (
    CONFLICTING,
    EXHAUSTED,
    PREALLOCATION_HELD,
    PREALLOCATION_OUTSIDE,
    REQUESTED_HELD,
    REQUESTED_OUTSIDE,
    Metal3Pool,
    describe_invalid,
)
from reconcilers.integrations.metal3.caches import Metal3Caches
from reconcilers.integrations.metal3.entries import EntrySpace, parse_single
from reconcilers.integrations.metal3.sides import AddressT, ClaimSide, ClaimT
from reconcilers.promises.choosing import Refused, Taken
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise, PromisedRange

RANDOM_TRIES = 8
"""So many random addresses are tried before the free ones are looked through."""


class TakenAddresses:
    """The addresses that are promised, or chosen in this pass, for claims of all kinds.

    Holdings do not show them, and a hole of an entry is in no space that could.

    Args:
        promises: the open promises of the pool.
    """

    def __init__(self, promises: Sequence[Promise]) -> None:
        self._addresses = {part.range for promise in promises for part in promise.ranges}

    def __contains__(self, address: AddressRange) -> bool:
        """Return whether an address is promised or chosen."""
        return address in self._addresses

    def add(self, address: AddressRange) -> None:
        """Note that an address is chosen."""
        self._addresses.add(address)


class EntryTaker(Generic[ClaimT, AddressT]):
    """Takes addresses of one pool for claims of one kind, on one reading of the pool.

    Args:
        caches: the caches, for what stops a claim.
        side: the kind of the claims.
        pool: as it was read.
        space: what it may hand out.
        view: its claims and IPAddresses, with the holdings of claims of all kinds.
        unavailable: shared by the takers of all kinds.
        restores: returns for how many seconds a claim may still get an IPAddress from a restore.
        generator: of random numbers.
    """

    def __init__(  # noqa: PLR0913 - what was read, and the pool
        self,
        caches: Metal3Caches,
        side: ClaimSide[ClaimT, AddressT],
        pool: Metal3Pool,
        space: EntrySpace,
        view: ClaimSpaceView[ClaimT, AddressT],
        unavailable: TakenAddresses,
        *,
        restores: Callable[[ClaimT], float],
        generator: Random,
    ) -> None:
        self.kind = side.claim_kind
        self.find = view.find
        self._caches = caches
        self._side = side
        self._pool = pool.metadata.key
        self._space = space
        self._view = view
        self._unavailable = unavailable
        self._restores = restores
        self._generator = generator

    def shows(self, asker: ClaimT, refused: Refused) -> bool:
        """Return whether a claim shows a refusal already."""
        return self._side.shows(asker, ClaimProblem(refused.reason, refused.message))

    def take(self, asker: ClaimT) -> Taken | None:
        """Take the address to promise to a claim; None if it must not be served now.

        Raises:
            Refused: there is none for it.
        """
        if self._caches.why_claim_stops(asker):
            return None
        addresses = self._own_addresses(asker)
        if addresses:
            adopted = self._adopt(asker, addresses)
            if adopted is None:
                return None
            address = adopted
        elif self._restores(asker) > 0:
            return None
        else:
            address = self._take_new(asker)
        self._unavailable.add(address)
        return Taken((PromisedRange(address),))  # entries may be edited, promises stay

    def _own_addresses(self, claim: ClaimT) -> list[AddressT]:
        """Return the IPAddresses of this pool that name a claim.

        An IPAddress that the claim owns comes first: only a person's deletion of the status lets a
        claim wait that owns one. IPAddresses without a claim as owner come next.
        """
        side = self._side
        addresses = [
            address
            for address in self._view.addresses_of(claim.metadata.key)
            if side.pool_of_address(address) == self._pool
        ]

        def order(address: AddressT) -> tuple[bool, bool, str]:
            owner = side.owning_claim(address)
            is_owned = owner is not None and owner.uid == claim.metadata.uid
            return not is_owned, owner is not None, address.metadata.name

        return sorted(addresses, key=order)

    def _adopt(self, claim: ClaimT, addresses: Sequence[AddressT]) -> AddressRange | None:
        """Return the address of one of the IPAddresses that name a claim.

        Returns:
            None if one is in the way that a frozen replica created late: passes over claims delete
            it (`claims.py`), and an error would make the reader of the claim give up.

        Raises:
            Refused: other claims have all of them, too.
        """
        for address in addresses:
            parsed = parse_single(address.spec.address)
            if parsed is not None and self._is_free(parsed, claim):
                return parsed
        if any(
            known.metadata.annotations.get(names.ANNOTATION_MADE_FOR) == claim.metadata.uid
            for known in addresses
        ):
            return None
        name = addresses[0].metadata.key
        raise Refused(
            ALLOCATION_FAILED,
            f"IPAddress {name} names the claim, and another claim has its address; delete one of"
            " the two",
        )

    def _take_new(self, claim: ClaimT) -> AddressRange:
        """Take the address of a claim that no IPAddress names."""
        name, wish = claim.metadata.name, self._side.requested_address(claim)
        requested = parse_single(wish)
        if wish and requested is None:
            raise Refused(ALLOCATION_FAILED, describe_invalid(wish))
        if name in self._space.preallocations:
            address = self._space.preallocations[name]
            if address is None or self._space.entry_of(address) is None:
                raise Refused(ALLOCATION_FAILED, PREALLOCATION_OUTSIDE)
            if requested is not None and requested != address:
                raise Refused(ALLOCATION_FAILED, CONFLICTING)
            return self._take_exactly(address, claim, PREALLOCATION_HELD)
        if requested is None:
            return self._take_free()
        if self._space.entry_of(requested) is None:
            raise Refused(ALLOCATION_FAILED, REQUESTED_OUTSIDE)
        if requested in self._space.preallocated:
            raise Refused(ALLOCATION_FAILED, REQUESTED_HELD)
        return self._take_exactly(requested, claim, REQUESTED_HELD)

    def _take_exactly(self, address: AddressRange, claim: ClaimT, why_not: str) -> AddressRange:
        """Take this very address, or refuse the claim with `why_not`."""
        if not self._is_free(address, claim) or self._is_name_taken(claim, address):
            raise Refused(ALLOCATION_FAILED, why_not)
        part = self._space.part_of(address)
        self._view.holdings.space(part.space).hold(address)
        return address

    def _is_name_taken(self, claim: ClaimT, address: AddressRange) -> bool:
        """Return whether an IPAddress of the claim, of another pool, has the name of an address.

        The claim is its holder, so its holdings do not show that the name is taken.
        """
        name = self._space.name_of(address)
        return any(
            known.metadata.name == name for known in self._view.addresses_of(claim.metadata.key)
        )

    def _is_free(self, address: AddressRange, claim: ClaimT) -> bool:
        """Return whether no other claim holds an address or is promised it."""
        if address in self._unavailable:
            return False
        part = self._space.part_of(address)
        holder = Holder(self.kind, claim.metadata.key)
        return self._view.holdings.other_holder(address, holder, part.space) is None

    def _take_free(self) -> AddressRange:
        """Take a free address of the first entry that has one."""
        for name in self._space.layouts:
            space = self._view.holdings.space(name)
            if space.free:
                return (
                    self._take_random(space) if self._space.is_random else space.take_lowest(1)[0]
                )
        raise Refused(POOL_EXHAUSTED, EXHAUSTED)

    def _take_random(self, space: Space) -> AddressRange:
        """Take a random free address: of a random one upwards, the first that is free."""
        span = space.layout.cidr
        start = span.first
        for _ in range(RANDOM_TRIES):
            start = span.first + self._generator.randrange(span.size)
            try:
                return space.pin(AddressRange(start, start, span.family))
            except RequestRefused:
                continue
        extents = list(space.free_extents())
        after = (extent for extent in extents if extent.last >= start)
        extent = next(after, extents[0])
        address = max(extent.first, start) if extent.last >= start else extent.first
        return space.pin(AddressRange(address, address, span.family))
