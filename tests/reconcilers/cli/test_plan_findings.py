"""Errors and warnings of `plan` about pools, requests and their relations, with their place."""

import pytest

from tests.reconcilers.cli.commandline import (
    Outcome,
    find_condition,
    make_allocation,
    make_cluster,
    make_held_status,
    make_pool,
    make_provider,
    plan,
    plan_text,
    run,
)


def get_only_error(outcome: Outcome) -> str:
    """Return the one error of a plan that exits with 1."""
    assert outcome.code == 1
    [error] = outcome.errors
    return error


@pytest.mark.parametrize(
    ("cidr", "problem"),
    [
        ("10.0.0.0/33", "prefix length from 0 to 32"),
        ("300.1.1.0/24", "is not ADDRESS/PREFIX"),
    ],
)
def test_an_invalid_cidr_is_an_error_and_requests_to_the_pool_wait(
    cidr: str, problem: str
) -> None:
    outcome = plan(make_pool(cidr=cidr), make_allocation("a", 4))
    error = get_only_error(outcome)
    assert "NetworkPool butler-system/lab: spec.cidr: invalid pool CIDR" in error
    assert problem in error
    condition = find_condition(outcome.items["NetworkPool/lab"])
    assert (condition["status"], condition["reason"]) == ("False", "ValidationFailed")
    waiting = outcome.items["IPAllocation/a"]
    assert waiting["status"]["phase"] == "Pending"
    assert find_condition(waiting)["reason"] == "PoolNotReady"


def test_an_error_about_a_pool_names_the_line_of_the_field() -> None:
    manifests = """\
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: NetworkPool
metadata:
  name: lab
spec:
  cidr: 10.0.0.0/24
  reserved:
    - cidr: 10.0.0.0/28
    - cidr: 10.9.0.0/28
  tenantAllocation:
    start: 10.0.0.16
    end: 10.0.1.16
"""
    outcome = plan_text(manifests)
    assert outcome.code == 1
    first, second = outcome.errors
    assert first == (
        'standard input:9: NetworkPool lab: spec.reserved[1]: reserved CIDR "10.9.0.0/28" is not'
        ' within pool CIDR "10.0.0.0/24"'
    )
    assert second == (
        "standard input:10: NetworkPool lab: spec.tenantAllocation: ranges[0]"
        " (10.0.0.16-10.0.1.16) falls outside pool CIDR 10.0.0.0/24"
    )


def test_every_fault_of_a_pool_is_reported_at_once() -> None:
    outcome = plan(make_pool(reserved=["10.99.0.0/24", "10.40.0.0/40"]))
    assert len(outcome.errors) == 2


def test_one_bad_pool_does_not_stop_the_others() -> None:
    outcome = plan(
        make_pool("bad", "10.0.0.0/33"),
        make_allocation("waits", 4, pool="bad"),
        make_pool(),
        make_allocation("served", 4),
    )
    assert outcome.code == 1
    assert outcome.items["IPAllocation/served"]["status"]["cidr"] == "10.40.0.0/30"


def test_a_pool_that_is_too_large_is_refused_unless_the_flag_allows_it() -> None:
    huge = make_pool(cidr="10.0.0.0/8")
    assert "pool too large: 16777216 IPs (max 1048576)" in get_only_error(plan(huge))
    allowed = plan(huge, make_allocation("a", 4), options=["--max-pool-addresses", str(2**24)])
    assert allowed.items["NetworkPool/lab"]["status"]["availableIPs"] == 2**24 - 4


def test_a_pool_whose_addresses_are_all_reserved_is_a_warning() -> None:
    outcome = plan(make_pool(reserved=["10.40.0.0/24"]))
    assert outcome.code == 0
    assert "nothing can be handed out" in outcome.warnings[0]
    condition = find_condition(outcome.items["NetworkPool/lab"], "CapacityExhausted")
    assert (condition["status"], condition["reason"]) == ("False", "NoCapacity")


def test_host_bits_in_a_cidr_are_a_warning() -> None:
    outcome = plan(
        make_pool(cidr="10.40.0.7/24", reserved=["10.40.0.17/28"]), make_allocation("a", 4)
    )
    assert outcome.code == 0
    first, second = outcome.warnings
    assert "spec.cidr: '10.40.0.7/24' has host bits set; it is read as 10.40.0.0/24" in first
    assert "spec.reserved[0].cidr: '10.40.0.17/28' has host bits set" in second
    assert outcome.items["IPAllocation/a"]["status"]["startAddress"] == "10.40.0.0"


def test_reserved_ranges_that_overlap_are_a_warning() -> None:
    outcome = plan(make_pool(reserved=["10.40.0.0/28", "10.40.0.8/29"]))
    assert outcome.code == 0
    [warning] = outcome.warnings
    assert "spec.reserved[1]: 10.40.0.8/29 overlaps reserved[0] (10.40.0.0/28)" in warning


def test_a_request_to_a_missing_pool_waits_and_is_an_error() -> None:
    outcome = plan(make_allocation("a", 4, pool="nowhere"))
    assert get_only_error(outcome).endswith(
        "IPAllocation butler-system/a: spec.poolRef.name: names NetworkPool butler-system/nowhere,"
        " which is not in the input"
    )
    waiting = outcome.items["IPAllocation/a"]
    assert (waiting["status"]["phase"], find_condition(waiting)["reason"]) == (
        "Pending",
        "PoolNotFound",
    )


def test_the_error_about_a_request_to_an_invalid_pool_refers_to_the_error_above() -> None:
    outcome = plan(make_pool(cidr="banana"), make_allocation("a", 4))
    assert len(outcome.errors) == 2
    assert "which is in the input but wrong, see above" in outcome.errors[1]


@pytest.mark.parametrize(
    ("pin", "reason", "problem"),
    [
        (("10.99.0.0", "10.99.0.7"), "OutOfRange", "range falls outside pool boundaries"),
        (("10.40.0.250", "10.40.1.5"), "OutOfRange", "range falls outside pool boundaries"),
        (("300.0.0.1", "300.0.0.2"), "InvalidRequest", "invalid IP range"),
        (("10.40.0.0", "10.40.0.3"), "PinnedRangeConflict", "holds reserved addresses"),
    ],
)
def test_a_pinned_range_that_its_pool_can_never_serve_is_an_error(
    pin: tuple[str, str], reason: str, problem: str
) -> None:
    outcome = plan(
        make_pool(reserved=["10.40.0.0/28"]),
        make_allocation("a", pinned_range=pin),
        make_allocation("b", 4),
    )
    error = get_only_error(outcome)
    assert "IPAllocation butler-system/a: spec.pinnedRange: " in error
    assert problem in error
    refused = outcome.items["IPAllocation/a"]
    assert (refused["status"]["phase"], find_condition(refused)["reason"]) == ("Failed", reason)
    assert outcome.items["IPAllocation/b"]["status"]["phase"] == "Allocated"


def test_a_request_larger_than_the_empty_pool_is_a_warning() -> None:
    outcome = plan(make_pool(), make_allocation("a", 300))
    assert outcome.code == 0
    assert "asks for 300 addresses in a row" in outcome.warnings[0]
    assert "256 at most, even empty" in outcome.warnings[0]
    assert find_condition(outcome.items["IPAllocation/a"])["reason"] == "PoolExhausted"


def test_held_ranges_that_overlap_are_an_error_and_both_are_kept() -> None:
    outcome = plan(
        make_pool(),
        make_allocation("a", status=make_held_status("10.40.0.0", "10.40.0.15")),
        make_allocation("b", status=make_held_status("10.40.0.8", "10.40.0.11")),
        make_allocation("c", 4),
    )
    error = get_only_error(outcome)
    assert "IPAllocation butler-system/b" in error
    assert "10.40.0.8/30 overlaps 10.40.0.0/28 of IPAllocation butler-system/a" in error
    assert outcome.items["IPAllocation/c"]["status"]["startAddress"] == "10.40.0.16"
    assert outcome.items["NetworkPool/lab"]["status"]["allocatedIPs"] == 20


def test_many_overlaps_are_counted_and_not_all_listed() -> None:
    same = [
        make_allocation(f"a{n}", status=make_held_status("10.40.0.0", "10.40.0.7"))
        for n in range(50)
    ]
    outcome = plan(make_pool(), *same)
    assert len(outcome.errors) == 21
    assert outcome.errors[-1].endswith("29 more allocations overlap others")


def test_a_range_outside_its_pool_is_an_error_and_kept() -> None:
    outside = make_held_status("10.99.0.0", "10.99.0.7")
    outcome = plan(make_pool(), make_allocation("a", status=outside))
    assert (
        "10.99.0.0/29 lies outside what NetworkPool butler-system/lab may hand out"
        in get_only_error(outcome)
    )
    assert outcome.items["IPAllocation/a"]["status"] == outside


def test_an_invalid_held_range_is_an_error_and_a_new_one_is_chosen() -> None:
    outcome = plan(make_pool(), make_allocation("a", 4, status=make_held_status("here", "there")))
    assert "'here-there' is not a range of addresses; it is ignored" in get_only_error(outcome)
    assert outcome.items["IPAllocation/a"]["status"]["cidr"] == "10.40.0.0/30"


def test_pools_that_hand_out_different_parts_of_one_cidr_are_no_warning() -> None:
    low = make_pool("a", tenant_allocation={"start": "10.40.0.0", "end": "10.40.0.127"})
    assert plan(low, make_pool("b", reserved=["10.40.0.0/25"])).warnings == []


def test_pools_that_share_addresses_are_a_warning() -> None:
    outcome = plan(
        make_pool("a", "10.40.0.0/22"),
        make_pool("b", "10.40.3.0/24"),
        make_pool("c", "10.41.0.0/24"),
    )
    assert outcome.code == 0
    of_a, of_b = outcome.warnings
    shared = "spec.cidr: addresses are also handed out by NetworkPool butler-system"
    assert f"NetworkPool butler-system/a: {shared}/b (256 addresses)" in of_a
    assert f"NetworkPool butler-system/b: {shared}/a (256 addresses)" in of_b


def test_a_pool_that_is_being_deleted_serves_no_request() -> None:
    deleted = make_pool(
        deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["butler.butlerlabs.dev/networkpool"]
    )
    outcome = plan(
        deleted,
        make_allocation("old", status=make_held_status("10.40.0.0", "10.40.0.7")),
        make_allocation("new", 4),
    )
    condition = find_condition(outcome.items["NetworkPool/lab"])
    assert condition["message"] == "waiting for 1 active allocation to be released"
    assert find_condition(outcome.items["IPAllocation/new"])["reason"] == "PoolNotReady"


def test_a_provider_that_names_no_pool_is_an_error() -> None:
    outcome = plan(make_provider("prov"), make_cluster())
    assert 'at least one poolRef is required when network mode is "ipam"' in get_only_error(
        outcome
    )
    assert outcome.items["TenantCluster/app"]["status"]["phase"] == "Failed"


def test_an_error_that_a_webhook_would_report_names_the_line_of_the_field() -> None:
    manifests = """\
apiVersion: butler.butlerlabs.dev/v1alpha1
kind: ProviderConfig
metadata:
  name: prov
spec:
  provider: local
  scope:
    type: team
"""
    assert get_only_error(plan_text(manifests)) == (
        "standard input:7: ProviderConfig prov: spec.scope.teamRef: teamRef is required when"
        ' scope type is "team"'
    )


def test_a_provider_that_names_an_absent_pool_is_a_warning() -> None:
    outcome = plan(make_pool(), make_provider("prov", "nowhere", "lab"))
    assert outcome.code == 0
    assert (
        "names NetworkPool butler-system/nowhere, which is not in the input" in outcome.warnings[0]
    )


def test_a_cluster_without_its_provider_is_an_error() -> None:
    outcome = plan(make_cluster(provider="nowhere"))
    assert (
        "names ProviderConfig butler-system/nowhere, which is not in the input"
        in get_only_error(outcome)
    )
    assert outcome.items["TenantCluster/app"]["status"]["phase"] == "Failed"
    assert find_condition(outcome.items["TenantCluster/app"], "NetworkReady")["message"] == (
        "spec.providerConfigRef names ProviderConfig butler-system/nowhere, which does not exist"
    )


def test_missing_pools_of_a_cluster_are_reported_as_missing_and_not_as_exhausted() -> None:
    outcome = plan(make_provider("prov", "nowhere"), make_cluster())
    why = (
        "no configured pool exists: ProviderConfig butler-system/prov names NetworkPool"
        " butler-system/nowhere, which does not exist"
    )
    assert find_condition(outcome.items["TenantCluster/app"], "NetworkReady")["message"] == why
    condition = find_condition(outcome.items["ProviderConfig/prov"], "PoolAvailable")
    assert (condition["reason"], condition["message"]) == ("PoolNotFound", why)


def test_an_error_about_an_unknown_kind_is_printed_once() -> None:
    manifests = "apiVersion: v1\nkind: Nonsense\n"
    outcome = run("plan", "-f", "-", stdin=manifests.encode())
    assert len(outcome.errors) == 1
