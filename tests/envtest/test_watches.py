"""Watch streams: what comes, in which order, and how they end."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from envtest import ControlPlane
from envtest.environment import EmbeddedControlPlane
from envtest.plane import RunningControlPlane as Plane
from envtest.server import watches
from tests.envtest.conftest import create_admin_client
from tests.envtest.samples import PATH, build_gauge, build_gauge_definition
from tests.streams import unwind_on_exit

MERGE = {"Content-Type": "application/merge-patch+json"}


@asynccontextmanager
async def open_watch(http: httpx.AsyncClient, **query: Any) -> AsyncIterator[AsyncIterator[Any]]:
    params = {"watch": "1", "timeoutSeconds": "10", **query}
    async with http.stream("GET", PATH, params=params) as response:
        assert response.status_code == 200

        async def events() -> AsyncIterator[Any]:
            async for line in response.aiter_lines():
                yield json.loads(line)

        async with unwind_on_exit(events()) as event_stream:
            yield event_stream


async def test_a_watch_shows_each_change_once_and_in_order(http: httpx.AsyncClient) -> None:
    revision = (await http.get(PATH)).json()["metadata"]["resourceVersion"]
    async with open_watch(http, resourceVersion=revision) as events:
        await http.post(PATH, json=build_gauge("a"))
        await http.patch(f"{PATH}/a", json={"spec": {"count": 2}}, headers=MERGE)
        await http.patch(f"{PATH}/a", json={"spec": {"count": 2}}, headers=MERGE)
        await http.delete(f"{PATH}/a")
        seen = [await anext(events) for _ in range(3)]

    assert [event["type"] for event in seen] == ["ADDED", "MODIFIED", "DELETED"]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in seen]
    assert revisions == sorted(set(revisions))


async def test_ten_watchers_see_the_same(http: httpx.AsyncClient, plane: Plane) -> None:
    revision = (await http.get(PATH)).json()["metadata"]["resourceVersion"]
    seen: list[list[str]] = []

    async def watch() -> None:
        async with (
            create_admin_client(plane) as own,
            open_watch(own, resourceVersion=revision) as events,
        ):
            next_events = [await anext(events) for _ in range(20)]
        seen.append([event["object"]["metadata"]["name"] for event in next_events])

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(watch)
        for number in range(20):
            await http.post(PATH, json=build_gauge(f"g{number:02}"))

    assert seen == [[f"g{number:02}" for number in range(20)]] * 10


async def test_events_in_quick_succession_are_sent_together(
    http: httpx.AsyncClient, plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(plane, EmbeddedControlPlane):
        pytest.skip("how the real server cuts its streams is its own affair")
    monkeypatch.setattr(watches, "_CHUNK_INTERVAL_SECONDS", 0.5)
    revision = (await http.get(PATH)).json()["metadata"]["resourceVersion"]
    names = [f"g{number:02}" for number in range(20)]
    pieces: list[str] = []

    async def watch() -> None:
        query = {"watch": "1", "timeoutSeconds": "30", "resourceVersion": revision}
        async with (
            create_admin_client(plane) as own,
            own.stream("GET", PATH, params=query) as response,
            unwind_on_exit(response.aiter_text()) as texts,
        ):
            async for chunk in texts:
                pieces.append(chunk)
                if "".join(pieces).count("\n") == len(names):
                    return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        for name in names:
            await http.post(PATH, json=build_gauge(name))

    seen = [
        json.loads(line)["object"]["metadata"]["name"] for line in "".join(pieces).splitlines()
    ]
    assert seen == names
    assert len(pieces) < len(names) / 2


async def test_bookmarks_come_when_nothing_else_does(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "BOOKMARK_SECONDS", 0.05)
    async with open_watch(http, allowWatchBookmarks="true", resourceVersion="0") as events:
        await http.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "c"}})
        seen = await anext(events)

    assert seen["type"] == "BOOKMARK"
    assert seen["object"].keys() == {"kind", "apiVersion", "metadata"}


async def test_a_compacted_revision_is_gone_for_watches_and_pages() -> None:
    async with ControlPlane.start(force_embedded=True) as plane:
        assert isinstance(plane, EmbeddedControlPlane)
        await plane.install_crds([build_gauge_definition()])
        async with create_admin_client(plane) as http:
            for name in "abc":
                await http.post(PATH, json=build_gauge(name))
            page = (await http.get(PATH, params={"limit": 1})).json()
            await http.post(PATH, json=build_gauge("d"))
            store = plane.server.api.store
            store.get_table("lab.example.com/gauges").log.compact(store.revision)

            rest = await http.get(
                PATH, params={"limit": 1, "continue": page["metadata"]["continue"]}
            )
            async with open_watch(
                http, resourceVersion=page["metadata"]["resourceVersion"]
            ) as events:
                seen = [event async for event in events]

    assert (rest.status_code, rest.json()["reason"]) == (410, "Expired")
    assert [(event["type"], event["object"]["code"]) for event in seen] == [("ERROR", 410)]


async def test_pages_show_the_state_of_the_first_one(http: httpx.AsyncClient) -> None:
    for name in "abcd":
        await http.post(PATH, json=build_gauge(name))
    first = (await http.get(PATH, params={"limit": 2})).json()
    await http.delete(f"{PATH}/c")
    await http.post(PATH, json=build_gauge("e"))
    await http.patch(f"{PATH}/d", json={"spec": {"count": 9}}, headers=MERGE)

    rest = (await http.get(PATH, params={"continue": first["metadata"]["continue"]})).json()

    assert [(item["metadata"]["name"], item["spec"]["count"]) for item in rest["items"]] == [
        ("c", 1),
        ("d", 1),
    ]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_watch_ends_when_its_kind_is_removed(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=build_gauge("a"))
    async with open_watch(http, resourceVersion="0") as events:
        assert (await anext(events))["type"] == "ADDED"
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gauges.lab.example.com"
        await http.delete(path)
        seen = [event["type"] async for event in events]

    assert seen == ["DELETED"]
    assert (await http.get(PATH)).status_code == 404


async def test_a_server_stops_while_it_is_watched() -> None:
    with anyio.fail_after(5):
        async with ControlPlane.start(force_embedded=True) as plane:
            client = create_admin_client(plane)
            await plane.install_crds([build_gauge_definition()])
            request = client.build_request("GET", PATH, params={"watch": "1"})
            response = await client.send(request, stream=True)
        await response.aclose()
        await client.aclose()


async def test_the_last_event_of_an_object_shows_its_last_stored_state(
    http: httpx.AsyncClient,
) -> None:
    kind = {"apiVersion": "lab.example.com/v1", "kind": "Gauge"}
    finalizers = ["example.com/one"]
    response = await http.post(
        PATH, json={**kind, "metadata": {"name": "a", "finalizers": finalizers}}
    )
    await http.delete(f"{PATH}/a")
    marked = (await http.get(f"{PATH}/a")).json()["metadata"]

    freed = await http.patch(
        f"{PATH}/a",
        json={"metadata": {"finalizers": None}},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    since = response.json()["metadata"]["resourceVersion"]
    query = {"watch": "1", "resourceVersion": since, "timeoutSeconds": "1"}
    events = (await http.get(PATH, params=query)).text.splitlines()

    # The write that took the finalizer was answered, and never stored.
    answered, reported = freed.json()["metadata"], json.loads(events[-1])
    assert ("finalizers" in answered, answered["resourceVersion"]) == (
        False,
        marked["resourceVersion"],
    )
    assert reported["type"] == "DELETED"
    assert reported["object"]["metadata"]["finalizers"] == finalizers
    assert int(reported["object"]["metadata"]["resourceVersion"]) > int(marked["resourceVersion"])


@pytest.mark.parametrize("path", ["/api/v1/services", PATH])
async def test_a_bookmark_is_an_object_with_nothing_in_it(
    http: httpx.AsyncClient, path: str
) -> None:
    query = {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": "1"}

    last = json.loads((await http.get(path, params=query)).text.splitlines()[-1])["object"]

    assert last.keys() == {"apiVersion", "kind", "metadata"}
    assert last["metadata"].keys() == {"annotations", "resourceVersion"}
