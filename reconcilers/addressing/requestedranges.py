"""What a request asks for: the ranges that it pins, and how many addresses."""

from allocator import AddressRange, InvalidRequest
from reconcilers.addressing import addresstexts
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool


def parse_pins(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return the ranges that the allocation asks for by address, at most one of each family.

    Raises:
        AllocatorError: a range cannot be parsed, or its start is after its end, or two ranges are
            of one family.
    """
    spec = allocation.spec
    fields = (spec.pinnedRange,) if spec.pinnedRange is not None else spec.pinnedRanges
    pins = tuple(AddressRange.parse(pin.startAddress, pin.endAddress) for pin in fields)
    if len({pin.family for pin in pins}) < len(pins):
        raise InvalidRequest(
            "pinnedRanges has two ranges of one family; give at most one range of each family"
        )
    return pins


def parse_first_pin(allocation: IPAllocation) -> AddressRange | None:
    """Return the first pinned range; None if the allocation asks by count."""
    return next(iter(parse_pins(allocation)), None)


def count_requested(allocation: IPAllocation, pool: NetworkPool) -> int:
    """Return how many addresses an allocation asks for of each family.

    1. With a prefix length: the size of such a block; 0 if an address of the family is shorter.
    2. With a pinned range: as many as the pinned range has, so that a request has as many
       addresses of each family.
    3. Else the count in the spec, or the pool's default for the type.
    """
    spec, prefix = allocation.spec, allocation.spec.prefixLength
    if prefix is not None:
        is_ipv6 = spec.ipFamilies[0] == "IPv6" if spec.ipFamilies else pool.spec.family == 6
        address_bits = 128 if is_ipv6 else 32
        return 1 << address_bits - prefix if prefix <= address_bits else 0
    if spec.is_pinned:
        pin = spec.pins[-1]
        pinned_range = addresstexts.parse_ends(pin.startAddress, pin.endAddress)
        if pinned_range is not None:
            return pinned_range.size
    return spec.count or pool.spec.default_count(spec.type)
