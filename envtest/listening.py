"""Addresses on which servers listen: their parsing, and the addresses that clients use instead."""

import socket
from ipaddress import ip_address
from typing import Final

# Addresses for documentation: no packet is sent, but a route to them begins at this machine's
# own address.
_DOCUMENTATION_ADDRESSES: Final = {4: "192.0.2.1", 6: "2001:db8::1"}
# Hosts that mean all addresses of this machine; so does an empty host.
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104


class ListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an empty host becomes 0.0.0.0.

    Raises:
        ListenError: the address cannot be parsed.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ListenError(
            f"{address!r} is not an address to listen on; "
            "write HOST:PORT, for example 127.0.0.1:6443"
        )
    return host.strip("[]") or EVERYWHERE[0], int(port)


def format_url_host(host: str) -> str:
    """Return the host of a URL by which this machine reaches the server."""
    if host in EVERYWHERE:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def find_reachable_address(bound: str) -> str:
    """Return an address by which other machines reach a server.

    For a server that listens on all addresses, it is this machine's address on the default route,
    or a loopback address if there is no route.

    Args:
        bound: the address on which the server listens.
    """
    address = ip_address(bound)
    if not address.is_unspecified:
        return bound
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a UDP socket only chooses a route; the port (discard) does not matter.
            probe.connect((_DOCUMENTATION_ADDRESSES[address.version], 9))
        except OSError:
            return "127.0.0.1" if address.version == 4 else "::1"
        return str(probe.getsockname()[0])
