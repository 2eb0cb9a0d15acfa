"""Choose the address that a claim gets of its pool.

A claim gets the first of these: the address of an IPAddress that names the claim, its
pre-allocation, the address of its annotation, a free address of the first entry that has one.
Passes over pools write the choice.
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
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimFormat, ClaimT
from reconcilers.integrations.metal3.entries import EntrySpace, parse_single
from reconcilers.promises.choosing import Refused, Taken
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise, PromisedRange

RANDOM_TRIES = 8
"""How many random addresses are tried before the free ranges are listed."""


class TakenAddresses:
    """The addresses that are promised, or chosen in this pass, for claims of all kinds.

    The holdings show only addresses that are written to claims. A space cannot keep these, because
    some are holes of an entry, which are in no space.

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
        claim_format: reads the claims.
        pool: the pool as it was read.
        space: what the pool may hand out.
        view: the pool's claims and IPAddresses, with the holdings of claims of all kinds.
        unavailable: the promised and chosen addresses; the takers of all kinds share them.
        restore_seconds_left: returns for how many seconds a restore from a backup may still create
            the IPAddress of a claim.
        generator: random numbers, for pools with random addresses.
    """

    def __init__(  # noqa: PLR0913 - what was read, and the pool
        self,
        claim_format: ClaimFormat[ClaimT, AddressT],
        pool: Metal3Pool,
        space: EntrySpace,
        view: ClaimSpaceView[ClaimT, AddressT],
        unavailable: TakenAddresses,
        *,
        restore_seconds_left: Callable[[ClaimT], float],
        generator: Random,
    ) -> None:
        self.kind = claim_format.claim_kind
        self.find = view.find
        self._claim_format = claim_format
        self._pool = pool.metadata.key
        self._space = space
        self._view = view
        self._unavailable = unavailable
        self._restore_seconds_left = restore_seconds_left
        self._generator = generator

    def is_refusal_shown(self, asker: ClaimT, refused: Refused) -> bool:
        """Return whether a claim shows a refusal already."""
        return self._claim_format.is_problem_shown(
            asker, ClaimProblem(refused.reason, refused.message)
        )

    def take(self, asker: ClaimT) -> Taken | None:
        """Take the address to promise to a claim; None if the claim has to wait.

        It waits while a restore from a backup may still create its IPAddress, and until an
        IPAddress that was created too late is deleted.

        Raises:
            Refused: the pool has no address for the claim; the message says why.
        """
        addresses = self._list_addresses_of(asker)
        if addresses:
            adopted = self._choose_existing(asker, addresses)
            if adopted is None:
                return None
            address = adopted
        elif self._restore_seconds_left(asker) > 0:
            return None  # a restore from a backup may still create its IPAddress
        else:
            address = self._take_new(asker)
        self._unavailable.add(address)
        # Without the name of a space: the entries may be edited before the promise is kept.
        return Taken((PromisedRange(address),))

    def _list_addresses_of(self, claim: ClaimT) -> list[AddressT]:
        """Return the IPAddresses of this pool that name a claim.

        An IPAddress that the claim owns comes first: such a claim waits only because a person has
        deleted its status. IPAddresses without a claim as owner come next.
        """
        claim_format = self._claim_format
        addresses = [
            address
            for address in self._view.list_addresses_of_claim(claim.metadata.key)
            if claim_format.find_pool_of_address(address) == self._pool
        ]

        def order(address: AddressT) -> tuple[bool, bool, str]:
            """Return a sort key: owned by the claim, then unowned, then others'; by name."""
            owner = claim_format.find_owning_claim(address)
            is_owned = owner is not None and owner.uid == claim.metadata.uid
            return not is_owned, owner is not None, address.metadata.name

        return sorted(addresses, key=order)

    def _choose_existing(
        self, claim: ClaimT, addresses: Sequence[AddressT]
    ) -> AddressRange | None:
        """Return the address of the first IPAddress whose address no other claim has.

        Args:
            addresses: the IPAddresses that name the claim, in the order of `_list_addresses_of`.

        Returns:
            The address; None if other claims have all addresses, and this program created one of
            the IPAddresses for the claim. A frozen replica created it late, and a pass over the
            claim deletes it (`claims.py`). A refusal would make the reader of the claim give up.

        Raises:
            Refused: other claims have all addresses, and other programs created the IPAddresses.
        """
        for address in addresses:
            parsed = parse_single(address.spec.address)
            if parsed is not None and self._is_free(parsed, claim):
                return parsed
        if any(
            address.metadata.annotations.get(names.ANNOTATION_MADE_FOR) == claim.metadata.uid
            for address in addresses
        ):
            return None
        name = addresses[0].metadata.key
        raise Refused(
            ALLOCATION_FAILED,
            f"IPAddress {name} names the claim, and another claim has its address; delete one of"
            " the two",
        )

    def _take_new(self, claim: ClaimT) -> AddressRange:
        """Take the pre-allocation, the wish, or a free address for a claim without IPAddress.

        The *wish* is the address that the claim requests by its annotation.

        Raises:
            Refused: the wish is no address, is outside the entries, is held, or differs from the
                pre-allocation; or no address is free.
        """
        name, wish = claim.metadata.name, self._claim_format.get_requested_address(claim)
        requested = parse_single(wish)
        if wish and requested is None:
            raise Refused(ALLOCATION_FAILED, describe_invalid(wish))
        if name in self._space.preallocations:
            address = self._space.preallocations[name]
            if address is None or self._space.find_entry(address) is None:
                raise Refused(ALLOCATION_FAILED, PREALLOCATION_OUTSIDE)
            if requested is not None and requested != address:
                raise Refused(ALLOCATION_FAILED, CONFLICTING)
            return self._take_exactly(address, claim, PREALLOCATION_HELD)
        if requested is None:
            return self._take_free()
        if self._space.find_entry(requested) is None:
            raise Refused(ALLOCATION_FAILED, REQUESTED_OUTSIDE)
        if requested in self._space.preallocated:  # for another claim
            raise Refused(ALLOCATION_FAILED, REQUESTED_HELD)
        return self._take_exactly(requested, claim, REQUESTED_HELD)

    def _take_exactly(self, address: AddressRange, claim: ClaimT, refusal: str) -> AddressRange:
        """Take a certain address for a claim.

        Args:
            address: a single address.
            claim: the claim that gets it.
            refusal: the message if the address is not available.

        Raises:
            Refused: another claim has the address, or an IPAddress of the claim has the name that
                the address needs.
        """
        if not self._is_free(address, claim) or self._is_name_taken(claim, address):
            raise Refused(ALLOCATION_FAILED, refusal)
        part = self._space.make_promised_range(address)
        self._view.holdings.get_space(part.space).hold(address)
        return address

    def _is_name_taken(self, claim: ClaimT, address: AddressRange) -> bool:
        """Return whether an IPAddress that names the claim has the name that an address needs.

        The claim itself holds the address by that name, so `_is_free` does not report it as held.
        """
        name = self._space.make_address_name(address)
        return any(
            ip_address.metadata.name == name
            for ip_address in self._view.list_addresses_of_claim(claim.metadata.key)
        )

    def _is_free(self, address: AddressRange, claim: ClaimT) -> bool:
        """Return whether no other claim holds an address or is promised it."""
        if address in self._unavailable:
            return False
        part = self._space.make_promised_range(address)
        holder = Holder(self.kind, claim.metadata.key)
        return self._view.holdings.find_other_holder(address, holder, part.space) is None

    def _take_free(self) -> AddressRange:
        """Take a free address of the first entry that has one: the lowest, or a random one.

        Raises:
            Refused: no entry has a free address.
        """
        for name in self._space.layouts:
            space = self._view.holdings.get_space(name)
            if space.free:
                return (
                    self._take_random(space) if self._space.is_random else space.take_lowest(1)[0]
                )
        raise Refused(POOL_EXHAUSTED, EXHAUSTED)

    def _take_random(self, space: Space) -> AddressRange:
        """Take a random free address.

        A few random addresses are tried. If none of them is free, the first free address at or
        above the last one is taken, or else the lowest free address.
        """
        span = space.layout.cidr
        start = span.first
        for _ in range(RANDOM_TRIES):
            start = span.first + self._generator.randrange(span.size)
            try:
                return space.pin(AddressRange(start, start, span.family))
            except RequestRefused:
                continue
        # The caller has found that the space has a free address, so there is at least one extent.
        extents = list(space.free_extents())
        extents_above = (extent for extent in extents if extent.last >= start)
        extent = next(extents_above, extents[0])
        address = max(extent.first, start) if extent.last >= start else extent.first
        return space.pin(AddressRange(address, address, span.family))
