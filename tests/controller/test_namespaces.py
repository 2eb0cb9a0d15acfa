"""A controller over several namespaces, of which one cannot be listed."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from controller.errors import ControllerError, Forbidden, ServerFailure
from controller.manager import Manager
from controller.meta import Key
from controller.outcome import SETTLED, Outcome
from controller.resource import Resource
from controller.transport import NO_QUERY
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS, Widget

GADGETS = Resource("example.com", "v1", "Gadget", "gadgets", Widget)
FORBIDDEN = Forbidden(403, "Forbidden", "widgets is forbidden in the namespace")


class Refusing(StoreTransport):
    """Refuses lists in certain namespaces."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.refused_namespaces: dict[str, ControllerError] = {}
        self.refused_paths: tuple[str, ...] = ()

    @override
    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] = NO_QUERY, **options: Any
    ) -> bytes:
        for namespace, error in self.refused_namespaces.items():
            if query and f"/namespaces/{namespace}/" in path:
                raise error
        if query and any(refused in path for refused in self.refused_paths):
            raise FORBIDDEN
        return await super().request(method, path, query=query, **options)


class Harness:
    """A manager with one controller for the widgets of the namespaces a and b."""

    def __init__(self, **refused: ControllerError) -> None:
        self.clock, self.store = VirtualClock(), Store()
        self.transport = Refusing(self.store)
        self.transport.refused_namespaces = refused
        self.manager = Manager(self.transport, clock=self.clock)
        self.informers = {name: self.manager.informer(WIDGETS, namespace=name) for name in "ab"}
        self.reconciled: list[str] = []
        self.manager.controller(
            "widget",
            self.reconcile,
            watches=[Watch(informer, to_self) for informer in self.informers.values()],
        )

    async def reconcile(self, key: Key) -> Outcome:
        self.reconciled.append(str(key))
        return SETTLED

    def put(self, namespace: str, name: str, plural: str = "widgets") -> None:
        path = f"/apis/example.com/v1/namespaces/{namespace}/{plural}/{name}"
        self.store.put(path, {"metadata": {"name": name, "namespace": namespace}})

    def unlisted(self) -> float | None:
        return self.manager.metrics.registry.get_sample_value(
            "controller_informers_not_listed", {"resource": "widgets.example.com"}
        )


@pytest.mark.parametrize("error", [FORBIDDEN, ServerFailure(500, "InternalError", "no")])
async def test_a_namespace_that_cannot_be_listed_waits_alone_until_it_can(
    error: ControllerError,
) -> None:
    harness = Harness(b=error)
    harness.put("a", "one")
    harness.put("b", "two")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(10)
        assert harness.reconciled == ["a/one"]
        assert harness.unlisted() == 1
        failing = harness.informers["b"].check().run()
        assert failing is not None, "readiness fails until the namespace can be listed"
        assert harness.informers["a"].check().run() is None
        (line,) = [line for line in lines if "A namespace cannot be listed" in line["event"]]
        assert (line["controller"], line["unserved"]) == ("widget", "b")
        assert str(error) in line["error"]
        harness.put("a", "three")
        await harness.clock.advance(1)
        assert harness.reconciled == ["a/one", "a/three"]
        harness.transport.refused_namespaces.clear()
        await harness.clock.advance(120)
        assert harness.reconciled == ["a/one", "a/three", "b/two"]
        assert harness.unlisted() == 0
        harness.put("b", "four")
        await harness.clock.advance(1)
        assert harness.reconciled[-1] == "b/four"
        harness.manager.stop()


async def test_a_namespace_is_served_once_all_kinds_are_listed_in_it() -> None:
    harness = Harness()
    gadgets = [harness.manager.informer(GADGETS, namespace=name) for name in "ab"]
    seen: list[tuple[str, int]] = []

    async def reconcile(key: Key) -> Outcome:
        caches = {name: informer.cache for name, informer in zip("ab", gadgets, strict=True)}
        seen.append((str(key), len(caches[key.namespace])))
        return SETTLED

    watches = [Watch(informer, to_self) for informer in (*harness.informers.values(), *gadgets)]
    harness.manager.controller("gadget", reconcile, watches=watches)
    harness.transport.refused_paths = ("/namespaces/b/gadgets",)
    for namespace in "ab":
        harness.put(namespace, "one")
        harness.put(namespace, "one", plural="gadgets")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(10)
        assert seen == [("a/one", 1)], "the gadgets of b are not known, so nothing looks at b"
        [line] = [line for line in lines if "A namespace cannot be listed" in line["event"]]
        assert line["resource"] == "gadgets.example.com"
        harness.transport.refused_paths = ()
        await harness.clock.advance(120)
        assert set(seen) == {("a/one", 1), ("b/one", 1)}
        harness.manager.stop()


async def test_a_controller_does_not_start_while_none_of_its_namespaces_can_be_listed() -> None:
    harness = Harness(a=FORBIDDEN, b=FORBIDDEN)
    harness.put("b", "two")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(10)
        assert "Starting workers" not in [line["event"] for line in lines]
        del harness.transport.refused_namespaces["b"]
        await harness.clock.advance(120)
        assert harness.reconciled == ["b/two"]
        harness.manager.stop()


async def test_a_controller_stops_while_a_namespace_cannot_be_listed() -> None:
    harness = Harness(b=FORBIDDEN)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(harness.manager.run)
            await harness.clock.advance(10)
            harness.manager.stop()


async def test_namespaces_that_can_be_listed_are_all_listed_before_the_first_pass() -> None:
    harness = Harness()
    harness.put("a", "one")
    harness.put("b", "two")
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        with capture_logs() as lines:
            await harness.clock.advance(1)
        assert sorted(harness.reconciled) == ["a/one", "b/two"]
        assert "error" not in [line["log_level"] for line in lines]
        harness.manager.stop()


async def test_unreadable_objects_are_counted_by_kind() -> None:
    harness = Harness()
    path = "/apis/example.com/v1/namespaces/a/widgets/odd"
    body: dict[str, Any] = {"metadata": {"name": "odd", "namespace": "a"}}
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.store.put(path, {**body, "spec": {"size": "no number"}})
        await harness.clock.advance(1)

        def count() -> float | None:
            return harness.manager.metrics.registry.get_sample_value(
                "controller_cache_unreadable_objects", {"resource": "widgets.example.com"}
            )

        assert count() == 1
        harness.store.put(path, {**body, "spec": {"size": 3}})
        await harness.clock.advance(1)
        assert count() == 0
        harness.manager.stop()
