"""A transport that connects again when its credentials or its address are no longer valid.

The caller passes a function that opens a connection, from a Secret for example; this module calls
it when a connection fails. So rotated credentials are picked up without regular requests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
from typing_extensions import override

from controller.callbacks import discard_result, name_function
from controller.clock import Clock
from controller.errors import Expired, MalformedAnswer, NoAnswer, Unauthorized
from controller.supervisor import call_guarded
from controller.transport import NO_QUERY, Transport

R = TypeVar("R")

RENEWAL_SECONDS = 5.0
"""A connection with a 401 is replaced only if it is at least so old. So a server that rejects all
credentials does not cause another connection for each request."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A transport and the identity of the cluster behind it.

    Args:
        transport: the server; closed by the RenewableTransport that uses the connection.
        identity: equal for connections to the same cluster, so that resourceVersions of one
            connection are valid over the other. For example the cluster's URL and authority, or
            the uid of its owner.
    """

    transport: Transport
    identity: str = ""


OpenConnection = Callable[[], Awaitable[Connection]]


@dataclass(eq=False, slots=True)
class _Current:
    """A connection in use.

    Args:
        opened_at: when (monotonic seconds) it was opened.
        requests: the number of requests under way.
        is_retired: whether it takes no new requests, and is closed after the last one.
    """

    connection: Connection
    opened_at: float
    requests: int = 0
    is_retired: bool = False


class RenewableTransport(Transport):
    """A transport over the connection that is valid now.

    The connection is opened at the first use. It is replaced after `renew`, after a 401, and after
    a request or watch without a valid response, because the address may have changed. A replaced
    connection lets its requests finish. Its watches are closed, and the caller opens them again
    over the new connection. If that leads to another cluster, opening a watch raises Expired,
    because the position of the watch is from the old cluster.

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
        self._on_cluster_changed = on_cluster_changed
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
        """Send a request over the connection that is valid now."""

        async def send(transport: Transport) -> bytes:
            """Send the request over a given connection."""
            return await transport.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout=timeout,
            )

        return await self._send_with_renewal(send)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch over the connection that is valid now.

        Raises:
            Expired: a new connection was opened for this watch, and leads to another cluster,
                where the position of the watch means nothing.
        """
        changes = self._cluster_changes
        async with AsyncExitStack() as opened:

            async def watch(transport: Transport) -> AsyncIterator[bytes]:
                """Open the watch over a given connection; it is closed with `opened`."""
                if self._cluster_changes != changes:
                    raise Expired(410, "", "the connection leads to another cluster than before")
                return await opened.enter_async_context(
                    transport.stream(path, query=query, accept=accept)
                )

            yield await self._send_with_renewal(watch)

    @override
    async def aclose(self) -> None:
        """Close the connection with its requests under way; no other connection is opened."""
        self._closed = True
        current, self._current = self._current, None
        if current is not None:
            current.is_retired = True
            await current.connection.transport.aclose()

    async def _send_with_renewal(self, send: Callable[[Transport], Awaitable[R]]) -> R:
        """Send a request; after a 401, send it once more over a new connection.

        A 401 is raised at once if the connection is too new to be replaced.
        """
        current = await self._connect()
        try:
            return await self._attempt(current, send)
        except Unauthorized:
            # Safe to send again: the server answers 401 before it executes anything.
            if not current.is_retired:
                raise  # the connection is too new to be replaced
        return await self._attempt(await self._connect(), send)

    async def _attempt(self, current: _Current, send: Callable[[Transport], Awaitable[R]]) -> R:
        """Send a request over one connection; retire the connection if it or its token fails."""
        current.requests += 1
        try:
            return await send(current.connection.transport)
        except (NoAnswer, MalformedAnswer):
            current.is_retired = True
            raise
        except Unauthorized:
            # `renew` may have retired the connection while the request was under way.
            is_old = self._clock.monotonic() - current.opened_at >= RENEWAL_SECONDS
            current.is_retired = current.is_retired or is_old
            raise
        finally:
            current.requests -= 1
            if current.is_retired:
                await self._retire(current)

    async def _connect(self) -> _Current:
        """Return the connection in use; open one if none is in use.

        Raises:
            NoAnswer: the transport was closed.
            ControllerError: no connection can be opened.
        """
        async with self._opening:
            while self._current is None or self._current.is_retired:
                if self._closed:
                    raise NoAnswer("this connection was closed for good")
                renewals = self._renewals
                connection = await self._open()
                if self._is_outdated(renewals):
                    # It may have old credentials, or nobody would close it.
                    await connection.transport.aclose()
                    continue
                self._current = _Current(connection, self._clock.monotonic())
                self._note_identity(connection.identity)
            return self._current

    async def _open(self) -> Connection:
        """Call the caller's function, and return the connection that it opened.

        Raises:
            TypeError: the function is not async, or returned no Connection.
            UnexpectedError: other code cancelled the function.
            Exception: the function raised it.
        """
        connection: object = await call_guarded(self._open_connection)
        if not isinstance(connection, Connection):
            raise TypeError(
                f"{name_function(self._open_connection)} returned {discard_result(connection)}:"
                " return a controller.Connection"
            )
        return connection

    def _is_outdated(self, renewals: int) -> bool:
        """Return whether `aclose` was called, or `renew` since the count was `renewals`."""
        return self._closed or renewals != self._renewals

    def _note_identity(self, identity: str) -> None:
        """Note the cluster behind a new connection; call `on_cluster_changed` if it is another."""
        old_identity, self._identity = self._identity, identity
        if old_identity is not None and old_identity != identity:
            self._cluster_changes += 1
            self._on_cluster_changed()

    async def _retire(self, current: _Current) -> None:
        """Take no new requests over this connection; close it when the last one has ended."""
        current.is_retired = True
        if self._current is current:
            self._current = None
        if current.requests == 0:
            # Close it even if the caller is being cancelled.
            with anyio.CancelScope(shield=True):
                await current.connection.transport.aclose()
