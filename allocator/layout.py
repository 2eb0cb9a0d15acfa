"""The layout of a pool: the addresses that it may allocate.

A pool owns a CIDR. It allocates from one or several ranges inside the CIDR, except for addresses
in reserved CIDRs. The result is a list of blocks, a block being consecutive addresses that may be
allocated. Ranges that touch are one block; gaps and reserved CIDRs split blocks. Network,
broadcast and gateway addresses are allocated like any other, unless the caller reserves them.

The faults of a specification are sentences. The rules, their order and their wording are those of
Butler's ValidatePoolSpec, so that webhook answers and conditions read the same. There are two
differences: IPv6 is accepted, and the message about a reserved CIDR of the other family says so.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

from allocator.addresses import (
    BITS,
    AddressRange,
    Family,
    Span,
    parse_address_in_family,
    quote_value,
    subtract_spans,
    union,
)
from allocator.errors import InvalidCIDR, InvalidPool, InvalidRequest, OutOfRange, PoolTooLarge

MAX_ADDRESSES = 1_048_576
"""The number of addresses that an IPv4 pool may span by default: a /12."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The addresses that a pool may allocate.

    Args:
        cidr: all addresses that the pool owns.
        reserved: addresses that are never allocated; they may lie outside of the ranges.
        ranges: the ranges to allocate from: at least one, inside `cidr`, ascending, disjoint.

    Raises:
        InvalidPool: ranges and CIDR contradict each other.
    """

    cidr: AddressRange
    reserved: tuple[AddressRange, ...]
    ranges: tuple[AddressRange, ...]
    blocks: tuple[AddressRange, ...] = field(init=False, repr=False, compare=False)
    total: int = field(init=False, repr=False, compare=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Validate the layout, and compute its blocks."""
        if not self.ranges:
            raise InvalidPool(["no allocatable ranges defined"])
        has_foreign = any(span.family != self.cidr.family for span in self.reserved)
        are_out_of_order = any(lower.last >= upper.first for lower, upper in pairwise(self.ranges))
        if has_foreign or are_out_of_order or not all(map(self.cidr.contains, self.ranges)):
            raise InvalidPool(
                ["ranges must lie in the pool CIDR, sorted and non-overlapping, in one family"]
            )
        holes = union(sorted((span.first, span.last) for span in self.reserved))
        ranges = union((span.first, span.last) for span in self.ranges)
        blocks = [AddressRange(*span, self.family) for span in subtract_spans(ranges, holes)]
        object.__setattr__(self, "blocks", tuple(blocks))
        object.__setattr__(self, "total", sum(block.size for block in blocks))
        object.__setattr__(self, "_starts", [block.first for block in blocks])

    @classmethod
    def parse(
        cls,
        cidr: str,
        reserved: Sequence[str] = (),
        ranges: Sequence[tuple[str, str]] = (),
        *,
        max_addresses: int | None = MAX_ADDRESSES,
    ) -> "Layout":
        """Parse a pool's specification.

        Args:
            cidr: the CIDR of the pool.
            reserved: CIDRs inside it that are never allocated.
            ranges: (start, end) of each range to allocate from; empty means the whole CIDR.
            max_addresses: the largest number of IPv4 addresses from the start of the first range
                to the end of the last one, gaps included; None for no limit. IPv6 has no limit,
                because even its usual subnet, a /64, exceeds any useful limit.

        Raises:
            InvalidPool: the specification has faults; the exception has all of them.
            PoolTooLarge: it spans more than `max_addresses` of IPv4.
        """
        messages = validate_pool(cidr, reserved, ranges)
        if messages:
            raise InvalidPool(messages)
        whole = AddressRange.parse_cidr(cidr)
        parsed = [_read_range(*ends, whole.family) for ends in ranges] or [whole]
        reserved_ranges = [_read_reserved(entry, whole.family) for entry in reserved]
        span = parsed[-1].last - parsed[0].first + 1
        if max_addresses is not None and whole.family == 4 and span > max_addresses:
            raise PoolTooLarge(span, max_addresses)
        return cls(whole, tuple(reserved_ranges), tuple(parsed))

    @property
    def family(self) -> Family:
        """4 or 6."""
        return self.cidr.family

    def clip(self, span: Span) -> list[Span]:
        """Return the parts of a span that the pool may allocate, ascending."""
        first, last = span
        index = bisect_right(self._starts, first) - 1
        if index >= 0 and last <= self.blocks[index].last:
            return [span]  # almost every range lies in one block
        touched = self.blocks[max(index, 0) : bisect_right(self._starts, last)]
        return [
            (max(first, block.first), min(last, block.last))
            for block in touched
            if block.last >= first
        ]

    def get_span(self, address_range: AddressRange) -> Span | None:
        """Return a range as numbers; None if it is not of the pool's family."""
        same = address_range.convert_to_family(self.cidr.family)
        return None if same is None else (same.first, same.last)

    def get_pinned_span(self, pin: AddressRange) -> Span:
        """Return a pinned range as numbers.

        Raises:
            OutOfRange: it does not lie inside a single range of the pool.
        """
        span = self.get_span(pin)
        if span is not None:
            index = bisect_right(self.ranges, span[0], key=attrgetter("first")) - 1
            if index >= 0 and span[1] <= self.ranges[index].last:
                return span
        raise OutOfRange(self._explain_outside(pin, span))

    def can_ever_fit(self, count: int) -> bool:
        """Return whether the empty pool has `count` consecutive addresses."""
        return 0 < count <= self.longest

    def block_size(self, prefix_length: int) -> int:
        """Return the number of addresses in a CIDR with this prefix length in the pool's family.

        Raises:
            InvalidRequest: the pool's family has no such prefix length.
        """
        bits = BITS[self.family]
        if not 0 <= prefix_length <= bits:
            raise InvalidRequest(
                f"prefix length {prefix_length} is none of IPv{self.family}: 0 to {bits} are"
            )
        return 1 << bits - prefix_length

    @property
    def longest(self) -> int:
        """The length of the longest block of the empty pool."""
        return max((block.size for block in self.blocks), default=0)

    @property
    def largest_aligned(self) -> int:
        """The size of the largest CIDR that the empty pool could allocate."""
        return max(map(_largest_aligned, self.blocks), default=0)

    def can_ever_pin(self, pin: AddressRange) -> bool:
        """Return whether the empty pool could allocate exactly this range."""
        try:
            span = self.get_pinned_span(pin)
        except OutOfRange:
            return False
        return self.clip(span) == [span]

    def _explain_outside(self, pin: AddressRange, span: Span | None) -> str:
        """Return the message for a pinned range that is not inside a single range of the pool."""
        name = f"pinned range {pin.start_text}-{pin.end_text}"
        if span is None:
            return f"{name} is IPv{pin.family}, the pool is IPv{self.family}"
        labels = [
            f"ranges[{index}] {address_range.start_text}-{address_range.end_text}"
            for index, address_range in enumerate(self.ranges)
        ]
        touched = [
            label
            for label, address_range in zip(labels, self.ranges, strict=True)
            if address_range.first <= span[1] and span[0] <= address_range.last
        ]
        if len(touched) > 1:
            return (
                f"{name} straddles allocatable ranges; must fit entirely within one range. "
                f"Overlapping ranges: {', '.join(touched)}"
            )
        return f"{name} is outside allocatable ranges [{', '.join(labels)}]"


def _largest_aligned(block: AddressRange) -> int:
    """Return the size of the largest CIDR in a block.

    That is the largest power of two up to the block's size, or half of it. The first address of a
    CIDR is a multiple of its size, so the block need not include a CIDR of the full power. It
    always includes a CIDR of the half.
    """
    size = 1 << block.size.bit_length() - 1
    # The first address is rounded up to a multiple of `size`.
    fits = -(-block.first // size) * size + size - 1 <= block.last
    return size if fits else size >> 1


def _read_range(start: str, end: str, family: Family) -> AddressRange:
    """Parse a range of a specification that `validate_pool` has accepted."""
    first, last = parse_address_in_family(start, family), parse_address_in_family(end, family)
    assert first is not None
    assert last is not None
    return AddressRange(first, last, family)


def _read_reserved(entry: str, family: Family) -> AddressRange:
    """Parse a reserved CIDR of a specification that `validate_pool` has accepted."""
    reserved = AddressRange.parse_cidr(entry).convert_to_family(family)
    assert reserved is not None
    return reserved


Ends = tuple[str, str]
_Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class LayoutFault:
    """A fault of a pool's specification.

    Args:
        path: the faulty field, such as `("cidr",)`, `("reserved", 1)`, `("ranges", 0, "start")`.
        message: a sentence about it.
    """

    path: tuple[str | int, ...]
    message: str


def validate_pool(
    cidr: str, reserved: Sequence[str] = (), ranges: Sequence[Ends] = ()
) -> list[str]:
    """Return the faults of a pool's specification, a sentence for each; empty if it is valid.

    Args:
        cidr: the CIDR of the pool.
        reserved: CIDRs that are never allocated.
        ranges: (start, end) of each range to allocate from; empty means the whole CIDR.
    """
    return [fault.message for fault in list_layout_faults(cidr, reserved, ranges)]


def list_layout_faults(
    cidr: str, reserved: Sequence[str] = (), ranges: Sequence[Ends] = ()
) -> list[LayoutFault]:
    """Return the faults of a pool's specification with their paths.

    The faults of reserved CIDRs that straddle ranges come last. The parameters are those of
    `validate_pool`.
    """
    try:
        pool = AddressRange.parse_cidr(cidr)
    except InvalidCIDR as error:
        # Without the CIDR, neither the family nor the bounds of the other fields are known.
        return [LayoutFault(("cidr",), f"invalid pool CIDR: {error}")]
    reserved_ranges = [_parse_reserved(cidr_entry, pool.family) for cidr_entry in reserved]
    bounds = [
        (parse_address_in_family(start, pool.family), parse_address_in_family(end, pool.family))
        for start, end in ranges
    ]
    faults: list[LayoutFault] = []
    for index, (entry, reserved_range) in enumerate(zip(reserved, reserved_ranges, strict=True)):
        if isinstance(reserved_range, str):
            faults.append(LayoutFault(("reserved", index), reserved_range))
        elif not pool.contains(reserved_range):
            message = (
                f"reserved CIDR {quote_value(entry)} is not within pool CIDR {quote_value(cidr)}"
            )
            faults.append(LayoutFault(("reserved", index), message))
    for index in range(len(ranges)):
        faults += _find_range_faults(pool, cidr, ranges=ranges, bounds=bounds, index=index)
    for index, (entry, reserved_range) in enumerate(zip(reserved, reserved_ranges, strict=True)):
        if not isinstance(reserved_range, str):
            for message in _find_straddling(entry, reserved_range, ranges=ranges, bounds=bounds):
                faults.append(LayoutFault(("reserved", index), message))
    return faults


def _parse_reserved(entry: str, family: Family) -> AddressRange | str:
    """Return a reserved CIDR, or the message about its fault."""
    try:
        parsed = AddressRange.parse_cidr(entry)
    except InvalidCIDR as error:
        return f"invalid reserved CIDR {quote_value(entry)}: {error}"
    return parsed.convert_to_family(family) or (
        f"invalid reserved CIDR {quote_value(entry)}: it is IPv{parsed.family},"
        f" the pool is IPv{family}"
    )


def _find_range_faults(
    pool: AddressRange, cidr: str, ranges: Sequence[Ends], bounds: Sequence[_Bounds], index: int
) -> Iterator[LayoutFault]:
    """Yield the faults of the range at an index.

    A range has only one fault if an address is invalid or its start is after its end. Otherwise it
    must lie inside the pool's CIDR, and begin after the end of the range before it.
    """
    start, end = ranges[index]
    first, last = bounds[index]
    range_path = ("ranges", index)
    family = f"is not a valid IPv{pool.family} address"
    if first is None:
        yield LayoutFault(
            (*range_path, "start"), f"ranges[{index}].start {quote_value(start)} {family}"
        )
    elif last is None:
        yield LayoutFault((*range_path, "end"), f"ranges[{index}].end {quote_value(end)} {family}")
    elif first > last:
        yield LayoutFault(range_path, f"ranges[{index}] start {start} is after end {end}")
    else:
        if not (pool.contains(first) and pool.contains(last)):
            yield LayoutFault(
                range_path, f"ranges[{index}] ({start}-{end}) falls outside pool CIDR {cidr}"
            )
        before = bounds[index - 1][1] if index else None
        if before is not None and first <= before:
            yield LayoutFault(
                (*range_path, "start"),
                "ranges must be sorted by start IP and non-overlapping; "
                f"ranges[{index}].start ({start}) must be greater than "
                f"ranges[{index - 1}].end ({ranges[index - 1][1]})",
            )


def _find_straddling(
    entry: str, reserved_range: AddressRange, ranges: Sequence[Ends], bounds: Sequence[_Bounds]
) -> Iterator[str]:
    """Yield the faults of a reserved CIDR of which exactly one end lies inside a range.

    A reserved CIDR that includes a whole range is valid; nothing is allocated from that range.
    """
    for index, (first, last) in enumerate(bounds):
        if first is None or last is None:
            # `_find_range_faults` reports a range that cannot be parsed.
            continue
        if (first <= reserved_range.first <= last) != (first <= reserved_range.last <= last):
            start, end = ranges[index]
            yield f"reserved CIDR {entry} straddles ranges[{index}] boundary ({start}-{end})"
