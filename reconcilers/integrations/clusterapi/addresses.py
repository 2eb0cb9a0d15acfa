"""What a pool of the in-cluster provider may hand out, in numbers. Pure functions.

A *block* is what a pool hands out to one claim: a single address, or a prefix. All blocks of a
pool have one size. The number of a block is its first address, shifted right by the bits that vary
within the block. So consecutive blocks have consecutive numbers, and the allocator, which computes
with runs of numbers, needs no list of single blocks.

A *space* is one set of addresses of a pool: holdings and promises name the space of each range.
A *hole* is a range within the listed addresses that the pool must not hand out.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

from allocator import (
    AddressRange,
    Family,
    InvalidPool,
    InvalidRange,
    Layout,
    name_edge_addresses,
)
from allocator.addresses import (
    BITS,
    Span,
    format_address,
    parse_address,
    quote_value,
    subtract_spans,
    union,
)
from allocator.errors import MalformedText
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.integrations.clusterapi.api import IPPoolSpec, PrefixPoolSpec
from reconcilers.promises.holdings import NO_LAYOUTS, Layouts
from reconcilers.promises.journal import PromisedRange

MAX_COUNT = 2**63 - 1
"""The largest number that a pool's status shows."""
OTHER_FAMILY = "other family"
"""The name of the space for held addresses of the family that the pool does not hand out."""


@dataclass(frozen=True, slots=True)
class PoolSpace:
    """What a pool may hand out.

    Args:
        layout: the blocks to hand out; its ranges are numbers of blocks, not addresses.
        shift: how many bits of an address vary within a block; 0 for single addresses.
        prefix: the value of `spec.prefix` in IPAddresses of the pool.
        gateway: the value of `spec.gateway` in IPAddresses of the pool; empty for none.
        has_prefix_blocks: whether a block is a prefix of length `prefix`; else it is one address.
        name: the name of the space in holdings and promises.
    """

    layout: Layout
    shift: int
    prefix: int
    gateway: str = ""
    has_prefix_blocks: bool = False
    name: str = ""
    has_cluster_tenants: ClassVar[bool] = False
    """Whether the tenant of a claim is its Cluster; if not, it is the namespace."""

    @property
    def layouts(self) -> Layouts:
        """The layout by the name of its space."""
        return {self.name: self.layout}

    @property
    def family(self) -> Family:
        """The IP version of the pool: 4 or 6."""
        return self.layout.family

    @property
    def total(self) -> int:
        """How many blocks the pool may hand out, whether they are held or free."""
        return self.layout.total

    def get_first_address(self, block: int) -> str:
        """Return the first address of the block with this number, as text."""
        return format_address(block << self.shift, self.family)

    def find_blocks(self, address: str, prefix: int) -> AddressRange | None:
        """Return the numbers of the blocks that an IPAddress holds.

        Args:
            address: its spec.address.
            prefix: its spec.prefix, the size of what it holds. A pool of single addresses
                ignores it, because there it is the length of the subnet.

        Returns:
            None if the address cannot be parsed, or is of the other family.
        """
        parsed = parse_address(address)
        if parsed is None or parsed[1] != self.family:
            return None
        value, bits = parsed[0], BITS[self.family]
        # A prefix length that no address of the family has counts as a single address.
        hosts = (1 << bits - prefix) - 1 if self.has_prefix_blocks and 0 <= prefix <= bits else 0
        first, last = value & ~hosts, value | hosts
        return AddressRange(first >> self.shift, last >> self.shift, self.family)

    def find_parts(self, address: str, prefix: int) -> tuple[PromisedRange, ...]:
        """Return the parts that an IPAddress holds: blocks, or an address of another family.

        The result is empty if the address cannot be parsed.
        """
        blocks = self.find_blocks(address, prefix)
        if blocks is not None:
            return (PromisedRange(blocks, self.name),)
        other = self.find_other_family_range(address)
        return () if other is None else (PromisedRange(other, OTHER_FAMILY),)

    def find_outside(self, address: str, prefix: int) -> Hashable | None:
        """Return an identity for an IPAddress outside of the pool; None if it is inside.

        The pool's count of addresses out of range is the number of distinct identities. The
        identity is the blocks of the IPAddress, or its text if it has no blocks.
        """
        if self.hands_out(address, prefix):
            return None
        return self.find_blocks(address, prefix) or address

    def find_other_family_range(self, address: str) -> AddressRange | None:
        """Return the address of an IPAddress of the other family, as a range.

        A NetworkPool of two families hands out addresses of its second family to IPAllocations.
        So an IPAddress of that family keeps an address from them.

        Returns:
            None if the address is of this family or cannot be parsed.
        """
        parsed = parse_address(address)
        if parsed is None or parsed[1] == self.family:
            return None
        return AddressRange(parsed[0], parsed[0], parsed[1])

    def hands_out(self, address: str, prefix: int) -> bool:
        """Return whether the pool may hand out exactly the block that an IPAddress holds."""
        blocks = self.find_blocks(address, prefix)
        if blocks is None or (self.has_prefix_blocks and prefix != self.prefix):
            return False
        # An address within a prefix, instead of its first address, is not what the pool gives.
        aligned = format_address(blocks.first << self.shift, self.family)
        same = parse_address(aligned) == parse_address(address)
        return same and self.layout.can_ever_pin(blocks)


class ClaimSpace(Protocol):
    """Finds the spaces of a pool in which the addresses of claims lie."""

    @property
    def has_cluster_tenants(self) -> bool:
        """Whether the tenant of a claim is its Cluster; if not, it is the namespace."""
        ...

    @property
    def layouts(self) -> Layouts:
        """What the pool may hand out, by space.

        It is empty if the facts of a claim, what it holds of the pool and whether it waits, do not
        depend on the spec of the pool.
        """
        ...

    def find_parts(self, address: str, prefix: int) -> tuple[PromisedRange, ...]:
        """Return the parts that an IPAddress holds, in the spaces of the pool."""
        ...

    def find_outside(self, address: str, prefix: int) -> Hashable | None:
        """Return an identity for an IPAddress outside of the pool; None if it is inside."""
        ...


@dataclass(frozen=True, slots=True)
class FamilySpaces:
    """The two spaces of a pool, one of each family, whatever its spec.

    An IPAddress holds its address in the space of its family, inside or outside of the pool. So a
    pool with an invalid spec has holdings as well.

    Args:
        has_cluster_tenants: whether the tenant of a claim is its Cluster; if not, it is the
            namespace.
    """

    has_cluster_tenants: bool
    layouts: ClassVar[Layouts] = NO_LAYOUTS

    def find_parts(self, address: str, prefix: int) -> tuple[PromisedRange, ...]:
        """Return the address that an IPAddress holds, in the space of its family."""
        del prefix
        parsed = parse_address(address)
        if parsed is None:
            return ()
        value, family = parsed
        address_range = AddressRange(value, value, family)
        # The text ::ffff:a.b.c.d parses as IPv6, but it means the IPv4 address a.b.c.d.
        address_range = address_range.convert_to_family(4) or address_range
        return (PromisedRange(address_range, FAMILY_NAMES[address_range.family]),)

    def find_outside(self, address: str, prefix: int) -> Hashable | None:
        """Return None: without the spec, no address is known to be outside.

        The pass over a NetworkPool finds these addresses by itself.
        """
        del address, prefix
        return None


FAMILY_SPACES = FamilySpaces(has_cluster_tenants=True)
"""The spaces of NetworkPools.

The tenant of a claim is its Cluster, because all claims of a NetworkPool are in one namespace.
Limits by tenant keep the claims of one Cluster from filling the journal of the pool.
"""
INVALID_POOL_SPACES = FamilySpaces(has_cluster_tenants=False)
"""The spaces of a pool of the in-cluster provider whose spec is invalid."""


def parse_ip_space(spec: IPPoolSpec) -> PoolSpace:
    """Return the space of a pool of addresses.

    The holes are the excluded addresses, the gateway and, unless the spec allows them, the first
    and last address of the subnet.

    Raises:
        InvalidPool: the spec has no addresses, something in it cannot be read, or the addresses
            are of two families or outside of one subnet.
    """
    listed = parse_entries(spec.addresses)
    if not listed:
        raise InvalidPool(["addresses is required"])
    family = listed[0].family
    holes = parse_entries(spec.excludedAddresses)
    if spec.gateway:
        holes.append(_parse_gateway(spec.gateway))
    lowest_address = min(addresses.first for addresses in listed)
    if any(addresses.family != family for addresses in listed):
        raise InvalidPool(["provided addresses are of mixed IP families"])
    if not 0 <= spec.prefix <= BITS[family]:
        raise InvalidPool(["provided prefix is not valid"])
    # With prefix 0 the subnet is the whole family, so any addresses may be listed.
    subnet = compute_subnet(lowest_address, spec.prefix, family)
    if not all(subnet.contains(addresses) for addresses in listed):
        raise InvalidPool(["provided address belongs to a different subnet than others"])
    if not spec.allocateReservedIPAddresses:
        holes += name_edge_addresses(subnet).values()
    layout = _build_layout(listed, holes, family)
    return PoolSpace(layout, 0, prefix=spec.prefix, gateway=spec.gateway)


def parse_prefix_space(spec: PrefixPoolSpec) -> PoolSpace:
    """Return the space of a pool of IPv6 prefixes; the gateway reserves nothing.

    Raises:
        InvalidPool: the spec has no prefixes, something in it cannot be read or is not IPv6, or
            a listed prefix is smaller than the prefixes to hand out.
    """
    listed = parse_entries(spec.prefixes)
    if not listed:
        raise InvalidPool(["prefixes is required"])
    if any(prefixes.family != 6 for prefixes in listed):
        raise InvalidPool(["only IPv6 prefixes are supported"])
    length = spec.allocationPrefixLength
    if not 1 <= length <= BITS[6]:
        raise InvalidPool(["allocationPrefixLength must be between 1 and 128"])
    if any(prefixes.size < 1 << BITS[6] - length for prefixes in listed):
        raise InvalidPool([f"CIDR prefix length must be <= allocationPrefixLength ({length})"])
    holes = parse_entries(spec.excludedPrefixes)
    shift = BITS[6] - length
    layout = _build_layout(listed, holes, family=6, shift=shift)
    return PoolSpace(layout, shift, prefix=length, gateway=spec.gateway, has_prefix_blocks=True)


def compute_subnet(address: int, prefix: int, family: Family) -> AddressRange:
    """Return the addresses of the subnet of an address.

    Args:
        address: any address of the subnet, as a number.
        prefix: the prefix length of the subnet.
    """
    hosts = (1 << BITS[family] - prefix) - 1
    return AddressRange(address & ~hosts, address | hosts, family)


def compute_smallest_cidr(first: int, last: int, family: Family) -> AddressRange:
    """Return the smallest CIDR that contains two addresses."""
    return compute_subnet(first, BITS[family] - (first ^ last).bit_length(), family)


def parse_entries(texts: Iterable[str]) -> list[AddressRange]:
    """Parse a list of addresses, ranges and CIDRs.

    Raises:
        InvalidPool: some entries cannot be parsed; the message names all of these entries.
    """
    parsed, faults = [], []
    for entry in texts:
        try:
            parsed.append(parse_entry(entry))
        except MalformedText:
            faults.append(f"{quote_value(entry)} is not a valid IP, range, nor CIDR")
    if faults:
        raise InvalidPool(faults)
    return parsed


def _parse_gateway(gateway: str) -> AddressRange:
    """Return the gateway as a range of one address.

    Raises:
        InvalidPool: it cannot be parsed.
    """
    try:
        return AddressRange.parse(gateway, gateway)
    except MalformedText:
        raise InvalidPool([f"gateway {quote_value(gateway)} is not an IP address"]) from None


def parse_entry(entry: str) -> AddressRange:
    """Parse an address, a range (first-last) or a CIDR; host bits of a CIDR are masked away.

    Raises:
        MalformedText: the text is none of these, or contains blanks.
    """
    start, dash, end = entry.partition("-")
    if dash:
        return AddressRange.parse(start, end)
    _, slash, length = entry.partition("/")
    if slash:
        if length != "0" and length.startswith("0"):
            raise InvalidRange(f"{quote_value(entry)} has a prefix length with a leading zero")
        return AddressRange.parse_cidr(entry)
    return AddressRange.parse(entry, entry)


def _build_layout(
    listed: Iterable[AddressRange], holes: Iterable[AddressRange], family: Family, shift: int = 0
) -> Layout:
    """Return the layout of the blocks that lie completely in `listed` and touch no hole.

    Args:
        listed: the addresses of the spec, all of this family.
        holes: addresses that are not handed out; holes of the other family are ignored.
        shift: how many bits of an address vary within a block.
    """
    whole = AddressRange(0, (1 << BITS[family] - shift) - 1, family)
    # The first address is rounded up, the last one down: a block that a range contains only in
    # part is not handed out. A range smaller than a block becomes an empty span, dropped below.
    inside = [
        (-(-first >> shift), ((last + 1) >> shift) - 1)
        for first, last in union(_sort_spans(listed, family))
    ]
    outside = subtract_spans(
        [(whole.first, whole.last)], [span for span in inside if span[0] <= span[1]]
    )
    touched = ((first >> shift, last >> shift) for first, last in _sort_spans(holes, family))
    closed = [AddressRange(*span, family) for span in (*outside, *touched)]
    # The layout offers all numbers of the family, except those that the pool does not hand out.
    return Layout(whole, tuple(closed), (whole,))


def _sort_spans(ranges: Iterable[AddressRange], family: Family) -> Iterator[Span]:
    """Yield the ranges of one family as pairs of numbers, ascending."""
    yield from sorted(
        (addresses.first, addresses.last) for addresses in ranges if addresses.family == family
    )


def to_blocks(space: PoolSpace, addresses: AddressRange) -> AddressRange:
    """Return the numbers of the blocks that a range of addresses touches."""
    shift = space.shift
    return AddressRange(addresses.first >> shift, addresses.last >> shift, addresses.family)


def to_addresses(space: PoolSpace, blocks: AddressRange) -> AddressRange:
    """Return the addresses of a range of blocks; `to_blocks` is the inverse."""
    shift = space.shift
    last = (blocks.last + 1 << shift) - 1
    return AddressRange(blocks.first << shift, last, blocks.family)
