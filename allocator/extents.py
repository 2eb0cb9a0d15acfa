"""The free space of a pool as maximal runs of free addresses, found by size and by place.

File systems keep free space so (XFS calls the two indexes cntbt and bnobt): best fit is one search
in the first, merging with neighbours one in the second, and the size of the pool does not enter.
A bitmap answers the same questions by reading all of itself.

Each run is one int in each index: size and start, or start and last address, packed with as many
bits as an address has. Ints compare in one step where tuples take three, and cost half the memory.

The indexes are sorted sets of ints. A plain sorted list with `bisect` moves half of itself on
every insertion, which dominates beyond some ten thousand members; a tree in pure Python pays an
interpreter round per level. Blocks of some hundred members need two binary searches in C and one
short move. `sortedcontainers` is the same idea; this is the part of it that an allocator needs,
without the dependency.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from allocator.addresses import Span

_BLOCK = 512  # members in a fresh block; it is split at twice as many


class SortedInts:
    """A set of ints in ascending order.

    Args:
        ascending: the first members, already sorted and distinct.
    """

    __slots__ = ("_blocks", "_tops")

    def __init__(self, ascending: Iterable[int] = ()) -> None:
        members = list(ascending)
        self._blocks = [members[i : i + _BLOCK] for i in range(0, len(members), _BLOCK)]
        self._tops = [block[-1] for block in self._blocks]  # the greatest member of each block

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def __iter__(self) -> Iterator[int]:
        for block in self._blocks:
            yield from block

    def greatest(self) -> int | None:
        """Return the greatest member, None if there is none."""
        return self._tops[-1] if self._tops else None

    def from_(self, bound: int) -> int | None:
        """Return the smallest member that is not below `bound`, None if there is none."""
        at = bisect_left(self._tops, bound)
        if at == len(self._tops):
            return None
        block = self._blocks[at]
        return block[bisect_left(block, bound)]

    def count_from(self, bound: int) -> int:
        """Return how many members are not below `bound`."""
        at = bisect_left(self._tops, bound)
        if at == len(self._tops):
            return 0
        block = self._blocks[at]
        later = sum(len(block) for block in self._blocks[at + 1 :])
        return len(block) - bisect_left(block, bound) + later

    def around(self, bound: int) -> tuple[int | None, int | None]:
        """Return the greatest member below `bound` and the smallest one that is not below it."""
        at = bisect_left(self._tops, bound)
        if at == len(self._tops):
            return self.greatest(), None
        block = self._blocks[at]
        place = bisect_left(block, bound)
        if place:
            return block[place - 1], block[place]
        return (self._tops[at - 1] if at else None), block[0]

    def add(self, member: int) -> None:
        """Add a member that is not in the set yet."""
        at = bisect_left(self._tops, member)
        if at == len(self._tops):
            self._append(member)
            return
        block = self._blocks[at]
        insort(block, member)
        if len(block) > 2 * _BLOCK:
            self._split_chunk(at)

    def remove(self, member: int) -> None:
        """Take a member out.

        Raises:
            KeyError: it is not in the set.
        """
        at, place = self._find(member)
        block = self._blocks[at]
        del block[place]
        if not block:
            del self._blocks[at], self._tops[at]
        elif place == len(block):
            self._tops[at] = block[-1]

    def replace(self, member: int, successor: int) -> None:
        """Put `successor` in the place of `member`; no other member may lie between the two.

        Raises:
            KeyError: `member` is not in the set.
        """
        at, place = self._find(member)
        block = self._blocks[at]
        block[place] = successor
        if place == len(block) - 1:
            self._tops[at] = successor

    def _find(self, member: int) -> tuple[int, int]:
        at = bisect_left(self._tops, member)
        if at < len(self._tops):
            block = self._blocks[at]
            place = bisect_left(block, member)
            if block[place] == member:
                return at, place
        raise KeyError(member)

    def _append(self, member: int) -> None:
        if not self._blocks:
            self._blocks.append([member])
            self._tops.append(member)
            return
        self._blocks[-1].append(member)
        self._tops[-1] = member
        if len(self._blocks[-1]) > 2 * _BLOCK:
            self._split_chunk(len(self._blocks) - 1)

    def _split_chunk(self, at: int) -> None:
        block = self._blocks[at]
        self._blocks.insert(at + 1, block[_BLOCK:])
        del block[_BLOCK:]
        self._tops.insert(at, block[-1])


class FreeExtents:
    """The maximal free runs of a pool.

    Args:
        runs: the runs as (first, last), ascending; no two touch.
        bits: how long an address is.
    """

    __slots__ = ("_bits", "_by_size", "_by_start", "_mask", "_total")

    def __init__(self, runs: Iterable[Span], bits: int) -> None:
        spans = list(runs)
        sizes = sorted((last - first + 1) << bits | first for first, last in spans)
        self._by_size = SortedInts(sizes)
        self._by_start = SortedInts(first << bits | last for first, last in spans)
        self._bits = bits
        self._mask = (1 << bits) - 1
        self._total = sum(last - first + 1 for first, last in spans)

    def __iter__(self) -> Iterator[Span]:
        for packed in self._by_start:
            yield packed >> self._bits, packed & self._mask

    @property
    def total(self) -> int:
        """How many addresses are free."""
        return self._total

    @property
    def largest(self) -> int:
        """The length of the longest run, 0 if there is none."""
        return (self._by_size.greatest() or 0) >> self._bits

    def shortest(self, count: int) -> int:
        """Return the length of the shortest run that has `count` addresses, 0 if none has."""
        return (self._by_size.from_(count << self._bits) or 0) >> self._bits

    def fitting(self, count: int) -> int:
        """Return how many runs have `count` addresses."""
        return self._by_size.count_from(count << self._bits)

    def beside(self, first: int, last: int) -> tuple[int, int]:
        """Return the lengths of the runs right before and right after a span that is taken."""
        bits, mask = self._bits, self._mask
        before, after = self._by_start.around(first << bits)
        length_before = length_after = 0
        if before is not None and before & mask == first - 1:
            length_before = first - (before >> bits)
        if after is not None and after >> bits == last + 1:
            length_after = (after & mask) - last
        return length_before, length_after

    def take(self, count: int) -> int | None:
        """Take `count` addresses from the start of the shortest run that has so many.

        Of several such runs it is the one with the lowest address.

        Returns:
            The first address taken, None if no run is long enough.
        """
        bits = self._bits
        extent = self._by_size.from_(count << bits)
        if extent is None:
            return None
        size, start = extent >> bits, extent & self._mask
        placed = start << bits | start + size - 1
        self._by_size.remove(extent)
        if size == count:
            self._by_start.remove(placed)
        else:
            self._by_start.replace(placed, placed + (count << bits))
            self._by_size.add(extent - (count << bits) + count)
        self._total -= count
        return start

    def take_aligned(self, count: int) -> int | None:
        """Take `count` addresses that begin at a multiple of `count`.

        They come from the shortest run that has such, of several such runs from the one with the
        lowest address, and there as low as possible.

        Returns:
            The first address taken, None if no run has them.
        """
        extent = self._by_size.from_(count << self._bits)
        while extent is not None:
            size, start = extent >> self._bits, extent & self._mask
            first = -(-start // count) * count
            if first + count <= start + size:
                self.take_exactly(first, first + count - 1)
                return first
            # Only runs shorter than twice the block are passed over: all others have one.
            extent = self._by_size.from_(extent + 1)
        return None

    def take_first(self, most: int) -> Span | None:
        """Take the lowest free addresses in a row, `most` at most; None if nothing is free."""
        placed = self._by_start.from_(0)
        if placed is None:
            return None
        first = placed >> self._bits
        last = min(placed & self._mask, first + most - 1)
        self.take_exactly(first, last)
        return first, last

    def within(self, first: int, last: int) -> Iterator[Span]:
        """Yield the free parts of a span, ascending; nothing may change meanwhile."""
        bits, mask = self._bits, self._mask
        while first <= last:
            run, following = self._by_start.around(first + 1 << bits)
            if run is not None and run & mask >= first:
                end = min(run & mask, last)
                yield first, end
                first = end + 1
            elif following is None:
                return
            else:
                first = following >> bits

    def take_exactly(self, first: int, last: int) -> int | None:
        """Take exactly these addresses, or none of them.

        Returns:
            None if they were taken, else the lowest one that is not free.
        """
        bits, mask = self._bits, self._mask
        placed, _ = self._by_start.around(first + 1 << bits)
        if placed is None or placed & mask < first:
            return first
        start, end = placed >> bits, placed & mask
        if end < last:
            return end + 1
        self._by_start.remove(placed)
        self._by_size.remove(end - start + 1 << bits | start)
        if start < first:
            self._put(start, first - 1)
        if last < end:
            self._put(last + 1, end)
        self._total -= last - first + 1
        return None

    def give(self, first: int, last: int) -> None:
        """Make addresses free that are not, and merge them with the runs that they touch."""
        bits, mask = self._bits, self._mask
        self._total += last - first + 1
        before, after = self._by_start.around(first << bits)
        place: int | None = None  # of a neighbour, which the merged run takes over
        if before is not None and before & mask == first - 1:
            self._by_size.remove(first - (before >> bits) << bits | before >> bits)
            place, first = before, before >> bits
        if after is not None and after >> bits == last + 1:
            self._by_size.remove((after & mask) - last << bits | last + 1)
            if place is not None:
                self._by_start.remove(after)
            place, last = before if place is not None else after, after & mask
        if place is None:
            self._put(first, last)
            return
        self._by_start.replace(place, first << bits | last)
        self._by_size.add(last - first + 1 << bits | first)

    def _put(self, first: int, last: int) -> None:
        self._by_start.add(first << self._bits | last)
        self._by_size.add(last - first + 1 << self._bits | first)
