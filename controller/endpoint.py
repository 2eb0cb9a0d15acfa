"""Where an API server is and how to reach it: URL, TLS, credentials, proxy."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from urllib.parse import SplitResult, urlsplit

from typing_extensions import override

RequestObserver = Callable[[str, str, float], None]
"""Called once per request with the method, the HTTP status code of the response (`<error>` if none
came), and the seconds until the response's headers came."""


@runtime_checkable
class MeasuredTransport(Protocol):
    """A transport that reports its requests, as the one over HTTP does."""

    observe: RequestObserver | None
    """Called once per request; None for nobody."""

    @property
    def server(self) -> str:
        """The server's URL, for messages and metrics."""
        ...


class Credentials(Protocol):
    """How to authenticate, and how to get new credentials after a 401."""

    def get_cached_authorization(self) -> str | None:
        """Return the Authorization header; None if `get_authorization` has to read it.

        Raises:
            ConfigurationError: the credentials cannot be sent in a header.
        """
        return None

    async def get_authorization(self) -> str:
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

    async def aclose(self) -> None:
        """End what still runs to get credentials."""
        ...


@dataclass(frozen=True, slots=True)
class StaticToken(Credentials):
    """A bearer token that never changes: new credentials come with a new transport."""

    token: str = field(default="", repr=False)

    @property
    def _header(self) -> str:
        """The Authorization header; empty without a token."""
        return f"Bearer {self.token}" if self.token else ""

    @override
    def get_cached_authorization(self) -> str | None:
        """Return the Authorization header; empty without a token."""
        return self._header

    @override
    async def get_authorization(self) -> str:
        """Return the Authorization header; empty without a token."""
        return self._header

    @override
    async def renew(self) -> bool:
        """Return False: the token never changes."""
        return False

    @override
    async def aclose(self) -> None:
        """Do nothing: a token that is known needs nothing that runs."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server and how to reach it.

    Args:
        server: the URL, without a slash at the end.
        credentials: how to authenticate, in addition to a client certificate in `tls`.
        tls: the TLS context; None for plain HTTP.
        server_name: the name in the server's certificate, if it is not the URL's host.
        proxy: URL of an HTTP proxy; empty for none.
        user_agent: the User-Agent header. The server takes the part before the slash as the field
            manager of writes that name no field manager.
        get_current_tls: returns the TLS context for new connections, in place of `tls`; None if
            the context never changes.
    """

    server: str
    credentials: Credentials = StaticToken()
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    user_agent: str = "controller"
    get_current_tls: Callable[[], ssl.SSLContext | None] | None = None


def create_tls_context(
    *, cafile: str | None = None, cadata: str | None = None, verify: bool = True
) -> ssl.SSLContext:
    """Return a context that trusts only the given authorities, or the system's if none is given.

    The strict checks of RFC 5280, which Python makes by default since 3.13, are switched off. They
    require extensions that the authorities of kubeadm and kube-apiserver lack, and no other
    Kubernetes client makes these checks.

    Raises:
        ssl.SSLError, OSError: the authorities cannot be read.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def parse_host_url(url: str) -> SplitResult | None:
    """Return the parts of an http:// or https:// URL with a host; None for any other text.

    A port out of range, brackets that do not close and a name that DNS cannot have also give None,
    because aiohttp raises ValueError for them.
    """
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        is_usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable else None
