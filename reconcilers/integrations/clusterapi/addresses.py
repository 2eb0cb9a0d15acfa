"""What a pool of the in-cluster provider may hand out, in numbers. Pure functions.

A pool hands out blocks of one size: single addresses, or prefixes of one length. Blocks are
numbered as they lie in the address space, so a block's number is its first address without the
bits that vary within it, and everything else is the allocator's arithmetic on numbers: free
blocks are runs, never one by one.
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
    address_text,
    minus,
    parse_address,
    quote_value,
    union,
)
from allocator.errors import MalformedText
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.integrations.clusterapi.api import IPPoolSpec, PrefixPoolSpec
from reconcilers.promises.holdings import NO_LAYOUTS, Layouts
from reconcilers.promises.journal import PromisedRange

MOST = 2**63 - 1
"""The largest number that a pool's status shows."""
OTHER_FAMILY = "other family"
"""The space of addresses that are not of the family which a pool hands out to claims."""


@dataclass(frozen=True, slots=True)
class PoolSpace:
    """What a pool may hand out.

    Args:
        layout: in numbers of blocks.
        shift: how many bits of an address vary within a block; 0 for single addresses.
        prefix: what IPAddresses of the pool say in `spec.prefix`.
        gateway: what they say in `spec.gateway`, as written; empty for nothing.
        prefixes: whether prefixes are handed out, of which `prefix` is the length.
        name: of the space in holdings and promises.
    """

    layout: Layout
    shift: int
    prefix: int
    gateway: str = ""
    prefixes: bool = False
    name: str = ""
    has_cluster_tenants: ClassVar[bool] = False
    """Whether the tenant of a claim is its Cluster; if not, it is the namespace."""

    @property
    def layouts(self) -> Layouts:
        """The layout by the name of its space."""
        return {self.name: self.layout}

    @property
    def family(self) -> Family:
        """4 or 6."""
        return self.layout.family

    @property
    def total(self) -> int:
        """How many blocks it may hand out."""
        return self.layout.total

    def text(self, block: int) -> str:
        """Return the first address of a block."""
        return address_text(block << self.shift, self.family)

    def find_blocks(self, address: str, prefix: int) -> AddressRange | None:
        """Return the blocks that an IPAddress holds; None if it is no address of this family.

        Args:
            address: its spec.address.
            prefix: its spec.prefix; how much it holds, where prefixes are handed out.
        """
        parsed = parse_address(address)
        if parsed is None or parsed[1] != self.family:
            return None
        value, bits = parsed[0], BITS[self.family]
        hosts = (1 << bits - prefix) - 1 if self.prefixes and 0 <= prefix <= bits else 0
        first, last = value & ~hosts, value | hosts
        return AddressRange(first >> self.shift, last >> self.shift, self.family)

    def parts_of(self, address: str, prefix: int) -> tuple[PromisedRange, ...]:
        """Return the parts that an IPAddress holds: blocks, or an address of another family."""
        blocks = self.find_blocks(address, prefix)
        if blocks is not None:
            return (PromisedRange(blocks, self.name),)
        other = self.held_of_other_family(address)
        return () if other is None else (PromisedRange(other, OTHER_FAMILY),)

    def outside_of(self, address: str, prefix: int) -> Hashable | None:
        """Return the part of an IPAddress that the pool may not hand out; None without one."""
        if self.hands_out(address, prefix):
            return None
        return self.find_blocks(address, prefix) or address

    def held_of_other_family(self, address: str) -> AddressRange | None:
        """Return the address that an IPAddress holds if it is not of this family; None if it is.

        A NetworkPool of two families hands out addresses of the other one to IPAllocations.
        """
        parsed = parse_address(address)
        if parsed is None or parsed[1] == self.family:
            return None
        return AddressRange(parsed[0], parsed[0], parsed[1])

    def hands_out(self, address: str, prefix: int) -> bool:
        """Return whether the pool may hand out what an IPAddress holds, exactly."""
        blocks = self.find_blocks(address, prefix)
        if blocks is None or (self.prefixes and prefix != self.prefix):
            return False
        aligned = address_text(blocks.first << self.shift, self.family)
        same = parse_address(aligned) == parse_address(address)
        return same and self.layout.could_ever_pin(blocks)


class ClaimSpace(Protocol):
    """In which spaces of a pool the addresses of claims lie."""

    @property
    def has_cluster_tenants(self) -> bool:
        """Whether the tenant of a claim is its Cluster; if not, it is the namespace."""
        ...

    @property
    def layouts(self) -> Layouts:
        """What the pool may hand out, as far as the facts of claims depend on it."""
        ...

    def parts_of(self, address: str, prefix: int) -> tuple[PromisedRange, ...]:
        """Return the parts that an IPAddress holds, in the spaces of the pool."""
        ...

    def outside_of(self, address: str, prefix: int) -> Hashable | None:
        """Return the part of an IPAddress that the pool may not hand out; None without one."""
        ...


class FamilySpaces:
    """The spaces of NetworkPools: one of each family, whatever the spec of the pool says.

    An IPAddress holds its address in the space of its family, wherever that lies. So a pool with
    an invalid spec has holdings as well. All claims of such a pool are in one namespace, and a
    Cluster must not fill the journal that others need.
    """

    has_cluster_tenants = True
    layouts = NO_LAYOUTS

    def parts_of(self, address: str, prefix: int) -> tuple[PromisedRange, ...]:
        """Return the address that an IPAddress holds, in the space of its family."""
        del prefix
        parsed = parse_address(address)
        if parsed is None:
            return ()
        value, family = parsed
        address_range = AddressRange(value, value, family)
        # Written as ::ffff:a.b.c.d, it is an address of IPv4.
        address_range = address_range.in_family(4) or address_range
        return (PromisedRange(address_range, FAMILY_NAMES[address_range.family]),)

    def outside_of(self, address: str, prefix: int) -> Hashable | None:
        """Return None: the pool compares all that is held with what it may hand out."""
        del address, prefix
        return None


FAMILY_SPACES = FamilySpaces()


def ip_space(spec: IPPoolSpec) -> PoolSpace:
    """Return the space of a pool of addresses.

    Raises:
        InvalidPool: the spec has no addresses, or something in it cannot be read.
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
    subnet = subnet_of(lowest_address, spec.prefix, family)
    if not all(subnet.contains(addresses) for addresses in listed):
        raise InvalidPool(["provided address belongs to a different subnet than others"])
    if not spec.allocateReservedIPAddresses:
        holes += name_edge_addresses(subnet).values()
    layout = _layout(listed, holes, family)
    return PoolSpace(layout, 0, prefix=spec.prefix, gateway=spec.gateway)


def prefix_space(spec: PrefixPoolSpec) -> PoolSpace:
    """Return the space of a pool of prefixes.

    Raises:
        InvalidPool: the spec has no prefixes, or something in it cannot be read.
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
    layout = _layout(listed, holes, family=6, shift=shift)
    return PoolSpace(layout, shift, prefix=length, gateway=spec.gateway, prefixes=True)


def subnet_of(address: int, prefix: int, family: Family) -> AddressRange:
    """Return the subnet that an address lies in, by the length of its prefix."""
    hosts = (1 << BITS[family] - prefix) - 1
    return AddressRange(address & ~hosts, address | hosts, family)


def smallest_cidr(first: int, last: int, family: Family) -> AddressRange:
    """Return the smallest CIDR that has both of two addresses."""
    return subnet_of(first, BITS[family] - (first ^ last).bit_length(), family)


def parse_entries(texts: Iterable[str]) -> list[AddressRange]:
    """Read a list of addresses, ranges and CIDRs.

    Raises:
        InvalidPool: one is none of these; names every one.
    """
    parsed, wrong = [], []
    for entry in texts:
        try:
            parsed.append(parse_entry(entry))
        except MalformedText:
            wrong.append(f"{quote_value(entry)} is not a valid IP, range, nor CIDR")
    if wrong:
        raise InvalidPool(wrong)
    return parsed


def _parse_gateway(gateway: str) -> AddressRange:
    try:
        return AddressRange.parse(gateway, gateway)
    except MalformedText:
        raise InvalidPool([f"gateway {quote_value(gateway)} is not an IP address"]) from None


def parse_entry(entry: str) -> AddressRange:
    """Read an address, a range or a CIDR, whose host bits are masked away.

    Raises:
        MalformedText: the text is none of these; blanks are none of its parts.
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


def _layout(
    listed: Iterable[AddressRange], holes: Iterable[AddressRange], family: Family, shift: int = 0
) -> Layout:
    """Return the blocks that lie in what is listed as a whole, and touch no hole.

    Args:
        listed: of this family.
        holes: of any.
        family: of the pool.
        shift: how many bits of an address vary within a block.
    """
    whole = AddressRange(0, (1 << BITS[family] - shift) - 1, family)
    inside = [
        (-(-first >> shift), ((last + 1) >> shift) - 1)
        for first, last in union(_spans(listed, family))
    ]
    outside = minus([(whole.first, whole.last)], [span for span in inside if span[0] <= span[1]])
    touched = ((first >> shift, last >> shift) for first, last in _spans(holes, family))
    closed = [AddressRange(*span, family) for span in (*outside, *touched)]
    return Layout(whole, tuple(closed), (whole,))


def _spans(ranges: Iterable[AddressRange], family: Family) -> Iterator[Span]:
    """Yield the ranges of one family as pairs of numbers, ascending."""
    yield from sorted(
        (addresses.first, addresses.last) for addresses in ranges if addresses.family == family
    )


def blocks_of(space: PoolSpace, addresses: AddressRange) -> AddressRange:
    """Return the blocks of a space that a range of addresses touches."""
    shift = space.shift
    return AddressRange(addresses.first >> shift, addresses.last >> shift, addresses.family)


def addresses_of(space: PoolSpace, blocks: AddressRange) -> AddressRange:
    """Return the addresses of a range of blocks."""
    shift = space.shift
    last = (blocks.last + 1 << shift) - 1
    return AddressRange(blocks.first << shift, last, blocks.family)
