"""One request through the proxy: its way to the server, and the faults that strike it."""

import base64
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import yaml
from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    web,
)
from multidict import CIMultiDict, CIMultiDictProxy
from typing_extensions import override
from yarl import URL

from envtest.certs import KeyPair, client_tls
from envtest.faults.calls import Call
from envtest.faults.fault import ConnectionTornError, End, Fault, Pause, Step
from envtest.plane import RunningControlPlane, new_token

_SKIPPED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
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


@dataclass(frozen=True, slots=True)
class _User:
    """How a user authenticates: by the certificate of `session`, or by `token`."""

    session: ClientSession
    token: str


class Upstream:
    """Connections to the server behind the proxy.

    Args:
        plane: the server.
    """

    def __init__(self, plane: RunningControlPlane) -> None:
        self._plane = plane
        self._tokens: dict[str, str] = {}
        self._users: dict[str, _User] = {}
        self._anonymous = _session(_context(_parts(plane.kubeconfig())[0], None))

    def token(self, name: str) -> str:
        """Return the token that stands for a user of the control plane.

        Raises:
            PlaneError: there is no such user.
        """
        if name not in self._tokens:
            cluster, user = _parts(self._plane.kubeconfig(name))
            pair = _pair(user)
            session = _session(_context(cluster, pair)) if pair else self._anonymous
            self._tokens[name] = new_token()
            self._users[self._tokens[name]] = _User(session, str(user.get("token") or ""))
        return self._tokens[name]

    async def forward(
        self, method: str, raw_path: str, headers: CIMultiDict[str], body: bytes
    ) -> ClientResponse:
        """Forward a request with the credentials of its user; return the response, body unread.

        A bearer token made by `token` is replaced by the user's client certificate or own token;
        any other Authorization header is forwarded unchanged. Redirects are not followed.

        Raises:
            aiohttp.ClientError, OSError: the server cannot be reached, or closes the connection.
        """
        session, sent = self._anonymous, CIMultiDict(headers)
        kind, _, token = sent.get("Authorization", "").partition(" ")
        user = self._users.get(token) if kind.lower() == "bearer" else None
        if user is not None:
            session = user.session
            del sent["Authorization"]
            if user.token:
                sent["Authorization"] = f"Bearer {user.token}"
        url = URL(self._plane.url + raw_path, encoded=True)
        return await session.request(
            method, url, headers=sent, data=body or None, allow_redirects=False
        )

    async def close(self) -> None:
        """Close all connections."""
        for session in {self._anonymous, *(user.session for user in self._users.values())}:
            await session.close()


def _parts(kubeconfig: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cluster and the user of a kubeconfig that has one of each."""
    document = yaml.safe_load(kubeconfig)
    return document["clusters"][0]["cluster"], document["users"][0]["user"]


def _pair(user: dict[str, Any]) -> KeyPair | None:
    if "client-certificate-data" not in user:
        return None
    fields = ("client-certificate-data", "client-key-data")
    return KeyPair(*(base64.b64decode(user[field]) for field in fields))


def _context(cluster: dict[str, Any], pair: KeyPair | None) -> ssl.SSLContext:
    return client_tls(base64.b64decode(cluster["certificate-authority-data"]), pair)


def _session(context: ssl.SSLContext) -> ClientSession:
    return ClientSession(
        connector=TCPConnector(ssl=context, limit=0),
        timeout=ClientTimeout(),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=_SKIPPED,
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
        """Forward the request and the answer; return the answer (unsent after a reset)."""
        try:
            return await self._exchange()
        except (ConnectionTornError, ClientError, OSError):
            # A connection that the server closes is closed to the client, too.
            reset(self._request)
            return web.Response()

    async def _exchange(self) -> web.StreamResponse:
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
        headers = _keep_end_to_end_headers(self._request.headers)
        # What is compressed has no lines.
        headers["Accept-Encoding"] = "identity"
        request = self._request
        return await self._upstream.forward(
            request.method, request.raw_path, headers=headers, body=self._call.body
        )

    async def _pass_on(self, response: ClientResponse) -> web.StreamResponse:
        headers = _keep_end_to_end_headers(response.headers)
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
        number, ended = 0, await _take(sent, self._apply_faults(0, b""))
        while not ended and (piece := await anext(pieces, None)) is not None:
            number += 1
            ended = await _take(sent, self._apply_faults(number, piece))
        return sent

    def _apply_faults(self, number: int, piece: bytes) -> Iterator[Step]:
        steps: Iterator[Step] = iter((piece,))
        for fault in self._faults:
            steps = _through(fault, number, steps)
        return steps


def _through(fault: Fault, number: int, steps: Iterator[Step]) -> Iterator[Step]:
    """Yield the steps of an answer after a fault has altered its pieces."""
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
    """Reset the client's connection (RST), if it is still open."""
    transport = request.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        # A linger time of zero: closing drops what is unsent and resets (socket(7)).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _keep_end_to_end_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
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
