"""What IPAMAllocations hold, whichever controller made them. Pure functions.

One that cannot be read holds what of it can be, blocks no other, and is reported itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from allocator import AddressRange
from allocator.addresses import BITS, quote_value, union
from allocator.errors import MalformedText
from controller.meta import Key, Object
from controller.plaintext import escape_text
from reconcilers.integrations.kubermatic.api import (
    AllocationOutline,
    AllocationSpec,
    IPAMAllocation,
)
from reconcilers.integrations.kubermatic.spaces import (
    DatacenterSpace,
    parse_prefix,
    parse_range,
)

INCOMPATIBLE = "pool is incompatible with a current cluster allocation"
INVALID_ALLOCATION = "InvalidAllocation"
OUT_OF_POOL = "OutOfPool"
OVERLAPPING = "Overlapping"


@dataclass(frozen=True, slots=True)
class Held:
    """What one allocation holds.

    Args:
        addresses: the ranges of its `addresses`, in their order.
        prefix: its `cidr`; None for none.
        faults: what of both cannot be read.
    """

    addresses: tuple[AddressRange, ...] = ()
    prefix: AddressRange | None = None
    faults: tuple[str, ...] = ()

    @property
    def ranges(self) -> tuple[AddressRange, ...]:
        """All that it holds."""
        return (*self.addresses, *([self.prefix] if self.prefix else []))

    @property
    def count(self) -> int:
        """How many different addresses its `addresses` have."""
        spans = sorted((span.first, span.last) for span in self.addresses)
        return sum(last - first + 1 for first, last in union(spans))

    def prefix_length(self) -> int | None:
        """Return the length of its prefix; None if it has none."""
        if self.prefix is None:
            return None
        return BITS[self.prefix.family] - (self.prefix.size.bit_length() - 1)


@lru_cache(maxsize=16_384)
def parse_holding(spec: AllocationSpec) -> Held:
    """Return the addresses, the prefix and the faults of an allocation's spec."""
    addresses, faults = [], []
    prefix = None
    for address_range in spec.addresses:
        try:
            addresses.append(parse_range(address_range))
        except MalformedText:
            faults.append(f"wrong ip format: {quote_value(address_range)}")
    if spec.cidr:
        try:
            prefix = parse_prefix(spec.cidr)
        except MalformedText:
            faults.append(f"wrong ip format: {quote_value(spec.cidr)}")
    return Held(tuple(addresses), prefix, tuple(faults))


def parse_outline(outline: Object | None) -> tuple[AddressRange, ...] | None:
    """Return the ranges of an allocation that cannot be decoded, by its outline.

    Returns:
        The ranges; None if the addresses cannot be read either, so that it may hold any.
    """
    if not isinstance(outline, AllocationOutline):
        return None
    cidr, addresses = outline.spec.cidr or "", outline.spec.addresses or ()
    texts = (addresses,) if isinstance(addresses, str) else addresses
    if not isinstance(cidr, str) or not isinstance(texts, Sequence):
        return None
    if not all(isinstance(address_range, str) for address_range in texts):
        return None
    read = parse_holding(AllocationSpec(cidr=cidr, addresses=tuple(texts)))
    return None if read.faults else read.ranges


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: a reason in one word, and a sentence.

    Args:
        reason: the word.
        message: the sentence.
        harmless: whether a cluster has its addresses nevertheless.
    """

    reason: str
    message: str
    harmless: bool = False

    def __post_init__(self) -> None:
        """Escape the message, which may quote other objects' texts."""
        object.__setattr__(self, "message", escape_text(self.message))


def problems(
    allocations: Sequence[IPAMAllocation], space: DatacenterSpace
) -> Mapping[Key, Problem]:
    """Return the problems of allocations in one datacenter of a pool, by their keys."""
    problems_by_key = dict(_overlapping(allocations))
    for allocation in allocations:
        holding = parse_holding(allocation.spec)
        if holding.faults:
            problems_by_key[allocation.metadata.key] = Problem(
                INVALID_ALLOCATION, "; ".join(holding.faults)
            )
            continue
        out = [part for part in holding.ranges if not space.hands_out(part)]
        if not out:
            continue
        ranges = ", ".join(part.text for part in out)
        if not space.prefixes and all(space.has(part) for part in out):
            # As to KKP: an address that a range has is counted, also if it was excluded later.
            message = (
                f"{ranges} has addresses that the pool excludes now; they stay where they are"
            )
            problems_by_key.setdefault(
                allocation.metadata.key, Problem(OUT_OF_POOL, message, harmless=True)
            )
        else:
            message = f"{INCOMPATIBLE}: {ranges} is excluded, or not in the pool"
            problems_by_key[allocation.metadata.key] = Problem(OUT_OF_POOL, message)
    return problems_by_key


def _overlapping(allocations: Iterable[IPAMAllocation]) -> Iterator[tuple[Key, Problem]]:
    """Yield the allocations that hold some of the same addresses, each with one other."""
    parts = sorted(
        (part.family, part.first, part.last, allocation.metadata.key)
        for allocation in allocations
        for part in parse_holding(allocation.spec).ranges
    )
    family, reach, furthest = 0, -1, Key("", "")
    for part_family, first, last, key in parts:
        if part_family != family:
            family, reach = part_family, -1
        if first <= reach and key != furthest:
            for holder, other in ((key, furthest), (furthest, key)):
                message = f"addresses of this allocation are also held by IPAMAllocation {other}"
                yield holder, Problem(OVERLAPPING, message)
        if last > reach:
            reach, furthest = last, key
