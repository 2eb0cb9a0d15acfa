"""The free space of a pool as maximal runs of free addresses, found by size and by place.

File systems keep free space so (XFS calls the two indexes cntbt and bnobt): best fit is one search
in the first, merging with neighbours one in the second, and the size of the pool does not enter.
A bitmap answers the same questions by reading all of itself.

Each run is one int in each index: size and start, or start and last address, packed with as many
bits as an address has. Ints compare in one step where tuples take three, and cost half the memory.
"""

from collections.abc import Iterable, Iterator

from allocator.sortedints import SortedInts
from allocator.spans import Span


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

    def take(self, count: int) -> int | None:
        """Take `count` addresses from the start of the shortest run that has so many.

        Of several such runs it is the one with the lowest address.

        Returns:
            The first address taken, None if no run is long enough.
        """
        bits = self._bits
        found = self._by_size.from_(count << bits)
        if found is None:
            return None
        size, start = found >> bits, found & self._mask
        placed = start << bits | start + size - 1
        self._by_size.remove(found)
        if size == count:
            self._by_start.remove(placed)
        else:
            self._by_start.replace(placed, placed + (count << bits))
            self._by_size.add(found - (count << bits) + count)
        self._total -= count
        return start

    def cut(self, first: int, last: int) -> int | None:
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
