"""The ranges that a request takes from the spaces of its pool."""

from collections.abc import Sequence

from allocator import AddressRange, AllocatorError, Family, InvalidRequest, RequestRefused, Space
from reconcilers.addressing import familychoice, requestedranges, statusranges
from reconcilers.api.ipallocation import REQUIRE_DUAL_STACK, IPAllocation
from reconcilers.api.networkpool import NetworkPool


class FamilyRefused(RequestRefused):
    """One family of a pool cannot serve a request that names families.

    Args:
        refused: why.
    """

    def __init__(self, family: Family, refused: AllocatorError) -> None:
        super().__init__(f"{familychoice.FAMILY_NAMES[family]}: {refused}")
        self.refused = refused


def take_ranges(
    pool: NetworkPool, allocation: IPAllocation, spaces: Sequence[Space]
) -> tuple[AddressRange, ...]:
    """Take from `spaces` what an allocation asks for: a range of each family that it gets.

    An allocation whose phase was wiped gets the ranges again that it holds.

    Args:
        allocation: the request.
        spaces: of the pool's blocks, in order.

    Raises:
        AllocatorError: it cannot be served; nothing is taken.
    """
    held_ranges = statusranges.list_held_ranges(allocation)
    if len({part.family for part in held_ranges}) < len(held_ranges):
        # The fields of the status contradict each other, or `families` repeats a family. Neither a
        # journal nor a status has room for a second range of one family.
        ranges = ", ".join(part.text for part in held_ranges)
        raise InvalidRequest(f"its status shows several ranges of one family: {ranges}")
    # It gets the ranges that it holds, unless it requires both families and holds only one range.
    if held_ranges and (
        len(held_ranges) > 1 or allocation.spec.ipFamilyPolicy != REQUIRE_DUAL_STACK
    ):
        return held_ranges
    # The common case: there is no family to choose, and errors do not name a family.
    if len(spaces) == 1 and not allocation.spec.names_families:
        return (
            _take_family(
                pool,
                allocation,
                space=spaces[0],
                pinned=requestedranges.parse_first_pin(allocation),
            ),
        )
    return _take_families(pool, allocation, spaces=spaces, held_ranges=held_ranges)


def _take_families(
    pool: NetworkPool,
    allocation: IPAllocation,
    spaces: Sequence[Space],
    held_ranges: Sequence[AddressRange],
) -> tuple[AddressRange, ...]:
    """Take the ranges that an allocation lacks; return all its ranges, in the order of families.

    Raises:
        AllocatorError: a required family cannot serve it; the ranges taken here are free again.
    """
    by_family = {space.layout.family: space for space in spaces}
    pins = {pin.family: pin for pin in requestedranges.parse_pins(allocation)}
    choice = familychoice.choose_families(allocation, pool, tuple(by_family))
    ranges = {held_range.family: held_range for held_range in held_ranges}
    taken_ranges: list[AddressRange] = []
    for family in choice.families:
        if family in ranges:
            continue
        try:
            new = _take_family(pool, allocation, space=by_family[family], pinned=pins.get(family))
        except AllocatorError as refused:
            # PreferDualStack: the first family alone will do.
            if ranges and not choice.second_required:
                break
            # Put back here, because the trial of the caller also has the ranges of other requests.
            for unused in reversed(taken_ranges):
                by_family[unused.family].undo_take(unused)
            if not allocation.spec.names_families:
                raise
            raise FamilyRefused(family, refused) from refused
        taken_ranges.append(new)
        ranges[family] = new
    return tuple(ranges[family] for family in choice.families if family in ranges)


def _take_family(
    pool: NetworkPool, allocation: IPAllocation, space: Space, pinned: AddressRange | None
) -> AddressRange:
    """Take the range of one family: the pinned one, an aligned block, or a count of addresses.

    Raises:
        AllocatorError: the family has no such range free; nothing is taken.
    """
    if pinned is not None:
        return space.pin(pinned)
    prefix = allocation.spec.prefixLength
    if prefix is not None:
        return space.allocate_block(prefix)
    return space.allocate(requestedranges.count_requested(allocation, pool))
