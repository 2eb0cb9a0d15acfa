"""A server that is not trusted cannot fill the memory with its lists and watches."""

from collections.abc import Callable

import anyio
import pytest

from controller.cache import Cache
from controller.client import Client
from controller.clusters import ClusterSettings
from controller.errors import MalformedAnswer
from controller.meta import Key
from controller.reflector import Reflector
from controller.watch import OBJECT_BYTES, PAGE_BYTES
from tests.clock import VirtualClock
from tests.controller.fleet import Fleet, run_fleet
from tests.controller.scripted import ScriptedTransport, ScriptedWatch
from tests.controller.widgets import WIDGETS, build_event_line, build_list, build_widget

MOST = PAGE_BYTES + 40 * OBJECT_BYTES
"""A limit that a list of 30 widgets keeps and one of 60 does not."""


def _create_limited_fleet() -> Fleet:
    return Fleet(ClusterSettings(max_list_bytes=MOST))


async def test_a_list_above_the_limit_is_not_kept_and_the_error_says_so() -> None:
    fleet = _create_limited_fleet()
    large = fleet.add_cluster("large", *(f"w{number}" for number in range(60)))
    small = fleet.add_cluster("small", *(f"w{number}" for number in range(20)))
    async with run_fleet(fleet):
        fleet.clusters.open(large)
        fleet.clusters.open(small)
        await fleet.clock.advance(5)
        assert not fleet.clusters.is_synced(large)
        assert f"the list of widgets is larger than {MOST} bytes" in str(
            fleet.clusters.get_last_error(large)
        )
        assert fleet.clusters.is_synced(small)
        assert fleet.clusters.get_last_error(small) is None


@pytest.mark.parametrize(
    "derived",
    [lambda client: client.with_dry_run(), lambda client: client.with_field_manager("x")],
)
async def test_clients_made_of_one_with_a_limit_have_it(
    derived: Callable[[Client], Client],
) -> None:
    server = ScriptedTransport(
        [build_list(5, *(build_widget(f"w{number}", 1) for number in range(60)))]
    )
    with pytest.raises(MalformedAnswer, match="larger than"):
        await derived(Client(server, max_list_bytes=MOST)).list(WIDGETS)


async def test_a_list_that_became_smaller_is_kept() -> None:
    fleet = _create_limited_fleet()
    key = fleet.add_cluster("one", *(f"w{number}" for number in range(60)))
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        await fleet.clock.advance(5)
        for number in range(50):
            fleet.stores[key].remove(f"/apis/example.com/v1/namespaces/default/widgets/w{number}")
        await fleet.clock.advance(60)
        assert fleet.list_cached_names(key) == [f"w{number}" for number in range(50, 60)]
        assert fleet.clusters.get_last_error(key) is None


async def test_after_events_as_large_as_the_limit_everything_is_listed_again() -> None:
    fleet = _create_limited_fleet()
    key = fleet.add_cluster("one", "a", "b")
    async with run_fleet(fleet):
        fleet.clusters.open(key)
        for number in range(300):
            await fleet.clock.advance(10)
            fleet.put_widget(key, "a", f"color-{number}")
        await fleet.clock.advance(0)
        lists = [path for method, path in fleet.get_transport(key).sent if method == "GET"]
        assert 2 <= len(lists) <= 6
        known = fleet.get_cached_widget(key, "a")
        assert known is not None
        assert known.spec.color == "color-299"
        assert fleet.clusters.get_last_error(key) is None


async def test_a_watch_of_ever_more_objects_is_ended_at_the_limit_and_tried_with_back_off() -> (
    None
):
    clock = VirtualClock()
    flood = [
        [
            build_event_line("ADDED", build_widget(f"w{number}", 6 + number))
            for number in range(start, start + 10)
        ]
        for start in range(0, 10_000, 10)
    ]
    watches = [ScriptedWatch([b"".join(batch) for batch in flood]) for _ in range(50)]
    server = ScriptedTransport([build_list(5 + 10_000 * number) for number in range(50)], watches)
    cache = Cache(WIDGETS)
    sizes = [0]
    cache.subscribe(lambda _change: sizes.append(len(cache)))
    reflector = Reflector(server, clock, cache, max_list_bytes=MOST)
    async with anyio.create_task_group() as group:
        group.start_soon(reflector.run)
        await clock.advance(60)
        group.cancel_scope.cancel()
    assert 40 < max(sizes) <= MOST / OBJECT_BYTES + 10
    assert 2 <= len(server.request_queries) <= 25
    assert Key("default", "w9999") not in cache
