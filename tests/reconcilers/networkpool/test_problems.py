"""The conditions of a pool that report problems.

Overlapping    another pool hands out the same addresses
RangesOverlap  two allocations hold the same address
OutOfRange     an allocation holds addresses that the pool does not hand out
Degraded       the free addresses are too fragmented for a default request
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.addressing import poolgeometry
from reconcilers.networkpool import problems, protocol
from reconcilers.networkpool.offers import make_offers
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform

MOST_ADDRESSES = 1 << 20
"""The largest number of addresses that a pool may have."""


def _list_findings(pool: Any, *allocations: Any, all_pools: Any = ()) -> dict[str, Any]:
    """Return the findings of a pass over a pool, by the types of their conditions.

    Args:
        allocations: those of the pool.
        all_pools: the pools among which overlaps are looked for.
    """
    view = make.view(*allocations)
    decision = protocol.decide(
        pool, view, geometry=poolgeometry.parse_layouts(pool.spec, MOST_ADDRESSES), batch=256
    )
    overlapping = make.spaces(*all_pools).make_overlap_finding(make_offers(pool, MOST_ADDRESSES))
    return {
        finding.type: finding
        for finding in problems.list_findings(
            pool, view, decision=decision, overlapping=overlapping
        )
    }


def _make_holder(name: str, first: int, last: int, **more: Any) -> Any:
    """Return an allocation that holds the addresses 10.40.0.`first` to 10.40.0.`last`."""
    return make.allocation(name, held_range=(f"10.40.0.{first}", f"10.40.0.{last}"), **more)


def test_a_sound_pool_has_all_four_conditions_and_all_are_false() -> None:
    findings = _list_findings(make.pool(), _make_holder("a", 0, 7), make.allocation("waiting"))
    assert {kind: condition.status for kind, condition in findings.items()} == {
        "Overlapping": False,
        "RangesOverlap": False,
        "OutOfRange": False,
        "Degraded": False,
    }


def test_pools_that_hand_out_the_same_addresses_name_each_other() -> None:
    pool, two = make.pool("one"), make.pool("two", cidr="10.40.0.128/25")
    apart = make.pool("apart", cidr="10.41.0.0/24")
    overlap = _list_findings(pool, all_pools=[pool, two, apart])["Overlapping"]
    assert (overlap.status, overlap.reason) == (True, "PoolsOverlap")
    reported = "addresses are also handed out by NetworkPool butler-system/two (128 addresses)"
    assert overlap.message == reported
    overlap = _list_findings(two, all_pools=[pool, two, apart])["Overlapping"]
    assert overlap.message.endswith("NetworkPool butler-system/one (128 addresses)")
    assert not _list_findings(apart, all_pools=[pool, two, apart])["Overlapping"].status


def test_pools_that_divide_a_cidr_among_them_do_not_overlap() -> None:
    low = make.pool("low", tenant={"start": "10.40.0.0", "end": "10.40.0.127"})
    high = make.pool("high", reserved=["10.40.0.0/25"])
    assert not _list_findings(low, all_pools=[low, high])["Overlapping"].status


def test_an_invalid_pool_hands_out_nothing_and_so_overlaps_with_no_other() -> None:
    invalid = make.pool("invalid", reserved=["10.99.0.0/28"])
    assert not _list_findings(make.pool(), all_pools=[invalid])["Overlapping"].status


def test_allocations_that_hold_the_same_addresses_are_named_in_pairs() -> None:
    findings = _list_findings(
        make.pool(), _make_holder("a", 0, 7), _make_holder("b", 4, 11), _make_holder("c", 12, 15)
    )
    overlap = findings["RangesOverlap"]
    assert (overlap.status, overlap.reason) == (True, "AllocationsOverlap")
    assert overlap.message == (
        "addresses are held twice: IPAllocation a (10.40.0.0-10.40.0.7)"
        " and IPAllocation b (10.40.0.4-10.40.0.11)"
    )
    assert not findings["OutOfRange"].status


def test_a_range_that_contains_two_others_is_reported_with_each_of_them() -> None:
    holders = [_make_holder("a", 0, 31), _make_holder("b", 4, 5), _make_holder("c", 20, 21)]
    message = _list_findings(make.pool(), *holders)["RangesOverlap"].message
    assert "10.40.0.31) and IPAllocation b (" in message
    assert "10.40.0.31) and IPAllocation c (" in message


def test_beyond_a_few_overlapping_pairs_the_rest_is_counted() -> None:
    holders = [_make_holder(f"a{n}", 0, 7) for n in range(9)]
    assert _list_findings(make.pool(), *holders)["RangesOverlap"].message.endswith("), and 3 more")


def test_an_allocation_whose_phase_was_wiped_overlaps_with_no_other() -> None:
    wiped = _make_holder("a", 0, 7, phase="Pending")
    assert not _list_findings(make.pool(), wiped)["RangesOverlap"].status


@pytest.mark.parametrize(
    ("pool", "why"),
    [
        (make.pool(tenant={"start": "10.40.0.8", "end": "10.40.0.255"}), "outside the ranges"),
        (make.pool(tenant={"start": "10.40.0.4", "end": "10.40.0.255"}), "half outside"),
        (make.pool(reserved=["10.40.0.0/30"]), "reserved"),
        (make.pool(cidr="10.99.0.0/24"), "another network"),
    ],
)
def test_a_range_that_the_pool_does_not_hand_out_is_reported_with_its_holder(
    pool: Any, why: str
) -> None:
    out_of_range = _list_findings(pool, _make_holder("a", 0, 7))["OutOfRange"]
    assert (out_of_range.status, out_of_range.reason) == (True, "AllocationsOutOfRange"), why
    assert out_of_range.message.endswith("held by IPAllocation a (10.40.0.0-10.40.0.7)")


def test_a_promise_outside_a_narrowed_pool_is_reported_and_not_revoked() -> None:
    waiting = make.allocation("a")
    entry = make.render_promise(make.promise(waiting, "10.40.0.0", "10.40.0.7"))
    status = {"assignments": [entry]}
    pool = make.pool(tenant={"start": "10.40.0.8", "end": "10.40.0.255"}, status=status)
    out_of_range = _list_findings(pool, waiting)["OutOfRange"]
    assert out_of_range.status
    assert out_of_range.message.endswith("held by IPAllocation a (10.40.0.0-10.40.0.7)")


def test_a_pool_without_a_free_block_for_a_default_request_is_degraded() -> None:
    holders = [_make_holder(f"a{n}", n, n) for n in range(0, 256, 4)]
    condition = _list_findings(make.pool(), *holders)["Degraded"]
    assert (condition.status, condition.reason) == (True, "HighFragmentation")
    assert condition.message == (
        "192 IPs are free, the largest free block has 3 (fragmentation 99%);"
        " a request of default size needs 8"
    )


@pytest.mark.parametrize(
    ("held_numbers", "why"),
    [
        (range(0, 256, 16), "fragmented, and every default request fits"),
        (range(256), "full, so there is no free space to be fragmented"),
        (range(4, 256), "nearly full: its four free addresses are too few for a default request"),
    ],
)
def test_a_pool_is_not_degraded_where_contiguous_space_would_change_nothing(
    held_numbers: range, why: str
) -> None:
    holders = [_make_holder(f"a{n}", n, n) for n in held_numbers]
    assert not _list_findings(make.pool(), *holders)["Degraded"].status, why


spans = st.tuples(st.integers(0, 255), st.integers(0, 15)).map(lambda s: (s[0], min(255, sum(s))))


@given(
    st.lists(spans, max_size=12),
    st.integers(0, 200),
    st.integers(0, 55),
    st.sampled_from([4, 6]),
)
def test_overlaps_and_ranges_outside_are_found_as_by_a_comparison_of_all_addresses(
    held_ranges: list[tuple[int, int]], low: int, size: int, family: int
) -> None:
    tenant = {"start": make.address(low, family), "end": make.address(low + size, family)}
    pool = make.pool(cidr=make.cidr(8, family), tenant=tenant)
    holders = [
        make.allocation(
            f"a{n}", held_range=(make.address(first, family), make.address(last, family))
        )
        for n, (first, last) in enumerate(held_ranges)
    ]
    findings = _list_findings(pool, *holders)
    held_numbers = [address for first, last in held_ranges for address in range(first, last + 1)]
    assert findings["RangesOverlap"].status == (len(set(held_numbers)) < len(held_numbers))
    assert findings["OutOfRange"].status == any(not low <= a <= low + size for a in held_numbers)


async def test_narrowing_a_pool_reports_allocations_outside_and_widening_clears_the_report() -> (
    None
):
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    lab.server.add("ipallocations", make.allocation("a"))
    await lab.run_pool_pass()
    narrow = {"tenantAllocation": {"start": "10.40.0.64", "end": "10.40.0.127"}}
    lab.server.edit("networkpools", "lab", {"spec": narrow})
    await lab.run_pool_pass()
    assert lab.find_condition("networkpools", "lab", "OutOfRange")["status"] == "True"
    assert lab.read_status("ipallocations", "a")["cidr"] == "10.40.0.0/29", (
        "ranges are never revoked"
    )
    lab.server.edit("networkpools", "lab", {"spec": {"tenantAllocation": None}})
    await lab.run_pool_pass()
    assert lab.find_condition("networkpools", "lab", "OutOfRange")["status"] == "False"


async def test_the_report_of_an_overlap_follows_when_the_other_pool_is_created_or_deleted() -> (
    None
):
    platform = Platform()
    platform.server.add("networkpools", make.pool())

    def find_overlapping(name: str = "lab") -> str:
        """Return the status of the condition Overlapping of a pool."""
        conditions = platform.server.see("networkpools", name)["status"]["conditions"]
        return next(str(c["status"]) for c in conditions if c["type"] == "Overlapping")

    async with platform.running():
        await platform.clock.advance(5)
        assert find_overlapping() == "False"
        platform.server.add("networkpools", make.pool("other", cidr="10.40.0.0/25"))
        await platform.clock.advance(1)
        assert (find_overlapping(), find_overlapping("other")) == ("True", "True")
        platform.server.edit("networkpools", "other", {"spec": {"cidr": "10.50.0.0/25"}})
        await platform.clock.advance(1)
        assert (find_overlapping(), find_overlapping("other")) == ("False", "False")
        platform.server.edit("networkpools", "other", {"spec": {"cidr": "10.40.0.0/25"}})
        await platform.clock.advance(1)
        assert find_overlapping() == "True"
        platform.server.vanish("networkpools", "other")
        await platform.clock.advance(1)
        assert find_overlapping() == "False"
