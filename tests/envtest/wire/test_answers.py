"""What clients get that ask for protobuf: the same as in JSON."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from envtest.plane import ControlPlane as Plane
from envtest.server.protobuf import encoded, message_name
from envtest.wire.protobuf import read_protobuf
from envtest.wire.varints import fields
from tests.envtest.conftest import admin_client
from tests.envtest.samples import GROUP, PATH, gauge
from tests.streams import unwound

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPT = {"Accept": f"{PROTOBUF},{JSON}"}
SENT = {**ACCEPT, "Content-Type": PROTOBUF}
META = "v=v1;g=meta.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
HEAD = {"apiVersion": "v1", "kind": "ConfigMap"}


def decoded(answer: httpx.Response, api_version: str, kind: str) -> dict[str, Any]:
    """Return the object of an answer that must be in protobuf."""
    assert answer.headers["Content-Type"] == PROTOBUF
    body = read_protobuf(answer.content, message_name(api_version, kind))
    assert (body.get("apiVersion", ""), body["kind"]) == (api_version, kind)
    return body


def listed(answer: httpx.Response, kind: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return metadata and items of a list of the core group."""
    assert answer.headers["Content-Type"] == PROTOBUF
    (raw,) = (value for at, value in fields(answer.content[4:]) if at == 2)
    assert isinstance(raw, bytes)
    parts = [(at, value) for at, value in fields(raw) if isinstance(value, bytes)]
    name = message_name("v1", kind)
    items = [read_protobuf(wrapped(value), name) for at, value in parts if at == 2]
    (meta,) = (wrapped(value) for at, value in parts if at == 1)
    list_meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta"
    return read_protobuf(meta, list_meta), items


def wrapped(raw: bytes) -> bytes:
    """Return a message in an envelope without names; it must be below 128 bytes or so."""
    length = len(raw)
    size = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    return b"k8s\x00\x12" + size + raw


async def test_an_object_is_made_read_changed_and_removed(http: httpx.AsyncClient) -> None:
    wanted = {**HEAD, "metadata": {"name": "a"}, "data": {"k": "v"}, "binaryData": {"b": "AP8="}}

    made = decoded(await http.post(MAPS, content=encoded(wanted), headers=SENT), "v1", "ConfigMap")
    assert made["data"] == wanted["data"]
    assert made["binaryData"] == wanted["binaryData"]
    assert made == (await http.get(f"{MAPS}/a")).json()
    changed = await http.put(
        f"{MAPS}/a", content=encoded({**made, "data": {"k": "w"}}), headers=SENT
    )
    assert decoded(changed, "v1", "ConfigMap")["data"] == {"k": "w"}
    patched = await http.patch(
        f"{MAPS}/a",
        json={"data": {"l": "x"}},
        headers={**ACCEPT, "Content-Type": "application/merge-patch+json"},
    )
    assert decoded(patched, "v1", "ConfigMap")["data"] == {"k": "w", "l": "x"}
    removed = decoded(await http.delete(f"{MAPS}/a", headers=ACCEPT), "v1", "Status")
    assert removed["status"] == "Success"
    assert removed["details"]["name"] == "a"


async def test_a_list_has_pages(http: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await http.post(MAPS, json={**HEAD, "metadata": {"name": name}})

    page = await http.get(MAPS, params={"limit": "2"}, headers=ACCEPT)
    meta, items = listed(page, "ConfigMap")
    rest = await http.get(
        MAPS, params={"limit": "2", "continue": meta["continue"]}, headers=ACCEPT
    )

    assert [item["metadata"]["name"] for item in items] == ["a", "b"]
    assert meta["remainingItemCount"] == 1
    plain = (await http.get(f"{MAPS}/a")).json()
    assert {**HEAD, **items[0]} == plain
    assert [item["metadata"]["name"] for item in listed(rest, "ConfigMap")[1]] == ["c"]


async def test_a_custom_resource_comes_in_json_or_not_at_all(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=gauge("a"))

    either = await http.get(f"{PATH}/a", headers=ACCEPT)
    alone = [
        await http.get(path, headers={"Accept": PROTOBUF})
        for path in (PATH, f"{PATH}/a", f"{PATH}/a/scale")
    ]

    assert either.headers["Content-Type"] == JSON
    assert either.json()["kind"] == "Gauge"
    for answer in alone:
        assert answer.status_code == 406
        status = decoded(answer, "v1", "Status")
        assert status["reason"] == "NotAcceptable"
        assert status["message"] == (
            "only the following media types are accepted: application/json, "
            "application/yaml, application/vnd.kubernetes.protobuf"
        )


async def test_a_custom_resource_is_not_read_in_protobuf(http: httpx.AsyncClient) -> None:
    answer = await http.post(PATH, content=encoded(HEAD), headers={"Content-Type": PROTOBUF})

    assert answer.status_code == 415


async def test_a_scale_is_read_in_every_format(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=gauge("a"))
    head = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    path = f"{PATH}/a/scale"

    five = encoded({**head, "spec": {"replicas": 5}})
    first = await http.put(path, content=five, headers={"Content-Type": PROTOBUF})
    six = "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: a}, spec: {replicas: 6}}"
    second = await http.put(path, content=six, headers={"Content-Type": "application/yaml"})
    third = await http.put(path, content="x", headers={"Content-Type": "text/plain"})

    assert first.json()["spec"]["replicas"] == 5
    assert second.json()["spec"]["replicas"] == 6
    assert third.status_code == 415


async def test_metadata_of_custom_resources_comes_in_protobuf(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=gauge("a"))
    accept = f"{PROTOBUF};as=PartialObjectMetadataList;{META},{JSON}"

    found = decoded(
        await http.get(PATH, headers={"Accept": accept}),
        "meta.k8s.io/v1",
        "PartialObjectMetadataList",
    )
    plain = (await http.get(f"{PATH}/a")).json()

    assert [item["metadata"] for item in found["items"]] == [plain["metadata"]]


async def test_a_table_is_in_json_where_protobuf_was_wanted_first(http: httpx.AsyncClient) -> None:
    accept = f"{PROTOBUF};as=Table;{META},{JSON};as=Table;{META},{PROTOBUF}"

    answer = await http.get(MAPS, headers={"Accept": accept})

    assert answer.headers["Content-Type"] == JSON
    assert answer.json()["kind"] == "Table"


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        (f"{PROTOBUF}, */*", PROTOBUF),
        (PROTOBUF, PROTOBUF),
        ("application/yaml", "application/yaml"),
        (f"{PROTOBUF};as=PartialObjectMetadata;{META},{JSON}", JSON),
    ],
)
async def test_a_refusal_comes_in_the_format_that_was_asked_for(
    http: httpx.AsyncClient, accept: str, media: str
) -> None:
    answer = await http.get(f"{MAPS}/nope", headers={"Accept": accept})

    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == media
    assert b"NotFound" in answer.content


async def test_who_is_not_known_is_told_so_in_protobuf(plane: Plane) -> None:
    async with admin_client(plane) as http:
        wrong = {**ACCEPT, "Authorization": "Bearer wrong"}
        answer = await http.get(MAPS, headers=wrong)

    assert answer.status_code == 401
    assert decoded(answer, "v1", "Status")["reason"] == "Unauthorized"


async def test_who_may_not_is_told_so_in_protobuf(http: httpx.AsyncClient) -> None:
    answer = await http.get(MAPS, headers={**ACCEPT, "Impersonate-User": "nobody"})

    assert answer.status_code == 403
    assert decoded(answer, "v1", "Status")["details"] == {"kind": "configmaps"}


async def test_a_refusal_that_has_no_format_is_indented_json(http: httpx.AsyncClient) -> None:
    answer = await http.get(f"{MAPS}/nope", headers={"Accept": "application/xml"})

    assert answer.status_code == 406
    assert answer.headers["Content-Type"] == JSON
    assert answer.text == json.dumps(answer.json(), indent=2)


class TestWatch:
    @asynccontextmanager
    async def watching(
        self, http: httpx.AsyncClient, path: str, accept: str, **query: Any
    ) -> AsyncIterator[AsyncIterator[tuple[str, bytes]]]:
        """Yield what comes as (type, object in its envelope)."""
        params = {"watch": "1", "timeoutSeconds": "10", **query}
        async with http.stream("GET", path, params=params, headers={"Accept": accept}) as answer:
            assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"

            async def events() -> AsyncIterator[tuple[str, bytes]]:
                held = b""
                async for chunk in answer.aiter_raw():
                    held += chunk
                    while len(held) >= 4 and len(held) >= 4 + (
                        length := int.from_bytes(held[:4], "big")
                    ):
                        parts = dict(fields(held[4 : 4 + length]))
                        held = held[4 + length :]
                        kind, held_object = parts[1], parts[2]
                        assert isinstance(kind, bytes)
                        assert isinstance(held_object, bytes)
                        raw = dict(fields(held_object))[1]
                        assert isinstance(raw, bytes)
                        yield kind.decode(), raw

            async with unwound(events()) as found:
                yield found

    async def test_it_shows_the_present_and_each_change(self, http: httpx.AsyncClient) -> None:
        name = message_name("v1", "ConfigMap")
        await http.post(MAPS, json={**HEAD, "metadata": {"name": "a"}})
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        with anyio.fail_after(20):
            async with self.watching(
                http, MAPS, f"{PROTOBUF},{JSON}", allowWatchBookmarks="true", **query
            ) as events:
                first = [await anext(events)]
                while first[-1][0] != "BOOKMARK":
                    first.append(await anext(events))
                made = await http.post(MAPS, json={**HEAD, "metadata": {"name": "b"}})
                await http.delete(f"{MAPS}/b")
                later = [await anext(events) for _ in range(2)]

        bookmark = read_protobuf(first[-1][1], name)
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert "a" in [read_protobuf(raw, name)["metadata"]["name"] for _, raw in first[:-1]]
        assert [kind for kind, _ in later] == ["ADDED", "DELETED"]
        assert read_protobuf(later[0][1], name) == made.json()

    async def test_watchers_of_either_format_see_the_same(self, http: httpx.AsyncClient) -> None:
        name = message_name("v1", "ConfigMap")
        revision = (await http.get(MAPS)).json()["metadata"]["resourceVersion"]
        await http.post(MAPS, json={**HEAD, "metadata": {"name": "a"}, "data": {"k": "v"}})
        query = {"watch": "1", "timeoutSeconds": "10", "resourceVersion": revision}
        with anyio.fail_after(20):
            async with http.stream("GET", MAPS, params=query) as plain:
                line = await anext(plain.aiter_lines())
            async with self.watching(http, MAPS, PROTOBUF, resourceVersion=revision) as events:
                kind, raw = await anext(events)

        assert {"type": kind, "object": read_protobuf(raw, name)} == json.loads(line)

    async def test_metadata_of_custom_resources_is_watched_in_protobuf(
        self, http: httpx.AsyncClient
    ) -> None:
        await http.post(PATH, json=gauge("a"))
        accept = f"{PROTOBUF};as=PartialObjectMetadata;{META},{JSON}"
        name = message_name("meta.k8s.io/v1", "PartialObjectMetadata")
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        with anyio.fail_after(20):
            async with self.watching(
                http, PATH, accept, allowWatchBookmarks="true", **query
            ) as events:
                seen = [await anext(events) for _ in range(2)]

        assert [kind for kind, _ in seen] == ["ADDED", "BOOKMARK"]
        bodies = [read_protobuf(raw, name) for _, raw in seen]
        assert {body["kind"] for body in bodies} == {"PartialObjectMetadata"}
        assert bodies[0]["metadata"]["name"] == "a"

    async def test_one_from_too_long_ago_ends_with_a_status(self, http: httpx.AsyncClient) -> None:
        with anyio.fail_after(20):
            async with self.watching(http, MAPS, PROTOBUF, resourceVersion="1") as events:
                ((kind, raw),) = [event async for event in events]

        status = read_protobuf(raw, message_name("v1", "Status"))
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


class TestDiscovery:
    @pytest.mark.parametrize(
        ("path", "api_version", "kind"),
        [
            ("/api", "", "APIVersions"),
            ("/apis", "v1", "APIGroupList"),
            ("/apis/apps", "v1", "APIGroup"),
            ("/apis/apps/v1", "v1", "APIResourceList"),
            ("/api/v1", "v1", "APIResourceList"),
            (f"/apis/{GROUP}", "v1", "APIGroup"),
            (f"/apis/{GROUP}/v1", "v1", "APIResourceList"),
        ],
    )
    async def test_documents_come_in_protobuf(
        self, http: httpx.AsyncClient, path: str, api_version: str, kind: str
    ) -> None:
        plain = (await http.get(path)).json()

        assert decoded(await http.get(path, headers=ACCEPT), api_version, kind) == plain

    async def test_all_groups_come_at_once_in_protobuf(self, http: httpx.AsyncClient) -> None:
        kind = "APIGroupDiscoveryList"
        wanted = f"g=apidiscovery.k8s.io;v=v2;as={kind}"
        plain = await http.get("/apis", headers={"Accept": f"{JSON};{wanted}"})

        answer = await http.get("/apis", headers={"Accept": f"{PROTOBUF};{wanted},{JSON}"})

        assert answer.headers["Content-Type"] == f"{PROTOBUF};{wanted}"
        name = message_name("apidiscovery.k8s.io/v2", kind)
        found = [item["metadata"]["name"] for item in read_protobuf(answer.content, name)["items"]]
        assert found == [item["metadata"]["name"] for item in plain.json()["items"]]

    async def test_what_nobody_speaks_is_refused(self, http: httpx.AsyncClient) -> None:
        accept = {"Accept": "text/html"}
        builtin = await http.get("/apis/apps/v1", headers=accept)
        custom = await http.get(f"/apis/{GROUP}/v1", headers=accept)

        assert (builtin.status_code, custom.status_code) == (406, 406)
        assert builtin.json()["message"].startswith("406: Not Acceptable")
        assert custom.json()["message"].startswith("only the following media types are accepted")
