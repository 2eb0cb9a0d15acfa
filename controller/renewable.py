"""A transport that is opened again when its credentials or its address stop being the right ones.

Whoever knows where credentials come from (a Secret, a cloud's API) gives a function that opens
a transport; this module decides when it is asked again. So a rotation is met without asking for
anything while all is well.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio
from typing_extensions import override

from controller.clock import Clock
from controller.errors import Expired, MalformedAnswer, NoAnswer, Unauthorized
from controller.transport import NO_QUERY, Transport

R = TypeVar("R")

RENEWAL_SECONDS = 5.0
"""Credentials that were refused are not asked for again more often than this."""


@dataclass(frozen=True, slots=True)
class Way:
    """A transport, and where it leads.

    Args:
        transport: the server; closed by whoever was given the way.
        identity: the same as long as the same cluster is behind it, so that resourceVersions of
            before still mean something: its URL and authority, say, or the uid of its owner.
    """

    transport: Transport
    identity: str = ""


OpenWay = Callable[[], Awaitable[Way]]


@dataclass(eq=False, slots=True)
class _Held:
    """A way in use: since when, by how many requests, and whether new ones may take it."""

    way: Way
    since: float
    requests: int = 0
    retired: bool = False


class RenewableTransport(Transport):
    """A transport over whichever way is the right one now.

    It is opened at its first use; and anew after `renew`, after a 401, and after a request or a
    watch that got no sensible answer (the address may be another one by now). A way that is left
    lets its requests end; its watches are cut, and their readers come back over the new way. If
    that leads to another cluster, a watch asked for at the position in the old one is Expired.

    Args:
        open_way: opens a way; raises a ControllerError if there is none.
        clock: paces the renewals.
        moved: told when the way leads to another cluster than before.
    """

    def __init__(
        self, open_way: OpenWay, clock: Clock, *, moved: Callable[[], None] = lambda: None
    ) -> None:
        self._open_way = open_way
        self._clock = clock
        self._moved = moved
        self._opening = anyio.Lock()
        self._held: _Held | None = None
        self._identity: str | None = None
        self._moves = 0
        self._renewals = 0
        self._closed = False

    async def renew(self) -> None:
        """Take another way from the next request or watch on."""
        self._renewals += 1
        if self._held is not None:
            await self._leave(self._held)

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
        async def ask(transport: Transport) -> bytes:
            return await transport.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout=timeout,
            )

        return await self._use(ask)

    @override
    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        moves = self._moves
        async with AsyncExitStack() as opened:

            async def watch(transport: Transport) -> AsyncIterator[bytes]:
                if self._moves != moves:
                    raise Expired(410, "", "the way leads to another cluster than before")
                return await opened.enter_async_context(transport.stream(path, query=query))

            yield await self._use(watch)

    @override
    async def aclose(self) -> None:
        """Close what is open, requests in flight included; nothing is opened any more."""
        self._closed = True
        held, self._held = self._held, None
        if held is not None:
            held.retired = True
            await held.way.transport.aclose()

    async def _use(self, ask: Callable[[Transport], Awaitable[R]]) -> R:
        held = await self._current()
        try:
            return await self._attempt(held, ask)
        except Unauthorized:
            # Not a retry of something that may have run: a 401 is given before anything runs.
            if not held.retired:
                raise
        return await self._attempt(await self._current(), ask)

    async def _attempt(self, held: _Held, ask: Callable[[Transport], Awaitable[R]]) -> R:
        held.requests += 1
        try:
            return await ask(held.way.transport)
        except (NoAnswer, MalformedAnswer):
            held.retired = True
            raise
        except Unauthorized:
            held.retired = self._clock.monotonic() - held.since >= RENEWAL_SECONDS
            raise
        finally:
            held.requests -= 1
            if held.retired:
                await self._leave(held)

    async def _current(self) -> _Held:
        async with self._opening:
            while self._held is None or self._held.retired:
                if self._closed:
                    raise NoAnswer("this connection was closed for good")
                renewals = self._renewals
                way = await self._open_way()
                if self._outdated(renewals):
                    await way.transport.aclose()  # what it was made of is outdated already
                    continue
                self._held = _Held(way, self._clock.monotonic())
                self._note(way.identity)
            return self._held

    def _outdated(self, renewals: int) -> bool:
        """Whether we were closed or told to renew since there were so many renewals."""
        return self._closed or renewals != self._renewals

    def _note(self, identity: str) -> None:
        before, self._identity = self._identity, identity
        if before is not None and before != identity:
            self._moves += 1
            self._moved()

    async def _leave(self, held: _Held) -> None:
        """Let nobody take this way any more, and close it when its requests have ended."""
        held.retired = True
        if self._held is held:
            self._held = None
        if held.requests == 0:
            with anyio.CancelScope(shield=True):
                await held.way.transport.aclose()
