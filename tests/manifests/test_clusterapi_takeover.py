"""The guide's way from Cluster API's in-cluster provider, typed, and nothing is renumbered."""

from pathlib import Path
from typing import Any

from tests.manifests.clusters import MANIFESTS, Cluster, empty_cluster, written
from tests.manifests.guide import blocks, typed
from tests.manifests.test_clusterctl import (
    IPAM,
    addresses,
    claimed,
    controller,
    listed,
    populate,
)
from tests.polling import until
from tests.yamls import read_yaml

DATA = Path(__file__).parents[1] / "data" / "clusterapi"
THEIRS = "caip-in-cluster"
"""Seconds in which a new claim is served: less than a restored one waits for its IPAddress."""
Json = dict[str, Any]


def deployment() -> list[Json]:
    """Return what stands for the other provider: nothing runs pods here."""
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


async def given(cluster: Cluster, name: str) -> str:
    """Make a claim of the pool; return the address that it gets."""
    await claimed(cluster, name)
    found = await until(lambda: addresses(cluster), lambda now: name in now)
    return str(found[name]["address"])


async def reported(cluster: Cluster, used: int, *, conditions: bool) -> None:
    """Wait until the pool counts so many, and has conditions where its definition has."""

    def right(pools: list[Json]) -> bool:
        status = pools[0].get("status", {})
        counted = status.get("ipAddresses", {}).get("used") == used
        return counted and bool(status.get("conditions")) is conditions

    await until(lambda: listed(cluster, f"inclusterippools.{IPAM}"), right)


async def test_taking_over_by_the_lines_of_the_guide_keeps_every_address(tmp_path: Path) -> None:
    lines = blocks("cluster-api")
    del lines[: next(at for at, line in enumerate(lines) if "capi-ipam-backup.yaml" in line)]
    replaced = next(at for at, line in enumerate(lines) if line.startswith("butler-ipam crds"))
    async with empty_cluster("asked", tmp_path) as cluster:
        cluster.require_real("the lines scale a Deployment")
        await cluster.apply("-f", DATA / "crds.yaml")
        await cluster.apply("-f", DATA / "in-cluster-pools.yaml")
        await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all")
        await cluster.kubectl("apply", "-f", "-", stdin=written(*deployment()))
        await populate(cluster)
        before = await addresses(cluster)
        for line in lines[:replaced]:
            await typed(cluster, tmp_path, line)
        await cluster.apply("-k", MANIFESTS / "crds")
        async with controller(cluster):
            assert await given(cluster, "c") == "10.0.0.11"
            await reported(cluster, 3, conditions=False)
            said = [await typed(cluster, tmp_path, line) for line in lines[replaced:]]
            await reported(cluster, 3, conditions=True)
            assert await given(cluster, "d") == "10.0.0.12"
        after = await addresses(cluster)
        assert {name: after[name] for name in before} == before
        assert "10.0.0.15" in said[-1]
    saved = read_yaml((tmp_path / "capi-ipam-backup.yaml").read_text())
    kinds = [(one["apiVersion"].partition("/")[0], one["kind"]) for one in saved["items"]]
    assert kinds.count((IPAM, "IPAddress")) == kinds.count((IPAM, "IPAddressClaim")) == 2
    assert kinds.count((IPAM, "InClusterIPPool")) == 1
