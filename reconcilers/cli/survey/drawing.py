"""A pool's space for a terminal: a grid of cells, a legend, and the list of all stretches.

Each cell stands for a power of two of addresses, so that rows begin at round addresses. A cell
that is in several states shows the gravest of them (State is in that order). What it hides is in
the list under the grid, which has every stretch.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from allocator import AddressRange
from reconcilers.cli.columns import Cell, number, table
from reconcilers.cli.survey.extents import Extent, Holder, Picture, State
from reconcilers.cli.survey.palette import COLOURS

COLUMNS = 64
WIDE = 128
ROWS = 32
_ORDER = {state: place for place, state in enumerate(State)}


def grid(picture: Picture, columns: int = COLUMNS) -> str:
    """Return the grid: a line for each row of so many cells, with the address it begins at."""
    inside = picture.inside
    first = inside[0].range.first
    size = inside[-1].range.last - first + 1
    per_cell = cell_size(size, columns)
    cells = _cells(inside, first, size, per_cell)
    family = inside[0].range.family
    starts = [
        AddressRange(first + at * per_cell, first + at * per_cell, family).start_text
        for at in range(0, len(cells), columns)
    ]
    width = max(map(len, starts))
    lines = [
        f"{start.ljust(width)}  {_line(cells[row * columns : (row + 1) * columns])}\n"
        for row, start in enumerate(starts)
    ]
    what = "1 address" if per_cell == 1 else f"{per_cell:,} addresses"
    return "".join(lines) + f"each cell: {what}\n"


def cell_size(size: int, columns: int = COLUMNS) -> int:
    """Return how many addresses a cell stands for: the least power of two that fits the grid."""
    needed = -(-size // (columns * ROWS))
    return 1 << max(0, needed - 1).bit_length()


def _cells(extents: Sequence[Extent], first: int, size: int, per_cell: int) -> list[State]:
    cells: list[State | None] = [None] * -(-size // per_cell)
    for extent in extents:
        begin = (extent.range.first - first) // per_cell
        end = (extent.range.last - first) // per_cell
        for at in range(begin, end + 1):
            known = cells[at]
            if known is None or _ORDER[extent.state] < _ORDER[known]:
                cells[at] = extent.state
    return [State.OUTSIDE if state is None else state for state in cells]


def _line(cells: list[State]) -> str:
    return "".join(
        _painted(COLOURS[state].letter * len(list(run)), state) for state, run in groupby(cells)
    ).rstrip()


def _painted(text: str, state: State) -> str:
    colour = COLOURS[state].terminal
    return click.style(text, fg=colour) if colour else text


def legend(picture: Picture) -> str:
    """Return the states that occur, with how many addresses are in each."""
    counts = picture.addresses()
    lines = []
    for state in filter(counts.get, State):
        letter = _painted(COLOURS[state].letter, state)
        lines.append(f"  {letter}  {counts[state]:>12,}  {COLOURS[state].words}\n")
    return "".join(lines)


def listing(picture: Picture) -> str:
    """Return every stretch in order, held ones and the gaps between them."""
    rows = [row for extent in picture.extents for row in _rows(extent)]
    return table(("START", "END", "SIZE", "STATE", "ALLOCATION", "TENANT", "TYPE", "NOTE"), rows)


def _rows(extent: Extent) -> Iterator[list[Cell]]:
    where, state = extent.range, extent.state
    who: list[Holder | None] = [*extent.holders] or [None]
    for holder in who:
        yield [
            Cell(where.start_text),
            Cell(where.end_text),
            number(where.size),
            Cell(state.value, COLOURS[state].terminal),
            Cell(holder.allocation.name if holder else "-"),
            Cell(str(holder.tenant) if holder else "-"),
            Cell(holder.type if holder else "-"),
            Cell(extent.note),
        ]


def title(picture: Picture) -> str:
    """Return one line about a pool."""
    pool = picture.pool
    return f"NetworkPool {pool.metadata.key}  {pool.spec.cidr}\n"


def whole(picture: Picture, columns: int = COLUMNS) -> str:
    """Return everything about one pool: title, grid, legend, list."""
    if picture.fault:
        return f"{title(picture)}  cannot be drawn: {picture.fault}\n"
    return "\n".join([title(picture) + grid(picture, columns), legend(picture), listing(picture)])
