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

    __slots__ = ("_bits", "_by_size", "_by_start", "_mask", "_runs", "_total")

    def __init__(self, runs: Iterable[Span], bits: int) -> None:
        spans = list(runs)
        sizes = sorted((last - first + 1) << bits | first for first, last in spans)
        self._by_size = SortedInts(sizes)
        self._by_start = SortedInts(first << bits | last for first, last in spans)
        self._bits = bits
        self._mask = (1 << bits) - 1
        self._runs = len(spans)
        self._total = sum(last - first + 1 for first, last in spans)

    def __len__(self) -> int:
        return self._runs

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
            self._runs -= 1
        else:
            self._by_start.replace(placed, placed + (count << bits))
            self._by_size.add(found - (count << bits) + count)
        self._total -= count
        return start

    def first_not_free(self, first: int, last: int) -> int | None:
        """Return the lowest address of first..last that is not free, None if all are."""
        run = self._holding(first)
        if run is None:
            return first
        return run[1] + 1 if run[1] < last else None

    def cut(self, first: int, last: int) -> None:
        """Take exactly these addresses.

        Raises:
            KeyError: not all of them are free.
        """
        run = self._holding(first)
        if run is None or run[1] < last:
            raise KeyError((first, last))
        self._drop(*run)
        if run[0] < first:
            self._put(run[0], first - 1)
        if last < run[1]:
            self._put(last + 1, run[1])

    def give(self, first: int, last: int) -> None:
        """Make addresses free that are not, and merge them with the runs that they touch."""
        bits, mask = self._bits, self._mask
        before, after = self._by_start.around(first << bits)
        if before is not None and before & mask == first - 1:
            first = before >> bits
            self._drop(first, before & mask)
        if after is not None and after >> bits == last + 1:
            last = after & mask
            self._drop(after >> bits, last)
        self._put(first, last)

    def _holding(self, address: int) -> Span | None:
        packed, _ = self._by_start.around(address + 1 << self._bits)
        if packed is None or packed & self._mask < address:
            return None
        return packed >> self._bits, packed & self._mask

    def _put(self, first: int, last: int) -> None:
        self._by_start.add(first << self._bits | last)
        self._by_size.add(last - first + 1 << self._bits | first)
        self._total += last - first + 1
        self._runs += 1

    def _drop(self, first: int, last: int) -> None:
        self._by_start.remove(first << self._bits | last)
        self._by_size.remove(last - first + 1 << self._bits | first)
        self._total -= last - first + 1
        self._runs -= 1
