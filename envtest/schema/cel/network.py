"""Addresses, networks, URLs and named formats in rules."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import parse_qs

from envtest.schema import formats, names
from envtest.schema.cel.functions import CelError, Library
from envtest.schema.cel.optionals import NONE, Optional, some
from envtest.schema.gourl import RequestURI, parse_request_uri

NETWORK: Final = Library()
_define = NETWORK.define
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class IP:
    """An IP address."""

    cel_type: ClassVar[str] = "net.IP"
    address: _Address

    @property
    def cel_size(self) -> int:
        """The number of its bytes."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class CIDR:
    """A network with the address it was written with."""

    cel_type: ClassVar[str] = "net.CIDR"
    interface: _Interface

    @property
    def cel_size(self) -> int:
        """The number of bytes of its prefix."""
        return -(-self.interface.network.prefixlen // 8)


@dataclass(frozen=True, slots=True)
class URL:
    """A request URI."""

    cel_type: ClassVar[str] = "kubernetes.URL"
    parts: RequestURI


@dataclass(frozen=True, slots=True)
class Format:
    """A named format: its check gives the reasons why a text does not have it."""

    cel_type: ClassVar[str] = "kubernetes.NamedFormat"
    name: str
    errors: Callable[[str], list[str]]


def _parse_ip(text: str) -> IP | None:
    if "%" in text:
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return None if mapped else IP(address)


def _is_mapped(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _parse_cidr(text: str) -> CIDR | None:
    address, slash, length = text.partition("/")
    canonical = length.isascii() and length.isdigit() and str(int(length)) == length
    if not slash or not canonical or _parse_ip(address) is None:
        return None
    try:
        return CIDR(ipaddress.ip_interface(text))
    except ValueError:
        return None


@_define("ip", "(string) net.IP")
def _ip(text: str) -> IP:
    parsed = _parse_ip(text)
    if parsed is None:
        if _is_mapped(text):
            raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
        reason = f'ParseAddr("{text}"): unable to parse IP'
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {reason}')
    return parsed


@_define("cidr", "(string) net.CIDR")
def _cidr(text: str) -> CIDR:
    parsed = _parse_cidr(text)
    if parsed is None:
        said = "network address parse error during conversion from string"
        reason = "no '/'" if "/" not in text else "bad bits after slash"
        raise CelError(f'{said}: {said}: netip.ParsePrefix("{text}"): {reason}')
    return parsed


_define("isIP", "(string) bool")(lambda text: _parse_ip(text) is not None)
_define("isCIDR", "(string) bool")(lambda text: _parse_cidr(text) is not None)
_define("ip.isCanonical", "(string) bool")(lambda text: str(_ip(text).address) == text)
_define("string", "(net.IP) string")(lambda held: str(held.address))
_define("string", "(net.CIDR) string")(lambda held: str(held.interface))
_define("family", "net.IP.() int")(lambda held: held.address.version)
_define("isUnspecified", "net.IP.() bool")(lambda held: held.address.is_unspecified)
_define("isLoopback", "net.IP.() bool")(lambda held: held.address.is_loopback)
_define("ip", "net.CIDR.() net.IP")(lambda held: IP(held.interface.ip))
_define("prefixLength", "net.CIDR.() int")(lambda held: held.interface.network.prefixlen)
_define("masked", "net.CIDR.() net.CIDR")(
    lambda held: CIDR(ipaddress.ip_interface(held.interface.network.with_prefixlen))
)


@_define("isLinkLocalUnicast", "net.IP.() bool")
def _is_link_local(held: IP) -> bool:
    return held.address.is_link_local


@_define("isLinkLocalMulticast", "net.IP.() bool")
def _is_link_local_multicast(held: IP) -> bool:
    if isinstance(held.address, ipaddress.IPv4Address):
        return held.address in ipaddress.ip_network("224.0.0.0/24")
    return held.address.is_multicast and held.address.packed[1] & 0x0F == 2


@_define("isGlobalUnicast", "net.IP.() bool")
def _is_global_unicast(held: IP) -> bool:
    address = held.address
    broadcast = int(address) == 2**32 - 1 and address.version == 4
    special = (
        address.is_unspecified,
        address.is_loopback,
        address.is_multicast,
        address.is_link_local,
        broadcast,
    )
    return not any(special)


@_define("containsIP", "net.CIDR.(net.IP) bool", "net.CIDR.(string) bool")
def _contains_ip(held: CIDR, wanted: IP | str) -> bool:
    address = wanted.address if isinstance(wanted, IP) else _ip(wanted).address
    return address in held.interface.network


@_define("containsCIDR", "net.CIDR.(net.CIDR) bool", "net.CIDR.(string) bool")
def _contains_cidr(held: CIDR, wanted: CIDR | str) -> bool:
    inner = (wanted if isinstance(wanted, CIDR) else _cidr(wanted)).interface
    outer = held.interface.network
    return inner.ip in outer and inner.network.prefixlen >= outer.prefixlen


@_define("url", "(string) kubernetes.URL")
def _url(text: str) -> URL:
    parsed = _parse_url(text)
    if parsed is None:
        reason = f'parse "{text}": invalid URI for request'
        raise CelError(f"URL parse error during conversion from string: {reason}")
    return URL(parsed)


def _parse_url(text: str) -> RequestURI | None:
    return parse_request_uri(text)


_define("isURL", "(string) bool")(lambda text: _parse_url(text) is not None)
_define("getScheme", "kubernetes.URL.() string")(lambda held: held.parts.scheme)
_define("getHost", "kubernetes.URL.() string")(lambda held: held.parts.host)
_define("getHostname", "kubernetes.URL.() string")(lambda held: held.parts.hostname)
_define("getPort", "kubernetes.URL.() string")(lambda held: held.parts.port)
_define("getEscapedPath", "kubernetes.URL.() string")(lambda held: held.parts.escaped_path)


@_define("getQuery", "kubernetes.URL.() map(string, list(string))")
def _query(held: URL) -> dict[str, list[str]]:
    return parse_qs(held.parts.query, keep_blank_values=True)


def _one(check: Callable[[str], bool], reason: str) -> Callable[[str], list[str]]:
    return lambda text: [] if check(text) else [reason]


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda text: check(f"{text.removesuffix('-')}a")


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "byte": _one(formats.check_of("byte") or bool, "invalid base64"),
    "date": _one(formats.is_date, "invalid date"),
    "datetime": _one(formats.is_date_time, "invalid datetime"),
    "dns1035Label": names.label_1035_errors,
    "dns1035LabelPrefix": _prefix(names.label_1035_errors),
    "dns1123Label": names.label_errors,
    "dns1123LabelPrefix": _prefix(names.label_errors),
    "dns1123Subdomain": names.subdomain_errors,
    "dns1123SubdomainPrefix": _prefix(names.subdomain_errors),
    "labelValue": names.label_value_errors,
    "qualifiedName": names.qualified_name_errors,
    "uri": _one(lambda text: _parse_url(text) is not None, "invalid URI"),
    "uuid": _one(formats.check_of("uuid") or bool, "does not match the UUID format"),
}


@_define("format.named", "(string) optional_type(kubernetes.NamedFormat)")
def _named(name: str) -> Optional:
    return some(Format(name, _FORMATS[name])) if name in _FORMATS else NONE


@_define("validate", "kubernetes.NamedFormat.(string) optional_type(list(string))")
def _validate(held: Format, text: str) -> Optional:
    errors = held.errors(text)
    return some(errors) if errors else NONE


def _format(name: str) -> Callable[[], Any]:
    return lambda: Format(name, _FORMATS[name])


for _name in _FORMATS:
    _define(f"format.{_name}", "() kubernetes.NamedFormat")(_format(_name))
