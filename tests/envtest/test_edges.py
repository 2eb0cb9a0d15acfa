"""What sits between bodies, metadata, patches and kinds, answered as a real API server does."""

import json
from typing import Any

import httpx
import pytest

from tests.envtest.samples import GROUP, PATH, build_gauge

MAPS = "/api/v1/namespaces/default/configmaps"
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
UNFINISHED = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
NO_MAP = "into Go value of type map[string]interface {}"


def build_config_map(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}


def build_owner(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", **parts}


async def send(
    http: httpx.AsyncClient, method: str, path: str, body: Any, kind: str = JSON
) -> tuple[int, str]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await http.request(method, path, content=data, headers={"Content-Type": kind})
    return answer.status_code, answer.json().get("message", "")


async def test_empty_fields_of_metadata_are_neither_stored_nor_owned(
    http: httpx.AsyncClient,
) -> None:
    body = build_gauge("a", count=1)
    body["metadata"] |= {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    meta = (await http.post(PATH, json=body)).json()["metadata"]

    assert not meta.keys() & {"labels", "annotations", "finalizers", "ownerReferences"}
    assert meta["managedFields"][0]["fieldsV1"] == {"f:spec": {".": {}, "f:count": {}}}


@pytest.mark.parametrize(
    ("path", "entries", "stays"),
    [
        (PATH, [], True),
        (PATH, [{}], False),
        (PATH, [None], False),
        (MAPS, [], False),
        (MAPS, [{}], False),
    ],
)
async def test_ownership_is_reset_as_the_kind_allows(
    http: httpx.AsyncClient, path: str, entries: list[Any], stays: bool
) -> None:
    body = (
        build_gauge("a", count=1) if path == PATH else build_config_map("a") | {"data": {"k": "v"}}
    )
    await http.post(path, json=body)
    await send(
        http, "PATCH", path=f"{path}/a", body={"metadata": {"managedFields": entries}}, kind=MERGE
    )

    meta = (await http.get(f"{path}/a")).json()["metadata"]
    assert ("managedFields" in meta) is stays


@pytest.mark.parametrize(
    ("owners", "content"),
    [
        ([build_owner(apiVersion="a/b/c")], '"a/b/c": version must not be empty'),
        ([build_owner(kind="Event")], "/v1, Kind=Event is disallowed from being an owner"),
        ([None], 'metadata.ownerReferences.uid: Invalid value: "": must not be empty'),
        (
            [build_owner(controller=True), build_owner(name="q", controller=True)],
            (
                'Invalid value: [{"apiVersion":"v1","controller":true,"kind":"Pod","name":"p",'
                '"uid":"u"}'
            ),
        ),
    ],
)
@pytest.mark.parametrize("path", [PATH, MAPS])
async def test_owners_that_cannot_be_are_refused(
    http: httpx.AsyncClient, path: str, owners: list[Any], content: str
) -> None:
    body = build_gauge("a") if path == PATH else build_config_map("a")
    body["metadata"]["ownerReferences"] = owners
    code, message = await send(http, "POST", path=path, body=body)

    assert code == 422
    assert content in message


@pytest.mark.parametrize(("value", "word"), [(5, "number"), ("x", "string"), ([], "array")])
async def test_metadata_that_is_no_object_is_refused(
    http: httpx.AsyncClient, value: Any, word: str
) -> None:
    await http.post(PATH, json=build_gauge("a"))
    fault = f"json: cannot unmarshal {word} into Go"
    custom = await send(http, "POST", path=PATH, body={**build_gauge("b"), "metadata": value})
    builtin = await send(
        http, "POST", path=MAPS, body={**build_config_map("b"), "metadata": value}
    )
    patched = await send(http, "PATCH", path=f"{PATH}/a", body={"metadata": value}, kind=MERGE)

    assert custom[0] == builtin[0] == 400
    assert custom[1].endswith(f"{fault} value of type v1.ObjectMeta")
    assert builtin[1].endswith(f"{fault} struct field ConfigMap.metadata of type v1.ObjectMeta")
    assert (patched[0], fault in patched[1]) == (422, True)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"{}", "Object 'Kind' is missing in '{}' ({})"),
        (b'{"kind":"Gauge"}', "the API version in the data () does not match"),
        (b'{"kind":5}', "cannot unmarshal number into Go struct field .kind of type string"),
        (b'{"kind":"Gauge","x":1e400}', "cannot unmarshal number 1e400"),
    ],
)
async def test_a_custom_resource_says_what_it_is(
    http: httpx.AsyncClient, data: bytes, part: str
) -> None:
    code, message = await send(http, "POST", path=PATH, body=data)

    assert code == 400
    assert part in message


async def test_a_kind_that_a_version_does_not_have_is_not_registered(
    http: httpx.AsyncClient,
) -> None:
    strange = await send(http, "POST", path=MAPS, body={**build_config_map("a"), "kind": "Gauge"})
    other = await send(http, "POST", path=MAPS, body={**build_config_map("a"), "kind": "Secret"})
    await http.post(MAPS, json=build_config_map("a"))
    patched = await send(http, "PATCH", path=f"{MAPS}/a", body={"kind": "Other"}, kind=MERGE)

    assert 'no kind "Gauge" is registered for version "v1"' in strange[1]
    assert other[1].endswith("converting (v1.Secret) to (core.ConfigMap): unknown conversion")
    assert (patched[0], 'no kind "Other" is registered' in patched[1]) == (422, True)


@pytest.mark.parametrize(
    ("kind", "data", "code", "message"),
    [
        (MERGE, b"null", 400, "Invalid JSON Patch"),
        (MERGE, b"[]", 400, f"error decoding patch: json: cannot unmarshal array {NO_MAP}"),
        (MERGE, b"{", 400, f"error decoding patch: {UNFINISHED}"),
        (STRATEGIC, b"null", 200, ""),
        (STRATEGIC, b"[]", 400, f"json: cannot unmarshal array {NO_MAP}"),
        (STRATEGIC, b"{", 400, UNFINISHED),
        (APPLY, b"", 400, "invalid object type: /, Kind="),
        (APPLY, b"null", 400, "invalid object type: /, Kind="),
        (
            APPLY,
            b"[1]",
            400,
            (
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
                f"unmarshal array {NO_MAP}"
            ),
        ),
    ],
)
async def test_a_patch_that_is_no_object_is_refused_in_its_own_words(
    http: httpx.AsyncClient, kind: str, data: bytes, code: int, message: str
) -> None:
    await http.post(MAPS, json=build_config_map("a"))

    assert await send(http, "PATCH", path=f"{MAPS}/a?fieldManager=m", body=data, kind=kind) == (
        code,
        message,
    )


async def test_a_missing_object_is_reported_before_a_faulty_patch(http: httpx.AsyncClient) -> None:
    assert (await send(http, "PATCH", path=f"{MAPS}/none", body=b"[]", kind=MERGE))[0] == 404


async def test_a_conflict_wins_over_a_wrong_name(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=build_gauge("a", count=1))
    code, _ = await send(
        http,
        "PATCH",
        path=f"{PATH}/a?fieldManager=m",
        body=build_gauge("other", count=7),
        kind=APPLY,
    )
    same, message = await send(
        http,
        "PATCH",
        path=f"{PATH}/a?fieldManager=m",
        body=build_gauge("other", count=1),
        kind=APPLY,
    )

    assert (code, same) == (409, 400)
    assert message.startswith("the name of the object (other) does not match")


async def test_an_apply_that_creates_names_the_object(http: httpx.AsyncClient) -> None:
    body = build_gauge("a")
    del body["metadata"]["name"]
    code, message = await send(
        http, "PATCH", path=f"{PATH}/a?fieldManager=m", body=body, kind=APPLY
    )

    assert (code, message.endswith("name must be provided")) == (400, True)


async def test_keys_that_stand_twice_in_an_apply_are_reported_or_refused(
    http: httpx.AsyncClient,
) -> None:
    head = f'"apiVersion":"{GROUP}/v1","kind":"Gauge","metadata":{{"name":"a"}}'
    data = f'{{{head},"spec":{{"count":1,"count":2}}}}'.encode()
    path = f"{PATH}/a?fieldManager=m"
    reported = await http.patch(path, content=data, headers={"Content-Type": APPLY})
    refused = await send(
        http, "PATCH", path=f"{path}&fieldValidation=Strict", body=data, kind=APPLY
    )

    assert reported.headers["Warning"] == '299 - "duplicate field \\"spec.count\\""'
    assert refused[0] == 400
    assert 'strict decoding error: duplicate field "spec.count"' in refused[1]


async def test_finalizers_of_built_in_kinds_need_a_domain(http: httpx.AsyncClient) -> None:
    created = await send(http, "POST", path=MAPS, body=build_config_map("a", finalizers=["plain"]))
    known = await send(
        http, "POST", path=MAPS, body=build_config_map("b", finalizers=["orphan", "a.b/c"])
    )

    assert (created[0], known[0]) == (422, 201)
    assert "metadata.finalizers[0]" in created[1]


async def test_finalizers_of_custom_resources_without_a_domain_give_a_warning_once(
    http: httpx.AsyncClient,
) -> None:
    body = build_gauge("a")
    body["metadata"]["finalizers"] = ["plain", "dotted.name", "orphan", "a.b/c"]
    first = await http.post(PATH, json=body)
    label = json.dumps({"metadata": {"labels": {"x": "y"}}}).encode()
    second = await http.patch(f"{PATH}/a", content=label, headers={"Content-Type": MERGE})

    reported = first.headers.get_list("Warning")
    assert [("plain" in message, "(/)" in message) for message in reported] == [
        (True, False),
        (False, True),
    ]
    assert "Warning" not in second.headers


async def test_an_update_of_a_built_in_kind_is_judged_by_all_its_rules(
    http: httpx.AsyncClient,
) -> None:
    await http.post(MAPS, json=build_config_map("a"))
    body = build_config_map("a", ownerReferences=[build_owner(uid="")])
    answer = await http.put(f"{MAPS}/a", json=body)

    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == [
        "metadata.ownerReferences.uid"
    ] * 4


@pytest.mark.parametrize(
    ("data", "patched"),
    [(b"null", 400), (b"[]", 400), (b"5", 400), (b'{"metadata":5}', 400), (b'{"spec":5}', 400)],
)
async def test_a_scale_that_is_none_is_refused(
    http: httpx.AsyncClient, data: bytes, patched: int
) -> None:
    await http.post(PATH, json=build_gauge("a", count=1))

    assert (await send(http, "PATCH", path=f"{PATH}/a/scale", body=data, kind=MERGE))[0] == patched
    assert (await send(http, "PUT", path=f"{PATH}/a/scale", body=data))[0] == 400


async def test_a_scale_has_the_name_of_its_object(http: httpx.AsyncClient) -> None:
    await http.post(PATH, json=build_gauge("a", count=1))
    scale = {"metadata": {"name": "b"}, "spec": {"replicas": 3}}
    code, message = await send(http, "PUT", path=f"{PATH}/a/scale", body=scale)

    assert code == 400
    assert message == "the name of the object (b) does not match the name on the URL (a)"


async def test_a_page_names_its_revision_itself(http: httpx.AsyncClient) -> None:
    for name in "ab":
        await http.post(PATH, json=build_gauge(name))
    page = (await http.get(PATH, params={"limit": "1"})).json()["metadata"]
    query = {"continue": page["continue"], "resourceVersion": page["resourceVersion"]}

    answer = await http.get(PATH, params=query)

    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "specifying resource version is not allowed when using continue",
    )
    rest = await http.get(PATH, params=query | {"resourceVersion": "0"})
    assert [item["metadata"]["name"] for item in rest.json()["items"]] == ["b"]


async def test_heads_alone_are_given_of_custom_resources_only(http: httpx.AsyncClient) -> None:
    assert (await http.head(PATH)).status_code == 200
    assert (await http.head("/readyz")).status_code == 200
    assert (await http.head("/api/v1/namespaces")).status_code == 405


async def test_a_revision_that_is_none_is_a_fault_or_nothing(http: httpx.AsyncClient) -> None:
    maps = "/api/v1/namespaces/default/configmaps"

    async def put(path: str, body: dict[str, Any], revision: str) -> tuple[int, str]:
        body["metadata"]["resourceVersion"] = revision
        answer = await http.put(path, json=body)
        return answer.status_code, answer.json().get("message", "")

    for name, revision in (("a", "0"), ("b", "x")):
        body = {"metadata": {"name": name, "resourceVersion": revision}}
        assert (await http.post(maps, json=body)).status_code == 201
    faulty = (500, 'strconv.ParseUint: parsing "x": invalid syntax')
    assert await put(f"{maps}/a", {"metadata": {"name": "a"}}, "x") == faulty
    assert await put(f"{maps}/a", {"metadata": {"name": "a"}, "data": {"k": "v"}}, "0") == (
        200,
        "",
    )
    await http.post(PATH, json=build_gauge("a"))
    code, message = await put(f"{PATH}/a", build_gauge("a"), "0")
    assert code == 422
    assert message.endswith("resourceVersion: Invalid value: 0: must be specified for an update")
