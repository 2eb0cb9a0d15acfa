"""A transport that connects again when its credentials or its address are no longer valid.

The caller gives a function that opens a connection, from a Secret for example; this module decides
when it is called. So rotated credentials are picked up without requests while all is well.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
from typing_extensions import override

from controller.callbacks import describe_result, function_name
from controller.clock import Clock
from controller.errors import Expired, MalformedAnswer, NoAnswer, Unauthorized
from controller.supervisor import call_guarded
from controller.transport import NO_QUERY, Transport

R = TypeVar("R")

RENEWAL_SECONDS = 5.0
"""A connection whose credentials are refused is replaced only when it is at least this old."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A transport and the identity of the cluster behind it.

    Args:
        transport: the server; closed by the caller that was given the connection.
        identity: equal for connections to the same cluster, so that resourceVersions of one are
            valid in the other: its URL and authority, for example, or the uid of its owner.
    """

    transport: Transport
    identity: str = ""


OpenConnection = Callable[[], Awaitable[Connection]]


@dataclass(eq=False, slots=True)
class _Current:
    """A connection in use: since when, by how many requests, and whether it takes new ones."""

    connection: Connection
    since: float
    requests: int = 0
    retired: bool = False


class RenewableTransport(Transport):
    """A transport over the connection that is valid now.

    The connection is opened at the first use. It is replaced after `renew`, after a 401, and after
    a request or watch without a valid response, because the address may have changed. A replaced
    connection lets its requests finish; its watches are closed, and continue on the new one. If
    the new connection leads to another cluster, a watch that continues raises Expired, because its
    position is from the old one.

    Args:
        open_connection: opens a connection; raises a ControllerError if that is not possible.
        clock: measures the age of connections.
        on_cluster_changed: called when the connection leads to another cluster than before.
    """

    def __init__(
        self,
        open_connection: OpenConnection,
        clock: Clock,
        *,
        on_cluster_changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_connection = open_connection
        self._clock = clock
        self._cluster_changed = on_cluster_changed
        self._opening = anyio.Lock()
        self._current: _Current | None = None
        self._identity: str | None = None
        self._cluster_changes = 0
        self._renewals = 0
        self._closed = False

    async def renew(self) -> None:
        """Open another connection for the next request or watch."""
        self._renewals += 1
        if self._current is not None:
            await self._retire(self._current)

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
        async def send(transport: Transport) -> bytes:
            return await transport.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout=timeout,
            )

        return await self._run(send)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        changes = self._cluster_changes
        async with AsyncExitStack() as opened:

            async def watch(transport: Transport) -> AsyncIterator[bytes]:
                if self._cluster_changes != changes:
                    raise Expired(410, "", "the connection leads to another cluster than before")
                return await opened.enter_async_context(
                    transport.stream(path, query=query, accept=accept)
                )

            yield await self._run(watch)

    @override
    async def aclose(self) -> None:
        """Close the connection, with its requests in flight; none is opened any more."""
        self._closed = True
        current, self._current = self._current, None
        if current is not None:
            current.retired = True
            await current.connection.transport.aclose()

    async def _run(self, send: Callable[[Transport], Awaitable[R]]) -> R:
        """Send a request; send it once more with renewed credentials after a 401."""
        current = await self._connect()
        try:
            return await self._attempt(current, send)
        except Unauthorized:
            # Safe to send again: the server answers 401 before it executes anything.
            if not current.retired:
                raise
        return await self._attempt(await self._connect(), send)

    async def _attempt(self, current: _Current, send: Callable[[Transport], Awaitable[R]]) -> R:
        """Send a request over one connection; retire that if it fails or its token is refused."""
        current.requests += 1
        try:
            return await send(current.connection.transport)
        except (NoAnswer, MalformedAnswer):
            current.retired = True
            raise
        except Unauthorized:
            current.retired = self._clock.monotonic() - current.since >= RENEWAL_SECONDS
            raise
        finally:
            current.requests -= 1
            if current.retired:
                await self._retire(current)

    async def _connect(self) -> _Current:
        """Return the connection in use; open one if there is none."""
        async with self._opening:
            while self._current is None or self._current.retired:
                if self._closed:
                    raise NoAnswer("this connection was closed for good")
                renewals = self._renewals
                connection = await self._open()
                if self._is_outdated(renewals):
                    await connection.transport.aclose()
                    continue
                self._current = _Current(connection, self._clock.monotonic())
                self._compare_identity(connection.identity)
            return self._current

    async def _open(self) -> Connection:
        """Return the connection that the caller's function opened.

        Raises:
            TypeError: the function is not async, or returned no Connection.
            UnexpectedError: it was cancelled by other code.
            Exception: what it raises.
        """
        connection: object = await call_guarded(self._open_connection)
        if not isinstance(connection, Connection):
            raise TypeError(
                f"{function_name(self._open_connection)} returned {describe_result(connection)}:"
                " return a controller.Connection"
            )
        return connection

    def _is_outdated(self, renewals: int) -> bool:
        """Return whether `aclose` was called, or `renew` since the count was `renewals`."""
        return self._closed or renewals != self._renewals

    def _compare_identity(self, identity: str) -> None:
        before, self._identity = self._identity, identity
        if before is not None and before != identity:
            self._cluster_changes += 1
            self._cluster_changed()

    async def _retire(self, current: _Current) -> None:
        """Take no new requests over this connection; close it when the last one has ended."""
        current.retired = True
        if self._current is current:
            self._current = None
        if current.requests == 0:
            with anyio.CancelScope(shield=True):
                await current.connection.transport.aclose()
