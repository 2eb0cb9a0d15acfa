"""Objects that cannot be decoded: the controller is called, and their deletion can end."""

from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from controller.codec import DecodeFailure
from controller.finalizers import remove_finalizer_from_unreadable
from controller.manager import Manager
from controller.meta import Key
from controller.outcome import SETTLED, Blocked, Outcome
from controller.triggers import Watch, to_self
from tests.clock import VirtualClock
from tests.controller.store import Store, StoreTransport
from tests.controller.widgets import WIDGETS

ODD = Key("default", "odd")
PATH = "/apis/example.com/v1/namespaces/default/widgets/odd"
FINALIZER = "example.com/cleanup"


def build_unreadable_body(size: object = "no number", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "odd", "namespace": "default", **metadata},
        "spec": {"size": size},
    }


class Harness:
    """A manager with a controller that is called for unreadable widgets, too."""

    def __init__(self) -> None:
        self.clock, self.store = VirtualClock(), Store()
        self.manager = Manager(StoreTransport(self.store), clock=self.clock)
        self.widgets = self.manager.get_informer(WIDGETS)
        self.seen: list[str] = []
        self.is_broken = False
        watch = Watch(self.widgets, to_self, unreadable=self.map_unreadable)
        self.manager.add_controller("widget", self.reconcile, watches=[watch])

    def map_unreadable(self, key: Key) -> Iterable[Key]:
        if self.is_broken:
            raise ZeroDivisionError
        return [key]

    async def reconcile(self, key: Key) -> Outcome:
        failure = self.widgets.cache.unreadable.get(key)
        if failure is None:
            self.seen.append("absent" if self.widgets.cache.get(key) is None else "readable")
            return SETTLED
        self.seen.append("unreadable")
        assert isinstance(failure, DecodeFailure)
        await remove_finalizer_from_unreadable(
            self.manager.client, WIDGETS, failure=failure, name=FINALIZER
        )
        return Blocked("Unreadable")


async def test_a_controller_is_called_at_each_version_of_an_unreadable_object() -> None:
    harness = Harness()
    harness.store.put(PATH, build_unreadable_body())
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        assert harness.seen == ["unreadable"], "found by the first list"
        harness.store.put(PATH, build_unreadable_body("odd again"))
        await harness.clock.advance(1)
        assert harness.seen == ["unreadable"] * 2
        harness.store.put(PATH, build_unreadable_body(3))
        await harness.clock.advance(1)
        assert harness.seen[2:] == ["readable"]
        harness.store.put(PATH, build_unreadable_body())
        await harness.clock.advance(1)
        assert harness.seen[3:] == ["unreadable"]
        harness.store.remove(PATH)
        await harness.clock.advance(1)
        assert harness.seen[4] == "absent"
        harness.manager.stop()


@pytest.mark.survives_bugs
async def test_an_unreadable_object_whose_mapping_raised_comes_again() -> None:
    harness = Harness()
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        harness.is_broken = True
        harness.store.put(PATH, build_unreadable_body())
        await harness.clock.advance(1)
        assert harness.seen == []
        harness.is_broken = False
        await harness.clock.advance(60)
        assert harness.seen == ["unreadable"]
        harness.manager.stop()


async def test_a_finalizer_of_a_deleted_unreadable_object_can_be_removed() -> None:
    harness = Harness()
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other", FINALIZER]}
    harness.store.put(PATH, build_unreadable_body(**deleted))
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        assert harness.store.objects[PATH]["metadata"]["finalizers"] == ["other"]
        harness.manager.stop()


async def test_a_finalizer_of_an_unreadable_object_that_lives_stays() -> None:
    harness = Harness()
    harness.store.put(PATH, build_unreadable_body(finalizers=[FINALIZER]))
    async with anyio.create_task_group() as group:
        group.start_soon(harness.manager.run)
        await harness.clock.advance(1)
        assert harness.seen == ["unreadable"]
        assert harness.store.objects[PATH]["metadata"]["finalizers"] == [FINALIZER]
        harness.manager.stop()
