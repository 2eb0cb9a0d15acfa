"""What clusterctl installs of ours, and the objects with which tests go on from there."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from reconcilers.integrations.clusterapi.api import (
    ADDRESS_FINALIZER,
    CLAIM_FINALIZER,
    POOL_FINALIZER,
    PROVIDER,
    PROVIDER_LABEL,
)
from tests.manifests.clusterctl import Clusterctl
from tests.manifests.clusters import HOME, Cluster, write_manifests
from tests.manifests.test_running import call_here, choose_free_port
from tests.manifests.test_running import controller as under_its_account
from tests.polling import until
from tests.reconcilers.cli.commands import start
from tests.scripts import load_script
from tests.servers import program
from tests.yamls import read_all_yaml, read_yaml

NAMESPACE = "machines"
IPAM = "ipam.cluster.x-k8s.io"
MOVED = (
    "clusters.cluster.x-k8s.io",
    f"inclusterippools.{IPAM}",
    *(f"{plural}.{IPAM}" for plural in ("ipaddressclaims", "ipaddresses")),
)
FINALIZERS = {
    "InClusterIPPool": POOL_FINALIZER,
    "IPAddressClaim": CLAIM_FINALIZER,
    "IPAddress": ADDRESS_FINALIZER,
}
REFERENCE = {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "lab"}
PORTS = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--webhook-port=0")
Json = dict[str, Any]


def test_the_components_are_what_clusterctl_asks_for(tmp_path: Path) -> None:
    program("kubectl")
    load_script(".ci/clusterapi.py").repository(tmp_path, "0.1.0")
    objects = list(read_all_yaml((tmp_path / "ipam-components.yaml").read_text()))
    namespaces = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"]
    assert namespaces == [HOME]
    assert {obj["metadata"].get("namespace", HOME) for obj in objects} == {HOME}
    assert {obj["metadata"]["labels"][PROVIDER_LABEL] for obj in objects} == {PROVIDER}
    [deployment] = [obj for obj in objects if obj["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "manager"
    assert container["image"] == "registry.example/butler-ipam:0.1.0"
    assert "--namespace=$(POD_NAMESPACE)" in container["args"]
    assert container["args"][-1] == "--integration=clusterapi"
    metadata = read_yaml((tmp_path / "metadata.yaml").read_text())
    assert metadata["releaseSeries"] == [{"major": 0, "minor": 1, "contract": "v1beta2"}]


async def wait_until_served(cluster: Cluster, *names: str) -> dict[str, Json]:
    """Wait until claims name their IPAddresses; return the specs of all."""

    def are_answered(claims: list[Json]) -> bool:
        references = {
            claim["metadata"]["name"]: claim.get("status", {}).get("addressRef")
            for claim in claims
        }
        return references == {name: {"name": name} for name in names}

    await until(lambda: list_objects(cluster, MOVED[2]), are_answered)
    return await addresses(cluster)


async def check_owners(cluster: Cluster, name: str, pool: Json) -> None:
    """Check that finalizers and owners of a pool, a claim and its address are this cluster's."""
    assert pool["metadata"]["finalizers"] == [POOL_FINALIZER]
    [claim] = [
        candidate
        for candidate in await list_objects(cluster, MOVED[2])
        if candidate["metadata"]["name"] == name
    ]
    [ip_address] = [
        candidate
        for candidate in await list_objects(cluster, MOVED[3])
        if candidate["metadata"]["name"] == name
    ]
    owners = {owner["kind"]: owner["uid"] for owner in ip_address["metadata"]["ownerReferences"]}
    assert owners == {
        "IPAddressClaim": claim["metadata"]["uid"],
        "InClusterIPPool": pool["metadata"]["uid"],
    }
    assert claim["metadata"]["finalizers"] == [CLAIM_FINALIZER]
    assert ip_address["metadata"]["finalizers"] == [ADDRESS_FINALIZER]


@asynccontextmanager
async def run_deployed(cluster: Cluster, clusterctl: Clusterctl) -> AsyncIterator[None]:
    """Run what was installed: under its account and its roles, and with its webhooks."""
    port, documents = choose_free_port(), deepcopy(clusterctl.components)
    configuration = call_here(documents, port)
    await cluster.kubectl("replace", "-f", "-", stdin=write_manifests(configuration))
    async with under_its_account(cluster, documents, port) as running:
        yield
    assert "forbidden" not in running.complained.lower(), running.complained


@asynccontextmanager
async def controller(cluster: Cluster) -> AsyncIterator[None]:
    """Run the controller with the integration."""
    flags = ("--integration=clusterapi", f"--kubeconfig={cluster.config}", *PORTS)
    async with start("run", *flags) as running:
        yield
        assert await running.stop() == 0


async def make_claim(
    cluster: Cluster, name: str, *owners: Json, served_before: bool = False
) -> Json:
    """Make a claim of the pool for the Cluster.

    Args:
        cluster: where.
        name: of the claim.
        owners: of the claim.
        served_before: whether it has the finalizer of a provider, as a claim that is restored;
            then it waits for its IPAddress. A client creates a claim without.
    """
    spec = {"poolRef": REFERENCE, "clusterName": "lab"}
    kind = "IPAddressClaim"
    finalizers = FINALIZERS if served_before else {}
    return await create(
        cluster, f"{IPAM}/v1beta2", kind, name, spec, *owners, finalizers=finalizers
    )


async def populate(cluster: Cluster, *, answered: bool = True) -> None:
    """Make a Cluster that is ready, with a pool and two claims.

    Args:
        cluster: where.
        answered: whether the claims have their addresses, as another provider left them.
    """
    await cluster.kubectl("create", "namespace", NAMESPACE)
    created = await create(
        cluster, "cluster.x-k8s.io/v1beta2", kind="Cluster", name="lab", spec={"paused": False}
    )
    ready = {
        "type": "ControlPlaneInitialized",
        "status": "True",
        "reason": "Initialized",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"initialization": {"infrastructureProvisioned": True}, "conditions": [ready]}
    patch = ("patch", "cluster", "lab", "-n", NAMESPACE, "--subresource=status", "--type=merge")
    await cluster.kubectl(*patch, f"--patch={json.dumps({'status': status})}")
    spec = {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "gateway": "10.0.0.1"}
    pool = await create(cluster, f"{IPAM}/v1alpha2", kind="InClusterIPPool", name="lab", spec=spec)
    for name, address in (("a", "10.0.0.10"), ("b", "10.0.0.15")):
        claim = await make_claim(cluster, name, created, served_before=answered)
        if answered:
            address_spec = {"address": address, "prefix": 24, "gateway": "10.0.0.1"}
            spec = address_spec | {"claimRef": {"name": name}, "poolRef": REFERENCE}
            await create(cluster, f"{IPAM}/v1beta2", "IPAddress", name, spec, claim, pool)


async def create(
    cluster: Cluster,
    version: str,
    kind: str,
    name: str,
    spec: Json,
    *owners: Json,
    finalizers: Mapping[str, str] = FINALIZERS,
) -> Json:
    """Create an object with owners, the first of them the controlling one; return it."""
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": at == 0,
            "blockOwnerDeletion": True,
        }
        for at, owner in enumerate(owners)
    ]
    meta: Json = {"name": name, "namespace": NAMESPACE, "ownerReferences": references}
    meta["finalizers"] = [finalizers[kind]] if kind in finalizers else []
    body = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
    document: Json = json.loads(
        await cluster.kubectl("create", "-o", "json", "-f", "-", stdin=write_manifests(body))
    )
    return document


async def list_objects(cluster: Cluster, kind: str) -> list[Json]:
    """Return the objects of a kind."""
    document: list[Json] = json.loads(
        await cluster.kubectl("get", kind, "-n", NAMESPACE, "-o", "json")
    )["items"]
    return document


async def addresses(cluster: Cluster) -> dict[str, Json]:
    """Return the spec of each IPAddress by its name."""
    return {
        ip_address["metadata"]["name"]: ip_address["spec"]
        for ip_address in await list_objects(cluster, MOVED[3])
    }
