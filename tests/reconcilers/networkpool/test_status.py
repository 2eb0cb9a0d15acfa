"""The status of a pool: counters, fragmentation, and the conditions of three capacity tiers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.addressing import poolgeometry
from reconcilers.cli.output import draw_bar
from reconcilers.networkpool import protocol, status
from reconcilers.networkpool.picture import make_picture
from reconcilers.pictures.documents import build_pool_document
from tests.reconcilers import make


def _compute_status(pool: Any, *allocations: Any) -> dict[str, Any]:
    """Return the status that a pass over a pool with these allocations writes."""
    view = make.view(*allocations)
    decision = protocol.decide(
        pool, view, geometry=poolgeometry.parse_layouts(pool.spec, 1 << 20), batch=256
    )
    return make.render_pool_status(pool, view, decision=decision, now=make.EPOCH)


def _index_conditions(status_body: dict[str, Any]) -> dict[str, Any]:
    """Return the conditions of a status by their types."""
    return {condition["type"]: condition for condition in status_body["conditions"]}


def _make_holder(addresses: int) -> Any:
    """Return an allocation that holds the first `addresses` addresses of a pool."""
    return make.allocation("holder", held_range=("10.40.0.0", format_address(addresses - 1)))


def format_address(number: int) -> str:
    """Return the address that is `number` addresses after 10.40.0.0."""
    return f"10.40.{number >> 8}.{number & 255}"


TIERS = ("CapacityWarning", "CapacityCritical", "CapacityExhausted")


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (50, "FFF"),
        (69, "FFF"),
        (70, "TFF"),
        (80, "TFF"),
        (85, "TTF"),
        (94, "TTF"),
        (95, "TTT"),
        (100, "TTT"),
    ],
)
def test_each_tier_is_true_from_its_threshold_on(used: int, expected: str) -> None:
    """`expected` has the first letter of the status of each of TIERS: T or F."""
    pool = make.pool(tenant={"ranges": [{"start": "10.40.0.0", "end": "10.40.0.99"}]})
    conditions = _index_conditions(_compute_status(pool, _make_holder(used)))
    assert "".join(conditions[tier]["status"][0] for tier in TIERS) == expected
    assert (
        conditions["CapacityWarning"]["message"] == f"Pool utilization is {used}% ({used}/100 IPs)"
    )
    above = {"T": "UtilizationAboveThreshold", "F": "UtilizationBelowThreshold"}
    assert [conditions[tier]["reason"] for tier in TIERS] == [above[letter] for letter in expected]


@pytest.mark.parametrize(
    ("tenants", "allocated", "percent", "expected"),
    [(8, "50", 50, "FFF"), (12, "75", 75, "TFF"), (14, "87", 87, "TTF"), (16, "100", 100, "TTT")],
)
def test_the_status_of_a_pool_of_32_addresses_is_that_in_the_operators_guide(
    tenants: int, allocated: str, percent: int, expected: str
) -> None:
    pool = make.pool(cidr="10.40.0.0/27")
    status = _compute_status(pool, *(make.allocation(f"t{n}", size=2) for n in range(tenants)))
    conditions = _index_conditions(status)
    assert "".join(conditions[tier]["status"][0] for tier in TIERS) == expected
    reported = f"Pool utilization is {allocated}% ({2 * tenants}/32 IPs)"
    assert conditions["CapacityExhausted"]["message"] == reported
    assert status["utilizationPercent"] == percent, "rounded down"


@given(total=st.integers(1, 256), used=st.integers(0, 256))
def test_status_messages_and_pictures_of_a_pool_show_the_same_percentage(
    total: int, used: int
) -> None:
    used = min(used, total)
    pool = make.pool(tenant={"ranges": [{"start": "10.40.0.0", "end": format_address(total - 1)}]})
    allocations = [_make_holder(used)] if used else []
    document = _compute_status(pool, *allocations)
    picture = make_picture(pool, allocations)
    percentages = {
        document["utilizationPercent"],
        picture.families[0].figures.capacity.utilization_percent,
        build_pool_document(picture)["families"][0]["utilizationPercent"],
        *(
            int(condition["message"].removeprefix("Pool utilization is ").partition("%")[0])
            for condition in document["conditions"]
            if condition["type"] in TIERS
        ),
        int(str(draw_bar(used, total).content).partition("]")[2].rstrip("%")),
    }
    assert percentages == {100 * used // total}


def test_tiers_fall_back_when_space_is_freed() -> None:
    pool = make.pool(tenant={"ranges": [{"start": "10.40.0.0", "end": "10.40.0.99"}]})
    high = _index_conditions(_compute_status(pool, _make_holder(90)))
    low = _index_conditions(_compute_status(pool, _make_holder(50)))
    assert [high[t]["status"] for t in TIERS] == ["True", "True", "False"]
    assert [low[t]["status"] for t in TIERS] == ["False", "False", "False"]


def test_a_pool_with_nothing_to_hand_out_has_no_capacity() -> None:
    pool = make.pool(cidr="10.40.0.0/29", reserved=["10.40.0.0/29"])
    status = _compute_status(pool)
    conditions = _index_conditions(status)
    assert [conditions[tier]["reason"] for tier in TIERS] == ["NoCapacity"] * 3
    assert [conditions[tier]["status"] for tier in TIERS] == ["False"] * 3
    assert (status["totalIPs"], status["utilizationPercent"]) == (0, 0)


def test_reserved_addresses_and_gaps_between_ranges_are_not_counted() -> None:
    spans = [
        {"start": "10.40.0.0", "end": "10.40.0.31"},
        {"start": "10.40.0.64", "end": "10.40.0.95"},
    ]
    pool = make.pool(reserved=["10.40.0.0/28"], tenant={"ranges": spans})
    status = _compute_status(pool, make.allocation("a", held_range=("10.40.0.16", "10.40.0.23")))
    assert (status["totalIPs"], status["allocatedIPs"], status["availableIPs"]) == (48, 8, 40)
    assert status["largestFreeBlock"] == 32
    assert status["fragmentationPercent"] == 20
    assert status["allocationCount"] == 1
    ready = _index_conditions(status)["Ready"]
    assert ready["message"] == "40/48 IPs available (1 allocation)"


def test_counts_above_31_bits_are_capped_and_exact_as_strings_beside() -> None:
    pool = make.pool(cidr="fd00::/64")
    pool_status = _compute_status(pool, make.allocation("a", held_range=("fd00::", "fd00::3")))
    names = ("totalIPs", "allocatedIPs", "availableIPs", "largestFreeBlock")
    assert [pool_status[name] for name in names] == [2**31 - 1, 4, 2**31 - 1, 2**31 - 1]
    free = str(2**64 - 4)
    assert pool_status["exactCounts"] == dict(
        zip(names, (str(2**64), "4", free, free), strict=True)
    )
    assert (
        _index_conditions(pool_status)["Ready"]["message"]
        == f"{free}/{2**64} IPs available (1 allocation)"
    )
    assert (pool_status["utilizationPercent"], pool_status["fragmentationPercent"]) == (0, 0)
    stored = make.pool(cidr="fd00::/64", status=pool_status).status
    assert (stored.total, stored.allocated) == (2**64, 4)
    assert (stored.available, stored.largest_free) == (2**64 - 4, 2**64 - 4)
    assert not status.differs(stored, pool_status)


def test_exact_counts_are_removed_when_the_numbers_fit_again() -> None:
    huge = make.pool(cidr="fd00::/64", status=_compute_status(make.pool(cidr="fd00::/64")))
    part = {"ranges": [{"start": "fd00::", "end": "fd00::ff"}]}
    shrunk = make.pool(cidr="fd00::/64", tenant=part, status=_compute_status(huge))
    pool_status = _compute_status(shrunk)
    assert (pool_status["totalIPs"], pool_status["exactCounts"]) == (256, None)
    assert status.differs(shrunk.status, pool_status)


def test_a_pool_whose_counts_fit_has_no_exact_counts() -> None:
    assert "exactCounts" not in _compute_status(make.pool())


def test_a_huge_pool_that_turns_invalid_has_no_addresses_but_still_counts_allocated_ones() -> None:
    block = make.allocation("a", held_range=("fd00::", "fd00::ffff:ffff:ffff"))
    pool = make.pool(cidr="fd00::/64", status=_compute_status(make.pool(cidr="fd00::/64"), block))
    pool_status = status.render_invalid(pool, ["broken"], make.EPOCH)
    assert pool_status["exactCounts"] == {
        "totalIPs": "0",
        "allocatedIPs": str(2**48),
        "availableIPs": "0",
        "largestFreeBlock": "0",
    }
    assert (pool_status["totalIPs"], pool_status["allocatedIPs"]) == (0, 2**31 - 1)
    assert "allocatedIPs" not in status.render_invalid(make.pool(), ["broken"], make.EPOCH)


def test_promises_count_as_allocated_in_the_write_that_makes_them() -> None:
    status = _compute_status(make.pool(), make.allocation("a"), make.allocation("b"))
    assert (status["allocatedIPs"], status["allocationCount"]) == (16, 2)


def test_a_held_range_whose_phase_was_wiped_is_counted_once() -> None:
    wiped = make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"), phase="Pending")
    status = _compute_status(make.pool(), wiped)
    assert (status["allocatedIPs"], status["allocationCount"]) == (8, 1)


def test_a_transition_time_moves_with_its_status_and_never_otherwise() -> None:
    first = _compute_status(make.pool(), make.allocation("a"))
    reported = make.pool(status={"conditions": first["conditions"]})
    later = make.render_pool_status(
        reported,
        make.view(),
        decision=protocol.decide(
            reported,
            make.view(),
            geometry=poolgeometry.parse_layouts(reported.spec, 1 << 20),
            batch=256,
        ),
        now=make.EPOCH.replace(year=2027),
    )
    assert (
        _index_conditions(later)["Ready"]["message"]
        != _index_conditions(first)["Ready"]["message"]
    )
    for kind, condition in _index_conditions(later).items():
        since = _index_conditions(first)[kind]["lastTransitionTime"]
        assert condition["lastTransitionTime"] == since


def test_counters_never_exceed_the_maximum_of_the_schema() -> None:
    pool = make.pool(cidr="0.0.0.0/0")
    decision = protocol.decide(
        pool, make.view(), geometry=poolgeometry.parse_layouts(pool.spec, 1 << 33), batch=256
    )
    pool_status = make.render_pool_status(pool, make.view(), decision=decision, now=make.EPOCH)
    assert pool_status["totalIPs"] == pool_status["largestFreeBlock"] == 2**31 - 1


def test_a_pool_whose_spec_turned_invalid_has_no_available_addresses() -> None:
    pool = make.pool(status={"totalIPs": 256, "availableIPs": 200, "largestFreeBlock": 200})
    reported = status.render_invalid(pool, ["no"], make.EPOCH)
    assert (reported["totalIPs"], reported["availableIPs"], reported["largestFreeBlock"]) == (
        0,
        0,
        0,
    )
    assert status.differs(pool.status, reported)


@pytest.mark.parametrize("secondary", [None, {"cidr": "fd00::/64"}, {"cidr": "fd00::/120"}])
def test_a_status_that_is_written_already_does_not_differ_from_itself(secondary: Any) -> None:
    figures = _compute_status(make.pool(secondary=secondary, memory=None))
    written = make.pool(secondary=secondary, memory=None, status=figures)
    assert not status.differs(written.status, figures)
    assert status.differs(written.status, figures | {"allocatedIPs": 7})
