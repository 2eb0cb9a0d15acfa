"""The rules on NetworkPools: valid specs, CIDRs that only grow, and no holder left out."""

from typing import Any

import pytest
from msgspec.structs import replace

from allocator import AddressRange
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.otherholders import HeldRange
from reconcilers.networkpool.protocol import count_blockers
from reconcilers.promises.journal import Journal
from reconcilers.specrules.verdict import MOST_CAUSES, Verdict
from reconcilers.webhooks import networkpool
from tests.reconcilers import make

LIMIT = 1 << 20
"""The largest number of addresses that a pool may have."""


def make_ranges(*spans: tuple[int, int]) -> dict[str, Any]:
    """Return a tenantAllocation with ranges of 10.0.0.0/24, each given by its last octets."""
    return {"ranges": [{"start": f"10.0.0.{a}", "end": f"10.0.0.{b}"} for a, b in spans]}


def make_pool(*spans: tuple[int, int], **spec_fields: Any) -> NetworkPool:
    """Return a pool of 10.0.0.0/24 with these ranges, each given by its last octets."""
    tenant = make_ranges(*spans) if spans else None
    return make.pool(cidr="10.0.0.0/24", tenant=tenant, **spec_fields)


def review_creation(new: NetworkPool, *others: NetworkPool) -> Verdict:
    """Return the verdict on a new pool beside other pools."""
    return networkpool.review_creation(new, make.spaces(*others), LIMIT)


def review_update(new: NetworkPool, old: NetworkPool | None, *allocations: Any) -> Verdict:
    """Return the verdict on an edit of a pool with these allocations."""
    return networkpool.review_update(
        new, old, view=make.view(*allocations), spaces=make.spaces(), max_addresses=LIMIT
    )


def list_causes(verdict: Verdict) -> list[tuple[str, str]]:
    """Return field and message of each cause of a rejection."""
    return [(cause.field, cause.message) for cause in verdict.causes]


# -- create ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("new", "where", "expected_message"),
    [
        (make.pool(cidr="10.0.0.0/40"), "spec.cidr", "invalid pool CIDR"),
        (make.pool(reserved=["10.41.0.0/28"]), "spec.reserved[0]", "is not within pool CIDR"),
        (make.pool(reserved=["10.40.0.0/99"]), "spec.reserved[0]", "invalid reserved CIDR"),
        (
            make.pool(tenant={"start": "10.40.0.9", "end": "10.40.0.3"}),
            "spec.tenantAllocation",
            "start 10.40.0.9 is after end 10.40.0.3",
        ),
        (
            make.pool(tenant={"start": "x", "end": "10.40.0.3"}),
            "spec.tenantAllocation.start",
            'ranges[0].start "x" is not a valid IPv4 address',
        ),
        (
            make.pool(cidr="10.0.0.0/24", tenant=make_ranges((9, 20), (1, 5))),
            "spec.tenantAllocation.ranges[1].start",
            "ranges must be sorted by start IP and non-overlapping",
        ),
        (
            make.pool(cidr="10.0.0.0/24", tenant=make_ranges((1, 5), (7, 400))),
            "spec.tenantAllocation.ranges[1].end",
            "is not a valid IPv4 address",
        ),
        (
            make.pool(
                reserved=["10.40.0.0/26"], tenant={"start": "10.40.0.0", "end": "10.40.0.31"}
            ),
            "spec.reserved[0]",
            "straddles ranges[0] boundary",
        ),
        (make.pool(cidr="10.0.0.0/8"), "spec.cidr", "pool too large"),
    ],
)
def test_an_invalid_spec_is_rejected_at_its_field(
    new: NetworkPool, where: str, expected_message: str
) -> None:
    [(field, message)] = list_causes(review_creation(new))
    assert field == where
    assert expected_message in message


def test_every_fault_of_a_spec_is_named_at_once() -> None:
    verdict = review_creation(make.pool(reserved=["10.99.0.0/24", "10.40.0.0/40"]))
    assert [cause.field for cause in verdict.causes] == ["spec.reserved[0]", "spec.reserved[1]"]
    assert {cause.reason for cause in verdict.causes} == {"FieldValueInvalid"}


def test_a_valid_spec_passes_without_a_warning() -> None:
    assert review_creation(make_pool((16, 239), reserved=["10.0.0.0/28"])) == Verdict()


def test_host_bits_and_overlapping_reservations_are_warned_of() -> None:
    new = make.pool(cidr="10.40.0.7/24", reserved=["10.40.0.0/28", "10.40.0.8/29"])
    verdict = review_creation(new)
    assert verdict.allowed
    overlap, host_bits = verdict.warnings
    assert overlap == "spec.reserved[1]: 10.40.0.8/29 overlaps reserved[0] (10.40.0.0/28)"
    assert host_bits.startswith("spec.cidr: '10.40.0.7/24' has host bits set")


@pytest.mark.parametrize("spelling", ["FD00::/64", "fd00:0:0:0::/64", "fd00::0.0.0.0/64"])
def test_a_cidr_of_ipv6_in_another_spelling_has_no_host_bits(spelling: str) -> None:
    assert review_creation(make.pool(cidr=spelling, reserved=["FD00:0::/120"])).warnings == ()
    [warning] = review_creation(make.pool(cidr="FD00::1/64")).warnings
    assert warning.startswith("spec.cidr: 'FD00::1/64' has host bits set; it is read as fd00::/64")


def test_the_warning_about_start_and_end_shows_the_equivalent_ranges() -> None:
    [warning] = review_creation(
        make.pool(tenant={"start": "10.40.0.1", "end": "10.40.0.9"})
    ).warnings
    assert 'ranges: [{start: "10.40.0.1", end: "10.40.0.9"}]' in warning


def test_start_and_end_together_with_ranges_are_a_warning() -> None:
    tenant = make_ranges((1, 9)) | {"start": "10.0.0.1", "end": "10.0.0.3"}
    [warning] = review_creation(make.pool(cidr="10.0.0.0/24", tenant=tenant)).warnings
    assert "Start/End are ignored when Ranges is present; remove them" in warning


def test_a_pool_that_shares_addresses_with_others_is_warned_of() -> None:
    others = [make.pool(f"p{n}", f"10.0.{n}.0/24") for n in range(8)]
    new = make.pool("wide", "10.0.0.0/21")
    [warning] = review_creation(new, new, *others, make.pool("far", "10.9.0.0/24")).warnings
    assert warning.startswith(
        "spec.cidr: addresses are also handed out by NetworkPool butler-system/p0 (256 addresses)"
    )
    assert warning.endswith("NetworkPool butler-system/p4 (256 addresses), and others")


def test_pools_that_divide_a_cidr_among_them_are_not_warned_of() -> None:
    low = make.pool("low", "10.0.0.0/24", tenant={"start": "10.0.0.0", "end": "10.0.0.127"})
    high = make.pool("high", "10.0.0.0/24", reserved=["10.0.0.0/25"])
    assert not [
        warning for warning in review_creation(high, low, high).warnings if "handed out" in warning
    ]
    widened = make.pool("high", "10.0.0.0/24", reserved=["10.0.0.0/26"])
    warnings = networkpool.review_update(
        widened, high, view=None, spaces=make.spaces(low, high), max_addresses=LIMIT
    ).warnings
    shared = "addresses are also handed out by NetworkPool butler-system/low (64 addresses)"
    assert f"spec.cidr: {shared}" in warnings


# -- update ------------------------------------------------------------------------------------

HELD = make.allocation("a", held_range=("10.0.0.5", "10.0.0.6"))


@pytest.mark.parametrize(
    ("before", "after", "holders", "is_allowed"),
    [
        ((1, 10), (7, 10), HELD, False),
        ((3, 8), (1, 10), HELD, True),
        ((1, 10), (1, 10), HELD, True),
        ((1, 20), (1, 10), HELD, True),
        ((1, 10), (7, 10), None, True),
        ((1, 10), (7, 10), make.allocation("a", phase="Pending"), True),
        ((1, 10), (6, 10), HELD, False),
        ((1, 10), (1, 5), HELD, False),
    ],
)
def test_narrowing_is_rejected_only_if_it_leaves_out_an_allocation(
    before: tuple[int, int], after: tuple[int, int], holders: Any, is_allowed: bool
) -> None:
    verdict = review_update(make_pool(after), make_pool(before), *([holders] if holders else []))
    assert verdict.allowed is is_allowed


def test_a_refused_narrowing_names_every_offender_and_its_address() -> None:
    allocation = make.allocation("one", held_range=("10.0.0.1", "10.0.0.2"))
    two = make.allocation("two", held_range=("10.0.0.9", "10.0.0.12"))
    safe = make.allocation("safe", held_range=("10.0.0.4", "10.0.0.5"))
    verdict = review_update(make_pool((3, 10)), make_pool((1, 20)), two, safe, allocation)
    assert list_causes(verdict) == [
        (
            "spec.tenantAllocation",
            (
                f'cannot narrow tenant allocation ranges: IPAllocation "{name}" has address'
                f" {address} outside the proposed ranges. Migrate or delete affected"
                " allocations first"
            ),
        )
        for name, address in (("one", "10.0.0.1"), ("two", "10.0.0.11"))
    ]
    assert {cause.reason for cause in verdict.causes} == {"FieldValueForbidden"}


def test_allocations_of_a_pool_are_found_by_spec_and_not_by_labels_or_phase() -> None:
    wiped = make.allocation("w", phase="Released", held_range=("10.0.0.5", "10.0.0.5"), labels={})
    other = make.allocation("o", of="other", held_range=("10.0.0.5", "10.0.0.5"))
    verdict = review_update(make_pool((7, 10)), make_pool((1, 10)), wiped, other)
    assert ['"w"' in message for _, message in list_causes(verdict)] == [True]


def test_an_allocation_without_an_address_list_counts_by_start_and_end() -> None:
    bare = make.allocation("a", held_range=("10.0.0.5", "10.0.0.6"), status={"addresses": []})
    assert not review_update(make_pool((7, 10)), make_pool((1, 10)), bare).allowed


def test_a_promise_that_is_not_written_yet_keeps_its_range_in_the_pool() -> None:
    waiting = make.allocation("late")
    promise = make.render_promise(make.promise(waiting, "10.0.0.5", "10.0.0.6"))
    old = make_pool((1, 10), status={"assignments": [promise]})
    assert not review_update(make_pool((7, 10)), old, waiting).allowed
    assert review_update(make_pool((5, 10)), old, waiting).allowed


def test_a_settled_promise_does_not_keep_its_range_in_the_pool() -> None:
    moved_on = make.allocation("edited")
    promise = make.render_promise(make.promise(moved_on, "10.0.0.5", "10.0.0.6", version="1"))
    old = make_pool((1, 10), status={"assignments": [promise]})
    assert review_update(make_pool((7, 10)), old, moved_on).allowed


def test_a_new_cidr_must_contain_the_old_one() -> None:
    old, new = make.pool(cidr="10.0.0.0/24"), make.pool(cidr="10.0.0.0/25")
    assert list_causes(review_update(new, old)) == [
        (
            "spec.cidr",
            (
                'new CIDR "10.0.0.0/25" does not contain the previous CIDR "10.0.0.0/24"; '
                "shrinking a pool may orphan existing allocations"
            ),
        )
    ]
    assert review_update(make.pool(cidr="10.0.0.0/23"), old).allowed
    assert review_update(make.pool(cidr="10.0.0.9/24"), old).allowed, "host bits change nothing"


def test_a_rejected_smaller_cidr_also_names_the_allocations_that_it_leaves_out() -> None:
    old, new = make.pool(cidr="10.0.0.0/24"), make.pool(cidr="10.0.0.0/30")
    fields = [cause.field for cause in review_update(new, old, HELD).causes]
    assert fields == ["spec.cidr", "spec.cidr"]


def test_reserved_may_not_grow_over_allocations() -> None:
    old, new = make_pool(), make_pool(reserved=["10.0.0.0/30", "10.0.0.4/30"])
    [(field, message)] = list_causes(review_update(new, old, HELD))
    assert field == "spec.reserved[1]"
    assert message == (
        'cannot reserve "10.0.0.4/30": IPAllocation "a" has address 10.0.0.5 in it. Migrate or'
        " delete affected allocations first"
    )
    assert review_update(make_pool(reserved=["10.0.0.0/30", "10.0.0.8/30"]), old, HELD).allowed


def test_an_allocation_that_was_left_out_before_does_not_stop_other_edits() -> None:
    old, new = make_pool((7, 10)), make_pool((7, 20))
    assert review_update(new, old, HELD).allowed
    reserved = make_pool(reserved=["10.0.0.4/30"])
    assert review_update(
        make_pool(reserved=["10.0.0.4/30", "10.0.0.8/30"]), reserved, HELD
    ).allowed


def test_an_invalid_old_spec_counts_as_one_that_handed_out_all_addresses() -> None:
    broken = make.pool(cidr="10.0.0.0/24", tenant=make_ranges((9, 5)))
    assert review_update(make_pool((1, 10)), broken, HELD).allowed
    assert not review_update(make_pool((7, 10)), broken, HELD).allowed
    assert not review_update(make_pool((7, 10)), None, HELD).allowed


def test_an_invalid_new_spec_is_rejected_without_naming_allocations() -> None:
    verdict = review_update(
        make.pool(cidr="10.0.0.0/24", tenant=make_ranges((9, 5))), make_pool((1, 10)), HELD
    )
    assert [message for _, message in list_causes(verdict)] == [
        "ranges[0] start 10.0.0.9 is after end 10.0.0.5"
    ]


def test_allocations_beyond_the_most_causes_are_only_counted() -> None:
    many = [
        make.allocation(f"a{n:03}", held_range=(f"10.0.0.{n}", f"10.0.0.{n}"))
        for n in range(MOST_CAUSES + 20)
    ]
    causes = review_update(make_pool((200, 210)), make_pool(), *many).causes
    assert len(causes) == MOST_CAUSES + 1
    assert causes[-1].message == "and 20 more allocations would be left out"


def test_whether_an_edit_gives_up_addresses_is_decided_without_allocations() -> None:
    for before, after, lost in (
        (make_pool((1, 10)), make_pool((1, 11)), False),
        (make_pool((1, 10)), make_pool((2, 11)), True),
        (make_pool(), make_pool(reserved=["10.0.0.0/30"]), True),
        (None, make_pool(), True),
    ):
        assert networkpool.gives_up_addresses(after, before, LIMIT) is lost


# -- delete ------------------------------------------------------------------------------------


def test_a_pool_with_an_allocated_range_cannot_be_deleted() -> None:
    verdict = networkpool.review_deletion(make_pool(), make.view(HELD))
    assert verdict.join_causes() == (
        'cannot delete NetworkPool "lab": IPAllocation "a" in namespace "butler-system" is still'
        " in phase Allocated"
    )


@pytest.mark.parametrize("phase", ["Released", "Pending", "Failed"])
def test_a_pool_cannot_be_deleted_while_an_allocation_has_a_range_in_any_phase(
    phase: str,
) -> None:
    holder = make.allocation("a", phase=phase, held_range=("10.0.0.5", "10.0.0.5"))
    assert count_blockers(Journal(), make.view(holder)) == 1, "its finalizer would wait for ever"
    assert networkpool.review_deletion(make_pool(), make.view(holder)).join_causes() == (
        'cannot delete NetworkPool "lab": IPAllocation "a" in namespace "butler-system" is still'
        f" in phase {phase}, yet holds a range"
    )


def test_a_pool_with_an_open_promise_to_a_claim_cannot_be_deleted() -> None:
    old = make_pool(status={"assignments": [make.render_claim_promise("10.0.0.5", "10.0.0.5")]})
    sentence = networkpool.review_deletion(old, make.view(make.allocation("a"))).join_causes()
    assert 'IPAddressClaim "a" in namespace "butler-system" was promised 10.0.0.5' in sentence


def test_a_pool_with_an_open_promise_cannot_be_deleted() -> None:
    waiting = make.allocation("late")
    promise = make.render_promise(make.promise(waiting, "10.0.0.5", "10.0.0.6"))
    old = make_pool(status={"assignments": [promise]})
    assert (
        "was promised 10.0.0.5"
        in networkpool.review_deletion(old, make.view(waiting)).join_causes()
    )


@pytest.mark.parametrize(
    "allocation",
    [
        make.allocation("p", phase="Pending"),
        make.allocation("f", phase="Failed"),
        make.allocation(
            "r",
            phase="Released",
            held_range=("10.0.0.5", "10.0.0.5"),
            deletionTimestamp="2026-01-01T00:00:00Z",
        ),
        make.allocation("o", of="other", held_range=("10.0.0.5", "10.0.0.5")),
    ],
    ids=lambda allocation: str(allocation.metadata.name),
)
def test_requests_that_hold_nothing_do_not_block_deletion(allocation: Any) -> None:
    assert networkpool.review_deletion(make_pool(), make.view(allocation)).allowed


# -- what another platform allocates by itself ---------------------------------------------------


def make_observed(address: str, name: str = "team/k") -> HeldRange:
    """Return an address that KKP has given a cluster by itself."""
    span = AddressRange.parse(address, address)
    return HeldRange(f"IPAMAllocation {name}", span, foreign=True)


@pytest.mark.parametrize(
    ("new", "warning"),
    [
        (
            make_pool(reserved=["10.0.0.8/29"]),
            "spec.reserved[0]: IPAMAllocation team/k has address 10.0.0.9 in 10.0.0.8/29",
        ),
        (
            make_pool((32, 63)),
            (
                "spec.tenantAllocation: IPAMAllocation team/k has address 10.0.0.9 outside the"
                " proposed ranges"
            ),
        ),
        (
            replace(make_pool(), spec=replace(make_pool().spec, gateway="10.0.0.9")),
            "spec.gateway: IPAMAllocation team/k has address 10.0.0.9 in 10.0.0.9",
        ),
    ],
    ids=["reserved", "narrowed", "gateway"],
)
def test_an_edit_may_leave_out_addresses_that_kkp_allocated_and_warns(
    new: NetworkPool, warning: str
) -> None:
    holders = [make_observed("10.0.0.9")]
    verdict = networkpool.review_update(
        new,
        make_pool(),
        view=make.view(),
        spaces=make.spaces(),
        max_addresses=LIMIT,
        claimed=holders,
    )
    assert verdict.allowed
    ends = "; it keeps it, and the pool no longer counts it as in use"
    assert f"{warning}{ends}" in verdict.warnings
    assert networkpool.review_deletion(make_pool(), make.view(), holders).allowed


def test_beyond_five_warnings_objects_with_left_out_addresses_are_counted() -> None:
    holders = [make_observed(f"10.0.0.{number}", f"team/k{number}") for number in range(8)]
    new = make_pool(reserved=["10.0.0.0/29"])
    verdict = networkpool.review_update(
        new,
        make_pool(),
        view=make.view(),
        spaces=make.spaces(),
        max_addresses=LIMIT,
        claimed=holders,
    )
    assert verdict.allowed
    assert len(verdict.warnings) == 6
    assert verdict.warnings[-1] == "spec.cidr: 3 more objects hold such addresses"
