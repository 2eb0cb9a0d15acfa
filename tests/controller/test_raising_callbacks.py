"""Index functions, mappings, predicates and groups that raise lose no object and no key."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from controller.cache import Cache, Change
from controller.client import Client
from controller.codec import Added, Modified
from controller.health import Failing
from controller.manager import Manager
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.queueorder import ReadyLevels
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget, build_widget

pytestmark = pytest.mark.survives_bugs

A, B = Key("default", "a"), Key("default", "b")


def index_by_color(obj: Widget) -> Iterable[str]:
    """Return the color of a widget, as an index function with a bug: it raises for `odd`."""
    if obj.spec.color == "odd":
        raise ZeroDivisionError
    return (obj.spec.color,)


def create_cache() -> Cache[Widget]:
    return Cache(
        WIDGETS, indexes={"size": lambda cached: (str(cached.spec.size),), "color": index_by_color}
    )


def is_consistent(widgets: Cache[Widget]) -> bool:
    """Return whether both indexes name exactly the objects in the cache."""
    return all(
        sorted(
            cached.metadata.key
            for value in widgets._indexes._keys[index]
            for cached in widgets.list_by_index(index, value)
        )
        == sorted(cached.metadata.key for cached in widgets)
        for index in ("size", "color")
    )


def test_objects_of_a_list_that_cannot_be_indexed_are_unreadable_and_the_others_cached() -> None:
    widgets = create_cache()
    with capture_logs() as lines:
        widgets.replace([build_widget("a", 1, color="odd"), build_widget("b", 2)], 5)
    assert [cached.metadata.key for cached in widgets] == [B]
    assert "index 'color' raised ZeroDivisionError()" in widgets.unreadable[A]
    assert widgets.unindexed == 1
    assert is_consistent(widgets)
    assert widgets.position == 5
    (line,) = lines
    assert (line["resource"], line["object"]) == ("widgets.example.com", "default/a")


def test_the_last_version_that_could_be_indexed_is_cached_until_a_later_version_can() -> None:
    widgets, changes = create_cache(), list[Change[Widget]]()
    widgets.subscribe(changes.append)
    widgets.replace([build_widget("a", 1)], 1)
    widgets.apply(Modified(build_widget("a", 2, color="odd")))
    assert widgets.get(A) == build_widget("a", 1)
    assert A in widgets.unreadable
    assert widgets.position == 2
    widgets.apply(Modified(build_widget("a", 3, color="blue")))
    assert widgets.get(A) == build_widget("a", 3, color="blue")
    assert not widgets.unreadable
    assert is_consistent(widgets)
    assert [change.new and change.new.metadata.revision for change in changes] == [1, 3]


def test_a_created_object_that_cannot_be_indexed_is_unreadable_until_it_is_deleted() -> None:
    widgets = create_cache()
    widgets.replace([], 1)
    widgets.apply(Added(build_widget("a", 2, color="odd")))
    assert A not in widgets
    assert A in widgets.unreadable
    widgets.replace([], 3)
    assert not widgets.unreadable


def test_a_response_that_cannot_be_indexed_changes_nothing() -> None:
    widgets, changes = create_cache(), list[Change[Widget]]()
    widgets.replace([build_widget("b", 1)], 1)
    widgets.subscribe(changes.append)
    del changes[:]
    assert not widgets.apply_own_write(build_widget("a", 2, color="odd"))
    assert [cached.metadata.key for cached in widgets] == [B]
    widgets.apply(Modified(build_widget("b", 3)))
    assert is_consistent(widgets)
    assert [change.new and change.new.metadata.key for change in changes] == [B]


@pytest.mark.parametrize("values", ["red", None, 3, [["red"]]])
def test_an_index_function_has_to_return_a_collection_of_texts(values: object) -> None:
    function: Any = lambda _: values  # noqa: E731 - its type is what the test is about
    widgets = Cache(WIDGETS, indexes={"color": function})
    widgets.replace([build_widget("a", 1)], 1)
    assert A in widgets.unreadable


def test_an_index_function_that_raises_for_a_deleted_object_leaves_no_index_entry() -> None:
    is_broken: list[bool] = []

    def index_or_raise(obj: Widget) -> Iterable[str]:
        if is_broken:
            raise ZeroDivisionError
        return (obj.spec.color,)

    widgets = Cache(WIDGETS, indexes={"color": index_or_raise})
    widgets.replace([build_widget("a", 1), build_widget("b", 1)], 1)
    is_broken.append(True)
    widgets.replace([], 2)
    assert len(widgets) == 0
    assert not widgets._indexes._keys["color"]


async def test_a_successful_request_does_not_raise_if_on_object_does() -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    client = Client(StoreTransport(Store()), on_object=fail)
    created = await client.create(WIDGETS, "default", {"metadata": {"name": "a"}})
    assert created.metadata.key == A


class RaisingHarness:
    """A manager with one controller; its mapping raises while `is_broken`, its index for `odd`."""

    def __init__(self) -> None:
        self.clock, self.store = VirtualClock(), Store()
        self.manager = Manager(StoreTransport(self.store), clock=self.clock)
        self.widgets = self.manager.get_informer(WIDGETS, indexes={"color": index_by_color})
        self.is_broken = False
        self.reconciled: list[str] = []
        self.manager.add_controller(
            "widget", self.reconcile, watches=[Watch(self.widgets, self.map_or_raise)]
        )

    def map_or_raise(self, obj: Widget) -> Iterable[Key]:
        if self.is_broken:
            raise ZeroDivisionError
        return to_self(obj)

    async def reconcile(self, key: Key) -> Outcome:
        self.reconciled.append(key.name)
        return SETTLED

    def put_widget(self, name: str, color: str = "red") -> None:
        path = f"/apis/example.com/v1/namespaces/default/widgets/{name}"
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"color": color},
        }
        self.store.put(path, body)

    def find_failure(self) -> Failing | None:
        """Return why the check of the informer fails; None if it succeeds."""
        return self.widgets.create_check().run()


@asynccontextmanager
async def run_manager(harness: RaisingHarness) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


async def test_a_key_whose_mapping_raised_is_delivered_again_until_the_mapping_returns() -> None:
    harness = RaisingHarness()
    harness.put_widget("a")
    async with run_manager(harness):
        assert harness.reconciled == ["a"]
        harness.is_broken = True
        harness.put_widget("b")
        path = "/apis/example.com/v1/namespaces/default/widgets/a"
        harness.store.remove(path)
        await harness.clock.advance(65)
        assert harness.reconciled == ["a"]
        name = "controller_undelivered_changes_total"
        count = harness.manager.metrics.registry.get_sample_value(
            name, {"resource": "widgets.example.com"}
        )
        assert count == 6
        harness.is_broken = False
        await harness.clock.advance(30)
        assert sorted(harness.reconciled) == ["a", "a", "b"]
        await harness.clock.advance(300)
        assert len(harness.reconciled) == 3


async def test_readiness_fails_when_a_mapping_or_an_index_has_raised_for_a_minute() -> None:
    harness = RaisingHarness()
    async with run_manager(harness):
        harness.put_widget("a", color="odd")
        await harness.clock.advance(0)
        assert harness.find_failure() is None
        await harness.clock.advance(59)
        assert harness.find_failure() is None
        await harness.clock.advance(1)
        failing = harness.find_failure()
        assert failing is not None
        assert failing.problem == "an index function raises for 1 widgets.example.com"
        harness.put_widget("a")
        await harness.clock.advance(0)
        assert harness.find_failure() is None
        harness.is_broken = True
        harness.put_widget("b")
        await harness.clock.advance(0)
        assert harness.find_failure() is None
        await harness.clock.advance(60)
        failing = harness.find_failure()
        assert failing is not None
        assert failing.problem == "a handler or mapping raises for 1 widgets.example.com"


async def test_a_created_object_that_cannot_be_indexed_is_returned_by_the_request() -> None:
    harness = RaisingHarness()
    async with run_manager(harness):
        body = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"color": "odd"}}
        created = await harness.manager.client.create(WIDGETS, "default", body)
        assert created.spec.color == "odd"
        await harness.clock.advance(0)
        assert A in harness.widgets.cache.unreadable


def test_keys_whose_group_function_raises_share_a_turn() -> None:
    def raise_error(_: str) -> str:
        raise ZeroDivisionError

    levels = ReadyLevels[str](group=raise_error)
    for key in ("a", "b", "c"):
        levels.push(key, 0, 0.0)
    taken_out = [levels.pop(1.0) for _ in range(3)]
    assert [ready.key for ready in taken_out if ready is not None] == ["a", "b", "c"]
    assert len(levels) == 0
