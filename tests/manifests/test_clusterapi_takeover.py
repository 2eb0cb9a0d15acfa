"""The guide's way from Cluster API's in-cluster provider, typed, and nothing is renumbered."""

from pathlib import Path
from typing import Any

from tests.manifests.clusters import MANIFESTS, Cluster, empty_cluster, write_manifests
from tests.manifests.guide import blocks, type_line
from tests.manifests.test_clusterctl import (
    IPAM,
    addresses,
    controller,
    list_objects,
    make_claim,
    populate,
)
from tests.polling import until
from tests.yamls import read_yaml

DATA = Path(__file__).parents[1] / "data" / "clusterapi"
THEIRS = "caip-in-cluster"
"""Seconds in which a new claim is served: less than a restored one waits for its IPAddress."""
Json = dict[str, Any]


def deployment() -> list[Json]:
    """Return a Deployment that stands for the other provider: nothing runs pods here."""
    labels = {"control-plane": "controller-manager"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "manager", "image": "controller"}]},
        },
    }
    meta = {"name": f"{THEIRS}-controller-manager", "namespace": f"{THEIRS}-system"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{THEIRS}-system"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec},
    ]


async def claim_address(cluster: Cluster, name: str) -> str:
    """Make a claim of the pool; return the address that it gets."""
    await make_claim(cluster, name)
    address_by_name = await until(lambda: addresses(cluster), lambda now: name in now)
    return str(address_by_name[name]["address"])


async def wait_until_counted(cluster: Cluster, used: int, *, conditions: bool) -> None:
    """Wait until the pool counts so many, and has conditions where its definition has."""

    def right(pools: list[Json]) -> bool:
        status = pools[0].get("status", {})
        counted = status.get("ipAddresses", {}).get("used") == used
        return counted and bool(status.get("conditions")) is conditions

    await until(lambda: list_objects(cluster, f"inclusterippools.{IPAM}"), right)


async def test_taking_over_by_the_lines_of_the_guide_keeps_every_address(tmp_path: Path) -> None:
    lines = blocks("cluster-api")
    del lines[: next(at for at, line in enumerate(lines) if "capi-ipam-backup.yaml" in line)]
    replaced = next(at for at, line in enumerate(lines) if line.startswith("butler-ipam crds"))
    async with empty_cluster("asked", tmp_path) as cluster:
        cluster.require_real("the lines scale a Deployment")
        await cluster.apply("-f", DATA / "crds.yaml")
        await cluster.apply("-f", DATA / "in-cluster-pools.yaml")
        await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        await cluster.kubectl("apply", "-f", "-", stdin=write_manifests(*deployment()))
        await populate(cluster)
        before = await addresses(cluster)
        for line in lines[:replaced]:
            await type_line(cluster, tmp_path, line)
        await cluster.apply("-k", MANIFESTS / "crds")
        async with controller(cluster):
            assert await claim_address(cluster, "c") == "10.0.0.11"
            await wait_until_counted(cluster, 3, conditions=False)
            said = [await type_line(cluster, tmp_path, line) for line in lines[replaced:]]
            await wait_until_counted(cluster, 3, conditions=True)
            assert await claim_address(cluster, "d") == "10.0.0.12"
        after = await addresses(cluster)
        assert {name: after[name] for name in before} == before
        assert "10.0.0.15" in said[-1]
    saved = read_yaml((tmp_path / "capi-ipam-backup.yaml").read_text())
    kinds = [(item["apiVersion"].partition("/")[0], item["kind"]) for item in saved["items"]]
    assert kinds.count((IPAM, "IPAddress")) == kinds.count((IPAM, "IPAddressClaim")) == 2
    assert kinds.count((IPAM, "InClusterIPPool")) == 1
