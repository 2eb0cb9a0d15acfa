"""The OpenAPI documents tell of custom and built-in kinds."""

from typing import Any

import httpx

from tests.envtest.samples import GROUP

GAUGE = "com.example.lab.v1.Gauge"


async def read_document(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    assert answer.status_code == 200
    return answer.json()


def list_references(value: Any) -> set[str]:
    """Return all that a document refers to; `$ref` is also the name of a field of CRDs."""
    if isinstance(value, list):
        return {name for item in value for name in list_references(item)}
    if not isinstance(value, dict):
        return set()
    own = value.get("$ref")
    names = {name for item in value.values() for name in list_references(item)}
    return names | {own} if isinstance(own, str) else names


async def test_openapi_v3_describes_defaults_and_lists(http: httpx.AsyncClient) -> None:
    body = await read_document(http, f"/openapi/v3/apis/{GROUP}/v1")
    schemas = body["components"]["schemas"]

    assert schemas[GAUGE]["properties"]["spec"]["properties"]["count"]["default"] == 1
    assert schemas[GAUGE]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.place"}]
    assert schemas[f"{GAUGE}List"]["properties"]["items"]["items"] == {
        "$ref": f"#/components/schemas/{GAUGE}"
    }


async def test_every_reference_resolves(http: httpx.AsyncClient) -> None:
    for path in (f"apis/{GROUP}/v1", "api/v1", "apis/apps/v1"):
        body = await read_document(http, f"/openapi/v3/{path}")
        known = {f"#/components/schemas/{name}" for name in body["components"]["schemas"]}

        assert list_references(body) <= known


async def test_a_removed_definition_is_not_published_any_more(http: httpx.AsyncClient) -> None:
    path = f"/openapi/v3/apis/{GROUP}/v1"
    await read_document(http, path)
    await http.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gauges.{GROUP}")

    assert (await http.get(path)).status_code == 404


async def test_writing_operations_name_their_parameters(http: httpx.AsyncClient) -> None:
    """Kubectl asks them whether dry runs and strict validation are possible."""
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/gauges/{{name}}"
    patch = (await read_document(http, f"/openapi/v3/apis/{GROUP}/v1"))["paths"][path]["patch"]

    assert [parameter["name"] for parameter in patch["parameters"]] == [
        "dryRun",
        "fieldManager",
        "fieldValidation",
    ]


async def test_the_second_version_has_nothing_in_it(http: httpx.AsyncClient) -> None:
    """Kubectl reads it before it applies a List, and judges no object by it."""
    accept = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    plain = await read_document(http, "/openapi/v2")
    binary = await http.get("/openapi/v2", headers=accept)

    assert (plain["swagger"], plain["paths"]) == ("2.0", {})
    assert "protobuf" in binary.headers["Content-Type"]
    assert binary.content.startswith(b"\x0a\x032.0")
