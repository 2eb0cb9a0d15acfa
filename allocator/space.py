"""The allocator: it knows which addresses of a pool are free and which are held, and allocates.

Best fit: a request gets the start of the shortest free block that is long enough; of several such
blocks, that with the lowest address. Existing ranges are accepted even if they overlap each other
or are partly outside of the pool. A release frees only addresses that no other range holds.

New ranges come from free space and overlap nothing. Addresses that several existing ranges hold
are rare. They are counted apart (`Overlaps`), by segments: the addresses of a segment have the
same number of holders, and an edge is where a segment begins. So a range needs only one dictionary
entry, and the state depends on the set of held ranges, not on their order.

A free block is a run of free addresses. A holder is a caller that has taken a range or recorded an
existing one; holders are only counted.

No method waits, so a caller on one event loop needs no lock.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from allocator.addresses import BITS, AddressRange, Span, format_address, subtract_spans, union
from allocator.errors import InvalidRequest, NotHeld, PinnedRangeConflict, PoolExhausted
from allocator.extents import FreeExtents
from allocator.layout import Layout


class Overlaps:
    """The addresses that several ranges hold, with the number of holders beyond the first.

    That number is the "depth": 0 for an address with one holder, and for a free address.

    Args:
        ascending: the ranges that are held at first, sorted; they may overlap.
    """

    __slots__ = ("_depths", "_edges")

    def __init__(self, ascending: Sequence[Span]) -> None:
        steps: Counter[int] = Counter()
        for first, last in _find_overlapping(ascending):
            steps[first] += 1
            steps[last + 1] -= 1
        # Segment i runs from edge i to the address before edge i + 1. Neighbours differ in depth;
        # before the first edge and after the last one it is 0.
        self._edges: list[int] = []
        self._depths: list[int] = []
        holders = 0
        for edge in sorted(steps):
            holders += steps[edge]
            depth = max(holders - 1, 0)
            if depth != (self._depths[-1] if self._depths else 0):
                self._edges.append(edge)
                self._depths.append(depth)

    @property
    def steps(self) -> list[Span]:
        """The first address of each segment, with the segment's depth."""
        return list(zip(self._edges, self._depths, strict=True))

    def add(self, first: int, last: int) -> None:
        """Count one more holder for addresses that are held already."""
        self._change_depth(first, last, 1)

    def remove(self, first: int, last: int) -> Iterator[Span]:
        """Count one holder less for held addresses.

        Returns:
            The parts of the range that have no holder any more, ascending.
        """
        # Without overlaps, this holder was the only one.
        if not self._edges:
            return iter(((first, last),))
        shared = list(self._find_shared(first, last))
        for span in shared:
            self._change_depth(*span, -1)
        return subtract_spans([(first, last)], shared)

    def _find_shared(self, first: int, last: int) -> Iterator[Span]:
        """Yield the parts of a span that have several holders."""
        index = max(bisect_right(self._edges, first) - 1, 0)
        while index < len(self._edges) and self._edges[index] <= last:
            if self._depths[index]:
                yield max(first, self._edges[index]), min(last, self._edges[index + 1] - 1)
            index += 1

    def _change_depth(self, first: int, last: int, change: int) -> None:
        """Add a number to the depth of the addresses from first to last."""
        begin, end = self._find_or_add_edge(first), self._find_or_add_edge(last + 1)
        for index in range(begin, end):
            self._depths[index] += change
        # Remove edges between segments that now have the same depth. The loop begins with the last
        # edge, so that a deletion does not move edges that are still to be checked.
        for index in range(end, begin - 1, -1):
            if self._depths[index] == (self._depths[index - 1] if index else 0):
                del self._edges[index], self._depths[index]

    def _find_or_add_edge(self, address: int) -> int:
        """Return the index of the edge at an address; insert one if there is none."""
        index = bisect_left(self._edges, address)
        if index == len(self._edges) or self._edges[index] != address:
            self._edges.insert(index, address)
            # The edge splits a segment into two of the same depth; 0 before the first edge.
            self._depths.insert(index, self._depths[index - 1] if index else 0)
        return index


def _find_overlapping(ascending: Sequence[Span]) -> Iterator[Span]:
    """Yield the ranges that have an address in common with another range.

    Args:
        ascending: the ranges, sorted by their first address.
    """
    # A group is a chain of ranges: each begins inside of the ranges before it in the group.
    group: list[Span] = []
    group_end = -1
    for span in ascending:
        if span[0] > group_end:
            yield from group if len(group) > 1 else ()
            group.clear()
        group.append(span)
        group_end = max(group_end, span[1])
    yield from group if len(group) > 1 else ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of a pool, in addresses; gaps between ranges and reserved ones never count.

    Args:
        total: the addresses that the pool may allocate.
        allocated: the held addresses; one with several holders counts once.
        available: the free addresses.
        largest_free: the length of the longest free block.
        fragmentation_percent: the share of free addresses outside of the longest free block,
            rounded up; 0 if nothing is free.
    """

    total: int
    allocated: int
    available: int
    largest_free: int
    fragmentation_percent: int

    @property
    def utilization_percent(self) -> int:
        """The share of the pool that is held."""
        return utilization_percent(self.allocated, self.total)


def utilization_percent(used: int, total: int) -> int:
    """Return the share of a pool that is held, rounded down; 0 for a pool without addresses."""
    return 100 * used // total if total else 0


@dataclass(frozen=True, slots=True)
class Origin:
    """The free space from which a range was chosen.

    Args:
        block: the size of the free block from which it was taken.
        fitting: the number of free blocks that were long enough, including that block.
    """

    block: int
    fitting: int


class Space:
    """The free and held addresses of one pool.

    Args:
        layout: the addresses that the pool may allocate.
        ranges: the ranges that are held already; they may overlap each other, appear twice, or
            lie outside of the layout.
    """

    __slots__ = ("_free", "_held", "_overlaps", "_taken_in_trial", "layout")

    def __init__(self, layout: Layout, ranges: Iterable[AddressRange] = ()) -> None:
        self.layout = layout
        spans = [
            span
            for address_range in ranges
            if (span := layout.get_span(address_range)) is not None
        ]
        parts = sorted(part for span in spans for part in layout.clip(span))
        blocks = ((block.first, block.last) for block in layout.blocks)
        # A plain dict is faster: deletions and missing keys of a Counter run in Python.
        self._held = dict(Counter(spans))
        self._overlaps = Overlaps(parts)
        self._free = FreeExtents(subtract_spans(blocks, union(parts)), BITS[layout.family])
        self._taken_in_trial: list[Span] | None = None
        """The ranges that were taken in the open trial; None outside of a trial."""

    def allocate(self, count: int) -> AddressRange:
        """Take `count` consecutive addresses by best fit.

        Raises:
            InvalidRequest: `count` is not positive.
            PoolExhausted: no free block is long enough.
        """
        if count <= 0:
            raise InvalidRequest("requested count must be positive")
        first = self._free.take(count)
        if first is None:
            raise PoolExhausted(count, self.layout.longest)
        return self._add_holder((first, first + count - 1))

    def allocate_block(self, prefix_length: int) -> AddressRange:
        """Take a CIDR of this prefix length by best fit.

        It is the lowest such CIDR in the shortest free block that includes one; of several such
        blocks, in that with the lowest address.

        Raises:
            InvalidRequest: the pool's family has no such prefix length.
            PoolExhausted: no free block includes such a CIDR.
        """
        count = self.layout.block_size(prefix_length)
        first = self._free.take_aligned(count)
        if first is None:
            raise PoolExhausted(count, self.layout.largest_aligned, aligned=True)
        return self._add_holder((first, first + count - 1))

    def take_lowest(self, count: int) -> tuple[AddressRange, ...]:
        """Take the lowest `count` free addresses, which need not be consecutive.

        Returns:
            A range for each run of consecutive addresses, ascending.

        Raises:
            InvalidRequest: `count` is not positive.
            PoolExhausted: fewer are free.
        """
        if count <= 0:
            raise InvalidRequest("requested count must be positive")
        if count > self.free:
            raise PoolExhausted(count, self.total)
        ranges: list[AddressRange] = []
        while count:
            run = self._free.take_first(count)
            assert run is not None, "as many are free"
            ranges.append(self._add_holder(run))
            count -= ranges[-1].size
        return tuple(ranges)

    def pin(self, pin: AddressRange) -> AddressRange:
        """Take exactly the addresses of a range, and return them as a range of the pool's family.

        Raises:
            OutOfRange: they do not lie inside a single range of the pool.
            PinnedRangeConflict: an address is reserved or held; the exception has the first one.
        """
        first, last = self.layout.get_pinned_span(pin)
        obstacle = self._free.take_exactly(first, last)
        if obstacle is not None:
            raise PinnedRangeConflict(format_address(obstacle, self.layout.family))
        return self._add_holder((first, last))

    def hold(self, address_range: AddressRange) -> None:
        """Record an existing range as held, whether it is free or not.

        Parts that are held already count as overlaps. Parts that the pool does not allocate do not
        change the free space. A range of the other family is ignored.
        """
        span = self.layout.get_span(address_range)
        if span is not None:
            self._take_parts(span)
            self._add_holder(span)

    @contextmanager
    def release_temporarily(self, ranges: Iterable[AddressRange]) -> Iterator[None]:
        """Release ranges for one holder each inside the context; hold them again at its end.

        So the holder can take addresses that are inside its own ranges. Ranges that are taken in
        the context stay taken. Unlike `release`, it may be used in a trial.

        Raises:
            NotHeld: one of the ranges has no holder.
        """
        spans = [span for part in ranges if (span := self.layout.get_span(part)) is not None]
        for span in spans:
            if span not in self._held:
                raise NotHeld(AddressRange(*span, self.layout.family).text)
        for span in spans:
            self._remove_holder(span)
        try:
            yield
        finally:
            for span in spans:
                self._take_parts(span)
                # Not `_add_holder`: a trial must not release the range at its end.
                self._held[span] = self._held.get(span, 0) + 1

    def _take_parts(self, span: Span) -> None:
        """Take the free parts of a span, and count an overlap for its held parts."""
        for first, last in self.layout.clip(span):
            if self._free.take_exactly(first, last) is None:
                continue  # almost every range is free
            free = list(self._free.iterate_free(first, last))
            for run in free:
                self._free.take_exactly(*run)
            for part in subtract_spans([(first, last)], free):
                self._overlaps.add(*part)

    def _add_holder(self, span: Span) -> AddressRange:
        """Count one more holder for a range, and note the range in an open trial; return it."""
        self._held[span] = self._held.get(span, 0) + 1
        if self._taken_in_trial is not None:
            self._taken_in_trial.append(span)
        return AddressRange(*span, self.layout.family)

    def release(self, address_range: AddressRange) -> None:
        """Release a range for one holder; addresses without another holder become free.

        A range of the other family is ignored, because `hold` ignores it.

        Raises:
            NotHeld: exactly this range has no holder.
        """
        span = self.layout.get_span(address_range)
        if span is None:
            return
        if span not in self._held:
            raise NotHeld(f"{address_range.start_text}-{address_range.end_text}")
        assert self._taken_in_trial is None, "nothing is released while something is tried"
        self._remove_holder(span)

    def undo_take(self, address_range: AddressRange) -> None:
        """Undo the last `allocate`, `pin` or `hold` of a range, because the caller gives up.

        Unlike `release`, this is allowed in a trial, and there only for the range that was taken
        last. The range must be of the pool's family.
        """
        span = (address_range.first, address_range.last)
        if self._taken_in_trial is not None:
            last = self._taken_in_trial.pop()
            assert last == span, "only what was taken last is undone"
        self._remove_holder(span)

    def _remove_holder(self, span: Span) -> None:
        """Count one holder less for a range; free the addresses that have no holder any more."""
        holders = self._held[span] - 1
        if holders:
            self._held[span] = holders
        else:
            del self._held[span]
        for part in self.layout.clip(span):
            for first, last in self._overlaps.remove(*part):
                self._free.release_span(first, last)

    @contextmanager
    def roll_back_at_exit(self) -> Iterator[None]:
        """Try something: ranges that are taken inside the context are released at its end.

        Inside the context, `release` must not be called; `undo_take` may be.
        """
        assert self._taken_in_trial is None, "trials are not nested"
        spans = self._taken_in_trial = []
        try:
            yield
        finally:
            self._taken_in_trial = None
            for span in spans:
                self._remove_holder(span)

    def copy_state(self) -> tuple[Layout, Mapping[Span, int], Sequence[Span], Sequence[Span]]:
        """Return the whole state, for comparison: it is equal for equal layouts and held ranges.

        Returns:
            The layout, the number of holders by range, the overlaps, and the free blocks.
        """
        return self.layout, self._held.copy(), self._overlaps.steps, list(self._free)

    @property
    def total(self) -> int:
        """The number of addresses that the pool may allocate."""
        return self.layout.total

    @property
    def free(self) -> int:
        """The number of free addresses."""
        return self._free.total

    @property
    def used(self) -> int:
        """The number of held addresses."""
        return self.total - self.free

    @property
    def largest_free(self) -> int:
        """The length of the longest free block; 0 if nothing is free."""
        return self._free.largest

    @property
    def fragmentation_percent(self) -> int:
        """The fragmentation of the free space, see `Capacity`."""
        if not self.free:
            return 0
        return 100 - self.largest_free * 100 // self.free

    def compute_capacity(self) -> Capacity:
        """Return the current capacity, which the pool's status reports."""
        return Capacity(
            total=self.total,
            allocated=self.used,
            available=self.free,
            largest_free=self.largest_free,
            fragmentation_percent=self.fragmentation_percent,
        )

    def free_extents(self) -> Iterator[AddressRange]:
        """Yield the free blocks in address order."""
        for first, last in self._free:
            yield AddressRange(first, last, self.layout.family)

    def fits(self, count: int) -> bool:
        """Return whether `allocate(count)` would succeed now."""
        return 0 < count <= self.largest_free

    def find_shortest_free_length(self, count: int) -> int:
        """Return the length of the block that `allocate(count)` would use; 0 if there is none."""
        return self._free.find_shortest(count)

    def find_origin(self, address_range: AddressRange) -> Origin:
        """Return the free space from which a range was chosen; call this directly afterwards."""
        before, after = self._free.measure_neighbors(address_range.first, address_range.last)
        # Before the range was taken, it was one block with the free runs on both sides. A run that
        # is long enough is counted as a block now: subtract it, and add the one block.
        remainders = sum(length >= address_range.size for length in (before, after))
        fitting = self._free.count_fitting(address_range.size) - remainders + 1
        return Origin(before + address_range.size + after, fitting)

    def can_ever_fit(self, count: int) -> bool:
        """Return whether the empty pool has `count` consecutive addresses."""
        return self.layout.can_ever_fit(count)

    def can_ever_pin(self, pin: AddressRange) -> bool:
        """Return whether the empty pool could allocate exactly this range."""
        return self.layout.can_ever_pin(pin)
