"""A pool's space for people: in a terminal, as SVG, or all pools as one HTML page.

In the terminal: a grid of cells, a legend, and the list of all stretches. Each cell stands for a
power of two of addresses, so that rows begin at round addresses. A cell that is in several states
shows the gravest of them (State is in that order); the list has every stretch.

SVG has a rectangle for each row that a stretch touches, and none for single addresses, so the
picture of a large pool is as small as its story is short. The page needs nothing else: no server,
no network, no other file. The objects go into it as JSON, and names come from whoever may create
objects, so they reach the page as data only: `</` cannot end the script, and the page sets texts,
never markup.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

from allocator import AddressRange
from reconcilers.cli.output import Cell, Column, painted_text, table
from reconcilers.cli.survey.extents import Extent, Holder, Picture, State, Usage, usages
from reconcilers.cli.survey.objects import Objects

COLUMNS = 64
WIDE = 128
ROWS = 32
_ORDER = {state: place for place, state in enumerate(State)}

SVG_WIDTH = 960
SVG_ROW = 14
SVG_LABEL = 120
SVG_HEAD = 44
SVG_LEGEND = 26
_FONT = 'font-family="sans-serif" font-size="11"'

_PLACE_OF_DATA = "/*DATA*/null"


@dataclass(frozen=True, slots=True)
class Style:
    """How a state is shown.

    The colours of pictures are told apart by people who see no red or no green (the order of
    their lightness says it too), and each has contrast on light and on dark ground.

    Args:
        letter: in a picture of letters.
        terminal: click's name of its colour; None for the terminal's own.
        fill: CSS colour in pictures.
        dark: the same where the ground is dark, so that what is most of a pool does not glare.
        words: what it means, for a legend.
    """

    letter: str
    terminal: str | None
    fill: str
    dark: str
    words: str


STYLES: Mapping[State, Style] = {
    State.OVERLAP: Style("!", "bright_red", "#d1242f", "#ff7b72", "held by several"),
    State.STRAY: Style("?", "magenta", "#bf3989", "#f778ba", "held, though not to be handed out"),
    State.RELEASING: Style("<", "yellow", "#d4a72c", "#e3b341", "being given back"),
    State.ALLOCATED: Style("#", "blue", "#0969da", "#58a6ff", "held"),
    State.PROMISED: Style("+", "cyan", "#54aeff", "#a5d6ff", "chosen, not yet written"),
    State.RESERVED: Style("x", "bright_black", "#6e7781", "#8b949e", "reserved"),
    State.FREE: Style(".", "green", "#aceebb", "#1b4b2a", "free"),
    State.OUTSIDE: Style(" ", None, "#d0d7de", "#2d333b", "outside the ranges for tenants"),
}

_Row = tuple[Extent, Holder | None]
_LISTING: Sequence[Column[_Row]] = (
    Column("START", lambda row: row[0].range.start_text),
    Column("END", lambda row: row[0].range.end_text),
    Column("SIZE", lambda row: row[0].range.size),
    Column("STATE", lambda row: state_cell(row[0].state)),
    Column("ALLOCATION", lambda row: row[1].allocation.name if row[1] else None),
    Column("TENANT", lambda row: str(row[1].tenant) if row[1] else None),
    Column("TYPE", lambda row: row[1].type if row[1] else None),
    Column("NOTE", lambda row: Cell(row[0].note)),
)


def state_cell(state: State) -> Cell:
    """Return a state in its colour."""
    return Cell(state.value, STYLES[state].terminal)


def drawn(picture: Picture, columns: int = COLUMNS) -> str:
    """Return everything about one pool for a terminal: title, grid, legend, list."""
    title = f"NetworkPool {picture.pool.metadata.key}  {picture.pool.spec.cidr}\n"
    if picture.fault:
        return f"{title}  cannot be drawn: {picture.fault}\n"
    rows = [(one, holder) for one in picture.extents for holder in one.holders or (None,)]
    return "\n".join([title + _grid(picture, columns), _legend(picture), table(_LISTING, rows)])


def _grid(picture: Picture, columns: int) -> str:
    """Return a line for each row of so many cells, with the address it begins at."""
    first, size = _first_and_size(picture)
    per_cell = _power_of_two(size, columns * ROWS)
    cells = _cells(picture.inside, first, size, per_cell)
    begins = range(0, len(cells), columns)
    starts = [_address(picture, first + at * per_cell) for at in begins]
    width = max(map(len, starts))
    lines = [
        f"{start.ljust(width)}  {_line(cells[at : at + columns])}\n"
        for at, start in zip(begins, starts, strict=True)
    ]
    what = "1 address" if per_cell == 1 else f"{per_cell:,} addresses"
    return "".join(lines) + f"each cell: {what}\n"


def _first_and_size(picture: Picture) -> tuple[int, int]:
    """Return the number of a pool's first address, and how many addresses it has."""
    first = picture.inside[0].range.first
    return first, picture.inside[-1].range.last - first + 1


def _power_of_two(size: int, most: int) -> int:
    """Return the least power of two of which `most` are enough for `size`."""
    return 1 << max(0, -(-size // most) - 1).bit_length()


def _address(picture: Picture, number: int) -> str:
    return AddressRange(number, number, picture.extents[0].range.family).start_text


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
        painted_text(STYLES[state].letter * len(list(run)), STYLES[state].terminal)
        for state, run in groupby(cells)
    ).rstrip()


def _legend(picture: Picture) -> str:
    """Return the states that occur, with how many addresses are in each."""
    counts = picture.addresses()
    return "".join(
        f"  {painted_text(style.letter, style.terminal)}  {counts[state]:>12,}  {style.words}\n"
        for state, style in STYLES.items()
        if counts[state]
    )


def svg(picture: Picture) -> str:
    """Return the picture of a pool whose spec makes sense as one SVG document."""
    first, size = _first_and_size(picture)
    per_row = _power_of_two(size, ROWS)
    rows = -(-size // per_row)
    height, width = SVG_HEAD + rows * SVG_ROW + SVG_LEGEND, SVG_LABEL + SVG_WIDTH
    size_of = f'width="{width}" height="{height}" {_FONT} role="img"'
    title = escape(f"{picture.pool.metadata.key}  {picture.pool.spec.cidr}")
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size_of}>\n',
            f"<title>{title}</title>\n",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n',
            f'<text x="8" y="22" font-size="15" fill="#1f2328">{title}</text>\n',
            *_svg_rectangles(picture, first, per_row),
            *_svg_labels(picture, first, per_row, rows),
            *_svg_legend(picture, height - 10),
            "</svg>\n",
        ]
    )


def _svg_rectangles(picture: Picture, first: int, per_row: int) -> Iterator[str]:
    scale = SVG_WIDTH / per_row
    for extent in picture.inside:
        begin, end = extent.range.first - first, extent.range.last - first
        for row in range(begin // per_row, end // per_row + 1):
            left = max(begin - row * per_row, 0)
            right = min(end - row * per_row, per_row - 1)
            yield (
                f'<rect x="{SVG_LABEL + left * scale:.2f}" y="{SVG_HEAD + row * SVG_ROW}"'
                f' width="{(right - left + 1) * scale:.2f}" height="{SVG_ROW - 2}"'
                f' fill="{STYLES[extent.state].fill}" stroke="#ffffff" stroke-width="0.5">'
                f"<title>{escape(_in_words(extent))}</title></rect>\n"
            )


def _in_words(extent: Extent) -> str:
    who = "; ".join(f"{one.allocation} for {one.tenant} ({one.type})" for one in extent.holders)
    parts = [f"{extent.range.text} ({extent.range.size:,})", extent.state.value, who, extent.note]
    return ", ".join(part for part in parts if part)


def _svg_labels(picture: Picture, first: int, per_row: int, rows: int) -> Iterator[str]:
    for row in range(rows):
        start = escape(_address(picture, first + row * per_row))
        y = SVG_HEAD + row * SVG_ROW + SVG_ROW - 4
        yield f'<text x="8" y="{y}" fill="#57606a">{start}</text>\n'


def _svg_legend(picture: Picture, y: int) -> Iterator[str]:
    counts, x = picture.addresses(), 8
    for state in filter(counts.get, State):
        text = f"{state.value} {counts[state]:,}"
        yield (
            f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{STYLES[state].fill}"/>'
            f'<text x="{x + 14}" y="{y}" fill="#1f2328">{text}</text>\n'
        )
        x += 34 + 7 * len(text)


def page(pictures: Sequence[Picture], objects: Objects, now: datetime) -> str:
    """Return the HTML page with these pictures, and the pools' figures as of `now`."""
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    figures = {(one.pool.metadata.key, one.pool.spec.cidr): one for one in usages(objects)}
    data = {
        "made": now.strftime("%Y-%m-%d %H:%M UTC"),
        "states": {
            state.value: {"fill": style.fill, "dark": style.dark, "words": style.words}
            for state, style in STYLES.items()
        },
        "pools": [_pool_data(one, figures) for one in pictures],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for unsafe in ("<", "\u2028", "\u2029"):
        text = text.replace(unsafe, f"\\u{ord(unsafe):04x}")
    return template.replace(_PLACE_OF_DATA, text)


def _pool_data(one: Picture, known: Mapping[Any, Usage]) -> dict[str, Any]:
    cidr, figures = one.cidr, known[one.pool.metadata.key, one.pool.spec.cidr]
    return {
        "name": str(one.pool.metadata.key),
        "cidr": one.pool.spec.cidr,
        "fault": one.fault,
        "first": cidr.start_text if cidr else "",
        "size": cidr.size if cidr else 0,
        "ready": figures.ready,
        "reason": figures.reason,
        "percent": figures.percent,
        "fragmentation": figures.capacity.fragmentation_percent,
        "largest": figures.capacity.largest_free,
        "available": figures.capacity.available,
        "total": figures.capacity.total,
        "waiting": figures.waiting,
        # From the CIDR's first address: numbers of a browser are exact up to 2^53.
        "extents": [
            extent.document() | {"at": extent.range.first - (cidr.first if cidr else 0)}
            for extent in one.extents
        ],
    }
