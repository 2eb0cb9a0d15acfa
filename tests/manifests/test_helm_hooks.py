"""`helm test` after an installation by Helm, and the Pod Security labels of its namespace.

No pods run in the cluster, so the tests do the kubelet's part. They run the command of the pod
under its ServiceAccount, and write the result into the status of the pod.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import pytest_asyncio
import yaml

from tests.docs.text import commands
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, write_manifests
from tests.manifests.helm import Chart
from tests.manifests.test_running import ACCOUNT, GROUPS
from tests.polling import until
from tests.reconcilers.cli.commands import run_to_end
from tests.servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHART = MANIFESTS / "chart"
RELEASE = ("butler-ipam", CHART, "-n", HOME)
HELM_TEST = ("test", "butler-ipam", "-n", HOME, "--timeout=60s")
POD = ("pod", "butler-ipam-check", "-n", HOME)


@pytest_asyncio.fixture(loop_scope="module")
async def installed_cluster(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster in which the chart is installed."""
    program("helm")
    await cluster.helm("install", *RELEASE, "--set", "crds.keep=false", "--set", WITHOUT_HOOKS)
    yield cluster
    await cluster.kubectl("delete", *POD, "--ignore-not-found")
    await cluster.helm("uninstall", "butler-ipam", "-n", HOME, "--wait")


WITHOUT_HOOKS = "webhooks.enabled=false"
"""No process serves webhooks in these tests, so they must not be registered."""


async def play_kubelet(cluster: Cluster) -> str:
    """Wait for the pod of `helm test`, run its command and write its phase; return its output."""
    _, output, _ = await until(
        lambda: cluster.run("kubectl", "get", *POD, "-o", "json"), lambda done: done[0] == 0
    )
    [container] = json.loads(output)["spec"]["containers"]
    await cluster.plane.add_user(ACCOUNT, GROUPS)
    config = cluster.plane.write_kubeconfig(cluster.folder / "account", ACCOUNT)
    done = await run_to_end(*container["args"], KUBECONFIG=str(config))
    phase = "Failed" if done.returncode else "Succeeded"
    patch = json.dumps({"status": {"phase": phase}})
    await cluster.kubectl("patch", *POD, "--subresource=status", "--type=merge", "-p", patch)
    return (done.stdout + done.stderr).decode()


async def run_helm_test(cluster: Cluster) -> tuple[int, str]:
    """Run `helm test`; return its exit code, and the output of the pod's command."""
    code, pod_output = -1, ""

    async def test() -> None:
        nonlocal code
        code, _, _ = await cluster.run("helm", *HELM_TEST)

    async with anyio.create_task_group() as group:
        group.start_soon(test)
        pod_output = await play_kubelet(cluster)
    return code, pod_output


async def test_helm_test_passes_if_the_audit_finds_nothing(installed_cluster: Cluster) -> None:
    code, pod_output = await run_helm_test(installed_cluster)
    assert (code, pod_output) == (0, "nothing is wrong\n")


async def test_helm_test_fails_if_the_audit_finds_an_error(installed_cluster: Cluster) -> None:
    allocation_without_pool = {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {"name": "lost", "namespace": HOME},
        "spec": {
            "poolRef": {"name": "nowhere"},
            "tenantClusterRef": {"name": "a", "namespace": "team"},
            "type": "loadbalancer",
            "count": 4,
        },
    }
    await installed_cluster.kubectl("delete", *POD, "--ignore-not-found")
    await installed_cluster.apply("-f", "-", stdin=write_manifests(allocation_without_pool))
    code, pod_output = await run_helm_test(installed_cluster)
    assert code != 0
    assert "UnknownPool" in pod_output
    await installed_cluster.delete("-f", "-", stdin=write_manifests(allocation_without_pool))


def render_pods(**values: Any) -> list[dict[str, Any]]:
    """Return the pods of the chart: a pod of the Deployment, and the pod of `helm test`."""
    documents = Chart(CHART, values, release="butler-ipam", namespace=HOME).documents()
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    meta = template["metadata"] | {"name": "of-deployment", "namespace": HOME}
    deployment_pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": meta}
    return [deployment_pod] + [document for document in documents if document["kind"] == "Pod"]


async def test_the_guides_namespace_labels_admit_our_pods_and_reject_a_privileged_pod(
    cluster: Cluster,
) -> None:
    cluster.require_real("Pod Security is a plugin of kube-apiserver")
    [label_arguments] = [
        command.line_text.split()[1:]
        for command in commands("docs/operating/install.md")
        if command.line_text.startswith("kubectl label namespace")
    ]
    notes = (CHART / "templates/NOTES.txt").read_text()
    assert all(word in notes for word in label_arguments if "=" in word)
    modes = (f"pod-security.kubernetes.io/{mode}-" for mode in ("enforce", "warn", "audit"))
    await cluster.kubectl("label", "namespace", HOME, *modes)
    await cluster.kubectl("create", "serviceaccount", "butler-ipam", "-n", HOME)
    create = ("create", "--dry-run=server", "-f", "-")
    privileged = render_pods()[0]
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    await cluster.kubectl(*create, stdin=yaml.safe_dump(privileged))
    await cluster.kubectl(*label_arguments)
    code, _, error_output = await cluster.run(
        "kubectl", *create, stdin=write_manifests(privileged)
    )
    assert code != 0
    assert 'violates PodSecurity "restricted:latest"' in error_output
    await cluster.kubectl(*create, stdin=write_manifests(*render_pods()))
