"""A real server that a test has borrowed is as a new one for the next test."""

import base64
import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from envtest.binaries import RealControlPlane, _Starter
from envtest.plane import ControlPlane as Plane
from envtest.settings import Settings, read_settings
from reconcilers.api.crd import crds
from tests import keptservers
from tests.contract.conftest import administrator
from tests.polling import until
from tests.servers import SERVERS, Server, running

POOLS = "/apis/butler.butlerlabs.dev/v1alpha1/namespaces/lab/networkpools"
LISTED = (
    "/api/v1/namespaces",
    "/api/v1/services",
    "/api/v1/configmaps",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
)
"""Collections of all that the test writes."""

pytestmark = pytest.mark.slow


@pytest.fixture
def programs() -> Settings:
    """The programs of a real server."""
    settings = read_settings()
    if settings.kind != "binaries":
        pytest.skip("needs etcd and kube-apiserver as processes: set KUBEBUILDER_ASSETS")
    return settings


def pids(plane: Plane) -> list[int]:
    """Return the processes of a server."""
    return [child.process.pid for child in getattr(plane, "processes", ())]


async def state(admin: httpx.AsyncClient) -> Mapping[str, Any]:
    """Return names, labels and contents of all objects, without versions."""
    seen: dict[str, Any] = {}
    for path in LISTED:
        body = (await admin.get(path)).json()
        for item in body["items"]:
            meta = item.pop("metadata")
            item.pop("status", None)
            seen[f"{path} {meta.get('namespace')} {meta['name']}"] = (meta.get("labels"), item)
    return seen


async def write_much(plane: Plane, admin: httpx.AsyncClient) -> None:
    """Create what an ordinary deletion leaves behind, and change what a new cluster has."""
    await plane.install_crds(crds())
    pool = {"metadata": {"name": "p", "finalizers": ["lab.example.com/hold"]}}
    webhook = {
        "name": "all.lab.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
        ],
    }
    registration = {
        "metadata": {"name": "v1.lab.example.com"},
        "spec": {
            "group": "lab.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 1,
            "service": {"name": "web", "namespace": "lab"},
            "insecureSkipTLSVerify": True,
        },
    }
    bodies: dict[str, Mapping[str, Any]] = {
        "/api/v1/namespaces": {"metadata": {"name": "lab"}},
        POOLS: {**pool, "apiVersion": "butler.butlerlabs.dev/v1alpha1", "kind": "NetworkPool"}
        | {"spec": {"cidr": "10.40.0.0/24"}},
        "/api/v1/namespaces/lab/services": {
            "metadata": {"name": "web"},
            "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        },
        "/apis/apiregistration.k8s.io/v1/apiservices": registration,
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {
            "metadata": {"name": "all"},
            "webhooks": [webhook],
        },
    }
    change = {"metadata": {"labels": {"lab": "yes"}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    for path in ("/api/v1/namespaces/default", f"{LISTED[6]}/view"):
        (await admin.patch(path, json=change, headers=merge)).raise_for_status()
    (await admin.delete(f"{LISTED[6]}/edit")).raise_for_status()
    for path, body in bodies.items():
        (await admin.post(path, json=body)).raise_for_status()
    assert (await admin.delete(f"{POOLS}/p")).status_code >= 400, "the webhook refuses it"


@pytest.mark.parametrize("server", SERVERS)
async def test_the_next_borrower_of_a_server_finds_a_new_cluster(
    server: Server, programs: Settings
) -> None:
    async with running(server) as plane, administrator(plane) as admin:
        first, before = pids(plane), await state(admin)
        await plane.add_user("joe")
        await write_much(plane, admin)
    async with running(server) as plane, administrator(plane) as admin:
        assert pids(plane) == first, "the same server"
        assert await state(admin) == before
        with pytest.raises(Exception, match="no user joe"):
            plane.kubeconfig("joe")
        groups = (await admin.get("/apis")).json()["groups"]
        assert not [group["name"] for group in groups if "lab" in group["name"]]
        await plane.install_crds(crds())
        (await admin.post("/api/v1/namespaces", json={"metadata": {"name": "lab"}}))
        assert (await admin.get(POOLS)).json()["items"] == []


async def test_two_borrowers_at_the_same_time_have_two_servers(programs: Settings) -> None:
    async with running() as plane, running() as other:
        assert not set(pids(plane)) & set(pids(other))


async def test_a_server_that_a_test_has_killed_is_lent_to_nobody(programs: Settings) -> None:
    async with running() as plane:
        killed = getattr(plane, "processes")[1].process  # noqa: B009 - of real servers only
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert not set(pids(plane)) & keptservers.processes()
    async with running() as another, administrator(another) as admin:
        assert (await admin.get("/api/v1/namespaces/default")).status_code == 200


async def test_a_server_that_compacts_its_history_is_lent_again(
    programs: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = _Starter._apiserver_arguments
    monkeypatch.setattr(
        _Starter,
        "_apiserver_arguments",
        lambda *given: [*arguments(*given), "--etcd-compaction-interval=1s"],
    )
    settings = replace(programs, start_seconds=programs.start_seconds + 1)  # not lent to others
    async with keptservers.borrowed(settings) as plane:
        assert isinstance(plane, RealControlPlane)
        first = pids(plane)
        noted = await until(lambda: compactions(plane), lambda number: number > 0)
    async with keptservers.borrowed(settings) as plane:
        assert pids(plane) == first, "the same server"
        assert isinstance(plane, RealControlPlane)
        await until(lambda: compactions(plane), lambda number: number > noted + 1)
        plane.processes[1].process.kill()  # it has flags that no other test asks for
        plane.processes[1].process.wait()


async def compactions(plane: RealControlPlane) -> int:
    """Return how often kube-apiserver has noted a compaction in etcd."""
    key = base64.b64encode(b"compact_rev_key").decode()
    answer = await keptservers._ask_etcd(plane, "range", {"key": key})
    return sum(int(pair["version"]) for pair in answer.get("kvs", ()))
