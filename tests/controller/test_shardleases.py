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
from tests.controller.sharing import SHARDS, Replica, ReplicaGroup, run_replica_group

LEASE_SECONDS = 15.0
RETRY_SECONDS = 2.0 * 2.2


def list_sizes(replicas: ReplicaGroup) -> list[int]:
    """Return how many shards each replica holds, sorted."""
    return sorted(len(replica.held_shards) for replica in replicas.members)


def is_each_held_once(replicas: ReplicaGroup) -> bool:
    return all(len(holders) == 1 for holders in replicas.believed_holders.values())


async def test_a_single_replica_holds_all_shards_and_reconciles_every_key() -> None:
    async with run_replica_group() as replicas:
        names = [f"widget-{number}" for number in range(20)]
        for name in names:
            await replicas.create_widget(name)
        a = replicas.start("a")
        await replicas.advance_clocks(10)
        assert a.held_shards == set(range(SHARDS))
        assert sorted(set(a.reconciled_names)) == sorted(names)
        await replicas.create_widget("later")
        await replicas.advance_clocks(1)
        assert a.reconciled_names[-1] == "later"


@pytest.mark.parametrize(("count", "expected"), [(2, [3, 3]), (3, [2, 2, 2]), (4, [1, 1, 2, 2])])
async def test_replicas_that_come_get_their_part_of_the_shards(
    count: int, expected: list[int]
) -> None:
    async with run_replica_group() as replicas:
        for number in range(count):
            replicas.start(f"replica-{number}")
            await replicas.advance_clocks(7)
        await replicas.advance_clocks(20)
        assert list_sizes(replicas) == expected
        assert is_each_held_once(replicas)


async def test_two_replicas_reconcile_each_key_once_and_none_at_the_same_time() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        owners = {}
        for number in range(30):
            shard = await replicas.create_widget(f"widget-{number}")
            owners[f"widget-{number}"] = replicas.believed_holders[shard][0]
        await replicas.advance_clocks(5)
        for replica in (a, b):
            own_widgets = sorted(name for name, owner in owners.items() if owner == replica.name)
            assert own_widgets
            assert sorted(replica.reconciled_names) == own_widgets
        assert replicas.simultaneous_reconciles == []


async def test_the_shards_of_a_replica_that_dies_are_taken_when_its_leases_expire() -> None:
    async with run_replica_group() as replicas:
        a, b, c = (replicas.start(name) for name in "abc")
        await replicas.advance_clocks(30)
        shards = [await replicas.create_widget(f"widget-{number}") for number in range(30)]
        await replicas.advance_clocks(5)
        orphaned = {f"widget-{n}" for n, shard in enumerate(shards) if shard in a.held_shards}
        assert orphaned
        a.is_frozen = a.link.cut = True
        b.reconciled_names.clear()
        c.reconciled_names.clear()
        await replicas.advance_clocks(LEASE_SECONDS - 3)
        assert orphaned.isdisjoint(b.reconciled_names + c.reconciled_names)
        await replicas.advance_clocks(3 + RETRY_SECONDS)
        assert sorted(len(replica.held_shards) for replica in (b, c)) == [3, 3]
        assert b.held_shards.isdisjoint(c.held_shards)
        assert orphaned <= set(b.reconciled_names + c.reconciled_names)
        assert replicas.simultaneous_reconciles == []


async def test_a_replica_that_stops_hands_its_shards_over_within_a_few_retry_periods() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        a.manager.stop()
        await replicas.advance_clocks(0.5)
        assert a.ended.is_set()
        assert a.failure is None
        replicas.members.remove(a)
        await replicas.advance_clocks(2 * RETRY_SECONDS)
        assert b.held_shards == set(range(SHARDS))
        assert set(replicas.read_lease_holders().values()) == {"b"}


async def test_work_on_a_shard_that_is_given_back_ends_before_the_next_holder_begins() -> None:
    async with run_replica_group() as replicas:
        a = replicas.start("a")
        await replicas.advance_clocks(10)
        a.reconcile_seconds = 12.0
        for number in range(20):
            await replicas.create_widget(f"widget-{number}")
        await replicas.advance_clocks(1)
        replicas.start("b")
        await replicas.advance_clocks(8)
        assert len(a.held_shards) < SHARDS
        assert set(replicas.read_lease_holders().values()) == {"a"}
        await replicas.advance_clocks(20)
        assert set(replicas.read_lease_holders().values()) == {"a", "b"}
        assert list_sizes(replicas) == [3, 3]
        assert sorted(a.reconciled_names) == sorted(f"widget-{number}" for number in range(20))
        assert replicas.simultaneous_reconciles == []


async def test_work_that_does_not_end_in_the_grace_period_is_cancelled_and_done_elsewhere() -> (
    None
):
    async with run_replica_group() as replicas:
        a = replicas.start("a", grace_seconds=3.0)
        await replicas.advance_clocks(10)
        a.reconcile_seconds = 1000.0
        names = [f"widget-{number}" for number in range(20)]
        for name in names:
            await replicas.create_widget(name)
        await replicas.advance_clocks(1)
        b = replicas.start("b")
        await replicas.advance_clocks(20)
        assert list_sizes(replicas) == [3, 3]
        assert b.reconciled_names
        assert a.reconciled_names == []
        assert replicas.simultaneous_reconciles == []


async def test_a_cut_off_replica_gives_up_its_shards_before_another_has_them_and_goes_on() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        a.reconcile_seconds = b.reconcile_seconds = 1000.0
        for number in range(20):
            await replicas.create_widget(f"widget-{number}")
        await replicas.advance_clocks(1)
        a.link.cut = True
        await replicas.advance_clocks(LEASE_SECONDS + 2 * RETRY_SECONDS)
        assert a.held_shards == set()
        assert b.held_shards == set(range(SHARDS))
        assert replicas.simultaneous_reconciles == []
        assert not a.ended.is_set()
        a.link.cut = False
        await replicas.advance_clocks(60)
        assert list_sizes(replicas) == [3, 3]
        assert is_each_held_once(replicas)
        assert replicas.simultaneous_reconciles == []


async def test_a_frozen_replica_loses_its_shards_when_it_goes_on_and_shares_again() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        a.reconcile_seconds = b.reconcile_seconds = 30.0
        for number in range(20):
            await replicas.create_widget(f"widget-{number}")
        await replicas.advance_clocks(1)
        a.is_frozen = True
        await replicas.advance_clocks(40)
        assert b.held_shards == set(range(SHARDS))
        # Two work on one key: the one that is frozen in it, and the one that took it over.
        assert Counter(replicas.simultaneous_reconciles).keys() == {("a", "b")}
        replicas.simultaneous_reconciles.clear()
        await a.thaw()
        await replicas.advance_clocks(60)
        assert a.failure is None
        assert list_sizes(replicas) == [3, 3]
        assert replicas.simultaneous_reconciles == []


async def test_a_process_ends_when_the_work_of_a_lost_shard_does_not() -> None:
    async with run_replica_group() as replicas:
        a = replicas.start("a")
        await replicas.advance_clocks(10)
        a.ignores_cancellation = True
        await replicas.create_widget("widget")
        await replicas.advance_clocks(1)
        a.link.cut = True
        await replicas.advance_clocks(10)
        assert not a.manager.lost.is_set()
        await replicas.advance_clocks(4)
        assert a.manager.lost.is_set()
        await replicas.advance_clocks(2000)
        assert isinstance(a.failure, LeaderLost)


async def test_services_of_the_leader_run_where_shard_0_is_held() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        for _ in range(3):
            assert [replica.running_services for replica in (a, b)] == [
                int(0 in replica.held_shards) for replica in (a, b)
            ]
            leader = a if 0 in a.held_shards else b
            leader.link.cut = True
            await replicas.advance_clocks(LEASE_SECONDS + 2 * RETRY_SECONDS)
            assert leader.running_services == 0
            leader.link.cut = False
            await replicas.advance_clocks(30)


@pytest.mark.slow
async def test_the_lease_of_a_replica_that_is_gone_for_long_is_deleted() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        before = await list_lease_names(replicas)
        a.is_frozen = True
        await replicas.advance_clocks(400)
        assert len(before - await list_lease_names(replicas)) == 1
        await a.thaw()
        await replicas.advance_clocks(60)
        assert list_sizes(replicas) == [3, 3]
        assert b.failure is None


async def list_lease_names(replicas: ReplicaGroup) -> set[str]:
    """Return the names of all Leases."""
    page = await replicas.client.list(LEASES, namespace="system")
    return {lease.metadata.name for lease in page.items}


async def test_a_replica_that_stops_leaves_no_lease_of_its_own_behind() -> None:
    async with run_replica_group() as replicas:
        a = replicas.start("a")
        await replicas.advance_clocks(10)
        assert len(await list_lease_names(replicas)) == SHARDS + 1
        a.manager.stop()
        await replicas.advance_clocks(1)
        assert len(await list_lease_names(replicas)) == SHARDS
        assert set(replicas.read_lease_holders().values()) == {""}


async def test_a_replica_that_may_not_list_leases_says_so_and_takes_no_shard() -> None:
    async with run_replica_group() as replicas:

        def refuse(request: Request) -> None:
            if request.method == "LIST" and request.resource == LEASES.full_name:
                raise Forbidden(403, "Forbidden", "leases may not be listed")

        replicas.api.on_request = refuse
        a = replicas.start("a", health_bind="127.0.0.1:0")
        await replicas.advance_clocks(30)
        assert a.held_shards == set()
        assert await read_readyz(a) == (503, "the leases of the shards cannot be read")
        replicas.api.on_request = None
        await replicas.advance_clocks(10)
        assert a.held_shards == set(range(SHARDS))
        assert await read_readyz(a) == (200, "")


async def read_readyz(replica: Replica) -> tuple[int, str]:
    """Return the status of the page, and what does not work with the shards."""
    async with httpx.AsyncClient() as client:
        page = await client.get(f"http://127.0.0.1:{replica.manager.health_port}/readyz")
    match = re.search(r"shards failed: ([^:]*)", page.text)
    return page.status_code, match[1] if match else ""


async def test_a_metric_says_which_shards_are_held() -> None:
    async with run_replica_group() as replicas:
        a = replicas.start("a")
        replicas.start("b")
        await replicas.advance_clocks(30)
        exposition, _ = a.manager.metrics.render_exposition()
        for shard in range(SHARDS):
            sample = f'leader_election_master_status{{name="widgets-{SHARDS}-{shard}"}}'
            is_shown = f"{sample} {float(shard in a.held_shards)}" in exposition.decode()
            assert is_shown or (sample not in exposition.decode() and shard not in a.held_shards)


async def test_replicas_with_another_number_of_shards_share_no_lease() -> None:
    async with run_replica_group(4) as replicas:
        a = replicas.start("a")
        await replicas.advance_clocks(10)
        assert set(replicas.read_lease_holders()) == {f"widgets-4-{shard}" for shard in range(4)}
        assert a.held_shards == set(range(4))


def test_shards_without_leader_election_are_refused() -> None:
    options = ManagerOptions(shards=2, lease_name="a", lease_namespace="b")
    with pytest.raises(ConfigurationError, match="need leader election"):
        options.create_lease_settings()


async def test_the_record_of_a_shard_names_its_holder() -> None:
    async with run_replica_group(1) as replicas:
        replicas.start("a")
        await replicas.advance_clocks(10)
        stored = replicas.api.get_stored(LEASES, Key("system", "widgets-1-0"))
        assert stored is not None
        assert stored["metadata"]["labels"] == {"shards-of": "widgets-1"}
        assert stored["spec"]["holderIdentity"] == "a"


async def test_the_options_name_the_lease_whose_holder_works_on_a_key() -> None:
    async with run_replica_group() as replicas:
        a, b = replicas.start("a"), replicas.start("b")
        await replicas.advance_clocks(20)
        for number in range(20):
            await replicas.create_widget(f"widget-{number}")
        await replicas.advance_clocks(5)
        for replica in (a, b):
            leases = {
                replica.manager.options.get_lease_key(Key("default", name))
                for name in replica.reconciled_names
            }
            assert {replicas.read_lease_holders()[lease.name] for lease in leases} == {
                replica.name
            }


def test_without_shards_one_lease_is_for_all_keys() -> None:
    options = ManagerOptions(lease_namespace="system", lease_name="widgets")
    assert options.get_lease_key(Key("default", "any")) == Key("system", "widgets")
