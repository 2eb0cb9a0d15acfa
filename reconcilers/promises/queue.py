"""The askers that wait for a pool, in rows of equal askers.

Thousands may wait for a full pool, most of them for the same. If one of them is refused, and the
others show that refusal already, a pass need not try the others. So askers with equal answers,
whose objects show equal refusals, wait in one row, and a pass walks along all rows at once, the
oldest request first.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from typing_extensions import override

Row = Hashable
"""What equal askers have in common: all that their answer depends on, and what they show."""
P = TypeVar("P", bound=tuple[Any, ...])


class Rows(dict[Row, list[P]]):
    """The places of askers in rows, ordered within each row."""

    def add(self, row: Row, place: P) -> None:
        """Add a place to a row."""
        insort(self.setdefault(row, []), place)

    def remove(self, row: Row, place: P) -> None:
        """Take a place out of a row."""
        places = self[row]
        del places[bisect_left(places, place)]
        if not places:
            del self[row]


class Turns(Iterator[P]):
    """A walk along the places of all rows in order, in which the rest of a row can be left out.

    Args:
        rows: the places of each row, in order; they do not change meanwhile.
    """

    def __init__(self, rows: Iterable[list[P]]) -> None:
        self._heads = [(places[0], 0, places) for places in rows]
        heapify(self._heads)
        self._last: tuple[P, int, list[P]] | None = None
        self._left_out: list[list[P]] = []

    @override
    def __next__(self) -> P:
        """Return the next place."""
        if self._last is not None:
            _, at, places = self._last
            self._resume(places, at + 1)
        self._last = heappop(self._heads) if self._heads else None
        if self._last is None:
            raise StopIteration
        return self._last[0]

    def leave_out(self, *, until_granted: bool = False) -> None:
        """Leave out the rest of the last one's row; or only until `granted` is called."""
        assert self._last is not None, "one of the row was tried"
        if until_granted:
            self._left_out.append(self._last[2])
        self._last = None

    def granted(self) -> None:
        """Take up the rows that were left out until now, behind the last one."""
        assert self._last is not None, "it was tried"
        for places in self._left_out:
            self._resume(places, bisect_right(places, self._last[0]))
        self._left_out.clear()

    def _resume(self, places: list[P], at: int) -> None:
        if at < len(places):
            heappush(self._heads, (places[at], at, places))
