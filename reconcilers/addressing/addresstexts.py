"""Texts of specs and statuses as ranges: ends, CIDRs, and warnings about host bits."""

from collections.abc import Iterable
from functools import lru_cache

from allocator import AddressRange, AllocatorError

LONGEST = 128
"""The longest text that is parsed and cached.

A longer text is no range, and tenants may write texts of 256 KiB, which must not fill the caches.
"""


def parse_ends(start: str, end: str) -> AddressRange | None:
    """Return the range from `start` to `end`; None if they cannot be parsed as a range."""
    return None if max(len(start), len(end)) > LONGEST else _parse_ends(start, end)


@lru_cache(maxsize=131_072)
def _parse_ends(start: str, end: str) -> AddressRange | None:
    """Return the range from `start` to `end`, from the cache; None if they are no range."""
    try:
        return AddressRange.parse(start, end)
    except AllocatorError:
        return None


def parse_addresses(texts: Iterable[str]) -> list[AddressRange]:
    """Return the addresses among texts, in their order, without what cannot be parsed."""
    parsed = (parse_ends(address, address) for address in texts)
    return [address for address in parsed if address is not None]


def parse_cidr_or_span(block: str) -> AddressRange | None:
    """Return the range of a CIDR or `start-end`, or None if the text is neither."""
    return None if len(block) > LONGEST else _parse_cidr_or_span(block)


@lru_cache(maxsize=1_024)
def _parse_cidr_or_span(block: str) -> AddressRange | None:
    """Return the range of a CIDR or `start-end`, from the cache; None if it cannot be parsed."""
    start, dash, end = block.partition("-")
    if dash:
        return parse_ends(start.strip(), end.strip())
    try:
        return AddressRange.parse_cidr(block)
    except AllocatorError:
        return None


def describe_host_bits(cidr: str, parsed_cidr: AddressRange | None = None) -> str:
    """Return a warning about a CIDR that has host bits set; empty if it has none.

    Args:
        cidr: a CIDR as a spec writes it; a text that is no CIDR has no host bits.
        parsed_cidr: the range that the controllers read the CIDR as; None to parse it here.
    """
    address, slash, _ = cidr.partition("/")
    network = parsed_cidr or (parse_cidr_or_span(cidr) if slash and "-" not in cidr else None)
    if network is None:
        return ""  # the text is no CIDR; other checks report it
    written_address = parse_ends(address, address)
    # The network may be IPv4 although the text has the IPv6 form ::ffff:a.b.c.d.
    start = (
        written_address.convert_to_family(network.family) if written_address is not None else None
    )
    if start is not None and start.first == network.first:
        return ""  # the address is the first one of the network: no host bits
    return f"{cidr!r} has host bits set; it is read as {network.text}"
