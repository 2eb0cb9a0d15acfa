"""The holdings of a pool agree with the facts of its holders after each change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocator import AddressRange, Layout
from controller.cache import Cache
from controller.codec import Deleted, Modified
from controller.meta import Key
from reconcilers.api.ipallocation import POOL_INDEX, IPAllocation, index_by_pool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.promises.holdings import (
    NOTHING,
    Facts,
    Holdings,
    KeptHoldings,
    build_indexed_source,
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
    """Return the addresses 10.0.0.`first` to 10.0.0.`last`."""
    return AddressRange.parse(f"10.0.0.{first}", f"10.0.0.{last}")


def make_facts(*spans: tuple[int, int], **more: Any) -> Facts:
    """Return the facts of a holder with these ranges, each given by its first and last number."""
    return Facts(tuple(PromisedRange(addresses(*span)) for span in spans), **more)


def list_queued(holdings: Holdings) -> list[Holder]:
    """Return the holders that wait, in the order in which passes try them."""
    return [holder for _, holder in holdings.iterate_turns()]


def test_a_range_of_two_holders_is_in_use_until_both_are_gone() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, make_facts((0, 0)))
    holdings.put(B, make_facts((0, 0), is_in_use=True))
    assert (holdings.get_space().used, holdings.in_use_count) == (1, 1)
    assert (holdings.holder_count, holdings.claimed_size) == (2, 2)
    holdings.remove(B)
    assert (holdings.get_space().used, holdings.in_use_count) == (1, 0)
    holdings.put(A, NOTHING)
    assert holdings.get_space().used == 0
    assert (holdings.holder_count, holdings.claimed_size) == (0, 0)


def test_another_holder_of_a_part_of_a_range_is_found() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, make_facts((2, 2)))
    assert holdings.find_other_holder(addresses(2, 2), B) == A
    holdings.put(B, make_facts((0, 3)))
    assert holdings.find_other_holder(addresses(2, 2), A) == B
    assert holdings.find_other_holder(addresses(2, 2), B) == A
    assert holdings.find_other_holder(addresses(4, 4), A) is None
    assert holdings.find_other_holder(addresses(1, 1)) == B
    holdings.remove(B)
    assert holdings.find_other_holder(addresses(2, 2), A) is None


def test_the_ranges_of_one_space_of_a_pool_are_not_used_in_another_space() -> None:
    holdings = Holdings({"one": LAYOUTS[""], "two": LAYOUTS[""]})
    holdings.put(A, Facts((PromisedRange(addresses(0, 3), "one"),)))
    assert (holdings.get_space("one").used, holdings.get_space("two").used) == (4, 0)
    assert holdings.find_other_holder(addresses(0, 0), B, "one") == A
    assert holdings.find_other_holder(addresses(0, 0), B, "two") is None


def test_ranges_taken_during_a_trial_are_free_afterwards_in_each_space() -> None:
    holdings = Holdings({"one": LAYOUTS[""], "two": LAYOUTS[""]})
    with holdings.roll_back_at_exit():
        holdings.get_space("one").take_lowest(8)
        holdings.get_space("two").take_lowest(1)
    assert (holdings.get_space("one").used, holdings.get_space("two").used) == (0, 0)


def test_a_new_layout_of_the_pool_changes_the_total_and_keeps_the_used_addresses() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(A, make_facts((0, 0)))
    assert holdings.get_space().total == 8
    holdings.replace_layouts({"": Layout.parse("10.0.0.0/30")})
    assert (holdings.get_space().total, holdings.get_space().used) == (4, 1)


def test_waiting_holders_are_listed_by_age_until_they_are_served() -> None:
    holdings = Holdings(LAYOUTS)
    holdings.put(B, Facts(place=(EARLY, B)))
    holdings.put(A, Facts(place=(LATE, A)))
    assert list_queued(holdings) == [B, A]
    holdings.put(B, make_facts((0, 0)))
    assert list_queued(holdings) == [A]


def test_equal_requests_wait_in_one_row_and_a_request_without_a_row_waits_alone() -> None:
    holdings = Holdings(LAYOUTS)
    for holder, created in ((A, LATE), (B, EARLY)):
        holdings.put(holder, Facts(place=(created, holder), row="equal"))
    turns = holdings.iterate_turns()
    assert next(turns) == (EARLY, B)
    turns.leave_out()
    assert list(turns) == []
    holdings.put(A, make_facts((0, 0), place=(LATE, A)))
    turns = holdings.iterate_turns()
    assert next(turns) == (EARLY, B)
    turns.leave_out()
    assert list(turns) == [(LATE, A)]
    holdings.put(A, Facts(place=(LATE, A), row="equal"))
    holdings.remove(B)
    assert list_queued(holdings) == [A]
    assert (holdings.waiting_count, holdings.oldest_wait) == (1, LATE)


def test_an_address_outside_that_two_holders_have_is_counted_once() -> None:
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
    """Draw facts of a holder, or None: ranges of two spaces, that may overlap, and a wait."""
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
def test_derived_state_agrees_with_the_facts_whenever_it_is_first_needed(
    data: st.DataObject,
) -> None:
    """The derived state is: the spaces, the rows, the counts and the index of ranges."""
    layouts = {"": LAYOUTS[""], "other": Layout.parse("10.0.0.0/28")}
    kept, facts_of = Holdings(layouts), dict[Holder, Facts]()
    names = st.sampled_from("abcd").map(lambda name: Holder("Claim", Key("team", name)))
    for _ in range(data.draw(st.integers(1, 12))):
        holder = data.draw(names)
        facts = data.draw(_facts(holder))
        if facts is None:
            kept.remove(holder)
            facts_of.pop(holder, None)
        else:
            kept.put(holder, facts)
            facts_of[holder] = facts
        if data.draw(st.booleans()):
            kept.get_space(data.draw(st.sampled_from(["", "other"])))
        offset = data.draw(st.integers(0, 16))
        span = AddressRange(addresses(0, 0).first + offset, addresses(0, 0).first + offset + 1, 4)
        others = {
            other
            for other, its_facts in facts_of.items()
            if other != holder
            and any(part.space == "" and part.range.overlaps(span) for part in its_facts.ranges)
        }
        other_holder = kept.find_other_holder(span, holder)
        assert other_holder in others if others else other_holder is None
        assert list_differences(kept, Holdings(layouts, facts_of.items())) == []


class _TwoCaches:
    """The holdings of pools that are kept of two caches: requests, and the answers to them.

    A request and its answer have the same name and are one holder.

    Attributes:
        read: the holders whose facts were computed, in order.
    """

    def __init__(self) -> None:
        indexes = {POOL_INDEX: index_by_pool}
        self.requests = Cache(IP_ALLOCATION, indexes=indexes)
        self.answers = Cache(IP_ALLOCATION, indexes=indexes)
        self.read: list[Holder] = []
        self.kept = KeptHoldings[Key, int](
            [
                build_indexed_source(cache, POOL_INDEX, pools=_list_pools, holder=_make_holder)
                for cache in (self.requests, self.answers)
            ],
            self.get_facts,
            lambda offer: {"": Layout.parse(f"10.40.0.0/{offer}")},
            clock=VirtualClock(),
        )
        self.requests.replace([], 1)
        self.answers.replace([], 1)

    def get_facts(self, pool: Key, holder: Holder, offer: int) -> Facts | None:
        """Return the facts of a holder for a pool; None if neither cache has it there."""
        del offer
        self.read.append(holder)
        states = [cache.get(holder.key) for cache in (self.requests, self.answers)]
        of_pool = [state for state in states if state is not None and state.pool_key == pool]
        if not of_pool:
            return None
        promised_ranges = {
            PromisedRange(AddressRange.parse(*_get_ends(state))) for state in of_pool
        }
        return Facts(tuple(promised_ranges), is_in_use=len(of_pool) == 2)


def _get_ends(state: IPAllocation) -> tuple[str, str]:
    """Return the ends of the range in the status of an allocation."""
    assert state.status.startAddress is not None
    assert state.status.endAddress is not None
    return state.status.startAddress, state.status.endAddress


def _list_pools(state: IPAllocation) -> list[Key]:
    """Return the pools of an object: the one that its spec names."""
    return [state.pool_key]


def _make_holder(state: IPAllocation) -> Holder:
    """Return the holder that an object stands for."""
    return Holder("Claim", state.metadata.key)


def _make_object(name: str, revision: int, of: str = "lab") -> IPAllocation:
    """Return an object that holds four addresses of the pool `of`."""
    held_range = ("10.40.0.0", "10.40.0.3")
    return make.allocation(name, held_range=held_range, of=of, resourceVersion=str(revision))


@pytest.mark.usefixtures("contents_differences")
def test_a_holder_with_a_request_and_an_answer_holds_the_range_once_until_both_are_gone() -> None:
    caches, pool = _TwoCaches(), make.key("lab")
    caches.requests.apply(Modified(_make_object("a", 2)))
    holdings = caches.kept.get_holdings(pool, 24)
    assert (holdings.claimed_size, holdings.in_use_count) == (4, 0)
    caches.answers.apply(Modified(_make_object("a", 3)))
    holdings = caches.kept.get_holdings(pool, 24)
    assert (holdings.claimed_size, holdings.in_use_count, holdings.get_space().used) == (4, 1, 4)
    caches.requests.apply(Deleted(_make_object("a", 4)))
    assert caches.kept.get_holdings(pool, 24).claimed_size == 4
    caches.answers.apply(Modified(_make_object("a", 5, of="other")))
    assert caches.kept.get_holdings(pool, 24).holders == []
    assert caches.kept.get_holdings(make.key("other"), 24).claimed_size == 4


def test_only_changed_holders_are_read_and_a_change_of_the_pool_reads_all() -> None:
    caches, pool = _TwoCaches(), make.key("lab")
    caches.kept._check_interval = timedelta(hours=1).total_seconds()
    for name in "abc":
        caches.requests.apply(Modified(_make_object(name, 2)))
    assert caches.kept.get_holdings(pool, 24).get_space().total == 256
    caches.read.clear()
    for revision in (3, 4):
        caches.requests.apply(Modified(_make_object("b", revision)))
        caches.answers.apply(Modified(_make_object("b", revision)))
    caches.kept.get_holdings(pool, 24)
    assert caches.read == [Holder("Claim", make.key("b"))]
    assert caches.kept.get_holdings(pool, 25).get_space().total == 128
    assert len(caches.read) == 1 + 3
