"""The decision of a pass over a pool: which promises are settled, and who gets which range."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.api.networkpool import Assignment
from reconcilers.networkpool import protocol
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.statusjournal import settle_pool_journal
from tests.reconcilers import make


def _make_pool(*promises: Assignment, **extra: Any) -> Any:
    """Return a pool whose journal has the revision 7 and these promises."""
    listed = [
        {
            "name": p.name,
            "uid": p.uid,
            "resourceVersion": p.resourceVersion,
            "startAddress": p.startAddress,
            "endAddress": p.endAddress,
        }
        for p in promises
    ]
    return make.pool(memory=7, status={"assignments": listed} | extra)


def _decide(pool: Any, *allocations: Any, position: int = 10**9, batch: int = 256) -> Any:
    """Return the decision of a pass over a pool.

    Args:
        allocations: those of the pool.
        position: the revision up to which they were read.
        batch: the most promises that a pass makes.
    """
    geometry = poolgeometry.parse_layouts(pool.spec, 1 << 20)
    return protocol.decide(
        pool, make.view(*allocations, position=position), geometry=geometry, batch=batch
    )


def test_a_promise_stays_open_while_its_allocation_is_at_the_promised_version() -> None:
    waiting = make.allocation("a")
    pool = _make_pool(make.promise(waiting, "10.40.0.0", "10.40.0.7"))
    settled = settle_pool_journal(pool, make.view(waiting))
    assert [p.key.name for p in settled.promises] == ["a"]
    assert settled.revisions == {KIND: 7}


def test_a_later_version_of_its_allocation_settles_a_promise_and_raises_the_revision() -> None:
    edited = make.allocation("a", resourceVersion="900")
    pool = _make_pool(make.promise(edited, "10.40.0.0", "10.40.0.7", version="899"))
    settled = settle_pool_journal(pool, make.view(edited))
    assert settled.promises == ()
    assert settled.revisions == {KIND: 900}


def test_a_promise_to_an_absent_allocation_is_open_until_its_version_was_read() -> None:
    gone = make.allocation("a", resourceVersion="500")
    pool = _make_pool(make.promise(gone, "10.40.0.0", "10.40.0.7"))
    assert settle_pool_journal(pool, make.view(position=499)).promises
    late = settle_pool_journal(pool, make.view(position=500))
    assert late.promises == ()
    assert late.revisions == {KIND: 7}, (
        "the journal keeps versions of objects only, and no position of a watch"
    )


def test_a_promise_to_a_deleted_allocation_is_not_for_a_new_one_of_the_same_name() -> None:
    old = make.allocation("a", resourceVersion="500")
    new = make.allocation("a", resourceVersion="600", uid="another")
    pool = _make_pool(make.promise(old, "10.40.0.0", "10.40.0.7"))
    decision = _decide(pool, new, position=550)
    assert decision.settled.promises == ()
    assert [g.addresses[0].text for g in decision.choice.grants] == ["10.40.0.0/29"]


def test_the_revision_is_never_lowered() -> None:
    old = make.allocation("a", resourceVersion="5")
    pool = _make_pool(make.promise(old, "10.40.0.0", "10.40.0.7", version="4"))
    assert settle_pool_journal(pool, make.view(old)).revisions == {KIND: 7}


def test_a_promise_that_cannot_be_parsed_is_dropped_and_its_allocation_is_served() -> None:
    waiting = make.allocation("a")
    pool = _make_pool(make.promise(waiting, "nonsense", "10.40.0.7", version="x"))
    decision = _decide(pool, waiting)
    assert [g.addresses[0].text for g in decision.choice.grants] == ["10.40.0.0/29"]


def test_the_range_of_an_open_promise_is_not_granted_to_another_allocation() -> None:
    first, second = make.allocation("a", size=8), make.allocation("b", size=8)
    pool = _make_pool(make.promise(first, "10.40.0.0", "10.40.0.7"))
    decision = _decide(pool, first, second)
    assert [(g.asker.metadata.name, g.addresses[0].text) for g in decision.choice.grants] == [
        ("b", "10.40.0.8/29")
    ]


@pytest.mark.parametrize("phase", ["Allocated", "Pending", "Failed", "Released"])
def test_a_range_in_a_status_is_not_granted_again_whatever_the_phase_is(phase: str) -> None:
    holder = make.allocation("a", held_range=("10.40.0.0", "10.40.0.7"), phase=phase)
    other = make.allocation("b", size=8)
    decision = _decide(make.pool(), holder, other)
    granted = {g.asker.metadata.name: g.addresses[0].text for g in decision.choice.grants}
    assert granted["b"] == "10.40.0.8/29"


def test_an_allocation_whose_phase_was_wiped_gets_the_range_it_still_holds() -> None:
    wiped = make.allocation("a", held_range=("10.40.0.32", "10.40.0.39"), phase="Pending")
    decision = _decide(make.pool(), wiped)
    assert [g.addresses[0].text for g in decision.choice.grants] == ["10.40.0.32/29"]


@pytest.mark.parametrize(
    "allocation",
    [
        make.allocation("no-finalizer", finalizers=[]),
        make.allocation("terminating", deletionTimestamp="2026-01-01T00:00:00Z"),
        make.allocation("served", held_range=("10.40.0.0", "10.40.0.7")),
    ],
    ids=lambda a: a.metadata.name,
)
def test_ineligible_allocations_get_no_range(allocation: Any) -> None:
    assert _decide(make.pool(), allocation).choice.grants == ()


def test_the_oldest_request_is_served_first_and_names_break_ties() -> None:
    asking = [
        make.allocation("young", age=1),
        make.allocation("b", age=5),
        make.allocation("a", age=5),
        make.allocation(
            "carried",
            age=2,
            annotations={"butler.butlerlabs.dev/requested-at": "2025-12-31T00:00:00Z"},
        ),
    ]
    order = [holder.key.name for _, holder in make.view(*asking).holdings.iterate_turns()]
    assert order == ["carried", "a", "b", "young"]


def test_an_annotation_requested_at_that_is_no_time_is_ignored() -> None:
    annotated = {"butler.butlerlabs.dev/requested-at": "yesterday"}
    odd = make.allocation("odd", age=1, annotations=annotated)
    assert odd.requested_at == odd.metadata.creationTimestamp


def test_a_smaller_request_is_served_before_an_older_one_that_does_not_fit() -> None:
    pool = make.pool(cidr="10.40.0.0/29")
    large, small = make.allocation("large", size=9, age=9), make.allocation("small", size=4)
    choice = _decide(pool, large, small).choice
    assert [g.asker.metadata.name for g in choice.grants] == ["small"]
    assert [(r.asker.metadata.name, r.reason) for r in choice.refusals] == [
        ("large", "PoolExhausted")
    ]


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        (("10.40.0.0", "10.40.0.1"), "PinnedRangeConflict"),
        (("10.41.0.0", "10.41.0.1"), "OutOfRange"),
        (("10.40.0.9", "10.40.0.8"), "InvalidRequest"),
    ],
)
def test_a_refused_pinned_range_has_the_reason_of_its_fault(
    pin: tuple[str, str], reason: str
) -> None:
    pool = make.pool(reserved=["10.40.0.0/28"])
    choice = _decide(pool, make.allocation("a", pin=pin)).choice
    assert [r.reason for r in choice.refusals] == [reason]


def test_a_pinned_range_is_granted_exactly() -> None:
    pinned = make.allocation("a", pin=("10.40.0.100", "10.40.0.102"))
    assert (
        _decide(make.pool(), pinned).choice.grants[0].addresses[0].text
        == "10.40.0.100-10.40.0.102"
    )


@pytest.mark.parametrize(("kind", "expected"), [("nodes", 3), ("loadbalancer", 6)])
def test_an_allocation_without_count_gets_the_pools_default_for_its_type(
    kind: str, expected: int
) -> None:
    defaults = {"defaults": {"nodesPerTenant": 3, "lbPoolPerTenant": 6}}
    pool = make.pool(tenant=defaults)
    assert (
        _decide(pool, make.allocation("a", kind=kind)).choice.grants[0].addresses[0].size
        == expected
    )


def test_requests_beyond_a_batch_are_left_to_the_next_pass() -> None:
    asking = [make.allocation(f"a{n}", size=1) for n in range(5)]
    choice = _decide(make.pool(), *asking, batch=3).choice
    assert (len(choice.grants), choice.more) == (3, True)


def test_the_journal_never_has_more_promises_than_the_schema_allows() -> None:
    waiting = [make.allocation(f"w{n}", size=1) for n in range(600)]
    open_promises = [
        make.promise(a, f"10.40.{n >> 8}.{n & 255}", f"10.40.{n >> 8}.{n & 255}")
        for n, a in enumerate(waiting[:500])
    ]
    pool = make.pool(cidr="10.40.0.0/22")
    pool = type(pool)(pool.metadata, pool.spec, _make_pool(*open_promises).status)
    assert len(_decide(pool, *waiting).journal.promises) == 512


@given(
    held_sizes=st.lists(st.integers(0, 60), max_size=6, unique=True),
    sizes=st.lists(st.integers(1, 9), max_size=12),
    blocks=st.lists(st.integers(0, 6), max_size=6),
    family=st.sampled_from([4, 6]),
)
def test_grants_overlap_neither_each_other_nor_held_ranges(
    held_sizes: list[int], sizes: list[int], blocks: list[int], family: int
) -> None:
    """Check this for holders of four addresses, and requests by count and by prefix length."""
    ends = {n: (make.address(n * 4, family), make.address(n * 4 + 3, family)) for n in held_sizes}
    holders = [make.allocation(f"h{n}", held_range=ends[n]) for n in held_sizes]
    asking = [make.allocation(f"w{n}", size=size) for n, size in enumerate(sizes)]
    lengths = [make.prefix_length(bits, family) for bits in blocks]
    asking += [make.allocation(f"b{n}", prefix=length) for n, length in enumerate(lengths)]
    decision = _decide(make.pool(cidr=make.cidr(8, family)), *holders, *asking)
    spans = [statusranges.find_held_range(h) for h in holders] + [
        g.addresses[0] for g in decision.choice.grants
    ]
    addresses = [address for span in spans if span for address in span.list_addresses()]
    assert len(addresses) == len(set(addresses))
