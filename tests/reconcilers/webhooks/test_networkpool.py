"""The rules on NetworkPools: sound specs, CIDRs that only grow, no holder left out or orphaned."""

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


def ranges(*spans: tuple[int, int]) -> dict[str, Any]:
    return {"ranges": [{"start": f"10.0.0.{a}", "end": f"10.0.0.{b}"} for a, b in spans]}


def pool(*spans: tuple[int, int], **spec_fields: Any) -> NetworkPool:
    tenant = ranges(*spans) if spans else None
    return make.pool(cidr="10.0.0.0/24", tenant=tenant, **spec_fields)


def create(new: NetworkPool, *others: NetworkPool) -> Verdict:
    return networkpool.review_creation(new, make.spaces(*others), LIMIT)


def update(new: NetworkPool, old: NetworkPool | None, *allocations: Any) -> Verdict:
    return networkpool.review_update(
        new, old, view=make.view(*allocations), spaces=make.spaces(), max_addresses=LIMIT
    )


def causes(verdict: Verdict) -> list[tuple[str, str]]:
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
            make.pool(cidr="10.0.0.0/24", tenant=ranges((9, 20), (1, 5))),
            "spec.tenantAllocation.ranges[1].start",
            "ranges must be sorted by start IP and non-overlapping",
        ),
        (
            make.pool(cidr="10.0.0.0/24", tenant=ranges((1, 5), (7, 400))),
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
def test_a_spec_that_contradicts_itself_is_refused_at_its_field(
    new: NetworkPool, where: str, expected_message: str
) -> None:
    [(field, message)] = causes(create(new))
    assert field == where
    assert expected_message in message


def test_every_fault_of_a_spec_is_named_at_once() -> None:
    verdict = create(make.pool(reserved=["10.99.0.0/24", "10.40.0.0/40"]))
    assert [cause.field for cause in verdict.causes] == ["spec.reserved[0]", "spec.reserved[1]"]
    assert {cause.reason for cause in verdict.causes} == {"FieldValueInvalid"}


def test_a_valid_spec_passes_without_a_warning() -> None:
    assert create(pool((16, 239), reserved=["10.0.0.0/28"])) == Verdict()


def test_host_bits_and_overlapping_reservations_are_warned_of() -> None:
    new = make.pool(cidr="10.40.0.7/24", reserved=["10.40.0.0/28", "10.40.0.8/29"])
    verdict = create(new)
    assert verdict.allowed
    overlap, host_bits = verdict.warnings
    assert overlap == "spec.reserved[1]: 10.40.0.8/29 overlaps reserved[0] (10.40.0.0/28)"
    assert host_bits.startswith("spec.cidr: '10.40.0.7/24' has host bits set")


@pytest.mark.parametrize("spelling", ["FD00::/64", "fd00:0:0:0::/64", "fd00::0.0.0.0/64"])
def test_a_cidr_of_ipv6_in_another_spelling_has_no_host_bits(spelling: str) -> None:
    assert create(make.pool(cidr=spelling, reserved=["FD00:0::/120"])).warnings == ()
    [warning] = create(make.pool(cidr="FD00::1/64")).warnings
    assert warning.startswith("spec.cidr: 'FD00::1/64' has host bits set; it is read as fd00::/64")


def test_start_and_end_are_warned_of_with_the_ranges_that_say_the_same() -> None:
    [warning] = create(make.pool(tenant={"start": "10.40.0.1", "end": "10.40.0.9"})).warnings
    assert 'ranges: [{start: "10.40.0.1", end: "10.40.0.9"}]' in warning


def test_start_and_end_together_with_ranges_are_a_warning() -> None:
    tenant = ranges((1, 9)) | {"start": "10.0.0.1", "end": "10.0.0.3"}
    [warning] = create(make.pool(cidr="10.0.0.0/24", tenant=tenant)).warnings
    assert "Start/End are ignored when Ranges is present; remove them" in warning


def test_a_pool_that_shares_addresses_with_others_is_warned_of() -> None:
    others = [make.pool(f"p{n}", f"10.0.{n}.0/24") for n in range(8)]
    new = make.pool("wide", "10.0.0.0/21")
    [warning] = create(new, new, *others, make.pool("far", "10.9.0.0/24")).warnings
    assert warning.startswith(
        "spec.cidr: addresses are also handed out by NetworkPool butler-system/p0 (256 addresses)"
    )
    assert warning.endswith("NetworkPool butler-system/p4 (256 addresses), and others")


def test_pools_that_divide_a_cidr_among_them_are_not_warned_of() -> None:
    low = make.pool("low", "10.0.0.0/24", tenant={"start": "10.0.0.0", "end": "10.0.0.127"})
    high = make.pool("high", "10.0.0.0/24", reserved=["10.0.0.0/25"])
    assert not [warning for warning in create(high, low, high).warnings if "handed out" in warning]
    widened = make.pool("high", "10.0.0.0/24", reserved=["10.0.0.0/26"])
    warnings = networkpool.review_update(
        widened, high, view=None, spaces=make.spaces(low, high), max_addresses=LIMIT
    ).warnings
    shared = "addresses are also handed out by NetworkPool butler-system/low (64 addresses)"
    assert f"spec.cidr: {shared}" in warnings


# -- update ------------------------------------------------------------------------------------

HELD = make.allocation("a", held_range=("10.0.0.5", "10.0.0.6"))


@pytest.mark.parametrize(
    ("before", "after", "holders", "passes"),
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
def test_narrowing_is_refused_exactly_where_an_allocation_would_be_left_out(
    before: tuple[int, int], after: tuple[int, int], holders: Any, passes: bool
) -> None:
    verdict = update(pool(after), pool(before), *([holders] if holders else []))
    assert verdict.allowed is passes


def test_a_refused_narrowing_names_every_offender_and_its_address() -> None:
    allocation = make.allocation("one", held_range=("10.0.0.1", "10.0.0.2"))
    two = make.allocation("two", held_range=("10.0.0.9", "10.0.0.12"))
    safe = make.allocation("safe", held_range=("10.0.0.4", "10.0.0.5"))
    verdict = update(pool((3, 10)), pool((1, 20)), two, safe, allocation)
    assert causes(verdict) == [
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


def test_offenders_are_found_by_spec_whatever_their_labels_and_phase_say() -> None:
    wiped = make.allocation("w", phase="Released", held_range=("10.0.0.5", "10.0.0.5"), labels={})
    other = make.allocation("o", of="other", held_range=("10.0.0.5", "10.0.0.5"))
    verdict = update(pool((7, 10)), pool((1, 10)), wiped, other)
    assert ['"w"' in message for _, message in causes(verdict)] == [True]


def test_an_allocation_without_an_address_list_counts_by_start_and_end() -> None:
    bare = make.allocation("a", held_range=("10.0.0.5", "10.0.0.6"), status={"addresses": []})
    assert not update(pool((7, 10)), pool((1, 10)), bare).allowed


def test_a_promise_that_is_not_written_yet_keeps_its_range_in_the_pool() -> None:
    waiting = make.allocation("late")
    promise = make.list_promise(make.promise(waiting, "10.0.0.5", "10.0.0.6"))
    old = pool((1, 10), status={"assignments": [promise]})
    assert not update(pool((7, 10)), old, waiting).allowed
    assert update(pool((5, 10)), old, waiting).allowed


def test_a_promise_that_is_settled_keeps_nothing() -> None:
    moved_on = make.allocation("edited")
    promise = make.list_promise(make.promise(moved_on, "10.0.0.5", "10.0.0.6", version="1"))
    old = pool((1, 10), status={"assignments": [promise]})
    assert update(pool((7, 10)), old, moved_on).allowed


def test_a_new_cidr_must_contain_the_old_one() -> None:
    old, new = make.pool(cidr="10.0.0.0/24"), make.pool(cidr="10.0.0.0/25")
    assert causes(update(new, old)) == [
        (
            "spec.cidr",
            (
                'new CIDR "10.0.0.0/25" does not contain the previous CIDR "10.0.0.0/24"; '
                "shrinking a pool may orphan existing allocations"
            ),
        )
    ]
    assert update(make.pool(cidr="10.0.0.0/23"), old).allowed
    assert update(make.pool(cidr="10.0.0.9/24"), old).allowed, "host bits change nothing"


def test_a_shrunk_cidr_names_who_would_be_left_out() -> None:
    old, new = make.pool(cidr="10.0.0.0/24"), make.pool(cidr="10.0.0.0/30")
    fields = [cause.field for cause in update(new, old, HELD).causes]
    assert fields == ["spec.cidr", "spec.cidr"]


def test_reserved_may_not_grow_over_allocations() -> None:
    old, new = pool(), pool(reserved=["10.0.0.0/30", "10.0.0.4/30"])
    [(field, message)] = causes(update(new, old, HELD))
    assert field == "spec.reserved[1]"
    assert message == (
        'cannot reserve "10.0.0.4/30": IPAllocation "a" has address 10.0.0.5 in it. Migrate or'
        " delete affected allocations first"
    )
    assert update(pool(reserved=["10.0.0.0/30", "10.0.0.8/30"]), old, HELD).allowed


def test_what_was_left_out_before_does_not_stop_other_edits() -> None:
    old, new = pool((7, 10)), pool((7, 20))
    assert update(new, old, HELD).allowed
    reserved = pool(reserved=["10.0.0.4/30"])
    assert update(pool(reserved=["10.0.0.4/30", "10.0.0.8/30"]), reserved, HELD).allowed


def test_an_old_spec_that_was_broken_might_have_covered_anything() -> None:
    broken = make.pool(cidr="10.0.0.0/24", tenant=ranges((9, 5)))
    assert update(pool((1, 10)), broken, HELD).allowed
    assert not update(pool((7, 10)), broken, HELD).allowed
    assert not update(pool((7, 10)), None, HELD).allowed


def test_a_broken_new_spec_is_refused_for_that_alone() -> None:
    verdict = update(make.pool(cidr="10.0.0.0/24", tenant=ranges((9, 5))), pool((1, 10)), HELD)
    assert [message for _, message in causes(verdict)] == [
        "ranges[0] start 10.0.0.9 is after end 10.0.0.5"
    ]


def test_very_many_offenders_are_counted() -> None:
    many = [
        make.allocation(f"a{n:03}", held_range=(f"10.0.0.{n}", f"10.0.0.{n}"))
        for n in range(MOST_CAUSES + 20)
    ]
    causes = update(pool((200, 210)), pool(), *many).causes
    assert len(causes) == MOST_CAUSES + 1
    assert causes[-1].message == "and 20 more allocations would be left out"


def test_whether_an_edit_gives_up_addresses_is_decided_without_allocations() -> None:
    for before, after, lost in (
        (pool((1, 10)), pool((1, 11)), False),
        (pool((1, 10)), pool((2, 11)), True),
        (pool(), pool(reserved=["10.0.0.0/30"]), True),
        (None, pool(), True),
    ):
        assert networkpool.gives_up_addresses(after, before, LIMIT) is lost


# -- delete ------------------------------------------------------------------------------------


def test_a_pool_with_an_allocated_range_cannot_be_deleted() -> None:
    verdict = networkpool.review_deletion(pool(), make.view(HELD))
    assert verdict.join_causes() == (
        'cannot delete NetworkPool "lab": IPAllocation "a" in namespace "butler-system" is still'
        " in phase Allocated"
    )


@pytest.mark.parametrize("phase", ["Released", "Pending", "Failed"])
def test_a_pool_cannot_be_deleted_whatever_phase_a_person_wrote_beside_a_range(
    phase: str,
) -> None:
    holder = make.allocation("a", phase=phase, held_range=("10.0.0.5", "10.0.0.5"))
    assert count_blockers(Journal(), make.view(holder)) == 1, "its finalizer would wait for ever"
    assert networkpool.review_deletion(pool(), make.view(holder)).join_causes() == (
        'cannot delete NetworkPool "lab": IPAllocation "a" in namespace "butler-system" is still'
        f" in phase {phase}, yet holds a range"
    )


def test_a_pool_with_an_open_promise_to_a_claim_cannot_be_deleted() -> None:
    old = pool(status={"assignments": [make.listed_for_claim("10.0.0.5", "10.0.0.5")]})
    sentence = networkpool.review_deletion(old, make.view(make.allocation("a"))).join_causes()
    assert 'IPAddressClaim "a" in namespace "butler-system" was promised 10.0.0.5' in sentence


def test_a_pool_with_an_open_promise_cannot_be_deleted() -> None:
    waiting = make.allocation("late")
    promise = make.list_promise(make.promise(waiting, "10.0.0.5", "10.0.0.6"))
    old = pool(status={"assignments": [promise]})
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
    assert networkpool.review_deletion(pool(), make.view(allocation)).allowed


# -- what another platform allocates by itself ---------------------------------------------------


def make_observed(address: str, name: str = "team/k") -> HeldRange:
    """Return an address that KKP has given a cluster by itself."""
    span = AddressRange.parse(address, address)
    return HeldRange(f"IPAMAllocation {name}", span, foreign=True)


@pytest.mark.parametrize(
    ("new", "warning"),
    [
        (
            pool(reserved=["10.0.0.8/29"]),
            "spec.reserved[0]: IPAMAllocation team/k has address 10.0.0.9 in 10.0.0.8/29",
        ),
        (
            pool((32, 63)),
            (
                "spec.tenantAllocation: IPAMAllocation team/k has address 10.0.0.9 outside the"
                " proposed ranges"
            ),
        ),
        (
            replace(pool(), spec=replace(pool().spec, gateway="10.0.0.9")),
            "spec.gateway: IPAMAllocation team/k has address 10.0.0.9 in 10.0.0.9",
        ),
    ],
    ids=["reserved", "narrowed", "gateway"],
)
def test_addresses_that_kkp_allocated_may_be_left_out_with_a_warning(
    new: NetworkPool, warning: str
) -> None:
    holders = [make_observed("10.0.0.9")]
    verdict = networkpool.review_update(
        new, pool(), view=make.view(), spaces=make.spaces(), max_addresses=LIMIT, claimed=holders
    )
    assert verdict.allowed
    ends = "; it keeps it, and the pool no longer counts it as in use"
    assert f"{warning}{ends}" in verdict.warnings
    assert networkpool.review_deletion(pool(), make.view(), holders).allowed


def test_many_objects_whose_addresses_are_left_out_are_counted() -> None:
    holders = [make_observed(f"10.0.0.{number}", f"team/k{number}") for number in range(8)]
    new = pool(reserved=["10.0.0.0/29"])
    verdict = networkpool.review_update(
        new, pool(), view=make.view(), spaces=make.spaces(), max_addresses=LIMIT, claimed=holders
    )
    assert verdict.allowed
    assert len(verdict.warnings) == 6
    assert verdict.warnings[-1] == "spec.cidr: 3 more objects hold such addresses"
