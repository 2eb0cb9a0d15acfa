"""Watches by path, `/api/v1/watch/...`: older than `?watch=1`, deprecated, and still served."""

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, User
from envtest.plane import ControlPlane as Plane
from tests.envtest.conftest import admin_client
from tests.envtest.samples import GROUP, PATH, gauge
from tests.streams import unwound

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH_MAPS = "/api/v1/watch/namespaces/default/configmaps"
GAUGES = f"/apis/{GROUP}/v1/watch/namespaces/default/gauges"


ALL_THAT_IS_THERE = {
    "watch": "1",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


async def seen(http: httpx.AsyncClient, path: str, **query: str) -> list[str]:
    """Watch until the bookmark that ends what is there; return the names of what came."""
    found: list[str] = []
    async with http.stream("GET", path, params={**ALL_THAT_IS_THERE, **query}) as answer:
        assert answer.status_code == 200, await answer.aread()
        async with unwound(answer.aiter_lines()) as lines:
            async for line in lines:
                event = json.loads(line)
                if event["type"] == "BOOKMARK":
                    return found
                assert event["type"] == "ADDED"
                found.append(event["object"]["metadata"]["name"])
    raise AssertionError(f"the watch of {path} ended")


async def make(http: httpx.AsyncClient, path: str, *bodies: Mapping[str, Any]) -> None:
    for body in bodies:
        assert (await http.post(path, json=body)).status_code == 201


def named(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}}


@pytest.mark.parametrize(
    "path",
    [WATCH_MAPS, "/api/v1/watch/configmaps", f"{WATCH_MAPS}/a"],
)
async def test_a_path_watches_a_collection_everywhere_in_a_namespace_and_one_object(
    http: httpx.AsyncClient, path: str
) -> None:
    await make(http, MAPS, named("a"), named("b"))

    found = await seen(http, path, fieldSelector="metadata.name=a")

    assert found == ["a"]


async def test_the_path_says_watch_whatever_the_query_says(http: httpx.AsyncClient) -> None:
    await make(http, MAPS, named("a"))

    async with (
        http.stream("GET", WATCH_MAPS, params={"watch": "false"}) as answer,
        unwound(answer.aiter_lines()) as lines,
    ):
        event = json.loads(await anext(lines))

    assert (event["type"], event["object"]["metadata"]["name"]) in {
        ("ADDED", "a"),
        ("ADDED", "kube-root-ca.crt"),
    }


async def test_a_name_in_the_path_is_a_selector(http: httpx.AsyncClient) -> None:
    await make(http, MAPS, named("a"), named("b"))

    assert await seen(http, f"{WATCH_MAPS}/b") == ["b"]
    assert await seen(http, f"{WATCH_MAPS}/c") == []
    for other in ("metadata.name=a", "metadata.name!=b", "metadata.namespace=default"):
        refused = await http.get(f"{WATCH_MAPS}/b", params={"fieldSelector": other})
        assert refused.status_code == 400
        text = "fieldSelector metadata.name doesn't match requested name"
        assert refused.json()["message"] == text


async def test_labels_select_in_a_watched_collection(http: httpx.AsyncClient) -> None:
    await make(http, MAPS, named("a", app="x"), named("b"))

    assert await seen(http, WATCH_MAPS, labelSelector="app=x") == ["a"]


async def test_cluster_scoped_kinds_are_watched_by_path(http: httpx.AsyncClient) -> None:
    found = await seen(http, "/api/v1/watch/namespaces/default")

    assert found == ["default"]
    assert "default" in await seen(http, "/api/v1/watch/namespaces")


async def test_custom_resources_are_watched_by_path_even_by_name_in_all_namespaces(
    http: httpx.AsyncClient,
) -> None:
    await make(http, PATH, gauge("a"), gauge("b"))

    both = ["a", "b"]
    assert await seen(http, GAUGES) == both
    assert await seen(http, f"/apis/{GROUP}/v1/watch/gauges") == both
    assert await seen(http, f"{GAUGES}/b") == ["b"]
    assert await seen(http, f"/apis/{GROUP}/v1/watch/gauges/b") == ["b"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("POST", WATCH_MAPS, 405),
        ("DELETE", f"{WATCH_MAPS}/a", 405),
        # There is no route to an object of a namespace that is not named, nor to a subresource.
        ("GET", "/api/v1/watch/configmaps/a", 404),
        ("GET", "/api/v1/watch/namespaces/default/pods/a/status", 404),
        ("GET", "/api/v1/watch/nothings", 404),
        ("GET", "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews", 404),
        ("GET", "/api/v1/proxy/namespaces/default/pods/a", 404),
        ("GET", f"{GAUGES}/a/status", 405),
        ("GET", f"{GAUGES}/a/nothing", 404),
        ("GET", f"/apis/{GROUP}/v1/proxy/namespaces/default/gauges/a", 405),
    ],
)
async def test_what_is_no_watch_by_path_is_refused(
    http: httpx.AsyncClient, method: str, path: str, code: int
) -> None:
    answer = await http.request(method, path)

    assert answer.status_code == code
    assert answer.json()["kind"] == "Status"


@pytest.mark.parametrize("path", ["/api/v1/watch", "/apis/apps/v1/proxy/"])
async def test_a_verb_without_a_resource_is_not_even_understood(
    http: httpx.AsyncClient, path: str
) -> None:
    answer = await http.get(path, headers={"Authorization": ""})

    assert answer.status_code == 500
    why = f"failed to create RequestInfo: unable to determine kind and namespace from url, {path}"
    assert answer.text == f'Internal Server Error: "{path}": {why}\n'


async def test_options_are_judged_as_those_of_a_list_unless_a_watch_is_asked_for(
    http: httpx.AsyncClient,
) -> None:
    query = {**ALL_THAT_IS_THERE, "resourceVersion": "1"}

    refused = await http.get(WATCH_MAPS, params={**query, "watch": "false"})

    assert refused.status_code == 422
    assert "sendInitialEvents is forbidden for list" in refused.json()["message"]


async def test_the_right_to_watch_is_asked_for_and_a_name_only_counts_in_the_path() -> None:
    async with ControlPlane.start(force_embedded=True, tokens={"t": User("joe")}) as plane:
        await _allow(plane, {"verbs": ["watch"], "resources": ["configmaps"], "names": ["a"]})
        headers = {"Authorization": "Bearer t"}
        async with httpx.AsyncClient(
            base_url=plane.url, verify=plane.tls(), headers=headers
        ) as joe:
            assert await seen(joe, f"{WATCH_MAPS}/a") == []
            by_field = {"fieldSelector": "metadata.name=a"}
            refused = [
                await joe.get(WATCH_MAPS, params=by_field),
                await joe.get(f"{WATCH_MAPS}/b"),
                await joe.get("/api/v1/proxy/namespaces/default/configmaps/a"),
            ]

    cannot = (
        'User "joe" cannot {} resource "configmaps" in API group "" in the namespace "default"'
    )
    assert [one.status_code for one in refused] == [403, 403, 403]
    assert refused[0].json()["message"].endswith(cannot.format("watch"))
    assert refused[2].json()["message"].endswith(cannot.format("proxy"))


async def _allow(plane: Plane, rule: Mapping[str, Any]) -> None:
    """Let joe do what a rule of the core group says, in the default namespace."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rules = [
        {
            "verbs": rule["verbs"],
            "apiGroups": [""],
            "resources": rule["resources"],
            "resourceNames": rule["names"],
        }
    ]
    async with admin_client(plane) as admin:
        await make(admin, f"{rbac}/roles", {**named("r"), "rules": rules})
        binding = {
            **named("r"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "joe"}],
        }
        await make(admin, f"{rbac}/rolebindings", binding)
