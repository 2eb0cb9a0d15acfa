"""The webhooks behind an API server: rejections with fields, warnings, and unblocked writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from controller.clock import SystemClock
from controller.config import connect
from controller.informer import Informer
from controller.manager import Manager
from controller.meta import Key
from controller.options import ManagerOptions, SelfSigned
from controller.transport import Transport
from envtest.plane import RunningControlPlane as Plane
from reconcilers.api import crd, names
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import (
    AllocationSettings,
    PoolSettings,
    Settings,
    TenantSettings,
)
from reconcilers.webhooks.configuration import NAME, SERVICE, build_configuration, find_path
from reconcilers.wiring import assemble
from tests.contract.roles import list_manifests
from tests.polling import SECONDS

HOME = names.DEFAULT_NAMESPACE
HOST = "127.0.0.1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DELETED = "gone"
SETTINGS = Settings(
    tenant=TenantSettings(requeue_deleting=0.1, requeue_waiting=0.1),
    allocation=AllocationSettings(requeue_releasing=0.1),
)
PLURALS = {kind.kind: kind.plural for kind in crd.KINDS}
INVALID_POOL_SPEC = {
    "cidr": "10.9.0.0/24",
    "reserved": [{"cidr": "10.9.0.0/26"}],
    "tenantAllocation": {"ranges": [{"start": "10.9.0.0", "end": "10.9.0.31"}]},
}
"""The spec of a pool that only the webhook rejects: CEL cannot compare ranges with CIDRs."""
Json = dict[str, Any]


class WebhookLab:
    """A cluster with our kinds; the methods write objects and return the server's answers.

    Args:
        http: the administrator's client.
        transport: the connection of the controllers.
    """

    def __init__(self, http: httpx.AsyncClient, transport: Transport) -> None:
        self._http = http
        self._transport = transport
        self._changed = anyio.Event()
        self._watched: dict[str, Informer[Any]] = {
            kind.kind: Informer(kind, transport, SystemClock())
            for kind in (IP_ALLOCATION, NETWORK_POOL)
        }
        for informer in self._watched.values():
            informer.add_handler(lambda _: self._changed.set())

    def _path(self, kind: str, name: str = "", namespace: str = HOME) -> str:
        base = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{PLURALS[kind]}"
        return f"{base}/{name}" if name else base

    async def create(
        self, kind: str, name: str, spec: Json, *, namespace: str = HOME, dry: bool = False
    ) -> httpx.Response:
        """Create an object, by a dry run if `dry`."""
        body = {
            "apiVersion": names.API_VERSION,
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        query = {"dryRun": "All"} if dry else {}
        return await self._http.post(
            self._path(kind, namespace=namespace), json=body, params=query
        )

    async def edit(self, kind: str, name: str, change: Json) -> httpx.Response:
        """Apply a merge patch to an object in HOME."""
        headers = {"Content-Type": "application/merge-patch+json"}
        return await self._http.patch(self._path(kind, name), json=change, headers=headers)

    async def delete(
        self, kind: str, name: str, *, namespace: str = HOME, dry: bool = False
    ) -> httpx.Response:
        """Delete an object, by a dry run if `dry`."""
        query = {"dryRun": "All"} if dry else {}
        return await self._http.delete(self._path(kind, name, namespace), params=query)

    async def wait_for_phase(self, kind: str, name: str, phase: str) -> None:
        """Wait until a watch shows an object of HOME in a phase; DELETED means no object."""
        cache = self._watched[kind].cache
        with anyio.fail_after(SECONDS):
            while _get_phase(cache.get(Key(HOME, name))) != phase:
                self._changed = anyio.Event()
                await self._changed.wait()

    @asynccontextmanager
    async def serve_webhooks(self, settings: Settings = SETTINGS) -> AsyncIterator[None]:
        """Run the controllers, with webhooks that the API server calls during the context."""
        options = ManagerOptions(
            webhook_bind=f"{HOST}:0",
            webhook_self_signed=SelfSigned(
                HOME, SERVICE, "certs", validating=[NAME], names=[HOST]
            ),
        )
        clock = SystemClock()
        manager = Manager(self._transport, clock=clock, options=options)
        tenants = assemble(manager, clock, settings)
        async with anyio.create_task_group() as group:
            group.start_soon(manager.run)
            async with anyio.create_task_group() as watches:
                for informer in self._watched.values():
                    watches.start_soon(informer.run)
                await manager.wait_serving()
                await self._configure(manager.webhook_port)
                yield
                watches.cancel_scope.cancel()
            manager.stop()
        await tenants.aclose()

    async def _configure(self, port: int | None) -> None:
        """Register the webhooks at a port of this machine, and wait until they are called."""

        def make_client_config(webhook: str) -> Json:
            return {"url": f"https://{HOST}:{port}{find_path(webhook)}"}

        where = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        response = await self._http.post(where, json=build_configuration(make_client_config))
        assert response.status_code == 201, response.text
        # No field reports that the server uses a configuration, so this retries an invalid create.
        with anyio.fail_after(SECONDS):
            in_force = False
            while not in_force:
                tried = await self.create("NetworkPool", "try", INVALID_POOL_SPEC, dry=True)
                in_force = tried.status_code == 422


def _get_phase(obj: Any) -> str | None:
    """Return the phase of an object: DELETED without an object, None if it has no phase."""
    if obj is None:
        return DELETED
    phase: str | None = getattr(obj.status, "phase", None)
    return phase


@pytest.fixture
async def lab(plane: Plane, admin: httpx.AsyncClient, tmp_path: Path) -> AsyncIterator[WebhookLab]:
    """A cluster with our kinds and the namespaces HOME and `team`, without webhooks."""
    await plane.install_crds(crd.build_crds())
    for namespace in (HOME, "team"):
        await admin.post("/api/v1/namespaces", json={"metadata": {"name": namespace}})
    transport = await connect(plane.write_kubeconfig(tmp_path / "kubeconfig"))
    yield WebhookLab(admin, transport)
    await transport.aclose()


def read_causes(answer: httpx.Response) -> list[tuple[str, str]]:
    """Return the field and the message of each cause of a rejection."""
    return [(c["field"], c["message"]) for c in answer.json()["details"]["causes"]]


def read_warnings(answer: httpx.Response) -> list[str]:
    """Return the texts of the Warning headers, without code and agent (RFC 7234, 5.5)."""
    assert answer.is_success, answer.text
    return [value.split(" ", 2)[2].strip('"') for value in answer.headers.get_list("warning")]


def make_allocation_spec(pool: str = "lab", **rest: Any) -> Json:
    """Return the spec of an IPAllocation; `rest` has further fields."""
    tenant = {"name": "a", "namespace": "team"}
    return {"poolRef": {"name": pool}, "tenantClusterRef": tenant, "type": "nodes"} | rest


def make_range_patch(start: int, end: int) -> Json:
    """Return a patch that narrows a pool to 10.0.0.`start` to 10.0.0.`end`."""
    ranges = [{"start": f"10.0.0.{start}", "end": f"10.0.0.{end}"}]
    return {"spec": {"tenantAllocation": {"ranges": ranges}}}


async def test_invalid_pools_and_allocations_are_rejected_and_suspicious_ones_get_warnings(
    lab: WebhookLab,
) -> None:
    async with lab.serve_webhooks():
        refused = await lab.create("NetworkPool", "bad", INVALID_POOL_SPEC)
        assert refused.status_code == 422
        assert refused.json()["message"].startswith(
            'admission webhook "vnetworkpool.kb.io" denied the request:'
            ' NetworkPool.butler.butlerlabs.dev "bad" is invalid: spec.reserved[0]: reserved CIDR'
        )
        [(field, message)] = read_causes(refused)
        assert field == "spec.reserved[0]"
        assert "straddles ranges[0] boundary" in message

        without_pool = await lab.create(
            "IPAllocation", "early", make_allocation_spec("later", count=2)
        )
        [warning] = read_warnings(without_pool)
        assert "NetworkPool butler-system/later does not exist" in warning

        ends = {"start": "10.0.0.0", "end": "10.0.0.31"}
        spec = {"cidr": "10.0.0.0/24", "tenantAllocation": ends}
        deprecated, edge = read_warnings(await lab.create("NetworkPool", "lab", spec))
        assert "start and end are deprecated; write ranges: [{start:" in deprecated
        assert "hands out 10.0.0.0 (network address); set spec.excludeNetworkAnd" in edge

        # This is rejected even if the webhook's cache does not have the new pool yet.
        too_large = await lab.create("IPAllocation", "huge", make_allocation_spec(count=64))
        assert [field for field, _ in read_causes(too_large)] == ["spec.count"]

        assert (await lab.create("IPAllocation", "a", make_allocation_spec(count=4))).is_success
        await lab.wait_for_phase("IPAllocation", "a", "Allocated")
        refused = await lab.edit("NetworkPool", "lab", make_range_patch(8, 31))
        [(field, message)] = read_causes(refused)
        assert field == "spec.tenantAllocation"
        assert 'IPAllocation "a" has address 10.0.0.0 outside the proposed ranges' in message
        assert (await lab.edit("NetworkPool", "lab", make_range_patch(0, 15))).is_success

        excluding = {"spec": {"excludeNetworkAndBroadcast": True}}
        refused = await lab.edit("NetworkPool", "lab", excluding)
        [(field, message)] = read_causes(refused)
        assert field == "spec.excludeNetworkAndBroadcast"
        assert 'cannot reserve network address "10.0.0.0": IPAllocation "a" has' in message

        refused = await lab.delete("NetworkPool", "lab")
        assert refused.status_code == 403
        assert "still in phase Allocated" in refused.json()["message"]
        assert (await lab.delete("IPAllocation", "a")).is_success
        await lab.wait_for_phase("IPAllocation", "a", DELETED)
        assert (await lab.delete("NetworkPool", "lab")).is_success
        await lab.wait_for_phase("NetworkPool", "lab", DELETED)
        assert (await lab.delete("NetworkPool", "lab")).status_code == 404


async def test_providers_and_clusters_get_warnings_about_quotas_and_used_providers_are_kept(
    lab: WebhookLab,
) -> None:
    network = {
        "mode": "ipam",
        "poolRefs": [{"name": "lab"}],
        "quotaPerTenant": {"maxLoadBalancerIPs": 4},
    }
    cluster = {
        "kubernetesVersion": "v1.33.1",
        "workers": {"replicas": 1},
        "providerConfigRef": {"name": "onprem"},
        "networking": {"lbPoolSize": 6},
    }
    async with lab.serve_webhooks():
        provider = {"provider": "local", "network": network}
        [warning] = read_warnings(await lab.create("ProviderConfig", "onprem", provider))
        assert "the default of 8 is above the quota; tenants get 4" in warning
        created = await lab.create("TenantCluster", "a", cluster, namespace="team")
        [warning] = read_warnings(created)
        assert "6 is above the quota of ProviderConfig butler-system/onprem" in warning
        refused = await lab.delete("ProviderConfig", "onprem")
        assert refused.status_code == 403
        assert "TenantCluster team/a still references it" in refused.json()["message"]


async def test_without_a_webhook_server_only_changes_of_specs_are_rejected(
    lab: WebhookLab,
) -> None:
    async with lab.serve_webhooks():
        spec = {"cidr": "10.0.0.0/24"}
        assert (await lab.create("NetworkPool", "lab", spec)).is_success
        assert (await lab.create("IPAllocation", "a", make_allocation_spec(count=4))).is_success
        await lab.wait_for_phase("IPAllocation", "a", "Allocated")
    # The webhooks are still registered, but no server answers them.
    assert (await lab.create("NetworkPool", "more", spec)).status_code == 500
    assert (await lab.edit("NetworkPool", "lab", make_range_patch(0, 15))).status_code == 500
    assert (await lab.edit("NetworkPool", "lab", {"metadata": {"labels": {"a": "b"}}})).is_success
    assert (await lab.delete("IPAllocation", "a")).is_success
    released = await lab.edit("IPAllocation", "a", {"metadata": {"finalizers": None}})
    assert released.is_success, released.text
    assert (await lab.delete("IPAllocation", "a")).status_code == 404


async def test_pools_and_providers_outside_the_listed_namespaces_are_rejected_and_unused(
    lab: WebhookLab,
) -> None:
    settings = replace(SETTINGS, pool=PoolSettings(namespaces=(HOME,)))
    expected_message = (
        "namespace team may not hold NetworkPools or ProviderConfigs; --pool-namespaces allows"
        f" {HOME}"
    )
    spec = {"cidr": "10.0.0.0/24", "excludeNetworkAndBroadcast": True}
    provider = {"provider": "local", "network": {"mode": "ipam", "poolRefs": [{"name": "lab"}]}}
    # These objects are stored before the webhooks are registered.
    assert (await lab.create("NetworkPool", "early", spec, namespace="team")).is_success
    assert (await lab.create("ProviderConfig", "early", provider, namespace="team")).is_success
    async with lab.serve_webhooks(settings):
        for kind, body in (("NetworkPool", spec), ("ProviderConfig", provider)):
            refused = await lab.create(kind, "late", body, namespace="team")
            [(field, message)] = read_causes(refused)
            assert field == "metadata.namespace"
            assert message.startswith(expected_message)
            assert (await lab.create(kind, "lab", body)).is_success
        allocation_spec = make_allocation_spec("early", count=2)
        [warning] = read_warnings(
            await lab.create("IPAllocation", "a", allocation_spec, namespace="team")
        )
        assert (
            f"spec.poolRef.name: NetworkPool team/early hands out nothing: {expected_message}"
            in warning
        )
        cluster = {
            "kubernetesVersion": "v1.33.1",
            "workers": {"replicas": 1},
            "providerConfigRef": {"name": "early", "namespace": "team"},
        }
        [warning] = read_warnings(
            await lab.create("TenantCluster", "a", cluster, namespace="team")
        )
        assert f"ProviderConfig team/early is not used: {expected_message}" in warning
        assert (await lab.create("IPAllocation", "b", make_allocation_spec(count=2))).is_success
        await lab.wait_for_phase("IPAllocation", "b", "Allocated")
        deleted = await lab.delete("NetworkPool", "early", namespace="team")
        assert deleted.is_success, deleted.text


async def test_only_users_with_the_verb_release_can_set_the_annotation_release_anyway(
    lab: WebhookLab, admin: httpx.AsyncClient
) -> None:
    for role in list_manifests("rbac"):
        if role["metadata"]["name"] in {"butler-ipam-editor", "butler-ipam-release"}:
            response = await admin.post(f"{RBAC}/clusterroles", json=role)
            assert response.status_code == 201, response.text
    await bind_role(admin, "butler-ipam-editor", "editors")
    await bind_role(admin, "butler-ipam-release", "releasers")
    spec = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    where = f"/apis/{names.API_VERSION}/namespaces/team/tenantclusters"
    mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: "true"}}}

    async def annotate(change: Json, *groups: str) -> httpx.Response:
        return await admin.patch(
            f"{where}/a",
            json=change,
            headers=httpx.Headers(
                [
                    ("Content-Type", "application/merge-patch+json"),
                    ("Impersonate-User", "jane"),
                    *(("Impersonate-Group", group) for group in groups),
                ]
            ),
        )

    async with lab.serve_webhooks():
        assert (await lab.create("TenantCluster", "a", spec, namespace="team")).is_success
        refused = await annotate(mark, "editors")
        assert refused.status_code == 403, refused.text
        assert refused.json()["message"] == (
            'admission webhook "vtenantcluster.kb.io" denied the request: annotation'
            " butler.butlerlabs.dev/release-anyway of TenantCluster team/a needs the verb release"
            " on tenantclusters.butler.butlerlabs.dev in namespace team, which user jane lacks:"
            " let an administrator bind ClusterRole butler-ipam-release there"
        )
        other = {"metadata": {"annotations": {"team.example/note": "x"}}}
        assert (await annotate(other, "editors")).is_success
        allowed = await annotate(mark, "editors", "releasers")
        assert allowed.is_success, allowed.text
        removed = {"metadata": {"annotations": {names.ANNOTATION_RELEASE_ANYWAY: None}}}
        assert (await annotate(removed, "editors")).is_success


async def bind_role(admin: httpx.AsyncClient, role: str, group: str) -> None:
    """Bind a ClusterRole to a group in the namespace `team`."""
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    }
    response = await admin.post(f"{RBAC}/namespaces/team/rolebindings", json=body)
    assert response.status_code == 201, response.text


async def test_the_deletion_of_an_allocation_in_use_gets_a_warning_and_is_not_blocked(
    lab: WebhookLab, admin: httpx.AsyncClient
) -> None:
    spec = {"kubernetesVersion": "v1.33.1", "workers": {"replicas": 1}}
    where = f"/apis/{names.API_VERSION}/namespaces/team/tenantclusters"
    async with lab.serve_webhooks():
        pool = {"cidr": "10.0.0.0/24", "excludeNetworkAndBroadcast": True}
        assert (await lab.create("NetworkPool", "lab", pool)).is_success
        assert (await lab.create("TenantCluster", "a", spec, namespace="team")).is_success
        for name in ("early", "late"):
            response = make_allocation_spec(count=4, type="loadbalancer")
            assert (await lab.create("IPAllocation", name, response)).is_success
            await lab.wait_for_phase("IPAllocation", name, "Allocated")
        ready = {"status": {"phase": "Ready"}}
        headers = {"Content-Type": "application/merge-patch+json"}
        updated = await admin.patch(f"{where}/a/status", json=ready, headers=headers)
        assert updated.is_success, updated.text
        # The webhook's cache may lag, so this retries; a dry run deletes nothing.
        shown_warnings: list[str] = []
        with anyio.fail_after(SECONDS):
            while not shown_warnings:
                shown_warnings = read_warnings(await lab.delete("IPAllocation", "early", dry=True))
        [warning] = shown_warnings
        assert warning.startswith("IPAllocation butler-system/early has 10.0.0.1-10.0.0.4, which")
        assert warning.endswith("TenantCluster team/a is Ready")
        assert (await lab.delete("IPAllocation", "early")).is_success
    # The webhooks are still registered, but no server answers them.
    assert (await lab.delete("IPAllocation", "late")).is_success
