"""Replicas share the keys by shards: who works on what, and what happens when one goes."""

import re
from collections import Counter

import httpx
import pytest

from controller.errors import ConfigurationError, Forbidden
from controller.leases import LEASES, LeaderLost
from controller.meta import Key
from controller.options import ManagerOptions
from controller.testing import Request
from tests.controller.sharing import SHARDS, Room, Worker, open_room

LEASE_SECONDS = 15.0
RETRY_SECONDS = 2.0 * 2.2


def list_sizes(room: Room) -> list[int]:
    """Return how many shards each worker holds, sorted."""
    return sorted(len(worker.held) for worker in room.workers)


def is_each_held_once(room: Room) -> bool:
    return all(len(holders) == 1 for holders in room.holders.values())


async def test_a_single_replica_holds_all_shards_and_reconciles_every_key() -> None:
    async with open_room() as room:
        names = [f"widget-{number}" for number in range(20)]
        for name in names:
            await room.create_widget(name)
        a = room.start("a")
        await room.let_time_pass(10)
        assert a.held == set(range(SHARDS))
        assert sorted(set(a.done)) == sorted(names)
        await room.create_widget("later")
        await room.let_time_pass(1)
        assert a.done[-1] == "later"


@pytest.mark.parametrize(("count", "expected"), [(2, [3, 3]), (3, [2, 2, 2]), (4, [1, 1, 2, 2])])
async def test_replicas_that_come_get_their_part_of_the_shards(
    count: int, expected: list[int]
) -> None:
    async with open_room() as room:
        for number in range(count):
            room.start(f"replica-{number}")
            await room.let_time_pass(7)
        await room.let_time_pass(20)
        assert list_sizes(room) == expected
        assert is_each_held_once(room)


async def test_two_replicas_reconcile_each_key_once_and_none_at_the_same_time() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        owners = {}
        for number in range(30):
            shard = await room.create_widget(f"widget-{number}")
            owners[f"widget-{number}"] = room.holders[shard][0]
        await room.let_time_pass(5)
        for worker in (a, b):
            own_widgets = sorted(name for name, owner in owners.items() if owner == worker.name)
            assert own_widgets
            assert sorted(worker.done) == own_widgets
        assert room.together == []


async def test_the_shards_of_a_replica_that_dies_are_taken_when_its_leases_expire() -> None:
    async with open_room() as room:
        a, b, c = (room.start(name) for name in "abc")
        await room.let_time_pass(30)
        shards = [await room.create_widget(f"widget-{number}") for number in range(30)]
        await room.let_time_pass(5)
        orphaned = {f"widget-{n}" for n, shard in enumerate(shards) if shard in a.held}
        assert orphaned
        a.frozen = a.link.cut = True
        b.done.clear()
        c.done.clear()
        await room.let_time_pass(LEASE_SECONDS - 3)
        assert orphaned.isdisjoint(b.done + c.done)
        await room.let_time_pass(3 + RETRY_SECONDS)
        assert sorted(len(worker.held) for worker in (b, c)) == [3, 3]
        assert b.held.isdisjoint(c.held)
        assert orphaned <= set(b.done + c.done)
        assert room.together == []


async def test_a_replica_that_stops_hands_its_shards_over_within_a_few_retry_periods() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        a.manager.stop()
        await room.let_time_pass(0.5)
        assert a.ended.is_set()
        assert a.failure is None
        room.workers.remove(a)
        await room.let_time_pass(2 * RETRY_SECONDS)
        assert b.held == set(range(SHARDS))
        assert set(room.read_holders().values()) == {"b"}


async def test_work_on_a_shard_that_is_given_back_ends_before_the_next_holder_begins() -> None:
    async with open_room() as room:
        a = room.start("a")
        await room.let_time_pass(10)
        a.seconds = 12.0
        for number in range(20):
            await room.create_widget(f"widget-{number}")
        await room.let_time_pass(1)
        room.start("b")
        await room.let_time_pass(8)
        assert len(a.held) < SHARDS
        assert set(room.read_holders().values()) == {"a"}
        await room.let_time_pass(20)
        assert set(room.read_holders().values()) == {"a", "b"}
        assert list_sizes(room) == [3, 3]
        assert sorted(a.done) == sorted(f"widget-{number}" for number in range(20))
        assert room.together == []


async def test_work_that_does_not_end_in_the_grace_period_is_cancelled_and_done_elsewhere() -> (
    None
):
    async with open_room() as room:
        a = room.start("a", grace_seconds=3.0)
        await room.let_time_pass(10)
        a.seconds = 1000.0
        names = [f"widget-{number}" for number in range(20)]
        for name in names:
            await room.create_widget(name)
        await room.let_time_pass(1)
        b = room.start("b")
        await room.let_time_pass(20)
        assert list_sizes(room) == [3, 3]
        assert b.done
        assert a.done == []
        assert room.together == []


async def test_a_cut_off_replica_gives_up_its_shards_before_another_has_them_and_goes_on() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        a.seconds = b.seconds = 1000.0
        for number in range(20):
            await room.create_widget(f"widget-{number}")
        await room.let_time_pass(1)
        a.link.cut = True
        await room.let_time_pass(LEASE_SECONDS + 2 * RETRY_SECONDS)
        assert a.held == set()
        assert b.held == set(range(SHARDS))
        assert room.together == []
        assert not a.ended.is_set()
        a.link.cut = False
        await room.let_time_pass(60)
        assert list_sizes(room) == [3, 3]
        assert is_each_held_once(room)
        assert room.together == []


async def test_a_frozen_replica_loses_its_shards_when_it_goes_on_and_shares_again() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        a.seconds = b.seconds = 30.0
        for number in range(20):
            await room.create_widget(f"widget-{number}")
        await room.let_time_pass(1)
        a.frozen = True
        await room.let_time_pass(40)
        assert b.held == set(range(SHARDS))
        # Two work on one key: the one that is frozen in it, and the one that took it over.
        assert Counter(room.together).keys() == {("a", "b")}
        room.together.clear()
        await a.thaw()
        await room.let_time_pass(60)
        assert a.failure is None
        assert list_sizes(room) == [3, 3]
        assert room.together == []


async def test_a_process_ends_when_the_work_of_a_lost_shard_does_not() -> None:
    async with open_room() as room:
        a = room.start("a")
        await room.let_time_pass(10)
        a.stubborn = True
        await room.create_widget("widget")
        await room.let_time_pass(1)
        a.link.cut = True
        await room.let_time_pass(10)
        assert not a.manager.lost.is_set()
        await room.let_time_pass(4)
        assert a.manager.lost.is_set()
        await room.let_time_pass(2000)
        assert isinstance(a.failure, LeaderLost)


async def test_services_of_the_leader_run_where_shard_0_is_held() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        for _ in range(3):
            assert [worker.services for worker in (a, b)] == [
                int(0 in worker.held) for worker in (a, b)
            ]
            leader = a if 0 in a.held else b
            leader.link.cut = True
            await room.let_time_pass(LEASE_SECONDS + 2 * RETRY_SECONDS)
            assert leader.services == 0
            leader.link.cut = False
            await room.let_time_pass(30)


@pytest.mark.slow
async def test_the_lease_of_a_replica_that_is_gone_for_long_is_deleted() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        before = await list_lease_names(room)
        a.frozen = True
        await room.let_time_pass(400)
        assert len(before - await list_lease_names(room)) == 1
        await a.thaw()
        await room.let_time_pass(60)
        assert list_sizes(room) == [3, 3]
        assert b.failure is None


async def list_lease_names(room: Room) -> set[str]:
    """Return the names of all Leases."""
    page = await room.client.list(LEASES, namespace="system")
    return {lease.metadata.name for lease in page.items}


async def test_a_replica_that_stops_leaves_no_lease_of_its_own_behind() -> None:
    async with open_room() as room:
        a = room.start("a")
        await room.let_time_pass(10)
        assert len(await list_lease_names(room)) == SHARDS + 1
        a.manager.stop()
        await room.let_time_pass(1)
        assert len(await list_lease_names(room)) == SHARDS
        assert set(room.read_holders().values()) == {""}


async def test_a_replica_that_may_not_list_leases_says_so_and_takes_no_shard() -> None:
    async with open_room() as room:

        def refuse(request: Request) -> None:
            if request.method == "LIST" and request.resource == LEASES.full_name:
                raise Forbidden(403, "Forbidden", "leases may not be listed")

        room.api.on_request = refuse
        a = room.start("a", health_bind="127.0.0.1:0")
        await room.let_time_pass(30)
        assert a.held == set()
        assert await read_readyz(a) == (503, "the leases of the shards cannot be read")
        room.api.on_request = None
        await room.let_time_pass(10)
        assert a.held == set(range(SHARDS))
        assert await read_readyz(a) == (200, "")


async def read_readyz(worker: Worker) -> tuple[int, str]:
    """Return the status of the page, and what does not work with the shards."""
    async with httpx.AsyncClient() as client:
        page = await client.get(f"http://127.0.0.1:{worker.manager.health_port}/readyz")
    match = re.search(r"shards failed: ([^:]*)", page.text)
    return page.status_code, match[1] if match else ""


async def test_a_metric_says_which_shards_are_held() -> None:
    async with open_room() as room:
        a = room.start("a")
        room.start("b")
        await room.let_time_pass(30)
        exposition, _ = a.manager.metrics.render_exposition()
        for shard in range(SHARDS):
            sample = f'leader_election_master_status{{name="widgets-{SHARDS}-{shard}"}}'
            is_shown = f"{sample} {float(shard in a.held)}" in exposition.decode()
            assert is_shown or (sample not in exposition.decode() and shard not in a.held)


async def test_replicas_with_another_number_of_shards_share_no_lease() -> None:
    async with open_room(4) as room:
        a = room.start("a")
        await room.let_time_pass(10)
        assert set(room.read_holders()) == {f"widgets-4-{shard}" for shard in range(4)}
        assert a.held == set(range(4))


def test_shards_without_leader_election_are_refused() -> None:
    options = ManagerOptions(shards=2, lease_name="a", lease_namespace="b")
    with pytest.raises(ConfigurationError, match="need leader election"):
        options.create_lease_settings()


async def test_the_record_of_a_shard_names_its_holder() -> None:
    async with open_room(1) as room:
        room.start("a")
        await room.let_time_pass(10)
        stored = room.api.get_stored(LEASES, Key("system", "widgets-1-0"))
        assert stored is not None
        assert stored["metadata"]["labels"] == {"shards-of": "widgets-1"}
        assert stored["spec"]["holderIdentity"] == "a"


async def test_the_options_name_the_lease_whose_holder_works_on_a_key() -> None:
    async with open_room() as room:
        a, b = room.start("a"), room.start("b")
        await room.let_time_pass(20)
        for number in range(20):
            await room.create_widget(f"widget-{number}")
        await room.let_time_pass(5)
        for worker in (a, b):
            leases = {
                worker.manager.options.get_lease_key(Key("default", name)) for name in worker.done
            }
            assert {room.read_holders()[lease.name] for lease in leases} == {worker.name}


def test_without_shards_one_lease_is_for_all_keys() -> None:
    options = ManagerOptions(lease_namespace="system", lease_name="widgets")
    assert options.get_lease_key(Key("default", "any")) == Key("system", "widgets")
