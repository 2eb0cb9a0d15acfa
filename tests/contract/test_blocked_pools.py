"""Allocations of a pool that allocates nothing; and status writes without a change."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.client import Client
from controller.config import connect
from controller.errors import Conflict
from controller.meta import Key
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import names
from reconcilers.api.crd import build_crds
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.settings import PoolSettings, Settings
from tests.contract.test_route import ALLOCATION_ROUTE, HOME, create_object, run_all_controllers
from tests.contract.test_route import NETWORK_POOL as POOL
from tests.polling import until

PATH = f"{HOME}/networkpools/lab"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def create_pool_and_kinds(plane: Plane, admin: httpx.AsyncClient) -> None:
    """Install our kinds, our namespace, and a pool."""
    await plane.install_crds(build_crds())
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.DEFAULT_NAMESPACE}}
    assert (await admin.post("/api/v1/namespaces", json=body)).status_code == 201
    await create_object(admin, f"{HOME}/networkpools", POOL)


async def send_patch(admin: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Apply a merge patch to an object."""
    answer = await admin.patch(path, json=body, headers=MERGE)
    assert answer.status_code == 200, answer.text


async def test_an_empty_status_patch_checks_the_resource_version_and_does_not_change_it(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await create_pool_and_kinds(plane, admin)
    transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    client = Client(transport)
    condition = {"type": "Ready", "status": "False", "reason": "ValidationFailed"}
    empty_condition = condition | {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await send_patch(admin, f"{PATH}/status", {"status": {"conditions": [empty_condition]}})
    pool = await client.get(NETWORK_POOL, Key(names.DEFAULT_NAMESPACE, "lab"))
    unchanged = await client.patch_status(NETWORK_POOL, pool, {})
    assert unchanged.metadata.resourceVersion == pool.metadata.resourceVersion
    await send_patch(admin, PATH, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        await client.patch_status(NETWORK_POOL, pool, {})
    await transport.aclose()


async def test_an_allocation_reports_that_its_pool_may_not_allocate_and_is_served_once_it_may(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await create_pool_and_kinds(plane, admin)
    transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    collection = ALLOCATION_ROUTE.collection

    async def read_status() -> dict[str, Any]:
        status = (await admin.get(f"{collection}/one")).json().get("status") or {}
        return dict(status)

    def is_blocked(status: dict[str, Any]) -> bool:
        ready = {entry["type"]: entry for entry in status.get("conditions", ())}.get("Ready", {})
        return (status.get("phase"), ready.get("reason")) == ("Pending", "PoolNotReady")

    closed_namespace = Settings(pool=PoolSettings(namespaces=("elsewhere",)))
    async with run_all_controllers(transport, closed_namespace):
        await create_object(admin, collection, ALLOCATION_ROUTE.body)
        await until(read_status, is_blocked)
    async with run_all_controllers(transport, Settings()):
        await until(read_status, lambda status: status.get("phase") == "Allocated")
    await transport.aclose()
