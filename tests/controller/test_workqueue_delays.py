"""The work queue in time: delays, the earliest of them, back-off, and who keeps the time."""

import anyio
import pytest

from controller.queueorder import Delays, KeyBackoff
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock, settle


async def take(queue: WorkQueue[str]) -> list[str]:
    """Take everything that is ready now, without finishing any of it."""
    keys: list[str] = []
    while queue.get_statistics().ready:
        keys.append(await queue.get())
    return keys


async def test_a_delayed_key_is_taken_by_a_waiting_worker_when_it_is_due() -> None:
    clock, got = VirtualClock(), list[tuple[str, float]]()
    queue = WorkQueue[str](clock)

    async def worker() -> None:
        while True:
            got.append((await queue.get(), clock.monotonic()))

    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        queue.add_after("late", 0.3)
        queue.add_after("soon", 0.1)
        await clock.advance(0.2)
        assert got == [("soon", 0.1)]
        await clock.advance(0.1)
        assert got == [("soon", 0.1), ("late", 0.3)]
        group.cancel_scope.cancel()


@pytest.mark.parametrize(("first", "second"), [(5, 60), (60, 5)])
async def test_of_two_delays_the_earlier_counts(first: float, second: float) -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    queue.add_after("a", first)
    queue.add_after("a", second)
    await clock.advance(4.999)
    assert await take(queue) == []
    await clock.advance(0.001)
    assert await take(queue) == ["a"]
    queue.done("a")
    await clock.advance(3600)
    assert await take(queue) == []


async def test_a_delay_that_was_overtaken_does_not_shorten_the_next_one() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    queue.add_after("first", 0.5)
    queue.add_after("a", 1)
    queue.add("a")
    assert await take(queue) == ["a"]
    queue.done("a")
    queue.add_after("a", 60)
    await clock.advance(59)
    assert await take(queue) == ["first"]
    await clock.advance(1)
    assert await take(queue) == ["a"]


async def test_a_delay_ends_exactly_when_it_should_however_its_sum_is_rounded() -> None:
    clock, got = VirtualClock(), list[str]()
    queue = WorkQueue[str](clock)

    async def worker() -> None:
        got.append(await queue.get())

    await clock.advance(0.1)
    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        assert clock.monotonic() + 0.2 > 0.3
        queue.add_after("a", 0.2)
        await clock.advance(0.2)
        assert got == ["a"]
        group.cancel_scope.cancel()


def test_a_key_that_is_delayed_again_and_again_takes_no_more_memory() -> None:
    delays = Delays[str]()
    for due in range(10_000, 0, -1):
        delays.put("a", float(due), 0)
    assert len(delays._heap) < 100
    assert delays.pop_due(1) == ("a", 1, 0)
    assert delays.earliest is None


async def test_of_several_priorities_the_highest_counts_while_a_key_is_delayed() -> None:
    clock = VirtualClock()
    for first, second in ((5, 0), (0, 5)):
        queue = WorkQueue[str](clock)
        queue.add_after("a", 1, priority=first)
        queue.add_after("a", 1, priority=second)
        queue.add_after("b", 1, priority=first)
        queue.add("b", priority=second)
        await clock.advance(1)
        assert queue.get_statistics().ready == {5: 2}


async def test_adding_a_delayed_key_makes_it_ready_at_once_and_ends_the_delay() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    queue.add_after("a", 60)
    queue.add("a")
    assert await take(queue) == ["a"]
    queue.done("a")
    await clock.advance(3600)
    assert await take(queue) == []


async def test_a_delay_that_ends_during_work_gives_one_more_run_afterwards() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    queue.add("a")
    await queue.get()
    queue.add_after("a", 5)
    await clock.advance(6)
    assert await take(queue) == []
    queue.done("a")
    assert await take(queue) == ["a"]


async def test_an_earlier_delay_reaches_workers_who_already_wait_for_a_later_one() -> None:
    clock, got = VirtualClock(), list[tuple[str, float]]()
    queue = WorkQueue[str](clock)

    async def worker() -> None:
        while True:
            got.append((await queue.get(), clock.monotonic()))

    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(worker)
        queue.add_after("late", 100)
        await settle()
        queue.add_after("soon", 1)
        await clock.advance(1)
        assert got == [("soon", 1.0)]
        group.cancel_scope.cancel()


async def test_one_delay_that_makes_many_keys_ready_wakes_all_workers() -> None:
    clock, got = VirtualClock(), list[str]()
    queue = WorkQueue[str](clock)

    async def worker() -> None:
        got.append(await queue.get())

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(worker)
        await settle()
        for key in "abc":
            queue.add_after(key, 5)
            await settle()
        await clock.advance(5)
    assert sorted(got) == ["a", "b", "c"]


async def test_rate_limited_keys_wait_twice_as_long_each_time_until_forgotten() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    for seconds in (0.005, 0.01, 0.02):
        queue.add_rate_limited("a")
        await clock.advance(seconds - 0.001)
        assert await take(queue) == []
        await clock.advance(0.001)
        assert await take(queue) == ["a"]
        queue.done("a")
    assert queue.count_failures("a") == 3
    queue.forget("a")
    queue.add_rate_limited("a")
    await clock.advance(0.005)
    assert await take(queue) == ["a"]


def test_the_back_off_of_a_key_doubles_up_to_its_maximum_without_overflow() -> None:
    backoff = KeyBackoff[str]()
    delays = [backoff.note_failure("a") for _ in range(5000)]
    assert delays[:6] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16]
    assert delays[17:19] == [655.36, 1000.0]
    assert delays[-1] == 1000.0
    assert backoff.note_failure("b") == 0.005
