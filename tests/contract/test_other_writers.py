"""A server's managedFields name the writers of a status, but not all former writers."""

import httpx
import pytest

from reconcilers.api import names

pytestmark = pytest.mark.asyncio(loop_scope="module")
POOLS = f"/apis/{names.API_VERSION}/namespaces/default/networkpools"


async def test_a_field_manager_vanishes_once_another_manager_has_written_all_its_fields(
    shared_admin: httpx.AsyncClient,
) -> None:
    """So a controller that must remember a foreign writer cannot rely on managedFields alone."""
    body = {
        "apiVersion": names.API_VERSION,
        "kind": "NetworkPool",
        "metadata": {"generateName": "writers-"},
        "spec": {"cidr": "10.0.0.0/24"},
    }
    created = (await shared_admin.post(POOLS, json=body)).raise_for_status().json()
    path = f"{POOLS}/{created['metadata']['name']}/status"
    ours = names.FIELD_MANAGER
    assert await write_ready_condition(shared_admin, path, manager=ours, ready="True") == {ours}
    assert await write_ready_condition(shared_admin, path, manager="manager", ready="False") == {
        ours,
        "manager",
    }
    assert await write_ready_condition(shared_admin, path, manager=ours, ready="True") == {ours}


async def write_ready_condition(
    admin: httpx.AsyncClient, path: str, manager: str, ready: str
) -> set[str]:
    """Write the Ready condition as a field manager; return all managers of the status.

    Args:
        admin: the administrator's client.
        path: the path of the status.
        manager: the field manager.
        ready: the status of the condition.
    """
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Test",
        "message": "test",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    answer = await admin.patch(
        path,
        json={"status": {"conditions": [condition]}},
        params={"fieldManager": manager},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    entries = answer.raise_for_status().json()["metadata"]["managedFields"]
    return {entry["manager"] for entry in entries if entry.get("subresource") == "status"}
