"""What a fresh server holds."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from envtest.listening import find_reachable_address
from tests.envtest.servers import start_server

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{RBAC}/clusterroles"
HOME = "/api/v1/namespaces/default"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator of a fresh server."""
    async with start_server() as client:
        yield client


async def test_a_fresh_server_has_the_namespaces_of_the_system(http: httpx.AsyncClient) -> None:
    namespace = (await http.get("/api/v1/namespaces")).json()["items"]

    assert [obj["metadata"]["name"] for obj in namespace] == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]


async def test_the_role_admin_includes_edit_and_edit_includes_view(
    http: httpx.AsyncClient,
) -> None:
    admin, edit, view = [
        (await http.get(f"{ROLES}/{name}")).json()["rules"] for name in ("admin", "edit", "view")
    ]

    assert view
    assert all(rule in edit for rule in view)
    assert all(rule in admin for rule in edit)
    assert len(view) < len(edit) < len(admin)


async def test_a_role_that_was_removed_is_there_again_after_a_start(tmp_path: Path) -> None:
    async with start_server(tmp_path) as http:
        removed = await http.delete(f"{ROLES}/cluster-admin")
        gone = await http.get(f"{ROLES}/cluster-admin")
    async with start_server(tmp_path) as http:
        again = await http.get(f"{ROLES}/cluster-admin")

    assert [response.status_code for response in (removed, gone, again)] == [200, 404, 200]


async def test_the_server_prints_where_it_listens(http: httpx.AsyncClient) -> None:
    old = await http.get(f"{HOME}/endpoints/kubernetes")
    new = (
        await http.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")
    ).json()

    port = {"name": "https", "port": http.base_url.port, "protocol": "TCP"}
    assert old.json()["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": [port]}]
    assert old.headers["Warning"] == (
        '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    )
    assert new["addressType"] == "IPv4"
    assert new["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
    assert new["ports"] == [port]
    assert new["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}


async def test_a_server_that_moved_says_so(tmp_path: Path) -> None:
    ports = []
    for _ in range(2):
        async with start_server(tmp_path) as http:
            service = (await http.get(f"{HOME}/services/kubernetes")).json()
            old = (await http.get(f"{HOME}/endpoints/kubernetes")).json()
            ports.append(http.base_url.port)

        assert service["spec"]["clusterIP"] == "10.96.0.1"
        assert service["spec"]["ports"][0]["targetPort"] == ports[-1]
        assert old["subsets"][0]["ports"][0]["port"] == ports[-1]
    assert ports[0] != ports[1]


@pytest.mark.parametrize(
    ("bound", "family"), [("0.0.0.0", r"\d+(\.\d+){3}"), ("::", "[0-9a-f:]+"), ("::1", "::1")]
)
def test_a_server_is_reached_at_an_address_of_its_own(bound: str, family: str) -> None:
    address = find_reachable_address(bound)

    assert re.fullmatch(family, address)
    assert address not in {"0.0.0.0", "::"}
