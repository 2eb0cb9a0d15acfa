"""Connections: how long each may take, and what ends when its client hangs up.

The deadlines are those of Go's server under kube-apiserver: 32 seconds for the head of a request,
90 for an idle connection. A body is given as long as a head. A watcher that does not read costs
nothing but its connection, since watches hold no queue; it is dropped all the same once a single
write has waited too long, as the real server drops whoever does not keep up.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

import anyio
import msgspec
from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11
from aiohttp.http_exceptions import BadHttpMethod
from aiohttp.web_protocol import RequestHandler
from typing_extensions import override

from envtest.front.refusals import (
    MALFORMED,
    TOO_LARGE,
    UNSUPPORTED_VERSION,
    RawAnswer,
    answer_to,
    refusal,
)
from envtest.server.failures import method_not_allowed

# Go takes a mebibyte of headers in all, and a little more.
HEADER_LIMIT = 1024 * 1024
_SLACK = 4096
# Fewer bytes than these no header has.
HEADER_COUNT = HEADER_LIMIT // 4
_UNBOUNDED = -(1 << 62)
_VERSIONS = frozenset({HttpVersion10, HttpVersion11})
# How long to go on reading, and forgetting, the body of a request that was refused.
_LINGERING_SECONDS = 1.0

# As the parser reports a line whose first word it does not know.
_UNKNOWN_METHOD = re.compile(r"b['\"][-!#$%&'*+.^_`|~\w]+ /[^ ]* HTTP/1\.[01]['\"]")

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

    async def wait(self, count: int) -> None:
        """Wait until so many watches are open, no more and no fewer."""
        while len(self._open) != count:
            await self._changed.wait()

    def _ring(self) -> None:
        bell, self._changed = self._changed, anyio.Event()
        bell.set()

    @contextmanager
    def opened(self, connection: RequestHandler) -> Iterator[None]:
        """Count a watch for as long as the block lasts; a client that hangs up ends the block."""
        with anyio.CancelScope() as scope:
            self._open[scope] = connection
            self._ring()
            try:
                yield
            finally:
                del self._open[scope]
                self._ring()

    def hung_up(self, connection: RequestHandler) -> None:
        """End the watches of a connection that is gone."""
        for scope, owner in self._open.items():
            if owner is connection:
                scope.cancel()


class _Connection(RequestHandler):
    """Answers what is no HTTP as Go's server does, and unknown methods as the API does."""

    # Bytes that came since the last request was answered; far below nought while one is, as
    # its body is bounded elsewhere.
    head_size = 0

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, BadHttpMethod) and _UNKNOWN_METHOD.search(message or ""):
            # For Go any word is a method. Who asks is not looked at: the parser keeps no headers.
            refused = method_not_allowed()
            answer = web.Response(
                status=refused.code,
                body=msgspec.json.encode(refused.body()),
                content_type="application/json",
            )
            answer.force_close()
            return answer
        return answer_to(exc, message or "")

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.head_size += len(data)
        if self.head_size > HEADER_LIMIT + _SLACK and self.transport is not None:
            self.transport.write(refusal(TOO_LARGE))
            self.transport.close()


class Connections(web.Server):
    """Accepts connections and hands requests over.

    Args:
        handler: answers requests.
        watchers: are told of connections that are gone.
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
            max_line_size=HEADER_LIMIT,
            max_field_size=HEADER_LIMIT,
            max_headers=HEADER_COUNT,
        )
        self._answer = handler
        self._watchers = watchers
        self._head_seconds = deadlines.head
        # Connections that have not sent a whole head yet, with what will close them.
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    @override
    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)

    async def _begin(self, request: web.BaseRequest) -> web.StreamResponse:
        timer = self._silent.pop(request.protocol, None)
        if timer is not None:
            timer.cancel()
        if request.version not in _VERSIONS:
            # The parser takes texts without a version, too.
            return RawAnswer(UNSUPPORTED_VERSION if request.version.major else MALFORMED)
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.head_size = _UNBOUNDED
        try:
            return await self._answer(request)
        finally:
            # What is left of a body that nobody wanted is no head.
            connection.head_size = 0 if request.content.is_eof() else _UNBOUNDED

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
        self._watchers.hung_up(handler)
