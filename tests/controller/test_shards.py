"""Which key belongs to which shard, which replica gets which, and what a partition cancels."""

from collections import Counter

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.meta import Key
from controller.shards import Partition, Shards, assign_shards, compute_shard
from tests.clock import settle

KEYS = [Key("system", f"pool-{number}") for number in range(1000)]
MEMBERS = st.sets(st.text("abc-123", min_size=1, max_size=6), max_size=9)


def test_a_key_belongs_to_the_same_shard_in_every_version() -> None:
    assert [compute_shard(key, 4) for key in KEYS[:12]] == [0, 3, 3, 1, 1, 3, 0, 2, 1, 2, 3, 2]


def test_keys_spread_evenly_over_shards() -> None:
    sizes = Counter(compute_shard(key, 4) for key in KEYS)
    assert sorted(sizes) == [0, 1, 2, 3]
    assert min(sizes.values()) > 200


def test_with_one_more_shard_only_the_keys_of_that_shard_move() -> None:
    moved = [key for key in KEYS if compute_shard(key, 5) != compute_shard(key, 4)]
    assert {compute_shard(key, 5) for key in moved} == {4}
    assert len(moved) < 300


@given(st.integers(1, 20), MEMBERS)
def test_every_shard_has_a_member_and_none_has_two_more_than_another(
    count: int, members: set[str]
) -> None:
    assigned = assign_shards(count, members)
    if not members:
        assert assigned == {}
        return
    assert sorted(assigned) == list(range(count))
    sizes = Counter(assigned.values())
    assert max(sizes.values()) - min(sizes[member] for member in members) <= 1


@given(st.integers(1, 20), MEMBERS)
def test_all_replicas_come_to_the_same_result(count: int, members: set[str]) -> None:
    assert assign_shards(count, sorted(members)) == assign_shards(
        count, sorted(members, reverse=True)
    )


def test_a_partition_owns_the_keys_of_the_shards_that_are_held() -> None:
    shards = Shards(4)
    partition = Partition(shards)
    assert not any(map(partition.owns, KEYS))
    shards.held.add(2)
    owned = [key for key in KEYS if partition.owns(key)]
    assert owned == [key for key in KEYS if compute_shard(key, 4) == 2]
    assert owned == [key for key in KEYS if shards.holds(key)]


def test_a_key_may_belong_to_the_shard_of_another_key_or_to_none() -> None:
    shards, pool = Shards(4), KEYS[0]
    partition = Partition(shards, lambda key: pool if key.name == "known" else None)
    known, unknown = Key("system", "known"), Key("system", "unknown")
    assert partition.find_shard(known) == compute_shard(pool, 4)
    assert not partition.owns(known)
    assert partition.owns(unknown)


async def test_only_passes_of_the_shard_are_cancelled() -> None:
    shards = Shards(4)
    partition = Partition(shards)
    cancelled = []

    async def run(key: Key) -> None:
        with partition.open_pass(key) as scope:
            await anyio.sleep_forever()
        if scope.cancelled_caught:
            cancelled.append(key)

    async with anyio.create_task_group() as group:
        for key in KEYS[:40]:
            group.start_soon(run, key)
        await settle()
        partition.cancel(1)
        await partition.wait_idle(1)
        await settle()
        assert cancelled == [key for key in KEYS[:40] if compute_shard(key, 4) == 1]
        group.cancel_scope.cancel()


async def test_waiting_ends_with_the_last_pass_of_the_shard_and_not_before() -> None:
    partition = Partition(Shards(1))
    gates = [anyio.Event(), anyio.Event()]
    idle = anyio.Event()

    async def run(gate: anyio.Event) -> None:
        with partition.open_pass(KEYS[0]):
            await gate.wait()

    async def wait() -> None:
        await partition.wait_idle(0)
        idle.set()

    async with anyio.create_task_group() as group:
        for gate in gates:
            group.start_soon(run, gate)
        await settle()
        group.start_soon(wait)
        gates[0].set()
        await settle()
        assert not idle.is_set()
        gates[1].set()
        await settle()
        assert idle.is_set()


def test_there_is_at_least_one_shard() -> None:
    with pytest.raises(ValueError, match="at least one shard"):
        Shards(0)


@pytest.mark.survives_bugs
async def test_only_the_keys_of_a_shard_that_is_no_longer_held_are_forgotten() -> None:
    forgotten: list[Key] = []

    def forget(key: Key) -> None:
        forgotten.append(key)
        raise ValueError("a mistake, which costs no other key")

    partition = Partition(Shards(4), forget=forget)
    for key in KEYS[:40]:
        with partition.open_pass(key):
            pass
    partition.forget(3)
    assert set(forgotten) == {key for key in KEYS[:40] if compute_shard(key, 4) == 3}
    partition.forget(3)
    assert len(forgotten) == len(set(forgotten))
