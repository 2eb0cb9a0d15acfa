"""Who holds which addresses, where others may have made ranges overlap.

A release frees only what nobody else holds. New ranges come out of free space and overlap nothing,
so only ranges that were there from the start can. These few (normally none) are counted by
segment: the addresses between two neighbouring edges are held by the same number of ranges. All
other ranges cost one dictionary entry.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from allocator.spans import Span


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
