"""Which HTTP proxy leads to an API server, by the rules of Go's net/http.

kubectl and every controller in Go follow these rules, so one environment works for all of them.
Source: golang.org/x/net/http/httpproxy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import SplitResult, urlsplit

from controller.endpoint import parse_host_url
from controller.errors import ConfigurationError

Address = IPv4Address | IPv6Address

DEFAULT_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Target:
    """The server of a request, as the entries of NO_PROXY are compared with it.

    Args:
        host: in lower case, internationalized names in their ASCII form.
        port: the URL's port, or the default port of its scheme.
        address: the host as an address; None if it is a name.
    """

    host: str
    port: int
    address: Address | None


def find_environment_proxy(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for `server` by HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

    The server's scheme selects the variable; names in upper case come before names in lower case.
    `localhost` and loopback addresses are never reached through a proxy.

    Args:
        server: URL of the API server.
        environ: the environment variables.

    Returns:
        The proxy's URL; empty for none.

    Raises:
        ConfigurationError: the variable does not hold the URL of an HTTP proxy.
    """
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    if not proxy or not needs_proxy(
        parts, environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    ):
        return ""
    return check_proxy(proxy if "://" in proxy else f"http://{proxy}", f"the variable {name}")


def needs_proxy(server: SplitResult, exceptions: str) -> bool:
    """Return whether requests to `server` use the proxy of the environment.

    Args:
        server: the parts of its URL.
        exceptions: the value of NO_PROXY: entries separated by commas. `*` means every server.
            Other entries are an address, a network or a name; an address or a name may have a
            port. A name includes its subdomains; with a dot or `*.` before it, it means only its
            subdomains.
    """
    host = _encode_host((server.hostname or "").lower())
    target = Target(host, server.port or DEFAULT_PORTS.get(server.scheme, 0), _parse_address(host))
    if host == "localhost" or (target.address is not None and target.address.is_loopback):
        return False
    entries = (entry.strip().lower() for entry in exceptions.split(","))
    return not any(_matches(entry, target) for entry in entries if entry)


def check_proxy(proxy: str, where: str) -> str:
    """Return `proxy`, a URL; raise ConfigurationError if it is not the URL of an HTTP proxy.

    Args:
        proxy: the URL.
        where: the setting that names the proxy, for the message.

    Raises:
        ConfigurationError: `proxy` is not the URL of an HTTP proxy.
    """
    if parse_host_url(proxy) is None:
        # Left out of the message: the part before the last @, which may have a password.
        scheme, separator, rest = proxy.rpartition("://")
        address = f"{scheme}{separator}{rest.rpartition('@')[2]}"
        raise ConfigurationError(
            f"{where} names the proxy {address[:100]!r}, but only http:// and https:// proxies are"
            " supported"
        )
    return proxy


def hide_proxy_password(proxy: str) -> str:
    """Return the URL of a proxy without user name and password, for messages."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _matches(entry: str, target: Target) -> bool:
    """Return whether an entry of NO_PROXY, in lower case, includes `target`.

    An entry is `*`, a network, an address or a name; the last two may have a port.
    """
    if entry == "*":
        return True
    if (network := _parse_network(entry)) is not None:
        return target.address is not None and target.address in network
    host, port = _split_port(entry)
    if port and port != str(target.port):
        return False
    if (address := _parse_address(host)) is not None:
        return target.address == address
    # The entry is a name. A name includes no address, and an entry with only a port is no name.
    if not host or target.address is not None:
        return False
    return _includes_host(_encode_host(host), target.host)


def _includes_host(name: str, host: str) -> bool:
    """Return whether a name in NO_PROXY includes a host.

    `example.com` includes that host and its subdomains; `.example.com` and `*.example.com` include
    only the subdomains.
    """
    if name.startswith((".", "*.")):
        return host.endswith(name.removeprefix("*"))
    return host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    """Return the host and the port of `host:port` or `[host]:port`; the port may be empty.

    Brackets without a port stay in the host, as in Go, so that the entry is no address.
    """
    if entry.startswith("["):
        host, separator, port = entry[1:].partition("]:")
        return (host, port) if separator else (entry, "")
    host, _, port = entry.partition(":")
    return (entry, "") if ":" in port else (host, port)  # two colons: an IPv6 address


def _parse_address(host: str) -> Address | None:
    """Return `host` as an address; None if it is a name.

    An IPv4-mapped address is returned as the IPv4 address: 10.0.0.1 for ::ffff:10.0.0.1.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _parse_network(entry: str) -> IPv4Network | IPv6Network | None:
    """Return an entry with a prefix length as a network; None for any other entry."""
    if "/" not in entry:
        return None
    try:
        return ip_network(entry, strict=False)
    except ValueError:
        return None


def _encode_host(name: str) -> str:
    """Return a host's name in ASCII, as DNS has it; `name` itself if it cannot be converted."""
    if name.isascii():
        return name
    # A dot at the beginning, as in NO_PROXY, is no part of a name and cannot be converted.
    dot = "." if name.startswith(".") else ""
    try:
        return dot + name.removeprefix(".").encode("idna").decode("ascii")
    except UnicodeError:
        return name
