"""Ways to whole servers in memory that a seed decides about, request by request."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from typing_extensions import override

from controller.errors import ControllerError, NoAnswer
from controller.transport import NO_QUERY, Transport
from tests.reconcilers.server import Server


@dataclass
class Packet:
    """A request on its way.

    Args:
        run: lets the server see it.
        to: the tenant that it is for; empty for the management cluster.
        method: of HTTP.
        path: what it is about.
    """

    run: Callable[[], Awaitable[bytes]]
    to: str
    method: str
    path: str
    landed: anyio.Event = field(default_factory=anyio.Event)
    answer: bytes | ControllerError = field(default_factory=lambda: NoAnswer("timed out"))

    async def arrive(self, *, lost: bool = False, mute: bool = False) -> None:
        """Let the server see it unless it is lost; the sender, if it waits, hears unless mute."""
        recorded = not self.landed.is_set()
        answer: bytes | ControllerError = NoAnswer("connection refused")
        if not lost:
            try:
                answer = await self.run()
            except ControllerError as error:
                answer = error
        if recorded:
            self.answer = NoAnswer("the answer was lost") if mute else answer
        self.landed.set()


class Route(Transport):
    """A server behind a network that a seed decides about."""

    def __init__(self, server: Server, packets: list[Packet], to: str) -> None:
        self.server = server
        self._packets = packets
        self._to = to

    def __getattr__(self, name: str) -> Any:
        """Return what a replica in memory reads of the server itself: its caches' first lists."""
        return getattr(self.server, name)

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
        packet = Packet(
            lambda: self.server.request(
                method, path, query=query, body=body, content_type=content_type
            ),
            self._to,
            method,
            path,
        )
        self._packets.append(packet)
        await packet.landed.wait()
        if isinstance(packet.answer, ControllerError):
            raise packet.answer
        return packet.answer

    @override
    def stream(
        self, path: str, *, query: Mapping[str, str] = NO_QUERY, accept: str = "application/json"
    ) -> Any:
        raise AssertionError("caches are fed by the servers themselves")

    @override
    async def aclose(self) -> None:
        return None
