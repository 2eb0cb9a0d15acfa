"""What a fresh server holds, and keeps."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from envtest.bootstrap import upkeep
from envtest.bootstrap.objects import identity
from envtest.bootstrap.policy import policy
from envtest.bootstrap.upkeep import reachable
from tests.envtest.servers import started

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES, BINDINGS = f"{RBAC}/clusterroles", f"{RBAC}/clusterrolebindings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
MAPS = "/api/v1/namespaces/kube-system/configmaps"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
EVENTS = {
    "apiGroups": ["", "events.k8s.io"],
    "resources": ["events"],
    "verbs": ["create", "patch", "update"],
}


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """The administrator of a fresh server."""
    async with started() as client:
        yield client


async def names(http: httpx.AsyncClient, path: str) -> list[str]:
    """Return the names in a collection, behind their namespaces where they have one."""
    found = (await http.get(path)).json()["items"]
    return ["/".join(filter(None, place(one["metadata"]))) for one in found]


def place(meta: dict[str, Any]) -> tuple[str, str]:
    return meta.get("namespace", ""), meta["name"]


async def test_a_fresh_server_has_the_roles_of_every_cluster(http: httpx.AsyncClient) -> None:
    roles, bindings = await names(http, ROLES), await names(http, BINDINGS)
    controllers = [one for one in roles if one.startswith("system:controller:")]

    assert {"admin", "cluster-admin", "edit", "view", "system:node-proxier"} <= set(roles)
    assert {"system:kube-scheduler", "system:heapster", "system:monitoring"} <= set(roles)
    assert len(controllers) == 38
    assert [one for one in bindings if one.startswith("system:controller:")] == controllers
    assert "system:auth-delegator" not in bindings


async def test_default_roles_are_marked_as_such(http: httpx.AsyncClient) -> None:
    found = [
        one
        for plural in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
        for one in (await http.get(f"{RBAC}/{plural}")).json()["items"]
    ]
    marks = {
        (
            one["metadata"]["labels"]["kubernetes.io/bootstrapping"],
            one["metadata"]["annotations"][AUTOUPDATE],
            one["metadata"]["managedFields"][0]["manager"],
        )
        for one in found
    }

    assert marks == {("rbac-defaults", "true", "kube-apiserver")}


async def test_a_controllers_role_grants_what_the_controller_does(
    http: httpx.AsyncClient,
) -> None:
    role = (await http.get(f"{ROLES}/system:controller:ttl-controller")).json()
    binding = (await http.get(f"{BINDINGS}/system:controller:ttl-controller")).json()

    nodes = {
        "apiGroups": [""],
        "resources": ["nodes"],
        "verbs": ["list", "patch", "update", "watch"],
    }
    assert role["rules"] == [nodes, EVENTS]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "ttl-controller", "namespace": "kube-system"}
    ]


async def test_some_default_roles_are_in_one_namespace(http: httpx.AsyncClient) -> None:
    leading = "kube-system/system::leader-locking-kube-"
    assert await names(http, f"{RBAC}/roles") == [
        "kube-public/system:controller:bootstrap-signer",
        "kube-system/extension-apiserver-authentication-reader",
        f"{leading}controller-manager",
        f"{leading}scheduler",
        "kube-system/system:controller:bootstrap-signer",
        "kube-system/system:controller:cloud-provider",
        "kube-system/system:controller:token-cleaner",
    ]
    assert len(await names(http, f"{RBAC}/rolebindings")) == 7


async def test_a_default_role_is_stored_as_a_client_would_have_made_it(
    http: httpx.AsyncClient,
) -> None:
    for plural, body in policy():
        meta = dict(body["metadata"])
        name, namespace = meta.pop("name"), meta.pop("namespace", "")
        home = f"{RBAC}/namespaces/{namespace}/{plural}" if namespace else f"{RBAC}/{plural}"
        made = (await http.get(f"{home}/{name}")).json()
        again = {**body, "metadata": {**meta, "name": f"{name}-again"}}
        answer = await http.post(home, json=again, params={"dryRun": "All"})
        if "aggregationRule" in body:
            made["rules"] = None
        assert shape(answer.json()) == shape(made), name


def shape(body: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what makes it this one."""
    body, meta = dict(body), dict(body["metadata"])
    for name in ("creationTimestamp", "name", "resourceVersion", "uid"):
        meta.pop(name, None)
    (entry,) = meta["managedFields"]
    meta["managedFields"] = entry["fieldsV1"]
    return {**body, "metadata": meta}


def test_the_lists_of_default_rules_are_in_kubernetes_order() -> None:
    lists = [
        values
        for _, body in policy()
        for rule in body.get("rules") or ()
        for values in rule.values()
    ]

    assert lists
    assert lists == [sorted(set(values)) for values in lists]


async def test_the_server_tells_where_it_is(http: httpx.AsyncClient) -> None:
    home = "/api/v1/namespaces/default"
    old = await http.get(f"{home}/endpoints/kubernetes")
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
        async with started(tmp_path) as http:
            home = "/api/v1/namespaces/default"
            service = (await http.get(f"{home}/services/kubernetes")).json()
            old = (await http.get(f"{home}/endpoints/kubernetes")).json()
            ports.append(http.base_url.port)

        assert service["spec"]["ports"][0]["targetPort"] == ports[-1]
        assert old["subsets"][0]["ports"][0]["port"] == ports[-1]
    assert ports[0] != ports[1]


@pytest.mark.parametrize(
    ("bound", "family"), [("0.0.0.0", r"\d+(\.\d+){3}"), ("::", "[0-9a-f:]+"), ("::1", "::1")]
)
def test_a_server_is_reached_at_an_address_of_its_own(bound: str, family: str) -> None:
    found = reachable(bound)

    assert re.fullmatch(family, found)
    assert found not in {"0.0.0.0", "::"}


async def test_the_server_gives_a_sign_of_life(http: httpx.AsyncClient) -> None:
    before = datetime.now(UTC)
    (lease,) = (await http.get(LEASES)).json()["items"]
    labels = lease["metadata"]["labels"]
    name = lease["metadata"]["name"]

    assert labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    assert name == identity(labels["kubernetes.io/hostname"])
    assert re.fullmatch("apiserver-[a-z2-7]{26}", name)
    assert lease["spec"]["holderIdentity"].startswith(f"{name}_")
    assert lease["spec"]["leaseDurationSeconds"] == 3600
    renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
    assert abs((before - renewed).total_seconds()) < 60


async def test_the_sign_of_life_is_given_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "_SECONDS", 0.01)
    seen: dict[str, str] = {}
    async with started() as http:
        with anyio.fail_after(10):
            while len(seen) < 3:
                (lease,) = (await http.get(LEASES)).json()["items"]
                seen[lease["spec"]["renewTime"]] = lease["spec"]["holderIdentity"]

    assert list(seen) == sorted(seen)
    assert len(set(seen.values())) == 1


async def test_what_the_server_is_found_by_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_SECONDS", 0.01)
    services = "/api/v1/namespaces/default/services"
    async with started() as http:
        uid = (await http.delete(f"{services}/kubernetes")).json()["metadata"]["uid"]
        with anyio.fail_after(10):
            while (answer := await http.get(f"{services}/kubernetes")).status_code == 404:
                await anyio.lowlevel.checkpoint()

    again = answer.json()
    assert again["metadata"]["uid"] != uid
    assert again["spec"]["clusterIP"] == "10.96.0.1"


async def test_aggregated_servers_find_whom_to_trust(http: httpx.AsyncClient) -> None:
    trust = (await http.get(f"{MAPS}/extension-apiserver-authentication")).json()
    since = (await http.get(f"{MAPS}/kube-apiserver-legacy-service-account-token-tracking")).json()

    assert trust["data"]["client-ca-file"].startswith("-----BEGIN CERTIFICATE-----")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", since["data"]["since"])
