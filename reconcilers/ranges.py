"""Between API objects and address arithmetic: what a spec means, what a status holds."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from allocator import AddressRange, AllocatorError, Layout
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import Assignment, NetworkPool, NetworkPoolSpec

T = TypeVar("T")


def layout(spec: NetworkPoolSpec, max_addresses: int) -> Layout:
    """Return the geometry that a pool's spec declares.

    Raises:
        InvalidPool: the spec contradicts itself; `messages` says where.
        PoolTooLarge: it has more than `max_addresses` addresses.
    """
    return Layout.parse(
        spec.cidr,
        [reserved.cidr for reserved in spec.reserved],
        spec.spans(),
        max_addresses=max_addresses,
    )


@lru_cache(maxsize=131_072)
def parsed(start: str, end: str) -> AddressRange | None:
    """Return the range from `start` to `end`, or None if that is no range."""
    try:
        return AddressRange.parse(start, end)
    except AllocatorError:
        return None


@lru_cache(maxsize=1_024)
def parsed_entry(text: str) -> AddressRange | None:
    """Return the range of a CIDR or `start-end`, or None if the text is neither."""
    start, dash, end = text.partition("-")
    if dash:
        return parsed(start.strip(), end.strip())
    try:
        return AddressRange.parse_cidr(text)
    except AllocatorError:
        return None


def held(allocation: IPAllocation) -> AddressRange | None:
    """Return the range in the allocation's status, in whatever phase; None if it holds none.

    A status with a cidr but without start and end that make sense, as some writers leave it, holds
    that.
    """
    status = allocation.status
    found = None
    if status.startAddress and status.endAddress:
        found = parsed(status.startAddress, status.endAddress)
    return found or (parsed_entry(status.cidr) if status.cidr else None)


def promised(assignment: Assignment) -> AddressRange | None:
    """Return the range that an assignment promises; None if it is not a range."""
    return parsed(assignment.startAddress, assignment.endAddress)


def pinned(allocation: IPAllocation) -> AddressRange | None:
    """Return the range that the allocation asks for by address; None if it asks by count.

    Raises:
        AllocatorError: the range is none, for example because its start is after its end.
    """
    wanted = allocation.spec.pinnedRange
    if wanted is None:
        return None
    return AddressRange.parse(wanted.startAddress, wanted.endAddress)


def requested(allocation: IPAllocation, pool: NetworkPool) -> int:
    """Return how many addresses an unpinned allocation asks for.

    With a prefix length that the pool's family does not have it asks for nothing.
    """
    spec, prefix = allocation.spec, allocation.spec.prefixLength
    if prefix is None:
        return spec.count or pool.spec.default_count(spec.type)
    bits = 128 if ":" in pool.spec.cidr else 32
    return 1 << bits - prefix if prefix <= bits else 0


def overlapping(found: Iterable[tuple[T, AddressRange]]) -> Iterator[tuple[T, T]]:
    """Yield each pair of things whose ranges share an address, the one that begins first first."""
    by_start = sorted(found, key=lambda one: (one[1].family, one[1].first, one[1].last))
    for at, (one, its_range) in enumerate(by_start):
        for other, other_range in by_start[at + 1 :]:
            if not its_range.overlaps(other_range):
                break  # nor does any that begins later
            yield one, other
