"""The virtual clock keeps time exactly, in order, and leaves nothing behind."""

from datetime import timedelta

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.clock import START, VirtualClock, settle


async def test_a_sleeper_wakes_at_its_instant_and_not_before() -> None:
    clock, awake = VirtualClock(), anyio.Event()

    async def sleeper() -> None:
        await clock.sleep(30)
        awake.set()

    async with anyio.create_task_group() as group:
        group.start_soon(sleeper)
        await clock.advance(29.999)
        assert not awake.is_set()
        await clock.advance(0.001)
        assert awake.is_set()


async def test_a_chain_of_sleeps_runs_at_the_right_instants_within_one_advance() -> None:
    clock, seen = VirtualClock(), list[float]()

    async def chain() -> None:
        for _ in range(3):
            await clock.sleep(0.1)
            seen.append(clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(chain)
        await clock.advance(0.3)
    assert seen == [0.1, 0.2, 0.3]


async def test_sleepers_wake_in_time_order_and_equal_ones_in_the_order_of_asking() -> None:
    clock, seen = VirtualClock(), list[str]()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        seen.append(name)

    async with anyio.create_task_group() as group:
        for name, seconds in (("late", 3), ("first", 1), ("second", 1)):
            group.start_soon(sleeper, name, seconds)
        await clock.advance(5)
    assert seen == ["first", "second", "late"]


async def test_a_deadline_cancels_what_runs_too_long() -> None:
    clock, caught = VirtualClock(), list[bool]()

    async def wait_bounded() -> None:
        with clock.move_on_after(10) as scope:
            await anyio.sleep_forever()
        caught.append(scope.cancelled_caught)

    async with anyio.create_task_group() as group:
        group.start_soon(wait_bounded)
        await clock.advance(9)
        assert caught == []
        await clock.advance(1)
    assert caught == [True]
    assert clock.waiting == 0


async def test_a_deadline_that_was_kept_cancels_no_task() -> None:
    clock = VirtualClock()
    with clock.move_on_after(10) as scope:
        await checkpoint()
    await clock.advance(60)
    assert not scope.cancelled_caught
    assert not scope.cancel_called
    assert clock.waiting == 0


async def test_a_deadline_of_nothing_ends_at_the_first_wait() -> None:
    clock = VirtualClock()
    with clock.move_on_after(0) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught


async def test_an_infinite_sleep_is_never_due() -> None:
    clock = VirtualClock()
    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, float("inf"))
        await clock.advance(1e9)
        assert clock.next_due is None
        group.cancel_scope.cancel()


async def test_a_cancelled_sleep_leaves_no_timer() -> None:
    clock = VirtualClock()
    async with anyio.create_task_group() as group:
        group.start_soon(clock.sleep, 5)
        await settle()
        assert clock.waiting == 1
        group.cancel_scope.cancel()
    assert clock.waiting == 0
    assert clock.next_due is None


async def test_both_times_move_together() -> None:
    clock = VirtualClock()
    await clock.advance(1.5)
    assert clock.monotonic() == 1.5
    assert clock.now() == START + timedelta(seconds=1.5)


async def test_advancing_until_something_holds_returns_how_long_it_took() -> None:
    clock, ticks = VirtualClock(), list[float]()

    async def ticker() -> None:
        while True:
            await clock.sleep(7)
            ticks.append(clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(ticker)
        assert await clock.advance_until(lambda: len(ticks) == 3) == 21
        with pytest.raises(AssertionError, match="within 10 virtual seconds"):
            await clock.advance_until(lambda: len(ticks) == 9, limit=10)
        group.cancel_scope.cancel()


async def test_a_busy_loop_is_reported_instead_of_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fewer turns than usual: other threads of a worker may make each of them take long."""
    monkeypatch.setattr("controller.testing.clock.MOST_TURNS", 100)
    clock = VirtualClock()

    async def busy() -> None:
        while True:
            await clock.sleep(0)

    async with anyio.create_task_group() as group:
        group.start_soon(busy)
        with pytest.raises(AssertionError, match="did not come to rest in 100 turns"):
            await settle()
        group.cancel_scope.cancel()
