"""References to what does not exist are named, by `check` and by `plan`."""

from pathlib import Path
from typing import Any

import pytest

from reconcilers.api.names import GROUP
from tests.reconcilers.cli.commandline import make_provider
from tests.reconcilers.cli.saved import make_saved_cluster, run_on_files

IPAM = "ipam.cluster.x-k8s.io"


def make_claim(name: str, cluster: str) -> dict[str, Any]:
    """Return a claim of a Cluster on InClusterIPPool `pz`."""
    pool = {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "pz"}
    return {
        "apiVersion": f"{IPAM}/v1beta2",
        "kind": "IPAddressClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterName": cluster, "poolRef": pool},
    }


CLUSTER_API_OBJECTS: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": f"{IPAM}/v1alpha2",
        "kind": "InClusterIPPool",
        "metadata": {"name": "pz", "namespace": "default"},
        "spec": {"addresses": ["10.97.0.2-10.97.0.9"], "prefix": 24},
    },
    {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "pz", "namespace": "default"},
        "spec": {"paused": True},
    },
    make_claim("pz-1", "pz"),
    make_claim("pz-ghost", "no-such-cluster"),
)


def test_plan_distinguishes_claims_of_a_missing_cluster_and_of_a_paused_cluster(
    tmp_path: Path,
) -> None:
    printed = run_on_files(tmp_path, "plan", objects=CLUSTER_API_OBJECTS).out
    paused, ghost = (
        next(line for line in printed.splitlines() if f"default/{name} " in line)
        for name in ("pz-1", "pz-ghost")
    )
    assert "Cluster default/pz is paused" in paused
    assert "Cluster default/no-such-cluster, which the claim names, does not exist" in ghost


@pytest.mark.parametrize("kind", ["InClusterIPPool", "NetworkPool"])
def test_plan_serves_no_claim_from_a_paused_pool(tmp_path: Path, kind: str) -> None:
    claim = make_claim("a", "")
    claim["spec"] = {"poolRef": {"apiGroup": IPAM, "kind": kind, "name": "pz"}}
    pool = dict(CLUSTER_API_OBJECTS[0])
    if kind == "NetworkPool":
        claim["spec"]["poolRef"]["apiGroup"] = GROUP
        pool |= {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "spec": {"cidr": "10.97.0.0/28"}}
    pool["metadata"] = {**pool["metadata"], "annotations": {"cluster.x-k8s.io/paused": ""}}
    printed = run_on_files(tmp_path, "plan", objects=(pool, claim)).out
    [row] = [line for line in printed.splitlines() if "IPAddressClaim default/a" in line]
    assert row.split(maxsplit=4)[4] == "-     PoolNotReady: its pool is paused by its annotation"


def test_check_reports_an_ipaddress_whose_pool_does_not_exist(tmp_path: Path) -> None:
    address = {
        "apiVersion": f"{IPAM}/v1beta2",
        "kind": "IPAddress",
        "metadata": {"name": "lost", "namespace": "default"},
        "spec": {
            "address": "10.97.0.5",
            "prefix": 24,
            "claimRef": {"name": "gone"},
            "poolRef": {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "typo"},
        },
    }
    printed = run_on_files(tmp_path, "check", objects=(*CLUSTER_API_OBJECTS[:2], address)).out
    assert "names InClusterIPPool default/typo, which does not exist" in printed


def test_check_reports_a_claim_whose_cluster_does_not_exist(tmp_path: Path) -> None:
    outcome = run_on_files(tmp_path, "check", objects=CLUSTER_API_OBJECTS)
    rows = [line.split(maxsplit=4) for line in outcome.out.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["error", "UnknownCluster", "IPAddressClaim", "default/pz-ghost"]
    ]
    assert "names Cluster default/no-such-cluster, which does not exist; it waits" in outcome.out
    assert outcome.code == 1


def test_check_reports_references_to_pools_and_providers_that_do_not_exist(
    tmp_path: Path,
) -> None:
    lost = make_saved_cluster("lost", "team")
    lost["spec"]["providerConfigRef"] = {"name": "typo", "namespace": "butler-system"}
    outcome = run_on_files(tmp_path, "check", objects=(make_provider("prov", "nowhere"), lost))
    rows = [line.split(maxsplit=4) for line in outcome.out.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["error", "UnknownPool", "ProviderConfig", "butler-system/prov"],
        ["error", "UnknownProviderConfig", "TenantCluster", "team/lost"],
    ]
