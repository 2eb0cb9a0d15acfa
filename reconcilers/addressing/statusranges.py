"""The ranges in statuses: those that allocations hold, and those that pools promise."""

from allocator import AddressRange
from reconcilers.addressing import addresstexts
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import Assignment


def find_held_range(allocation: IPAllocation) -> AddressRange | None:
    """Return the range in the allocation's status, in whatever phase; None if it holds none.

    If start and end cannot be parsed, the range is that of `status.cidr`: some writers leave only
    that.
    """
    status = allocation.status
    held_range = None
    if status.startAddress and status.endAddress:
        held_range = addresstexts.parse_ends(status.startAddress, status.endAddress)
    if held_range is None and status.cidr:
        held_range = addresstexts.parse_cidr_or_span(status.cidr)
    return _as_ipv4(held_range)


def list_held_ranges(allocation: IPAllocation) -> tuple[AddressRange, ...]:
    """Return each range in the allocation's status once, in whatever phase.

    The range of startAddress and endAddress comes first; `families` repeats it.
    """
    first = find_held_range(allocation)
    if not allocation.status.families:
        return () if first is None else (first,)
    others = (
        _as_ipv4(addresstexts.parse_ends(part.startAddress, part.endAddress))
        for part in allocation.status.families
        if part.startAddress and part.endAddress
    )
    return tuple(
        dict.fromkeys(held_range for held_range in (first, *others) if held_range is not None)
    )


def _as_ipv4(held_range: AddressRange | None) -> AddressRange | None:
    """Return the IPv4 range of a range that is written as ::ffff:a.b.c.d; others unchanged."""
    return None if held_range is None else held_range.convert_to_family(4) or held_range


def waits_for_range(allocation: IPAllocation) -> bool:
    """Return whether an allocation holds no range, and is not being deleted."""
    return not allocation.metadata.is_terminating and find_held_range(allocation) is None


def describe_held_ends(allocation: IPAllocation) -> str:
    """Return the ends of every range in the allocation's status, for a message."""
    return " and ".join(
        f"{held_range.start_text} - {held_range.end_text}"
        for held_range in list_held_ranges(allocation)
    )


def list_promised_ranges(assignment: Assignment) -> tuple[AddressRange, ...]:
    """Return the ranges that an assignment promises, empty if one of them cannot be parsed."""
    first = addresstexts.parse_ends(assignment.startAddress, assignment.endAddress)
    if first is None:
        return ()  # the second range alone is not what was promised
    start, end = assignment.secondaryStartAddress, assignment.secondaryEndAddress
    if start is None and end is None:
        return (first,)
    second = addresstexts.parse_ends(start or "", end or "")
    return (first, second) if second is not None else ()
