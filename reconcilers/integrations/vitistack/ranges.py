"""Parse what a network hands out: the addresses from its start to its end, without the gateway.

Pure functions. Without a start, a network begins with the second address after the network
address, and without an end it ends with the last address before broadcast, as vitistack documents.
Settings that contradict each other are refused, so that no address is handed out that a
machine cannot use.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from allocator import AddressRange, InvalidPool, Layout
from allocator.addresses import BITS, parse_address, quote_value
from allocator.errors import MalformedText
from reconcilers.integrations.vitistack.api import Static
from reconcilers.promises.holdings import Layouts

INVALID = "invalid IP range"
FAMILY: Final = 4


@dataclass(frozen=True, slots=True)
class NetworkSpace:
    """What a network hands out.

    Args:
        layout: the addresses of the network, and which of them are handed out.
    """

    layout: Layout

    @property
    def layouts(self) -> Layouts:
        """The layout by the name of its space; the only space of a network has an empty name."""
        return {"": self.layout}

    @property
    def prefix(self) -> int:
        """The length of its prefix."""
        return BITS[FAMILY] - (self.layout.cidr.size.bit_length() - 1)

    @property
    def text(self) -> str:
        """The first and the last address that it hands out."""
        [whole] = self.layout.ranges
        return f"{whole.start_text}-{whole.end_text}"

    def address(self, address: str) -> AddressRange | None:
        """Return an address as a range; None if the text is no IPv4 address."""
        parsed = parse_address(address)
        if parsed is None or parsed[1] != FAMILY:
            return None
        return AddressRange(parsed[0], parsed[0], FAMILY)

    def hands_out(self, address: AddressRange) -> bool:
        """Return whether an address may be handed out."""
        return self.layout.can_ever_pin(address)


@lru_cache(maxsize=1024)
def parse_space(static: Static) -> NetworkSpace:
    """Return the space that a network with these settings hands out.

    Raises:
        InvalidPool: the settings contradict each other, or cannot be parsed.
    """
    try:
        whole = AddressRange.parse_cidr(static.ipv4CIDR)
    except MalformedText as wrong:
        raise InvalidPool([f"{INVALID}: ipv4CIDR {wrong}"]) from None
    gateway = _parse_bound(static.ipv4Gateway, "ipv4Gateway")
    start = _parse_bound(static.ipv4RangeStart, "ipv4RangeStart")
    end = _parse_bound(static.ipv4RangeEnd, "ipv4RangeEnd")
    first = whole.first + 2 if start is None else start
    last = whole.last - 1 if end is None else end
    if first > last:
        raise InvalidPool([f"{INVALID}: {static.ipv4CIDR} has no address from start to end"])
    if first < whole.first or last > whole.last:
        span = AddressRange(first, last, FAMILY)
        raise InvalidPool([f"{INVALID}: {span.text} is not within {static.ipv4CIDR}"])
    holes = [] if gateway is None else [gateway]
    if start is not None or end is not None:
        # No machine can use the network address and broadcast, even if start and end include them.
        holes += [whole.first, whole.last] if whole.size > 2 else []
    excluded_ranges = tuple(AddressRange(hole, hole, FAMILY) for hole in holes)
    layout = Layout(whole, excluded_ranges, (AddressRange(first, last, FAMILY),))
    if not layout.total:
        raise InvalidPool([f"{INVALID}: {static.ipv4CIDR} has no address beside the gateway"])
    return NetworkSpace(layout)


def _parse_bound(address: str, name: str) -> int | None:
    """Return an address as a number; None for an empty text.

    Args:
        name: the name of the field, for the message.

    Raises:
        InvalidPool: the text is not an IPv4 address.
    """
    if not address:
        return None
    parsed = parse_address(address)
    if parsed is None or parsed[1] != FAMILY:
        raise InvalidPool([f"{INVALID}: {name} {quote_value(address)} is not an IPv4 address"])
    return parsed[0]
