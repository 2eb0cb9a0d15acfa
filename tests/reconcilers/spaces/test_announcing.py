"""Which pools are announced because what they share with others has changed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from controller.meta import Key
from reconcilers.spaces.announcing import SLICE, OverlapAnnouncer
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.sharing import Kinds
from tests.clock import VirtualClock
from tests.reconcilers.spaces.offers import offer


class Heard:
    """An index with announcements, and the pools that were announced."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.index = SpaceIndex()
        self.announcer = OverlapAnnouncer(self.index, self.clock)
        self.keys: list[str] = []
        self.announcer.get_pools_of_kind("NetworkPool").add_handler(self.note)

    def note(self, key: Key) -> None:
        self.keys.append(str(key))

    def put(self, pool: str, *texts: str) -> None:
        pool_offer = offer(pool, *texts)
        self.index.put(pool_offer.pool, [pool_offer])

    async def list_announced(self) -> list[str]:
        """Return the pools that were announced since the last call."""
        await self.clock.advance(60)
        keys, self.keys = self.keys, []
        return keys

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.announcer.run)
            yield
            group.cancel_scope.cancel()


async def test_pools_are_announced_when_they_or_what_they_share_change_and_only_then() -> None:
    heard = Heard()
    async with heard.running():
        heard.put("a/one", "10.0.0.0-10.0.0.9")
        heard.put("a/far", "10.9.0.0-10.9.0.9")
        assert await heard.list_announced() == ["a/far", "a/one"]
        heard.put("a/two", "10.0.0.9-10.0.0.20")
        assert await heard.list_announced() == ["a/one", "a/two"]
        heard.put("a/two", "10.0.0.9-10.0.0.30")
        assert "a/one" not in await heard.list_announced(), "it shares the same one address"
        heard.put("a/two", "10.0.0.8-10.0.0.30")
        assert "a/one" in await heard.list_announced()
        heard.index.drop(offer("a/two").pool)
        assert await heard.list_announced() == ["a/one", "a/two"]


async def test_a_pool_that_moves_where_another_has_just_left_is_announced() -> None:
    """Its own pass may have read the index before the other pool left it."""
    heard = Heard()
    async with heard.running():
        heard.put("a/moving", "10.0.0.0-10.0.0.9")
        heard.put("a/leaving", "10.9.0.0-10.9.0.9")
        await heard.list_announced()
        heard.put("a/leaving", "10.5.0.0-10.5.0.9")
        assert await heard.list_announced() == ["a/leaving"]
        heard.put("a/moving", "10.9.0.0-10.9.0.9")
        assert await heard.list_announced() == ["a/moving"]


async def test_a_pool_is_announced_if_another_shared_its_addresses_between_two_looks() -> None:
    heard = Heard()
    async with heard.running():
        heard.put("a/staying", "10.0.0.0-10.0.0.9")
        heard.put("a/passing", "10.9.0.0-10.9.0.9")
        await heard.list_announced()
        heard.put("a/passing", "10.0.0.0-10.0.0.9")
        heard.put("a/passing", "10.9.0.0-10.9.0.9")
        assert await heard.list_announced() == ["a/passing", "a/staying"]


async def test_all_pools_are_announced_once_further_kinds_are_known() -> None:
    heard = Heard()
    heard.index.expect(Kinds.KUBERMATIC)
    async with heard.running():
        heard.put("a/one", "10.0.0.0-10.0.0.9")
        heard.put("a/none")
        await heard.list_announced()
        heard.index.settle(Kinds.KUBERMATIC)
        assert await heard.list_announced() == ["a/none", "a/one"]


async def test_who_listens_later_gets_the_pools_that_share_addresses() -> None:
    heard = Heard()
    async with heard.running():
        heard.put("a/one", "10.0.0.0-10.0.0.9")
        heard.put("a/two", "10.0.0.9-10.0.0.20")
        heard.put("a/far", "10.9.0.0-10.9.0.9")
        await heard.list_announced()
        registration = heard.announcer.get_pools_of_kind("NetworkPool").add_handler(heard.note)
        for _ in registration.replay():
            pass
        assert await heard.list_announced() == ["a/one", "a/two"]


async def test_many_pools_are_looked_at_in_slices() -> None:
    heard = Heard()
    for number in range(4 * SLICE):
        heard.put(f"a/{number:03}", f"10.0.{number}.0-10.0.{number}.9")
    heard.put("b/all", "10.0.0.0-10.255.255.255")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while len(heard.keys) <= 4 * SLICE:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with heard.running():
        await count()
    assert turns >= 4
    assert len(heard.keys) == 4 * SLICE + 1
