"""The informers of a manager: one for each kind and scope, and one type for each kind."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import pytest
from typing_extensions import override

from controller.manager import Manager
from controller.meta import Key, ObjectMeta, Version
from controller.outcome import SETTLED, Outcome
from controller.resource import Resource
from controller.transport import NO_QUERY
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget

A = Key("one", "a")


@dataclass(frozen=True, slots=True)
class WidgetMetadata:
    """A widget of which only the metadata is kept."""

    metadata: ObjectMeta


METADATA_ONLY = Resource("example.com", "v1", "Widget", "widgets", WidgetMetadata)


class ListRecordingTransport(StoreTransport):
    """A transport that records the path, label selector and field selector of each list."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.lists: list[tuple[str, str, str]] = []

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        if method == "GET" and query:
            selectors = query.get("labelSelector", ""), query.get("fieldSelector", "")
            self.lists.append((path.rpartition("/v1/")[2], *selectors))
        return await super().request(method, path, query=query, **options)


class InformersHarness:
    """A manager over a store; `reconcile` records its keys in `reconciled`."""

    def __init__(self) -> None:
        self.clock, self.store = VirtualClock(), Store()
        self.transport = ListRecordingTransport(self.store)
        self.manager = Manager(self.transport, clock=self.clock)
        self.reconciled: list[Key] = []

    def put_widget(self, key: Key) -> None:
        path = f"/apis/example.com/v1/namespaces/{key.namespace}/widgets/{key.name}"
        self.store.put(path, {"metadata": {"name": key.name, "namespace": key.namespace}})

    async def reconcile(self, key: Key) -> Outcome:
        self.reconciled.append(key)
        return SETTLED


@asynccontextmanager
async def run_manager(harness: InformersHarness) -> AsyncIterator[None]:
    """Run the manager while the context lasts."""
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(0)
        yield
        group.cancel_scope.cancel()


def test_equal_arguments_give_the_same_informer_and_another_scope_a_new_one() -> None:
    manager = InformersHarness().manager
    unscoped = manager.get_informer(WIDGETS)
    scopes: list[dict[str, str]] = [
        {"namespace": "one"},
        {"labels": "app=web"},
        {"fields": "metadata.name=a"},
        {"namespace": "one", "labels": "app=web"},
    ]
    informers = [manager.get_informer(WIDGETS, **scope) for scope in scopes]  # type: ignore[call-overload] # mypy takes a scope for the indexes
    assert manager.get_informer(WIDGETS) is unscoped
    assert [manager.get_informer(WIDGETS, **scope) for scope in scopes] == informers  # type: ignore[call-overload] # as above
    assert len({id(informer) for informer in [unscoped, *informers]}) == 5
    checks = {informer.create_check().name for informer in [unscoped, *informers]}
    assert len(checks) == 5
    assert "informer/widgets.example.com" in checks


def test_an_informer_has_the_indexes_that_it_was_made_with() -> None:
    manager = InformersHarness().manager
    manager.get_informer(WIDGETS, labels="app=web")
    with pytest.raises(ValueError, match="exists with other indexes"):
        manager.get_informer(WIDGETS, labels="app=web", indexes={"color": lambda _: ()})


@pytest.mark.parametrize("other", [METADATA_ONLY, replace(WIDGETS, version="v2")])
def test_a_kind_is_watched_as_one_type_only(other: Resource[Any]) -> None:
    manager = InformersHarness().manager
    manager.get_informer(WIDGETS)
    with pytest.raises(ValueError, match=r"is watched as Widget of example\.com/v1 already"):
        manager.get_informer(other, namespace="one")


async def test_a_response_of_another_type_is_not_cached() -> None:
    harness = InformersHarness()
    widgets = harness.manager.get_informer(WIDGETS)
    harness.put_widget(A)
    async with run_manager(harness):
        harness.transport.watches_stalled = True
        metadata_object = await harness.manager.client.get(METADATA_ONLY, A)
        patch = {"metadata": {"labels": {"a": "b"}}}
        await harness.manager.client.patch(
            METADATA_ONLY, Version.from_object(metadata_object), patch
        )
        assert all(isinstance(cached, Widget) for cached in widgets.cache)
        harness.transport.watches_stalled = False
        harness.put_widget(Key("one", "b"))
        await harness.clock.advance(0)
        cached = widgets.cache.get(A)
        assert cached is not None
        assert cached.metadata.labels == {"a": "b"}


async def test_a_controller_may_watch_several_namespaces_and_selectors() -> None:
    harness = InformersHarness()
    scopes: list[dict[str, str]] = [{"namespace": "one"}, {"namespace": "two", "labels": "x=y"}]
    informers = [harness.manager.get_informer(WIDGETS, **scope) for scope in scopes]  # type: ignore[call-overload] # as above
    watches = [Watch(informer, to_self) for informer in informers]
    harness.manager.add_controller("widget", harness.reconcile, watches=watches)
    for namespace in ("one", "two", "three"):
        harness.put_widget(Key(namespace, "a"))
    async with run_manager(harness):
        assert sorted(harness.reconciled) == [A, Key("two", "a")]
        name, labels = "controller_cache_objects", {"resource": "widgets.example.com"}
        assert harness.manager.metrics.registry.get_sample_value(name, labels) == 2
        body = {"metadata": {"name": "b", "namespace": "one"}}
        await harness.manager.client.create(WIDGETS, "one", body)
        assert Key("one", "b") in informers[0].cache
        assert Key("one", "b") not in informers[1].cache
    assert sorted(harness.transport.lists) == [
        ("namespaces/one/widgets", "", ""),
        ("namespaces/two/widgets", "x=y", ""),
    ]


async def test_an_informer_keeps_only_the_fields_of_its_type() -> None:
    harness = InformersHarness()
    metadata_informer = harness.manager.get_informer(METADATA_ONLY)
    harness.put_widget(A)
    async with run_manager(harness):
        (kept,) = metadata_informer.cache
        assert kept == WidgetMetadata(kept.metadata)
