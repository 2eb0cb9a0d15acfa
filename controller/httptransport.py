"""Authenticated HTTP/1.1 requests and watches to one API server, as raw bytes.

Requests share a pool of 100 connections; watches have a pool of their own, without a limit.

Rejected: kubernetes_asyncio's session. It sets neither timeouts nor TCP keep-alive. If it is asked
for raw bytes, it raises nothing on failures. It copies and serialises bodies once more. Watches
and requests share its 100 connections, so 100 watches block all requests. It reads ~/.netrc.
"""

import re
import socket
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

import aiohttp
import anyio
from typing_extensions import override
from yarl import URL

from controller.endpoint import Endpoint, RequestObserver
from controller.errors import (
    ControllerError,
    MalformedAnswer,
    NoAnswer,
    Unauthorized,
    create_error_from_response,
)
from controller.proxies import hide_proxy_password
from controller.transport import NO_QUERY, Transport

_WARNING_PATTERN = re.compile(r'299 [^\s"]+ "((?:[^"\\]|\\.)*)"')
_ESCAPED_CHARACTER = re.compile(r"\\(.)")
CONNECT_SECONDS = 10.0
"""Seconds until a TCP connection must be open."""
HEADERS_SECONDS = 30.0
"""Seconds until a watch's response headers must have come; servers send them at once."""
MAX_BYTES = 512 * 1024 * 1024
"""Bytes of the largest response that is read, unless the caller sets a lower limit."""


# asyncio reserves this many bytes for each TLS connection, while a TLS record has at most 16 KiB.
# Its default of 256 KiB is most of the memory of an idle watch, and there may be a thousand.
SSLProtocol.max_size = 64 * 1024


MOST_CONNECTIONS = 100
"""Connections for requests other than watches and those for leases."""
MOST_LEASE_CONNECTIONS = 8
"""Connections for leases; with shards several are renewed at once."""
LEASES_PATH = "/apis/coordination.k8s.io/"


class HttpTransport(Transport):
    """A Transport over aiohttp.

    `request` returns the body of a 2xx response, and raises a ControllerError otherwise. `stream`
    yields an iterator over the chunks of a watch's body. After a 401 both get new credentials, and
    send the request once more if the credentials have changed.

    Args:
        endpoint: the server and how to reach it.
        max_bytes: size of the largest response that is read; a larger one is malformed.
        max_seconds: upper limit for the timeout of every request.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        max_bytes: int = MAX_BYTES,
        max_seconds: float | None = None,
    ) -> None:
        self.observe: RequestObserver | None = None
        """Called once per request, for metrics."""
        self.on_warning: Callable[[str], None] | None = None
        """Called with each warning in the headers of a 2xx response."""
        self._endpoint = endpoint
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._request_session: aiohttp.ClientSession | None = None
        self._lease_session: aiohttp.ClientSession | None = None
        self._watch_session: aiohttp.ClientSession | None = None
        self._is_closed = False
        # What `aclose` ends: the scopes of requests under way, and the responses of watches.
        self._running_scopes: set[anyio.CancelScope] = set()
        self._open_watches: set[aiohttp.ClientResponse] = set()

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
        session = self._get_session(path)
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
        url = self._build_url(path, query)
        try:
            return await self._exchange(session, method, url=url, arguments=arguments)
        except Unauthorized:
            # Safe to send again: the server answers 401 before it executes anything.
            if not await self._renew_credentials(f"{method} {url}", total):
                raise
        return await self._exchange(session, method, url=url, arguments=arguments)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._watch_session is None:
            self._watch_session = self._open_session(limit=0)
        session = self._watch_session
        url = self._build_url(path, query)
        try:
            response = await self._open_watch(session, url, accept)
        except Unauthorized:
            if not await self._renew_credentials(f"watch {url}", HEADERS_SECONDS):
                raise
            response = await self._open_watch(session, url, accept)
        self._open_watches.add(response)
        try:
            self._check_open()  # `aclose` may have run before the watch was in `_open_watches`
            yield _Chunks(response, self._endpoint.proxy, lambda: self._is_closed)
        finally:
            self._open_watches.discard(response)
            response.close()

    @override
    async def aclose(self) -> None:
        """Close all connections; requests under way raise NoAnswer."""
        self._is_closed = True
        # Closing aiohttp's sessions raises RuntimeError or CancelledError in some requests that
        # are under way, and lets a request wait for ever whose response has begun. So requests and
        # watches are ended first.
        for scope in self._running_scopes:
            scope.cancel()
        for response in self._open_watches:
            response.close()
        for session in (self._request_session, self._lease_session, self._watch_session):
            if session is not None:
                await session.close()
        self._request_session = self._lease_session = self._watch_session = None
        await self._endpoint.credentials.aclose()

    async def _renew_credentials(self, subject: str, seconds: float | None) -> bool:
        """Get new credentials after a 401; return whether they differ from the old ones.

        Args:
            subject: the request, for the message.
            seconds: how long that may take; None for no limit.

        Raises:
            NoAnswer: there were no new credentials within `seconds`, or the transport was closed.
        """
        with self._cancel_on_close(), _limit_credentials_wait(subject, seconds):
            return await self._endpoint.credentials.renew()
        # Not reached: if `aclose` cancels the code above, `_cancel_on_close` raises NoAnswer.
        raise AssertionError("a closed transport raises NoAnswer")

    def _get_session(self, path: str) -> aiohttp.ClientSession:
        """Return the session for requests to a path; it is opened at the first request.

        Leases have connections of their own. In a busy process a renewal could otherwise wait for
        a free connection until the lease is lost.
        """
        if path.startswith(LEASES_PATH):
            if self._lease_session is None:
                self._lease_session = self._open_session(limit=MOST_LEASE_CONNECTIONS)
            return self._lease_session
        if self._request_session is None:
            self._request_session = self._open_session(limit=MOST_CONNECTIONS)
        return self._request_session

    def _open_session(self, *, limit: int) -> aiohttp.ClientSession:
        """Return a new session of at most `limit` connections; 0 means no limit.

        Raises:
            NoAnswer: the transport was closed, so nothing would close the session.
        """
        self._check_open()
        return _create_session(self._endpoint, limit=limit)

    def _check_open(self) -> None:
        """Raise NoAnswer if the transport was closed."""
        if self._is_closed:
            raise NoAnswer(f"the connections to {self._endpoint.server} were closed")

    @contextmanager
    def _cancel_on_close(self) -> Iterator[None]:
        """Let `aclose` cancel the code inside the context, which then raises NoAnswer."""
        self._check_open()
        with anyio.CancelScope() as scope:
            self._running_scopes.add(scope)
            try:
                yield
            except RuntimeError as error:
                # aiohttp raises this for a read after `aclose` and before the cancellation comes.
                if self._is_closed:
                    raise NoAnswer(f"the connection was closed: {error}") from error
                raise
            finally:
                self._running_scopes.discard(scope)
        if scope.cancelled_caught:
            self._check_open()  # raises NoAnswer, because only `aclose` cancels this scope

    def _build_url(self, path: str, query: Mapping[str, str]) -> URL:
        """Return the URL of a request; yarl must not encode path and query a second time."""
        query_part = f"?{urlencode(query)}" if query else ""
        return URL(f"{self._endpoint.server}{path}{query_part}", encoded=True)

    async def _exchange(
        self, session: aiohttp.ClientSession, method: str, url: URL, arguments: Mapping[str, Any]
    ) -> bytes:
        """Send a request; return the body of a 2xx response, raise an error for any other."""
        try:
            with self._cancel_on_close():
                response = await self._send(session, method, url=url, arguments=arguments)
                async with response:
                    data = await self._read_body(response)
        except (aiohttp.ClientError, OSError) as error:
            raise _create_connection_error(
                f"{method} {url}", error, self._endpoint.proxy
            ) from error
        if not 200 <= response.status <= 299:
            raise _create_response_error(response, data)
        if self.on_warning is not None:
            for warning in parse_warnings(response.headers.getall("Warning", ())):
                self.on_warning(warning)
        return data

    async def _open_watch(
        self, session: aiohttp.ClientSession, url: URL, accept: str
    ) -> aiohttp.ClientResponse:
        """Return the 200 response of a watch, whose body the caller reads; raise for any other."""
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS)
        headers = {"Accept": accept}
        try:
            with self._cancel_on_close():
                with anyio.fail_after(HEADERS_SECONDS):
                    arguments = {"headers": headers, "timeout": timeout}
                    response = await self._send(session, "GET", url=url, arguments=arguments)
                if response.status == 200:
                    return response
                async with response:
                    with anyio.fail_after(HEADERS_SECONDS):
                        data = await self._read_body(response)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise _create_connection_error(f"watch {url}", error, self._endpoint.proxy) from error
        raise _create_response_error(response, data)

    async def _send(
        self, session: aiohttp.ClientSession, method: str, url: URL, arguments: Mapping[str, Any]
    ) -> aiohttp.ClientResponse:
        """Send a request; return the response once its headers have come, with the body unread."""
        endpoint = self._endpoint
        headers = dict(arguments["headers"])
        authorization = endpoint.credentials.get_cached_authorization()
        if authorization is None:
            with _limit_credentials_wait(f"{method} {url}", arguments["timeout"].total):
                authorization = await endpoint.credentials.get_authorization()
        if authorization:
            headers["Authorization"] = authorization
        # aiohttp opens new connections for another context; requests in flight keep theirs.
        tls = endpoint.get_current_tls() if endpoint.get_current_tls is not None else endpoint.tls
        code, started_at = "<error>", perf_counter()
        try:
            response = await session.request(
                method,
                url,
                allow_redirects=False,  # no API server redirects; nobody else must get the token
                proxy=endpoint.proxy or None,
                server_hostname=endpoint.server_name or None,
                ssl=tls if tls is not None else True,  # True is aiohttp's default
                **{**arguments, "headers": headers},
            )
            code = str(response.status)
        finally:
            if self.observe is not None:
                self.observe(method, code, perf_counter() - started_at)
        return response

    async def _read_body(self, response: aiohttp.ClientResponse) -> bytes:
        """Read a response's body; raise MalformedAnswer once it is larger than max_bytes."""
        parts: list[bytes] = []
        size = 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > self._max_bytes:
                response.close()
                raise MalformedAnswer(
                    f"{response.method} {response.url}: the response is larger than"
                    f" {self._max_bytes} bytes"
                )
            parts.append(part)
        return b"".join(parts)


@contextmanager
def _limit_credentials_wait(subject: str, seconds: float | None) -> Iterator[None]:
    """Raise NoAnswer if the code inside, which gets credentials, takes longer than `seconds`.

    Args:
        subject: the request that needs the credentials, for the message.
        seconds: None for no limit.
    """
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError as error:
        raise NoAnswer(
            f"{subject}: no credentials within {seconds:g} s: the kubeconfig's exec plugin has not"
            " answered"
        ) from error


class _Chunks(AsyncIterator[bytes]):
    """Iterates over the chunks of a watch's body; raises NoAnswer if the connection breaks."""

    def __init__(
        self, response: aiohttp.ClientResponse, proxy: str, is_closed: Callable[[], bool]
    ) -> None:
        self._response = response
        self._proxy = proxy
        self._is_closed = is_closed

    @override
    async def __anext__(self) -> bytes:
        """Return the next chunk, as soon as any bytes have come."""
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise _create_connection_error(
                f"watch {self._response.url}", error, self._proxy
            ) from error
        except RuntimeError as error:
            # aiohttp raises this for a read after we have closed the connection.
            if not self._is_closed():
                raise
            raise NoAnswer(f"watch {self._response.url}: {error}") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _create_session(endpoint: Endpoint, *, limit: int) -> aiohttp.ClientSession:
    """Return a session with at most `limit` connections to the endpoint."""
    connector = aiohttp.TCPConnector(
        limit=limit,
        ssl=endpoint.tls if endpoint.tls is not None else True,  # True is aiohttp's default
        socket_factory=_create_keepalive_socket,
    )
    return aiohttp.ClientSession(
        connector=connector,
        # Compression costs more time than it saves between a controller and its API server, and
        # without it max_bytes limits the memory of a response as well.
        headers={"User-Agent": endpoint.user_agent, "Accept-Encoding": "identity"},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=256 * 1024,
        trust_env=False,  # `endpoint` has proxy and credentials, not the environment or ~/.netrc
    )


def _create_keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that finds out about a dead peer within a minute, by TCP keep-alive."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # After 30 s of silence 3 probes are sent, 10 s apart. Some systems lack some of the options.
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


def _create_connection_error(subject: str, error: Exception, proxy: str) -> ControllerError:
    """Return the error of a request that has no response.

    Args:
        subject: the request, for the message.
        error: the error of aiohttp or of the system.
        proxy: URL of the proxy that the request went through; empty for none.
    """
    through = f" through the proxy {hide_proxy_password(proxy)}" if proxy else ""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        # The response to CONNECT: the request itself was never sent.
        return NoAnswer(
            f"{subject}: no connection{through}: it answers {error.status} {error.message}"
        )
    if isinstance(error, aiohttp.ClientResponseError):
        return MalformedAnswer(f"{subject}: the response{through} is not HTTP: {error.message}")
    if isinstance(error, aiohttp.ClientConnectorError):
        # str(error) has the TLS context's address in memory, which helps nobody.
        why = error.strerror or str(error.os_error)
        if isinstance(error, aiohttp.ClientProxyConnectionError):
            return NoAnswer(
                f"{subject}: cannot connect to the proxy {hide_proxy_password(proxy)}: {why}"
            )
        return NoAnswer(f"{subject}: cannot connect to {error.host}:{error.port}{through}: {why}")
    return NoAnswer(f"{subject}{through}: {str(error) or type(error).__name__}")


def _create_response_error(response: aiohttp.ClientResponse, data: bytes) -> ControllerError:
    """Return the error for a response other than 2xx; `data` is its body."""
    return create_error_from_response(
        response.status,
        response.content_type,
        headers=response.headers,
        data=data,
        request=f"{response.method} {response.url}",
    )


def parse_warnings(headers: Iterable[str]) -> list[str]:
    """Return the texts of `Warning` headers (RFC 7234, `299 - "text"`), in order, each once.

    API servers send such headers for deprecated kinds and for warnings of webhooks. Codes other
    than 299 are for caches and proxies, and are left out.
    """
    warnings = (warning for value in headers for warning in _WARNING_PATTERN.findall(value))
    return list(dict.fromkeys(_ESCAPED_CHARACTER.sub(r"\1", warning) for warning in warnings))
