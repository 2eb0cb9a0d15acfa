"""The installed controller runs: as in its pod, under its account, with webhooks.

The manifest is the one-file install. There are no pods here, so the controller is a process of
this machine with the arguments of the Deployment. The API server calls the webhooks at a port of
this machine instead of through their Service.
"""

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from envtest import ports
from manifests import rendering
from reconcilers.api import crd, names
from tests.manifests.clusters import HOME, MANIFESTS, Cluster, write_manifests
from tests.manifests.guide import list_typed_lines, type_line
from tests.polling import until
from tests.reconcilers.cli.commands import RunningCommand, start
from tests.yamls import read_all_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
HOOKS = "validatingwebhookconfiguration"
SAMPLES = MANIFESTS / "samples"
WAIT = "--timeout=180s"
POOL_WITH_RESERVED_RANGE = {
    "apiVersion": "butler.butlerlabs.dev/v1alpha1",
    "kind": "NetworkPool",
    "metadata": {"name": "straddles", "namespace": HOME},
    "spec": {
        "cidr": "192.0.2.0/24",
        "reserved": [{"cidr": "192.0.2.0/26"}],
        "tenantAllocation": {"ranges": [{"start": "192.0.2.0", "end": "192.0.2.31"}]},
    },
}
"""A pool that only webhooks reject: the CRDs' rules cannot compare ranges with CIDRs."""


POOL_COLUMNS = ("CIDR", "AVAILABLE", "ALLOCATED", "TOTAL", "USED", "%", "READY", "AGE")


def choose_free_port() -> int:
    """Return a port of this machine that is unused and was not chosen recently."""
    return ports.choose_free_port("127.0.0.1")


def load_one_file_install(port: int) -> list[dict[str, Any]]:
    """Return the objects of the one-file install, with webhooks at a port of this machine."""
    return load_redirected(rendering.INSTALL.read_text(), port)


def load_redirected(content: str, port: int) -> list[dict[str, Any]]:
    """Return the objects of manifests, with webhooks at a port of this machine."""
    documents = list(read_all_yaml(content))
    redirect_webhooks(documents, port)
    return documents


def redirect_webhooks(documents: list[dict[str, Any]], port: int) -> dict[str, Any]:
    """Point the webhooks of an installation at a port of this machine.

    Args:
        documents: the objects of the installation; their webhook configuration is changed.
        port: where the controller's process listens.

    Returns:
        The changed ValidatingWebhookConfiguration.
    """
    [configuration] = [document for document in documents if document["kind"].lower() == HOOKS]
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"].pop("service")["path"]
        webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
    return configuration


def build_arguments(documents: list[dict[str, Any]], port: int) -> list[str]:
    """Return the Deployment's arguments, with addresses and ports of this machine."""
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    local_values = {
        "--namespace": HOME,
        "--health-probe-bind-address": f"127.0.0.1:{choose_free_port()}",
        "--metrics-bind-address": "127.0.0.1:0",
        "--webhook-port": str(port),
    }
    build_arguments = [argument.partition("=") for argument in container["args"]]
    assert set(local_values) <= {flag for flag, _, _ in build_arguments}
    return [
        f"{flag}={local_values[flag]}" if flag in local_values else flag + equals + value
        for flag, equals, value in build_arguments
    ]


@asynccontextmanager
async def run_controller(
    cluster: Cluster, documents: list[dict[str, Any]], port: int, *flags: str
) -> AsyncIterator[RunningCommand]:
    """Run the controller under its installed ServiceAccount until the body ends.

    Args:
        cluster: the cluster that has the installation.
        documents: the objects of the installation, with the Deployment's arguments.
        port: where webhooks are served.
        flags: further flags.
    """
    await cluster.plane.add_user(ACCOUNT, GROUPS)
    config = cluster.plane.write_kubeconfig(cluster.folder / "account", ACCOUNT)
    command = [*build_arguments(documents, port), f"--kubeconfig={config}", *flags]
    async with start(*command, "--webhook-cert-name=127.0.0.1") as running:
        for kind in crd.KINDS:
            await running.wait_for_output(f'"Starting workers","controller":"{kind.kind.lower()}"')
        await running.wait_for_output("Wrote the CA bundle")
        yield running


async def wait_until_webhooks_reject(cluster: Cluster) -> None:
    """Wait until the API server calls the webhooks and rejects a pool because of their answer."""
    path = f"/apis/{names.API_VERSION}/namespaces/{HOME}/networkpools?dryRun=All"
    await until(
        lambda: cluster.http.post(path, json=POOL_WITH_RESERVED_RANGE),
        lambda answer: "straddles ranges[0]" in answer.text,
    )


async def read_rejection(cluster: Cluster, *arguments: str | Path, stdin: str = "") -> str:
    """Run kubectl; return its standard error if it fails, or an empty string."""
    code, _, error_output = await cluster.run("kubectl", *arguments, stdin=stdin)
    return error_output if code else ""


async def read_ca_bundles(cluster: Cluster) -> list[str]:
    """Return the CA bundle of each webhook in the configuration; empty if there is none."""
    configuration = await cluster.read(
        f"/apis/admissionregistration.k8s.io/v1/{HOOKS}s/butler-ipam"
    )
    return [webhook["clientConfig"].get("caBundle", "") for webhook in configuration["webhooks"]]


async def read_ranges(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return the first and last address of each allocation by name, in the order of addresses.

    Addresses are integers. Those of IPv6 samples are above 2^96, so both families fit in one
    order.
    """
    listed = await cluster.read(f"/apis/{names.API_VERSION}/ipallocations")
    held_ranges = {
        allocation["metadata"]["name"]: (
            int(ip_address(allocation["status"]["startAddress"])),
            int(ip_address(allocation["status"]["endAddress"])),
        )
        for allocation in listed["items"]
    }
    return dict(sorted(held_ranges.items(), key=lambda item: item[1]))


async def wait_until_allocated(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return the ranges of the samples' allocations once all are Allocated."""
    wait = ("wait", "-A", "--all", WAIT)
    await cluster.kubectl(*wait, "--for=condition=Ready", "networkpools")
    await cluster.kubectl(*wait, "--for=condition=NetworkReady", "tenantclusters")
    await cluster.kubectl(*wait, "--for=jsonpath={.status.phase}=Allocated", "ipallocations")
    return await read_ranges(cluster)


async def create_ownerless_allocation(cluster: Cluster) -> None:
    """Create an allocation without a TenantCluster, and wait until it holds a range."""
    body = {
        "apiVersion": "butler.butlerlabs.dev/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {"name": "made-by-hand", "namespace": HOME},
        "spec": {
            "poolRef": {"name": "lab-pool"},
            "tenantClusterRef": {"name": "nowhere", "namespace": "nowhere"},
            "type": "loadbalancer",
            "count": 1,
        },
    }
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(body))
    condition = "--for=jsonpath={.status.phase}=Allocated"
    await cluster.kubectl("wait", condition, "ipallocation/made-by-hand", "-n", HOME)


async def uninstall_by_guide(cluster: Cluster, running: RunningCommand, desk: Path) -> None:
    """Type the guide's lines to uninstall the one-file install.

    The controller is stopped after the line that deletes the webhooks.
    """
    for line in list_typed_lines("uninstall"):
        if line.startswith("helm"):
            continue
        await type_line(cluster, desk, line)
        if HOOKS in line:
            assert await running.stop(signal.SIGTERM) == 0


async def list_installed_names(cluster: Cluster) -> list[str]:
    """Return the names of installed objects that still exist, without Namespace and CRDs."""
    namespaced_kinds = (
        "deployments,poddisruptionbudgets,services,serviceaccounts,roles,rolebindings"
    )
    cluster_wide_kinds = f"clusterroles,clusterrolebindings,{HOOKS}s"
    namespaced_names = await cluster.kubectl("get", namespaced_kinds, "-n", HOME, "-o", "name")
    cluster_wide_names = await cluster.kubectl("get", cluster_wide_kinds, "-o", "name")
    return [
        name for name in f"{namespaced_names}{cluster_wide_names}".split() if "butler-ipam" in name
    ]


async def test_what_is_installed_serves_the_samples_and_leaves_nothing_behind(
    cluster: Cluster, tmp_path: Path
) -> None:
    port = choose_free_port()
    documents = load_one_file_install(port)
    await cluster.apply("-f", "-", stdin=write_manifests(*documents))
    await cluster.wait_until_established(*(kind.crd_name for kind in crd.KINDS))
    async with run_controller(cluster, documents, port) as running:
        await wait_until_webhooks_reject(cluster)
        # A dry run stores nothing, so the webhooks warn that referenced objects do not exist.
        for flags in (("--dry-run=server",), ()):
            assert (
                await read_rejection(cluster, "apply", "--server-side", "-f", SAMPLES, *flags)
                == ""
            )
        held_ranges = await wait_until_allocated(cluster)
        assert {"team-platform-lab-cluster-lb", "team-platform-api-lb"} <= set(held_ranges)
        assert all(first[1] < following[0] for first, following in pairwise(held_ranges.values()))
        await check_tables(cluster, held_ranges)

        # The CA bundle that the controller wrote outlives another install.
        trusted = await read_ca_bundles(cluster)
        assert all(trusted)
        await cluster.apply("-f", "-", stdin=write_manifests(*documents))
        assert await read_ca_bundles(cluster) == trusted
        rejection = await read_rejection(cluster, "delete", "networkpool", "lab-pool", "-n", HOME)
        assert "cannot delete NetworkPool" in rejection

        await create_ownerless_allocation(cluster)
        await uninstall_by_guide(cluster, running, tmp_path)
    assert await list_installed_names(cluster) == []
    remaining_kinds = await cluster.kubectl(
        "api-resources", "--api-group=butler.butlerlabs.dev", "-o", "name"
    )
    assert remaining_kinds == ""
    log_lines = [json.loads(line) for line in running.stderr.splitlines()]
    assert [line for line in log_lines if line["level"] == "error"] == []


async def check_tables(cluster: Cluster, held_ranges: dict[str, tuple[int, int]]) -> None:
    """Check kubectl's table of a pool, and its lists by field selector and by category."""
    table = (await cluster.kubectl("get", "networkpool", "lab-pool", "-n", HOME)).splitlines()
    assert table[0].split() == ["NAME", *POOL_COLUMNS]
    assert table[1].split()[:-1] == ["lab-pool", "10.40.0.0/22", "754", "13", "767", "1", "True"]
    selected = ("--field-selector", "spec.poolRef.name=lab-pool", "-o", "name")
    listed = await cluster.kubectl("get", "ipallocations", "-n", HOME, *selected)
    names = {line.rpartition("/")[2] for line in listed.split()}
    assert names == {name for name in held_ranges if name.startswith("team-platform-lab-cluster-")}
    assert len(names) == 2
    everything = await cluster.kubectl("get", "butler", "-A", "-o", "name")
    assert everything.count("ipallocation.") == len(held_ranges)
