"""What is wrong with a pool's specification, as a list of sentences.

The rules, their order and their wording are those of Butler's ValidatePoolSpec, so that webhook
answers and conditions read the same. Two differences: IPv6 is accepted, and a reserved CIDR of the
other family is named as such.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from allocator.addresses import AddressRange, Family, address_in, quoted
from allocator.errors import InvalidCIDR

Ends = tuple[str, str]
_Bounds = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Fault:
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
) -> list[Fault]:
    """Return every fault of a pool's specification with its place; arguments as validate_pool."""
    try:
        pool = AddressRange.parse_cidr(cidr)
    except InvalidCIDR as error:
        return [Fault(("cidr",), f"invalid pool CIDR: {error}")]
    kept = [_read_reserved(text, pool.family) for text in reserved]
    bounds = [
        (address_in(start, pool.family), address_in(end, pool.family)) for start, end in ranges
    ]
    faults: list[Fault] = []
    for at, (text, held) in enumerate(zip(reserved, kept, strict=True)):
        if isinstance(held, str):
            faults.append(Fault(("reserved", at), held))
        elif not pool.contains(held):
            message = f"reserved CIDR {quoted(text)} is not within pool CIDR {quoted(cidr)}"
            faults.append(Fault(("reserved", at), message))
    for index in range(len(ranges)):
        faults += _range_faults(pool, cidr, ranges, bounds, index)
    for at, (text, held) in enumerate(zip(reserved, kept, strict=True)):
        if not isinstance(held, str):
            for message in _straddling_faults(text, held, ranges, bounds):
                faults.append(Fault(("reserved", at), message))
    return faults


def _read_reserved(text: str, family: Family) -> AddressRange | str:
    try:
        parsed = AddressRange.parse_cidr(text)
    except InvalidCIDR as error:
        return f"invalid reserved CIDR {quoted(text)}: {error}"
    return parsed.in_family(family) or (
        f"invalid reserved CIDR {quoted(text)}: it is IPv{parsed.family}, the pool is IPv{family}"
    )


def _range_faults(
    pool: AddressRange, cidr: str, ranges: Sequence[Ends], bounds: Sequence[_Bounds], index: int
) -> Iterator[Fault]:
    start, end = ranges[index]
    first, last = bounds[index]
    here = ("ranges", index)
    family = f"is not a valid IPv{pool.family} address"
    if first is None:
        yield Fault((*here, "start"), f"ranges[{index}].start {quoted(start)} {family}")
    elif last is None:
        yield Fault((*here, "end"), f"ranges[{index}].end {quoted(end)} {family}")
    elif first > last:
        yield Fault(here, f"ranges[{index}] start {start} is after end {end}")
    else:
        if not (pool.contains(first) and pool.contains(last)):
            yield Fault(here, f"ranges[{index}] ({start}-{end}) falls outside pool CIDR {cidr}")
        before = bounds[index - 1][1] if index else None
        if before is not None and first <= before:
            yield Fault(
                (*here, "start"),
                "ranges must be sorted by start IP and non-overlapping; "
                f"ranges[{index}].start ({start}) must be greater than "
                f"ranges[{index - 1}].end ({ranges[index - 1][1]})",
            )


def _straddling_faults(
    text: str, held: AddressRange, ranges: Sequence[Ends], bounds: Sequence[_Bounds]
) -> Iterator[str]:
    """Refuse a reserved CIDR of which exactly one end lies inside a range.

    One that holds a whole range is sound: that range then hands out nothing.
    """
    for index, (first, last) in enumerate(bounds):
        if first is None or last is None:
            continue
        if (first <= held.first <= last) != (first <= held.last <= last):
            start, end = ranges[index]
            yield f"reserved CIDR {text} straddles ranges[{index}] boundary ({start}-{end})"
