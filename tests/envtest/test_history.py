"""History: what a watch can go on from after a restart, and what is compacted."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envtest import ControlPlane
from envtest.storage import Disk, DiskError, Store, StoredChange, Table
from envtest.storage.disk import StoredVersion
from envtest.storage.log import KEPT_EVENTS, KEPT_SECONDS
from tests.envtest.conftest import create_admin_client
from tests.envtest.samples import PATH, build_gauge, build_gauge_definition

MERGE = {"Content-Type": "application/merge-patch+json"}
ACTIONS = st.sampled_from(["write", "write", "delete", "restart", "compact"])
STEPS = st.lists(st.tuples(ACTIONS, st.sampled_from("abc")), max_size=40)


async def watch_events(http: httpx.AsyncClient, **query: str) -> list[tuple[str, str]]:
    """Return types and names of what a watch tells until it ends."""
    params = {"watch": "1", "timeoutSeconds": "1", **query}
    body = (await http.get(PATH, params=params)).text
    events: list[Any] = [json.loads(line) for line in body.splitlines()]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


async def test_a_watch_continues_from_its_position_after_a_restart(tmp_path: Path) -> None:
    async with ControlPlane.start(data=tmp_path, force_embedded=True) as plane:
        await plane.install_crds([build_gauge_definition()])
        async with create_admin_client(plane) as http:
            await http.post(PATH, json=build_gauge("a"))
            revision = (await http.get(PATH)).json()["metadata"]["resourceVersion"]
            await http.post(PATH, json=build_gauge("b", place="here"))
            await http.patch(f"{PATH}/a", json={"spec": {"count": 5}}, headers=MERGE)
            await http.patch(f"{PATH}/b", json={"spec": {"place": "there"}}, headers=MERGE)
            await http.delete(f"{PATH}/a")
            before = await watch_events(http, resourceVersion=revision)
            selected = {"fieldSelector": "spec.place=here", "resourceVersion": revision}
            chosen = await watch_events(http, **selected)

    async with (
        ControlPlane.start(data=tmp_path, force_embedded=True) as plane,
        create_admin_client(plane) as http,
    ):
        after = await watch_events(http, resourceVersion=revision)
        # What was there before the first kept event matters to selections.
        assert await watch_events(http, **selected) == chosen == [("ADDED", "b"), ("DELETED", "b")]
    assert after == before
    assert after == [("ADDED", "b"), ("MODIFIED", "a"), ("MODIFIED", "b"), ("DELETED", "a")]


async def test_pages_and_quiet_kinds_survive_a_restart_too(tmp_path: Path) -> None:
    async with ControlPlane.start(data=tmp_path, force_embedded=True) as plane:
        await plane.install_crds([build_gauge_definition()])
        async with create_admin_client(plane) as http:
            quiet = (await http.get(PATH)).json()["metadata"]["resourceVersion"]
            maps = "/api/v1/namespaces/default/configmaps"
            for name in "abc":
                await http.post(maps, json={"metadata": {"name": name}})
            page = (await http.get(maps, params={"limit": "1"})).json()["metadata"]
            await http.delete(f"{maps}/b")

    async with (
        ControlPlane.start(data=tmp_path, force_embedded=True) as plane,
        create_admin_client(plane) as http,
    ):
        rest = (await http.get(maps, params={"continue": page["continue"]})).json()
        assert [item["metadata"]["name"] for item in rest["items"]][:2] == ["b", "c"]
        assert await watch_events(http, resourceVersion=quiet) == []


def list_events(table: Table, revision: int) -> list[tuple[str, str, int]]:
    """Return the events after a revision."""
    return [
        (event.type, event.current.key, event.current.revision)
        for event in table.log.list_after(revision)
    ]


def read_state(store: Store) -> tuple[Any, ...]:
    """Return all that a client can read of a store: revision, objects, events, former states."""
    table = store.get_table("things")
    present = {key: table.get(key) for key in table.iterate_keys()}
    then = {
        key: stored and stored.body
        for key, stored in table.read_former_states(table.log.floor).items()
    }
    return store.revision, present, list_events(table, 0), table.log.floor, then


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_a_restart_changes_nothing_that_a_client_can_see(steps: list[tuple[str, str]]) -> None:
    with TemporaryDirectory() as name:
        store = Store(Disk(Path(name)))
        for action, key in steps:
            if action == "write":
                store.write("things", key, {"metadata": {"name": key}})
            elif action == "delete" and store.get_table("things").get(key) is not None:
                store.delete("things", key)
            elif action == "compact":
                store.compact(store.revision)
            elif action == "restart":
                before = read_state(store)
                store.close()
                store = Store(Disk(Path(name)))
                assert read_state(store) == before
        store.compact(store.revision)
        alive = len(store.get_table("things"))
        store.close()
        disk = Disk(Path(name))
        assert len(list(disk.iterate_versions())) == alive
        disk.close()


class Times:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def write(store: Store, count: int = 1) -> int:
    """Write one object several times; return the revision."""
    for _ in range(count):
        store.write("things", "a", {"metadata": {"name": "a"}})
    return store.revision


def test_history_is_compacted_after_a_while_on_disk_too(tmp_path: Path) -> None:
    clock = Times()
    store = Store(Disk(tmp_path), clock)
    old = write(store, 3)
    clock.now += KEPT_SECONDS + 61
    new = write(store)
    store.close()

    again = Store(Disk(tmp_path), clock)
    assert again.get_table("things").log.floor == old
    assert list_events(again.get_table("things"), 0) == [("MODIFIED", "a", new)]
    again.close()


def test_age_is_counted_across_a_restart(tmp_path: Path) -> None:
    clock = Times()
    store = Store(Disk(tmp_path), clock)
    old = write(store)
    store.close()
    clock.now += KEPT_SECONDS + 61
    store = Store(Disk(tmp_path), clock)
    write(store)

    assert store.get_table("things").log.floor == old
    store.close()


def test_a_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    store = Store(Disk(tmp_path))
    write(store, 2 * KEPT_EVENTS)
    store.close()

    disk = Disk(tmp_path)
    assert len(list(disk.iterate_versions())) <= KEPT_EVENTS + 1
    disk.close()


def test_a_failed_drop_keeps_all_versions_and_leaves_no_transaction_open(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    versions = [
        StoredVersion("things", str(revision), revision, deleted=False, at=0, body=b"{}")
        for revision in (1, 2, 3)
    ]
    for version in versions[:2]:
        disk.write(version)
    unknown_type: Any = object()
    with pytest.raises(DiskError, match="takes no more"):
        disk.drop_versions("things", 1, [("1", 1), (unknown_type, 2)])
    disk.write(versions[2])
    disk.close()

    again = Disk(tmp_path)
    assert [version.key for version in again.iterate_versions()] == ["1", "2", "3"]
    again.close()


def test_a_dropped_kind_starts_with_a_new_history(tmp_path: Path) -> None:
    store = Store(Disk(tmp_path))
    write(store)
    store.delete("things", "a")
    dropped = store.revision
    store.drop_table("things")
    for current in (store, None):
        opened = current or Store(Disk(tmp_path))
        assert opened.get_table("things").log.floor == dropped
        assert list_events(opened.get_table("things"), 0) == []
        opened.close()


def test_an_event_from_before_a_restart_has_the_object_that_it_replaced(tmp_path: Path) -> None:
    store = Store(Disk(tmp_path))
    first = write(store)
    store.compact(first)
    write(store)
    store.close()

    again = Store(Disk(tmp_path))
    (event,) = again.get_table("things").log.list_after(0)
    assert isinstance(event, StoredChange)
    assert event.previous is not None
    assert event.previous.revision == first
    again.close()
