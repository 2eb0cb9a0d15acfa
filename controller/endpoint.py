"""Where an API server is and how to reach it: URL, TLS, credentials, proxy."""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from typing_extensions import override

from controller.errors import ConfigurationError

RequestObserver = Callable[[str, str, float], None]
"""Called once per request with the method, the HTTP status code of the response (`<error>` if none
came), and the seconds until the response's headers came."""


class Credentials(Protocol):
    """How to authenticate, and how to get new credentials after a 401."""

    async def authorization(self) -> str:
        """Return the Authorization header; empty for none (with a client certificate, say).

        Raises:
            ConfigurationError: the credentials cannot be read any more.
        """
        ...

    async def renew(self) -> bool:
        """Read the credentials again after a 401; return whether they changed.

        Raises:
            ConfigurationError: the credentials cannot be read any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticToken(Credentials):
    """A bearer token that never changes: new credentials come with a new transport."""

    token: str = field(default="", repr=False)

    @override
    async def authorization(self) -> str:
        return f"Bearer {self.token}" if self.token else ""

    @override
    async def renew(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server and how to reach it.

    Args:
        server: the URL, without a slash at the end.
        credentials: how to authenticate, in addition to a client certificate in `tls`.
        tls: None for plain HTTP.
        server_name: the name in the server's certificate, if it is not the URL's host.
        proxy: URL of an HTTP proxy; empty for none.
        user_agent: the part before the slash is the field manager of writes that name none.
        current_tls: returns what new connections use instead of `tls`, if that may change.
    """

    server: str
    credentials: Credentials = StaticToken()
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    user_agent: str = "controller"
    current_tls: Callable[[], ssl.SSLContext | None] | None = None


def tls_context(
    *, cafile: str | None = None, cadata: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """Return a context that trusts only the given authorities, or the system's if none is given.

    The strict RFC 5280 checks that are on by default since Python 3.13 are switched off: the
    authorities that kubeadm and kube-apiserver make lack the extensions that these checks
    require, and no other Kubernetes client makes them.

    Raises:
        ssl.SSLError, OSError: the authorities cannot be read.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def proxy_from_environment(server: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for `server` by HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

    NO_PROXY may hold networks, as in Go's net/http: otherwise a pod with NO_PROXY set to the
    service network would reach its own API server through the proxy.

    Args:
        server: URL of the API server.
        environ: the environment variables.

    Returns:
        The proxy's URL; empty for none.
    """
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower()) or ""
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    host = parts.hostname or ""
    entries = [entry.strip() for entry in exceptions.split(",") if entry.strip()]
    if not proxy or host == "localhost" or any(_excludes(entry, host) for entry in entries):
        return ""
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", f"the variable {name}")


def checked_proxy(proxy: str, where: str) -> str:
    """Return `proxy` if its URL can be used.

    Raises:
        ConfigurationError: it is not an HTTP proxy; the message says `where` it was set.
    """
    if url_of_host(proxy) is None:
        raise ConfigurationError(
            f"{where} names the proxy {proxy[:100]!r}, but only http:// and https:// proxies are"
            " supported"
        )
    return proxy


def url_of_host(url: str) -> SplitResult | None:
    """Return the parts of an http:// or https:// URL that leads to a host; None of any other.

    A port out of range, brackets that do not close and a name that DNS cannot have are found here,
    as what sends requests raises ValueError for them.
    """
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _excludes(entry: str, host: str) -> bool:
    """Return whether one entry of NO_PROXY matches `host`."""
    if entry == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        suffix = entry.removeprefix("*").removeprefix(".").split(":")[0]
        return host == suffix or host.endswith(f".{suffix}")
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return address.is_loopback
