"""What was installed runs: `butler-ipam run` as the pod has it, under its account, with webhooks.

The manifest is the one-file install. There are no pods here, so the controller is a process of
this machine with the arguments of the Deployment, and the webhooks are called at an address of its
own instead of by their Service.
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
from tests.manifests.guide import lines, type_line
from tests.polling import until
from tests.reconcilers.cli.commands import Running, start
from tests.yamls import read_all_yaml

pytestmark = pytest.mark.asyncio(loop_scope="module")
ACCOUNT = f"system:serviceaccount:{HOME}:butler-ipam"
GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated")
HOOKS = "validatingwebhookconfiguration"
SAMPLES = MANIFESTS / "samples"
WAIT = "--timeout=180s"
STRADDLES = {
    "apiVersion": "butler.butlerlabs.dev/v1alpha1",
    "kind": "NetworkPool",
    "metadata": {"name": "straddles", "namespace": HOME},
    "spec": {
        "cidr": "192.0.2.0/24",
        "reserved": [{"cidr": "192.0.2.0/26"}],
        "tenantAllocation": {"ranges": [{"start": "192.0.2.0", "end": "192.0.2.31"}]},
    },
}
"""A pool that webhooks alone refuse: the CRDs' rules have no arithmetic for it."""


HEADS = ("CIDR", "AVAILABLE", "ALLOCATED", "TOTAL", "USED", "%", "READY", "AGE")


def choose_free_port() -> int:
    """Return a port of this machine that nobody listens on or has chosen recently."""
    return ports.choose_free_port("127.0.0.1")


def list_installed(port: int) -> list[dict[str, Any]]:
    """Return the one-file install, with webhooks that are called at a port of this machine."""
    return called_here(rendering.INSTALL.read_text(), port)


def called_here(content: str, port: int) -> list[dict[str, Any]]:
    """Return the documents of an install, with webhooks that are called at a port here."""
    documents = list(read_all_yaml(content))
    call_here(documents, port)
    return documents


def call_here(documents: list[dict[str, Any]], port: int) -> dict[str, Any]:
    """Have the webhooks of an installation called at a port of this machine; return them."""
    [configuration] = [document for document in documents if document["kind"].lower() == HOOKS]
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"].pop("service")["path"]
        webhook["clientConfig"]["url"] = f"https://127.0.0.1:{port}{path}"
    return configuration


def arguments(documents: list[dict[str, Any]], port: int) -> list[str]:
    """Return the arguments of the Deployment's container, as this machine needs them."""
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    here = {
        "--namespace": HOME,
        "--health-probe-bind-address": f"127.0.0.1:{choose_free_port()}",
        "--metrics-bind-address": "127.0.0.1:0",
        "--webhook-port": str(port),
    }
    arguments = [argument.partition("=") for argument in container["args"]]
    assert set(here) <= {flag for flag, _, _ in arguments}
    return [
        f"{flag}={here[flag]}" if flag in here else flag + equals + value
        for flag, equals, value in arguments
    ]


@asynccontextmanager
async def controller(
    cluster: Cluster, documents: list[dict[str, Any]], port: int, *flags: str
) -> AsyncIterator[Running]:
    """Run the controller under the account and the roles that were installed, with more flags."""
    await cluster.plane.add_user(ACCOUNT, GROUPS)
    config = cluster.plane.write_kubeconfig(cluster.folder / "account", ACCOUNT)
    command = [*arguments(documents, port), f"--kubeconfig={config}", *flags]
    async with start(*command, "--webhook-cert-name=127.0.0.1") as running:
        for kind in crd.KINDS:
            await running.until(f'"Starting workers","controller":"{kind.kind.lower()}"')
        await running.until("Wrote the CA bundle")
        yield running


async def webhooks_refuse(cluster: Cluster) -> None:
    """Wait until the API server asks the webhooks and takes their word."""
    path = f"/apis/{names.API_VERSION}/namespaces/{HOME}/networkpools?dryRun=All"
    await until(
        lambda: cluster.http.post(path, json=STRADDLES),
        lambda answer: "straddles ranges[0]" in answer.text,
    )


async def refusal(cluster: Cluster, *arguments: str | Path, stdin: str = "") -> str:
    """Run kubectl; return what it complains of, empty if the command succeeded."""
    code, _, complained = await cluster.run("kubectl", *arguments, stdin=stdin)
    return complained if code else ""


async def bundles(cluster: Cluster) -> list[str]:
    """Return the certificate authorities that the API server trusts, by webhook."""
    configuration = await cluster.read(
        f"/apis/admissionregistration.k8s.io/v1/{HOOKS}s/butler-ipam"
    )
    return [webhook["clientConfig"].get("caBundle", "") for webhook in configuration["webhooks"]]


async def ranges(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return the first and last address of each allocation, in order; each has some.

    Addresses of the two families are numbers far apart: those of IPv6 samples are above 2^96.
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
    """Return the ranges of the samples' allocations, once all have got theirs."""
    wait = ("wait", "-A", "--all", WAIT)
    await cluster.kubectl(*wait, "--for=condition=Ready", "networkpools")
    await cluster.kubectl(*wait, "--for=condition=NetworkReady", "tenantclusters")
    await cluster.kubectl(*wait, "--for=jsonpath={.status.phase}=Allocated", "ipallocations")
    return await ranges(cluster)


async def made_by_hand(cluster: Cluster) -> None:
    """Have an allocation that no TenantCluster asked for; wait until it holds a range."""
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


async def uninstall(cluster: Cluster, running: Running, desk: Path) -> None:
    """Type what the operator's guide has for an installation by the one file."""
    for line in lines("uninstall"):
        if line.startswith("helm"):
            continue
        await type_line(cluster, desk, line)
        if HOOKS in line:
            assert await running.stop(signal.SIGTERM) == 0


async def installed_names(cluster: Cluster) -> list[str]:
    """Return an installation's remaining objects, without namespace and definitions."""
    namespaced = "deployments,poddisruptionbudgets,services,serviceaccounts,roles,rolebindings"
    of_cluster = f"clusterroles,clusterrolebindings,{HOOKS}s"
    here = await cluster.kubectl("get", namespaced, "-n", HOME, "-o", "name")
    everywhere = await cluster.kubectl("get", of_cluster, "-o", "name")
    return [name for name in f"{here}{everywhere}".split() if "butler-ipam" in name]


async def test_what_is_installed_serves_the_samples_and_leaves_nothing_behind(
    cluster: Cluster, tmp_path: Path
) -> None:
    port = choose_free_port()
    documents = list_installed(port)
    await cluster.apply("-f", "-", stdin=write_manifests(*documents))
    await cluster.wait_until_established(*(kind.crd_name for kind in crd.KINDS))
    async with controller(cluster, documents, port) as running:
        await webhooks_refuse(cluster)
        # In a dry run nothing is stored, so the webhooks warn that what is named is not there.
        for flags in (("--dry-run=server",), ()):
            assert await refusal(cluster, "apply", "--server-side", "-f", SAMPLES, *flags) == ""
        held_ranges = await wait_until_allocated(cluster)
        assert {"team-platform-lab-cluster-lb", "team-platform-api-lb"} <= set(held_ranges)
        assert all(first[1] < other[0] for first, other in pairwise(held_ranges.values()))
        await looked_at(cluster, held_ranges)

        # The controller's part of the configuration outlives another install.
        trusted = await bundles(cluster)
        assert all(trusted)
        await cluster.apply("-f", "-", stdin=write_manifests(*documents))
        assert await bundles(cluster) == trusted
        said = await refusal(cluster, "delete", "networkpool", "lab-pool", "-n", HOME)
        assert "cannot delete NetworkPool" in said

        await made_by_hand(cluster)
        await uninstall(cluster, running, tmp_path)
    assert await installed_names(cluster) == []
    kinds = await cluster.kubectl(
        "api-resources", "--api-group=butler.butlerlabs.dev", "-o", "name"
    )
    assert kinds == ""
    lines = [json.loads(line) for line in running.complained.splitlines()]
    assert [line for line in lines if line["level"] == "error"] == []


async def looked_at(cluster: Cluster, held_ranges: dict[str, tuple[int, int]]) -> None:
    """See what people see: tables with values in them, and lists of one pool."""
    table = (await cluster.kubectl("get", "networkpool", "lab-pool", "-n", HOME)).splitlines()
    assert table[0].split() == ["NAME", *HEADS]
    assert table[1].split()[:-1] == ["lab-pool", "10.40.0.0/22", "754", "13", "767", "1", "True"]
    selected = ("--field-selector", "spec.poolRef.name=lab-pool", "-o", "name")
    listed = await cluster.kubectl("get", "ipallocations", "-n", HOME, *selected)
    names = {line.rpartition("/")[2] for line in listed.split()}
    assert names == {name for name in held_ranges if name.startswith("team-platform-lab-cluster-")}
    assert len(names) == 2
    everything = await cluster.kubectl("get", "butler", "-A", "-o", "name")
    assert everything.count("ipallocation.") == len(held_ranges)
