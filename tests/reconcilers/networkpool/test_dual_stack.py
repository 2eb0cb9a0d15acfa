"""Pools of two families: what promises and statuses carry, and that others carry nothing new."""

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
OLD_PROMISE = ["name", "uid", "resourceVersion", "startAddress", "endAddress"]
OLD_STATUS = {
    *("phase", "cidr", "startAddress", "endAddress", "addresses", "allocatedCount"),
    *("observedGeneration", "allocatedAt", "allocatedBy", "conditions"),
}
COUNTS = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock", "utilizationPercent")


def decide(pool: Any, *allocations: Any) -> protocol.PassDecision:
    geometry = poolgeometry.parse_layouts(pool.spec, 1 << 20)
    return protocol.decide(pool, make.view(*allocations), geometry=geometry, batch=256)


def compute_status(pool: Any, *allocations: Any) -> dict[str, Any]:
    return make.pool_status(
        pool, make.view(*allocations), decision=decide(pool, *allocations), now=make.EPOCH
    )


def both(name: str, four: tuple[str, str], six: tuple[str, str]) -> Any:
    families = [
        {"family": "IPv4", "startAddress": four[0], "endAddress": four[1]},
        {"family": "IPv6", "startAddress": six[0], "endAddress": six[1]},
    ]
    return make.allocation(name, held_range=four, asks=REQUIRE, status={"families": families})


def test_nothing_new_is_written_about_pools_and_requests_of_one_family() -> None:
    waiting = make.allocation("a", size=2)
    pool = compute_status(make.pool(), waiting)
    [promise] = pool["assignments"]
    assert list(promise) == [*OLD_PROMISE, "choice"]
    assert "secondary" not in pool
    [grant] = decide(make.pool(), waiting).choice.grants
    written = render_allocated(waiting, make.pool(), ranges=grant.addresses, now=make.EPOCH)
    assert written.keys() == OLD_STATUS
    assert [condition["type"] for condition in written["conditions"]] == ["Ready"]


def test_an_old_promise_is_read_as_it_was_and_written_as_it_is() -> None:
    allocation = make.allocation("a")
    promise = make.promise(allocation, "10.40.0.0", "10.40.0.7")
    old = make.list_promise(promise)
    assert list(old) == OLD_PROMISE
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
def test_a_promise_of_which_a_part_was_edited_is_none(second: dict[str, str]) -> None:
    allocation = make.allocation("a", asks=REQUIRE, size=1)
    old = make.list_promise(make.promise(allocation, "10.40.0.0", "10.40.0.0")) | second
    pool = make.pool(secondary=SECOND, status={"assignments": [old]})
    assert settle_pool_journal(pool, make.view(allocation)).promises == ()
    [grant] = decide(pool, allocation).choice.grants
    assert [address.text for address in grant.addresses] == ["10.40.0.0/32", "fd00::/128"]


def test_a_pool_of_two_families_counts_each() -> None:
    holder = both("a", ("10.40.0.0", "10.40.0.7"), ("fd00::", "fd00::2"))
    pool = compute_status(make.pool(secondary=SECOND), holder)
    assert [pool[name] for name in COUNTS] == [256, 8, 248, 248, 3]
    assert [pool["secondary"][name] for name in COUNTS] == [4, 3, 1, 1, 75]
    conditions = {condition["type"]: condition for condition in pool["conditions"]}
    assert conditions["Ready"]["message"] == "248/256 and 1/4 IPs available (1 allocation)"
    assert conditions["CapacityWarning"]["status"] == "True", "by the fuller family"
    assert conditions["CapacityWarning"]["message"] == "Pool utilization is 75% (3/4 IPs)"
    for kind in ("RangesOverlap", "OutOfRange"):
        assert conditions[kind]["status"] == "False"


def test_a_second_family_that_is_gone_is_counted_no_more_and_who_holds_it_is_named() -> None:
    before = {"secondary": {"totalIPs": 4}}
    holder = both("a", ("10.40.0.0", "10.40.0.7"), ("fd00::", "fd00::2"))
    pool = compute_status(make.pool(status=before), holder)
    assert pool["secondary"] is None
    [outside] = [
        condition for condition in pool["conditions"] if condition["type"] == "OutOfRange"
    ]
    assert outside["status"] == "True"
    assert "a (fd00::-fd00::2)" in outside["message"]


def test_ranges_of_the_second_family_that_overlap_are_named() -> None:
    first = both("a", ("10.40.0.0", "10.40.0.0"), ("fd00::", "fd00::1"))
    other = both("b", ("10.40.0.1", "10.40.0.1"), ("fd00::1", "fd00::2"))
    pool = compute_status(make.pool(secondary=SECOND), first, other)
    [overlap] = [
        condition for condition in pool["conditions"] if condition["type"] == "RangesOverlap"
    ]
    assert overlap["status"] == "True"
    assert "a (fd00::-fd00::1) and IPAllocation b (fd00::1-fd00::2)" in overlap["message"]


def test_who_lost_one_of_two_required_families_gets_that_one_anew() -> None:
    lost = make.allocation(
        "a", held_range=("10.40.0.8", "10.40.0.9"), phase="Pending", asks=REQUIRE, size=2
    )
    [grant] = decide(make.pool(secondary=SECOND), lost).choice.grants
    assert [address.text for address in grant.addresses] == ["10.40.0.8/31", "fd00::/127"]


def test_what_was_taken_for_a_refused_request_is_there_for_the_next_one() -> None:
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
    holder = both("a", ("10.40.0.0", "10.40.0.7"), ("fd00::", "fd00::2"))
    lab.server.add("ipallocations", holder)
    await lab.pool()
    notes = [note for _, _, note in lab.recorded.events]
    assert "NetworkPool is over 70% utilized (3/4 IPs allocated)" in notes


async def test_the_allocated_event_names_both_ranges() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(secondary=SECOND))
    lab.server.add("ipallocations", make.allocation("a", size=2, asks=REQUIRE))
    await lab.pool()
    [note] = [note for _, reason, note in lab.recorded.events if reason == "IPsAllocated"]
    assert "(10.40.0.0 - 10.40.0.1 and fd00:: - fd00::1)" in note


@pytest.mark.parametrize("asks", [{}, REQUIRE], ids=["one family", "both families"])
async def test_two_families_cost_as_many_writes_as_one(asks: dict[str, Any]) -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool(secondary={"cidr": "fd00::/120"}))
    for name in ("a", "b", "c"):
        lab.server.add("ipallocations", make.allocation(name, size=2, asks=asks))
    await lab.pool()
    assert sorted((request.plural, request.name) for request in lab.server.requests) == [
        *(("ipallocations", name) for name in ("a", "b", "c")),
        ("networkpools", "lab"),
    ]
