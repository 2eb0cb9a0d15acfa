"""Connections that are replaced: each is closed after its last request."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from typing_extensions import override

from controller.errors import Unauthorized
from controller.renewable import Connection, RenewableTransport
from controller.transport import NO_QUERY, Transport
from tests.clock import VirtualClock

pytestmark = pytest.mark.asyncio


class RejectingTransport(Transport):
    """Answers requests with 401 once `may_answer` is set."""

    def __init__(self) -> None:
        self.may_answer = anyio.Event()
        self.has_request = anyio.Event()
        self.is_closed = False

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        self.has_request.set()
        await self.may_answer.wait()
        raise Unauthorized(401, "Unauthorized", "the token has expired")

    @override
    def stream(self, path: str, **options: Any) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    @override
    async def aclose(self) -> None:
        self.is_closed = True


async def test_a_connection_renewed_during_a_request_is_closed_though_the_request_gets_a_401() -> (
    None
):
    # A request that gets a 401 over a replaced connection is sent again over the next one.
    first, second = RejectingTransport(), RejectingTransport()
    second.may_answer.set()
    connections = iter([first, second])

    async def open_connection() -> Connection:
        return Connection(next(connections))

    transport = RenewableTransport(open_connection, VirtualClock())

    async def send() -> None:
        with pytest.raises(Unauthorized):
            await transport.request("GET", "/version")

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        await first.has_request.wait()
        await transport.renew()
        first.may_answer.set()
    assert first.is_closed
    assert not second.is_closed
    await transport.aclose()
