"""The scale of a custom resource: read, replaced and patched, whatever its path is."""

from typing import Any

import httpx
import pytest

from envtest.plane import RunningControlPlane as Plane
from tests.envtest.definitions.gears import GROUP

PATH = f"/apis/{GROUP}/v1/namespaces/default/plants"
MERGE = {"Content-Type": "application/merge-patch+json"}


def _build_crd() -> dict[str, Any]:
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
    await plane.install_crds([_build_crd()])
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Plant",
        "metadata": {"name": "a"},
        "spec": {"lines": {"count": 2}},
    }
    response = await http.post(PATH, json=body, params={"fieldManager": "maker"})
    assert response.status_code == 201, response.text
    status = {"status": {"lines": 1, "selector": "app=a"}}
    await http.patch(f"{PATH}/a/status", json=status, headers=MERGE)


def _scale(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a"},
        "spec": {"replicas": replicas},
    }


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
    assert (await http.get(f"{PATH}/a")).json()["spec"] == {"lines": {"count": 4}}
