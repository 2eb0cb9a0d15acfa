"""The work queue: no key lost, none twice, priorities, shut-down drains."""

import anyio
import pytest
from anyio.lowlevel import checkpoint

from controller.workqueue import QueueShutDown, WorkQueue
from tests.clock import VirtualClock, settle


async def take(queue: WorkQueue[str]) -> list[str]:
    """Take everything that is ready now, without finishing any of it."""
    keys: list[str] = []
    while queue.get_statistics().ready:
        keys.append(await queue.get())
    return keys


async def test_keys_come_out_in_the_order_they_were_added() -> None:
    queue = WorkQueue[str](VirtualClock())
    for key in "cab":
        queue.add(key)
    assert await take(queue) == ["c", "a", "b"]


async def test_a_key_added_twice_is_taken_once() -> None:
    queue = WorkQueue[str](VirtualClock())
    for key in "aba":
        queue.add(key)
    assert await take(queue) == ["a", "b"]


async def test_a_key_in_processing_is_not_taken_again_before_it_is_done() -> None:
    queue = WorkQueue[str](VirtualClock())
    queue.add("a")
    assert await queue.get() == "a"
    for _ in range(1000):
        queue.add("a")
    assert await take(queue) == []
    queue.done("a")
    assert await take(queue) == ["a"]
    queue.done("a")
    assert await take(queue) == []


async def test_done_for_a_key_not_in_processing_is_refused() -> None:
    with pytest.raises(KeyError):
        WorkQueue[str](VirtualClock()).done("a")


async def test_a_key_whose_priority_rises_has_still_waited_since_it_was_added() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    queue.add("a", priority=-100)
    await clock.advance(3)
    queue.add("a")
    assert queue.get_statistics().oldest_ready_seconds == 3


async def test_a_worker_that_never_waits_lets_other_tasks_run() -> None:
    queue, keys = WorkQueue[int](VirtualClock()), list[int]()
    for number in range(100):
        queue.add(number)

    async def worker() -> None:
        while len(keys) < 100:
            keys.append(await queue.get())
            queue.done(keys[-1])

    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        for _ in range(5):
            await checkpoint()
        assert 0 < len(keys) < 10


async def test_another_worker_waits_for_the_next_due_key_when_the_first_is_cancelled() -> None:
    clock, got = VirtualClock(), list[str]()
    queue = WorkQueue[str](clock)

    async def worker() -> None:
        got.append(await queue.get())

    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as keeper:
            async with anyio.create_task_group() as first:
                first.start_soon(worker)
                await settle()
                group.start_soon(worker)
                queue.add_after("a", 5)
                await settle()
                keeper.cancel()
        await clock.advance(5)
    assert got == ["a"]


@pytest.mark.parametrize("cancelled_first", [True, False])
async def test_a_worker_cancelled_while_it_is_woken_loses_no_key(
    cancelled_first: bool,
) -> None:
    clock, got = VirtualClock(), list[str]()
    queue = WorkQueue[str](clock)
    scopes = [anyio.CancelScope(), anyio.CancelScope()]

    async def worker(scope: anyio.CancelScope) -> None:
        with scope:
            got.append(await queue.get())

    async with anyio.create_task_group() as group:
        for scope in scopes:
            group.start_soon(worker, scope)
        await settle()
        if cancelled_first:
            scopes[0].cancel()
        queue.add("a")
        scopes[0].cancel()
        await settle()
        assert got == ["a"]
        group.cancel_scope.cancel()


async def test_a_higher_priority_goes_first_and_a_raised_key_goes_to_the_end_of_it() -> None:
    queue = WorkQueue[str](VirtualClock())
    queue.add("low", priority=-100)
    queue.add("raised", priority=-100)
    queue.add("normal")
    queue.add("raised")
    assert queue.get_statistics().ready == {-100: 1, 0: 2}
    assert await take(queue) == ["normal", "raised", "low"]


async def test_a_lower_priority_waits_but_does_not_starve() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock, ageing=10)
    for number in range(5):
        queue.add(f"old-{number}", priority=-100)
    await clock.advance(10.1)
    keys = list[str]()
    for number in range(16 * 5):
        queue.add(f"live-{number}")
        keys.append(await queue.get())
        queue.done(keys[-1])
    olds = [place for place, key in enumerate(keys) if key.startswith("old")]
    assert olds == [15, 31, 47, 63, 79]


async def test_a_shut_down_queue_returns_its_keys_and_accepts_none() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    queue.add("working")
    assert await queue.get() == "working"
    queue.add("working")
    queue.add("ready")
    queue.add_after("delayed", 5)
    queue.shut_down()
    queue.add("new")
    queue.add_after("new", 1)
    assert await take(queue) == ["ready"]
    queue.done("working")
    assert await take(queue) == ["working"]
    queue.done("working")
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_a_waiting_worker_is_woken_by_the_shut_down() -> None:
    queue, ended = WorkQueue[str](VirtualClock()), list[str]()

    async def worker(name: str) -> None:
        with pytest.raises(QueueShutDown):
            await queue.get()
        ended.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(worker, "a")
        group.start_soon(worker, "b")
        await settle()
        queue.shut_down()
    assert sorted(ended) == ["a", "b"]


async def test_workers_wait_for_the_second_run_of_a_key_before_a_drain_is_over() -> None:
    queue, got = WorkQueue[str](VirtualClock()), list[str]()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.shut_down()

    async def worker() -> None:
        got.append(await queue.get())

    async with anyio.create_task_group() as group:
        group.start_soon(worker)
        await settle()
        assert got == []
        queue.done("a")
    assert got == ["a"]


async def test_a_shut_down_without_drain_leaves_only_the_work_that_has_begun() -> None:
    queue = WorkQueue[str](VirtualClock())
    queue.add("working")
    await queue.get()
    for key in ("working", "ready"):
        queue.add(key)
    queue.shut_down(drain=False)
    with pytest.raises(QueueShutDown):
        await queue.get()
    queue.done("working")
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_the_statistics_have_the_numbers_of_keys_and_durations() -> None:
    clock = VirtualClock()
    queue = WorkQueue[str](clock)
    for key in ("a", "b", "c"):
        queue.add(key)
    await queue.get()
    await clock.advance(2)
    await queue.get()
    queue.add_after("later", 60)
    queue.add_rate_limited("failing")
    await clock.advance(1)
    now = queue.get_statistics()
    assert now.ready == {0: 2}
    assert (now.delayed, now.processing, now.failing) == (1, 2, 1)
    assert now.oldest_ready_seconds == 3
    assert (now.unfinished_seconds, now.longest_running_seconds) == (4, 3)
    with pytest.raises(AttributeError):
        now.delayed = 0  # type: ignore[misc] # that it is frozen is what is tested
