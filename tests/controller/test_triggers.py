"""Predicates, mappings and watches: which changes put which keys into the queue."""

from dataclasses import replace

import pytest

from controller.cache import Cache, Change
from controller.clock import Clock
from controller.informer import Informer
from controller.mapping import by, keys_of, to_owner, to_referrers, to_self
from controller.meta import Key, ObjectMeta, OwnerReference
from controller.predicates import (
    Predicate,
    all_of,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
    not_,
    revision_changed,
)
from controller.triggers import Watch
from controller.workqueue import LOW_PRIORITY, WorkQueue
from tests.clock import VirtualClock
from tests.controller.world_objects import WIDGETS, Widget, widget
from tests.controller.world_server import Scripted

META = ObjectMeta(
    name="a", namespace="default", uid="u", resourceVersion="5", generation=1, labels={"x": "1"}
)
OLD = Widget(META)
ASPECTS: list[tuple[Predicate, ObjectMeta]] = [
    (generation_changed, replace(META, generation=2)),
    (revision_changed, replace(META, resourceVersion="6")),
    (labels_changed, replace(META, labels={"x": "2"})),
    (annotations_changed, replace(META, annotations={"y": "1"})),
]


@pytest.mark.parametrize(("predicate", "meta"), ASPECTS)
def test_an_update_passes_where_the_aspect_differs(predicate: Predicate, meta: ObjectMeta) -> None:
    assert predicate(Change(OLD, Widget(meta)))


@pytest.mark.parametrize("predicate", [predicate for predicate, _ in ASPECTS])
def test_other_updates_do_not_pass(predicate: Predicate) -> None:
    changes = [Change(OLD, Widget(meta)) for other, meta in ASPECTS if other is not predicate]
    assert [predicate(change) for change in changes] == [False, False, False]


@pytest.mark.parametrize("predicate", [predicate for predicate, _ in ASPECTS])
def test_additions_deletions_and_recreations_always_pass(predicate: Predicate) -> None:
    assert predicate(Change(None, OLD))
    assert predicate(Change(OLD, None))
    assert predicate(Change(OLD, Widget(replace(META, uid="another"))))


def test_predicates_combine() -> None:
    change = Change(OLD, Widget(replace(META, generation=2)))
    assert any_of(labels_changed, generation_changed)(change)
    assert not all_of(labels_changed, generation_changed)(change)
    assert not_(labels_changed)(change)
    assert all_of()(change)
    assert not any_of()(change)


def owned_by(*owners: OwnerReference) -> Widget:
    return Widget(replace(META, ownerReferences=owners))


def test_an_object_maps_to_its_controlling_owner_of_that_kind_and_group() -> None:
    owner = OwnerReference("apps/v1", "ReplicaSet", "web", "u", controller=True)
    mapping = to_owner("ReplicaSet", "apps")
    assert list(mapping(owned_by(owner))) == [Key("default", "web")]
    assert list(mapping(owned_by(replace(owner, apiVersion="apps/v2")))) == [Key("default", "web")]
    for other in (
        replace(owner, controller=False),
        replace(owner, kind="Deployment"),
        replace(owner, apiVersion="v1"),
    ):
        assert list(mapping(owned_by(other))) == []
    assert list(to_owner("ReplicaSet", "apps", namespaced=False)(owned_by(owner))) == [
        Key("", "web")
    ]


def test_an_object_maps_to_those_that_refer_to_it_by_an_index_of_theirs() -> None:
    cache = Cache(WIDGETS, indexes={"color": lambda one: (one.spec.color,)})
    cache.replace([widget("a", 1, color="default/x"), widget("b", 2, color="default/y")], 5)
    referred = to_referrers(cache, "color")
    assert list(referred(widget("x", 3))) == [Key("default", "a")]
    assert list(referred(widget("z", 3))) == []
    by_name = to_referrers(cache, "color", lambda obj: f"default/{obj.metadata.name}")
    assert list(by_name(widget("y", 3))) == [Key("default", "b")]
    with pytest.raises(KeyError):
        list(to_referrers(cache, "size")(widget("x", 3)))


def test_an_update_maps_the_old_and_the_new_state_each_key_once() -> None:
    def color(obj: Widget) -> list[Key]:
        return [Key("", obj.spec.color), Key("", "always")]

    change = Change(widget("a", 1, color="red"), widget("a", 2, color="blue"))
    assert keys_of(change, by(color)) == (Key("", "red"), Key("", "always"), Key("", "blue"))


def connected(clock: Clock, watch: Watch[Widget]) -> WorkQueue[Key]:
    queue = WorkQueue[Key](clock)
    watch.connect(queue)
    return queue


async def test_what_is_there_at_the_start_waits_behind_what_changes() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([]), clock)
    informer.cache.replace([widget("a", 1)], 5)
    queue = connected(clock, Watch(informer, to_self))
    informer.cache.own(widget("b", 6))
    assert queue.statistics().ready == {LOW_PRIORITY: 1, 0: 1}
    assert await queue.get() == Key("default", "b")


async def test_a_predicate_keeps_changes_from_the_queue() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([]), clock)
    informer.cache.replace([widget("a", 1)], 5)
    queue = connected(clock, Watch(informer, to_self, not_(revision_changed)))
    assert queue.statistics().ready == {}


async def test_a_closed_watch_feeds_nobody() -> None:
    clock = VirtualClock()
    informer = Informer(WIDGETS, Scripted([]), clock)
    queue = WorkQueue[Key](clock)
    Watch(informer, to_self).connect(queue).close()
    informer.cache.replace([widget("a", 1)], 5)
    assert queue.statistics().ready == {}
