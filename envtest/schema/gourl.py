"""URLs as Go's `net/url` reads a request URI: what counts as one, and its parts."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_USERINFO = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
_HOST_REFUSED = re.compile(r'[\x00-\x20"#/<>?@\\^`{|}\x7f]')


@dataclass(frozen=True, slots=True)
class RequestURI:
    """A parsed request URI; all parts as they are in Go after decoding.

    Attributes:
        scheme: lower case, empty for a path alone.
        host: host with port and brackets.
        path: decoded path.
        escaped_path: the path as written.
        query: the raw query, without the question mark.
    """

    scheme: str
    host: str
    path: str
    escaped_path: str
    query: str

    @property
    def hostname(self) -> str:
        """The host without port and without the brackets of an IPv6 address."""
        host = self.host[: -len(self.port) - 1] if _has_port(self.host) else self.host
        return host[1:-1] if host.startswith("[") and host.endswith("]") else host

    @property
    def port(self) -> str:
        """The port as written; empty where none is."""
        return self.host.rpartition(":")[2] if _has_port(self.host) else ""


def parse_request_uri(text: str) -> RequestURI | None:
    """Parse `text` as Go's `url.ParseRequestURI`; None where Go returns an error."""
    if text == "*":
        return RequestURI("", "", "*", "*", "")
    scheme, rest = _split_scheme(text)
    if not text or scheme is None or any(rune < " " or rune == "\x7f" for rune in text):
        return None
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        return RequestURI(scheme, "", "", "", query) if scheme else None
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        parsed = _host(authority)
        if parsed is None:
            return None
        host = parsed
    if _ESCAPE.search(rest):
        return None
    return RequestURI(scheme, host, _unescape(rest), rest, query)


def _split_scheme(text: str) -> tuple[str | None, str]:
    if text.startswith(":"):
        return None, text
    found = _SCHEME.match(text)
    if found is None:
        return "", text
    return found.group(1).lower(), text[found.end() :]


def _host(authority: str) -> str | None:
    userinfo, at, host = authority.rpartition("@")
    if at and (not _USERINFO.match(userinfo) or _ESCAPE.search(userinfo)):
        return None
    if host.startswith("["):
        inner, bracket, port = host.rpartition("]")
        if not bracket or (port and not re.fullmatch(r":[0-9]*", port)):
            return None
        return None if _HOST_REFUSED.search(inner.replace("%25", "")) else host
    if ":" in host and not re.fullmatch(r"[0-9]*", host.rpartition(":")[2]):
        return None
    if _HOST_REFUSED.search(host) or re.search(r"%(?![89a-fA-F][0-9a-fA-F])", host):
        return None
    return _unescape(host)


def _has_port(host: str) -> bool:
    return re.search(r":[0-9]*\Z", host) is not None and not (
        host.startswith("[") and host.endswith("]")
    )


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    raw = re.sub(
        rb"%([0-9a-fA-F]{2})", lambda hexes: bytes([int(hexes.group(1), 16)]), text.encode()
    )
    return raw.decode("utf-8", "replace")
