"""Migration of a Butler cluster to butler-ipam and back, by the lines of the operator's guide."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from manifests import rendering
from tests.manifests import butler
from tests.manifests.clusters import HOME, Cluster, run_empty_cluster, write_manifests
from tests.manifests.desk import DEFINITIONS, Operator, require_guide_tools
from tests.manifests.guide import list_typed_lines, type_line
from tests.manifests.test_running import HOOKS
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
_DEFAULT = {"type": "RuntimeDefault"}
_RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_SINCE = {"lastTransitionTime": "2026-01-31T12:00:00Z"}
BUTLER_INSTALLATION: list[dict[str, Any]] = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "butler-controller", "namespace": HOME},
        "spec": {
            "selector": {"matchLabels": {"app": "butler"}},
            "template": {
                "metadata": {"labels": {"app": "butler"}},
                "spec": {
                    "securityContext": {"runAsNonRoot": True, "seccompProfile": _DEFAULT},
                    "containers": [
                        {"name": "manager", "image": "butler", "securityContext": _RESTRICTED}
                    ],
                },
            },
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "butler-controller"},
        "webhooks": [
            {
                "name": "vnetworkpool.kb.io",
                "clientConfig": {"service": {"name": "butler", "namespace": HOME, "path": "/x"}},
                "rules": [
                    {
                        "apiGroups": ["butler.butlerlabs.dev"],
                        "apiVersions": ["v1alpha1"],
                        "operations": ["DELETE"],
                        "resources": ["networkpools"],
                    }
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    },
]
"""Butler's Deployment and webhooks, as an installation of Butler has them."""


async def test_a_cluster_of_butlers_moves_over_and_back_by_the_guide(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    async with run_empty_cluster("asked", folder) as cluster:
        require_guide_tools(cluster)
        operator = Operator(cluster, tmp_path)
        definitions = write_manifests(*butler.build_definitions(), *BUTLER_INSTALLATION)
        await cluster.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        await operator.wait_until_established()
        await create_butler_objects(cluster)
        theirs = await read_versions(cluster)
        save_line, *_ = list_typed_lines("backup-and-restore")
        await type_line(cluster, tmp_path, save_line)
        async with anyio.create_task_group() as group:
            is_running, is_done = anyio.Event(), anyio.Event()

            async def run_until_done() -> None:
                silence_flag = "--pool-foreign-silence=1s"
                async with operator.run_controller(silence_flag):
                    is_running.set()
                    await is_done.wait()

            async def install_butler_ipam() -> None:
                assert await read_versions(cluster) != theirs
                ours = ("apply", "--server-side", "-f", rendering.INSTALL)
                await cluster.kubectl(*ours, "--force-conflicts")
                group.start_soon(run_until_done)
                await is_running.wait()
                await wait_until_adopted(cluster)

            async def stop_controller() -> None:
                is_done.set()

            operator.steps_before["kubectl get networkpools -A"] = install_butler_ipam
            operator.steps_before["kubectl -n butler-system scale deployment butler-ipam"] = (
                stop_controller
            )
            await operator.type_page("migrate-from-butler")
        assert await read_versions(cluster) == theirs
        assert (tmp_path / "before.txt").read_text() == (tmp_path / "after.txt").read_text()
        assert "10.0.0.0" in (tmp_path / "after.txt").read_text()
        replicas = ("get", "deployment", "-n", HOME, "-o", "jsonpath={.items[*].spec.replicas}")
        assert await cluster.kubectl(*replicas) == "1 0"
        hooks = await cluster.kubectl("get", HOOKS, "-o", "name")
        assert hooks.split() == [f"{HOOKS}.admissionregistration.k8s.io/butler-controller"]
        finalizers = "jsonpath={.items[*].metadata.finalizers[*]}"
        remaining_finalizers = await cluster.kubectl(
            "get", "tenantclusters", "-A", "-o", finalizers
        )
        assert remaining_finalizers == "butler.butlerlabs.dev/tenantcluster"


async def create_butler_objects(cluster: Cluster) -> None:
    """Create a pool, a provider and a Ready TenantCluster with a range, as Butler writes them."""
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", **_SINCE}
    bodies = [
        _make_object("NetworkPool", "pool", {"cidr": "10.0.0.0/24"}, finalizer="networkpool"),
        _make_object(
            "ProviderConfig",
            "provider",
            {
                "provider": "nutanix",
                "credentialsRef": {"name": "none"},
                "network": {"mode": "ipam", "poolRefs": [{"name": "pool"}]},
            },
            finalizer="providerconfig",
        ),
        _make_object(
            "TenantCluster",
            "app",
            spec={
                "kubernetesVersion": "v1.33.1",
                "workers": {"replicas": 1},
                "providerConfigRef": {"name": "provider"},
            },
            status={
                "phase": "Ready",
                "conditions": [ready],
                "lbAllocationRef": {"name": "team-app-lb"},
            },
            namespace="team-platform",
            finalizer="tenantcluster",
        ),
        _make_object(
            "IPAllocation",
            "team-platform-app-lb",
            spec={
                "poolRef": {"name": "pool"},
                "tenantClusterRef": {"name": "app", "namespace": "team-platform"},
                "type": "loadbalancer",
                "count": 8,
            },
            status={
                "phase": "Allocated",
                "startAddress": "10.0.0.0",
                "endAddress": "10.0.0.7",
                "cidr": "10.0.0.0-10.0.0.7",
            },
            finalizer="ipallocation",
        ),
    ]
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(*bodies))
    statuses = [body for body in bodies if "status" in body]
    replace = ("replace", "--subresource=status", "-f", "-")
    await cluster.kubectl(*replace, stdin=write_manifests(*statuses))


def _make_object(
    kind: str, name: str, spec: Any, status: Any = None, **meta: str
) -> dict[str, Any]:
    """Return an object as Butler writes it.

    Args:
        status: its status; None leaves it out.
        meta: "finalizer" is the last part of its finalizer; "namespace" is optional.
    """
    return {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": meta.get("namespace", HOME),
            "finalizers": [f"butler.butlerlabs.dev/{meta['finalizer']}"],
        },
        "spec": spec,
        **({"status": status} if status else {}),
    }


async def wait_until_adopted(cluster: Cluster) -> None:
    """Wait until the allocation has the TenantCluster's uid, and the pool is Ready."""
    uid = r"jsonpath={.metadata.annotations.butler\.butlerlabs\.dev/tenant-uid}"
    get = ("get", "ipallocation", "team-platform-app-lb", "-n", HOME, "-o", uid)
    await until(lambda: cluster.kubectl(*get), bool)
    wait = ("wait", "-n", HOME, "networkpool/pool", "--timeout=60s")
    await cluster.kubectl(*wait, "--for=condition=Ready")


async def read_versions(cluster: Cluster) -> list[Any]:
    """Return the versions, with schemas, of our four definitions in the cluster."""
    document = json.loads(await cluster.kubectl("get", *DEFINITIONS, "-o", "json"))
    return [definition["spec"]["versions"] for definition in document["items"]]
