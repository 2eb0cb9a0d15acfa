"""`plan` and `check` on pools of all kinds that hand out the same addresses."""

from collections.abc import Mapping
from typing import Any

import yaml

from tests.reconcilers.cli.commandline import Outcome, make_object, plan, run
from tests.yamls import written_yaml

Body = dict[str, Any]
ADVICE = ": well for separate sites, a slip otherwise"
"""The end of each sentence about pools that share addresses."""
POOL, IP_POOL = "NetworkPool butler-system/np", "InClusterIPPool butler-system/ic"
IPAM_POOL, NETWORK = "IPAMPool kkp in datacenter dc-1", "NetworkNamespace butler-system/viti"


def make_pools(first: int, last: int) -> list[Body]:
    """Return a NetworkPool and a pool of each other kind, all in the subnet 10.71.0.0/26.

    The NetworkPool hands out addresses 0 to 31, each other pool addresses `first` to `last`.
    """
    net = "10.71.0"
    ranges = [{"start": f"{net}.0", "end": f"{net}.31"}]
    ends = {"ipv4RangeStart": f"{net}.{first}", "ipv4RangeEnd": f"{net}.{last}"}
    static = {"ipv4CIDR": f"{net}.0/26", "ipv4Gateway": f"{net}.62", **ends}
    excluded = [f"{net}.{part}" for part in (f"0-{net}.{first - 1}", f"{last + 1}-{net}.63")]
    datacenter = {
        "type": "range",
        "poolCidr": f"{net}.0/26",
        "allocationRange": 4,
        "excludeRanges": excluded,
    }
    network = {
        "datacenterIdentifier": "dc-2",
        "ipAllocation": {"type": "static", "static": static},
    }
    addresses = {
        "addresses": [f"{net}.{first}-{net}.{last}"],
        "prefix": 24,
        "gateway": f"{net}.254",
    }
    return [
        make_object(
            "NetworkPool", "np", {"cidr": f"{net}.0/26", "tenantAllocation": {"ranges": ranges}}
        ),
        make_body("ipam.cluster.x-k8s.io/v1alpha2", "InClusterIPPool", name="ic", spec=addresses),
        make_body(
            "kubermatic.k8c.io/v1",
            "IPAMPool",
            name="kkp",
            spec={"datacenters": {"dc-1": datacenter}},
        ),
        make_body("vitistack.io/v1alpha2", "NetworkNamespace", name="viti", spec=network),
    ]


def make_body(version: str, kind: str, name: str, spec: Mapping[str, Any]) -> Body:
    """Return an object without a namespace."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def describe_sharing(*others: str) -> str:
    """Return the sentence about a pool that shares eight addresses with each of the others."""
    return "addresses are also handed out by " + ", ".join(
        f"{other} (8 addresses)" for other in others
    )


def list_overlaps(*objects: Body) -> dict[str, str]:
    """Run `check`; return the sentence about each pool that shares addresses, by its kind."""
    outcome = run("check", "-f", "-", "-o", "json", stdin=written_yaml(objects).encode())
    findings = yaml.safe_load(outcome.out)["findings"]
    assert {finding["kind"] for finding in findings} <= {"PoolsOverlap"}
    return {finding["subject"]["kind"]: finding["sentence"] for finding in findings}


def find_overlap_condition(outcome: Outcome, kind: str) -> Body:
    """Return the condition Overlapping that `plan` prints for the pool of a kind."""
    [pool] = [item for item in yaml.safe_load(outcome.out)["items"] if item["kind"] == kind]
    conditions = {entry["type"]: entry for entry in pool["status"]["conditions"]}
    return dict(conditions["Overlapping"])


def test_pools_of_all_kinds_name_each_other_in_the_same_words() -> None:
    objects = make_pools(24, 31)
    assert list_overlaps(*objects) == {
        "NetworkPool": f"{describe_sharing(IPAM_POOL, IP_POOL, NETWORK)}{ADVICE}",
        "InClusterIPPool": f"{describe_sharing(IPAM_POOL, NETWORK, POOL)}{ADVICE}",
        "IPAMPool": f"datacenter dc-1: {describe_sharing(IP_POOL, NETWORK, POOL)}{ADVICE}",
        "NetworkNamespace": f"{describe_sharing(IPAM_POOL, IP_POOL, POOL)}{ADVICE}",
    }
    outcome = plan(*objects)
    assert outcome.code == 0
    warnings = " ".join(outcome.warnings)
    assert f"{POOL}: spec.cidr: {describe_sharing(IPAM_POOL, IP_POOL, NETWORK)}" in warnings
    assert f"{IP_POOL}: {describe_sharing(IPAM_POOL, NETWORK, POOL)}" in warnings
    assert f"IPAMPool kkp: datacenter dc-1: {describe_sharing(IP_POOL, NETWORK, POOL)}" in warnings
    assert f"{NETWORK}: {describe_sharing(IPAM_POOL, IP_POOL, POOL)}" in warnings
    overlapping = find_overlap_condition(outcome, "NetworkPool")
    assert overlapping["status"] == "True"
    assert overlapping["message"] == describe_sharing(IPAM_POOL, IP_POOL, NETWORK)
    assert find_overlap_condition(outcome, "InClusterIPPool")["message"] == describe_sharing(
        IPAM_POOL, NETWORK, POOL
    )


def test_pools_of_different_kinds_that_hand_out_other_parts_of_a_subnet_do_not_overlap() -> None:
    others = make_pools(32, 39)[1:]
    kinds = {
        "InClusterIPPool": "pool of Cluster API",
        "IPAMPool": "IPAMPool",
        "NetworkNamespace": "NetworkNamespace",
    }
    for other in others:
        objects = [make_pools(32, 39)[0], other]
        assert list_overlaps(*objects) == {}
        outcome = plan(*objects)
        assert not [warning for warning in outcome.warnings if "handed out" in warning]
        overlapping = find_overlap_condition(outcome, "NetworkPool")
        assert overlapping["status"] == "False"
        assert overlapping["message"] == (
            f"no other NetworkPool or {kinds[other['kind']]} hands out these addresses"
        )


def test_the_second_family_of_a_networkpool_is_compared_too() -> None:
    second = {"cidr": "fd00:71::/64"}
    spec = {"cidr": "10.71.0.0/26", "secondary": second, "excludeNetworkAndBroadcast": False}
    pool = make_object("NetworkPool", "np", spec)
    prefixes = {"prefixes": ["fd00:71::/124"], "allocationPrefixLength": 126}
    other = make_body(
        "ipam.cluster.x-k8s.io/v1alpha2", "GlobalInClusterPrefixPool", name="pp", spec=prefixes
    )
    sentence = "addresses are also handed out by GlobalInClusterPrefixPool pp (16 addresses)"
    assert list_overlaps(pool, other)["NetworkPool"] == f"{sentence}{ADVICE}"
    [of_pool, _] = plan(pool, other).warnings
    assert f"spec.secondary.cidr: {sentence}" in of_pool
