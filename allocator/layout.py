"""A pool's geometry: which addresses it may hand out at all.

A pool owns a CIDR, hands out from one or several ranges inside it, and leaves reserved CIDRs
alone. What remains are its blocks: ranges that touch act as one, gaps and reservations split.
Network, broadcast and gateway addresses are like any other unless the caller reserves them.

What is wrong with a specification is a list of sentences. The rules, their order and their wording
are those of Butler's ValidatePoolSpec, so that webhook answers and conditions read the same. Two
differences: IPv6 is accepted, and a reserved CIDR of the other family is named as such.
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
    address_in,
    minus,
    quote_value,
    union,
)
from allocator.errors import InvalidCIDR, InvalidPool, InvalidRequest, OutOfRange, PoolTooLarge

MAX_ADDRESSES = 1_048_576
"""How many addresses a pool of IPv4 may span by default: a /12."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which addresses a pool may hand out.

    Args:
        cidr: all addresses that the pool owns.
        reserved: what is never handed out; what lies outside the ranges does not matter.
        ranges: what is handed out: inside `cidr`, ascending, without overlap, at least one.

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
        if not self.ranges:
            raise InvalidPool(["no allocatable ranges defined"])
        foreign = any(span.family != self.cidr.family for span in self.reserved)
        tangled = any(lower.last >= upper.first for lower, upper in pairwise(self.ranges))
        if foreign or tangled or not all(map(self.cidr.contains, self.ranges)):
            raise InvalidPool(
                ["ranges must lie in the pool CIDR, sorted and non-overlapping, in one family"]
            )
        holes = union(sorted((span.first, span.last) for span in self.reserved))
        ranges = union((span.first, span.last) for span in self.ranges)
        blocks = [AddressRange(*span, self.family) for span in minus(ranges, holes)]
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
        """Read a pool's specification.

        Args:
            cidr: the CIDR of the pool.
            reserved: CIDRs inside it that are never handed out.
            ranges: (start, end) of what is handed out; none means the whole CIDR.
            max_addresses: how many IPv4 addresses there may be from the first of the first range
                to the last of the last, gaps included; None for any number. IPv6 has no limit: the
                smallest subnet in use there, a /64, is beyond any that means something for IPv4.

        Raises:
            InvalidPool: the specification contradicts itself; carries every fault found.
            PoolTooLarge: it spans more than `max_addresses` of IPv4.
        """
        messages = validate_pool(cidr, reserved, ranges)
        if messages:
            raise InvalidPool(messages)
        whole = AddressRange.parse_cidr(cidr)
        parsed = [_read_range(*ends, whole.family) for ends in ranges] or [whole]
        kept = [_read_reserved(entry, whole.family) for entry in reserved]
        span = parsed[-1].last - parsed[0].first + 1
        if max_addresses is not None and whole.family == 4 and span > max_addresses:
            raise PoolTooLarge(span, max_addresses)
        return cls(whole, tuple(kept), tuple(parsed))

    @property
    def family(self) -> Family:
        """4 or 6."""
        return self.cidr.family

    def clip(self, span: Span) -> list[Span]:
        """Return the parts of a span that the pool may hand out, ascending."""
        first, last = span
        at = bisect_right(self._starts, first) - 1
        if at >= 0 and last <= self.blocks[at].last:
            return [span]  # almost every range lies in one block
        touched = self.blocks[max(at, 0) : bisect_right(self._starts, last)]
        return [
            (max(first, block.first), min(last, block.last))
            for block in touched
            if block.last >= first
        ]

    def span_of(self, address_range: AddressRange) -> Span | None:
        """Return a range as numbers of the pool's family, None if it is of the other one."""
        same = address_range.in_family(self.cidr.family)
        return None if same is None else (same.first, same.last)

    def pinned_span(self, pin: AddressRange) -> Span:
        """Return a wanted range as numbers, which has to lie inside one single range.

        Raises:
            OutOfRange: it does not.
        """
        span = self.span_of(pin)
        if span is not None:
            at = bisect_right(self.ranges, span[0], key=attrgetter("first")) - 1
            if at >= 0 and span[1] <= self.ranges[at].last:
                return span
        raise OutOfRange(self._why_not_inside(pin, span))

    def could_ever(self, count: int) -> bool:
        """Return whether the empty pool has `count` addresses in a row."""
        return 0 < count <= self.longest

    def block_size(self, prefix_length: int) -> int:
        """Return how many addresses a CIDR of this prefix length has.

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
        """How many addresses in a row the empty pool has."""
        return max((block.size for block in self.blocks), default=0)

    @property
    def largest_aligned(self) -> int:
        """How many addresses the largest CIDR has that the empty pool could hand out."""
        return max(map(_largest_aligned, self.blocks), default=0)

    def could_ever_pin(self, pin: AddressRange) -> bool:
        """Return whether the empty pool would hand out exactly this range."""
        try:
            span = self.pinned_span(pin)
        except OutOfRange:
            return False
        return self.clip(span) == [span]

    def _why_not_inside(self, pin: AddressRange, span: Span | None) -> str:
        """Return the message for a pinned range that lies in no single range of the pool."""
        name = f"pinned range {pin.start_text}-{pin.end_text}"
        if span is None:
            return f"{name} is IPv{pin.family}, the pool is IPv{self.family}"
        labels = [
            f"ranges[{at}] {address_range.start_text}-{address_range.end_text}"
            for at, address_range in enumerate(self.ranges)
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
    size = 1 << block.size.bit_length() - 1
    fits = -(-block.first // size) * size + size - 1 <= block.last
    return size if fits else size >> 1


def _read_range(start: str, end: str, family: Family) -> AddressRange:
    first, last = address_in(start, family), address_in(end, family)
    assert first is not None  # else validate_pool would have refused them
    assert last is not None
    return AddressRange(first, last, family)


def _read_reserved(entry: str, family: Family) -> AddressRange:
    reserved = AddressRange.parse_cidr(entry).in_family(family)
    assert reserved is not None  # likewise
    return reserved


Ends = tuple[str, str]
_Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class LayoutFault:
    """What is wrong in a pool's specification, and where.

    Args:
        path: the part at fault: `("cidr",)`, `("reserved", 1)`, `("ranges", 0, "start")`.
        message: one sentence.
    """

    path: tuple[str | int, ...]
    message: str


def validate_pool(
    cidr: str, reserved: Sequence[str] = (), ranges: Sequence[Ends] = ()
) -> list[str]:
    """Return every fault of a pool's specification, one sentence each; empty if it is sound.

    Args:
        cidr: the CIDR of the pool.
        reserved: CIDRs that are never handed out.
        ranges: (start, end) of what is handed out; none means the whole CIDR.
    """
    return [fault.message for fault in pool_faults(cidr, reserved, ranges)]


def pool_faults(
    cidr: str, reserved: Sequence[str] = (), ranges: Sequence[Ends] = ()
) -> list[LayoutFault]:
    """Return every fault of a pool's specification with its place; arguments as validate_pool."""
    try:
        pool = AddressRange.parse_cidr(cidr)
    except InvalidCIDR as error:
        return [LayoutFault(("cidr",), f"invalid pool CIDR: {error}")]
    kept = [_parse_reserved(cidr_entry, pool.family) for cidr_entry in reserved]
    bounds = [
        (address_in(start, pool.family), address_in(end, pool.family)) for start, end in ranges
    ]
    faults: list[LayoutFault] = []
    for at, (entry, reserved_range) in enumerate(zip(reserved, kept, strict=True)):
        if isinstance(reserved_range, str):
            faults.append(LayoutFault(("reserved", at), reserved_range))
        elif not pool.contains(reserved_range):
            message = (
                f"reserved CIDR {quote_value(entry)} is not within pool CIDR {quote_value(cidr)}"
            )
            faults.append(LayoutFault(("reserved", at), message))
    for index in range(len(ranges)):
        faults += _range_faults(pool, cidr, ranges=ranges, bounds=bounds, index=index)
    for at, (entry, reserved_range) in enumerate(zip(reserved, kept, strict=True)):
        if not isinstance(reserved_range, str):
            for message in _straddling_faults(entry, reserved_range, ranges=ranges, bounds=bounds):
                faults.append(LayoutFault(("reserved", at), message))
    return faults


def _parse_reserved(entry: str, family: Family) -> AddressRange | str:
    try:
        parsed = AddressRange.parse_cidr(entry)
    except InvalidCIDR as error:
        return f"invalid reserved CIDR {quote_value(entry)}: {error}"
    return parsed.in_family(family) or (
        f"invalid reserved CIDR {quote_value(entry)}: it is IPv{parsed.family},"
        f" the pool is IPv{family}"
    )


def _range_faults(
    pool: AddressRange, cidr: str, ranges: Sequence[Ends], bounds: Sequence[_Bounds], index: int
) -> Iterator[LayoutFault]:
    """Yield the faults of one range: addresses, order, CIDR, and the range before."""
    start, end = ranges[index]
    first, last = bounds[index]
    here = ("ranges", index)
    family = f"is not a valid IPv{pool.family} address"
    if first is None:
        yield LayoutFault((*here, "start"), f"ranges[{index}].start {quote_value(start)} {family}")
    elif last is None:
        yield LayoutFault((*here, "end"), f"ranges[{index}].end {quote_value(end)} {family}")
    elif first > last:
        yield LayoutFault(here, f"ranges[{index}] start {start} is after end {end}")
    else:
        if not (pool.contains(first) and pool.contains(last)):
            yield LayoutFault(
                here, f"ranges[{index}] ({start}-{end}) falls outside pool CIDR {cidr}"
            )
        before = bounds[index - 1][1] if index else None
        if before is not None and first <= before:
            yield LayoutFault(
                (*here, "start"),
                "ranges must be sorted by start IP and non-overlapping; "
                f"ranges[{index}].start ({start}) must be greater than "
                f"ranges[{index - 1}].end ({ranges[index - 1][1]})",
            )


def _straddling_faults(
    entry: str, reserved_range: AddressRange, ranges: Sequence[Ends], bounds: Sequence[_Bounds]
) -> Iterator[str]:
    """Refuse a reserved CIDR of which exactly one end lies inside a range.

    One that holds a whole range is sound: that range then hands out nothing.
    """
    for index, (first, last) in enumerate(bounds):
        if first is None or last is None:
            continue
        if (first <= reserved_range.first <= last) != (first <= reserved_range.last <= last):
            start, end = ranges[index]
            yield f"reserved CIDR {entry} straddles ranges[{index}] boundary ({start}-{end})"
