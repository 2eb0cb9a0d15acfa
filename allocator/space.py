"""The allocator: which addresses of a pool are free, who holds the others, and what to hand out.

Best fit: a request gets the start of the shortest free block that is long enough, of several such
blocks the one with the lowest address. Ranges that others have made are accepted as they are, even
where they overlap each other or leave the pool; a release frees only what nobody else holds.

New ranges come out of free space and overlap nothing, so only ranges that were there from the
start can overlap. These few (normally none) are counted by segment: the addresses between two
neighbouring edges are held by the same number of ranges. All other ranges cost one dictionary
entry.

A Space belongs to one caller: nothing in it waits, so a caller on one event loop needs no lock.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from allocator.addresses import BITS, AddressRange, Span, address_text, minus, union
from allocator.errors import InvalidRequest, NotHeld, PinnedRangeConflict, PoolExhausted
from allocator.extents import FreeExtents
from allocator.layout import Layout


class Holders:
    """A multiset of ranges.

    Args:
        ascending: the ranges held at the start, sorted; they may overlap.
    """

    __slots__ = ("_depths", "_edges", "_held")

    def __init__(self, ascending: Sequence[Span]) -> None:
        self._held = Counter(ascending)
        steps: Counter[int] = Counter()
        for first, last in _overlapping(ascending):
            steps[first] += 1
            steps[last + 1] -= 1
        # segment i runs from edge i to the address before edge i + 1
        self._edges = sorted(steps)
        self._depths = list(accumulate(steps[edge] for edge in self._edges))

    def add(self, span: Span) -> None:
        """Add a range that shares no address with any that is held."""
        self._held[span] = 1

    def remove(self, span: Span) -> list[Span]:
        """Take a range out and return the parts of it that now nobody holds, ascending.

        Raises:
            KeyError: it is not held.
        """
        holders = self._held.pop(span)
        if holders > 1:
            self._held[span] = holders - 1
        return self._thin_out(span)

    def _thin_out(self, span: Span) -> list[Span]:
        first, last = span
        at = bisect_right(self._edges, first) - 1
        if at < 0 or not self._depths[at]:
            return [span]  # a range that shares addresses is counted in its first segment
        freed: list[Span] = []
        while self._edges[at] <= last:
            self._depths[at] -= 1
            if not self._depths[at]:
                freed.append((self._edges[at], self._edges[at + 1] - 1))
            at += 1
        return freed


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


class Space:
    """The addresses of one pool, free and held.

    Args:
        layout: what the pool may hand out.
        taken: the ranges held already; they may overlap each other, appear twice, or lie outside
            the layout.
    """

    __slots__ = ("_free", "_holders", "layout")

    def __init__(self, layout: Layout, taken: Iterable[AddressRange] = ()) -> None:
        self.layout = layout
        held = sorted(span for one in taken if (span := layout.span_of(one)) is not None)
        blocks = ((block.first, block.last) for block in layout.blocks)
        self._holders = Holders(held)
        self._free = FreeExtents(minus(blocks, union(held)), BITS[layout.family])

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
            raise PoolExhausted(count)
        last = first + count - 1
        self._holders.add((first, last))
        return AddressRange(first, last, self.layout.family)

    def pin(self, wanted: AddressRange) -> AddressRange:
        """Take exactly these addresses.

        Raises:
            OutOfRange: they do not lie inside one single range of the pool.
            PinnedRangeConflict: one of them is reserved or held; names the first.
        """
        first, last = self.layout.pinned_span(wanted)
        obstacle = self._free.cut(first, last)
        if obstacle is not None:
            raise PinnedRangeConflict(address_text(obstacle, self.layout.family))
        self._holders.add((first, last))
        return AddressRange(first, last, self.layout.family)

    def release(self, held: AddressRange) -> None:
        """Give a range back: one holder of exactly these addresses lets go.

        A range of the other family is none of this pool's, so that nothing happens.

        Raises:
            NotHeld: nobody holds exactly this range.
        """
        span = self.layout.span_of(held)
        if span is None:
            return
        try:
            freed = self._holders.remove(span)
        except KeyError:
            raise NotHeld(f"{held.start_text}-{held.end_text}") from None
        for part in freed:
            for first, last in self.layout.clip(part):
                self._free.give(first, last)

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
        """Tell whether `allocate(count)` would succeed now."""
        return 0 < count <= self.largest_free

    def could_ever(self, count: int) -> bool:
        """Tell whether the empty pool has `count` addresses in a row."""
        return self.layout.could_ever(count)

    def could_ever_pin(self, wanted: AddressRange) -> bool:
        """Tell whether the empty pool would hand out exactly this range."""
        return self.layout.could_ever_pin(wanted)
