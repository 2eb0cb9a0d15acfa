"""The free space of a pool: its runs of free addresses, in an index by size and one by address.

A run is as long as possible: the addresses directly before and after it are not free.

File systems store free space like this (XFS calls the two indexes cntbt and bnobt). Best fit is
one search in the index by size. Merging with neighbors is one search in the index by address. The
cost does not depend on the size of the pool, as it would with a bitmap.

In each index a run is one int, packed from two numbers: its size and first address, or its first
and last address. The second number fills the lower bits, as many as an address has. Ints compare
faster than tuples, and take half the memory.

The indexes are sorted sets of ints, in blocks of some hundred members. A search is two binary
searches in C, and an insertion moves part of one block. A single sorted list would move half of
its members, which is slow beyond some ten thousand. A tree in pure Python would run interpreted
code at each level. `sortedcontainers` works in the same way; this is the part that an allocator
needs, without the dependency.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator

from allocator.addresses import Span

_BLOCK = 512  # members in a fresh block; it is split at twice as many


class SortedInts:
    """A set of ints in ascending order, in blocks; `_tops` has the greatest member of each block.

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
        """Yield the members in ascending order."""
        for block in self._blocks:
            yield from block

    def find_greatest(self) -> int | None:
        """Return the greatest member; None if the set is empty."""
        return self._tops[-1] if self._tops else None

    def find_at_least(self, bound: int) -> int | None:
        """Return the smallest member that is at least `bound`; None if there is none."""
        block_index = bisect_left(self._tops, bound)
        if block_index == len(self._tops):
            return None
        block = self._blocks[block_index]
        return block[bisect_left(block, bound)]

    def count_at_least(self, bound: int) -> int:
        """Return the number of members that are at least `bound`."""
        block_index = bisect_left(self._tops, bound)
        if block_index == len(self._tops):
            return 0
        block = self._blocks[block_index]
        later = sum(len(block) for block in self._blocks[block_index + 1 :])
        return len(block) - bisect_left(block, bound) + later

    def find_neighbors(self, bound: int) -> tuple[int | None, int | None]:
        """Return the greatest member below `bound`, and the smallest that is at least `bound`.

        Each is None if there is no such member.
        """
        block_index = bisect_left(self._tops, bound)
        if block_index == len(self._tops):
            return self.find_greatest(), None
        block = self._blocks[block_index]
        index = bisect_left(block, bound)
        if index:
            return block[index - 1], block[index]
        # The whole block is at least `bound`: the lower neighbor is the top of the block before.
        return (self._tops[block_index - 1] if block_index else None), block[0]

    def add(self, member: int) -> None:
        """Add a member that is not in the set yet."""
        block_index = bisect_left(self._tops, member)
        if block_index == len(self._tops):
            # No block has a top that is at least `member`: it is the greatest.
            self._append(member)
            return
        block = self._blocks[block_index]
        insort(block, member)
        if len(block) > 2 * _BLOCK:
            self._split_block(block_index)

    def remove(self, member: int) -> None:
        """Remove a member.

        Raises:
            KeyError: it is not in the set.
        """
        block_index, index = self._find(member)
        block = self._blocks[block_index]
        del block[index]
        if not block:
            del self._blocks[block_index], self._tops[block_index]
        elif index == len(block):
            self._tops[block_index] = block[-1]

    def replace(self, member: int, successor: int) -> None:
        """Replace a member by another int in its place.

        Args:
            member: the member to remove.
            successor: lies between the members before and after `member`, so nothing moves.

        Raises:
            KeyError: `member` is not in the set.
        """
        block_index, index = self._find(member)
        block = self._blocks[block_index]
        block[index] = successor
        if index == len(block) - 1:
            self._tops[block_index] = successor

    def _find(self, member: int) -> tuple[int, int]:
        """Return the index of a member's block, and its index in the block.

        Raises:
            KeyError: it is not in the set.
        """
        block_index = bisect_left(self._tops, member)
        if block_index < len(self._tops):
            block = self._blocks[block_index]
            index = bisect_left(block, member)
            if block[index] == member:
                return block_index, index
        raise KeyError(member)

    def _append(self, member: int) -> None:
        """Add a member that is greater than all others."""
        if not self._blocks:
            self._blocks.append([member])
            self._tops.append(member)
            return
        self._blocks[-1].append(member)
        self._tops[-1] = member
        if len(self._blocks[-1]) > 2 * _BLOCK:
            self._split_block(len(self._blocks) - 1)

    def _split_block(self, block_index: int) -> None:
        """Split a block that is too long: its members after the first _BLOCK become a block."""
        block = self._blocks[block_index]
        self._blocks.insert(block_index + 1, block[_BLOCK:])
        del block[_BLOCK:]
        self._tops.insert(block_index, block[-1])


class FreeExtents:
    """The maximal free runs of a pool.

    Args:
        runs: the runs as (first, last), ascending; no two touch.
        bits: the length of an address in bits.
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
        """Yield the first and last address of each run, ascending."""
        for packed in self._by_start:
            yield packed >> self._bits, packed & self._mask

    @property
    def total(self) -> int:
        """The number of free addresses."""
        return self._total

    @property
    def largest(self) -> int:
        """The length of the longest run; 0 if there is none."""
        return (self._by_size.find_greatest() or 0) >> self._bits

    def find_shortest(self, count: int) -> int:
        """Return the length of the shortest run of at least `count` addresses; 0 if none."""
        return (self._by_size.find_at_least(count << self._bits) or 0) >> self._bits

    def count_fitting(self, count: int) -> int:
        """Return the number of runs of at least `count` addresses."""
        return self._by_size.count_at_least(count << self._bits)

    def measure_neighbors(self, first: int, last: int) -> tuple[int, int]:
        """Return the lengths of the runs directly before and directly after a taken span.

        A length is 0 if the address there is not free.
        """
        bits, mask = self._bits, self._mask
        before, after = self._by_start.find_neighbors(first << bits)
        length_before = length_after = 0
        if before is not None and before & mask == first - 1:
            length_before = first - (before >> bits)
        if after is not None and after >> bits == last + 1:
            length_after = (after & mask) - last
        return length_before, length_after

    def take(self, count: int) -> int | None:
        """Take `count` addresses from the start of the shortest run that is long enough.

        Of several such runs, the one with the lowest address is used.

        Returns:
            The first address; None if no run is long enough.
        """
        bits = self._bits
        extent = self._by_size.find_at_least(count << bits)
        if extent is None:
            return None
        size, start = extent >> bits, extent & self._mask
        # `placed` is the same run as the index by address has it: its first and last address.
        placed = start << bits | start + size - 1
        self._by_size.remove(extent)
        if size == count:
            self._by_start.remove(placed)
        else:
            # The rest of the run begins `count` addresses later and is as much shorter.
            self._by_start.replace(placed, placed + (count << bits))
            self._by_size.add(extent - (count << bits) + count)
        self._total -= count
        return start

    def take_aligned(self, count: int) -> int | None:
        """Take `count` addresses whose first one is a multiple of `count`.

        The shortest run that includes such addresses is used, and of several equally short ones
        the run with the lowest address. The lowest such addresses in it are taken.

        Args:
            count: a power of two.

        Returns:
            The first address; None if no run includes such addresses.
        """
        extent = self._by_size.find_at_least(count << self._bits)
        while extent is not None:
            size, start = extent >> self._bits, extent & self._mask
            first = -(-start // count) * count  # `start`, rounded up to a multiple of `count`
            if first + count <= start + size:
                self.take_exactly(first, first + count - 1)
                return first
            # Any run of twice the size includes such addresses, so few runs are skipped.
            extent = self._by_size.find_at_least(extent + 1)
        return None

    def take_first(self, most: int) -> Span | None:
        """Take up to `most` addresses from the start of the run with the lowest address.

        Returns:
            The first and last address that were taken; None if nothing is free.
        """
        lowest_run = self._by_start.find_at_least(0)
        if lowest_run is None:
            return None
        first = lowest_run >> self._bits
        last = min(lowest_run & self._mask, first + most - 1)
        self.take_exactly(first, last)
        return first, last

    def iterate_free(self, first: int, last: int) -> Iterator[Span]:
        """Yield the free parts of a span, ascending; the free space must not change meanwhile."""
        bits, mask = self._bits, self._mask
        while first <= last:
            # `run` is the last run that begins at `first` or before it.
            run, following = self._by_start.find_neighbors(first + 1 << bits)
            if run is not None and run & mask >= first:
                end = min(run & mask, last)
                yield first, end
                first = end + 1
            elif following is None:
                return
            else:
                first = following >> bits

    def take_exactly(self, first: int, last: int) -> int | None:
        """Take the addresses from `first` to `last` if all are free; otherwise take none.

        Returns:
            The lowest of them that is not free, if none was taken; None if all were taken.
        """
        bits, mask = self._bits, self._mask
        # `placed` is the last run that begins at `first` or before it.
        placed, _ = self._by_start.find_neighbors(first + 1 << bits)
        if placed is None or placed & mask < first:
            return first
        start, end = placed >> bits, placed & mask
        if end < last:
            return end + 1
        self._by_start.remove(placed)
        self._by_size.remove(end - start + 1 << bits | start)
        if start < first:
            self._add_run(start, first - 1)
        if last < end:
            self._add_run(last + 1, end)
        self._total -= last - first + 1
        return None

    def release_span(self, first: int, last: int) -> None:
        """Make taken addresses free, and merge them with the runs that they touch."""
        bits, mask = self._bits, self._mask
        self._total += last - first + 1
        before, after = self._by_start.find_neighbors(first << bits)
        # In the index by size, the runs that touch the span are removed and the merged run is
        # added. In the index by address, the merged run replaces one of them (`merged_run`).
        merged_run: int | None = None
        if before is not None and before & mask == first - 1:
            self._by_size.remove(first - (before >> bits) << bits | before >> bits)
            merged_run, first = before, before >> bits
        if after is not None and after >> bits == last + 1:
            self._by_size.remove((after & mask) - last << bits | last + 1)
            if merged_run is not None:
                self._by_start.remove(after)
            merged_run, last = before if merged_run is not None else after, after & mask
        if merged_run is None:
            self._add_run(first, last)
            return
        self._by_start.replace(merged_run, first << bits | last)
        self._by_size.add(last - first + 1 << bits | first)

    def _add_run(self, first: int, last: int) -> None:
        """Add a run to both indexes."""
        self._by_start.add(first << self._bits | last)
        self._by_size.add(last - first + 1 << self._bits | first)
