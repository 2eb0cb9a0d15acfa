"""The scale of a custom resource: read, replaced, patched and applied, whatever its path is."""

import json
from typing import Any

import httpx
import pytest

from envtest.plane import ControlPlane as Plane
from tests.envtest.definitions.gears import GROUP

PATH = f"/apis/{GROUP}/v1/namespaces/default/plants"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON = {"Content-Type": "application/json-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


def _crd() -> dict[str, Any]:
    number = {"type": "integer"}
    lines = {"type": "object", "properties": {"count": number}}
    status = {"lines": number, "selector": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"lines": lines}},
            "status": {"type": "object", "properties": status},
        },
    }
    scale = {
        "specReplicasPath": ".spec.lines.count",
        "statusReplicasPath": ".status.lines",
        "labelSelectorPath": ".status.selector",
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}, "scale": scale},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"plants.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "plants", "kind": "Plant"},
            "versions": [version],
        },
    }


@pytest.fixture(autouse=True)
async def plant(http: httpx.AsyncClient, plane: Plane) -> None:
    """Serve plants, and have one with two lines."""
    await plane.install_crds([_crd()])
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Plant",
        "metadata": {"name": "a"},
        "spec": {"lines": {"count": 2}},
    }
    made = await http.post(PATH, json=body, params={"fieldManager": "maker"})
    assert made.status_code == 201, made.text
    status = {"status": {"lines": 1, "selector": "app=a"}}
    await http.patch(f"{PATH}/a/status", json=status, headers=MERGE)


def _scale(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": replicas},
    }


async def _apply(http: httpx.AsyncClient, replicas: int, **query: str) -> httpx.Response:
    text = json.dumps(_scale(replicas))
    params = {"fieldManager": "scaler", **query}
    return await http.patch(f"{PATH}/a/scale", content=text, params=params, headers=APPLY)


async def test_a_scale_shows_numbers_and_selector_from_their_paths(
    http: httpx.AsyncClient,
) -> None:
    scale = (await http.get(f"{PATH}/a/scale")).json()
    assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 2},
        {"replicas": 1, "selector": "app=a"},
    )


async def test_a_scale_can_be_replaced_and_patched(http: httpx.AsyncClient) -> None:
    replaced = await http.put(f"{PATH}/a/scale", json=_scale(3))
    assert replaced.json()["spec"] == {"replicas": 3}
    merged = await http.patch(f"{PATH}/a/scale", json={"spec": {"replicas": 4}}, headers=MERGE)
    assert merged.json()["spec"] == {"replicas": 4}
    steps = [{"op": "replace", "path": "/spec/replicas", "value": 5}]
    stepped = await http.patch(f"{PATH}/a/scale", json=steps, headers=JSON)
    assert stepped.json()["spec"] == {"replicas": 5}
    assert (await http.get(f"{PATH}/a")).json()["spec"] == {"lines": {"count": 5}}


async def test_an_applied_scale_conflicts_with_who_set_the_number(
    http: httpx.AsyncClient,
) -> None:
    refused = await _apply(http, 7)
    assert refused.status_code == 409
    assert refused.json()["details"]["causes"][0]["field"] == ".spec.replicas"


async def test_an_applied_scale_that_would_change_the_number_cannot_be_converted(
    http: httpx.AsyncClient,
) -> None:
    before = (await http.get(f"{PATH}/a")).json()
    forced = await _apply(http, 7, force="true")
    assert (forced.status_code, forced.json()["message"]) == (
        500,
        (
            "failed to convert new object (/a; autoscaling/v1, Kind=Scale) to proper version: "
            "request to convert CR to an invalid group/version: autoscaling/v1"
        ),
    )
    assert (await http.get(f"{PATH}/a")).json() == before


async def test_a_patch_type_that_custom_resources_have_not_is_refused(
    http: httpx.AsyncClient,
) -> None:
    refused = await http.patch(f"{PATH}/a/scale", json={}, headers=STRATEGIC)
    assert refused.status_code == 415
    assert refused.json()["message"].endswith(
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_a_table_of_a_scale_shows_the_numbers_that_are_wanted_and_there(
    http: httpx.AsyncClient,
) -> None:
    wanted = "application/json;as=Table;g=meta.k8s.io;v=v1"
    table = (await http.get(f"{PATH}/a/scale", headers={"Accept": wanted})).json()
    titles = [(column["name"], column["type"]) for column in table["columnDefinitions"]]
    assert titles == [
        ("Name", "string"),
        ("Desired", "integer"),
        ("Available", "integer"),
        ("Age", "date"),
    ]
    (row,) = table["rows"]
    assert row["cells"][:3] == ["a", 2, 1]
    assert row["object"]["kind"] == "PartialObjectMetadata"
