"""Draws a pool for a terminal: a grid of cells, a legend, and the list of all ranges.

Each cell stands for a power of two of addresses, so that rows begin at round addresses. A cell has
one letter. If its addresses have several states, the letter is that of the gravest state
(AddressState is in that order). If the gravest state is one of BY_TENANT, and only some addresses
of the cell are in such states, the letter is that of PARTLY. The list below the grid has every
range.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from controller.plaintext import escape_text
from reconcilers.addressmap.integers import choose_cell_size
from reconcilers.addressmap.styles import STYLES, Style
from reconcilers.cli import output
from reconcilers.cli.forms import Form
from reconcilers.cli.output import GAP, Cell, TableColumn, apply_colour, fit_table
from reconcilers.pictures.extents import (
    BY_TENANT,
    AddressHolder,
    AddressState,
    Extent,
    format_object,
)
from reconcilers.pictures.poolpicture import PoolFamily, PoolPicture

COLUMNS = 64
WIDE = 128
NARROWEST = 8
"""Cells in a row of a picture: COLUMNS usually, WIDE with -o wide, NARROWEST at least."""
ROWS = 32
"""The most rows of a picture."""
COUNT_WIDTH = 12
"""The least width of the counts in a legend, in characters, so that most legends are alike."""
PARTLY = Style("o", "blue", fill="", dark="", words="a cell of which some addresses are held")
_ORDER = {state: place for place, state in enumerate(AddressState)}
"""The place of each state in AddressState: the lower, the graver."""

_Row = tuple[Extent, AddressHolder | None, str]
"""A range, one of its holders (None if it has none), and the holder's name; the name includes the
namespace if that is not the pool's."""
_LISTING: Sequence[TableColumn[_Row]] = (
    TableColumn("START", lambda row: row[0].range.start_text),
    TableColumn("END", lambda row: row[0].range.end_text),
    TableColumn("SIZE", lambda row: row[0].range.size, drop=2),
    TableColumn("STATE", lambda row: build_state_cell(row[0].state)),
    TableColumn("HOLDER", lambda row: row[2] or None),
    TableColumn("TENANT", lambda row: row[1].tenant if row[1] else None, drop=1),
    TableColumn("TYPE", lambda row: row[1].purpose if row[1] else None, drop=4),
    TableColumn("NOTE", lambda row: Cell(row[0].note), drop=3),
)


def build_state_cell(state: AddressState) -> Cell:
    """Return a cell with a state in its colour."""
    return Cell(state.value, STYLES[state].terminal)


def draw_family(pool: PoolPicture, family: PoolFamily, form: Form = "table") -> str:
    """Return one family of a pool, to the width of the terminal: title, grid, legend, list.

    Args:
        family: one of the pool's families.
        form: `wide` for longer rows and all columns, whatever the width.
    """
    title = _wrap_line(escape_text(f"{pool.title}  {family.label}"))
    if family.fault:
        return title + _wrap_line(f"  cannot be drawn: {escape_text(family.fault)}")
    rows = [
        (extent, holder, _name_holder(holder, pool.name.key.namespace))
        for extent in family.extents
        for holder in extent.holders or (None,)
    ]
    return "\n".join(
        [title + _draw_grid(family, form), _draw_legend(family), fit_table(_LISTING, rows, form)]
    )


def _name_holder(holder: AddressHolder | None, namespace: str) -> str:
    """Return the name of a holder; empty for None.

    Args:
        namespace: that of the pool; the name of a holder in it is without namespace.
    """
    return format_object(holder.kind, holder.key, namespace) if holder is not None else ""


def _draw_grid(picture: PoolFamily, form: Form) -> str:
    """Return the grid: for each row, its first address and its cells; then the size of a cell.

    If the terminal has no room for an address beside its row, the address stands above the row.
    """
    first, size = picture.first_and_size
    columns = _choose_columns(picture, form)
    per_cell = choose_cell_size(size, columns * ROWS)
    cells = _build_cells(picture.inside, first, size=size, per_cell=per_cell)
    begins = range(0, len(cells), columns)
    starts = [picture.format_address(first + index * per_cell) for index in begins]
    room, width = output.find_terminal_width(), max(map(len, starts))
    is_beside = form == "wide" or room is None or width + len(GAP) + columns <= room
    heads = [start.ljust(width) if is_beside else f"{start}\n" for start in starts]
    lines = [
        f"{head}{GAP}{_paint_row(cells[index : index + columns])}\n"
        for index, head in zip(begins, heads, strict=True)
    ]
    cell_size = "1 address" if per_cell == 1 else f"{per_cell:,} addresses"
    partly = _draw_legend_entry(PARTLY, "", PARTLY.words)
    legend = partly if PARTLY in cells else ""
    return "".join(lines) + _wrap_line(f"each cell: {cell_size}") + legend


def _choose_columns(picture: PoolFamily, form: Form) -> int:
    """Return the number of cells in a row.

    It is a power of two, so that rows begin at round addresses.
    """
    room = output.find_terminal_width()
    if form == "wide" or room is None:
        return WIDE if form == "wide" else COLUMNS
    first, size = picture.first_and_size
    longest = max(
        len(picture.format_address(first)), len(picture.format_address(first + size - 1))
    )
    # The addresses of rows stand beside them if that leaves NARROWEST cells, else above them.
    beside = room - longest - len(GAP)
    fitting = find_power_of_two_within(beside if beside >= NARROWEST else room - len(GAP))
    return max(NARROWEST, min(COLUMNS, fitting))


def find_power_of_two_within(limit: int) -> int:
    """Return the largest power of two up to a limit; 1 if the limit is less than 1."""
    return 1 << max(0, limit.bit_length() - 1)


def _build_cells(extents: Sequence[Extent], first: int, size: int, per_cell: int) -> list[Style]:
    """Return the style of each cell, by the rules of the module docstring.

    Args:
        extents: the ranges of the pool.
        first: the first address.
        size: the number of addresses.
        per_cell: the number of addresses in a cell.
    """
    cells: list[AddressState | None] = [None] * -(-size // per_cell)
    held_counts: Counter[int] = Counter()
    for extent in extents:
        begin = (extent.range.first - first) // per_cell
        end = (extent.range.last - first) // per_cell
        for index in range(begin, end + 1):
            gravest = cells[index]
            if gravest is None or _ORDER[extent.state] < _ORDER[gravest]:
                cells[index] = extent.state
        if extent.state in BY_TENANT:
            # Only the first and the last cell of a range may have addresses outside of it. The
            # other cells are held as a whole, and are not counted.
            for index in {begin, end}:
                start = first + index * per_cell
                last = min(extent.range.last, start + per_cell - 1)
                held_counts[index] += last - max(extent.range.first, start) + 1
    partly = {
        index
        for index, count in held_counts.items()
        if count < per_cell and cells[index] in BY_TENANT
    }
    return [
        PARTLY if index in partly else STYLES[state or AddressState.OUTSIDE]
        for index, state in enumerate(cells)
    ]


def _paint_row(cells: list[Style]) -> str:
    """Return a row of cells as coloured letters."""
    return "".join(
        apply_colour(style.letter * len(list(run)), style.terminal)
        for style, run in groupby(cells)
    ).rstrip()


def _draw_legend(picture: PoolFamily) -> str:
    """Return a line for each state that occurs: its letter, its number of addresses, its words."""
    counts = picture.count_states()
    width = max(COUNT_WIDTH, len(f"{max(counts.values()):,}"))
    return "".join(
        _draw_legend_entry(style, f"{counts[state]:>{width},}  ", style.words)
        for state, style in STYLES.items()
        if counts[state]
    )


def _draw_legend_entry(style: Style, count: str, words: str) -> str:
    """Return the lines of a legend entry: letter in its colour, count and words, wrapped.

    Args:
        count: the number of addresses as text, with spaces around it; empty for no number.
    """
    # Further lines begin under the count: after two spaces, the letter, and two spaces.
    lines = output.wrap_to_lines(f"  {style.letter}  {count}{words}", " " * 5)
    painted = apply_colour(style.letter, style.terminal)
    first = lines[0].replace(style.letter, painted, 1)
    return "".join(f"{line}\n" for line in [first, *lines[1:]])


def _wrap_line(line: str) -> str:
    """Return a line wrapped to the terminal; its further lines are indented."""
    return output.wrap_line(line, GAP)
