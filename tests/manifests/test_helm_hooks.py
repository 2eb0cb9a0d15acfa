"""`helm test` after an installation by Helm, and the Pod Security labels of its namespace.

Nothing runs pods here, so the test does what the kubelet would: it starts the command of the pod,
under the pod's account, and writes how it ended into the pod's status.
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
from tests.reconcilers.cli.commands import call
from tests.servers import program

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHART = MANIFESTS / "chart"
RELEASE = ("butler-ipam", CHART, "-n", HOME)
TEST = ("test", "butler-ipam", "-n", HOME, "--timeout=60s")
POD = ("pod", "butler-ipam-check", "-n", HOME)


@pytest_asyncio.fixture(loop_scope="module")
async def release(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A cluster in which the chart is installed."""
    program("helm")
    await cluster.helm("install", *RELEASE, "--set", "crds.keep=false", "--set", WITHOUT_HOOKS)
    yield cluster
    await cluster.kubectl("delete", *POD, "--ignore-not-found")
    await cluster.helm("uninstall", "butler-ipam", "-n", HOME, "--wait")


WITHOUT_HOOKS = "webhooks.enabled=false"
"""No webhook answers here, so none may be asked."""


async def play_kubelet(cluster: Cluster) -> str:
    """Run the command of the pod as soon as there is one; return what it printed."""
    _, output, _ = await until(
        lambda: cluster.run("kubectl", "get", *POD, "-o", "json"), lambda done: done[0] == 0
    )
    [container] = json.loads(output)["spec"]["containers"]
    await cluster.plane.add_user(ACCOUNT, GROUPS)
    config = cluster.plane.write_kubeconfig(cluster.folder / "account", ACCOUNT)
    done = await call(*container["args"], KUBECONFIG=str(config))
    phase = "Failed" if done.returncode else "Succeeded"
    patch = json.dumps({"status": {"phase": phase}})
    await cluster.kubectl("patch", *POD, "--subresource=status", "--type=merge", "-p", patch)
    return (done.stdout + done.stderr).decode()


async def helm_test(cluster: Cluster) -> tuple[int, str]:
    """Run `helm test`; return its exit code, and what the pod's command printed."""
    code, printed = -1, ""

    async def test() -> None:
        nonlocal code
        code, _, _ = await cluster.run("helm", *TEST)

    async with anyio.create_task_group() as group:
        group.start_soon(test)
        printed = await play_kubelet(cluster)
    return code, printed


async def test_helm_test_passes_where_nothing_is_wrong(release: Cluster) -> None:
    code, printed = await helm_test(release)
    assert (code, printed) == (0, "nothing is wrong\n")


async def test_helm_test_fails_where_the_audit_finds_an_error(release: Cluster) -> None:
    lost = {
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
    await release.kubectl("delete", *POD, "--ignore-not-found")
    await release.apply("-f", "-", stdin=write_manifests(lost))
    code, printed = await helm_test(release)
    assert code != 0
    assert "UnknownPool" in printed
    await release.delete("-f", "-", stdin=write_manifests(lost))


def pods(**values: Any) -> list[dict[str, Any]]:
    """Return the pods that come of the chart: of the Deployment, and of `helm test`."""
    documents = Chart(CHART, values, release="butler-ipam", namespace=HOME).documents()
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    meta = template["metadata"] | {"name": "of-deployment", "namespace": HOME}
    pods = [{"apiVersion": "v1", "kind": "Pod", **template, "metadata": meta}]
    return pods + [document for document in documents if document["kind"] == "Pod"]


async def test_a_namespace_labelled_as_the_guide_has_it_takes_our_pods_and_no_privileged_ones(
    cluster: Cluster,
) -> None:
    cluster.require_real("Pod Security is a plugin of kube-apiserver")
    [line] = [
        command.line_text.split()[1:]
        for command in commands("docs/operating/install.md")
        if command.line_text.startswith("kubectl label namespace")
    ]
    notes = (CHART / "templates/NOTES.txt").read_text()
    assert all(word in notes for word in line if "=" in word)
    modes = (f"pod-security.kubernetes.io/{mode}-" for mode in ("enforce", "warn", "audit"))
    await cluster.kubectl("label", "namespace", HOME, *modes)
    await cluster.kubectl("create", "serviceaccount", "butler-ipam", "-n", HOME)
    create = ("create", "--dry-run=server", "-f", "-")
    privileged = pods()[0]
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    await cluster.kubectl(*create, stdin=yaml.safe_dump(privileged))
    await cluster.kubectl(*line)
    code, _, complained = await cluster.run("kubectl", *create, stdin=write_manifests(privileged))
    assert code != 0
    assert 'violates PodSecurity "restricted:latest"' in complained
    await cluster.kubectl(*create, stdin=write_manifests(*pods()))
