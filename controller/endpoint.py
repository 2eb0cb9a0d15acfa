"""Where an API server is, and how to be let in."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from typing_extensions import override

RequestObserver = Callable[[str, str, float], None]
"""Told of a request: its method, the HTTP status of its answer (`<error>` if none came), and the
seconds until the answer began."""


class Credentials(Protocol):
    """How to prove who we are, and how to do so again when that is no longer accepted."""

    async def authorization(self) -> str:
        """Return the Authorization header; empty for none (a client certificate, say).

        Raises:
            ConfigurationError: the credentials cannot be read any more.
        """
        ...

    async def renew(self) -> bool:
        """Read the credentials again after a 401; return whether another try makes sense.

        Raises:
            ConfigurationError: the credentials cannot be read any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticToken(Credentials):
    """A bearer token that somebody else replaces together with the whole transport."""

    token: str = field(default="", repr=False)

    @override
    async def authorization(self) -> str:
        return f"Bearer {self.token}" if self.token else ""

    @override
    async def renew(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server and how to be let in.

    Args:
        server: the URL, without a slash at the end.
        credentials: who we are, beside a client certificate in `tls`.
        tls: None for plain HTTP.
        server_name: the name in the server's certificate, where it is not the URL's host.
        proxy: URL of an HTTP proxy; empty for none.
        current_tls: what new connections use in the place of `tls`, where that may change.
        user_agent: the part before the slash is the field manager of writes that name none.
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
    """Return a context that trusts these authorities alone, or the machine's if none is given.

    The strict RFC 5280 checks that Python 3.13 switched on are off: authorities made by kubeadm
    and by kube-apiserver itself lack the extensions that they ask for, and no other
    Kubernetes client makes them.

    Raises:
        ssl.SSLError, OSError: the authorities cannot be read.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
