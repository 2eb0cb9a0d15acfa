"""The components of our provider for clusterctl, and objects of Cluster API for tests."""

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
from tests.manifests.test_running import choose_free_port, redirect_webhooks
from tests.manifests.test_running import run_controller as run_installed_controller
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


def test_the_components_fit_the_contract_of_clusterctl(tmp_path: Path) -> None:
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
    """Wait until these claims, and no others, have an addressRef; return all IPAddress specs.

    Args:
        names: the names of all claims.
    """

    def are_all_served(claims: list[Json]) -> bool:
        references = {
            claim["metadata"]["name"]: claim.get("status", {}).get("addressRef")
            for claim in claims
        }
        return references == {name: {"name": name} for name in names}

    await until(lambda: list_objects(cluster, MOVED[2]), are_all_served)
    return await read_address_specs(cluster)


async def check_owners(cluster: Cluster, name: str, pool: Json) -> None:
    """Check the finalizers of a pool, a claim and its IPAddress, and the IPAddress's owners.

    Args:
        cluster: the cluster that has the objects; owners have to have their uids there.
        name: the name of the claim and of its IPAddress.
    """
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
    """Run the controller of clusterctl's installation: its ServiceAccount and its webhooks."""
    port, documents = choose_free_port(), deepcopy(clusterctl.components)
    configuration = redirect_webhooks(documents, port)
    await cluster.kubectl("replace", "-f", "-", stdin=write_manifests(configuration))
    async with run_installed_controller(cluster, documents, port) as running:
        yield
    assert "forbidden" not in running.stderr.lower(), running.stderr


@asynccontextmanager
async def run_administrators_controller(cluster: Cluster) -> AsyncIterator[None]:
    """Run the controller with the integration `clusterapi`, under the administrator's account."""
    flags = ("--integration=clusterapi", f"--kubeconfig={cluster.config}", *PORTS)
    async with start("run", *flags) as running:
        yield
        assert await running.stop() == 0


async def create_claim_on_pool(
    cluster: Cluster, name: str, *owners: Json, served_before: bool = False
) -> Json:
    """Create a claim on the pool `lab` for the Cluster `lab`; return the claim.

    Args:
        cluster: where the claim is created.
        name: the name of the claim.
        owners: the owners of the claim.
        served_before: whether the claim has a provider's finalizer, as a restored claim has. The
            controller then waits for its IPAddress. A new claim has no finalizer.
    """
    spec = {"poolRef": REFERENCE, "clusterName": "lab"}
    kind = "IPAddressClaim"
    finalizers = FINALIZERS if served_before else {}
    return await create_object(
        cluster, f"{IPAM}/v1beta2", kind, name, spec, *owners, finalizers=finalizers
    )


async def create_cluster_with_claims(cluster: Cluster, *, with_addresses: bool = True) -> None:
    """Create the Cluster `lab` with an initialized control plane, the pool `lab` and two claims.

    Args:
        cluster: where the objects are created.
        with_addresses: whether the claims have IPAddresses of another provider.
    """
    await cluster.kubectl("create", "namespace", NAMESPACE)
    created = await create_object(
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
    pool = await create_object(
        cluster, f"{IPAM}/v1alpha2", kind="InClusterIPPool", name="lab", spec=spec
    )
    for name, address in (("a", "10.0.0.10"), ("b", "10.0.0.15")):
        claim = await create_claim_on_pool(cluster, name, created, served_before=with_addresses)
        if with_addresses:
            address_spec = {"address": address, "prefix": 24, "gateway": "10.0.0.1"}
            spec = address_spec | {"claimRef": {"name": name}, "poolRef": REFERENCE}
            await create_object(cluster, f"{IPAM}/v1beta2", "IPAddress", name, spec, claim, pool)


async def create_object(
    cluster: Cluster,
    version: str,
    kind: str,
    name: str,
    spec: Json,
    *owners: Json,
    finalizers: Mapping[str, str] = FINALIZERS,
) -> Json:
    """Create an object and return it.

    Args:
        cluster: where the object is created.
        version: its apiVersion.
        owners: its owners; the first is the controlling owner.
        finalizers: the finalizer of each kind; a kind without an entry gets none.
    """
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
    """Return the objects of a kind in NAMESPACE."""
    document: list[Json] = json.loads(
        await cluster.kubectl("get", kind, "-n", NAMESPACE, "-o", "json")
    )["items"]
    return document


async def read_address_specs(cluster: Cluster) -> dict[str, Json]:
    """Return the spec of each IPAddress by its name."""
    return {
        ip_address["metadata"]["name"]: ip_address["spec"]
        for ip_address in await list_objects(cluster, MOVED[3])
    }
