"""What a request asks for: the ranges that it pins, and how many addresses."""

from allocator import AddressRange, InvalidRequest
from reconcilers.addressing import addresstexts
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool


def parse_pins(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return the ranges that the allocation asks for by address, at most one of each family.

    Raises:
        AllocatorError: a range is none, for example because its start is after its end; or two are
            of one family.
    """
    spec = allocation.spec
    named = (spec.pinnedRange,) if spec.pinnedRange is not None else spec.pinnedRanges
    found = tuple(AddressRange.parse(one.startAddress, one.endAddress) for one in named)
    if len({one.family for one in found}) < len(found):
        raise InvalidRequest("pinnedRanges has one range of each family")
    return found


def parse_first_pin(allocation: IPAllocation) -> AddressRange | None:
    """Return the first pinned range; None if the allocation asks by count."""
    return next(iter(parse_pins(allocation)), None)


def count_requested(allocation: IPAllocation, pool: NetworkPool) -> int:
    """Return how many addresses an allocation asks for of each family that is not pinned.

    With a prefix length that the pool's family does not have it asks for nothing.
    """
    spec, prefix = allocation.spec, allocation.spec.prefixLength
    if prefix is None:
        named = (spec.pinnedRange, *spec.pinnedRanges)[-1] if spec.ipFamilyPolicy else None
        first = (
            addresstexts.parse_ends(named.startAddress, named.endAddress)
            if named is not None
            else None
        )
        if first is not None:
            return first.size
        return spec.count or pool.spec.default_count(spec.type)
    six = spec.ipFamilies[0] == "IPv6" if spec.ipFamilies else ":" in pool.spec.cidr
    bits = 128 if six else 32
    return 1 << bits - prefix if prefix <= bits else 0
