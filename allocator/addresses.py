"""Ranges of addresses, and their text.

An address is an int together with its family. Everything else in this package calculates with
ints, and is therefore the same for IPv4 and IPv6. Only this module parses and formats addresses.

It uses `socket.inet_pton` and `inet_ntop`, which do no I/O and are about 15 times as fast as
`ipaddress`, because pools with 25,000 allocations are parsed often. Like Go's parser, they reject
leading zeros, short forms such as 10.1, zones and blanks.

`union` and `subtract_spans` work on sets of addresses; a pool's free space is computed with them.
Each is one sweep over sorted input, because a pool may be built from thousands of allocations.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from json import dumps
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Literal

from allocator.errors import InvalidCIDR, InvalidRange

Family = Literal[4, 6]

Span = tuple[int, int]
"""A first and a last address as numbers; a set of addresses is disjoint spans, ascending."""

BITS: Mapping[Family, int] = {4: 32, 6: 128}
"""The length of an address of each family, in bits."""

LISTED_ADDRESSES: Mapping[Family, int] = {4: 65_536, 6: 16_384}
"""The largest number of addresses of a range that are listed one by one.

An object in etcd has at most 1.5 MiB, and an IPv6 address has up to 39 characters.
"""

_LAST: Mapping[Family, int] = {family: (1 << bits) - 1 for family, bits in BITS.items()}
_LONGEST_QUOTED = 64  # characters of a text in a message; no address or CIDR is as long
_MAPPED = 0xFFFF << 32  # ::ffff:0:0/96, IPv4 addresses written as IPv6


@dataclass(frozen=True, slots=True)
class AddressRange:
    """Consecutive addresses of one family.

    Args:
        first: the first address, as a number.
        last: the last address, inclusive.
        family: 4 or 6.

    Raises:
        InvalidRange: `first` is after `last`, or they are no addresses of that family.
    """

    first: int
    last: int
    family: Family

    def __post_init__(self) -> None:
        """Refuse two numbers that are no range of the family."""
        # An unknown family has no addresses: nothing is at most -1.
        if not 0 <= self.first <= self.last <= _LAST.get(self.family, -1):
            raise InvalidRange(_explain_invalid_range(self.first, self.last, self.family))

    @classmethod
    def parse(cls, start: str, end: str) -> "AddressRange":
        """Parse a range from its first and last address.

        Raises:
            InvalidRange: one is no address, or they differ in family, or the first is the greater.
        """
        first, family = _require_address(start)
        last, end_family = _require_address(end)
        if family != end_family:
            raise InvalidRange(f"{start} is IPv{family}, {end} is IPv{end_family}: use one family")
        if first > last:
            raise InvalidRange(f"start is after end: start {start}, end {end}")
        return cls(first, last, family)

    @classmethod
    def parse_cidr(cls, cidr: str) -> "AddressRange":
        """Parse a range from a CIDR. Host bits are cleared: 10.0.0.7/24 is 10.0.0.0/24.

        Raises:
            InvalidCIDR: the text is no CIDR.
        """
        address, slash, prefix = cidr.partition("/")
        parsed = parse_address(address)
        if not slash or parsed is None:
            raise InvalidCIDR(f"{quote_value(cidr)} is not ADDRESS/PREFIX, as in 10.40.0.0/24")
        value, family = parsed
        bits = BITS[family]
        if not (prefix.isascii() and prefix.isdigit() and len(prefix) < 9 and int(prefix) <= bits):
            raise InvalidCIDR(f"{quote_value(cidr)} needs a prefix length from 0 to {bits}")
        host_mask = (1 << bits - int(prefix)) - 1
        return cls(value & ~host_mask, value | host_mask, family)

    @property
    def size(self) -> int:
        """The number of addresses."""
        return self.last - self.first + 1

    @property
    def start_text(self) -> str:
        """The first address as text."""
        return format_address(self.first, self.family)

    @property
    def end_text(self) -> str:
        """The last address as text."""
        return format_address(self.last, self.family)

    @property
    def text(self) -> str:
        """The range as `start/prefix` if it is exactly one CIDR, else as `start-end`."""
        return _format_shortest(self, self.start_text, self.end_text)

    def contains(self, other: "AddressRange | int | str") -> bool:
        """Return whether this range includes a whole other range, or an address.

        Args:
            other: a range, an address as text, or an address of the same family as a number.

        Raises:
            InvalidRange: the text is no address.
        """
        if isinstance(other, str):
            other = AddressRange.parse(other, other)
        if isinstance(other, int):
            return self.first <= other <= self.last
        is_same_family = self.family == other.family
        return is_same_family and self.first <= other.first and other.last <= self.last

    def overlaps(self, other: "AddressRange") -> bool:
        """Return whether this range and another one have an address in common."""
        is_same_family = self.family == other.family
        return is_same_family and self.first <= other.last and other.first <= self.last

    def intersection(self, other: "AddressRange") -> "AddressRange | None":
        """Return the addresses that both ranges have in common; None if there are none."""
        if not self.overlaps(other):
            return None
        return AddressRange(max(self.first, other.first), min(self.last, other.last), self.family)

    def list_addresses(self, limit: int | None = None) -> list[str]:
        """Return the text of each address, ascending; at most `limit` texts.

        Args:
            limit: the largest number of addresses; None for LISTED_ADDRESSES.
        """
        count = LISTED_ADDRESSES[self.family] if limit is None else max(limit, 0)
        stop = min(self.last + 1, self.first + count)
        return [format_address(value, self.family) for value in range(self.first, stop)]

    def split_into_cidrs(self) -> Iterator["AddressRange"]:
        """Yield the fewest CIDRs that together are the range, ascending."""
        first = self.first
        while first <= self.last:
            # A CIDR's size is a power of two that divides its first address. So it is the smaller
            # of the largest power that the rest holds, and the largest that divides `first`.
            longest = 1 << (self.last - first + 1).bit_length() - 1
            aligned = first & -first or longest  # address 0 is aligned to any size
            last = first + min(longest, aligned) - 1
            yield AddressRange(first, last, self.family)
            first = last + 1

    def convert_to_family(self, family: Family) -> "AddressRange | None":
        """Return the same addresses as a range of `family`; None if they are not of that family.

        IPv4-mapped IPv6 addresses (::ffff:a.b.c.d) become IPv4, because Go's parser treats them as
        IPv4 and existing objects may have them. Parsing leaves them as IPv6, so that the text of
        each address in an IPv6 pool stays as it was written.
        """
        if self.family == family:
            return self
        if family == 4 and self.first >= _MAPPED and self.last <= _MAPPED | _LAST[4]:
            return AddressRange(self.first - _MAPPED, self.last - _MAPPED, 4)
        return None


def name_edge_addresses(subnet: AddressRange) -> dict[str, AddressRange]:
    """Return the addresses of a subnet that hosts do not use, by their names.

    In IPv4 these are the first and the last address (network and broadcast), in IPv6 the first one
    (RFC 4291, subnet-router anycast). A subnet of one or two addresses has none (RFC 3021, RFC
    6164).
    """
    if subnet.size <= 2:
        return {}
    first = AddressRange(subnet.first, subnet.first, subnet.family)
    if subnet.family == 6:
        return {"subnet-router anycast address": first}
    last = AddressRange(subnet.last, subnet.last, subnet.family)
    return {"network address": first, "broadcast address": last}


def parse_address(address: str) -> tuple[int, Family] | None:
    """Return the number and family of an address; None if the text is no address."""
    try:
        if ":" in address:
            return int.from_bytes(inet_pton(AF_INET6, address)), 6
        return int.from_bytes(inet_pton(AF_INET, address)), 4
    except (OSError, ValueError):  # ValueError: a NUL or a lone surrogate in the text
        return None


def parse_address_in_family(address: str, family: Family) -> int | None:
    """Return the number of an address in `family`; None if the text is no address of it."""
    parsed = parse_address(address)
    if parsed is None:
        return None
    value, written = parsed
    converted = AddressRange(value, value, written).convert_to_family(family)
    return None if converted is None else converted.first


def format_address(value: int, family: Family) -> str:
    """Return the canonical text of an address (RFC 5952 for IPv6)."""
    if family == 4:
        return inet_ntop(AF_INET, value.to_bytes(4))
    if value >> 32 == 0:  # the C library writes these as ::a.b.c.d, a notation long deprecated
        return str(IPv6Address(value))
    return inet_ntop(AF_INET6, value.to_bytes(16))


def format_cidr(start: str, end: str) -> str:
    """Return the text of `status.cidr` for the range from one address to another.

    It is `start/prefix` if the range is exactly one CIDR, else `start-end`. Two texts that are no
    range are joined by a hyphen unchanged.
    """
    parsed = read_range(start, end)
    if isinstance(parsed, str):
        return f"{start}-{end}"
    return _format_shortest(parsed, start, end)


def read_range(start: str, end: str) -> AddressRange | str:
    """Return the range from one address to another, or the reason why it cannot be parsed.

    It raises nothing: callers read many ranges that other programs wrote, and a malformed range
    must not stop them from reading the others.
    """
    try:
        return AddressRange.parse(start, end)
    except InvalidRange as error:
        return str(error)


def quote_value(value: str) -> str:
    """Return a text of unknown origin for a message: in double quotes, escaped, cut if long."""
    prefix = value if len(value) <= _LONGEST_QUOTED else f"{value[:_LONGEST_QUOTED]}..."
    return dumps(prefix, ensure_ascii=False)


def _require_address(address: str) -> tuple[int, Family]:
    """Return the number and family of an address.

    Raises:
        InvalidRange: the text is no address.
    """
    parsed = parse_address(address)
    if parsed is None:
        raise InvalidRange(f"{quote_value(address)} is not an IP address")
    return parsed


def _format_shortest(address_range: AddressRange, start: str, end: str) -> str:
    """Return a range as `start/prefix` if it is exactly one CIDR, else as `start-end`.

    A range is one CIDR if its size is a power of two that divides its first address.

    Args:
        address_range: the range, which decides between both forms.
        start: the text of its first address, which the result repeats as it is.
        end: the text of its last address, likewise.
    """
    size = address_range.size
    if size & (size - 1) or address_range.first & (size - 1):
        return f"{start}-{end}"
    return f"{start}/{BITS[address_range.family] + 1 - size.bit_length()}"


def _explain_invalid_range(first: int, last: int, family: int) -> str:
    """Return why two numbers are no range of a family."""
    if family not in BITS:
        return f"family must be 4 or 6, not {family}"
    if first > last:
        return f"start is after end: start {first}, end {last}"
    return f"{first} to {last} are not IPv{family} addresses"


def union(ascending: Iterable[Span]) -> list[Span]:
    """Return the spans, ascending, with spans that overlap or touch merged into one.

    Args:
        ascending: spans sorted by their first address; they may overlap.
    """
    merged: list[Span] = []
    merged_end = -2  # touches nothing, not even address 0
    for first, last in ascending:
        if first > merged_end + 1:
            merged.append((first, last))
            merged_end = last
        elif last > merged_end:
            merged[-1] = (merged[-1][0], last)
            merged_end = last
    return merged


def subtract_spans(spans: Iterable[Span], holes: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of `spans` that are outside of all `holes`, ascending.

    Args:
        spans: ascending and without overlaps.
        holes: ascending and without overlaps.
    """
    remaining = iter(holes)
    hole = next(remaining, None)
    for first, last in spans:
        start = first
        while hole is not None and hole[0] <= last:
            if hole[0] > start:
                yield start, hole[0] - 1
            start = max(start, hole[1] + 1)
            if hole[1] > last:
                break  # this hole may reach into the next span
            hole = next(remaining, None)
        if start <= last:
            yield start, last
