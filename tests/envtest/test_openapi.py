"""The OpenAPI documents tell of custom and built-in kinds, in both versions."""

from typing import Any

import httpx

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
