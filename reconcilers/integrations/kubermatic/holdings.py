"""Parse what IPAMAllocations hold, whichever controller made them. Pure functions.

If a part of an allocation cannot be parsed, the allocation holds only its other parts, and is
reported. Other clusters still get addresses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from allocator import AddressRange
from allocator.addresses import BITS, quote_value, union
from allocator.errors import MalformedText
from controller.meta import Object
from controller.plaintext import escape_text
from reconcilers.integrations.kubermatic.api import (
    AllocationSpec,
    KkpOutline,
)
from reconcilers.integrations.kubermatic.spaces import parse_prefix, parse_range

OVERLAPPING = "Overlapping"


@dataclass(frozen=True, slots=True)
class AllocationHoldings:
    """What one allocation holds.

    Args:
        addresses: the ranges of its `addresses`, in their order.
        prefix: its `cidr`; None if that is empty or cannot be parsed.
        faults: a message for each part that cannot be parsed.
    """

    addresses: tuple[AddressRange, ...] = ()
    prefix: AddressRange | None = None
    faults: tuple[str, ...] = ()

    @property
    def ranges(self) -> tuple[AddressRange, ...]:
        """The ranges of its `addresses`, and its prefix if it has one."""
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
def parse_holding(spec: AllocationSpec) -> AllocationHoldings:
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
    return AllocationHoldings(tuple(addresses), prefix, tuple(faults))


def parse_outline(outline: Object | None) -> tuple[AddressRange, ...] | None:
    """Return the ranges of an allocation that cannot be decoded as a whole.

    Args:
        outline: the fields with addresses, with values of any type; None if unknown.

    Returns:
        The ranges; None if they cannot be parsed, so that the allocation may hold any address.
    """
    if not isinstance(outline, KkpOutline):
        return None
    cidr, addresses = outline.spec.cidr or "", outline.spec.addresses or ()
    texts = (addresses,) if isinstance(addresses, str) else addresses
    if not isinstance(cidr, str) or not isinstance(texts, Sequence):
        return None
    if not all(isinstance(address_range, str) for address_range in texts):
        return None
    holding = parse_holding(AllocationSpec(cidr=cidr, addresses=tuple(texts)))
    return None if holding.faults else holding.ranges


@dataclass(frozen=True, slots=True)
class AllocationProblem:
    """A problem of an allocation, of a Cluster with a pool, or of a pool.

    Args:
        reason: a CamelCase word, for events and conditions.
        message: a sentence, or KKP's own words.
        is_harmless: whether a cluster has its addresses nevertheless.
    """

    reason: str
    message: str
    is_harmless: bool = False

    def __post_init__(self) -> None:
        """Escape the message, which may quote other objects' texts."""
        object.__setattr__(self, "message", escape_text(self.message))
