"""What is kept of a pool is what its holders say, change by change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AddressRange, Layout
from controller.cache import Cache
from controller.codec import Deleted, Modified
from controller.meta import Key
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, pool_index
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.promises.holdings import (
    NOTHING,
    Facts,
    Holdings,
    KeptHoldings,
    indexed_source,
    list_differences,
)
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import PromisedRange
from tests.clock import VirtualClock
from tests.reconcilers import make

A, B = Holder("Claim", Key("team", "a")), Holder("Claim", Key("team", "b"))
EARLY, LATE = (datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2))
LAYOUTS = {"": Layout.parse("10.0.0.0/29")}


def addresses(first: int, last: int) -> AddressRange:
    return AddressRange.parse(f"10.0.0.{first}", f"10.0.0.{last}")


def holding(*spans: tuple[int, int], **more: Any) -> Facts:
    return Facts(tuple(PromisedRange(addresses(*span)) for span in spans), **more)


def list_queued(holdings: Holdings) -> list[Holder]:
    return [holder for _, holder in holdings.turns()]


def test_a_range_of_two_holders_is_taken_until_both_are_gone() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, holding((0, 0)))
    holdings.put(B, holding((0, 0), is_in_use=True))
    assert (holdings.space().used, holdings.in_use_count) == (1, 1)
    assert (holdings.holder_count, holdings.claimed_size) == (2, 2)
    holdings.remove(B)
    assert (holdings.space().used, holdings.in_use_count) == (1, 0)
    holdings.put(A, NOTHING)
    assert holdings.space().used == 0
    assert (holdings.holder_count, holdings.claimed_size) == (0, 0)


def test_another_holder_of_a_part_of_it_is_found_also_where_sizes_differ() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, holding((2, 2)))
    assert holdings.other_holder(addresses(2, 2), B) == A
    holdings.put(B, holding((0, 3)))
    assert holdings.other_holder(addresses(2, 2), A) == B
    assert holdings.other_holder(addresses(2, 2), B) == A
    assert holdings.other_holder(addresses(4, 4), A) is None
    assert holdings.other_holder(addresses(1, 1)) == B
    holdings.remove(B)
    assert holdings.other_holder(addresses(2, 2), A) is None


def test_spaces_of_one_pool_do_not_see_the_ranges_of_each_other() -> None:
    holdings = Holdings({"one": LAYOUTS[""], "two": LAYOUTS[""]})
    holdings.put(A, Facts((PromisedRange(addresses(0, 3), "one"),)))
    assert (holdings.space("one").used, holdings.space("two").used) == (4, 0)
    assert holdings.other_holder(addresses(0, 0), B, "one") == A
    assert holdings.other_holder(addresses(0, 0), B, "two") is None


def test_what_a_trial_takes_of_any_space_is_free_afterwards() -> None:
    holdings = Holdings({"one": LAYOUTS[""], "two": LAYOUTS[""]})
    with holdings.trial():
        holdings.space("one").take_lowest(8)
        holdings.space("two").take_lowest(1)
    assert (holdings.space("one").used, holdings.space("two").used) == (0, 0)


def test_spaces_follow_what_the_pool_may_hand_out() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, holding((0, 0)))
    assert holdings.space().total == 8
    holdings.lay_out({"": Layout.parse("10.0.0.0/30")})
    assert (holdings.space().total, holdings.space().used) == (4, 1)


def test_who_waits_is_in_the_order_of_age_then_holder_and_leaves_when_served() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(B, Facts(place=(EARLY, B)))
    holdings.put(A, Facts(place=(LATE, A)))
    assert list_queued(holdings) == [B, A]
    holdings.put(B, holding((0, 0)))
    assert list_queued(holdings) == [A]


def test_equal_askers_wait_in_one_row_and_one_without_row_waits_alone() -> None:
    holdings = Holdings(LAYOUTS)
    for holder, created in ((A, LATE), (B, EARLY)):
        holdings.put(holder, Facts(place=(created, holder), row="equal"))
    turns = holdings.turns()
    assert next(turns) == (EARLY, B)
    turns.leave_out()
    assert list(turns) == []
    holdings.put(A, holding((0, 0), place=(LATE, A)))
    turns = holdings.turns()
    assert next(turns) == (EARLY, B)
    turns.leave_out()
    assert list(turns) == [(LATE, A)]
    holdings.put(A, Facts(place=(LATE, A), row="equal"))
    holdings.remove(B)
    assert list_queued(holdings) == [A]
    assert (holdings.waiting_count, holdings.oldest_wait) == (1, LATE)


def test_different_things_outside_are_counted_each_once() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, Facts(outside="10.9.9.9", is_in_use=True))
    holdings.put(B, Facts(outside="10.9.9.9", is_in_use=True))
    assert (holdings.outside_count, holdings.in_use_count) == (1, 2)
    holdings.remove(A)
    assert (holdings.outside_count, holdings.in_use_count) == (1, 1)
    holdings.remove(B)
    assert (holdings.outside_count, holdings.in_use_count) == (0, 0)


@st.composite
def _facts(draw: st.DrawFn, holder: Holder) -> Facts | None:
    """Return any facts of a holder: overlapping, of two spaces, outside, waiting; or none."""
    if draw(st.booleans()) and draw(st.booleans()):
        return None
    spans = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=3))
    parts = {
        PromisedRange(addresses(first, first + size), draw(st.sampled_from(["", "other"])))
        for first, size in spans
    }
    place = draw(st.sampled_from([None, EARLY, LATE]))
    return Facts(
        tuple(sorted(parts, key=lambda part: (part.range.first, part.range.last, part.space))),
        None if place is None else (place, holder),
        draw(st.sampled_from([None, "row", "another"])),
        is_in_use=draw(st.booleans()),
        outside=draw(st.sampled_from([None, "x", "y"])),
    )


@settings(deadline=None)
@given(data=st.data())
def test_all_that_is_derived_follows_the_facts(data: st.DataObject) -> None:
    """Spaces, rows, counts and the index, whenever they are first needed."""
    layouts = {"": LAYOUTS[""], "other": Layout.parse("10.0.0.0/28")}
    kept, known = Holdings(layouts), dict[Holder, Facts]()
    names = st.sampled_from("abcd").map(lambda name: Holder("Claim", Key("team", name)))
    for _ in range(data.draw(st.integers(1, 12))):
        holder = data.draw(names)
        facts = data.draw(_facts(holder))
        if facts is None:
            kept.remove(holder)
            known.pop(holder, None)
        else:
            kept.put(holder, facts)
            known[holder] = facts
        if data.draw(st.booleans()):
            kept.space(data.draw(st.sampled_from(["", "other"])))
        asked = data.draw(st.integers(0, 16))
        span = AddressRange(addresses(0, 0).first + asked, addresses(0, 0).first + asked + 1, 4)
        others = {
            other
            for other, its_facts in known.items()
            if other != holder
            and any(part.space == "" and part.range.overlaps(span) for part in its_facts.ranges)
        }
        other_holder = kept.other_holder(span, holder)
        assert other_holder in others if others else other_holder is None
        assert list_differences(kept, Holdings(layouts, known.items())) == []


class _TwoKinds:
    """Requests and answers of pools in two caches, and the holdings that are kept of them."""

    def __init__(self) -> None:
        indexes = {POOL_INDEX: pool_index}
        self.requests = Cache(IP_ALLOCATION, indexes=indexes)
        self.answers = Cache(IP_ALLOCATION, indexes=indexes)
        self.read: list[Holder] = []
        self.kept = KeptHoldings[Key, int](
            [
                indexed_source(cache, POOL_INDEX, pools=_pools, holder=_holder)
                for cache in (self.requests, self.answers)
            ],
            self.facts,
            lambda offer: {"": Layout.parse(f"10.40.0.0/{offer}")},
            clock=VirtualClock(),
        )
        self.requests.replace([], 1)
        self.answers.replace([], 1)

    def facts(self, pool: Key, holder: Holder, offer: int) -> Facts | None:
        del offer
        self.read.append(holder)
        states = [cache.get(holder.key) for cache in (self.requests, self.answers)]
        of_pool = [state for state in states if state is not None and state.pool_key == pool]
        if not of_pool:
            return None
        promised_ranges = {PromisedRange(AddressRange.parse(*_span(state))) for state in of_pool}
        return Facts(tuple(promised_ranges), is_in_use=len(of_pool) == 2)


def _span(state: IPAllocation) -> tuple[str, str]:
    assert state.status.startAddress is not None
    assert state.status.endAddress is not None
    return state.status.startAddress, state.status.endAddress


def _pools(state: IPAllocation) -> list[Key]:
    return [state.pool_key]


def _holder(state: IPAllocation) -> Holder:
    return Holder("Claim", state.metadata.key)


def _object(name: str, revision: int, of: str = "lab") -> IPAllocation:
    held_range = ("10.40.0.0", "10.40.0.3")
    return make.allocation(name, held_range=held_range, of=of, resourceVersion=str(revision))


@pytest.mark.usefixtures("contents_differences")
def test_a_holder_that_two_objects_show_holds_the_range_once_until_both_are_gone() -> None:
    caches, pool = _TwoKinds(), make.key("lab")
    caches.requests.apply(Modified(_object("a", 2)))
    holdings = caches.kept.holdings(pool, 24)
    assert (holdings.claimed_size, holdings.in_use_count) == (4, 0)
    caches.answers.apply(Modified(_object("a", 3)))
    holdings = caches.kept.holdings(pool, 24)
    assert (holdings.claimed_size, holdings.in_use_count, holdings.space().used) == (4, 1, 4)
    caches.requests.apply(Deleted(_object("a", 4)))
    assert caches.kept.holdings(pool, 24).claimed_size == 4
    caches.answers.apply(Modified(_object("a", 5, of="other")))
    assert caches.kept.holdings(pool, 24).holders == []
    assert caches.kept.holdings(make.key("other"), 24).claimed_size == 4


def test_only_holders_that_changed_are_read_and_another_offer_reads_all() -> None:
    caches, pool = _TwoKinds(), make.key("lab")
    caches.kept._check_interval = timedelta(hours=1).total_seconds()
    for name in "abc":
        caches.requests.apply(Modified(_object(name, 2)))
    assert caches.kept.holdings(pool, 24).space().total == 256
    caches.read.clear()
    for revision in (3, 4):
        caches.requests.apply(Modified(_object("b", revision)))
        caches.answers.apply(Modified(_object("b", revision)))
    caches.kept.holdings(pool, 24)
    assert caches.read == [Holder("Claim", make.key("b"))]
    assert caches.kept.holdings(pool, 25).space().total == 128
    assert len(caches.read) == 1 + 3
