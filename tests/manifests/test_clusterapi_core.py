"""The chapter "With Cluster API", with Cluster API's own core controllers and clusterctl."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from reconcilers.integrations.clusterapi.api import PROVIDER
from tests.manifests.clusterapicore import render_core_manifests, run_core_controllers
from tests.manifests.clusterctl import Clusterctl
from tests.manifests.clusters import Cluster, run_empty_cluster, write_manifests
from tests.manifests.guide import list_typed_lines, type_line
from tests.manifests.test_clusterctl import (
    IPAM,
    MOVED,
    NAMESPACE,
    REFERENCE,
    check_owners,
    create_claim_on_pool,
    create_object,
    list_objects,
    read_address_specs,
    run_deployed,
    wait_until_served,
)
from tests.polling import until

pytestmark = pytest.mark.slow
WIDE = {"apiGroup": IPAM, "kind": "GlobalInClusterIPPool", "name": "wide"}
KINDS = Path(__file__).parents[1] / "data/clusterapi/infrastructure.yaml"
Json = dict[str, Any]


@asynccontextmanager
async def install_providers(clusterctl: Clusterctl, folder: Path) -> AsyncIterator[Cluster]:
    """Run a cluster on which clusterctl installed the core and our provider, with both running."""
    async with run_empty_cluster("asked", folder) as cluster:
        cluster.require_real("Cluster API's controllers are held against nothing else")
        await clusterctl.init(cluster)
        await cluster.apply("-f", KINDS)
        await cluster.kubectl("create", "namespace", NAMESPACE)
        provider_names = await cluster.kubectl(
            "get", "providers.clusterctl.cluster.x-k8s.io", "-A"
        )
        assert {PROVIDER, "cluster-api"} <= set(provider_names.split())
        async with run_core_controllers(cluster), run_deployed(cluster, clusterctl):
            yield cluster


@pytest.fixture
def clusterctl(tmp_path: Path) -> Clusterctl:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    return Clusterctl(tmp_path, render_core_manifests())


async def create_cluster(cluster: Cluster) -> Json:
    """Create a Cluster with provisioned infrastructure and an initialized control plane.

    Returns:
        The Cluster, once the core reports both as conditions.
    """
    endpoint = {"controlPlaneEndpoint": {"host": "127.0.0.1", "port": 1}}
    refs = {}
    for field, part, kind, spec, field_of_status in (
        ("infrastructureRef", "infrastructure", "LabCluster", endpoint, "provisioned"),
        ("controlPlaneRef", "controlplane", "LabControlPlane", {}, "controlPlaneInitialized"),
    ):
        group = f"{part}.cluster.x-k8s.io"
        await create_object(cluster, f"{group}/v1", kind=kind, name="lab", spec=spec)
        status = json.dumps({"status": {"initialization": {field_of_status: True}}})
        patch = ("patch", kind.lower(), "lab", "-n", NAMESPACE, "--subresource=status")
        await cluster.kubectl(*patch, "--type=merge", f"--patch={status}")
        refs[field] = {"apiGroup": group, "kind": kind, "name": "lab"}
    created = await create_object(
        cluster, "cluster.x-k8s.io/v1beta2", kind="Cluster", name="lab", spec=refs
    )
    for kind in ("InfrastructureReady", "ControlPlaneInitialized"):
        await wait_for_cluster_condition(cluster, kind, "True")
    return created


async def wait_for_cluster_condition(cluster: Cluster, kind: str, status: str) -> None:
    """Wait until the core has written a condition of the Cluster.

    Args:
        kind: the type of the condition.
    """

    def has_condition(clusters: list[Json]) -> bool:
        conditions = clusters[0].get("status", {}).get("conditions", [])
        return any(
            (condition["type"], condition["status"]) == (kind, status) for condition in conditions
        )

    await until(lambda: list_objects(cluster, MOVED[0]), has_condition)


async def create_pools(cluster: Cluster) -> None:
    """Create the namespaced pool `lab` and the cluster-scoped pool WIDE."""
    spec = {"addresses": ["10.0.0.10-10.0.0.19"], "prefix": 24, "gateway": "10.0.0.1"}
    await create_object(cluster, f"{IPAM}/v1alpha2", kind="InClusterIPPool", name="lab", spec=spec)
    wide = {
        "apiVersion": f"{IPAM}/v1alpha2",
        "kind": WIDE["kind"],
        "metadata": {"name": WIDE["name"]},
        "spec": {"addresses": ["10.1.0.10-10.1.0.19"], "prefix": 24},
    }
    await cluster.kubectl("create", "-f", "-", stdin=write_manifests(wide))


async def create_claim(cluster: Cluster, name: str, spec: Json, *owners: Json) -> None:
    """Create a claim with a spec and owners, by the stored version of the API."""
    await create_object(cluster, f"{IPAM}/v1beta2", "IPAddressClaim", name, spec, *owners)


async def count_used(cluster: Cluster) -> int:
    """Return the number of used addresses in the status of WIDE; -1 while it has no status."""
    body = json.loads(await cluster.kubectl("get", WIDE["kind"], WIDE["name"], "-o", "json"))
    return int(body.get("status", {}).get("ipAddresses", {}).get("used", -1))


async def test_claims_are_served_beside_the_real_core_with_its_webhooks_and_its_conversion(
    clusterctl: Clusterctl, tmp_path: Path
) -> None:
    async with install_providers(clusterctl, tmp_path / "source") as cluster:
        capi_cluster = await create_cluster(cluster)
        await create_pools(cluster)
        older = {
            "apiVersion": f"{IPAM}/v1beta1",
            "kind": "IPAddressClaim",
            "metadata": {"name": "older", "namespace": NAMESPACE},
            "spec": {"poolRef": REFERENCE, "clusterName": "lab"},
        }
        code, _, error_output = await cluster.run(
            "kubectl", "create", "-f", "-", stdin=write_manifests(older)
        )
        assert code == 0, error_output
        assert "v1beta1 IPAddressClaim is deprecated" in error_output, "the core's definitions"
        address = await wait_until_served(cluster, "older")
        assert address["older"]["address"] == "10.0.0.10"
        [reasons] = [
            line for line in list_typed_lines("cluster-api") if "custom-columns='NAMESPACE" in line
        ]
        assert "older   AddressAllocated" in await type_line(cluster, tmp_path, reasons)
        _, output, _ = await cluster.run(
            "kubectl", "get", f"ipaddressclaims.v1beta1.{IPAM}", "-n", NAMESPACE, "-o", "json"
        )
        [converted] = json.loads(output)["items"]
        assert converted["status"]["addressRef"] == {"name": "older"}
        [ready] = converted["status"]["v1beta2"]["conditions"]
        assert (ready["type"], ready["reason"]) == ("Ready", "AddressAllocated")

        edit = ("patch", MOVED[3], "older", "-n", NAMESPACE, "--type=merge")
        refused = await cluster.run("kubectl", *edit, '--patch={"spec":{"address":"10.0.0.15"}}')
        assert "IPAddress spec is immutable" in refused[2]

        pause = ("patch", MOVED[0], "lab", "-n", NAMESPACE, "--type=merge")
        await cluster.kubectl(*pause, '--patch={"spec":{"paused":true}}')
        await wait_for_cluster_condition(cluster, "Paused", "True")
        await create_claim_on_pool(cluster, "paused", capi_cluster)
        await create_claim(cluster, "free", {"poolRef": REFERENCE})
        await until(
            lambda: read_address_specs(cluster),
            lambda read_address_specs: {*read_address_specs} == {"older", "free"},
        )
        await cluster.kubectl(*pause, '--patch={"spec":{"paused":false}}')
        await wait_for_cluster_condition(cluster, "Paused", "False")
        after = await wait_until_served(cluster, "free", "older", "paused")
        assert after["paused"]["address"] == "10.0.0.12"


async def test_addresses_are_the_same_after_a_move_between_clusters_with_the_real_core(
    clusterctl: Clusterctl, tmp_path: Path
) -> None:
    async with (
        install_providers(clusterctl, tmp_path / "source") as source,
        install_providers(clusterctl, tmp_path / "target") as target,
    ):
        capi_cluster = await create_cluster(source)
        await create_pools(source)
        await create_claim_on_pool(source, "a", capi_cluster)
        await create_claim(source, "lone", {"poolRef": REFERENCE})
        await create_claim(source, "unnamed", {"poolRef": WIDE}, capi_cluster)
        await create_claim(source, "wide", {"poolRef": WIDE, "clusterName": "lab"}, capi_cluster)
        before = await wait_until_served(source, "a", "lone", "unnamed", "wide")
        _, _, rejection = await source.run("kubectl", "delete", MOVED[1], "lab", "-n", NAMESPACE)
        assert "Pool has IPAddresses allocated" in rejection
        move = ("move", f"--namespace={NAMESPACE}", f"--to-kubeconfig={target.config}")
        await clusterctl.run(source, *move)

        after = await wait_until_served(target, "a", "unnamed", "wide")
        assert after == {name: before[name] for name in ("a", "unnamed", "wide")}
        assert await until(lambda: count_used(target), lambda now: now == 2) == 2
        [pool] = await list_objects(target, MOVED[1])
        await check_owners(target, "a", pool)
        assert not await list_objects(source, MOVED[0])
        assert not await list_objects(source, MOVED[1])

        # A claim without a Cluster stays, and so do IPAddresses of the cluster-scoped pool. These
        # addresses are in use and must not be allocated again at the source.
        remaining = [claim["metadata"]["name"] for claim in await list_objects(source, MOVED[2])]
        assert remaining == ["lone"]
        await create_claim(source, "later", {"poolRef": WIDE})
        await until(
            lambda: read_address_specs(source),
            lambda read_address_specs: "later" in read_address_specs,
        )
        stayed = await read_address_specs(source)
        assert stayed.pop("later")["address"] == "10.1.0.12"
        assert stayed == {name: before[name] for name in ("lone", "unnamed", "wide")}
