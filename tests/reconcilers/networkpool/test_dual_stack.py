"""Pools of two families, in promises and statuses; pools of one family have no new fields."""

from typing import Any

import pytest

from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.networkpool import protocol
from reconcilers.networkpool.pending_promises import render_allocated
from reconcilers.networkpool.statusjournal import settle_pool_journal
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

SECOND: dict[str, Any] = {"cidr": "fd00::/126"}
REQUIRE = {"ipFamilyPolicy": "RequireDualStack"}
ONE_FAMILY_PROMISE = ["name", "uid", "resourceVersion", "startAddress", "endAddress"]
"""The fields of a promise before pools had a second family, in the order of the status."""
ONE_FAMILY_STATUS = {
    *("phase", "cidr", "startAddress", "endAddress", "addresses", "allocatedCount"),
    *("observedGeneration", "allocatedAt", "allocatedBy", "conditions"),
}
"""The status fields of an allocation before pools had a second family."""
COUNTS = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock", "utilizationPercent")


def decide(pool: Any, *allocations: Any) -> protocol.PassDecision:
    """Return the decision of a pass over a pool with these allocations."""
    geometry = poolgeometry.parse_layouts(pool.spec, 1 << 20)
    return protocol.decide(pool, make.view(*allocations), geometry=geometry, batch=256)


def compute_status(pool: Any, *allocations: Any) -> dict[str, Any]:
    """Return the status that a pass over a pool with these allocations writes."""
    return make.render_pool_status(
        pool, make.view(*allocations), decision=decide(pool, *allocations), now=make.EPOCH
    )


def make_dual_holder(name: str, ipv4: tuple[str, str], ipv6: tuple[str, str]) -> Any:
    """Return an allocation that holds these two ranges, each given by its ends."""
    families = [
        {"family": "IPv4", "startAddress": ipv4[0], "endAddress": ipv4[1]},
        {"family": "IPv6", "startAddress": ipv6[0], "endAddress": ipv6[1]},
    ]
    return make.allocation(name, held_range=ipv4, asks=REQUIRE, status={"families": families})


def test_pools_and_allocations_of_one_family_get_no_fields_for_a_second() -> None:
    waiting = make.allocation("a", size=2)
    pool = compute_status(make.pool(), waiting)
    [promise] = pool["assignments"]
    assert list(promise) == [*ONE_FAMILY_PROMISE, "choice"]
    assert "secondary" not in pool
    [grant] = decide(make.pool(), waiting).choice.grants
    written = render_allocated(waiting, make.pool(), ranges=grant.addresses, now=make.EPOCH)
    assert written.keys() == ONE_FAMILY_STATUS
    assert [condition["type"] for condition in written["conditions"]] == ["Ready"]


def test_a_promise_of_an_earlier_version_is_written_back_unchanged() -> None:
    allocation = make.allocation("a")
    promise = make.promise(allocation, "10.40.0.0", "10.40.0.7")
    old = make.render_promise(promise)
    assert list(old) == ONE_FAMILY_PROMISE
    pool = make.pool(secondary=SECOND, status={"assignments": [old]})
    assert [
        promised_range.text
        for promised_range in statusranges.list_promised_ranges(pool.status.assignments[0])
    ] == ["10.40.0.0/29"]
    assert compute_status(pool, allocation)["assignments"] == [old]


@pytest.mark.parametrize(
    "second",
    [
        {"secondaryStartAddress": "fd00::"},
        {"secondaryStartAddress": "fd00::1", "secondaryEndAddress": "fd00::"},
    ],
)
def test_a_promise_with_an_invalid_second_range_is_ignored(second: dict[str, str]) -> None:
    allocation = make.allocation("a", asks=REQUIRE, size=1)
    old = make.render_promise(make.promise(allocation, "10.40.0.0", "10.40.0.0")) | second
    pool = make.pool(secondary=SECOND, status={"assignments": [old]})
    assert settle_pool_journal(pool, make.view(allocation)).promises == ()
    [grant] = decide(pool, allocation).choice.grants
    assert [address.text for address in grant.addresses] == ["10.40.0.0/32", "fd00::/128"]


def test_a_pool_of_two_families_counts_the_addresses_of_each() -> None:
    holder = make_dual_holder("a", ("10.40.0.0", "10.40.0.7"), ("fd00::", "fd00::2"))
    pool = compute_status(make.pool(secondary=SECOND), holder)
    assert [pool[name] for name in COUNTS] == [256, 8, 248, 248, 3]
    assert [pool["secondary"][name] for name in COUNTS] == [4, 3, 1, 1, 75]
    conditions = {condition["type"]: condition for condition in pool["conditions"]}
    assert conditions["Ready"]["message"] == "248/256 and 1/4 IPs available (1 allocation)"
    assert conditions["CapacityWarning"]["status"] == "True", "by the fuller family"
    assert conditions["CapacityWarning"]["message"] == "Pool utilization is 75% (3/4 IPs)"
    for kind in ("RangesOverlap", "OutOfRange"):
        assert conditions[kind]["status"] == "False"


def test_a_removed_second_family_is_not_counted_and_its_holders_are_out_of_range() -> None:
    before = {"secondary": {"totalIPs": 4}}
    holder = make_dual_holder("a", ("10.40.0.0", "10.40.0.7"), ("fd00::", "fd00::2"))
    pool = compute_status(make.pool(status=before), holder)
    assert pool["secondary"] is None
    [outside] = [
        condition for condition in pool["conditions"] if condition["type"] == "OutOfRange"
    ]
    assert outside["status"] == "True"
    assert "a (fd00::-fd00::2)" in outside["message"]


def test_ranges_of_the_second_family_that_overlap_are_named() -> None:
    first = make_dual_holder("a", ("10.40.0.0", "10.40.0.0"), ("fd00::", "fd00::1"))
    other = make_dual_holder("b", ("10.40.0.1", "10.40.0.1"), ("fd00::1", "fd00::2"))
    pool = compute_status(make.pool(secondary=SECOND), first, other)
    [overlap] = [
        condition for condition in pool["conditions"] if condition["type"] == "RangesOverlap"
    ]
    assert overlap["status"] == "True"
    assert "a (fd00::-fd00::1) and IPAllocation b (fd00::1-fd00::2)" in overlap["message"]


def test_an_allocation_that_lost_one_of_two_required_families_gets_a_range_of_it_again() -> None:
    lost = make.allocation(
        "a", held_range=("10.40.0.8", "10.40.0.9"), phase="Pending", asks=REQUIRE, size=2
    )
    [grant] = decide(make.pool(secondary=SECOND), lost).choice.grants
    assert [address.text for address in grant.addresses] == ["10.40.0.8/31", "fd00::/127"]


def test_a_request_refused_in_one_family_leaves_the_other_family_to_the_next_request() -> None:
    large = make.allocation("a", size=8, asks=REQUIRE, age=9)
    small = make.allocation("b", size=256)
    choice = decide(make.pool(secondary=SECOND), large, small).choice
    [refusal] = choice.refusals
    assert (refusal.reason, refusal.message[:20]) == ("PoolExhausted", "IPv6: pool exhausted")
    assert [address.text for grant in choice.grants for address in grant.addresses] == [
        "10.40.0.0/24"
    ]


async def test_events_about_capacity_count_the_fuller_family() -> None:
    lab = Lab()
    pool = make.pool(secondary=SECOND, creationTimestamp="2025-01-01T00:00:00Z")
    lab.server.add("networkpools", pool)
    holder = make_dual_holder("a", ("10.40.0.0", "10.40.0.7"), ("fd00::", "fd00::2"))
    lab.server.add("ipallocations", holder)
    await lab.run_pool_pass()
    notes = [note for _, _, note in lab.recorded.events]
    assert "NetworkPool is over 70% utilized (3/4 IPs allocated)" in notes


async def test_the_allocated_event_names_both_ranges() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(secondary=SECOND))
    lab.server.add("ipallocations", make.allocation("a", size=2, asks=REQUIRE))
    await lab.run_pool_pass()
    [note] = [note for _, reason, note in lab.recorded.events if reason == "IPsAllocated"]
    assert "(10.40.0.0 - 10.40.0.1 and fd00:: - fd00::1)" in note


@pytest.mark.parametrize("asks", [{}, REQUIRE], ids=["one family", "both families"])
async def test_two_families_cost_as_many_writes_as_one(asks: dict[str, Any]) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(secondary={"cidr": "fd00::/120"}))
    for name in ("a", "b", "c"):
        lab.server.add("ipallocations", make.allocation(name, size=2, asks=asks))
    await lab.run_pool_pass()
    assert sorted((request.plural, request.name) for request in lab.server.requests) == [
        *(("ipallocations", name) for name in ("a", "b", "c")),
        ("networkpools", "lab"),
    ]
