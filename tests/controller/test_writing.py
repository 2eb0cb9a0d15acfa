"""Helpers for what reconcilers write: finalizers, owners, statuses."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.client import Client
from controller.conditions import Condition
from controller.errors import Conflict
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key, ObjectMeta, OwnerReference
from controller.owners import controller_of, is_owned_by, owned
from controller.resource import Resource
from controller.statuspatch import StatusDraft, merge_patch
from tests.controller.test_manager import path
from tests.controller.world_objects import WIDGETS, Widget, widget
from tests.controller.world_store import Connection, Store, _merged

A = Key("default", "a")
NOW, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


def stored(**metadata: object) -> tuple[Store, Connection, Client]:
    """Return a store with one widget, and a client."""
    store = Store()
    store.put(path("a"), {"metadata": {"name": "a", "namespace": "default", **metadata}})
    way = Connection(store)
    return store, way, Client(way)


async def test_a_finalizer_is_added_and_removed_beside_those_of_others() -> None:
    store, way, client = stored(finalizers=["other"])
    held = await add_finalizer(client, WIDGETS, await client.get(WIDGETS, A), "ours")
    assert store.objects[path("a")]["metadata"]["finalizers"] == ["other", "ours"]
    assert has_finalizer(held, "ours")
    assert await add_finalizer(client, WIDGETS, held, "ours") is held
    free = await remove_finalizer(client, WIDGETS, held, "ours")
    assert store.objects[path("a")]["metadata"]["finalizers"] == ["other"]
    assert await remove_finalizer(client, WIDGETS, free, "ours") is free
    assert [verb for verb, _ in way.sent] == ["GET", "PATCH", "PATCH"]


async def test_a_finalizer_is_not_written_over_the_change_of_another() -> None:
    store, _, client = stored()
    read = await client.get(WIDGETS, A)
    theirs = {"metadata": {"name": "a", "namespace": "default", "finalizers": ["theirs"]}}
    store.put(path("a"), theirs)
    with pytest.raises(Conflict):
        await add_finalizer(client, WIDGETS, read, "ours")
    assert store.objects[path("a")]["metadata"]["finalizers"] == ["theirs"]


async def test_an_object_that_is_going_is_held_by_nobody_new() -> None:
    _, way, client = stored(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["other"])
    going = await client.get(WIDGETS, A)
    assert await add_finalizer(client, WIDGETS, going, "ours") is going
    assert [verb for verb, _ in way.sent] == ["GET"]


OWNER = widget("boss", 7, uid="u-boss")
CHILD = {"metadata": {"name": "child", "namespace": "default"}, "spec": {}}


def test_an_owned_object_names_its_owner_once() -> None:
    body = owned(owned(CHILD, OWNER, WIDGETS), OWNER, WIDGETS)
    assert CHILD["metadata"] == {"name": "child", "namespace": "default"}
    (reference,) = body["metadata"]["ownerReferences"]
    assert reference == {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "name": "boss",
        "uid": "u-boss",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_owners_are_told_by_uid_and_the_one_in_charge_by_its_flag() -> None:
    owner = OwnerReference("example.com/v1", "Widget", "boss", "u-boss", controller=True)
    other = replace(owner, uid="u-other", controller=False)
    child = Widget(ObjectMeta(name="child", ownerReferences=(other, owner)))
    assert controller_of(child) == owner
    assert is_owned_by(child, OWNER)
    assert not is_owned_by(child, widget("boss", 9, uid="u-new"))
    assert controller_of(OWNER) is None


def test_two_cannot_be_in_charge_of_one() -> None:
    body = owned(CHILD, OWNER, WIDGETS)
    rival = widget("rival", 8)
    with pytest.raises(ValueError, match="child is controlled by Widget boss already"):
        owned(body, rival, WIDGETS)
    both = owned(body, rival, WIDGETS, controller=False)
    assert len(both["metadata"]["ownerReferences"]) == 2


def test_an_owner_in_another_namespace_is_refused() -> None:
    elsewhere = {"metadata": {"name": "child", "namespace": "elsewhere"}}
    with pytest.raises(ValueError, match="an owner lives in the same namespace"):
        owned(elsewhere, OWNER, WIDGETS)
    cluster = Resource("example.com", "v1", "Boss", "bosses", Widget, namespaced=False)
    assert owned(elsewhere, OWNER, cluster)["metadata"]["ownerReferences"]


@dataclass(frozen=True, slots=True)
class Status:
    phase: str | None = None
    used: int | None = None
    conditions: tuple[Condition, ...] = field(default=())


async def test_a_pass_sends_all_that_differs_at_once_and_nothing_if_nothing_does() -> None:
    store, way, client = stored(generation=3)
    read = await client.get(WIDGETS, A)
    draft = StatusDraft(read, Status("Old", 1), NOW)
    draft.set(phase="New", used=None)
    draft.condition("Ready", "True", "Fine", "all is well")
    assert await draft.write(client, WIDGETS) is not None
    assert [verb for verb, _ in way.sent] == ["GET", "PATCH"]
    assert store.objects[path("a")]["status"] == {
        "phase": "New",
        "used": None,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Fine",
                "message": "all is well",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": 3,
            }
        ],
    }
    known = Status("New", None, (Condition("Ready", "True", "Fine", "all is well", NOW, 3),))
    again = StatusDraft(read, known, LATER)
    again.set(phase="New")
    again.condition("Ready", "True", "Fine", "all is well")
    assert again.patch() == {}
    assert await again.write(client, WIDGETS) is None


def test_a_transition_time_moves_with_the_status_alone() -> None:
    known = Status(conditions=(Condition("Ready", "False", "Waiting", "", NOW),))
    draft = StatusDraft(widget("a", 1), known, LATER)
    draft.condition("Ready", "False", "StillWaiting")
    assert [one.lastTransitionTime for one in draft.conditions] == [NOW]
    draft.condition("Ready", "True", "Done")
    assert [one.lastTransitionTime for one in draft.conditions] == [LATER]
    draft.drop_condition("Ready")
    assert draft.patch() == {"conditions": []}


DOCUMENTS: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.integers() | st.lists(st.integers(), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    ),
    max_size=3,
)


def without_nulls(value: Any) -> Any:
    """Return a merged document as a server keeps it."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return value


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    patch = merge_patch(before, after)
    assert without_nulls(_merged(before, patch)) == after
    assert merge_patch(after, after) == {}
