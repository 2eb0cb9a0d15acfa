"""Commands on saved pools, claims and IPAddresses of Cluster API."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from allocator import AddressRange
from controller.meta import Key, MetadataOnly, ObjectMeta
from reconcilers.integrations.clusterapi.api import CLAIM_FINALIZER, JOURNALS
from reconcilers.promises.journal import Promise, PromisedRange
from tests.reconcilers.cli.commandline import Outcome, run

IPAM = "ipam.cluster.x-k8s.io"
OURS = "butler.butlerlabs.dev"
CREATED = "2026-01-01T00:00:00Z"


def make_saved_object(
    kind: str, name: str, spec: Any, version: str = "v1beta2", **more: Any
) -> Any:
    """Return an object of our API group or of Cluster API's IPAM group, in namespace b.

    Args:
        kind: decides the API group; a kind that begins with Global has no namespace.
        version: its version in the group of Cluster API.
        more: further fields; `metadata` is merged.
    """
    group = OURS if kind in {"NetworkPool", "IPAllocation"} else IPAM
    version = "v1alpha1" if group == OURS else version
    meta = {"name": name, "creationTimestamp": CREATED}
    if not kind.startswith("Global"):
        meta["namespace"] = "b"
    meta |= more.pop("metadata", {})
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": meta,
        "spec": spec,
        **more,
    }


def make_ip_pool(name: str, *addresses: str, **spec: Any) -> Any:
    """Return an InClusterIPPool of these addresses, with prefix 24."""
    spec = {"addresses": [*addresses], "prefix": 24, **spec}
    return make_saved_object("InClusterIPPool", name, spec=spec, version="v1alpha2")


def make_claim(name: str, pool: str, kind: str = "InClusterIPPool", **more: Any) -> Any:
    """Return an IPAddressClaim on a pool of a kind."""
    group = OURS if kind == "NetworkPool" else IPAM
    ref = {"apiGroup": group, "kind": kind, "name": pool}
    return make_saved_object("IPAddressClaim", name, {"poolRef": ref}, **more)


def make_address(name: str, pool: str, ip: str, kind: str = "InClusterIPPool", **more: Any) -> Any:
    """Return the IPAddress that gives the address `ip` of a pool to the claim of its own name."""
    group = OURS if kind == "NetworkPool" else IPAM
    ref = {"apiGroup": group, "kind": kind, "name": pool}
    spec = {"claimRef": {"name": name}, "poolRef": ref, "address": ip, "prefix": 24}
    return make_saved_object("IPAddress", name, spec, **more)


def run_on_saved(tmp_path: Path, command: str, *objects: Any) -> Outcome:
    """Save objects in a file, and run a command, given as one string, with `-f` on it."""
    file = tmp_path / "saved.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    name, *rest = command.split()
    return run(name, *rest, "-f", file)


def test_pools_of_claims_are_listed_with_their_figures(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path,
        "pools -o json",
        make_ip_pool("p", "10.0.0.10-10.0.0.19", excludedAddresses=["10.0.0.15"]),
        make_address("a", "p", "10.0.0.10"),
        make_address("out", "p", "10.0.0.15"),
        make_claim("a", "p"),
        make_claim("w", "p"),
    )
    assert outcome.code == 0
    [document] = yaml.safe_load(outcome.out)["items"]
    [family] = document.pop("families")
    assert document == {
        "kind": "InClusterIPPool",
        "namespace": "b",
        "name": "p",
        "waiting": 1,
        "ready": "Unknown",
        "reason": "its definition has no conditions, or it was not reconciled",
    }
    assert family["offers"] == "10.0.0.10-10.0.0.19"
    figures = {"total": 9, "allocated": 1, "available": 8, "outOfRange": 1}
    assert family.items() >= figures.items()
    table = run_on_saved(tmp_path, "pools", make_ip_pool("p", "10.0.0.10-10.0.0.19")).out
    assert table.splitlines()[1].split() == [
        *("InClusterIPPool", "b", "p", "10.0.0.10-10.0.0.19"),
        *("[--------------------]", "0%", "10", "0", "10", "10", "0%", "0", "Unknown"),
    ]


def test_whois_names_the_ipaddress_that_holds_an_address(tmp_path: Path) -> None:
    pool = make_ip_pool("p", "10.0.0.10-10.0.0.12")
    outcome = run_on_saved(tmp_path, "whois 10.0.0.11", pool, make_address("a", "p", "10.0.0.11"))
    assert outcome.code == 0
    assert "InClusterIPPool b/p  allocated  IPAddress b/a" in outcome.out
    missing = run_on_saved(tmp_path, "whois 10.0.0.13", pool)
    assert (missing.code, missing.errors) == (1, ["no pool in the files contains 10.0.0.13"])


def test_an_address_of_a_network_pool_that_a_claim_holds_is_allocated(tmp_path: Path) -> None:
    objects = [
        make_saved_object("NetworkPool", "site", {"cidr": "10.9.0.0/29", "gateway": "10.9.0.1"}),
        make_claim("a", "site", "NetworkPool"),
        make_address("a", "site", ip="10.9.0.2", kind="NetworkPool"),
    ]
    outcome = run_on_saved(tmp_path, "whois 10.9.0.2", *objects)
    assert "10.9.0.2  NetworkPool b/site  allocated  IPAddressClaim b/a" in outcome.out
    gateway = run_on_saved(tmp_path, "whois 10.9.0.1 -o json", *objects)
    assert yaml.safe_load(gateway.out)["items"][0]["note"] == "gateway"
    figures = yaml.safe_load(run_on_saved(tmp_path, "pools -o json", *objects).out)["items"][0][
        "families"
    ][0]
    assert (figures["total"], figures["allocated"]) == (7, 1)


def test_an_ipv6_address_of_a_dual_stack_network_pool_that_an_ipaddress_holds_is_allocated(
    tmp_path: Path,
) -> None:
    spec = {
        "poolRef": {"name": "site"},
        "tenantClusterRef": {"name": "t", "namespace": "b"},
        "type": "nodes",
        "count": 1,
        "ipFamilyPolicy": "RequireDualStack",
    }
    objects = [
        make_saved_object(
            "NetworkPool", "site", {"cidr": "10.9.0.0/29", "secondary": {"cidr": "fd00::/125"}}
        ),
        make_address("a", "site", ip="fd00::", kind="NetworkPool"),
    ]
    outcome = run_on_saved(tmp_path, "whois fd00::", *objects)
    assert "fd00::  NetworkPool b/site  allocated  IPAddress b/a" in outcome.out
    planned = run_on_saved(
        tmp_path, "plan -o json", *objects, make_saved_object("IPAllocation", "i", spec)
    )
    families = planned.items["IPAllocation/i"]["status"]["families"]
    assert "fd00::" not in {family["startAddress"] for family in families}
    status = planned.items["NetworkPool/site"]["status"]
    assert status["secondary"]["allocatedIPs"] == 2


@pytest.mark.parametrize(
    ("expected", "objects"),
    [
        ("InvalidPool InClusterIPPool", [make_ip_pool("p", "x")]),
        (
            "Overlap IPAddress",
            [
                make_ip_pool("p", "10.0.0.0/24"),
                make_address("a", "p", "10.0.0.7"),
                make_address("b", "p", "10.0.0.7"),
            ],
        ),
        (
            "OutOfRange IPAddress",
            [make_ip_pool("p", "10.0.0.1"), make_address("a", "p", "10.0.0.9")],
        ),
        ("UnknownPool IPAddressClaim", [make_claim("a", "gone")]),
        (
            "LostAddress IPAddressClaim",
            [
                make_ip_pool("p", "10.0.0.1"),
                make_claim("a", "p", status={"addressRef": {"name": "a"}}),
            ],
        ),
        (
            "Unclaimed IPAddress",
            [
                make_ip_pool("p", "10.0.0.1"),
                make_address(
                    "a", "p", "10.0.0.1", metadata={"finalizers": [f"{IPAM}/ProtectAddress"]}
                ),
            ],
        ),
        (
            "PoolsOverlap InClusterIPPool",
            [make_ip_pool("p", "10.0.0.1"), make_ip_pool("q", "10.0.0.1")],
        ),
        (
            "StuckRelease IPAddressClaim",
            [
                make_ip_pool("p", "10.0.0.1"),
                make_claim(
                    "a", "p", metadata={"deletionTimestamp": CREATED, "finalizers": ["x/y"]}
                ),
            ],
        ),
        (
            "StatusDrift InClusterIPPool",
            [
                make_ip_pool("p", "10.0.0.1")
                | {"status": {"ipAddresses": {"total": 1, "used": 1, "free": 0, "outOfRange": 0}}}
            ],
        ),
        (
            "Unreadable IPAddress",
            [make_address("a", "p", "10.0.0.1") | {"spec": {"prefix": "many"}}],
        ),
    ],
)
def test_check_reports_each_kind_of_problem(
    tmp_path: Path, expected: str, objects: list[Any]
) -> None:
    outcome = run_on_saved(tmp_path, "check -o json", *objects)
    severities = {
        f"{finding['kind']} {finding['subject']['kind']}": finding["severity"]
        for finding in yaml.safe_load(outcome.out)["findings"]
    }
    assert expected in severities
    assert outcome.code == (1 if "error" in severities.values() else 0)


def test_check_has_no_findings_in_the_objects_that_plan_prints(tmp_path: Path) -> None:
    planned = run_on_saved(
        tmp_path,
        "plan -o yaml",
        make_ip_pool("p", "10.0.0.1-10.0.0.5"),
        make_saved_object("NetworkPool", "site", {"cidr": "10.9.0.0/29"}),
        make_claim("a", "p"),
        make_claim("b", "site", "NetworkPool"),
    )
    items = yaml.safe_load(planned.out)["items"]
    outcome = run_on_saved(tmp_path, "check -o json", *items)
    assert yaml.safe_load(outcome.out)["findings"] == []
    assert {item["kind"] for item in items} >= {"IPAddress", "IPAddressClaim"}


def test_plan_serves_claims_oldest_first_and_gives_the_reason_for_the_others(
    tmp_path: Path,
) -> None:
    outcome = run_on_saved(
        tmp_path,
        "plan",
        make_ip_pool("p", "10.0.0.10-10.0.0.11", gateway="10.0.0.10"),
        make_claim("young", "p", metadata={"creationTimestamp": "2026-01-03T00:00:00Z"}),
        make_claim("old", "p"),
        make_claim("lost", "gone"),
    )
    lines = [line.split(maxsplit=5) for line in outcome.out.splitlines()[1:]]
    assert [[line[1], *line[4:]] for line in lines] == [
        ["b/young", "-", "PoolExhausted: InClusterIPPool p has no free address"],
        ["b/old", "10.0.0.11/24", "-"],
        ["b/lost", "-", "PoolNotReady: InClusterIPPool gone does not exist"],
    ]


def test_plan_keeps_an_existing_ipaddress_of_the_name_of_its_claim(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path,
        "plan",
        make_ip_pool("p", "10.0.0.10-10.0.0.19"),
        make_claim("a", "p"),
        make_claim("b", "p"),
        make_address("b", "p", "10.0.0.10"),
    )
    assert [line.split()[4] for line in outcome.out.splitlines()[1:]] == [
        "10.0.0.11/24",
        "10.0.0.10/24",
    ]


def test_plan_gives_allocations_and_claims_of_one_pool_different_addresses(
    tmp_path: Path,
) -> None:
    spec = {
        "poolRef": {"name": "site"},
        "tenantClusterRef": {"name": "t", "namespace": "b"},
        "type": "nodes",
        "count": 4,
    }
    outcome = run_on_saved(
        tmp_path,
        "plan -o json",
        make_saved_object("NetworkPool", "site", {"cidr": "10.9.0.0/28"}),
        make_saved_object("IPAllocation", "i", spec),
        make_address("made", "site", ip="10.9.0.1", kind="NetworkPool"),
        make_claim("a", "site", "NetworkPool"),
    )
    allocation = outcome.items["IPAllocation/i"]["status"]
    claimed = outcome.items["IPAddress/a"]["spec"]["address"]
    assert allocation["startAddress"] == "10.9.0.2"
    assert claimed == "10.9.0.0"
    status = outcome.items["NetworkPool/site"]["status"]
    assert (status["totalIPs"], status["allocatedIPs"]) == (16, 6)


def test_pools_with_a_namespace_lists_only_pools_of_that_namespace(tmp_path: Path) -> None:
    other = make_ip_pool("q", "10.0.1.1") | {"metadata": {"name": "q", "namespace": "c"}}
    outcome = run_on_saved(tmp_path, "pools -n c -o name", make_ip_pool("p", "10.0.0.1"), other)
    assert outcome.out.split() == ["inclusterippool.ipam.cluster.x-k8s.io/q"]


RELEASED_METADATA = {
    "finalizers": [f"{IPAM}/ProtectAddress"],
    "annotations": {f"{OURS}/released-at": CREATED},
}
"""Metadata of an IPAddress that is released but not yet handed out again."""


def test_plan_prints_the_statuses_that_pools_of_claims_would_get(tmp_path: Path) -> None:
    outcome = run_on_saved(
        tmp_path,
        "plan -o json",
        make_ip_pool("p", "10.0.0.10-10.0.0.12"),
        make_ip_pool("broken", "10.0.0.999"),
        make_saved_object("NetworkPool", "site", {"cidr": "10.0.0.12/30"}),
        make_claim("a", "p"),
        make_claim("foreign", "p", "InClusterIPPool")
        | {"spec": {"poolRef": {"apiGroup": "other", "kind": "IPPool", "name": "p"}}},
    )
    status = outcome.items["InClusterIPPool/p"]["status"]
    assert status["ipAddresses"] == {"total": 3, "used": 1, "free": 2, "outOfRange": 0}
    assert {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in status["conditions"]
    } == {
        "Ready": ("True", "Ready"),
        "Overlapping": ("True", "PoolsOverlap"),
    }
    [broken] = outcome.items["InClusterIPPool/broken"]["status"]["conditions"]
    assert (broken["status"], broken["reason"]) == ("False", "ValidationFailed")
    assert "ipAddresses" not in outcome.items["InClusterIPPool/broken"]["status"]
    assert "status" not in outcome.items["IPAddressClaim/foreign"]


def test_check_offers_to_delete_the_younger_of_two_ipaddresses_that_overlap(
    tmp_path: Path,
) -> None:
    young = {"creationTimestamp": "2026-02-01T00:00:00Z", "uid": "u", "resourceVersion": "7"}
    outcome = run_on_saved(
        tmp_path,
        "check -o json",
        make_ip_pool("p", "10.0.0.0/24"),
        make_address("a", "p", "10.0.0.7", metadata=young),
        make_address("b", "p", "10.0.0.7"),
    )
    [finding] = yaml.safe_load(outcome.out)["findings"]
    assert (finding["kind"], finding["choices"]) == ("Overlap", ["none", "delete"])
    assert finding["subject"] == {
        "kind": "IPAddress",
        "namespace": "b",
        "name": "a",
        "uid": "u",
        "resourceVersion": "7",
    }


def test_check_has_no_finding_about_a_released_address_that_is_not_handed_out_yet(
    tmp_path: Path,
) -> None:
    released = make_address("a", "p", "10.0.0.1", metadata=RELEASED_METADATA)
    outcome = run_on_saved(tmp_path, "check -o json", make_ip_pool("p", "10.0.0.1"), released)
    assert yaml.safe_load(outcome.out)["findings"] == []


def test_check_names_a_network_pool_that_shares_addresses_and_has_no_claims(
    tmp_path: Path,
) -> None:
    site = make_saved_object("NetworkPool", "site", {"cidr": "10.0.0.0/30"})
    outcome = run_on_saved(tmp_path, "check -o json", site, make_ip_pool("p", "10.0.0.1"))
    kinds = {
        finding["subject"]["kind"]: (finding["kind"], finding["sentence"].partition(":")[0])
        for finding in yaml.safe_load(outcome.out)["findings"]
    }
    shared = "addresses are also handed out by"
    assert kinds == {
        "InClusterIPPool": (
            "PoolsOverlap",
            f"{shared} NetworkPool b/site (1 address)",
        ),
        "NetworkPool": ("PoolsOverlap", f"{shared} InClusterIPPool b/p (1 address)"),
    }


def test_plan_gives_a_promised_address_to_its_claim_even_if_an_older_claim_waits(
    tmp_path: Path,
) -> None:
    stored = {"uid": "uid-young", "resourceVersion": "5", "finalizers": [CLAIM_FINALIZER]}
    young = make_claim(
        "young", "p", metadata={**stored, "creationTimestamp": "2026-01-02T00:00:00Z"}
    )
    pool = make_promising_pool("p", "10.0.0.10-10.0.0.19", claim="young", version="5")
    old = make_claim("old", "p", metadata={"uid": "uid-old", "resourceVersion": "4"})
    planned = run_on_saved(tmp_path, "plan -o json", pool, old, young)
    address = {
        item["metadata"]["name"]: item["spec"]["address"]
        for item in yaml.safe_load(planned.out)["items"]
        if item["kind"] == "IPAddress"
    }
    assert address == {"old": "10.0.0.11", "young": "10.0.0.10"}


def make_promising_pool(name: str, addresses: str, claim: str, version: str) -> Any:
    """Return an InClusterIPPool whose journal promises 10.0.0.10 to a claim.

    Args:
        addresses: the range of the pool.
        claim: the name of the claim.
        version: the resourceVersion of the claim for which the promise was made.
    """
    promised = (PromisedRange(AddressRange.parse("10.0.0.10", "10.0.0.10")),)
    promise = Promise(
        JOURNALS.kind,
        Key("b", claim),
        uid=f"uid-{claim}",
        resourceVersion=version,
        ranges=promised,
    )
    stored_pool = MetadataOnly(ObjectMeta(name=name, namespace="b", uid=f"uid-{name}"))
    journal = JOURNALS.patch(stored_pool, JOURNALS.with_revision(1, [promise]))["metadata"]
    pool = make_ip_pool(name, addresses)
    pool["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "6", **journal}
    return pool


def make_stored_claim(name: str, version: str) -> Any:
    """Return a claim on pool p as it is stored, with a uid, a finalizer and a resourceVersion."""
    meta = {"uid": f"uid-{name}", "resourceVersion": version, "finalizers": [CLAIM_FINALIZER]}
    return make_claim(name, "p", metadata=meta)


def find_planned_status(planned: Outcome, name: str) -> Any:
    """Return the status of a claim in the output of `plan`."""
    [document] = (
        item
        for item in yaml.safe_load(planned.out)["items"]
        if item["kind"] == "IPAddressClaim" and item["metadata"]["name"] == name
    )
    return document["status"]


def test_a_plan_refuses_a_promised_claim_if_the_ipaddress_of_its_name_is_of_another_pool(
    tmp_path: Path,
) -> None:
    pool = make_promising_pool("p", "10.0.0.10-10.0.0.19", claim="yy", version="5")
    other = make_address("yy", "other", "10.0.0.77")
    planned = run_on_saved(tmp_path, "plan -o json", pool, make_stored_claim("yy", "5"), other)
    status = find_planned_status(planned, "yy")
    assert "addressRef" not in status
    [ready] = (condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert (ready["status"], ready["message"]) == (
        "False",
        "IPAddress b/yy exists and is of InClusterIPPool other",
    )


def test_a_plan_refuses_a_promised_claim_if_the_ipaddress_of_its_name_is_of_another_claim(
    tmp_path: Path,
) -> None:
    pool = make_promising_pool("p", "10.0.0.10-10.0.0.19", claim="yy", version="5")
    other = make_address("yy", "p", "10.0.0.10")
    other["spec"]["claimRef"]["name"] = "xx"
    planned = run_on_saved(tmp_path, "plan -o json", pool, make_stored_claim("yy", "5"), other)
    status = find_planned_status(planned, "yy")
    assert "addressRef" not in status
    [ready] = (condition for condition in status["conditions"] if condition["type"] == "Ready")
    assert ready["message"] == "IPAddress b/yy exists and is for claim xx"


def test_plan_serves_a_waiting_claim_with_an_address_whose_promised_claim_is_gone(
    tmp_path: Path,
) -> None:
    pool = make_promising_pool("p", "10.0.0.10", claim="gone", version="5")
    planned = run_on_saved(tmp_path, "plan -o json", pool, make_stored_claim("waiting", "9"))
    assert find_planned_status(planned, "waiting")["addressRef"] == {"name": "waiting"}


@pytest.mark.parametrize("kind", ["InClusterIPPool", "NetworkPool"])
def test_an_address_of_a_family_that_a_pool_lacks_is_shown_as_stray(
    tmp_path: Path, kind: str
) -> None:
    pool = (
        make_ip_pool("p", "10.0.0.10-10.0.0.12")
        if kind == "InClusterIPPool"
        else make_saved_object("NetworkPool", "p", {"cidr": "10.9.0.0/29"})
    )
    objects = [pool, make_address("web", "p", ip="fd00::5", kind=kind)]
    [document] = yaml.safe_load(run_on_saved(tmp_path, "map -o json", *objects).out)["items"]
    [family] = document["families"]
    [held_extent] = [extent for extent in family["extents"] if extent["holders"]]
    assert (held_extent["start"], held_extent["state"]) == ("fd00::5", "stray")
    outcome = run_on_saved(tmp_path, "whois fd00::5", *objects)
    assert f"{kind} b/p  stray  IPAddress b/web" in outcome.out
