"""The allocator: which addresses of a pool are free, who holds the others, and what to hand out.

Best fit: a request gets the start of the shortest free block that is long enough, of several such
blocks the one with the lowest address. Ranges that others have made are accepted as they are, even
where they overlap each other or leave the pool; a release frees only what has no other holder.

New ranges come out of free space and overlap nothing. Addresses that several ranges hold, because
others made that so (normally there are none), are counted apart, by segment: the addresses between
two neighbouring edges are held by the same number. So a range costs one dictionary entry,
and the state depends only on which ranges are held, not on the order in which they came.

A Space belongs to one caller: nothing in it waits, so a caller on one event loop needs no lock.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from allocator.addresses import BITS, AddressRange, Span, address_text, minus, union
from allocator.errors import InvalidRequest, NotHeld, PinnedRangeConflict, PoolExhausted
from allocator.extents import FreeExtents
from allocator.layout import Layout


class Overlaps:
    """How many ranges more than one hold each address.

    Args:
        ascending: the ranges held at the start, sorted; they may overlap.
    """

    __slots__ = ("_depths", "_edges")

    def __init__(self, ascending: Sequence[Span]) -> None:
        steps: Counter[int] = Counter()
        for first, last in _overlapping(ascending):
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
        """The first address of each segment, and how many ranges more than one hold it."""
        return list(zip(self._edges, self._depths, strict=True))

    def add(self, first: int, last: int) -> None:
        """Count one holder more for addresses that are held already."""
        self._change(first, last, 1)

    def remove(self, first: int, last: int) -> Iterator[Span]:
        """Count one holder less; return the parts that now have no holder, ascending."""
        if not self._edges:
            return iter(((first, last),))
        shared = list(self._within(first, last))
        for span in shared:
            self._change(*span, -1)
        return minus([(first, last)], shared)

    def _within(self, first: int, last: int) -> Iterator[Span]:
        """Yield the parts of a span that several ranges hold."""
        at = max(bisect_right(self._edges, first) - 1, 0)
        while at < len(self._edges) and self._edges[at] <= last:
            if self._depths[at]:
                yield max(first, self._edges[at]), min(last, self._edges[at + 1] - 1)
            at += 1

    def _change(self, first: int, last: int, by: int) -> None:
        begin, end = self._edge(first), self._edge(last + 1)
        for at in range(begin, end):
            self._depths[at] += by
        for at in range(end, begin - 1, -1):
            if self._depths[at] == (self._depths[at - 1] if at else 0):
                del self._edges[at], self._depths[at]

    def _edge(self, address: int) -> int:
        """Return the index of the edge at an address; insert one if there is none."""
        at = bisect_left(self._edges, address)
        if at == len(self._edges) or self._edges[at] != address:
            self._edges.insert(at, address)
            self._depths.insert(at, self._depths[at - 1] if at else 0)
        return at


def _overlapping(ascending: Sequence[Span]) -> Iterator[Span]:
    """Yield the ranges that share an address with another one."""
    group: list[Span] = []
    reach = -1
    for span in ascending:
        if span[0] > reach:
            yield from group if len(group) > 1 else ()
            group.clear()
        group.append(span)
        reach = max(reach, span[1])
    yield from group if len(group) > 1 else ()


@dataclass(frozen=True, slots=True)
class Capacity:
    """How full a pool is, in addresses. Gaps between ranges and reserved addresses never count.

    Args:
        total: what the pool may hand out.
        allocated: what of it is held, once however many hold it.
        available: what of it is free.
        largest_free: the longest free block.
        fragmentation_percent: 0 if the free space is one block or none, towards 100 the smaller
            the largest block is compared with all free space; rounded up.
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
    """Return the share of a pool that is held, rounded down; 0 of an empty pool."""
    return 100 * used // total if total else 0


@dataclass(frozen=True, slots=True)
class Origin:
    """What a range was chosen from.

    Args:
        block: the size of the free block that it was taken out of.
        fitting: how many free blocks were long enough, that one included.
    """

    block: int
    fitting: int


class Space:
    """The addresses of one pool, free and held.

    Args:
        layout: what the pool may hand out.
        ranges: the ranges that are held already; they may overlap each other, appear twice, or
            lie outside the layout.
    """

    __slots__ = ("_free", "_held", "_overlaps", "_taken_in_trial", "layout")

    def __init__(self, layout: Layout, ranges: Iterable[AddressRange] = ()) -> None:
        self.layout = layout
        spans = [
            span for address_range in ranges if (span := layout.span_of(address_range)) is not None
        ]
        parts = sorted(part for span in spans for part in layout.clip(span))
        blocks = ((block.first, block.last) for block in layout.blocks)
        # A plain dict is faster: deletions and missing keys of a Counter run in Python.
        self._held = dict(Counter(spans))
        self._overlaps = Overlaps(parts)
        self._free = FreeExtents(minus(blocks, union(parts)), BITS[layout.family])
        self._taken_in_trial: list[Span] | None = None
        """The ranges that were taken in the open trial; None outside of a trial."""

    def allocate(self, count: int) -> AddressRange:
        """Take the best-fitting `count` addresses in a row.

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
        """Take the best-fitting addresses that are one CIDR of this prefix length.

        The shortest free block that holds such a CIDR gives its lowest one; of several such blocks
        the one with the lowest address.

        Raises:
            InvalidRequest: the pool's family has no such prefix length.
            PoolExhausted: no free block holds one.
        """
        count = self.layout.block_size(prefix_length)
        first = self._free.take_aligned(count)
        if first is None:
            raise PoolExhausted(count, self.layout.largest_aligned, aligned=True)
        return self._add_holder((first, first + count - 1))

    def take_lowest(self, count: int) -> tuple[AddressRange, ...]:
        """Take the lowest `count` free addresses, which need not be in a row.

        Returns:
            One range for each run of them, ascending.

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
        """Take exactly these addresses.

        Raises:
            OutOfRange: they do not lie inside one single range of the pool.
            PinnedRangeConflict: one of them is reserved or held; names the first.
        """
        first, last = self.layout.pinned_span(pin)
        obstacle = self._free.take_exactly(first, last)
        if obstacle is not None:
            raise PinnedRangeConflict(address_text(obstacle, self.layout.family))
        return self._add_holder((first, last))

    def hold(self, address_range: AddressRange) -> None:
        """Note that a range is held, as an existing object says, whether it is free or not.

        Parts of it that are held already are counted as overlapping; parts that the pool does not
        hand out change nothing in what is free. A range of the other family is ignored.
        """
        span = self.layout.span_of(address_range)
        if span is not None:
            self._take_parts(span)
            self._add_holder(span)

    @contextmanager
    def without(self, ranges: Iterable[AddressRange]) -> Iterator[None]:
        """Leave out one holder of each of these ranges in this context, in a trial as well.

        So that holder may take addresses of a range that it has. What is taken in the context
        stays taken.

        Raises:
            NotHeld: one of the ranges has no holder.
        """
        spans = [span for part in ranges if (span := self.layout.span_of(part)) is not None]
        for first, last in spans:
            if (first, last) not in self._held:
                raise NotHeld(f"{AddressRange(first, last, self.layout.family).text}")
        for span in spans:
            self._remove_holder(span)
        try:
            yield
        finally:
            for span in spans:
                self._take_parts(span)
                self._held[span] = self._held.get(span, 0) + 1

    def _take_parts(self, span: Span) -> None:
        """Take the free parts of a span, and count the others as overlapping."""
        for first, last in self.layout.clip(span):
            if self._free.take_exactly(first, last) is None:
                continue  # so it is with almost every range
            free = list(self._free.within(first, last))
            for run in free:
                self._free.take_exactly(*run)
            for part in minus([(first, last)], free):
                self._overlaps.add(*part)

    def _add_holder(self, span: Span) -> AddressRange:
        """Count one holder more for a range; return the range."""
        self._held[span] = self._held.get(span, 0) + 1
        if self._taken_in_trial is not None:
            self._taken_in_trial.append(span)
        return AddressRange(*span, self.layout.family)

    def release(self, address_range: AddressRange) -> None:
        """Release a range that one holder has; it becomes free when its last holder releases it.

        A range of the other family is none of this pool's, so that nothing happens.

        Raises:
            NotHeld: exactly this range has no holder.
        """
        span = self.layout.span_of(address_range)
        if span is None:
            return
        if span not in self._held:
            raise NotHeld(f"{address_range.start_text}-{address_range.end_text}")
        assert self._taken_in_trial is None, "nothing is released while something is tried"
        self._remove_holder(span)

    def undo_take(self, address_range: AddressRange) -> None:
        """Undo that a range was taken or held a moment ago, because its caller gives up.

        Unlike `release`, this works in a trial, where it has to be the range that was taken last:
        the end of the trial gives back only what is still taken. The range must be of this family.
        """
        span = (address_range.first, address_range.last)
        if self._taken_in_trial is not None:
            last = self._taken_in_trial.pop()
            assert last == span, "only what was taken last is undone"
        self._remove_holder(span)

    def _remove_holder(self, span: Span) -> None:
        """Count one holder less for a range; free the addresses that have no holder now."""
        holders = self._held[span] - 1
        if holders:
            self._held[span] = holders
        else:
            del self._held[span]
        for part in self.layout.clip(span):
            for first, last in self._overlaps.remove(*part):
                self._free.give(first, last)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Give back at the end whatever is taken in this context; nothing is released in it."""
        assert self._taken_in_trial is None, "trials are not nested"
        spans = self._taken_in_trial = []
        try:
            yield
        finally:
            self._taken_in_trial = None
            for span in spans:
                self._remove_holder(span)

    def state(self) -> tuple[Layout, Mapping[Span, int], Sequence[Span], Sequence[Span]]:
        """Return all that answers depend on, to compare: two of the same layout and ranges agree.

        Returns:
            The layout, how many hold each range, where ranges overlap, the free blocks.
        """
        return self.layout, self._held.copy(), self._overlaps.steps, list(self._free)

    @property
    def total(self) -> int:
        """How many addresses the pool may hand out."""
        return self.layout.total

    @property
    def free(self) -> int:
        """How many of them are free."""
        return self._free.total

    @property
    def used(self) -> int:
        """How many of them are held."""
        return self.total - self.free

    @property
    def largest_free(self) -> int:
        """The length of the longest free block, 0 if nothing is free."""
        return self._free.largest

    @property
    def fragmentation_percent(self) -> int:
        """How split the free space is, see Capacity."""
        if not self.free:
            return 0
        return 100 - self.largest_free * 100 // self.free

    def capacity(self) -> Capacity:
        """Return the figures of a pool's status as of now."""
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

    def shortest_free(self, count: int) -> int:
        """Return the length of the block that `allocate(count)` would take from, 0 if none."""
        return self._free.shortest(count)

    def origin(self, address_range: AddressRange) -> Origin:
        """Return the free extent that a range was chosen from; the range was taken just now."""
        before, after = self._free.beside(address_range.first, address_range.last)
        remainders = sum(length >= address_range.size for length in (before, after))
        fitting = self._free.fitting(address_range.size) - remainders + 1
        return Origin(before + address_range.size + after, fitting)

    def could_ever(self, count: int) -> bool:
        """Return whether the empty pool has `count` addresses in a row."""
        return self.layout.could_ever(count)

    def could_ever_pin(self, pin: AddressRange) -> bool:
        """Return whether the empty pool would hand out exactly this range."""
        return self.layout.could_ever_pin(pin)
