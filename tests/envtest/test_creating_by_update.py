"""Who may make an object by changing it: a PUT or an apply of what is not there."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from envtest import ControlPlane, User
from tests.envtest.conftest import create_admin_client

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
JOE = {"Authorization": "Bearer t"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator; joe may change everything, and make what is called `mine`."""
    async with (
        ControlPlane.start(force_embedded=True, tokens={"t": User("joe")}) as plane,
        create_admin_client(plane) as admin,
    ):
        every_resource: dict[str, Any] = {"apiGroups": ["*"], "resources": ["*"]}
        rules = [
            {**every_resource, "verbs": ["get", "patch", "update"]},
            {**every_resource, "verbs": ["create"], "resourceNames": ["mine"]},
        ]
        await admin.post(f"{RBAC}/clusterroles", json={"metadata": {"name": "r"}, "rules": rules})
        binding = {
            "metadata": {"name": "r"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "joe"}],
        }
        await admin.post(f"{RBAC}/clusterrolebindings", json=binding)
        yield admin


async def apply(http: httpx.AsyncClient, name: str, **query: str) -> httpx.Response:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: b}}\n"
    return await http.patch(
        f"{MAPS}/{name}",
        content=body,
        headers={**JOE, **APPLY},
        params={"fieldManager": "joe", **query},
    )


async def test_an_apply_that_would_make_an_object_needs_the_right_to(
    http: httpx.AsyncClient,
) -> None:
    refused = await apply(http, "other")
    dry = await apply(http, "other", dryRun="All")
    created = await apply(http, "mine")
    await http.post(MAPS, json={"metadata": {"name": "other"}})
    changed = await apply(http, "other")

    codes = [response.status_code for response in (refused, dry, created, changed)]
    assert codes == [403, 403, 201, 200]
    assert refused.json()["message"] == 'configmaps "other" is forbidden: '
    assert refused.json()["reason"] == "Forbidden"


async def test_an_update_that_would_make_an_object_needs_the_right_to(
    http: httpx.AsyncClient,
) -> None:
    verbs = []
    for name in ("other", "mine"):
        body = {"metadata": {"name": name}, "spec": {"holderIdentity": "joe"}}
        answer = await http.put(f"{LEASES}/{name}", json=body, headers=JOE)
        verbs.append(answer.status_code)

    assert verbs == [403, 201]
