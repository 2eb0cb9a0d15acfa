"""Requests made up from the server's own OpenAPI: it answers every one, and means what it says."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from anyio import to_thread
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.envtest.samples import PATH, build_gauge

Schema = Mapping[str, Any]
# A webhook that cannot be asked makes other writes fail with 500, as it does in a cluster.
LEFT_OUT = ("/apis/admissionregistration.k8s.io/",)
NOWHERE = "404 page not found\n"
UNDECLARED = "failed to create typed patch object"
_DEEPEST = 4
_METADATA = {
    "labels": st.dictionaries(st.sampled_from(["a", "b.c/d", "-"]), st.text("a-", max_size=3)),
    "annotations": st.dictionaries(st.sampled_from(["a", "b.c/d"]), st.text(max_size=5)),
    "finalizers": st.lists(st.sampled_from(["a.b/c", "orphan", "x"]), max_size=2),
    "generateName": st.sampled_from(["g-", "", "UP"]),
}
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just({"": None}),
)
BROKEN = st.sampled_from(
    [b"", b"{", b"[]", b"null", b"0", b'"x"', b"\xff\xfe", b"{}{}", b'{"metadata":[]}', b"[" * 999]
)
TEXTS = ["", "a", "10.0.0.1", "2026-01-01T00:00:00Z", "YQ==", "1", "100m", "Always"]
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(TEXTS) | st.text(max_size=4),
    "integer": st.integers(-1, 70_000),
    "number": st.floats(-10, 10),
    "boolean": st.booleans(),
}
PATCHES = st.sampled_from(
    [
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/json",
    ]
)


@dataclass(frozen=True)
class Operation:
    """One method on one path, with the schema of the kind that it is about."""

    path: str
    method: str
    kind: Mapping[str, str]
    schema: Schema
    schemas: Mapping[str, Schema]
    parameters: Sequence[str]


async def list_operations(http: httpx.AsyncClient) -> list[Operation]:
    all_operations: list[Operation] = []
    for path in (await http.get("/openapi/v3")).json()["paths"].values():
        all_operations += list_document_operations(
            (await http.get(path["serverRelativeURL"])).json()
        )
    return all_operations


def list_document_operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    schemas = document.get("components", {}).get("schemas", {})
    by_kind = {
        (
            group_version_kind["group"],
            group_version_kind["version"],
            group_version_kind["kind"],
        ): schema
        for schema in schemas.values()
        for group_version_kind in schema.get("x-kubernetes-group-version-kind", ())
    }
    for path, methods in document.get("paths", {}).items():
        if path.startswith(LEFT_OUT):
            continue
        for method, described in methods.items():
            if method == "parameters" or "x-kubernetes-group-version-kind" not in described:
                continue
            kind = described["x-kubernetes-group-version-kind"]
            schema = by_kind.get((kind["group"], kind["version"], kind["kind"]), {})
            names = [
                parameter["name"]
                for parameter in described.get("parameters", ())
                if "name" in parameter
            ]
            yield Operation(
                path, method.upper(), kind=kind, schema=schema, schemas=schemas, parameters=names
            )


def draw_values(
    schema: Schema, schemas: Mapping[str, Schema], depth: int = 0
) -> st.SearchStrategy[Any]:
    """Return a strategy for values that fit a schema."""
    for part in schema.get("allOf", ()):
        schema = {**part, **schema}
    if "$ref" in schema:
        schema = schemas.get(schema["$ref"].rpartition("/")[2], {})
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind in SCALARS:
        return SCALARS[kind]
    if kind == "array":
        inner = (
            draw_values(schema.get("items", {}), schemas, depth + 1) if depth < _DEEPEST else None
        )
        return st.just([]) if inner is None else st.lists(inner, max_size=2)
    return draw_structures(schema, schemas, depth)


def draw_structures(
    schema: Schema, schemas: Mapping[str, Schema], depth: int
) -> st.SearchStrategy[Any]:
    """Return objects: some of the fields, now and then an unknown one or one of a wrong type."""
    fields = schema.get("properties", {})
    if depth >= _DEEPEST or not fields:
        inner = schema.get("additionalProperties")
        if isinstance(inner, Mapping) and depth < _DEEPEST:
            return st.dictionaries(
                st.text("ab", max_size=2), draw_values(inner, schemas, depth + 1)
            )
        return st.just({})

    @st.composite
    def make_body(draw: st.DrawFn) -> Any:
        chosen = set(schema.get("required", ()))
        chosen |= set(draw(st.lists(st.sampled_from(sorted(fields)), max_size=3)))
        body = {
            name: draw(draw_values(fields.get(name, {}), schemas, depth + 1))
            for name in sorted(chosen)
        }
        if draw(st.integers(0, 30)) == 0:
            body[draw(st.sampled_from([*sorted(fields), "nothing"]))] = draw(JUNK)
        return body

    return make_body()


@st.composite
def draw_object(draw: st.DrawFn, operation: Operation) -> Any:
    """Return an object of the operation's kind."""
    body = draw(draw_structures(operation.schema, operation.schemas, 0))
    kind = operation.kind
    version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
    body["apiVersion"], body["kind"] = version, kind["kind"]
    body["metadata"] = {"name": draw(st.sampled_from(["a", "b", "a", "B!", ""]))}
    for name in draw(st.lists(st.sampled_from(sorted(_METADATA)), max_size=2)):
        body["metadata"][name] = draw(_METADATA[name])
    return body


@st.composite
def draw_request(draw: st.DrawFn, known: Sequence[Operation]) -> Any:
    """Return method, path, query, headers and body of a request."""
    operation = draw(st.sampled_from(known))
    path = operation.path.replace("{namespace}", "default")
    path = path.replace("{name}", draw(st.sampled_from(["a", "a", "b", "default", "%2e", "A_"])))
    query = {
        name: draw(st.sampled_from(["", "1", "true", "All", "Strict", "x", "a=b", "-1"]))
        for name in draw(st.lists(st.sampled_from(operation.parameters or ["limit"]), max_size=2))
        if name != "watch"
    }
    kind = draw(st.sampled_from(["application/json"] * 8 + ["application/yaml", "text/plain"]))
    if operation.method == "PATCH":
        kind = draw(PATCHES)
    data = b""
    if operation.method in {"POST", "PUT", "PATCH"}:
        whole = draw_object(operation).map(lambda body: json.dumps(body).encode())
        data = draw(st.one_of(whole, whole, whole, BROKEN))
    return operation.method, path, query, {"Content-Type": kind}, data


def mask_revision(answer: httpx.Response) -> Any:
    """Return an answer without the revision of a list.

    The server itself writes now and then: it renews its Lease.
    """
    if answer.status_code != 200:
        return answer.text
    body = answer.json()
    if "items" in body:
        body["metadata"].pop("resourceVersion", None)
    return body


def judge(answer: httpx.Response) -> None:
    """Hold an answer to what every client relies on."""
    # The real server has no better code for an apply with fields that are not in the schema.
    assert answer.status_code < 500 or UNDECLARED in answer.text, answer.text
    if answer.request.method == "HEAD":
        return
    if answer.status_code == 404 and answer.text == NOWHERE:
        # A kind whose definition was deleted on the way.
        return
    body = answer.json()
    if answer.status_code >= 400:
        assert (body["kind"], body["status"], body["code"]) == (
            "Status",
            "Failure",
            answer.status_code,
        )
        assert body["message"]


@pytest.mark.slow
async def test_requests_made_from_the_servers_own_description_are_answered_and_kept(
    http: httpx.AsyncClient,
) -> None:
    await http.post(PATH, json=build_gauge("a"))
    known = await list_operations(http)
    runner = asyncio.get_running_loop()
    accepted: list[str] = []

    def ask(*request: Any, **more: Any) -> httpx.Response:
        sent = http.request(*request, **more)
        return asyncio.run_coroutine_threadsafe(sent, runner).result(20)

    @settings(
        max_examples=250,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(draw_request(known))
    def fire(request: Any) -> None:
        method, path, query, headers, data = request
        before = ask("GET", path)
        answer = ask(method, path, params=query, headers=headers, content=data)
        judge(answer)
        if method == "GET" or before.status_code == 405:
            return
        after = ask("GET", path)
        if answer.status_code >= 400 or query.get("dryRun") == "All":
            assert mask_revision(after) == mask_revision(before)
            return
        accepted.append(path)
        body = answer.json()
        if method in {"PUT", "PATCH"}:
            # The last finalizer of an object that is to go takes it along.
            ended = "deletionTimestamp" in body["metadata"] and after.status_code == 404
            assert ended or after.json() == body
        elif method == "POST" and "name" in body.get("metadata", {}):
            single = f"{path}/{body['metadata']['name']}"
            assert ask("GET", single).json() == body

    await to_thread.run_sync(fire)

    assert len({path.split("/")[2] for path in accepted}) >= 3
    assert (await http.get("/readyz")).text == "ok"
