"""The askers that wait for a pool, in rows of equal askers.

An *asker* is an object that waits for an address. Its *answer* is what the pool would give it or
refuse it. Thousands may wait for a full pool, most of them for the same size. If one asker is
refused, and the others show that refusal already, a pass need not try the others. So askers with
equal answers, whose objects show equal refusals, wait in one *row*. A pass merges the rows: it
takes the askers of all rows in the order of their *places*, which begin with the time of the
request, so the oldest comes first.

If a pool serves several tenants, a row has askers of one tenant only. So a pass can also leave out
all askers of a tenant without a look at each of them.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from typing_extensions import override

from reconcilers.promises.identities import Tenant

Row = Hashable
"""What equal askers have in common: their kind, all that their answer depends on, what they show.

A row includes the kind, so that leaving out an answer leaves out no asker of another kind.
"""
P = TypeVar("P", bound=tuple[object, ...])


@dataclass(frozen=True, slots=True)
class TenantRow:
    """The row of askers of one tenant.

    Args:
        tenant: whose askers wait in the row.
        answer: their kind, all that their answer depends on, and what they show.
    """

    tenant: Tenant
    answer: Hashable


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


@dataclass(frozen=True, slots=True)
class _Line(Generic[P]):
    """A row with its number: the places that a walk visits, in order.

    Args:
        number: the number of the row in this walk. It decides between equal places.
        places: the places of the row, in order.
        tenant: the tenant of all askers of the row; None if it is not a row of one tenant.
        answer: the answer of the row.
    """

    number: int
    places: list[P]
    tenant: Tenant | None
    answer: Hashable

    @classmethod
    def from_row(cls, number: int, row: Row, places: list[P]) -> "_Line[P]":
        """Return the line of a row; a row that is no TenantRow is its own answer."""
        if isinstance(row, TenantRow):
            return cls(number, places, tenant=row.tenant, answer=row.answer)
        return cls(number, places, tenant=None, answer=row)


class Turns(Iterator[P]):
    """An iterator over the places of all rows in order; the rest of a row can be left out.

    Args:
        rows: the places of each row, in order; they do not change meanwhile.
    """

    def __init__(self, rows: Mapping[Row, list[P]]) -> None:
        # A line is a row with its places and a number, by which equal places can be sorted.
        lines = (
            _Line.from_row(number, *row_and_places)
            for number, row_and_places in enumerate(rows.items())
        )
        self._heads = [(line.places[0], line.number, 0, line) for line in lines]
        """A heap of each line's next place, the line's number, the place's index, and the line."""
        heapify(self._heads)
        self._last: tuple[P, int, _Line[P]] | None = None
        """The place that was returned last, its index, and its line."""
        self._answers: set[Hashable] = set()
        """The answers whose lines are left out."""
        self._tenants: set[Tenant] = set()
        """The tenants whose lines are left out."""
        self._answers_until_granted: set[Hashable] = set()
        """The answers whose lines are left out until something is granted."""
        self._paused: list[_Line[P]] = []
        """The lines that were left out until something is granted."""

    @override
    def __next__(self) -> P:
        """Return the next place that is not left out; raise StopIteration after the last one."""
        if self._last is not None:
            # The line continues only now, because the caller may have left it out meanwhile.
            _, index, line = self._last
            self._resume(line, index + 1)
        self._last = None
        while self._heads:
            place, _, index, line = heappop(self._heads)
            if line.tenant in self._tenants or line.answer in self._answers:
                continue  # the line is not pushed again, so the walk is done with it
            if line.answer in self._answers_until_granted:  # `resume_paused` pushes it again
                self._paused.append(line)
                continue
            self._last = place, index, line
            return place
        raise StopIteration

    def leave_out(self, *, until_granted: bool = False) -> None:
        """Leave out all rows that have the answer of the last returned place's row.

        Args:
            until_granted: whether the rows are left out only until `resume_paused` is called.
        """
        assert self._last is not None, "a place was returned before"
        answers = self._answers_until_granted if until_granted else self._answers
        answers.add(self._last[2].answer)

    def leave_out_tenant(self) -> None:
        """Leave out all rows of the tenant of the last returned place, if its row has a tenant."""
        assert self._last is not None, "a place was returned before"
        if tenant := self._last[2].tenant:
            self._tenants.add(tenant)

    def resume_paused(self) -> None:
        """Resume the rows that wait for a grant, at their places after the last returned place.

        Earlier places of these rows stay left out: the walk never goes back.
        """
        assert self._last is not None, "a place was returned before"
        self._answers_until_granted.clear()
        paused, self._paused = self._paused, []
        for line in paused:
            self._resume(line, bisect_right(line.places, self._last[0]))

    def _resume(self, line: _Line[P], index: int) -> None:
        """Continue a line at the place with this index, if it has one."""
        if index < len(line.places):
            heappush(self._heads, (line.places[index], line.number, index, line))
