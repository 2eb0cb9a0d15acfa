"""What tests can do to the embedded server: stale lists, compaction, a wrong clock."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from envtest import ControlPlane
from envtest.environment import EmbeddedControlPlane
from envtest.mishaps import Mishaps
from tests.envtest.conftest import admin_client
from tests.envtest.samples import PATH, crd, gauge

MERGE = {"Content-Type": "application/merge-patch+json"}


@pytest.fixture
async def plane() -> AsyncIterator[EmbeddedControlPlane]:
    async with ControlPlane.start(force_embedded=True) as started:
        assert isinstance(started, EmbeddedControlPlane)
        await started.install_crds([crd()])
        yield started


@pytest.fixture
def mishaps(plane: EmbeddedControlPlane) -> Mishaps:
    return plane.mishaps


async def names(http: httpx.AsyncClient, **query: str) -> list[str]:
    """Return the names that a list shows."""
    listed = (await http.get(PATH, params=query)).json()
    return [item["metadata"]["name"] for item in listed["items"]]


async def watched(http: httpx.AsyncClient, revision: str) -> list[Any]:
    """Return what a watch tells until it ends."""
    query = {"watch": "1", "resourceVersion": revision, "timeoutSeconds": "1"}
    return [json.loads(line) for line in (await http.get(PATH, params=query)).text.splitlines()]


async def test_a_stale_list_shows_an_older_state_and_says_so(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    for name in "abc":
        await http.post(PATH, json=gauge(name))
    await http.delete(f"{PATH}/a")
    now = (await http.get(PATH)).json()["metadata"]["resourceVersion"]

    with mishaps.stale_lists(lag=2):
        stale = (await http.get(PATH, params={"resourceVersion": "0"})).json()
    assert [item["metadata"]["name"] for item in stale["items"]] == ["a", "b"]
    assert int(stale["metadata"]["resourceVersion"]) == int(now) - 2
    assert await names(http, resourceVersion="0") == ["b", "c"]


async def test_a_consistent_read_is_never_stale(http: httpx.AsyncClient, mishaps: Mishaps) -> None:
    made = [(await http.post(PATH, json=gauge(name))).json() for name in "abc"]
    last = made[-1]["metadata"]["resourceVersion"]

    with mishaps.stale_lists(lag=3):
        assert await names(http) == ["a", "b", "c"]
        assert await names(http, limit="2") == ["a", "b"]
        assert (await http.get(f"{PATH}/c")).status_code == 200
        # Not older than what the client has seen.
        assert await names(http, resourceVersion=last) == ["a", "b", "c"]


async def test_a_stale_list_is_where_a_watch_goes_on(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    for name in "ab":
        await http.post(PATH, json=gauge(name))
    with mishaps.stale_lists(lag=1):
        stale = (await http.get(PATH, params={"resourceVersion": "0"})).json()
        events = await watched(http, stale["metadata"]["resourceVersion"])

    assert [item["metadata"]["name"] for item in stale["items"]] == ["a"]
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in events] == [("ADDED", "b")]


async def test_what_is_compacted_is_not_shown_even_by_a_stale_list(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    for name in "ab":
        await http.post(PATH, json=gauge(name))
    mishaps.compact()
    with mishaps.stale_lists(lag=100):
        assert await names(http, resourceVersion="0") == ["a", "b"]


async def test_compaction_ends_watches_exact_reads_and_pages_of_the_past(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    for name in "abc":
        await http.post(PATH, json=gauge(name))
    page = (await http.get(PATH, params={"limit": "1"})).json()["metadata"]
    await http.post(PATH, json=gauge("d"))
    last = mishaps.compact()

    (event,) = await watched(http, page["resourceVersion"])
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["message"] == (
        f"too old resource version: {page['resourceVersion']} ({last})"
    )
    exact = {"resourceVersion": page["resourceVersion"], "resourceVersionMatch": "Exact"}
    assert (await http.get(PATH, params=exact)).json()["reason"] == "Expired"
    assert (await http.get(PATH, params={"continue": page["continue"]})).status_code == 410


async def test_an_expired_page_brings_a_token_for_the_rest_of_what_is_there_now(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    for name in "abc":
        await http.post(PATH, json=gauge(name))
    page = (await http.get(PATH, params={"limit": "1"})).json()["metadata"]
    await http.post(PATH, json=gauge("d"))
    mishaps.compact()

    refusal = (await http.get(PATH, params={"continue": page["continue"]})).json()
    rest = {"continue": refusal["metadata"]["continue"]}
    assert await names(http, **rest) == ["b", "c", "d"]


async def test_a_watch_goes_on_from_the_compacted_revision(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    await http.post(PATH, json=gauge("a"))
    last = mishaps.compact()
    await http.post(PATH, json=gauge("b"))

    events = await watched(http, str(last))
    assert [one["object"]["metadata"]["name"] for one in events] == ["b"]


def test_mishaps_that_make_no_sense_are_refused(mishaps: Mishaps) -> None:
    with pytest.raises(ValueError, match="give lag >= 0"):
        mishaps.stale_lists(lag=-1).__enter__()
    with pytest.raises(ValueError, match="which were given out"):
        mishaps.compact(10**9)


async def test_times_are_those_of_the_servers_clock(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    slow = timedelta(hours=-3)
    with mishaps.skewed_clock(slow):
        made = (await http.post(PATH, json={**gauge("a"), "metadata": held("a")})).json()
        gone = (await http.delete(f"{PATH}/a")).json()
    right = (await http.patch(f"{PATH}/a", json={"spec": {"count": 4}}, headers=MERGE)).json()

    for moment in (
        made["metadata"]["creationTimestamp"],
        made["metadata"]["managedFields"][0]["time"],
        gone["metadata"]["deletionTimestamp"],
    ):
        assert abs(datetime.now(UTC) + slow - datetime.fromisoformat(moment)) < timedelta(hours=1)
    times = [entry["time"] for entry in right["metadata"]["managedFields"]]
    assert datetime.fromisoformat(max(times)) - datetime.now(UTC) > slow / 2


def held(name: str) -> dict[str, Any]:
    """Return metadata of an object that waits when it is deleted."""
    return {"name": name, "finalizers": ["tests.example.com/held"]}


async def test_each_server_has_a_clock_of_its_own(
    http: httpx.AsyncClient, mishaps: Mishaps
) -> None:
    async with (
        ControlPlane.start(force_embedded=True) as other,
        admin_client(other) as elsewhere,
    ):
        with mishaps.skewed_clock(timedelta(days=2)):
            maps = "/api/v1/namespaces/default/configmaps"
            made = [
                (await one.post(maps, json={"metadata": {"name": "a"}})).json()["metadata"]
                for one in (http, elsewhere)
            ]
    ahead, right = (datetime.fromisoformat(one["creationTimestamp"]) for one in made)
    assert timedelta(days=1) < ahead - right < timedelta(days=3)
