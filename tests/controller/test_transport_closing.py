"""What closing a transport does to requests and watches that are under way, and to later ones."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import product

import anyio
import anyio.lowlevel
import pytest
from aiohttp import web
from typing_extensions import override

from controller.endpoint import StaticToken
from controller.errors import NoAnswer
from controller.httptransport import HttpTransport
from tests.controller.test_transport import serve_answer


async def test_a_closed_transport_gives_no_answer_to_anything_under_way_or_later() -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}")
        await anyio.sleep_forever()
        raise AssertionError

    async with serve_answer(trickle) as transport, transport.stream("/x") as chunks:
        assert await anext(chunks) == b"{}"
        await transport.aclose()
        with pytest.raises(NoAnswer):
            await anext(chunks)
        with pytest.raises(NoAnswer, match="were closed"):
            await transport.request("GET", "/x")
        with pytest.raises(NoAnswer, match="were closed"):
            async with transport.stream("/x"):
                pass


async def test_requests_in_any_state_raise_no_answer_when_the_transport_is_closed() -> None:
    """Left to aiohttp they got a RuntimeError, a CancelledError, or waited for ever."""

    async def late(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await closed.wait()
        return response

    class SlowToken(StaticToken):
        """Takes a turn of the event loop to return its token."""

        @override
        def get_cached_authorization(self) -> None:
            return None

        @override
        async def get_authorization(self) -> str:
            await anyio.lowlevel.checkpoint()
            return await super().get_authorization()

    outcomes: list[BaseException] = []

    async def keep(ask: Callable[[], Awaitable[object]]) -> None:
        try:
            await ask()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - judged below
            outcomes.append(error)

    moments = list(product((StaticToken("t"), SlowToken("t")), range(0, 60, 3)))
    for count, (token, turns) in enumerate(moments, start=1):
        closed = anyio.Event()
        async with (
            serve_answer(late, token) as transport,
            anyio.create_task_group() as group,
        ):
            for _ in range(102):  # two more than there are connections
                group.start_soon(keep, partial(transport.request, "GET", "/x", timeout=None))
            group.start_soon(keep, partial(_read_watch, transport))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            group.start_soon(transport.aclose)
            group.start_soon(keep, partial(transport.request, "GET", "/x"))
            while len(outcomes) < 104 * count:
                await anyio.lowlevel.checkpoint()
            closed.set()
    assert len(outcomes) == len(moments) * 104
    assert {type(error) for error in outcomes} == {NoAnswer}


async def _read_watch(transport: HttpTransport) -> None:
    async with transport.stream("/x") as chunks:
        await anext(chunks)
