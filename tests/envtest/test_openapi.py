"""The OpenAPI documents tell of custom and built-in kinds, in both versions."""

from typing import Any

import httpx

from envtest.wire.varints import fields
from tests.envtest.samples import GROUP

GAUGE = "com.example.lab.v1.Gauge"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


async def document(http: httpx.AsyncClient, path: str) -> Any:
    answer = await http.get(path)
    assert answer.status_code == 200
    return answer.json()


def references(value: Any) -> set[str]:
    """Return all that a document refers to; `$ref` is also the name of a field of CRDs."""
    if isinstance(value, list):
        return {name for item in value for name in references(item)}
    if not isinstance(value, dict):
        return set()
    own = value.get("$ref")
    found = {name for item in value.values() for name in references(item)}
    return found | {own} if isinstance(own, str) else found


async def test_the_second_version_has_all_groups_in_one_document(http: httpx.AsyncClient) -> None:
    found = (await document(http, "/openapi/v2"))["definitions"]

    assert {GAUGE, f"{GAUGE}List", META, "io.k8s.api.core.v1.Service"} <= found.keys()
    spec = found[GAUGE]["properties"]["spec"]["properties"]
    assert spec["count"] == {"type": "integer", "minimum": 0}
    assert found["io.k8s.api.core.v1.Service"]["properties"]["metadata"] == {
        "$ref": f"#/definitions/{META}"
    }
    ports = found["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]
    assert ports["x-kubernetes-patch-merge-key"] == "port"


async def test_a_value_of_two_types_is_a_text_in_the_second_version(
    http: httpx.AsyncClient,
) -> None:
    found = (await document(http, "/openapi/v2"))["definitions"]

    quantity = found["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert (quantity["type"], "oneOf" in quantity) == ("string", False)


async def test_the_third_version_tells_of_defaults_and_lists(http: httpx.AsyncClient) -> None:
    body = await document(http, f"/openapi/v3/apis/{GROUP}/v1")
    found = body["components"]["schemas"]

    assert found[GAUGE]["properties"]["spec"]["properties"]["count"]["default"] == 1
    assert found[GAUGE]["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.place"}]
    assert found[f"{GAUGE}List"]["properties"]["items"]["items"] == {
        "$ref": f"#/components/schemas/{GAUGE}"
    }


async def test_no_reference_leads_nowhere(http: httpx.AsyncClient) -> None:
    second = (await document(http, "/openapi/v2"))["definitions"]
    third = (await document(http, f"/openapi/v3/apis/{GROUP}/v1"))["components"]["schemas"]

    assert references(second) == {
        name for name in references(second) if name.removeprefix("#/definitions/") in second
    }
    assert references(third) == {
        name for name in references(third) if name.removeprefix("#/components/schemas/") in third
    }


async def test_a_removed_definition_is_told_no_more(http: httpx.AsyncClient) -> None:
    await document(http, "/openapi/v2")
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gauges.{GROUP}"
    await http.delete(path)

    assert GAUGE not in (await document(http, "/openapi/v2"))["definitions"]


async def test_writing_operations_name_their_parameters(http: httpx.AsyncClient) -> None:
    """Kubectl asks them whether dry runs and strict validation are possible."""
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/gauges/{{name}}"
    second = (await document(http, "/openapi/v2"))["paths"][path]["patch"]
    third = (await document(http, f"/openapi/v3/apis/{GROUP}/v1"))["paths"][path]["patch"]

    names = ["dryRun", "fieldManager", "fieldValidation"]
    assert [one["name"] for one in second["parameters"]] == names
    assert [one["name"] for one in third["parameters"]] == names
    assert "schema" not in second["parameters"][0]


def _parts(data: bytes, number: int) -> list[bytes]:
    """Return the texts or messages in one field of a message."""
    return [value for found, value in fields(data) if found == number and isinstance(value, bytes)]


def _named(data: bytes, number: int = 1) -> dict[str, bytes]:
    """Return the entries of a message of names and values."""
    pairs = [(_parts(entry, 1)[0], _parts(entry, 2)) for entry in _parts(data, number)]
    return {name.decode(): value[0] if value else b"" for name, value in pairs}


async def test_the_second_version_says_the_same_in_protobuf(http: httpx.AsyncClient) -> None:
    """Field numbers are those of gnostic's `openapi.v2` messages."""
    plain = await document(http, "/openapi/v2")
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    answer = await http.get("/openapi/v2", headers={"Accept": accept})

    assert answer.headers["Content-Type"] == (
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    )
    (paths,), (found,) = _parts(answer.content, 8), _parts(answer.content, 9)
    definitions = _named(found)
    assert definitions.keys() == plain["definitions"].keys()
    assert _named(paths, 2).keys() == plain["paths"].keys()
    gauge = definitions[GAUGE]
    (properties,) = _parts(gauge, 25)
    assert _named(properties).keys() == plain["definitions"][GAUGE]["properties"].keys()
    metadata = _named(properties)["metadata"]
    assert _parts(metadata, 1) == [f"#/definitions/{META}".encode()]
    (spec,) = _parts(_named(properties)["spec"], 25)
    count = dict(fields(_named(spec)["count"]))
    assert count[22] == b"\x0a\x07integer"
    assert count[9] == bytes(8)
    extensions = _named(gauge, 31)
    assert _parts(extensions["x-kubernetes-group-version-kind"], 2) == [
        f'[{{"group":"{GROUP}","version":"v1","kind":"Gauge"}}]'.encode()
    ]
