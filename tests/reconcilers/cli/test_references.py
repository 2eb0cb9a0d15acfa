"""References to what does not exist are named, by `check` and by `plan`."""

from pathlib import Path
from typing import Any

from tests.reconcilers.cli.commandline import provider
from tests.reconcilers.cli.saved import ask, cluster

IPAM = "ipam.cluster.x-k8s.io"


def claimed(name: str, of: str) -> dict[str, Any]:
    pool = {"apiGroup": IPAM, "kind": "InClusterIPPool", "name": "pz"}
    return {
        "apiVersion": f"{IPAM}/v1beta2",
        "kind": "IPAddressClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterName": of, "poolRef": pool},
    }


OF_CLUSTER_API: tuple[dict[str, Any], ...] = (
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
    claimed("pz-1", "pz"),
    claimed("pz-ghost", "no-such-cluster"),
)


def test_plan_tells_a_cluster_that_does_not_exist_from_one_that_is_paused(tmp_path: Path) -> None:
    printed = ask(tmp_path, "plan", objects=OF_CLUSTER_API).out
    paused, ghost = (
        next(line for line in printed.splitlines() if f"default/{name} " in line)
        for name in ("pz-1", "pz-ghost")
    )
    assert "Cluster default/pz is paused" in paused
    assert "Cluster default/no-such-cluster, which the claim names, does not exist" in ghost


def test_check_reports_a_claim_whose_cluster_does_not_exist(tmp_path: Path) -> None:
    answered = ask(tmp_path, "check", objects=OF_CLUSTER_API)
    rows = [line.split(maxsplit=4) for line in answered.out.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["error", "UnknownCluster", "IPAddressClaim", "default/pz-ghost"]
    ]
    assert "names Cluster default/no-such-cluster, which does not exist; it waits" in answered.out
    assert answered.code == 1


def test_check_reports_references_to_pools_and_providers_that_do_not_exist(
    tmp_path: Path,
) -> None:
    lost = cluster("lost", "team")
    lost["spec"]["providerConfigRef"] = {"name": "typo", "namespace": "butler-system"}
    answered = ask(tmp_path, "check", objects=(provider("prov", "nowhere"), lost))
    rows = [line.split(maxsplit=4) for line in answered.out.splitlines()[1:]]
    assert [row[:4] for row in rows] == [
        ["error", "UnknownPool", "ProviderConfig", "butler-system/prov"],
        ["error", "UnknownProviderConfig", "TenantCluster", "team/lost"],
    ]
