"""Connections of clients: their deadlines, the limit of bodies, and the end of their watches.

The deadlines are those of Go's server in kube-apiserver: 32 seconds for the head of a request, 90
seconds for an idle connection. The body has the same deadline as the head. A client that does not
read its watch costs only its connection, because watches have no queue. It is disconnected after
a single write has waited too long, as the real server disconnects slow clients.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.web_protocol import RequestHandler
from typing_extensions import override

from envtest.server.bodies import BODY_LIMIT
from envtest.server.failures import StatusError, build_too_large

# Go's limit for the head of a request.
_HEADER_LIMIT = 1024 * 1024
# How long the body of a refused request is read and dropped, so that the client gets the answer.
_LINGERING_SECONDS = 1.0

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The time limits of clients, in seconds.

    Args:
        head: the limit for sending the head of a connection's first request.
        body: the limit for sending a body after its head.
        idle: the limit between two requests.
        write: the limit for receiving a chunk of a watch.
    """

    head: float = 32.0
    body: float = 32.0
    idle: float = 90.0
    write: float = 60.0


class Watchers:
    """The open watches, each with its client's connection; a watch ends with its connection."""

    def __init__(self) -> None:
        self._open: dict[anyio.CancelScope, RequestHandler] = {}
        self._changed = anyio.Event()

    def __len__(self) -> int:
        """Return the number of open watches."""
        return len(self._open)

    async def wait_for_count(self, count: int) -> None:
        """Wait until exactly `count` watches are open."""
        while len(self._open) != count:
            await self._changed.wait()

    def _notify(self) -> None:
        """Wake the tasks that wait for a number of watches."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    @contextmanager
    def count_watch(self, connection: RequestHandler) -> Iterator[None]:
        """Count a watch while the block lasts; the end of the connection ends the block."""
        with anyio.CancelScope() as scope:
            self._open[scope] = connection
            self._notify()
            try:
                yield
            finally:
                del self._open[scope]
                self._notify()

    def end_watches(self, connection: RequestHandler) -> None:
        """End the watches of a connection that is closed."""
        for scope, owner in self._open.items():
            if owner is connection:
                scope.cancel()


class Connections(web.Server):
    """A server that accepts connections and passes their requests to a handler.

    Args:
        handler: answers requests.
        watchers: the open watches; those of a closed connection are ended.
        deadlines: the deadlines of clients.
    """

    def __init__(self, handler: Handler, watchers: Watchers, deadlines: Deadlines) -> None:
        super().__init__(
            self._handle_head,
            access_log=None,
            # As in Go, bodies are not decompressed, so that a small one cannot become large.
            auto_decompress=False,
            keepalive_timeout=deadlines.idle,
            lingering_time=_LINGERING_SECONDS,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )
        self._answer = handler
        self._watchers = watchers
        self._head_seconds = deadlines.head
        # Connections that have not sent a complete head yet, with the timer that closes them.
        self._head_timers: dict[RequestHandler, asyncio.TimerHandle] = {}

    async def _handle_head(self, request: web.BaseRequest) -> web.StreamResponse:
        """Stop the timer for the head, which is complete now, and answer the request."""
        timer = self._head_timers.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        return await self._answer(request)

    @override
    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Start the timer that closes a connection without a complete head in time."""
        super().connection_made(handler, transport)
        self._head_timers[handler] = self._loop.call_later(self._head_seconds, transport.abort)

    @override
    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Stop the timer of a closed connection, and end its watches."""
        super().connection_lost(handler, exc)
        timer = self._head_timers.pop(handler, None)
        if timer is not None:
            timer.cancel()
        self._watchers.end_watches(handler)


class ClientGoneError(Exception):
    """The client closed the connection in the middle of its request."""


async def read_body(request: web.BaseRequest, seconds: float) -> bytes:
    """Read the body of a request, up to the limit.

    Args:
        request: a request whose head was read.
        seconds: how long the body may take.

    Raises:
        StatusError: 413 if it is too large, 504 if it takes too long.
        ClientGoneError: the client closed the connection.
    """
    content = request.content
    if content.is_eof() and content.total_bytes <= BODY_LIMIT:
        # Most small bodies arrive together with the head.
        return content.read_nowait()
    if (request.content_length or 0) > BODY_LIMIT:
        raise build_too_large(BODY_LIMIT)
    if not request.can_read_body:
        return b""
    await _send_continue(request)
    try:
        with anyio.move_on_after(seconds):
            return await _read_limited_body(request)
    except (ConnectionError, web.RequestPayloadError) as error:
        raise ClientGoneError from error
    # The refusal of kube-apiserver's timeout filter.
    message = "Timeout: request did not complete within the allotted timeout"
    raise StatusError(504, message, "Timeout", details={})


async def _send_continue(request: web.BaseRequest) -> None:
    """Send "100 Continue" to a client that waits for it, as curl does before large bodies."""
    awaits_continue = request.headers.get("Expect", "").lower() == "100-continue"
    if awaits_continue and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # aiohttp must not take these bytes for the beginning of the answer.
        request.writer.output_size = 0


async def _read_limited_body(request: web.BaseRequest) -> bytes:
    """Read a body chunk by chunk; refuse it once it exceeds the limit."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise build_too_large(BODY_LIMIT)
        chunks.append(chunk)
    return b"".join(chunks)
