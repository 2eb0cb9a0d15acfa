"""Caches of other clusters: opened on demand, shared, limited in number, independent."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from controller.cache import Change
from controller.clusters import Clusters, ClusterSettings
from controller.errors import ConfigurationError, NoAnswer, Unauthorized
from controller.meta import Key, Version
from controller.outcome import SETTLED, Outcome
from controller.renewable import Connection
from controller.triggers import ClusterWatch
from controller.workqueue import LOW_PRIORITY, WorkQueue
from tests.clock import VirtualClock
from tests.controller.fleet import Fleet, run_fleet
from tests.controller.store import Store, StoreTransport
from tests.controller.test_manager import Harness
from tests.controller.test_manager import run_harness as run_manager
from tests.controller.widgets import WIDGETS, Widget

DOWN = NoAnswer("connection refused")


async def test_a_cluster_is_opened_on_demand_and_then_in_the_cache() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a", "b")
    async with run_fleet(fleet):
        await fleet.clock.advance(3600)
        assert fleet.opened == []
        assert not fleet.clusters.is_synced(key)
        assert fleet.list_names(key) is None

        assert fleet.clusters.open(key)
        await fleet.clock.advance(0)
        assert fleet.clusters.is_synced(key)
        assert fleet.list_names(key) == ["a", "b"]
        fleet.put(key, "c", "blue")
        await fleet.clock.advance(0)
        assert fleet.list_names(key) == ["a", "b", "c"]
        cache = fleet.widgets.get_cache(key)
        assert cache is not None
        assert [cached.metadata.name for cached in cache.list_by_index("color", "blue")] == ["c"]


async def test_all_callers_share_one_connection_and_one_cache() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    async with run_fleet(fleet):
        for _ in range(3):
            assert fleet.clusters.open(key)
            await fleet.clock.advance(1)
        assert len(fleet.opened) == 1
        assert fleet.widgets.get_cache(key) is fleet.widgets.get_cache(key)
        assert len(fleet.clusters) == 1


async def test_clusters_opened_before_the_service_runs_wait_for_it() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    assert fleet.clusters.open(key)
    assert fleet.list_names(key) is None
    async with run_fleet(fleet):
        assert fleet.list_names(key) == ["a"]


async def test_a_closed_cluster_leaves_nothing_open_and_reports_no_deletions() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    received: list[tuple[Key, Change[Widget]]] = []
    fleet.widgets.add_handler(lambda cluster, change: received.append((cluster, change)))
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(0)
        fleet.clusters.close(key)
        fleet.put(key, "b")
        await fleet.clock.advance(0)
        assert fleet.list_names(key) is None
        assert key not in fleet.clusters
        assert fleet.open_connections == 0
        assert fleet.clock.waiting == 0
    assert [(cluster.name, change.old) for cluster, change in received] == [("one", None)]


async def test_a_closed_cluster_is_freed_though_its_objects_were_frozen() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a", "b")
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(5)
        cache = fleet.widgets.get_cache(key)
        assert cache is not None
        reference = weakref.ref(cache)
        del cache
        # As the process does after a long collection: no later one looks at these objects.
        gc.collect()
        gc.freeze()
        try:
            fleet.clusters.close(key)
            await fleet.clock.advance(5)
            gc.collect()
            assert reference() is None
        finally:
            gc.unfreeze()


async def test_stopping_closes_all_clusters() -> None:
    fleet = Fleet()
    keys = [fleet.add_cluster(name, "a") for name in ("one", "two", "down")]
    fleet.down[keys[2]] = DOWN
    async with run_fleet(fleet):
        for key in keys:
            fleet.clusters.open(key)
        await fleet.clock.advance(0)
        assert fleet.open_connections == 2
    assert fleet.open_connections == 0
    assert len(fleet.clusters) == 0
    assert fleet.clock.waiting == 0


async def test_when_all_slots_are_used_the_least_recently_used_idle_cluster_is_closed() -> None:
    fleet = Fleet(ClusterSettings(limit=2, idle_seconds=60))
    first, two, three = (fleet.add_cluster(name, "a") for name in ("one", "two", "three"))
    async with run_fleet(fleet):
        assert fleet.clusters.open(first)
        await fleet.clock.advance(10)
        assert fleet.clusters.open(two)
        await fleet.clock.advance(10)
        assert not fleet.clusters.open(three)
        assert fleet.list_names(first) == ["a"]  # reading the cache counts as using
        await fleet.clock.advance(55)
        assert fleet.clusters.open(three)
        await fleet.clock.advance(0)
        assert fleet.list_names(two) is None
        assert fleet.list_names(first) == fleet.list_names(three) == ["a"]
        assert fleet.open_connections == 2


async def test_a_cluster_that_is_used_keeps_its_slot() -> None:
    fleet = Fleet(ClusterSettings(limit=1, idle_seconds=60))
    cluster, two = fleet.add_cluster("one", "a"), fleet.add_cluster("two", "a")
    async with run_fleet(fleet):
        fleet.clusters.open(cluster)
        for _ in range(100):
            await fleet.clock.advance(50)
            assert fleet.clusters.open(cluster)
            assert not fleet.clusters.open(two)
        assert [name for _, name in fleet.opened] == ["one"]


async def test_an_unreachable_cluster_loses_its_slot_and_takes_no_other() -> None:
    fleet = Fleet(ClusterSettings(limit=1, idle_seconds=60, longest_pause=300))
    down, up = fleet.add_cluster("down"), fleet.add_cluster("up", "a")
    fleet.down[down] = DOWN
    async with run_fleet(fleet):
        assert fleet.clusters.open(down)
        await fleet.clock.advance(0)
        for _ in range(59):
            assert fleet.clusters.open(down)
            assert not fleet.clusters.open(up)
            await fleet.clock.advance(1)
        await fleet.clock.advance(1)
        assert fleet.clusters.open(down)
        assert fleet.clusters.open(up)
        tries = len(fleet.opened)
        for _ in range(299):
            assert not fleet.clusters.open(down)
            await fleet.clock.advance(1)
        await fleet.clock.advance(1)
        assert len(fleet.opened) == tries + 1
        assert fleet.clusters.open(down)  # the other one was not asked about for 300 s
        assert up not in fleet.clusters


async def test_an_unreachable_cluster_is_tried_with_back_off_and_delays_no_other() -> None:
    fleet = Fleet(ClusterSettings(longest_pause=100))
    down, up = fleet.add_cluster("down", "late"), fleet.add_cluster("up", "a")
    fleet.down[down] = DOWN
    async with run_fleet(fleet):
        assert fleet.clusters.open(down)
        assert fleet.clusters.open(up)
        await fleet.clock.advance(0)
        assert fleet.list_names(up) == ["a"]
        assert "connection refused" in str(fleet.clusters.get_last_error(down))
        assert fleet.clusters.get_last_error(up) is None
        await fleet.clock.advance(2000)
        tries = [at for at, name in fleet.opened if name == "down"]
        pauses = [after - before for before, after in pairwise(tries)]
        for number, pause in enumerate(pauses):
            base = min(0.8 * 2**number, 100)
            assert base <= pause <= 2 * base
        assert len(set(pauses)) == len(pauses)

        del fleet.down[down]
        await fleet.clock.advance_until(lambda: fleet.list_names(down) == ["late"], limit=200)
        assert fleet.clusters.get_last_error(down) is None


async def test_many_clusters_asked_for_at_once_are_opened_at_a_limited_rate() -> None:
    fleet = Fleet(ClusterSettings(limit=100, opens_per_second=20))
    keys = [fleet.add_cluster(f"c{number}", "a") for number in range(100)]
    for key in keys[:50]:
        fleet.down[key] = DOWN  # those cost the others no time
    async with run_fleet(fleet):
        for key in keys:
            fleet.clusters.open(key)
        await fleet.clock.advance(0)
        assert len(fleet.opened) <= 11
        await fleet.clock.advance(5)
        assert all(fleet.clusters.is_synced(key) for key in keys[50:])


async def test_refused_credentials_are_replaced() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(60)
        first = fleet.get_transport(key)
        client = fleet.clusters.get_client(key)
        assert client is not None
        first.refused["GET"] = Unauthorized(401, "Unauthorized", "expired")
        read = await client.get(WIDGETS, Key("default", "a"))
        assert read.metadata.name == "a"
        await fleet.clock.advance(5)
        assert first.closed
        assert fleet.open_connections == 1
        fleet.put(key, "b")
        await fleet.clock.advance(0)
        assert fleet.list_names(key) == ["a", "b"]


async def test_credentials_that_stay_refused_are_retried_with_back_off() -> None:
    fleet = Fleet(ClusterSettings(longest_pause=100))
    key = fleet.add_cluster("one", "a")
    refused = Unauthorized(401, "Unauthorized", "who are you?")

    async with run_fleet(fleet):
        fleet.clusters.open(key)
        fleet.down[key] = refused
        await fleet.clock.advance(1000)
        assert len(fleet.opened) < 20
        assert fleet.open_connections == 0
        assert "who are you?" in str(fleet.clusters.get_last_error(key))


async def test_renewed_credentials_are_used_at_once_and_no_event_is_missed() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    received: list[str] = []
    fleet.widgets.add_handler(
        lambda _, change: received.append(change.new.metadata.name if change.new else "gone")
    )
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(0)
        await fleet.clusters.renew(key)
        fleet.put(key, "b")
        assert fleet.list_names(key) == ["a"]  # what is known stays known
        await fleet.clock.advance(2)
        assert fleet.list_names(key) == ["a", "b"]
        assert [transport.closed for transport in fleet.transports[key]] == [True, False]
        lists = [
            path
            for transport in fleet.transports[key]
            for verb, path in transport.sent
            if verb == "GET"
        ]
        assert len(lists) == 1
        assert received == ["a", "b"]


async def test_a_connection_to_another_cluster_shows_nothing_of_the_old_one() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a", "b", "c")
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(0)
        fleet.add_cluster("one", "b")  # another cluster under the same name
        await fleet.clusters.renew(key)
        await fleet.clock.advance(5)
        assert fleet.list_names(key) == ["b"]
        fleet.put(key, "d")
        await fleet.clock.advance(0)
        assert fleet.list_names(key) == ["b", "d"]


async def test_own_writes_enter_the_cache_of_their_cluster() -> None:
    fleet = Fleet()
    cluster, two = fleet.add_cluster("one", "a"), fleet.add_cluster("two", "a")
    async with run_fleet(fleet):
        for key in (cluster, two):
            fleet.clusters.open(key)
        await fleet.clock.advance(0)
        fleet.get_transport(cluster).watches_stalled = True
        client, known = fleet.clusters.get_client(cluster), fleet.get(cluster, "a")
        assert client is not None
        assert known is not None
        written = await client.patch(
            WIDGETS, Version.from_object(known), {"spec": {"color": "blue"}}
        )
        assert fleet.get(cluster, "a") is written
        other = fleet.get(two, "a")
        assert other is not None
        assert other.spec.color == "red"


async def test_changes_in_other_clusters_become_keys_here() -> None:
    fleet = Fleet()
    first, two = fleet.add_cluster("one", "a"), fleet.add_cluster("two", "b")
    queue = WorkQueue[Key](fleet.clock)
    async with run_fleet(fleet):
        fleet.clusters.open(first)
        await fleet.clock.advance(0)
        watch = ClusterWatch(fleet.widgets, lambda cluster, _: (cluster,))
        registration = watch.connect(queue)
        assert queue.get_statistics().ready == {LOW_PRIORITY: 1}  # there before it was connected
        fleet.clusters.open(two)
        await fleet.clock.advance(0)
        assert queue.get_statistics().ready == {LOW_PRIORITY: 2}
        fleet.put(two, "c")
        await fleet.clock.advance(0)
        assert queue.get_statistics().ready == {LOW_PRIORITY: 1, 0: 1}
        assert await queue.get() == two
        registration.close()
        fleet.put(two, "d")
        await fleet.clock.advance(0)
        assert queue.get_statistics().ready == {LOW_PRIORITY: 1}


async def test_a_predicate_keeps_changes_in_other_clusters_from_the_queue() -> None:
    fleet = Fleet()
    first = fleet.add_cluster("one", "a")
    queue = WorkQueue[Key](fleet.clock)
    watch = ClusterWatch(fleet.widgets, lambda cluster, _: (cluster,), lambda change: False)
    watch.connect(queue)
    async with run_fleet(fleet):
        fleet.clusters.open(first)
        await fleet.clock.advance(0)
        assert queue.get_statistics().ready == {}


@pytest.mark.survives_bugs
async def test_a_handler_that_raises_does_not_stop_the_others() -> None:
    fleet = Fleet()
    first = fleet.add_cluster("one", "a")
    seen: list[str] = []

    def failing(cluster: Key, change: Change[Widget]) -> None:
        raise RuntimeError("a bug")

    fleet.widgets.add_handler(failing)
    fleet.widgets.add_handler(lambda cluster, _: seen.append(cluster.name))
    async with run_fleet(fleet):
        fleet.clusters.open(first)
        await fleet.clock.advance(0)
        fleet.put(first, "b")
        await fleet.clock.advance(0)
    assert seen == ["one", "one"]


async def test_kinds_are_declared_before_clusters_are_opened() -> None:
    fleet = Fleet()
    fleet.clusters.open(fleet.add_cluster("one"))
    with pytest.raises(RuntimeError, match="before the first cluster"):
        fleet.clusters.watch_kind(WIDGETS)


async def test_an_error_of_open_cluster_is_reported_and_retried() -> None:
    fleet = Fleet()
    cluster = fleet.add_cluster("one", "a")
    fleet.down[cluster] = ConfigurationError("the kubeconfig names a program to run")
    async with run_fleet(fleet):
        fleet.clusters.open(cluster)
        await fleet.clock.advance(0)
        assert "names a program to run" in str(fleet.clusters.get_last_error(cluster))
        del fleet.down[cluster]
        await fleet.clock.advance(5)
        assert fleet.list_names(cluster) == ["a"]


def open_plainly(_: Key) -> Any:
    return Connection(StoreTransport(Store()))


async def open_nothing(_: Key) -> Any:
    return None


async def open_a_transport(_: Key) -> Any:
    return StoreTransport(Store())


async def open_cancelled(_: Key) -> Any:
    raise asyncio.CancelledError


@pytest.mark.survives_bugs
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (open_plainly, "must be an `async def`"),
        (open_nothing, "open_nothing returned None: return a controller.Connection"),
        (open_a_transport, "open_a_transport returned"),
        (open_cancelled, "cancelled by other code"),
    ],
)
async def test_an_open_cluster_that_fails_ends_nothing_and_is_named(
    function: Callable[[Key], Any], message: str
) -> None:
    clock, key = VirtualClock(), Key("tenants", "one")
    clusters = Clusters(function, clock)
    clusters.watch_kind(WIDGETS)
    with capture_logs() as lines:
        async with anyio.create_task_group() as group:
            group.start_soon(clusters.run)
            clusters.open(key)
            await clock.advance(60)
            assert key in clusters
            assert message in str(clusters.get_last_error(key))
            group.cancel_scope.cancel()
    assert [line for line in lines if line["log_level"] == "error"]


def test_an_open_cluster_that_cannot_be_called_is_refused() -> None:
    wrong: Any = "tenants"
    with pytest.raises(TypeError, match="open_cluster of Clusters must be an `async def`"):
        Clusters(wrong, VirtualClock())


async def test_a_controller_gets_changes_of_clusters_that_run_as_a_service() -> None:
    here, fleet = Harness(), Fleet()
    fleet.clock = here.clock
    down, up = fleet.add_cluster("down"), fleet.add_cluster("up")
    fleet.down[down] = DOWN
    seen: list[str] = []

    async def reconcile(key: Key) -> Outcome:
        seen.append(key.name)
        return SETTLED

    clusters = Clusters(fleet.open, here.clock)
    here.manager.add_service("clusters", clusters.run)
    widgets = clusters.watch_kind(WIDGETS)
    watch = ClusterWatch(widgets, lambda cluster, _: (cluster,))
    here.manager.add_controller("tenant", reconcile, watches=[watch])
    async with run_manager(here):
        clusters.open(down)
        clusters.open(up)
        await here.clock.advance(0)
        fleet.put(up, "a")
        await here.clock.advance(0)
        assert seen == ["up"]
    assert fleet.open_connections == 0
