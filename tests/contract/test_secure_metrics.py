"""/metrics over HTTPS, for users whom the API server authorizes to get it."""

from pathlib import Path
from typing import Any

import anyio
import httpx
import yaml

from controller import Manager, ManagerOptions, connect
from envtest.plane import RunningControlPlane as Plane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPTIONS = ManagerOptions(metrics_bind="127.0.0.1:0", metrics_secure=True)


async def bind_metrics_reader(admin: httpx.AsyncClient, account: str) -> None:
    """Allow a ServiceAccount of namespace `default` to get /metrics."""
    role: dict[str, Any] = {
        "metadata": {"name": "metrics-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    binding = {
        "metadata": {"name": "metrics-reader"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    for kind, body in (("clusterroles", role), ("clusterrolebindings", binding)):
        created = await admin.post(f"{RBAC}/{kind}", json=body)
        assert created.status_code == 201, created.text


async def create_token(admin: httpx.AsyncClient, account: str) -> str:
    """Create a ServiceAccount in namespace `default`; return a token of it."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await admin.post(accounts, json={"metadata": {"name": account}})
    response = await admin.post(f"{accounts}/{account}/token", json={"spec": {}})
    assert response.status_code == 201, response.text
    return str(response.json()["status"]["token"])


async def test_metrics_are_served_to_users_that_rbac_allows_to_get_them(
    plane: Plane, admin: httpx.AsyncClient, tmp_path: Path
) -> None:
    allowed_token, other_token = (
        await create_token(admin, "scraper"),
        await create_token(admin, "other"),
    )
    await bind_metrics_reader(admin, "scraper")
    config = plane.write_kubeconfig(tmp_path / "kubeconfig")
    transport = await connect(config)
    manager = Manager(transport, options=OPTIONS)
    async with anyio.create_task_group() as group:
        group.start_soon(manager.run)
        await manager.wait_serving()
        url = f"https://127.0.0.1:{manager.metrics_port}/metrics"
        async with httpx.AsyncClient(verify=False) as client:
            codes = [
                (
                    await client.get(url, headers={"Authorization": f"Bearer {token_text}"})
                ).status_code
                for token_text in (allowed_token, other_token, "nonsense")
            ]
            codes.append((await client.get(url)).status_code)
            headers = {"Authorization": f"Bearer {allowed_token}"}
            exposition = (await client.get(url, headers=headers)).text
        manager.stop()
    await transport.aclose()
    host = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
    assert codes == [200, 403, 401, 401]
    labels = f'host="{host.partition("://")[2]}",method="POST"'
    assert f'rest_client_requests_total{{code="201",{labels}}}' in exposition
