"""A sorted collection of intervals, to find those that overlap a given interval.

The intervals lie in blocks of at most _MOST_IN_BLOCK, and each block knows the highest number in
it, its reach. So a search skips each block that ends before the given interval. A search is a
generator: a caller that stops after three results pays for three.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from reconcilers.spaces.offers import PoolName

_MOST_IN_BLOCK = 256


class Numbers(Protocol):
    """The numbers from `first` to `last`; sorted by `first` before anything else."""

    @property
    def first(self) -> int:
        """The lowest number."""
        ...

    @property
    def last(self) -> int:
        """The highest number."""
        ...

    def __lt__(self, other: Any, /) -> bool:
        """Return whether this interval is before another one."""
        ...


NumbersT = TypeVar("NumbersT", bound=Numbers)


class Interval(NamedTuple):
    """Addresses, as numbers, that a pool or a part of it hands out; sorted by `first`."""

    first: int
    last: int
    pool: PoolName
    part: str


@dataclass(slots=True)
class _Block(Generic[NumbersT]):
    """Neighbours in the order of intervals.

    Args:
        intervals: at least one, sorted.
        reach: the highest number in any of them.
    """

    intervals: list[NumbersT]
    reach: int


class Intervals(Generic[NumbersT]):
    """A sorted collection of intervals, which may overlap each other."""

    def __init__(self) -> None:
        self._blocks: list[_Block[NumbersT]] = []

    def __bool__(self) -> bool:
        """Return whether the collection has intervals."""
        return bool(self._blocks)

    def add(self, interval: NumbersT) -> None:
        """Add an interval that is not in the collection yet."""
        if not self._blocks:
            self._blocks.append(_Block([interval], interval.last))
            return
        position = self._find_block(interval)
        block = self._blocks[position]
        insort(block.intervals, interval)
        block.reach = max(block.reach, interval.last)
        if len(block.intervals) > _MOST_IN_BLOCK:
            middle = len(block.intervals) // 2
            halves = block.intervals[:middle], block.intervals[middle:]
            self._blocks[position : position + 1] = [
                _Block(half, _compute_reach(half)) for half in halves
            ]

    def remove(self, interval: NumbersT) -> None:
        """Remove an interval that is in the collection."""
        position = self._find_block(interval)
        block = self._blocks[position]
        del block.intervals[bisect_left(block.intervals, interval)]
        if not block.intervals:
            del self._blocks[position]
        elif block.reach == interval.last:  # perhaps all other intervals end before
            block.reach = _compute_reach(block.intervals)

    def find_touching(self, first: int, last: int) -> Iterator[NumbersT]:
        """Yield the intervals that share a number with the interval `first` to `last`, sorted."""
        for block in self._blocks:
            if block.intervals[0].first > last:
                return  # all further intervals begin behind `last`
            if block.reach < first:
                continue
            for interval in block.intervals:
                if interval.first > last:
                    return
                if interval.last >= first:
                    yield interval

    def _find_block(self, interval: NumbersT) -> int:
        """Return the position of the block in which an interval is, or belongs."""
        next_block = bisect_right(self._blocks, interval, key=lambda block: block.intervals[0])
        # An interval before all others belongs in the first block.
        return max(0, next_block - 1)


def _compute_reach(intervals: list[NumbersT]) -> int:
    """Return the highest number in any of these intervals."""
    return max(interval.last for interval in intervals)
