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
from controller.clusters import BURST, Clusters, ClusterSettings
from controller.errors import ConfigurationError, NoAnswer, Unauthorized
from controller.meta import Key, Version
from controller.outcome import SETTLED, Outcome
from controller.renewable import Connection
from controller.triggers import ClusterWatch
from controller.workqueue import LOW_PRIORITY, WorkQueue
from tests.clock import VirtualClock
from tests.controller.fleet import Fleet, run_fleet
from tests.controller.store import Store, StoreTransport
from tests.controller.test_manager import ManagerHarness
from tests.controller.test_manager import run_harness as run_manager
from tests.controller.widgets import WIDGETS, Widget

CONNECTION_REFUSED = NoAnswer("connection refused")


async def test_a_cluster_is_opened_on_demand_and_then_cached() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a", "b")
    async with run_fleet(fleet):
        await fleet.clock.advance(3600)
        assert fleet.open_attempts == []
        assert not fleet.clusters.is_synced(key)
        assert fleet.list_cached_names(key) is None

        assert fleet.clusters.open(key)
        await fleet.clock.advance(0)
        assert fleet.clusters.is_synced(key)
        assert fleet.list_cached_names(key) == ["a", "b"]
        fleet.put_widget(key, "c", "blue")
        await fleet.clock.advance(0)
        assert fleet.list_cached_names(key) == ["a", "b", "c"]
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
        assert len(fleet.open_attempts) == 1
        assert fleet.widgets.get_cache(key) is fleet.widgets.get_cache(key)
        assert len(fleet.clusters) == 1


async def test_clusters_that_are_opened_before_the_service_runs_are_connected_when_it_does() -> (
    None
):
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    assert fleet.clusters.open(key)
    assert fleet.list_cached_names(key) is None
    async with run_fleet(fleet):
        assert fleet.list_cached_names(key) == ["a"]


async def test_a_closed_cluster_leaves_nothing_open_and_reports_no_deletions() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a")
    received: list[tuple[Key, Change[Widget]]] = []
    fleet.widgets.add_handler(lambda cluster, change: received.append((cluster, change)))
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(0)
        fleet.clusters.close(key)
        fleet.put_widget(key, "b")
        await fleet.clock.advance(0)
        assert fleet.list_cached_names(key) is None
        assert key not in fleet.clusters
        assert fleet.open_connection_count == 0
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
        # The process does this after a long garbage collection: later ones skip these objects.
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
    fleet.open_errors[keys[2]] = CONNECTION_REFUSED
    async with run_fleet(fleet):
        for key in keys:
            fleet.clusters.open(key)
        await fleet.clock.advance(0)
        assert fleet.open_connection_count == 2
    assert fleet.open_connection_count == 0
    assert len(fleet.clusters) == 0
    assert fleet.clock.waiting == 0


async def test_when_all_slots_are_used_the_least_recently_used_idle_cluster_is_closed() -> None:
    fleet = Fleet(ClusterSettings(limit=2, idle_seconds=60))
    first, second, third = (fleet.add_cluster(name, "a") for name in ("one", "two", "three"))
    async with run_fleet(fleet):
        assert fleet.clusters.open(first)
        await fleet.clock.advance(10)
        assert fleet.clusters.open(second)
        await fleet.clock.advance(10)
        assert not fleet.clusters.open(third)
        assert fleet.list_cached_names(first) == ["a"]  # reading the cache counts as using
        await fleet.clock.advance(55)
        assert fleet.clusters.open(third)
        await fleet.clock.advance(0)
        assert fleet.list_cached_names(second) is None
        assert fleet.list_cached_names(first) == fleet.list_cached_names(third) == ["a"]
        assert fleet.open_connection_count == 2


async def test_a_cluster_that_is_used_keeps_its_slot() -> None:
    fleet = Fleet(ClusterSettings(limit=1, idle_seconds=60))
    first, second = fleet.add_cluster("one", "a"), fleet.add_cluster("two", "a")
    async with run_fleet(fleet):
        fleet.clusters.open(first)
        for _ in range(100):
            await fleet.clock.advance(50)
            assert fleet.clusters.open(first)
            assert not fleet.clusters.open(second)
        assert [name for _, name in fleet.open_attempts] == ["one"]


async def test_an_unreachable_cluster_loses_its_slot_until_it_is_tried_again() -> None:
    fleet = Fleet(ClusterSettings(limit=1, idle_seconds=60, longest_pause=300))
    down, up = fleet.add_cluster("down"), fleet.add_cluster("up", "a")
    fleet.open_errors[down] = CONNECTION_REFUSED
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
        attempts = len(fleet.open_attempts)
        for _ in range(299):
            assert not fleet.clusters.open(down)
            await fleet.clock.advance(1)
        await fleet.clock.advance(1)
        assert len(fleet.open_attempts) == attempts + 1
        assert fleet.clusters.open(down)  # nobody has used the cluster `up` for 300 s
        assert up not in fleet.clusters


async def test_an_unreachable_cluster_is_tried_with_back_off_and_delays_no_other() -> None:
    fleet = Fleet(ClusterSettings(longest_pause=100))
    down, up = fleet.add_cluster("down", "late"), fleet.add_cluster("up", "a")
    fleet.open_errors[down] = CONNECTION_REFUSED
    async with run_fleet(fleet):
        assert fleet.clusters.open(down)
        assert fleet.clusters.open(up)
        await fleet.clock.advance(0)
        assert fleet.list_cached_names(up) == ["a"]
        assert "connection refused" in str(fleet.clusters.get_last_error(down))
        assert fleet.clusters.get_last_error(up) is None
        await fleet.clock.advance(2000)
        attempts = [at for at, name in fleet.open_attempts if name == "down"]
        pauses = [after - before for before, after in pairwise(attempts)]
        for number, pause in enumerate(pauses):
            base = min(0.8 * 2**number, 100)
            assert base <= pause <= 2 * base
        assert len(set(pauses)) == len(pauses)

        del fleet.open_errors[down]
        await fleet.clock.advance_until(
            lambda: fleet.list_cached_names(down) == ["late"], limit=200
        )
        assert fleet.clusters.get_last_error(down) is None


async def test_many_clusters_that_are_opened_at_once_are_connected_at_a_limited_rate() -> None:
    fleet = Fleet(ClusterSettings(limit=100, opens_per_second=20))
    keys = [fleet.add_cluster(f"c{number}", "a") for number in range(100)]
    for key in keys[:50]:
        fleet.open_errors[key] = CONNECTION_REFUSED  # these clusters do not delay the others
    async with run_fleet(fleet):
        for key in keys:
            fleet.clusters.open(key)
        await fleet.clock.advance(0)
        assert len(fleet.open_attempts) <= BURST + 1
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
        first.errors_by_method["GET"] = Unauthorized(401, "Unauthorized", "expired")
        read = await client.get(WIDGETS, Key("default", "a"))
        assert read.metadata.name == "a"
        await fleet.clock.advance(5)
        assert first.closed
        assert fleet.open_connection_count == 1
        fleet.put_widget(key, "b")
        await fleet.clock.advance(0)
        assert fleet.list_cached_names(key) == ["a", "b"]


async def test_credentials_that_stay_refused_are_retried_with_back_off() -> None:
    fleet = Fleet(ClusterSettings(longest_pause=100))
    key = fleet.add_cluster("one", "a")
    refused = Unauthorized(401, "Unauthorized", "who are you?")

    async with run_fleet(fleet):
        fleet.clusters.open(key)
        fleet.open_errors[key] = refused
        await fleet.clock.advance(1000)
        assert len(fleet.open_attempts) < 20
        assert fleet.open_connection_count == 0
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
        fleet.put_widget(key, "b")
        assert fleet.list_cached_names(key) == ["a"], "the cache stays during the renewal"
        await fleet.clock.advance(2)
        assert fleet.list_cached_names(key) == ["a", "b"]
        assert [transport.closed for transport in fleet.transports[key]] == [True, False]
        lists = [
            path
            for transport in fleet.transports[key]
            for verb, path in transport.sent
            if verb == "GET"
        ]
        assert len(lists) == 1
        assert received == ["a", "b"]


async def test_objects_of_the_old_cluster_vanish_when_its_name_leads_to_another_cluster() -> None:
    fleet = Fleet()
    key = fleet.add_cluster("one", "a", "b", "c")
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(0)
        fleet.add_cluster("one", "b")  # another cluster under the same name
        await fleet.clusters.renew(key)
        await fleet.clock.advance(5)
        assert fleet.list_cached_names(key) == ["b"]
        fleet.put_widget(key, "d")
        await fleet.clock.advance(0)
        assert fleet.list_cached_names(key) == ["b", "d"]


async def test_own_writes_enter_the_cache_of_their_cluster() -> None:
    fleet = Fleet()
    first, second = fleet.add_cluster("one", "a"), fleet.add_cluster("two", "a")
    async with run_fleet(fleet):
        for key in (first, second):
            fleet.clusters.open(key)
        await fleet.clock.advance(0)
        fleet.get_transport(first).watches_stalled = True
        client, known = fleet.clusters.get_client(first), fleet.get_cached_widget(first, "a")
        assert client is not None
        assert known is not None
        written = await client.patch(
            WIDGETS, Version.from_object(known), {"spec": {"color": "blue"}}
        )
        assert fleet.get_cached_widget(first, "a") is written
        other = fleet.get_cached_widget(second, "a")
        assert other is not None
        assert other.spec.color == "red"


async def test_changes_in_other_clusters_queue_the_keys_of_the_mapping() -> None:
    fleet = Fleet()
    first, second = fleet.add_cluster("one", "a"), fleet.add_cluster("two", "b")
    queue = WorkQueue[Key](fleet.clock)
    async with run_fleet(fleet):
        fleet.clusters.open(first)
        await fleet.clock.advance(0)
        watch = ClusterWatch(fleet.widgets, lambda cluster, _: (cluster,))
        registration = watch.connect(queue)
        # The widget existed before the watch was connected.
        assert queue.get_statistics().ready == {LOW_PRIORITY: 1}
        fleet.clusters.open(second)
        await fleet.clock.advance(0)
        assert queue.get_statistics().ready == {LOW_PRIORITY: 2}
        fleet.put_widget(second, "c")
        await fleet.clock.advance(0)
        assert queue.get_statistics().ready == {LOW_PRIORITY: 1, 0: 1}
        assert await queue.get() == second
        registration.close()
        fleet.put_widget(second, "d")
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

    def raise_error(cluster: Key, change: Change[Widget]) -> None:
        raise RuntimeError("a bug")

    fleet.widgets.add_handler(raise_error)
    fleet.widgets.add_handler(lambda cluster, _: seen.append(cluster.name))
    async with run_fleet(fleet):
        fleet.clusters.open(first)
        await fleet.clock.advance(0)
        fleet.put_widget(first, "b")
        await fleet.clock.advance(0)
    assert seen == ["one", "one"]


async def test_kinds_are_declared_before_clusters_are_opened() -> None:
    fleet = Fleet()
    fleet.clusters.open(fleet.add_cluster("one"))
    with pytest.raises(RuntimeError, match="before the first cluster"):
        fleet.clusters.watch_kind(WIDGETS)


async def test_an_error_of_the_open_cluster_function_is_reported_and_retried() -> None:
    fleet = Fleet()
    cluster = fleet.add_cluster("one", "a")
    fleet.open_errors[cluster] = ConfigurationError("the kubeconfig names a program to run")
    async with run_fleet(fleet):
        fleet.clusters.open(cluster)
        await fleet.clock.advance(0)
        assert "names a program to run" in str(fleet.clusters.get_last_error(cluster))
        del fleet.open_errors[cluster]
        await fleet.clock.advance(5)
        assert fleet.list_cached_names(cluster) == ["a"]


def open_by_plain_function(_: Key) -> Any:
    return Connection(StoreTransport(Store()))


async def open_nothing(_: Key) -> Any:
    return None


async def open_a_transport(_: Key) -> Any:
    return StoreTransport(Store())


async def open_and_cancel(_: Key) -> Any:
    raise asyncio.CancelledError


@pytest.mark.survives_bugs
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (open_by_plain_function, "must be an `async def`"),
        (open_nothing, "open_nothing returned None: return a controller.Connection"),
        (open_a_transport, "open_a_transport returned"),
        (open_and_cancel, "cancelled by other code"),
    ],
)
async def test_clusters_survive_an_open_cluster_function_with_a_bug_and_report_it(
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


def test_an_open_cluster_function_that_cannot_be_called_is_refused() -> None:
    wrong: Any = "tenants"
    with pytest.raises(TypeError, match="open_cluster of Clusters must be an `async def`"):
        Clusters(wrong, VirtualClock())


async def test_a_controller_gets_changes_of_clusters_that_run_as_a_service() -> None:
    harness, fleet = ManagerHarness(), Fleet()
    fleet.clock = harness.clock
    down, up = fleet.add_cluster("down"), fleet.add_cluster("up")
    fleet.open_errors[down] = CONNECTION_REFUSED
    seen: list[str] = []

    async def reconcile(key: Key) -> Outcome:
        seen.append(key.name)
        return SETTLED

    clusters = Clusters(fleet.connect, harness.clock)
    harness.manager.add_service("clusters", clusters.run)
    widgets = clusters.watch_kind(WIDGETS)
    watch = ClusterWatch(widgets, lambda cluster, _: (cluster,))
    harness.manager.add_controller("tenant", reconcile, watches=[watch])
    async with run_manager(harness):
        clusters.open(down)
        clusters.open(up)
        await harness.clock.advance(0)
        fleet.put_widget(up, "a")
        await harness.clock.advance(0)
        assert seen == ["up"]
    assert fleet.open_connection_count == 0
