"""What namespaces and owners leave behind, where their controllers run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from envtest import ControlPlane
from envtest.plane import Controller
from tests.polling import SECONDS

MAPS = "/api/v1/namespaces/{}/configmaps"
_NAMES: dict[Controller, str] = {
    "namespaces": "the controller that empties namespaces",
    "garbage": "the garbage collector",
}


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[httpx.AsyncClient]:
    """Run a control plane with a controller; skip the test if the binaries lack it.

    This is no fixture, because a control plane with controllers must start and end in one task.
    """
    async with ControlPlane.start(
        namespace_controller=controller == "namespaces", garbage_collector=controller == "garbage"
    ) as plane:
        if controller not in plane.controllers:
            pytest.skip(
                f"{_NAMES[controller]} is kube-controller-manager, which is not among the binaries"
            )
        async with httpx.AsyncClient(
            base_url=plane.url,
            verify=plane.create_admin_tls(),
            headers=plane.build_admin_headers(),
            timeout=30,
        ) as admin:
            yield admin


async def wait_until_gone(http: httpx.AsyncClient, path: str) -> None:
    """Wait until an object is gone, by watches of its collection."""
    collection, _, name = path.rpartition("/")
    listed = (await http.get(collection)).json()
    names: list[Any] = [item["metadata"]["name"] for item in listed["items"]]
    if name not in names:
        return
    # Short watches, each read to its end, from the same revision: none can miss the event.
    query = {
        "watch": "1",
        "resourceVersion": listed["metadata"]["resourceVersion"],
        "fieldSelector": f"metadata.name={name}",
        "timeoutSeconds": "1",
    }
    with anyio.fail_after(SECONDS):
        while '"type":"DELETED"' not in (await http.get(collection, params=query)).text:
            pass


async def test_deleting_a_namespace_deletes_its_content() -> None:
    async with running("namespaces") as admin:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}}
        assert (await admin.post("/api/v1/namespaces", json=namespace)).status_code == 201
        maps = MAPS.format("short-lived")
        assert (await admin.post(maps, json={"metadata": {"name": "a"}})).status_code == 201
        await admin.delete("/api/v1/namespaces/short-lived")

        await wait_until_gone(admin, "/api/v1/namespaces/short-lived")
        assert (await admin.get(maps)).json()["items"] == []


async def test_an_object_is_deleted_after_its_owner() -> None:
    async with running("garbage") as admin:
        maps = MAPS.format("default")
        owner = (await admin.post(maps, json={"metadata": {"name": "owner"}})).json()
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        dependent = {"metadata": {"name": "dependent", "ownerReferences": [reference]}}
        assert (await admin.post(maps, json=dependent)).status_code == 201
        await admin.delete(f"{maps}/owner", params={"propagationPolicy": "Background"})

        await wait_until_gone(admin, f"{maps}/dependent")
