"""Channels: keys from elsewhere in the process."""

from controller.channels import Channel
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock
from tests.controller.test_manager import World, running

A, B = Key("default", "a"), Key("default", "b")


async def test_what_is_sent_before_anybody_listens_is_kept_each_key_once() -> None:
    channel, queue = Channel(), WorkQueue[Key](VirtualClock())
    for key in (A, B, A):
        channel.send(key)
    channel.send(B, priority=5)
    channel.connect(queue)
    assert queue.statistics().ready == {0: 1, 5: 1}
    assert [await queue.get() for _ in range(2)] == [B, A]


async def test_all_who_listen_are_told_until_they_stop() -> None:
    channel, clock = Channel(), VirtualClock()
    one, two = WorkQueue[Key](clock), WorkQueue[Key](clock)
    channel.connect(one)
    registration = channel.connect(two)
    channel.send(A)
    registration.close()
    registration.close()
    channel.send(B)
    assert one.statistics().ready == {0: 2}
    assert two.statistics().ready == {0: 1}


async def test_a_controller_looks_at_what_a_channel_sends() -> None:
    world, seen = World(), list[Key]()

    async def look(key: Key) -> Outcome:
        seen.append(key)
        return SETTLED

    channel = Channel()
    world.manager.controller("told", look, watches=[channel])
    channel.send(A)
    async with running(world):
        assert seen == [A]
        channel.send(B)
        await world.clock.advance(0)
        assert seen == [A, B]
