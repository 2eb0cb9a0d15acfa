"""A small HTTP server for pages such as /metrics, /healthz and /readyz, by aiohttp."""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import anyio
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from controller.errors import ConfigurationError
from controller.loggers import get_logger
from controller.pages import Bind, Guard, Page, PageRequest

SHUTDOWN_SECONDS = 1.0
"""How long running requests may take when a server ends."""


def _is_about_our_code(record: logging.LogRecord) -> bool:
    """Return whether a log line of aiohttp is about our code, and not about a malformed request.

    A client that sends no valid HTTP gets a 400; a line in our log would help nobody.
    """
    return not record.exc_info or not isinstance(record.exc_info[1], HttpProcessingError)


_log = logging.getLogger(__name__)
_log.addFilter(_is_about_our_code)
log = get_logger(__name__)


@asynccontextmanager
async def serve(
    bind: Bind,
    pages: Mapping[str, Page],
    subject: str,
    *,
    tls: ssl.SSLContext | None = None,
    guard: Guard | None = None,
) -> AsyncIterator[int]:
    """Serve pages for the time of the context, which yields the port.

    Args:
        bind: the address to listen on.
        pages: by URL path; a page gets the requests below its path, too.
        subject: the name of the service, for error messages.
        tls: None for plain HTTP.
        guard: called before each page; None serves them without authentication.

    Raises:
        ConfigurationError: the address cannot be listened on.
    """
    app = web.Application()
    for path, page in pages.items():
        app.router.add_get(path, _create_guarded_handler(page, guard))
        app.router.add_get(path + "/{tail:.+}", _create_guarded_handler(page, guard))
    async with serve_app(app, bind, subject, tls=tls) as port:
        yield port


@asynccontextmanager
async def serve_app(
    app: web.Application,
    bind: Bind,
    subject: str,
    *,
    tls: ssl.SSLContext | None = None,
    drain_seconds: float = SHUTDOWN_SECONDS,
    cancel_abandoned: bool = False,
) -> AsyncIterator[int]:
    """Serve `app` for the time of the context, which yields the port.

    Args:
        bind: the address to listen on.
        subject: the name of the service, for error messages.
        tls: None for plain HTTP.
        drain_seconds: how long running requests may take when the context ends.
        cancel_abandoned: cancel requests whose client has closed the connection. A stream would
            not end otherwise.

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
        port = runner.addresses[0][1]
        scheme = "https" if tls is not None else "http"
        log.info("Serving", server=subject, scheme=scheme, host=bind.host, port=port)
        yield port
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


def _create_guarded_handler(
    page: Page, guard: Guard | None
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the aiohttp handler of a page, which calls the guard first.

    The guard returns a response only to refuse the request; then the page is not called.
    """

    async def handle(request: web.Request) -> web.Response:
        """Answer a request with the response of the guard, else with that of the page."""
        response = None
        if guard is not None:
            authorization = request.headers.get("Authorization", "")
            response = await guard(request.method, request.path, authorization)
        if response is None:
            query = {name: request.query.getall(name) for name in request.query}
            accept = ",".join(request.headers.getall("Accept", ()))
            response = page(PageRequest(request.match_info.get("tail", ""), query, accept))
        headers = {"Content-Type": response.content_type, "X-Content-Type-Options": "nosniff"}
        return web.Response(body=response.body, status=response.status, headers=headers)

    return handle
