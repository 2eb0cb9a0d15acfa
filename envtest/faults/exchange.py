"""One request through the proxy, with the faults that strike it."""

import socket
import struct
from collections.abc import AsyncIterator, Iterator, Sequence

import anyio
from aiohttp import ClientError, ClientResponse, web
from multidict import CIMultiDict, CIMultiDictProxy
from typing_extensions import override

from envtest.faults.calls import Call
from envtest.faults.fault import Answer, ConnectionTornError, End, Fault, Pause, Step
from envtest.faults.upstream import Upstream

# What belongs to one connection and not to the message (RFC 9110, 7.6.1), and what is made anew.
_OWN = frozenset(
    {
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class Exchange:
    """Carries one request to the server and its answer back.

    Args:
        request: as the proxy received it.
        call: what it asks for.
        faults: that strike it, in the order in which they were injected.
        upstream: the way to the server.
    """

    def __init__(
        self, request: web.BaseRequest, call: Call, faults: Sequence[Fault], upstream: Upstream
    ) -> None:
        self._request = request
        self._call = call
        self._faults = faults
        self._upstream = upstream

    async def run(self) -> web.StreamResponse:
        """Do it, and return what was sent; after a reset, what goes nowhere."""
        try:
            return await self._answered()
        except (ConnectionTornError, ClientError, OSError):
            # A server that hangs up on the proxy hangs up on its client.
            reset(self._request)
            return web.Response()

    async def _answered(self) -> web.StreamResponse:
        for fault in self._faults:
            answer = await fault.before()
            if answer is not None:
                return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        response = await self._forward()
        try:
            for fault in self._faults:
                await fault.after()
            return await self._pass_on(response)
        finally:
            response.close() if self._call.verb == "watch" else response.release()

    async def _forward(self) -> ClientResponse:
        headers = _passed(self._request.headers)
        # What is compressed has no lines.
        headers["Accept-Encoding"] = "identity"
        request = self._request
        return await self._upstream.send(
            request.method, request.raw_path, headers, self._call.body
        )

    async def _pass_on(self, response: ClientResponse) -> web.StreamResponse:
        headers = _passed(response.headers)
        if self._call.verb != "watch" or response.status != 200:
            body = await response.read()
            if not self._faults:
                return web.Response(status=response.status, body=body, headers=headers)
            return await self._send(response.status, headers, _Whole(body))
        return await self._send(response.status, headers, _Lines(response))

    async def _send(
        self, status: int, headers: CIMultiDict[str], pieces: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Send an answer piece by piece, each through all faults."""
        sent = web.StreamResponse(status=status, headers=headers)
        await sent.prepare(self._request)
        number, ended = 0, await _take(sent, self._altered(0, b""))
        while not ended and (piece := await anext(pieces, None)) is not None:
            number += 1
            ended = await _take(sent, self._altered(number, piece))
        return sent

    def _altered(self, number: int, piece: bytes) -> Iterator[Step]:
        steps: Iterator[Step] = iter((piece,))
        for fault in self._faults:
            steps = _through(fault, number, steps)
        return steps


def _through(fault: Fault, number: int, steps: Iterator[Step]) -> Iterator[Step]:
    """Return what a fault makes of what the faults before it left."""
    for step in steps:
        if isinstance(step, bytes):
            yield from fault.alter(number, step)
        else:
            yield step


async def _take(sent: web.StreamResponse, steps: Iterator[Step]) -> bool:
    """Do what the steps say; return whether the answer ends here."""
    for step in steps:
        match step:
            case Pause():
                await step.wait()
            case End.CLOSED:
                return True
            case End.RESET:
                raise ConnectionTornError
            case End.SILENCE:
                await anyio.sleep_forever()
            case bytes():
                if step:
                    await sent.write(step)
    return False


def reset(request: web.BaseRequest) -> None:
    """Tear the client's connection down with a RST, if it is still there."""
    transport = request.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        # A linger time of zero: closing drops what is unsent and resets (socket(7)).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _passed(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _OWN
    )


class _Whole(AsyncIterator[bytes]):
    """A body in one piece."""

    def __init__(self, body: bytes) -> None:
        self._left: bytes | None = body

    @override
    async def __anext__(self) -> bytes:
        piece, self._left = self._left, None
        if piece is None:
            raise StopAsyncIteration
        return piece


class _Lines(AsyncIterator[bytes]):
    """The lines of a watch, with their ends; the reader's own readline has a limit."""

    def __init__(self, response: ClientResponse) -> None:
        self._content = response.content
        self._lines: list[bytes] = []
        self._rest: list[bytes] = []

    @override
    async def __anext__(self) -> bytes:
        while not self._lines:
            chunk = await self._content.readany()
            if not chunk:
                raise StopAsyncIteration
            first, newline, rest = chunk.partition(b"\n")
            self._rest.append(first)
            if newline:
                *lines, last = (b"".join(self._rest) + b"\n" + rest).split(b"\n")
                self._lines = [line + b"\n" for line in reversed(lines)]
                self._rest = [last]
        return self._lines.pop()


__all__ = ["Answer", "Exchange", "reset"]
