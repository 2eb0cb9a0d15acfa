"""A small HTTP server for pages such as /metrics, /healthz and /readyz."""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import combinations

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from typing_extensions import override

from controller.errors import ConfigurationError

SHUTDOWN_SECONDS = 1.0


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether a failure is one of ours; for a request that is no HTTP a 400 is enough."""
    return not record.exc_info or not isinstance(record.exc_info[1], HttpProcessingError)


_log = logging.getLogger(__name__)
_log.addFilter(_is_ours)


@dataclass(frozen=True, slots=True)
class Bind:
    """An address to listen on: a host (empty for all) and a port (0 for any free one)."""

    host: str
    port: int

    def collides(self, other: "Bind") -> bool:
        """Return whether no process can listen on both, by their texts; names are not resolved."""
        if self.port == 0 or self.port != other.port:
            return False
        return self.host == other.host or bool({self.host, other.host} & _ALL_HOSTS)

    @override
    def __str__(self) -> str:
        """Return the address as `parse_bind` reads it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_ALL_HOSTS = {"", "0.0.0.0", "::"}  # noqa: S104 - compared with, not listened on


@dataclass(frozen=True, slots=True)
class Response:
    """The response of a page."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a page: the URL's path below the page's own, the query, the header Accept."""

    tail: str
    query: Mapping[str, Sequence[str]]
    accept: str


Page = Callable[[Request], Response]
Guard = Callable[[str, str, str], Awaitable[Response | None]]
"""From method, path and Authorization header to a refusal; None if the page may be shown."""


def parse_bind(address: str, flag: str) -> Bind | None:
    """Parse an address to listen on; return None, which means not to listen, for `0` and "".

    Args:
        address: `:8080`, `127.0.0.1:8080`, `[::1]:8080`; `:0` for any free port.
        flag: the setting's name, for the error.

    Raises:
        ConfigurationError: it is no address.
    """
    if address in ("", "0"):
        return None
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not bracketed):
        raise ConfigurationError(
            f"{flag}: {address!r} cannot be parsed: write HOST:PORT, :PORT, or 0 to not listen"
        )
    return Bind(host.strip("[]"), int(port))


def check_listeners(binds: Mapping[str, Bind | None]) -> None:
    """Refuse settings by which two servers of this process listen on one address.

    Args:
        binds: the addresses by the names of their settings; None listens nowhere.

    Raises:
        ConfigurationError: two of them collide.
    """
    listeners = [(flag, bind) for flag, bind in binds.items() if bind is not None]
    for (flag, bind), (other_flag, other) in combinations(listeners, 2):
        if bind.collides(other):
            raise ConfigurationError(
                f"{flag} {bind} and {other_flag} {other} are one address, and one server can"
                " listen on it: choose another port for one of them"
            )


@asynccontextmanager
async def serve(
    bind: Bind,
    pages: Mapping[str, Page],
    subject: str,
    *,
    tls: ssl.SSLContext | None = None,
    guard: Guard | None = None,
) -> AsyncIterator[int]:
    """Serve pages inside the context, which returns the port.

    Args:
        bind: the address.
        pages: by URL path; a page gets the requests below its path, too.
        subject: the name of the service, for error messages.
        tls: None for plain HTTP.
        guard: called before each page; None serves them without authentication.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    app = web.Application()
    for path, page in pages.items():
        app.router.add_get(path, _handler(page, guard))
        app.router.add_get(path + "/{tail:.+}", _handler(page, guard))
    async with listening(app, bind, subject, tls=tls) as port:
        yield port


@asynccontextmanager
async def listening(
    app: web.Application,
    bind: Bind,
    subject: str,
    *,
    tls: ssl.SSLContext | None = None,
    drain_seconds: float = SHUTDOWN_SECONDS,
    cancel_abandoned: bool = False,
) -> AsyncIterator[int]:
    """Serve `app` for the time of the context, which returns the port.

    Args:
        app: the application.
        bind: the address.
        subject: the name of the service, for error messages.
        tls: None for plain HTTP.
        drain_seconds: how long running requests may take when the context ends.
        cancel_abandoned: cancel requests whose client has gone, as streams would not end.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_log,
        shutdown_timeout=drain_seconds,
        handler_cancellation=cancel_abandoned,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, bind.host or None, bind.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {bind.host}:{bind.port} for {subject}: {error.strerror}"
            ) from error
        yield runner.addresses[0][1]
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _handler(page: Page, guard: Guard | None) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the aiohttp handler of a page; the guard, if there is one, may answer first."""

    async def handle(request: web.Request) -> web.Response:
        """Answer one request, after the guard has let it pass."""
        response = None
        if guard is not None:
            authorization = request.headers.get("Authorization", "")
            response = await guard(request.method, request.path, authorization)
        if response is None:
            query = {name: request.query.getall(name) for name in request.query}
            accept = ",".join(request.headers.getall("Accept", ()))
            response = page(Request(request.match_info.get("tail", ""), query, accept))
        headers = {"Content-Type": response.content_type, "X-Content-Type-Options": "nosniff"}
        return web.Response(body=response.body, status=response.status, headers=headers)

    return handle
