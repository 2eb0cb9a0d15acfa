"""The small HTTP server behind /metrics, /healthz and /readyz."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
from aiohttp import web

from controller.errors import ConfigurationError

SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Bind:
    """Where to listen: a host (empty for all addresses) and a port (0 for any free one)."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Query = Mapping[str, Sequence[str]]
Page = Callable[[str, Query], Answer]
"""From what follows the page's path, and the query, to the answer."""


def parse_bind(text: str, flag: str) -> Bind | None:
    """Return where `text` says to listen; None for `0` and the empty text: not at all.

    Args:
        text: `:8080`, `127.0.0.1:8080`, `[::1]:8080`; `:0` takes any free port.
        flag: the setting's name, for the error.

    Raises:
        ConfigurationError: it is no such text.
    """
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdecimal() or int(port) > 65535 or (":" in host and not bracketed):
        raise ConfigurationError(
            f"{flag}: {text!r} is no address to listen on: write HOST:PORT, :PORT, or 0 for none"
        )
    return Bind(host.strip("[]"), int(port))


Guard = Callable[[str, str, str], Awaitable[Answer | None]]
"""From method, path and Authorization header to a refusal; None if the page may be shown."""


@asynccontextmanager
async def serve(
    bind: Bind,
    pages: Mapping[str, Page],
    what: str,
    *,
    tls: ssl.SSLContext | None = None,
    guard: Guard | None = None,
) -> AsyncIterator[int]:
    """Serve pages inside the context, which gives the port.

    Args:
        bind: where.
        pages: by path; what follows the path is theirs to read.
        what: for the error.
        tls: None for plain HTTP.
        guard: asked before each page; None shows them to everybody.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    app = web.Application()
    for path, page in pages.items():
        app.router.add_get(path, _handler(page, guard))
        app.router.add_get(path + "/{tail:.+}", _handler(page, guard))
    async with listening(app, bind, what, tls=tls) as port:
        yield port


@asynccontextmanager
async def listening(
    app: web.Application,
    bind: Bind,
    what: str,
    *,
    tls: ssl.SSLContext | None = None,
    drain_seconds: float = SHUTDOWN_SECONDS,
) -> AsyncIterator[int]:
    """Have `app` listen inside the context, which gives the port.

    Args:
        app: what answers.
        bind: where.
        what: for the error.
        tls: None for plain HTTP.
        drain_seconds: how long requests in work may take to end.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=drain_seconds)
    await runner.setup()
    try:
        site = web.TCPSite(runner, bind.host or None, bind.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            raise ConfigurationError(
                f"cannot listen on {bind.host}:{bind.port} for {what}: {error.strerror}"
            ) from error
        yield runner.addresses[0][1]
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _handler(page: Page, guard: Guard | None) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        answer = await _refusal(request, guard)
        if answer is None:
            query = {name: request.query.getall(name) for name in request.query}
            answer = page(request.match_info.get("tail", ""), query)
        headers = {"Content-Type": answer.content_type, "X-Content-Type-Options": "nosniff"}
        return web.Response(body=answer.body, status=answer.status, headers=headers)

    return handle


async def _refusal(request: web.Request, guard: Guard | None) -> Answer | None:
    if guard is None:
        return None
    return await guard(request.method, request.path, request.headers.get("Authorization", ""))
