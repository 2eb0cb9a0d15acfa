"""Whatever happens to a pool, the allocator and the bitmap agree on every address."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from allocator import (
    AddressRange,
    NotHeld,
    Origin,
    OutOfRange,
    PinnedRangeConflict,
    PoolExhausted,
    Space,
)
from tests.allocator.pools import POOL_SIZE, DrawnPool, draw_pools

COUNTS = st.one_of(st.integers(1, 24), st.integers(1, POOL_SIZE))


class SpaceMachine(RuleBasedStateMachine):
    """Allocate, pin and release on both, starting from ranges that others have made."""

    held_ranges = Bundle("held")

    @initialize(target=held_ranges, pool=draw_pools(), data=st.data())
    def start_with_foreign_ranges(self, pool: DrawnPool, data: st.DataObject) -> object:
        self.pool = pool
        self.bitmap = pool.bitmap
        held_ranges = [pool.draw_range(data) for _ in range(data.draw(st.integers(0, 6)))]
        held_ranges += (
            data.draw(st.lists(st.sampled_from(held_ranges), max_size=2)) if held_ranges else []
        )
        self.holding = list(held_ranges)
        for held_range in held_ranges:
            self.bitmap.hold(held_range.first, held_range.last)
        self.space = Space(pool.layout, held_ranges)
        return multiple(*held_ranges)

    @rule(target=held_ranges, count=COUNTS)
    def allocate(self, count: int) -> object:
        expected = self.bitmap.find_best_fit(count)
        assert self.space.fits(count) == (expected is not None)
        sizes = [last - first + 1 for first, last in self.bitmap.list_free_blocks()]
        shortest = min((size for size in sizes if size >= count), default=0)
        assert self.space.find_shortest_free_length(count) == shortest
        if expected is None:
            with pytest.raises(PoolExhausted):
                self.space.allocate(count)
            return multiple()
        assert self.space.can_ever_fit(count)
        allocated = self.space.allocate(count)
        fitting = sum(size >= count for size in sizes)
        assert self.space.find_origin(allocated) == Origin(shortest, fitting)
        assert (allocated.first, allocated.last) == expected
        return self._record_held(allocated)

    @rule(target=held_ranges, shorter=st.integers(0, 9))
    def allocate_block(self, shorter: int) -> object:
        layout, count = self.pool.layout, 1 << shorter
        prefix = (32 if layout.family == 4 else 128) - shorter
        expected = self.bitmap.find_best_aligned_block(count)
        blocks = list(self.bitmap.list_free_blocks())
        if expected is None:
            with pytest.raises(PoolExhausted) as caught:
                self.space.allocate_block(prefix)
            assert ("never" in str(caught.value)) == (count > layout.largest_aligned)
            return multiple()
        assert count <= layout.largest_aligned
        allocated = self.space.allocate_block(prefix)
        assert (allocated.first, allocated.last) == expected
        assert allocated.text == f"{allocated.start_text}/{prefix}"
        [block] = [ends for ends in blocks if ends[0] <= allocated.first <= ends[1]]
        assert self.space.find_origin(allocated).block == block[1] - block[0] + 1
        return self._record_held(allocated)

    @rule(target=held_ranges, data=st.data())
    def pin(self, data: st.DataObject) -> object:
        pinned = self.pool.draw_range(data)
        if not self.bitmap.is_within_one_range(pinned.first, pinned.last):
            assert not self.space.can_ever_pin(pinned)
            with pytest.raises(OutOfRange):
                self.space.pin(pinned)
            return multiple()
        obstacle = self.bitmap.find_first_conflict(pinned.first, pinned.last)
        if obstacle is not None:
            with pytest.raises(PinnedRangeConflict) as caught:
                self.space.pin(pinned)
            assert caught.value.address == self.pool.make_range(obstacle, obstacle).start_text
            return multiple()
        assert self.space.can_ever_pin(pinned)
        assert self.space.pin(pinned) == pinned
        return self._record_held(pinned)

    @rule(target=held_ranges, data=st.data())
    def hold_foreign_range(self, data: st.DataObject) -> object:
        drawn = self.pool.draw_range(data)
        self.space.hold(drawn)
        return self._record_held(drawn)

    @rule(data=st.data(), counts=st.lists(COUNTS, max_size=4))
    def allocate_in_trial(self, data: st.DataObject, counts: list[int]) -> None:
        with self.space.roll_back_at_exit():
            self.space.hold(self.pool.draw_range(data))
            for count in counts:
                if self.space.fits(count):
                    self.space.allocate(count)

    @rule(address_range=consumes(held_ranges))
    def release(self, address_range: AddressRange) -> None:
        self.space.release(address_range)
        self.bitmap.release(address_range.first, address_range.last)
        self.holding.remove(address_range)

    @rule(data=st.data())
    def release_unheld_range(self, data: st.DataObject) -> None:
        unheld_range = self.pool.draw_range(data)
        if unheld_range not in self.holding:
            with pytest.raises(NotHeld):
                self.space.release(unheld_range)

    @invariant()
    def both_agree(self) -> None:
        blocks = [(free.first, free.last) for free in self.space.free_extents()]
        assert blocks == self.bitmap.list_free_blocks()
        capacity = self.space.compute_capacity()
        assert capacity.total == self.space.total == self.bitmap.count_total()
        assert capacity.allocated == self.space.used == self.bitmap.count_used()
        assert capacity.available == self.space.free == self.bitmap.count_free()
        assert (
            capacity.largest_free == self.space.largest_free == self.bitmap.compute_largest_block()
        )
        assert capacity.fragmentation_percent == self.bitmap.compute_fragmentation()
        assert self.space.free + self.space.used == self.space.total

    @invariant()
    def building_it_anew_gives_the_same(self) -> None:
        anew = Space(self.pool.layout, self.holding)
        assert list(anew.free_extents()) == list(self.space.free_extents())
        assert anew.copy_state() == self.space.copy_state()

    def _record_held(self, span: AddressRange) -> AddressRange:
        self.bitmap.hold(span.first, span.last)
        self.holding.append(span)
        return span


SpaceMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestSpaceAgainstBitmap = pytest.mark.slow(SpaceMachine.TestCase)


@given(pool=draw_pools(), counts=st.lists(st.integers(1, 30), max_size=30), data=st.data())
@settings(max_examples=60, deadline=None)
def test_releasing_everything_restores_the_empty_pool(
    pool: DrawnPool, counts: list[int], data: st.DataObject
) -> None:
    others = [pool.draw_range(data) for _ in range(data.draw(st.integers(0, 4)))]
    space = Space(pool.layout, others)
    allocated: list[AddressRange] = []
    for count in counts:
        with contextlib.suppress(PoolExhausted):
            allocated.append(space.allocate(count))
    for span in data.draw(st.permutations(others + allocated)):
        space.release(span)
    assert list(space.free_extents()) == list(Space(pool.layout).free_extents())
    assert space.free == space.total == pool.bitmap.count_total()


@given(pool=draw_pools(), counts=st.lists(st.integers(1, 30), max_size=30))
@settings(max_examples=60, deadline=None)
def test_allocated_ranges_never_overlap_and_are_never_reserved(
    pool: DrawnPool, counts: list[int]
) -> None:
    space = Space(pool.layout)
    seen: set[int] = set()
    for count in counts:
        with contextlib.suppress(PoolExhausted):
            allocated = space.allocate(count)
            members = set(range(allocated.first, allocated.last + 1))
            assert len(members) == allocated.size == count
            assert not members & seen
            assert not any(allocated.overlaps(reserved) for reserved in pool.layout.reserved)
            seen |= members
    assert space.used == len(seen)
