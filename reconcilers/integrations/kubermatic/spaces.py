"""What one datacenter of an IPAMPool may hand out, in numbers. Pure functions.

A *block* is what a datacenter hands out: a single address, or a prefix of the pool's length. The
number of a block is its first address, shifted right by the bits that vary within the block.
Blocks are never listed one by one: a /32 of IPv6 has 2^96 addresses.

Host bits are masked, so that 10.0.0.5/24 excludes 10.0.0.0/24. An IPv4 address that is written as
IPv6, such as ::ffff:10.0.0.1, counts as IPv4: Go's parser, and so KKP, reads it like that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from allocator import AddressRange, Family, InvalidPool, Layout
from allocator.addresses import BITS, format_address, parse_address_in_family, quote_value
from allocator.errors import MalformedText
from reconcilers.integrations.kubermatic.api import PREFIX, RANGE, Datacenter

INVALID_PREFIX = "invalid prefix for subnet"


@dataclass(frozen=True, slots=True)
class DatacenterSpace:
    """What one datacenter of a pool may hand out.

    Args:
        layout: the blocks to hand out; its ranges are numbers of blocks, not addresses.
        shift: how many bits of an address vary within a block; 0 for single addresses.
        block_count: how many blocks each cluster gets.
        prefixes: True if a block is a prefix; False if it is one address.
    """

    layout: Layout
    shift: int
    block_count: int
    prefixes: bool

    @property
    def family(self) -> Family:
        """The IP version of the datacenter's addresses: 4 or 6."""
        return self.layout.family

    def get_blocks(self, addresses: AddressRange) -> AddressRange | None:
        """Return the blocks that addresses touch; None if they are of the other family."""
        touched = addresses.convert_to_family(self.family)
        if touched is None:
            return None
        return AddressRange(touched.first >> self.shift, touched.last >> self.shift, self.family)

    def get_addresses(self, blocks: AddressRange) -> AddressRange:
        """Return the addresses of a range of blocks."""
        last = (blocks.last + 1 << self.shift) - 1  # the address before the next block
        return AddressRange(blocks.first << self.shift, last, self.family)

    def has(self, addresses: AddressRange) -> bool:
        """Return whether all of these addresses lie in the datacenter's CIDR, excluded or not."""
        blocks = self.get_blocks(addresses)
        return blocks is not None and self.layout.cidr.contains(blocks)

    def hands_out(self, addresses: AddressRange) -> bool:
        """Return whether all of these addresses lie in the CIDR and none is excluded."""
        blocks = self.get_blocks(addresses)
        return blocks is not None and any(block.contains(blocks) for block in self.layout.blocks)


def parse_space(datacenter: Datacenter) -> DatacenterSpace:
    """Return the space that a datacenter of a pool may hand out.

    Raises:
        InvalidPool: its settings cannot be served.
    """
    try:
        # The prefix length counts in the family as written: ::ffff:10.0.0.0/104 has 128 bits.
        written = AddressRange.parse_cidr(datacenter.poolCidr)
        whole = parse_prefix(datacenter.poolCidr)
    except MalformedText:
        raise InvalidPool([f"invalid CIDR address: {datacenter.poolCidr}"]) from None
    if datacenter.type == RANGE:
        if datacenter.allocationRange <= 0:
            raise InvalidPool(["allocation range should be greater than zero"])
        holes = _parse_exclusions(datacenter.excludeRanges, parse_range)
        layout = _build_block_layout(whole, holes, 0)
        return DatacenterSpace(layout, 0, block_count=datacenter.allocationRange, prefixes=False)
    if datacenter.type != PREFIX:
        raise InvalidPool([f"unknown allocation type {quote_value(datacenter.type)}"])
    shift = BITS[written.family] - datacenter.allocationPrefix
    # A block has at least one address, and at most all of the pool.
    if not 0 <= shift <= whole.size.bit_length() - 1:
        raise InvalidPool([INVALID_PREFIX])
    holes = _parse_exclusions(datacenter.excludePrefixes, parse_prefix)
    return DatacenterSpace(
        _build_block_layout(whole, holes, shift), shift, block_count=1, prefixes=True
    )


def parse_range(range_text: str) -> AddressRange:
    """Parse `a-b`, or `a` alone.

    Raises:
        InvalidRange: the text is neither; blanks around an address do not matter.
    """
    start, dash, end = range_text.partition("-")
    return AddressRange.parse(
        to_ipv4_text(start.strip()), to_ipv4_text((end if dash else start).strip())
    )


def parse_prefix(cidr: str) -> AddressRange:
    """Parse `address/length`; host bits do not matter, and ::ffff:a.b.c.d counts as IPv4.

    Raises:
        InvalidCIDR: the text is not of that form.
    """
    prefix = AddressRange.parse_cidr(cidr)
    return prefix.convert_to_family(4) or prefix


def to_ipv4_text(address: str) -> str:
    """Return the IPv4 form of an IPv4-mapped IPv6 address; any other text unchanged."""
    value = parse_address_in_family(address, 4)
    return address if value is None else format_address(value, 4)


def _parse_exclusions(
    texts: Iterable[str], parse: Callable[[str], AddressRange]
) -> list[AddressRange]:
    """Parse all exclusions of a datacenter.

    Raises:
        InvalidPool: some cannot be parsed; it names all of these.
    """
    parsed_ranges, wrong = [], []
    for range_text in texts:
        try:
            parsed_ranges.append(parse(range_text))
        except MalformedText:
            wrong.append(f"exclusion {quote_value(range_text)} cannot be read")
    if wrong:
        raise InvalidPool(wrong)
    return parsed_ranges


def _build_block_layout(whole: AddressRange, holes: Iterable[AddressRange], shift: int) -> Layout:
    """Return the layout of a datacenter in blocks of 2**shift addresses.

    Args:
        whole: all addresses of the datacenter.
        holes: excluded addresses; those of the other family are ignored.
        shift: binary logarithm of the block size.
    """
    family = whole.family
    blocks = AddressRange(whole.first >> shift, whole.last >> shift, family)
    excluded_blocks = []
    for hole in holes:
        family_hole = hole.convert_to_family(family)
        if family_hole is not None:
            excluded_blocks.append(
                AddressRange(family_hole.first >> shift, family_hole.last >> shift, family)
            )
    return Layout(blocks, tuple(excluded_blocks), (blocks,))


NO_DATACENTERS = (
    "spec.datacenters is empty, so it hands out nothing: KKP asks for at least one datacenter; add"
    " one or delete the pool"
)
"""What is wrong with an IPAMPool that KKP's CRD accepts and its documentation forbids."""
