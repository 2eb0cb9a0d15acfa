"""What is done for shards as they come and go: the leader's services, and the first keys."""

import anyio
import pytest

from controller.jobs import LeaderServices
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.redelivery import REDELIVER_SECONDS
from controller.runner import Controller
from controller.shards import Partition, Shards
from controller.triggers import to_self
from controller.workqueue import WorkQueue
from tests.clock import VirtualClock
from tests.controller.sharing import SHARDS, run_replica_group
from tests.controller.widgets import Widget


async def test_services_that_were_ended_twice_begin_again() -> None:
    begun = 0

    async def serve() -> None:
        nonlocal begun
        begun += 1
        await anyio.sleep_forever()

    services = LeaderServices(lambda: [serve])
    async with anyio.create_task_group() as group:
        group.start_soon(services.run)
        for turn in range(1, 4):
            services.begin()
            await anyio.wait_all_tasks_blocked()
            assert begun == turn
            # A shard that is being given back and is lost meanwhile ends twice.
            for _ in range(2):
                await services.end()
                await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()


async def test_services_that_end_before_they_had_their_turn_begin_later() -> None:
    begun = 0

    async def serve() -> None:
        nonlocal begun
        begun += 1
        await anyio.sleep_forever()

    services = LeaderServices(lambda: [serve])
    async with anyio.create_task_group() as group:
        group.start_soon(services.run)
        await anyio.wait_all_tasks_blocked()
        services.begin()
        await services.end()
        await anyio.wait_all_tasks_blocked()
        assert begun == 0
        services.begin()
        await anyio.wait_all_tasks_blocked()
        assert begun == 1
        group.cancel_scope.cancel()


@pytest.mark.survives_bugs
async def test_a_key_on_which_a_mapping_raised_as_its_shard_came_is_reconciled_later() -> None:
    async with run_replica_group(shards=1) as replicas:
        first = replicas.start("b")
        await replicas.advance_clocks(5)
        second = replicas.start("a")
        await replicas.create_widget("widget-1")
        await replicas.advance_clocks(5)
        assert (first.held_shards, second.held_shards) == ({0}, set())
        second.mapping = _raise
        first.manager.stop()
        await replicas.advance_clocks(10)
        assert second.held_shards == {0}
        second.mapping = to_self
        assert second.reconciled_names == []
        await replicas.advance_clocks(2 * REDELIVER_SECONDS)
        assert second.reconciled_names == ["widget-1"]


async def test_a_shard_that_comes_queues_its_own_keys_and_no_others() -> None:
    async with run_replica_group() as replicas:
        names = [f"widget-{number}" for number in range(20)]
        shards = {name: await replicas.create_widget(name) for name in names}
        a = replicas.start("a")
        await replicas.advance_clocks(10)
        replicas.start("b")
        await replicas.advance_clocks(10)
        kept = set(a.held_shards)
        a.reconciled_names.clear()
        replicas.members[1].manager.stop()
        await replicas.advance_clocks(10)
        assert a.held_shards == set(range(SHARDS)) > kept
        assert sorted(a.reconciled_names) == sorted(
            name for name in names if shards[name] not in kept
        )


async def test_a_key_that_was_queued_before_its_shard_went_is_not_reconciled() -> None:
    shards, key = Shards(1), Key("default", "a")
    done: list[Key] = []
    queue = WorkQueue[Key](VirtualClock())

    async def reconcile(reconciled: Key) -> Outcome:
        done.append(reconciled)
        return SETTLED

    controller = Controller("test", reconcile, queue=queue, partition=Partition(shards))
    shards.held.add(0)
    queue.add(key)
    shards.held.discard(0)
    async with anyio.create_task_group() as group:
        group.start_soon(controller.run)
        await anyio.wait_all_tasks_blocked()
        assert done == []
        shards.held.add(0)
        queue.add(key)
        await anyio.wait_all_tasks_blocked()
        assert done == [key]
        controller.stop()


def _raise(_widget: Widget) -> list[Key]:
    raise RuntimeError("a mapping with a bug")
