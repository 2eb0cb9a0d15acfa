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
    """Return how many addresses an allocation asks for of each family that is not pinned.

    It is 0 if the prefix length is longer than an address of the family.
    """
    spec, prefix = allocation.spec, allocation.spec.prefixLength
    if prefix is None:
        pin = (spec.pinnedRange, *spec.pinnedRanges)[-1] if spec.ipFamilyPolicy else None
        pinned = None if pin is None else addresstexts.parse_ends(pin.startAddress, pin.endAddress)
        if pinned is not None:
            return pinned.size
        return spec.count or pool.spec.default_count(spec.type)
    is_ipv6 = spec.ipFamilies[0] == "IPv6" if spec.ipFamilies else pool.spec.family == 6
    bits = 128 if is_ipv6 else 32
    return 1 << bits - prefix if prefix <= bits else 0
