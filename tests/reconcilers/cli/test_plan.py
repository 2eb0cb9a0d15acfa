"""The ranges that a plan hands out, and the status of requests that get none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AddressRange
from tests.reconcilers import make
from tests.reconcilers.cli.commandline import (
    Outcome,
    find_condition,
    make_allocation,
    make_held_status,
    make_pool,
    plan,
)

LATER = "2026-01-02T00:00:00Z"
EARLIER = "2026-01-01T00:00:00Z"


def read_cidr(outcome: Outcome, name: str) -> str:
    """Return the CIDR of an allocation in the output of a plan; its phase if it has none."""
    body = outcome.items[f"IPAllocation/{name}"]
    return str(body["status"].get("cidr", body["status"]["phase"]))


def test_a_request_gets_the_lowest_addresses_of_the_best_fitting_block() -> None:
    outcome = plan(make_pool(), make_allocation("a", 8), make_allocation("b", 5))
    assert outcome.code == 0
    assert read_cidr(outcome, "a") == "10.40.0.0/29"
    assert read_cidr(outcome, "b") == "10.40.0.8-10.40.0.12"


def test_the_status_is_what_the_controller_would_write() -> None:
    status = plan(make_pool(), make_allocation("a", 2)).items["IPAllocation/a"]["status"]
    [condition] = status.pop("conditions")
    assert condition.pop("lastTransitionTime") == status.pop("allocatedAt")
    assert condition == {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "allocated 2 IPs: 10.40.0.0/31 from lab, out of the smallest free block that"
        " fits (256 addresses; 1 block fitted)",
        "observedGeneration": 1,
    }
    assert status == {
        "phase": "Allocated",
        "cidr": "10.40.0.0/31",
        "startAddress": "10.40.0.0",
        "endAddress": "10.40.0.1",
        "addresses": ["10.40.0.0", "10.40.0.1"],
        "allocatedCount": 2,
        "observedGeneration": 1,
        "allocatedBy": "networkpool-controller",
    }


def test_the_status_of_the_pool_shows_its_capacity_after_the_plan() -> None:
    network_pool = make_pool(
        reserved=["10.40.0.0/28"], tenant_allocation={"start": "10.40.0.16", "end": "10.40.0.239"}
    )
    outcome = plan(
        network_pool,
        make_allocation("a", 8),
        make_allocation("b", pinned_range=("10.40.0.100", "10.40.0.101")),
    )
    status = outcome.items["NetworkPool/lab"]["status"]
    conditions = {
        condition["type"]: (condition["status"], condition["reason"])
        for condition in status.pop("conditions")
    }
    assert status == {
        "totalIPs": 224,
        "allocatedIPs": 10,
        "availableIPs": 214,
        "allocationCount": 2,
        "largestFreeBlock": 138,
        "fragmentationPercent": 36,
        "utilizationPercent": 4,
        "observedGeneration": 1,
    }
    assert conditions == {
        "Ready": ("True", "Ready"),
        "CapacityWarning": ("False", "UtilizationBelowThreshold"),
        "CapacityCritical": ("False", "UtilizationBelowThreshold"),
        "CapacityExhausted": ("False", "UtilizationBelowThreshold"),
        "Overlapping": ("False", "NoOverlap"),
        "RangesOverlap": ("False", "NoOverlap"),
        "OutOfRange": ("False", "InRange"),
        "Degraded": ("False", "NotDegraded"),
    }


def test_a_request_without_a_count_gets_the_default_of_its_pool_and_type() -> None:
    own = make_pool("own", tenant_allocation={"defaults": {"nodesPerTenant": 3}})
    outcome = plan(
        own,
        make_pool("plain", "10.41.0.0/24"),
        make_allocation("own-nodes", pool="own", purpose="nodes"),
        make_allocation("own-lb", pool="own"),
        make_allocation("plain-nodes", pool="plain", purpose="nodes"),
        make_allocation("plain-lb", pool="plain"),
    )
    counts = {
        name.removeprefix("IPAllocation/"): body["status"]["allocatedCount"]
        for name, body in outcome.items.items()
        if body["kind"] == "IPAllocation"
    }
    assert counts == {"own-nodes": 3, "own-lb": 8, "plain-nodes": 5, "plain-lb": 8}


def test_requests_without_a_creation_time_are_served_in_the_order_of_the_input() -> None:
    outcome = plan(
        make_pool(), make_allocation("z", 4), make_allocation("a", 4), make_allocation("m", 4)
    )
    assert [read_cidr(outcome, name) for name in "zam"] == [
        *("10.40.0.0/30", "10.40.0.4/30", "10.40.0.8/30"),
    ]


def test_older_requests_are_served_first_and_requests_without_a_creation_time_last() -> None:
    outcome = plan(
        make_allocation("unknown", 4),
        make_allocation("later", 4, creationTimestamp=LATER),
        make_allocation("earlier", 4, creationTimestamp=EARLIER),
        make_pool(),
    )
    assert [read_cidr(outcome, name) for name in ("earlier", "later", "unknown")] == [
        *("10.40.0.0/30", "10.40.0.4/30", "10.40.0.8/30"),
    ]


def test_two_requests_of_the_same_second_are_served_in_the_order_of_their_names() -> None:
    outcome = plan(
        make_pool(),
        make_allocation("b", 4, creationTimestamp=LATER),
        make_allocation("a", 4, creationTimestamp=LATER),
    )
    assert (read_cidr(outcome, "a"), read_cidr(outcome, "b")) == ("10.40.0.0/30", "10.40.0.4/30")


def test_a_recreated_request_keeps_the_age_in_its_annotation() -> None:
    requested_earlier = {"butler.butlerlabs.dev/requested-at": EARLIER}
    outcome = plan(
        make_pool(),
        make_allocation("young", 4, creationTimestamp="2026-01-01T12:00:00Z"),
        make_allocation("recreated", 4, creationTimestamp=LATER, annotations=requested_earlier),
    )
    assert read_cidr(outcome, "recreated") == "10.40.0.0/30"


def test_creation_times_in_different_time_zones_are_compared_correctly() -> None:
    outcome = plan(
        make_pool(),
        make_allocation("b", 4, creationTimestamp="2026-01-01T12:30:00+02:00"),
        make_allocation("a", 4, creationTimestamp="2026-01-01T11:00:00Z"),
    )
    assert read_cidr(outcome, "b") == "10.40.0.0/30"


def test_a_pinned_range_is_allocated_exactly() -> None:
    outcome = plan(
        make_pool(), make_allocation("a", 3, pinned_range=("10.40.0.100", "10.40.0.107"))
    )
    assert outcome.code == 0
    assert outcome.items["IPAllocation/a"]["status"]["allocatedCount"] == 8
    assert read_cidr(outcome, "a") == "10.40.0.100-10.40.0.107"


def test_allocations_that_hold_a_range_keep_their_status_unchanged() -> None:
    status = make_held_status("10.40.0.0", "10.40.0.7") | {"allocatedAt": "2025-05-05T05:05:05Z"}
    outcome = plan(
        make_pool(), make_allocation("new", 8), make_allocation("old", 8, status=status)
    )
    assert outcome.items["IPAllocation/old"]["status"] == status
    assert read_cidr(outcome, "new") == "10.40.0.8/29"


@pytest.mark.parametrize("phase", ["Allocated", "Released", "Failed", "Pending", None])
def test_the_range_of_an_allocation_is_not_given_to_another_in_any_phase(
    phase: str | None,
) -> None:
    status = make_held_status("10.40.0.0", "10.40.0.7")
    if phase is None:
        del status["phase"]
    else:
        status["phase"] = phase
    outcome = plan(
        make_pool(), make_allocation("new", 8), make_allocation("old", 8, status=status)
    )
    assert read_cidr(outcome, "new") == "10.40.0.8/29"
    assert outcome.items["IPAllocation/old"]["status"]["endAddress"] == "10.40.0.7"


def test_an_allocation_that_is_being_deleted_keeps_its_range_and_gets_no_new_one() -> None:
    deleted: dict[str, Any] = {
        "deletionTimestamp": LATER,
        "finalizers": ["butler.butlerlabs.dev/ipallocation"],
    }
    outcome = plan(
        make_pool(),
        make_allocation("held", 8, status=make_held_status("10.40.0.0", "10.40.0.7"), **deleted),
        make_allocation("unserved", 8, **deleted),
        make_allocation("new", 8),
    )
    assert read_cidr(outcome, "new") == "10.40.0.8/29"
    assert outcome.items["IPAllocation/held"]["status"]["startAddress"] == "10.40.0.0"
    assert find_condition(outcome.items["IPAllocation/held"])["reason"] == "WaitingForTenant"
    assert outcome.items["IPAllocation/unserved"]["status"]["phase"] == "Released"


def test_a_request_that_finds_the_pool_full_is_failed_and_is_no_error_of_the_command() -> None:
    outcome = plan(
        make_pool(cidr="10.0.0.0/29"),
        make_allocation("a", 6),
        make_allocation("b", 6),
        make_allocation("c", 2),
    )
    assert (outcome.code, outcome.err) == (0, "")
    failed = outcome.items["IPAllocation/b"]
    assert failed["status"]["phase"] == "Failed"
    assert find_condition(failed)["reason"] == "PoolExhausted"
    assert find_condition(failed)["message"] == "pool exhausted: no contiguous block available"
    assert read_cidr(outcome, "c") == "10.0.0.6/31"
    assert outcome.items["NetworkPool/lab"]["status"]["utilizationPercent"] == 100


def test_a_request_that_failed_is_tried_again() -> None:
    outcome = plan(make_pool(), make_allocation("a", 8, status={"phase": "Failed"}))
    assert read_cidr(outcome, "a") == "10.40.0.0/29"


def test_a_pinned_range_that_another_holds_is_failed_and_is_no_error_of_the_command() -> None:
    outcome = plan(
        make_pool(),
        make_allocation("first", pinned_range=("10.40.0.4", "10.40.0.7")),
        make_allocation("second", pinned_range=("10.40.0.7", "10.40.0.9")),
    )
    assert outcome.code == 0
    condition = find_condition(outcome.items["IPAllocation/second"])
    assert condition["reason"] == "PinnedRangeConflict"
    assert "conflicts at IP 10.40.0.7" in condition["message"]


def test_a_promise_in_the_status_of_a_pool_is_kept() -> None:
    uid = "0b1c"
    promise = {
        "name": "a",
        "uid": uid,
        "resourceVersion": "70",
        "startAddress": "10.40.0.64",
        "endAddress": "10.40.0.67",
    }
    network_pool = make_pool(
        resourceVersion="80",
        uid="p",
        status=make.build_journal_status("p", 60, promise),
    )
    finalizers = ["butler.butlerlabs.dev/ipallocation"]
    waiting = make_allocation("a", 4, uid=uid, resourceVersion="70", finalizers=finalizers)
    outcome = plan(network_pool, waiting)
    assert read_cidr(outcome, "a") == "10.40.0.64/30"
    status = outcome.items["NetworkPool/lab"]["status"]
    assert "assignments" not in status
    assert make.read_revision(status) == "60"


def test_a_promise_to_an_allocation_that_is_not_in_the_input_is_dropped() -> None:
    promise = {
        "name": "gone",
        "uid": "h",
        "resourceVersion": "70",
        "startAddress": "10.40.0.0",
        "endAddress": "10.40.0.7",
    }
    status = make.build_journal_status("p", 60, promise)
    network_pool = make_pool(resourceVersion="80", uid="p", status=status)
    outcome = plan(network_pool, make_allocation("a", 4))
    assert read_cidr(outcome, "a") == "10.40.0.0/30"
    assert "assignments" not in outcome.items["NetworkPool/lab"]["status"]


def test_more_requests_than_one_pass_serves_are_all_served() -> None:
    outcome = plan(
        make_pool(cidr="10.40.0.0/20"), *(make_allocation(f"a{n}", 2) for n in range(300))
    )
    assert outcome.items["NetworkPool/lab"]["status"]["allocationCount"] == 300


def test_a_pool_with_several_ranges_allocates_from_each_of_them() -> None:
    tenant = {
        "ranges": [
            {"start": "10.40.0.10", "end": "10.40.0.13"},
            {"start": "10.40.0.20", "end": "10.40.0.29"},
        ]
    }
    outcome = plan(
        make_pool(tenant_allocation=tenant),
        make_allocation("a", 6),
        make_allocation("b", 4),
        make_allocation("c", 5),
    )
    assert read_cidr(outcome, "a") == "10.40.0.20-10.40.0.25"
    assert read_cidr(outcome, "b") == "10.40.0.10-10.40.0.13"
    assert read_cidr(outcome, "c") == "Failed"
    assert outcome.items["NetworkPool/lab"]["status"]["totalIPs"] == 14


def test_pools_of_the_same_name_in_two_namespaces_do_not_mix() -> None:
    outcome = plan(
        make_pool(),
        make_pool(namespace="other", cidr="10.9.0.0/24"),
        make_allocation("a", 4),
        make_allocation("b", 4, namespace="other"),
    )
    assert (read_cidr(outcome, "a"), read_cidr(outcome, "b")) == ("10.40.0.0/30", "10.9.0.0/30")


# The size of a request: addresses, the bits of a block, or the offset of four pinned addresses.
REQUEST = st.one_of(
    st.integers(1, 20).map(lambda count: ("count", count)),
    st.integers(0, 5).map(lambda bits: ("block", bits)),
    st.integers(0, 60).map(lambda at: ("pin", at)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(REQUEST, max_size=12), st.sampled_from([4, 6]))
def test_no_plan_gives_an_address_twice_or_miscounts(
    requests: list[tuple[str, int]], family: int
) -> None:
    allocations = []
    for n, (kind, number) in enumerate(requests):
        request = make_allocation(f"a{n}", number if kind == "count" else None)
        if kind == "block":
            request["spec"]["prefixLength"] = make.prefix_length(number, family)
        elif kind == "pin":
            first, last = make.address(number, family), make.address(number + 3, family)
            request["spec"]["pinnedRange"] = {"startAddress": first, "endAddress": last}
        allocations.append(request)
    reserved = f"{make.address(32, family)}/{make.prefix_length(2, family)}"
    outcome = plan(make_pool(cidr=make.cidr(6, family), reserved=[reserved]), *allocations)
    held_ranges = [
        AddressRange.parse(body["status"]["startAddress"], body["status"]["endAddress"])
        for body in outcome.items.values()
        if body["status"].get("startAddress")
    ]
    for number, held_range in enumerate(held_ranges):
        assert not any(held_range.overlaps(other) for other in held_ranges[number + 1 :])
    status = outcome.items["NetworkPool/lab"]["status"]
    assert status["allocatedIPs"] == sum(held_range.size for held_range in held_ranges)
    assert status["availableIPs"] == 60 - status["allocatedIPs"]
    assert status["allocationCount"] == len(held_ranges)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6))
@settings(max_examples=15, deadline=None)
def test_a_plan_of_the_output_of_a_plan_changes_nothing(counts: list[int]) -> None:
    first = plan(
        make_pool(cidr="10.40.0.0/27"),
        *(make_allocation(f"a{n}", c) for n, c in enumerate(counts)),
    )
    again = plan(*first.items.values())
    for name, body in first.items.items():
        if body["kind"] == "IPAllocation":
            assert again.items[name]["status"].get("cidr") == body["status"].get("cidr")
            assert again.items[name]["status"]["phase"] == body["status"]["phase"]
