"""A cluster of Butler moves over by the lines of the operator's guide, and back again."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from manifests import rendering
from tests.manifests import butler
from tests.manifests.clusters import HOME, Cluster, empty_cluster, write_manifests
from tests.manifests.desk import DEFINITIONS, Operator, needs
from tests.manifests.guide import lines, type_line
from tests.manifests.test_running import HOOKS
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
_DEFAULT = {"type": "RuntimeDefault"}
_RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
_SINCE = {"lastTransitionTime": "2026-01-31T12:00:00Z"}
BUTLERS: list[dict[str, Any]] = [
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
"""What of Butler's own is in a cluster beside its definitions and objects."""


async def test_a_cluster_of_butlers_moves_over_and_back_by_the_guide(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    async with empty_cluster("asked", folder) as cluster:
        needs(cluster)
        operator = Operator(cluster, tmp_path)
        definitions = write_manifests(*butler.definitions(), *BUTLERS)
        await cluster.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
        await operator.wait_until_established()
        await live_butler(cluster)
        theirs = await schemas(cluster)
        save, *_ = lines("backup-and-restore")
        await type_line(cluster, tmp_path, save)
        async with anyio.create_task_group() as group:
            running, done = anyio.Event(), anyio.Event()

            async def pods() -> None:
                patience = "--pool-foreign-silence=1s"
                async with operator.controller(patience):
                    running.set()
                    await done.wait()

            async def install() -> None:
                assert await schemas(cluster) != theirs
                ours = ("apply", "--server-side", "-f", rendering.INSTALL)
                await cluster.kubectl(*ours, "--force-conflicts")
                group.start_soon(pods)
                await running.wait()
                await wait_until_adopted(cluster)

            async def stop() -> None:
                done.set()

            operator.before["kubectl get networkpools -A"] = install
            operator.before["kubectl -n butler-system scale deployment butler-ipam"] = stop
            await operator.types("migrate-from-butler")
        assert await schemas(cluster) == theirs
        assert (tmp_path / "before.txt").read_text() == (tmp_path / "after.txt").read_text()
        assert "10.0.0.0" in (tmp_path / "after.txt").read_text()
        replicas = ("get", "deployment", "-n", HOME, "-o", "jsonpath={.items[*].spec.replicas}")
        assert await cluster.kubectl(*replicas) == "1 0"
        hooks = await cluster.kubectl("get", HOOKS, "-o", "name")
        assert hooks.split() == [f"{HOOKS}.admissionregistration.k8s.io/butler-controller"]
        finalizers = "jsonpath={.items[*].metadata.finalizers[*]}"
        kubectl = await cluster.kubectl("get", "tenantclusters", "-A", "-o", finalizers)
        assert kubectl == "butler.butlerlabs.dev/tenantcluster"


async def live_butler(cluster: Cluster) -> None:
    """Have a pool, a provider, and a Ready cluster with a range, as Butler left them."""
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
    """Return an object of Butler's."""
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
    """Wait until the allocation is noted as the cluster's, and the pool hands out."""
    uid = r"jsonpath={.metadata.annotations.butler\.butlerlabs\.dev/tenant-uid}"
    get = ("get", "ipallocation", "team-platform-app-lb", "-n", HOME, "-o", uid)
    await until(lambda: cluster.kubectl(*get), bool)
    wait = ("wait", "-n", HOME, "networkpool/pool", "--timeout=60s")
    await cluster.kubectl(*wait, "--for=condition=Ready")


async def schemas(cluster: Cluster) -> list[Any]:
    """Return the versions of the four kinds, as they are in force."""
    document = json.loads(await cluster.kubectl("get", *DEFINITIONS, "-o", "json"))
    return [definition["spec"]["versions"] for definition in document["items"]]
