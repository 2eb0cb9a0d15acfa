"""One exchange through the proxy: a request, its answer, and the faults that are injected."""

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

from envtest.certs import KeyPair, create_client_tls
from envtest.faults.calls import Call
from envtest.faults.fault import ConnectionTornError, End, Fault, Pause, Step
from envtest.plane import RunningControlPlane, create_token

_SKIPPED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
# Headers that belong to one connection and not to the message (RFC 9110, 7.6.1), and headers that
# the proxy's client and server set themselves.
_HOP_HEADERS = frozenset(
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
    """Connections to the server behind the proxy, one session for each client certificate.

    Clients authenticate to the proxy by tokens that only the proxy knows. It replaces them by the
    credentials of the user: a certificate cannot be passed on through the proxy's TLS.

    Args:
        plane: the server.
    """

    def __init__(self, plane: RunningControlPlane) -> None:
        self._plane = plane
        # User name -> token of the proxy -> credentials.
        self._tokens: dict[str, str] = {}
        self._users: dict[str, _User] = {}
        cluster, _ = _parse_kubeconfig(plane.get_kubeconfig())
        self._anonymous = _create_session(_create_tls(cluster, pair=None))

    def get_token(self, name: str) -> str:
        """Return the proxy's token for a user of the control plane; create it at the first call.

        Raises:
            PlaneError: there is no such user.
        """
        if name not in self._tokens:
            cluster, user = _parse_kubeconfig(self._plane.get_kubeconfig(name))
            pair = _read_key_pair(user)
            session = _create_session(_create_tls(cluster, pair)) if pair else self._anonymous
            self._tokens[name] = create_token()
            self._users[self._tokens[name]] = _User(session, str(user.get("token") or ""))
        return self._tokens[name]

    async def forward(
        self, method: str, raw_path: str, headers: CIMultiDict[str], body: bytes
    ) -> ClientResponse:
        """Forward a request with the credentials of its user; return the response, body unread.

        A token of the proxy is replaced by the certificate or token of its user. Any other
        Authorization header is forwarded unchanged. Redirects are not followed.

        Raises:
            aiohttp.ClientError, OSError: the server cannot be reached, or closes the connection.
        """
        session, forwarded = self._anonymous, CIMultiDict(headers)
        scheme, _, token = forwarded.get("Authorization", "").partition(" ")
        user = self._users.get(token) if scheme.lower() == "bearer" else None
        if user is not None:
            session = user.session
            del forwarded["Authorization"]
            if user.token:
                forwarded["Authorization"] = f"Bearer {user.token}"
        url = URL(self._plane.url + raw_path, encoded=True)
        return await session.request(
            method, url, headers=forwarded, data=body or None, allow_redirects=False
        )

    async def close(self) -> None:
        """Close all connections."""
        for session in {self._anonymous, *(user.session for user in self._users.values())}:
            await session.close()


def _parse_kubeconfig(kubeconfig: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cluster and the user of a kubeconfig that has one of each."""
    document = yaml.safe_load(kubeconfig)
    return document["clusters"][0]["cluster"], document["users"][0]["user"]


def _read_key_pair(user: dict[str, Any]) -> KeyPair | None:
    """Return the client certificate of a kubeconfig's user; None if it has none."""
    if "client-certificate-data" not in user:
        return None
    fields = ("client-certificate-data", "client-key-data")
    return KeyPair(*(base64.b64decode(user[field]) for field in fields))


def _create_tls(cluster: dict[str, Any], pair: KeyPair | None) -> ssl.SSLContext:
    """Return TLS settings that trust a kubeconfig's cluster, with a client certificate or none."""
    return create_client_tls(base64.b64decode(cluster["certificate-authority-data"]), pair)


def _create_session(context: ssl.SSLContext) -> ClientSession:
    """Return a session that changes nothing: no limits, cookies, decompression or own headers."""
    return ClientSession(
        connector=TCPConnector(ssl=context, limit=0),
        timeout=ClientTimeout(),
        auto_decompress=False,
        cookie_jar=DummyCookieJar(),
        skip_auto_headers=_SKIPPED,
    )


class Exchange:
    """Forwards one request to the server, and its answer to the client.

    Args:
        request: the request as the proxy received it.
        call: the same request, parsed.
        faults: the faults for this request, in the order in which they were injected.
        upstream: the connections to the server.
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
            reset_connection(self._request)
            return web.Response()

    async def _exchange(self) -> web.StreamResponse:
        """Forward the request and the answer; a fault may answer in the server's place."""
        for fault in self._faults:
            answer = await fault.intercept_request()
            if answer is not None:
                return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        response = await self._forward()
        try:
            for fault in self._faults:
                await fault.intercept_answer()
            return await self._send_answer(response)
        finally:
            # A watch that was not read to its end would keep the connection busy.
            response.close() if self._call.verb == "watch" else response.release()

    async def _forward(self) -> ClientResponse:
        """Send the request to the server; return the answer, of which only the head is read."""
        headers = _keep_end_to_end_headers(self._request.headers)
        # Faults need the lines of an answer, which a compressed answer does not show.
        headers["Accept-Encoding"] = "identity"
        request = self._request
        return await self._upstream.forward(
            request.method, request.raw_path, headers=headers, body=self._call.body
        )

    async def _send_answer(self, response: ClientResponse) -> web.StreamResponse:
        """Send the server's answer: a watch line by line, any other answer in one piece."""
        headers = _keep_end_to_end_headers(response.headers)
        if self._call.verb != "watch" or response.status != 200:
            body = await response.read()
            # Nothing alters this answer, so it is sent with its length and not in chunks.
            if not self._faults:
                return web.Response(status=response.status, body=body, headers=headers)
            return await self._send_pieces(response.status, headers, _SinglePiece(body))
        return await self._send_pieces(response.status, headers, _Lines(response))

    async def _send_pieces(
        self, status: int, headers: CIMultiDict[str], pieces: AsyncIterator[bytes]
    ) -> web.StreamResponse:
        """Send an answer piece by piece, after all faults have altered each piece.

        Piece 0 is empty: with it a fault can act before the first piece of the server arrives.
        """
        answer = web.StreamResponse(status=status, headers=headers)
        await answer.prepare(self._request)
        number = 0
        has_ended = await _run_steps(answer, self._apply_faults(number, b""))
        while not has_ended and (piece := await anext(pieces, None)) is not None:
            number += 1
            has_ended = await _run_steps(answer, self._apply_faults(number, piece))
        return answer

    def _apply_faults(self, number: int, piece: bytes) -> Iterator[Step]:
        """Return the steps that send a piece, after each fault has altered it."""
        steps: Iterator[Step] = iter((piece,))
        for fault in self._faults:
            steps = _alter_steps(fault, number, steps)
        return steps


def _alter_steps(fault: Fault, number: int, steps: Iterator[Step]) -> Iterator[Step]:
    """Yield the steps of an answer after a fault has altered its pieces."""
    for step in steps:
        if isinstance(step, bytes):
            yield from fault.alter_piece(number, step)
        else:
            yield step


async def _run_steps(answer: web.StreamResponse, steps: Iterator[Step]) -> bool:
    """Send bytes, wait, or end the answer, as the steps say; return whether it ended.

    Raises:
        ConnectionTornError: the connection has to be reset.
    """
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
                # Piece 0, and pieces that a fault has emptied, have nothing to send.
                if step:
                    await answer.write(step)
    return False


def reset_connection(request: web.BaseRequest) -> None:
    """Reset the client's connection (RST), if it is still open."""
    transport = request.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        # With a linger time of zero, closing drops unsent data and sends RST (socket(7)).
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def _keep_end_to_end_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the headers without those of `_HOP_HEADERS`."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _HOP_HEADERS
    )


class _SinglePiece(AsyncIterator[bytes]):
    """An iterator with one piece, a whole body."""

    def __init__(self, body: bytes) -> None:
        self._remaining: bytes | None = body

    @override
    async def __anext__(self) -> bytes:
        piece, self._remaining = self._remaining, None
        if piece is None:
            raise StopAsyncIteration
        return piece


class _Lines(AsyncIterator[bytes]):
    """The lines of a watch with their line ends, of any length.

    aiohttp's own readline has a limit, which large events exceed. An incomplete last line is
    dropped.
    """

    def __init__(self, response: ClientResponse) -> None:
        self._content = response.content
        # Complete lines in reverse order, so that `pop` returns the next one.
        self._lines: list[bytes] = []
        # The chunks of the line that is not complete yet.
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
                *lines, incomplete = (b"".join(self._rest) + b"\n" + rest).split(b"\n")
                self._lines = [line + b"\n" for line in reversed(lines)]
                self._rest = [incomplete]
        return self._lines.pop()
