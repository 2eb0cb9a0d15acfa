"""-n selects which objects are shown; holders in other namespaces still count."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.reconcilers.cli.saved import run_on_files

IPAM = "ipam.cluster.x-k8s.io"


def make_claim(namespace: str, name: str, address: str) -> list[dict[str, Any]]:
    """Return a claim on the GlobalInClusterIPPool `global`, and its IPAddress."""
    pool = {"apiGroup": IPAM, "kind": "GlobalInClusterIPPool", "name": "global"}
    meta = {"name": name, "namespace": namespace}
    return [
        {
            "apiVersion": f"{IPAM}/v1beta2",
            "kind": "IPAddressClaim",
            "metadata": meta,
            "spec": {"poolRef": pool},
            "status": {"addressRef": {"name": name}},
        },
        {
            "apiVersion": f"{IPAM}/v1beta2",
            "kind": "IPAddress",
            "metadata": meta,
            "spec": {
                "address": address,
                "prefix": 24,
                "claimRef": {"name": name},
                "poolRef": pool,
            },
        },
    ]


OBJECTS = (
    {
        "apiVersion": f"{IPAM}/v1alpha2",
        "kind": "GlobalInClusterIPPool",
        "metadata": {"name": "global"},
        "spec": {"addresses": ["10.72.0.10-10.72.0.20"], "prefix": 24},
        "status": {"ipAddresses": {"total": 11, "used": 1, "free": 10, "outOfRange": 0}},
    },
    {
        "apiVersion": f"{IPAM}/v1alpha2",
        "kind": "InClusterIPPool",
        "metadata": {"name": "theirs", "namespace": "site-b"},
        "spec": {"addresses": ["10.73.0.10"], "prefix": 24},
    },
    *make_claim("site-b", "node-0", "10.72.0.10"),
)


@pytest.mark.parametrize("namespace", ["", "team", "site-b"])
def test_an_address_of_a_global_pool_is_allocated_whatever_namespace_is_shown(
    tmp_path: Path, namespace: str
) -> None:
    outcome = run_on_files(tmp_path, "whois", "10.72.0.10", "-n", namespace, objects=OBJECTS)
    assert outcome.code == 0
    assert "allocated  IPAddressClaim site-b/node-0" in outcome.out


@pytest.mark.parametrize("namespace", ["", "team", "site-b"])
def test_the_figures_of_a_global_pool_are_the_same_in_every_namespace(
    tmp_path: Path, namespace: str
) -> None:
    document = json.loads(
        run_on_files(tmp_path, "pools", "-n", namespace, "-o", "json", objects=OBJECTS).out
    )
    (pool,) = [item for item in document["items"] if item["name"] == "global"]
    [family] = pool["families"]
    assert (family["total"], family["allocated"], family["available"]) == (11, 1, 10)
    drawn = json.loads(
        run_on_files(tmp_path, "map", "-n", namespace, "-o", "json", objects=OBJECTS).out
    )
    (pool,) = [item for item in drawn["items"] if item["name"] == "global"]
    [family] = pool["families"]
    extents = [extent for extent in family["extents"] if extent["state"] == "allocated"]
    assert [extent["start"] for extent in extents] == ["10.72.0.10"]


def test_pools_of_other_namespaces_are_not_shown(tmp_path: Path) -> None:
    pool = run_on_files(tmp_path, "pools", "-n", "team", objects=OBJECTS)
    assert "global" in pool.out
    assert "theirs" not in pool.out


def test_check_of_a_namespace_counts_holders_of_other_namespaces(tmp_path: Path) -> None:
    assert (
        run_on_files(tmp_path, "check", "-n", "team", objects=OBJECTS).out == "nothing is wrong\n"
    )


def test_check_names_a_global_pool_without_a_namespace(tmp_path: Path) -> None:
    drifted = json.loads(json.dumps(OBJECTS))
    drifted[0]["status"]["ipAddresses"] = {"total": 11, "used": 4, "free": 7, "outOfRange": 0}
    printed = run_on_files(tmp_path, "check", objects=tuple(drifted)).out
    assert "  GlobalInClusterIPPool global  " in printed
    assert "its status drifted: used is 4, not 1; free is 7, not 10;" in printed
