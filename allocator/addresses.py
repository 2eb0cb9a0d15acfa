"""Ranges of addresses, and the texts that stand for them.

An address is an int together with its family; everything else in this package calculates with ints
and is therefore the same for IPv4 and IPv6. Only this module parses and formats addresses.

Texts go through `socket.inet_pton` and `inet_ntop`, which do no I/O and are about 15 times as
fast as `ipaddress`; a pool with 25,000 allocations is read again and again. They refuse what Go's
parser refuses too: leading zeros, short forms such as 10.1, zones, blanks.

`union` and `minus` are the two operations on sets that a pool is made of, each one sweep over
sorted input: a pool is built again from all its allocations on every pass.
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
"""A first and a last address as numbers; a set of addresses is spans, ascending and disjoint."""

BITS: Mapping[Family, int] = {4: 32, 6: 128}
"""How long an address of each family is."""

LISTED_ADDRESSES: Mapping[Family, int] = {4: 65_536, 6: 16_384}
"""How many addresses of a range are listed one by one at most.

An object in etcd has at most 1.5 MiB. The texts of IPv6 are up to 39 characters long.
"""

_LAST: Mapping[Family, int] = {family: (1 << bits) - 1 for family, bits in BITS.items()}
_SHOWN = 64  # characters of a text in a message; no address or CIDR is as long
_MAPPED = 0xFFFF << 32  # ::ffff:0:0/96, IPv4 addresses written as IPv6


@dataclass(frozen=True, slots=True)
class AddressRange:
    """A run of addresses.

    Args:
        first: the first address, as a number.
        last: the last one, inclusive.
        family: 4 or 6.

    Raises:
        InvalidRange: `first` is after `last`, or they are no addresses of that family.
    """

    first: int
    last: int
    family: Family

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= _LAST.get(self.family, -1):
            raise InvalidRange(_why_no_range(self.first, self.last, self.family))

    @classmethod
    def parse(cls, start: str, end: str) -> "AddressRange":
        """Read a range from its first and last address.

        Raises:
            InvalidRange: one is no address, they are of different families, or in the wrong order.
        """
        first, family = _parse_end(start)
        last, other = _parse_end(end)
        if family != other:
            raise InvalidRange(f"{start} is IPv{family}, {end} is IPv{other}: use one family")
        if first > last:
            raise InvalidRange(f"start is after end: start {start}, end {end}")
        return cls(first, last, family)

    @classmethod
    def parse_cidr(cls, cidr: str) -> "AddressRange":
        """Read a range from a CIDR; host bits are masked away, 10.0.0.7/24 is 10.0.0.0/24.

        Raises:
            InvalidCIDR: the text is none.
        """
        address, slash, prefix = cidr.partition("/")
        parsed = parse_address(address)
        if not slash or parsed is None:
            raise InvalidCIDR(f"{quote_value(cidr)} is not ADDRESS/PREFIX, as in 10.40.0.0/24")
        value, family = parsed
        bits = BITS[family]
        if not (prefix.isascii() and prefix.isdigit() and len(prefix) < 9 and int(prefix) <= bits):
            raise InvalidCIDR(f"{quote_value(cidr)} needs a prefix length from 0 to {bits}")
        hosts = (1 << bits - int(prefix)) - 1
        return cls(value & ~hosts, value | hosts, family)

    @property
    def size(self) -> int:
        """How many addresses there are."""
        return self.last - self.first + 1

    @property
    def start_text(self) -> str:
        """The first address as text."""
        return address_text(self.first, self.family)

    @property
    def end_text(self) -> str:
        """The last address as text."""
        return address_text(self.last, self.family)

    @property
    def text(self) -> str:
        """The range as `start/prefix` where it is exactly one CIDR, else as `start-end`."""
        return _shortest_text(self, self.start_text, self.end_text)

    def contains(self, other: "AddressRange | int | str") -> bool:
        """Return whether all of another range, or an address, lies in this one.

        Args:
            other: a range, an address as text, or an address of the same family as a number.

        Raises:
            InvalidRange: the text is no address.
        """
        if isinstance(other, str):
            other = AddressRange.parse(other, other)
        if isinstance(other, int):
            return self.first <= other <= self.last
        same = self.family == other.family
        return same and self.first <= other.first and other.last <= self.last

    def overlaps(self, other: "AddressRange") -> bool:
        """Return whether the two have an address in common."""
        same = self.family == other.family
        return same and self.first <= other.last and other.first <= self.last

    def intersection(self, other: "AddressRange") -> "AddressRange | None":
        """Return the addresses that the two have in common; None if they have none."""
        if not self.overlaps(other):
            return None
        return AddressRange(max(self.first, other.first), min(self.last, other.last), self.family)

    def addresses(self, limit: int | None = None) -> list[str]:
        """List the addresses as texts, the first `limit` of them if there are more.

        Args:
            limit: at most so many; None for LISTED_ADDRESSES.
        """
        most = LISTED_ADDRESSES[self.family] if limit is None else max(limit, 0)
        stop = min(self.last + 1, self.first + most)
        return [address_text(value, self.family) for value in range(self.first, stop)]

    def cidrs(self) -> Iterator["AddressRange"]:
        """Yield the fewest CIDRs that make up the range, ascending."""
        first = self.first
        while first <= self.last:
            longest = 1 << (self.last - first + 1).bit_length() - 1
            aligned = first & -first or longest  # address 0 is aligned to any size
            last = first + min(longest, aligned) - 1
            yield AddressRange(first, last, self.family)
            first = last + 1

    def in_family(self, family: Family) -> "AddressRange | None":
        """Return the same addresses as members of `family`, or None where they are not.

        Only IPv4 addresses written as ::ffff:a.b.c.d change; Go's parser takes those for IPv4, so
        existing objects may carry them. They stay IPv6 until asked, so that every text of an IPv6
        pool reads back as what was written.
        """
        if self.family == family:
            return self
        if family == 4 and self.first >= _MAPPED and self.last <= _MAPPED | _LAST[4]:
            return AddressRange(self.first - _MAPPED, self.last - _MAPPED, 4)
        return None


def name_edge_addresses(subnet: AddressRange) -> dict[str, AddressRange]:
    """Return the addresses of a subnet that hosts do not use, by what they are.

    In IPv4 these are the first and the last one (network and broadcast), in IPv6 the first one
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
    """Return an address' number and family, or None if the text is no address."""
    try:
        if ":" in address:
            return int.from_bytes(inet_pton(AF_INET6, address)), 6
        return int.from_bytes(inet_pton(AF_INET, address)), 4
    except (OSError, ValueError):  # ValueError: a NUL or a lone surrogate in the text
        return None


def address_in(address: str, family: Family) -> int | None:
    """Return an address' number in `family`, or None if the text is no such address."""
    parsed = parse_address(address)
    if parsed is None:
        return None
    value, written = parsed
    same = AddressRange(value, value, written).in_family(family)
    return None if same is None else same.first


def address_text(value: int, family: Family) -> str:
    """Return the canonical text of an address (RFC 5952 for IPv6)."""
    if family == 4:
        return inet_ntop(AF_INET, value.to_bytes(4))
    if value >> 32 == 0:  # the C library writes these as ::a.b.c.d, a notation long deprecated
        return str(IPv6Address(value))
    return inet_ntop(AF_INET6, value.to_bytes(16))


def cidr_text(start: str, end: str) -> str:
    """Return the text of `status.cidr` for a range given by its first and last address.

    That is `start/prefix` if the size is a power of two and the start is divisible by it, else
    `start-end`; what is no range is joined with a hyphen as it stands.
    """
    parsed = read_range(start, end)
    if isinstance(parsed, str):
        return f"{start}-{end}"
    return _shortest_text(parsed, start, end)


def read_range(start: str, end: str) -> AddressRange | str:
    """Return the range, or the reason why these texts make none.

    For ranges that others wrote, where one malformed entry must not stop the rest.
    """
    try:
        return AddressRange.parse(start, end)
    except InvalidRange as error:
        return str(error)


def quote_value(value: str) -> str:
    """Return a text of unknown origin for use in a message: in double quotes, escaped, cut."""
    prefix = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
    return dumps(prefix, ensure_ascii=False)


def _parse_end(address: str) -> tuple[int, Family]:
    parsed = parse_address(address)
    if parsed is None:
        raise InvalidRange(f"{quote_value(address)} is not an IP address")
    return parsed


def _shortest_text(whole: AddressRange, start: str, end: str) -> str:
    size = whole.size
    if size & (size - 1) or whole.first & (size - 1):
        return f"{start}-{end}"
    return f"{start}/{BITS[whole.family] + 1 - size.bit_length()}"


def _why_no_range(first: int, last: int, family: int) -> str:
    if family not in BITS:
        return f"family must be 4 or 6, not {family}"
    if first > last:
        return f"start is after end: start {first}, end {last}"
    return f"{first} to {last} are not IPv{family} addresses"


def union(ascending: Iterable[Span]) -> list[Span]:
    """Merge spans that overlap or touch.

    Args:
        ascending: spans sorted by their first address; they may overlap.
    """
    merged: list[Span] = []
    reach = -2  # touches nothing, not even address 0
    for first, last in ascending:
        if first > reach + 1:
            merged.append((first, last))
            reach = last
        elif last > reach:
            merged[-1] = (merged[-1][0], last)
            reach = last
    return merged


def minus(spans: Iterable[Span], holes: Iterable[Span]) -> Iterator[Span]:
    """Yield the parts of `spans` outside `holes`; both ascending and without overlap."""
    remaining = iter(holes)
    hole = next(remaining, None)
    for first, last in spans:
        start = first
        while hole is not None and hole[0] <= last:
            if hole[0] > start:
                yield start, hole[0] - 1
            start = max(start, hole[1] + 1)
            if hole[1] > last:
                break  # this hole reaches into the next span
            hole = next(remaining, None)
        if start <= last:
            yield start, last
