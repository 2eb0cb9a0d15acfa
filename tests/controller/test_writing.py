"""Helpers for what reconcilers write: finalizers, owners, statuses."""

import pytest

from controller.client import Client
from controller.errors import Conflict
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key
from controller.owners import with_owner
from controller.resource import Resource
from tests.controller.store import Store, StoreTransport
from tests.controller.test_manager import build_path
from tests.controller.widgets import WIDGETS, Widget, build_widget

A = Key("default", "a")


def make_store(**metadata: object) -> tuple[Store, StoreTransport, Client]:
    """Return a store with one widget, and a client."""
    store = Store()
    store.put(build_path("a"), {"metadata": {"name": "a", "namespace": "default", **metadata}})
    transport = StoreTransport(store)
    return store, transport, Client(transport)


async def test_adding_and_removing_a_finalizer_keeps_those_of_others() -> None:
    store, transport, client = make_store(finalizers=["other"])
    with_finalizer = await add_finalizer(client, WIDGETS, await client.get(WIDGETS, A), "ours")
    assert store.objects[build_path("a")]["metadata"]["finalizers"] == ["other", "ours"]
    assert has_finalizer(with_finalizer, "ours")
    assert await add_finalizer(client, WIDGETS, with_finalizer, "ours") is with_finalizer
    free = await remove_finalizer(client, WIDGETS, with_finalizer, "ours")
    assert store.objects[build_path("a")]["metadata"]["finalizers"] == ["other"]
    assert await remove_finalizer(client, WIDGETS, free, "ours") is free
    assert [verb for verb, _ in transport.sent] == ["GET", "PATCH", "PATCH"]


async def test_a_finalizer_is_not_written_over_the_change_of_another() -> None:
    store, _, client = make_store()
    read = await client.get(WIDGETS, A)
    theirs = {"metadata": {"name": "a", "namespace": "default", "finalizers": ["theirs"]}}
    store.put(build_path("a"), theirs)
    with pytest.raises(Conflict):
        await add_finalizer(client, WIDGETS, read, "ours")
    assert store.objects[build_path("a")]["metadata"]["finalizers"] == ["theirs"]


async def test_an_object_that_is_being_deleted_gets_no_finalizer() -> None:
    _, transport, client = make_store(
        deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["other"]
    )
    going = await client.get(WIDGETS, A)
    assert await add_finalizer(client, WIDGETS, going, "ours") is going
    assert [verb for verb, _ in transport.sent] == ["GET"]


OWNER = build_widget("boss", 7, uid="u-boss")
CHILD = {"metadata": {"name": "child", "namespace": "default"}, "spec": {}}


def test_an_owned_object_names_its_owner_once() -> None:
    body = with_owner(with_owner(CHILD, OWNER, WIDGETS), OWNER, WIDGETS)
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


def test_an_object_has_at_most_one_controlling_owner() -> None:
    body = with_owner(CHILD, OWNER, WIDGETS)
    rival = build_widget("rival", 8)
    with pytest.raises(ValueError, match="child is controlled by Widget boss already"):
        with_owner(body, rival, WIDGETS)
    both = with_owner(body, rival, WIDGETS, controller=False)
    assert len(both["metadata"]["ownerReferences"]) == 2


async def test_an_owned_object_is_created_in_the_namespace_of_its_owner() -> None:
    store, _, client = make_store()
    body = with_owner({"metadata": {"name": "child"}}, OWNER, WIDGETS)
    assert body["metadata"]["namespace"] == "default"
    await client.create(WIDGETS, "default", body)
    assert store.objects[build_path("child")]["metadata"]["ownerReferences"]
    cluster = Resource("example.com", "v1", "Boss", "bosses", Widget, namespaced=False)
    assert (
        "namespace" not in with_owner({"metadata": {"name": "child"}}, OWNER, cluster)["metadata"]
    )


def test_an_owner_in_another_namespace_is_refused() -> None:
    elsewhere = {"metadata": {"name": "child", "namespace": "elsewhere"}}
    with pytest.raises(ValueError, match="an owner is in the same namespace"):
        with_owner(elsewhere, OWNER, WIDGETS)
    cluster = Resource("example.com", "v1", "Boss", "bosses", Widget, namespaced=False)
    assert with_owner(elsewhere, OWNER, cluster)["metadata"]["ownerReferences"]


async def test_a_status_is_merged_at_the_version_that_was_read_and_at_no_other() -> None:
    store, connection, client = make_store()
    read = await client.get(WIDGETS, A)
    written = await client.patch_status(WIDGETS, read, {"phase": "New", "ready": 0})
    assert store.objects[build_path("a")]["status"] == {"phase": "New", "ready": 0}
    assert connection.sent[-1] == ("PATCH", f"{build_path('a')}/status")
    with pytest.raises(Conflict):
        await client.patch_status(WIDGETS, read, {"phase": "Old"})
    await client.patch_status(WIDGETS, written, {"phase": "Newer"})
    assert store.objects[build_path("a")]["status"] == {"phase": "Newer", "ready": 0}
