"""Informers and controllers that come and go while their manager runs."""

from collections.abc import Callable

import anyio

from controller.client import Client
from controller.health import run_checks
from controller.informer import Registration
from controller.manager import Manager
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.testing import FakeApi
from controller.triggers import KeyWatch, Watch, to_self
from tests.clock import VirtualClock
from tests.controller.sharing import Link
from tests.controller.store import Store
from tests.controller.test_returning_namespaces import StaleListTransport
from tests.controller.widgets import WIDGETS

WIDGETS_PATH = "/apis/example.com/v1/widgets"


def read_gauges(manager: Manager) -> dict[str, float]:
    """Return the gauges about widgets and their queue, the depths of all priorities added up."""
    values: dict[str, float] = {}
    for family in manager.metrics.registry.collect():
        for sample in family.samples:
            about = {sample.labels.get("resource"), sample.labels.get("controller")}
            if family.type == "gauge" and about & {"widgets.example.com", "widgets"}:
                values[sample.name] = values.get(sample.name, 0) + sample.value
    return values


async def test_the_gauges_of_an_extension_vanish_when_it_ends() -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    api.serve(WIDGETS)
    manager = Manager(api, clock=clock)

    async def reconcile_for_ever(_key: Key) -> Outcome:
        await anyio.sleep_forever()
        return SETTLED

    for _ in range(2):  # an extension is created again when its kinds are served again
        extension = manager.create_extension()
        watches = [Watch(extension.get_informer(WIDGETS), to_self)]
        extension.add_controller("widgets", reconcile_for_ever, watches=watches)
        async with anyio.create_task_group() as group:
            group.start_soon(extension.run)
            for _ in range(2):
                body = {"metadata": {"generateName": "w-"}}
                await Client(api).create(WIDGETS, "default", body)
            await clock.advance(7)
            gauges_while_running = read_gauges(manager)
            group.cancel_scope.cancel()
        assert gauges_while_running["controller_cache_objects"] > 0
        assert gauges_while_running["controller_watch_last_event_age_seconds"] == 7
        assert gauges_while_running["workqueue_depth"] > 0
        assert set(read_gauges(manager)) == {
            "controller_runtime_active_workers",
            "controller_runtime_max_concurrent_reconciles",
        }


async def test_an_extension_that_is_not_measured_leaves_the_gauges_to_others() -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    api.serve(WIDGETS)
    manager = Manager(api, clock=clock)
    await Client(api).create(WIDGETS, "default", {"metadata": {"generateName": "w-"}})
    measured, unmeasured = manager.create_extension(), manager.create_extension(measured=False)
    informers = [extension.get_informer(WIDGETS) for extension in (measured, unmeasured)]
    async with anyio.create_task_group() as group:
        group.start_soon(measured.run)
        async with anyio.create_task_group() as inner:
            inner.start_soon(unmeasured.run)
            await clock.advance(1)
            assert [len(informer.cache) for informer in informers] == [1, 1]
            inner.cancel_scope.cancel()
        assert read_gauges(manager)["controller_cache_objects"] == 1
        group.cancel_scope.cancel()


class KeyAnnouncer:
    """A source of keys that its handlers are called with."""

    def __init__(self) -> None:
        self.handlers: list[Callable[[Key], None]] = []

    def add_handler(self, handler: Callable[[Key], None]) -> Registration:
        self.handlers.append(handler)
        return Registration(lambda: self.handlers.remove(handler), lambda: iter(()))


async def test_a_controller_reconciles_keys_that_another_part_of_the_process_announces() -> None:
    clock, source = VirtualClock(), KeyAnnouncer()
    manager = Manager(FakeApi(clock), clock=clock)
    reconciled: list[Key] = []

    async def reconcile(key: Key) -> Outcome:
        reconciled.append(key)
        return SETTLED

    extension = manager.create_extension()
    extension.add_controller("announced", reconcile, watches=[KeyWatch(source)])
    async with anyio.create_task_group() as group:
        group.start_soon(extension.run)
        await clock.advance(1)
        [handler] = source.handlers
        handler(Key("default", "a"))
        await clock.advance(1)
        group.cancel_scope.cancel()
    assert reconciled == [Key("default", "a")]
    assert source.handlers == [], "the controller has removed its handler"


async def test_readiness_fails_while_a_running_extension_cannot_list_a_kind() -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    api.serve(WIDGETS)
    link = Link(api)
    link.forbidden_plurals.add("widgets")
    manager = Manager(link, clock=clock)
    extension = manager.create_extension()
    extension.get_informer(WIDGETS)

    def read_readiness() -> str:
        return run_checks("readyz", manager._list_readiness_checks(), verbose=True).body

    assert "widgets" not in read_readiness()
    async with anyio.create_task_group() as group:
        group.start_soon(extension.run)
        await clock.advance(1)
        assert "cannot list widgets.example.com" in read_readiness()
        assert "not allowed, a role has to grant it" in read_readiness()
        link.forbidden_plurals.clear()
        await clock.advance(60)
        assert read_readiness().endswith("readyz check passed\n")
        link.forbidden_plurals.add("widgets")
        group.cancel_scope.cancel()
    assert "widgets" not in read_readiness()


async def test_an_extension_sees_objects_that_were_written_before_it_ran_though_lists_lag() -> (
    None
):
    clock, store = VirtualClock(), Store()
    transport = StaleListTransport(store)
    manager = Manager(transport, clock=clock)
    transport.freeze(WIDGETS_PATH)
    path = "/apis/example.com/v1/namespaces/a/widgets/one"
    store.put(path, {"metadata": {"name": "one", "namespace": "a"}})
    transport.watches_stalled = True
    extension = manager.create_extension()
    widgets = extension.get_informer(WIDGETS)
    async with anyio.create_task_group() as group:
        group.start_soon(extension.run)
        await clock.advance(1)
        assert widgets.cache.get(Key("a", "one")) is not None
        group.cancel_scope.cancel()
