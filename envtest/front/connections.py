"""Connections: how long each may take, how much a body may hold, what ends with a connection.

The deadlines are those of Go's server under kube-apiserver: 32 seconds for the head of a request,
90 for an idle connection. A body is given as long as a head. A watcher that does not read costs
nothing but its connection, since watches hold no queue; it is dropped all the same once a single
write has waited too long, as the real server drops clients that do not keep up.
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
from envtest.server.failures import StatusError, too_large

# Go takes a mebibyte of headers.
_HEADER_LIMIT = 1024 * 1024
# How long to go on reading, and forgetting, the body of a request that was refused.
_LINGERING_SECONDS = 1.0

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long clients may take, in seconds.

    Args:
        head: for the line and headers of a connection's first request.
        body: for a body, once its head is there.
        idle: between requests.
        write: for taking a piece of a watch.
    """

    head: float = 32.0
    body: float = 32.0
    idle: float = 90.0
    write: float = 60.0


class Watchers:
    """The watches that are open, each with the connection that it ends with."""

    def __init__(self) -> None:
        self._open: dict[anyio.CancelScope, RequestHandler] = {}
        self._changed = anyio.Event()

    def __len__(self) -> int:
        return len(self._open)

    async def wait_for_count(self, count: int) -> None:
        """Wait until exactly `count` watches are open."""
        while len(self._open) != count:
            await self._changed.wait()

    def _notify(self) -> None:
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
        """End the watches of a connection that is gone."""
        for scope, owner in self._open.items():
            if owner is connection:
                scope.cancel()


class Connections(web.Server):
    """Accepts connections and hands requests over.

    Args:
        handler: answers requests.
        watchers: end their watches when a connection is closed.
        deadlines: that clients have to keep.
    """

    def __init__(self, handler: Handler, watchers: Watchers, deadlines: Deadlines) -> None:
        super().__init__(
            self._begin,
            access_log=None,
            # A body is what was sent, as for Go: nothing small becomes something large here.
            auto_decompress=False,
            keepalive_timeout=deadlines.idle,
            lingering_time=_LINGERING_SECONDS,
            max_line_size=_HEADER_LIMIT,
            max_field_size=_HEADER_LIMIT,
        )
        self._answer = handler
        self._watchers = watchers
        self._head_seconds = deadlines.head
        # Connections that have not sent a whole head yet, with what will close them.
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    async def _begin(self, request: web.BaseRequest) -> web.StreamResponse:
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        return await self._answer(request)

    @override
    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._silent[handler] = self._loop.call_later(self._head_seconds, transport.abort)

    @override
    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()
        self._watchers.end_watches(handler)


class ClientGoneError(Exception):
    """The client closed the connection in the middle of its request."""


async def read_body(request: web.BaseRequest, seconds: float) -> bytes:
    """Read a body up to the limit.

    Args:
        request: of which the head is there.
        seconds: that the body may take.

    Raises:
        StatusError: 413; 504 when it takes too long.
        ClientGoneError: it will never come.
    """
    content = request.content
    if content.is_eof() and content.total_bytes <= BODY_LIMIT:
        # It came with its head, as small ones do.
        return content.read_nowait()
    if (request.content_length or 0) > BODY_LIMIT:
        raise too_large(BODY_LIMIT)
    if not request.can_read_body:
        return b""
    await _send_continue(request)
    try:
        with anyio.move_on_after(seconds):
            return await _read_body(request)
    except (ConnectionError, web.RequestPayloadError) as error:
        raise ClientGoneError from error
    # The refusal of kube-apiserver's timeout filter.
    message = "Timeout: request did not complete within the allotted timeout"
    raise StatusError(504, message, "Timeout", details={})


async def _send_continue(request: web.BaseRequest) -> None:
    """Tell a client that waits for it to send the body, as curl does with large ones."""
    asked = request.headers.get("Expect", "").lower() == "100-continue"
    if asked and request.version == HttpVersion11:
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # What was sent is no part of the answer yet.
        request.writer.output_size = 0


async def _read_body(request: web.BaseRequest) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        chunks.append(chunk)
    return b"".join(chunks)
