"""Migration from Cluster API's in-cluster provider by the guide's lines keeps all addresses."""

from pathlib import Path
from typing import Any

from tests.manifests.clusters import MANIFESTS, Cluster, run_empty_cluster, write_manifests
from tests.manifests.guide import list_copied_lines, type_line
from tests.manifests.test_clusterctl import (
    IPAM,
    create_claim_on_pool,
    create_cluster_with_claims,
    list_objects,
    read_address_specs,
    run_administrators_controller,
)
from tests.polling import until
from tests.yamls import read_yaml

DATA = Path(__file__).parents[1] / "data" / "clusterapi"
IN_CLUSTER_PROVIDER = "caip-in-cluster"
"""The prefix of the names of the in-cluster provider's objects."""
Json = dict[str, Any]


def build_provider_deployment() -> list[Json]:
    """Return the in-cluster provider's Deployment and Namespace; no pods run in these clusters."""
    labels = {"control-plane": "controller-manager"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "controller"}]},
        },
    }
    meta = {
        "name": f"{IN_CLUSTER_PROVIDER}-controller-manager",
        "namespace": f"{IN_CLUSTER_PROVIDER}-system",
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": f"{IN_CLUSTER_PROVIDER}-system"},
        },
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
    ]


async def create_served_claim(cluster: Cluster, name: str) -> str:
    """Create a claim on the pool, wait for its address and return it."""
    await create_claim_on_pool(cluster, name)
    address_by_name = await until(lambda: read_address_specs(cluster), lambda now: name in now)
    return str(address_by_name[name]["address"])


async def wait_until_counted(cluster: Cluster, used: int, *, conditions: bool) -> None:
    """Wait until the pool's status has a count of used addresses.

    Args:
        cluster: the cluster with the pool.
        used: the number of used addresses.
        conditions: whether the status has conditions; the in-cluster provider's definition of
            the pool prunes them, ours keeps them.
    """

    def has_expected_status(pools: list[Json]) -> bool:
        status = pools[0].get("status", {})
        counted = status.get("ipAddresses", {}).get("used") == used
        return counted and bool(status.get("conditions")) is conditions

    await until(lambda: list_objects(cluster, f"inclusterippools.{IPAM}"), has_expected_status)


async def test_taking_over_by_the_lines_of_the_guide_keeps_every_address(tmp_path: Path) -> None:
    guide_lines = list_copied_lines("cluster-api")
    backup_index = next(
        at for at, line in enumerate(guide_lines) if "capi-ipam-backup.yaml" in line
    )
    crds_index = next(
        at for at, line in enumerate(guide_lines) if line.startswith("butler-ipam crds")
    )
    lines_before_crds = guide_lines[backup_index:crds_index]
    lines_from_crds = guide_lines[crds_index:]
    async with run_empty_cluster("asked", tmp_path) as cluster:
        cluster.require_real("the lines scale a Deployment")
        await cluster.apply("-f", DATA / "crds.yaml")
        await cluster.apply("-f", DATA / "in-cluster-pools.yaml")
        await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        await cluster.kubectl(
            "apply", "-f", "-", stdin=write_manifests(*build_provider_deployment())
        )
        await create_cluster_with_claims(cluster)
        before = await read_address_specs(cluster)
        for line in lines_before_crds:
            await type_line(cluster, tmp_path, line)
        await cluster.apply("-k", MANIFESTS / "crds")
        async with run_administrators_controller(cluster):
            assert await create_served_claim(cluster, "c") == "10.0.0.11"
            await wait_until_counted(cluster, 3, conditions=False)
            outputs = [await type_line(cluster, tmp_path, line) for line in lines_from_crds]
            await wait_until_counted(cluster, 3, conditions=True)
            assert await create_served_claim(cluster, "d") == "10.0.0.12"
        after = await read_address_specs(cluster)
        assert {name: after[name] for name in before} == before
        assert "10.0.0.15" in outputs[-1]
    saved = read_yaml((tmp_path / "capi-ipam-backup.yaml").read_text())
    kinds = [(item["apiVersion"].partition("/")[0], item["kind"]) for item in saved["items"]]
    assert kinds.count((IPAM, "IPAddress")) == kinds.count((IPAM, "IPAddressClaim")) == 2
    assert kinds.count((IPAM, "InClusterIPPool")) == 1
