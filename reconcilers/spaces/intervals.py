"""Intervals of numbers, sorted: which of them touch an interval.

The intervals lie in blocks of some hundred, and each block knows how far its intervals reach. So a
question skips blocks that end before the interval, and an answer that is read only in part costs
only that part, however many intervals there are.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from reconcilers.spaces.offers import PoolName

_MOST_IN_BLOCK = 256


class Numbers(Protocol):
    """The numbers from the first to the last, in an order that begins with the first."""

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
    """Numbers that a pool, or a part of one, hands out; sorted by the first number."""

    first: int
    last: int
    pool: PoolName
    part: str


@dataclass(slots=True)
class _Block(Generic[NumbersT]):
    """Intervals that lie next to each other in the order.

    Args:
        intervals: the intervals, sorted.
        reach: the highest last number of all of them.
    """

    intervals: list[NumbersT]
    reach: int


class Intervals(Generic[NumbersT]):
    """Intervals, sorted."""

    def __init__(self) -> None:
        self._blocks: list[_Block[NumbersT]] = []

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, interval: NumbersT) -> None:
        """Add an interval that is not there yet."""
        if not self._blocks:
            self._blocks.append(_Block([interval], interval.last))
            return
        at = self._place(interval)
        block = self._blocks[at]
        insort(block.intervals, interval)
        block.reach = max(block.reach, interval.last)
        if len(block.intervals) > _MOST_IN_BLOCK:
            middle = len(block.intervals) // 2
            halves = block.intervals[:middle], block.intervals[middle:]
            self._blocks[at : at + 1] = [_Block(half, _reach(half)) for half in halves]

    def remove(self, interval: NumbersT) -> None:
        """Remove an interval that is there."""
        at = self._place(interval)
        block = self._blocks[at]
        del block.intervals[bisect_left(block.intervals, interval)]
        if not block.intervals:
            del self._blocks[at]
        elif block.reach == interval.last:
            block.reach = _reach(block.intervals)

    def touching(self, first: int, last: int) -> Iterator[NumbersT]:
        """Yield the intervals that have a number from `first` to `last`, sorted."""
        for block in self._blocks:
            if block.intervals[0].first > last:
                return
            if block.reach < first:
                continue
            for interval in block.intervals:
                if interval.first > last:
                    return
                if interval.last >= first:
                    yield interval

    def _place(self, interval: NumbersT) -> int:
        """Return the number of the block that has, or would have, an interval."""
        after = bisect_right(self._blocks, interval, key=lambda block: block.intervals[0])
        return max(0, after - 1)


def _reach(intervals: list[NumbersT]) -> int:
    return max(interval.last for interval in intervals)
