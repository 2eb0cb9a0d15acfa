"""Bytes to an API server and back: one authenticated HTTP/1.1 connection pool, or rather two.

Whatever loaded the configuration hands over an Endpoint; this module makes its own aiohttp
sessions from it. kubernetes_asyncio's session was rejected: it sets neither timeouts nor TCP
keep-alive, raises nothing on failures when asked for raw bytes, copies and serialises bodies once
more, shares 100 connections between watches and requests (so 100 watches stop everything), and
reads ~/.netrc. Watches here have a pool of their own, without a limit.
"""

import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
import anyio
from typing_extensions import override
from yarl import URL

from controller.endpoint import Endpoint, RequestObserver
from controller.errors import ControllerError, MalformedAnswer, NoAnswer, Unauthorized
from controller.statuses import refusal
from controller.warningheaders import warning_texts

NO_QUERY: Mapping[str, str] = MappingProxyType({})
CONNECT_SECONDS = 10.0
HEADERS_SECONDS = 30.0
"""How long a watch may take to begin; a server sends its headers at once."""
MAX_BYTES = 512 * 1024 * 1024
"""Bytes of the longest answer from a server that is trusted to be sane."""


# asyncio reserves this many bytes for each TLS connection, a record's length being 16 KiB. Its own
# default of 256 KiB is most of what an idle watch costs, and there may be a thousand of them.
SSLProtocol.max_size = 64 * 1024


class Transport(Protocol):
    """What clients and watches need of an API server."""

    async def request(  # noqa: PLR0913 - the parts of an HTTP request
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        """Send a request and return the body of the successful answer.

        Args:
            method: for example `GET`.
            path: from the server's root, percent-encoded.
            query: parameters, not yet encoded.
            body: what to send.
            content_type: of `body`.
            accept: which form of answer is wanted.
            timeout: seconds for all of it; None waits for ever.

        Raises:
            ApiError: the server refused; the subclass tells how.
            NoAnswer: the connection failed, or the time was up.
            MalformedAnswer: what came is no Kubernetes answer, or larger than allowed.
        """
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a watch; entering the context gives its chunks, as they arrive.

        Args:
            path: from the server's root, percent-encoded.
            query: parameters, not yet encoded.

        Raises:
            ApiError, NoAnswer, MalformedAnswer: on entering as for `request`; while reading,
                NoAnswer if the connection breaks.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


class HttpTransport(Transport):
    """A Transport over aiohttp.

    Args:
        endpoint: where to and as whom.
        max_bytes: of the largest answer that is read; a larger one is malformed.
        max_seconds: that any request may take, whatever its caller would wait.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        max_bytes: int = MAX_BYTES,
        max_seconds: float | None = None,
    ) -> None:
        self.observe: RequestObserver | None = None
        """Told of each request; a manager counts them."""
        self.warned: Callable[[str], None] | None = None
        """Told of each warning beside a successful answer; the command line shows them."""
        self._endpoint = endpoint
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._requests: aiohttp.ClientSession | None = None
        self._watches: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        """The server's URL, for messages and metrics."""
        return self._endpoint.server

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = NO_QUERY,
        body: bytes | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = 30.0,
    ) -> bytes:
        if self._requests is None:
            self._requests = _session(self._endpoint, limit=100)
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        limits = [seconds for seconds in (timeout, self._max_seconds) if seconds is not None]
        total = min(limits, default=None)
        arguments = {
            "data": body,
            "headers": headers,
            "timeout": aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_SECONDS),
        }
        url = self._url(path, query)
        try:
            return await self._exchange(self._requests, method, url, arguments)
        except Unauthorized:
            # Not a retry of something that may have run: a 401 is given before anything runs.
            if not await self._endpoint.credentials.renew():
                raise
        return await self._exchange(self._requests, method, url, arguments)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._watches is None:
            self._watches = _session(self._endpoint, limit=0)
        url = self._url(path, query)
        try:
            response = await self._open_watch(self._watches, url)
        except Unauthorized:
            if not await self._endpoint.credentials.renew():
                raise
            response = await self._open_watch(self._watches, url)
        try:
            yield _Chunks(response)
        finally:
            response.close()

    @override
    async def aclose(self) -> None:
        for session in (self._requests, self._watches):
            if session is not None:
                await session.close()
        self._requests = self._watches = None

    def _url(self, path: str, query: Mapping[str, str]) -> URL:
        tail = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._endpoint.server}{path}{tail}", encoded=True)

    async def _exchange(
        self, session: aiohttp.ClientSession, method: str, url: URL, arguments: Mapping[str, Any]
    ) -> bytes:
        try:
            response = await self._send(session, method, url, arguments)
            async with response:
                data = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _unanswered(f"{method} {url}", error) from error
        if not 200 <= response.status <= 299:
            raise _refusal(response, data)
        if self.warned is not None:
            for text in warning_texts(response.headers.getall("Warning", ())):
                self.warned(text)
        return data

    async def _open_watch(
        self, session: aiohttp.ClientSession, url: URL
    ) -> aiohttp.ClientResponse:
        """Return the answer whose status is a success and whose body has not been read."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        headers = {"Accept": "application/json"}
        try:
            with anyio.fail_after(HEADERS_SECONDS):
                arguments = {"headers": headers, "timeout": timeout}
                response = await self._send(session, "GET", url, arguments)
            if response.status == 200:
                return response
            async with response:
                with anyio.fail_after(HEADERS_SECONDS):
                    data = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _unanswered(f"watch {url}", error) from error
        raise _refusal(response, data)

    async def _send(
        self, session: aiohttp.ClientSession, method: str, url: URL, arguments: Mapping[str, Any]
    ) -> aiohttp.ClientResponse:
        endpoint = self._endpoint
        headers = dict(arguments["headers"])
        if authorization := await endpoint.credentials.authorization():
            headers["Authorization"] = authorization
        # Other settings mean other connections; those that are open end with what they carry.
        tls = endpoint.current_tls() if endpoint.current_tls is not None else endpoint.tls
        code, begun = "<error>", perf_counter()
        try:
            response = await session.request(
                method,
                url,
                allow_redirects=False,  # an API server never does; a token must not follow one
                proxy=endpoint.proxy or None,
                server_hostname=endpoint.server_name or None,
                ssl=tls if tls is not None else True,
                **{**arguments, "headers": headers},
            )
            code = str(response.status)
        finally:
            if self.observe is not None:
                self.observe(method, code, perf_counter() - begun)
        return response

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > self._max_bytes:
                response.close()
                raise MalformedAnswer(
                    f"{response.method} {response.url}: the answer is larger than"
                    f" {self._max_bytes} bytes"
                )
            parts.append(part)
        return b"".join(parts)


class _Chunks(AsyncIterator[bytes]):
    """The body of a watch; a broken connection is a NoAnswer."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @override
    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise _unanswered(f"watch {self._response.url}", error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _session(endpoint: Endpoint, *, limit: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=limit,
        ssl=endpoint.tls if endpoint.tls is not None else True,
        socket_factory=_kept_alive,
    )
    return aiohttp.ClientSession(
        connector=connector,
        # Compression costs more time than it saves between a controller and its API server, and
        # without it the bound on an answer's size is the bound on what it becomes in memory.
        headers={"User-Agent": endpoint.user_agent, "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=256 * 1024,
        trust_env=False,
    )


def _kept_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that notices a dead peer in about a minute, also while it only listens."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), seconds)
    return sock


def _unanswered(what: str, error: Exception) -> ControllerError:
    if isinstance(error, aiohttp.ClientResponseError):
        return MalformedAnswer(f"{what}: what answers is no HTTP server: {error.message}")
    return NoAnswer(f"{what}: {str(error) or type(error).__name__}")


def _refusal(response: aiohttp.ClientResponse, data: bytes) -> ControllerError:
    where = f"{response.method} {response.url}"
    return refusal(response.status, response.content_type, response.headers, data, where)
