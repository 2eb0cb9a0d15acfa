"""Predicates, mappings and watches: which changes put which keys into the queue."""

from dataclasses import replace

import pytest

from controller.cache import Change
from controller.clock import Clock
from controller.informer import Informer
from controller.meta import Key, ObjectMeta, OwnerReference
from controller.resource import Resource
from controller.triggers import (
    Watch,
    generation_changed,
    list_keys,
    spec_at_once,
    to_owner,
    to_self,
)
from controller.workqueue import LOW_PRIORITY, WorkQueue
from tests.clock import VirtualClock
from tests.controller.scripted import ScriptedTransport
from tests.controller.widgets import WIDGETS, Widget, build_widget

META = ObjectMeta(
    name="a", namespace="default", uid="u", resourceVersion="5", generation=1, labels={"x": "1"}
)
OLD = Widget(META)


def test_an_update_of_the_spec_passes() -> None:
    assert generation_changed(Change(OLD, Widget(replace(META, generation=2))))


def test_an_update_of_the_metadata_or_status_alone_does_not_pass() -> None:
    assert not generation_changed(Change(OLD, Widget(replace(META, resourceVersion="6"))))
    assert not generation_changed(Change(OLD, Widget(replace(META, labels={"x": "2"}))))


def test_additions_deletions_and_recreations_always_pass() -> None:
    assert generation_changed(Change(None, OLD))
    assert generation_changed(Change(OLD, None))
    assert generation_changed(Change(OLD, Widget(replace(META, uid="another"))))


def build_owned_widget(*owners: OwnerReference) -> Widget:
    return Widget(replace(META, ownerReferences=owners))


def test_an_object_maps_to_its_controlling_owner_of_that_kind_and_group() -> None:
    owner = OwnerReference("apps/v1", "ReplicaSet", name="web", uid="u", controller=True)
    replica_sets = Resource("apps", "v1", "ReplicaSet", "replicasets", Widget)
    mapping = to_owner(replica_sets)
    assert list(mapping(build_owned_widget(owner))) == [Key("default", "web")]
    assert list(mapping(build_owned_widget(replace(owner, apiVersion="apps/v2")))) == [
        Key("default", "web")
    ]
    for other in (
        replace(owner, controller=False),
        replace(owner, kind="Deployment"),
        replace(owner, apiVersion="v1"),
    ):
        assert list(mapping(build_owned_widget(other))) == []
    cluster_scoped = to_owner(replace(replica_sets, namespaced=False))
    assert list(cluster_scoped(build_owned_widget(owner))) == [Key("", "web")]


def test_a_name_in_place_of_the_kind_of_an_owner_is_refused() -> None:
    with pytest.raises(
        TypeError, match="needs the Resource of the owner's kind, not 'ReplicaSet'"
    ):
        to_owner("ReplicaSet")  # type: ignore[arg-type] # as a user may write it


def test_an_update_maps_the_old_and_the_new_state_each_key_once() -> None:
    def color(obj: Widget) -> list[Key]:
        return [Key("", obj.spec.color), Key("", "always")]

    change = Change(build_widget("a", 1, color="red"), build_widget("a", 2, color="blue"))
    assert list_keys(change, color) == (Key("", "red"), Key("", "always"), Key("", "blue"))


def connect_queue(clock: Clock, watch: Watch[Widget]) -> WorkQueue[Key]:
    queue = WorkQueue[Key](clock)
    watch.connect(queue)
    return queue


async def test_objects_in_the_cache_are_enqueued_with_lower_priority_than_changes() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    informer.cache.replace([build_widget("a", 1)], 5)
    queue = connect_queue(clock, Watch(informer, to_self))
    informer.cache.apply_own_write(build_widget("b", 6))
    assert queue.get_statistics().ready == {LOW_PRIORITY: 1, 0: 1}
    assert await queue.get() == Key("default", "b")


async def test_a_watch_may_enqueue_with_lower_priority_than_others() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    queue = connect_queue(clock, Watch(informer, to_self, priority=LOW_PRIORITY))
    Watch(informer, lambda _: [Key("default", "asked")]).connect(queue)
    informer.cache.apply_own_write(build_widget("a", 1))
    assert queue.get_statistics().ready == {LOW_PRIORITY: 1, 0: 1}
    assert await queue.get() == Key("default", "asked")


async def test_a_predicate_keeps_changes_from_the_queue() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    informer.cache.replace([build_widget("a", 1)], 5)
    queue = connect_queue(clock, Watch(informer, to_self, lambda _: False))
    assert queue.get_statistics().ready == {}


async def test_changes_with_a_delay_are_gathered_and_those_without_are_due_at_once() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    delay = {"red": 5.0, "blue": 0.0}

    def due(change: Change[Widget]) -> float:
        assert change.new is not None
        return delay[change.new.spec.color]

    watch = Watch(informer, to_self, delay=due)
    queue = connect_queue(clock, watch)
    for revision in (1, 2, 3):
        informer.cache.apply_own_write(build_widget("a", revision, color="red"))
        await clock.advance(2)
    assert queue.get_statistics().ready == {0: 1}, "six seconds after the first of three changes"
    assert await queue.get() == Key("default", "a")
    queue.done(Key("default", "a"))
    informer.cache.apply_own_write(build_widget("a", 4, color="red"))
    assert queue.get_statistics().ready == {}
    informer.cache.apply_own_write(build_widget("a", 5, color="blue"))
    assert await queue.get() == Key("default", "a")


async def test_a_delay_may_be_a_number() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    queue = connect_queue(clock, Watch(informer, to_self, delay=5))
    informer.cache.apply_own_write(build_widget("a", 1))
    await clock.advance(4)
    assert queue.get_statistics().ready == {}
    await clock.advance(1)
    assert queue.get_statistics().ready == {0: 1}


async def test_spec_at_once_gathers_what_does_not_change_the_spec() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)

    def at(revision: int, generation: int) -> Widget:
        changed = build_widget("a", revision)
        return replace(changed, metadata=replace(changed.metadata, generation=generation))

    queue = connect_queue(clock, Watch(informer, to_self, delay=spec_at_once(0.1)))
    informer.cache.apply_own_write(at(1, 1))
    assert await queue.get() == Key("default", "a"), "one that came is due at once"
    queue.done(Key("default", "a"))
    informer.cache.apply_own_write(at(2, 1))
    await clock.advance(0.09)
    assert queue.get_statistics().ready == {}
    await clock.advance(0.02)
    assert await queue.get() == Key("default", "a")
    queue.done(Key("default", "a"))
    informer.cache.apply_own_write(at(3, 2))
    assert await queue.get() == Key("default", "a")


async def test_a_closed_watch_enqueues_nothing() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, ScriptedTransport([]), clock)
    queue = WorkQueue[Key](clock)
    Watch(informer, to_self).connect(queue).close()
    informer.cache.replace([build_widget("a", 1)], 5)
    assert queue.get_statistics().ready == {}
