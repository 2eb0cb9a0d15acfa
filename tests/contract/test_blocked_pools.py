"""A pool that hands out nothing, and the allocations that wait for it, on a server."""

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
from reconcilers.api.crd import crds
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.settings import PoolSettings, Settings
from tests.contract.test_route import ALLOCATION_ROUTE, HOME, all_controllers, create
from tests.contract.test_route import NETWORK_POOL as POOL
from tests.polling import until

PATH = f"{HOME}/networkpools/lab"
MERGE = {"Content-Type": "application/merge-patch+json"}


async def install(plane: Plane, admin: httpx.AsyncClient) -> None:
    """Install our kinds, our namespace, and a pool."""
    await plane.install_crds(crds())
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.DEFAULT_NAMESPACE}}
    assert (await admin.post("/api/v1/namespaces", json=body)).status_code == 201
    await create(admin, f"{HOME}/networkpools", POOL)


async def patch(admin: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    """Merge a patch into an object."""
    answer = await admin.patch(path, json=body, headers=MERGE)
    assert answer.status_code == 200, answer.text


async def test_a_write_that_changes_nothing_checks_the_version_and_makes_no_new_one(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await install(plane, admin)
    transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    client = Client(transport)
    condition = {"type": "Ready", "status": "False", "reason": "ValidationFailed"}
    empty_condition = condition | {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await patch(admin, f"{PATH}/status", {"status": {"conditions": [empty_condition]}})
    pool = await client.get(NETWORK_POOL, Key(names.DEFAULT_NAMESPACE, "lab"))
    unchanged = await client.patch_status(NETWORK_POOL, pool, {})
    assert unchanged.metadata.resourceVersion == pool.metadata.resourceVersion
    await patch(admin, PATH, {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict):
        await client.patch_status(NETWORK_POOL, pool, {})
    await transport.aclose()


async def test_allocations_show_why_their_pool_hands_out_nothing_and_are_served_after_that(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    await install(plane, admin)
    transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    collection = ALLOCATION_ROUTE.collection

    async def read() -> dict[str, Any]:
        status = (await admin.get(f"{collection}/one")).json().get("status") or {}
        return dict(status)

    def is_blocked(status: dict[str, Any]) -> bool:
        ready = {entry["type"]: entry for entry in status.get("conditions", ())}.get("Ready", {})
        return (status.get("phase"), ready.get("reason")) == ("Pending", "PoolNotReady")

    elsewhere = Settings(pool=PoolSettings(namespaces=("elsewhere",)))
    async with all_controllers(transport, elsewhere):
        await create(admin, collection, ALLOCATION_ROUTE.body)
        await until(read, is_blocked)
    async with all_controllers(transport, Settings()):
        await until(read, lambda status: status.get("phase") == "Allocated")
    await transport.aclose()
