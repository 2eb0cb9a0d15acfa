"""A pool's space as a picture: rows of addresses, a rectangle for each stretch of a row.

No rectangle is drawn for single addresses: a stretch costs as many rectangles as it touches rows,
so the picture of a large pool is as small as its story is short.
"""

from collections.abc import Iterator
from html import escape

from reconcilers.cli.survey.extents import Extent, Picture, State
from reconcilers.cli.survey.palette import COLOURS

WIDTH = 960
ROW_HEIGHT = 14
LABEL = 120
HEAD = 44
LEGEND = 26
ROWS = 32


def svg(picture: Picture) -> str:
    """Return the picture as one SVG document.

    Args:
        picture: of a pool whose spec makes sense.
    """
    first = picture.inside[0].range.first
    size = picture.inside[-1].range.last - first + 1
    per_row = 1 << max(0, -(-size // ROWS) - 1).bit_length()
    rows = -(-size // per_row)
    height = HEAD + rows * ROW_HEIGHT + LEGEND
    width = LABEL + WIDTH
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" font-family="sans-serif" font-size="11" role="img">\n'
    )
    return "".join(
        [
            opening,
            f"<title>{escape(_title(picture))}</title>\n",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n',
            f'<text x="8" y="22" font-size="15" fill="#1f2328">{escape(_title(picture))}</text>\n',
            *_rectangles(picture, first, per_row),
            *_labels(picture, first, per_row, rows),
            *_legend(picture, height - 10),
            "</svg>\n",
        ]
    )


def _title(picture: Picture) -> str:
    return f"{picture.pool.metadata.key}  {picture.pool.spec.cidr}"


def _rectangles(picture: Picture, first: int, per_row: int) -> Iterator[str]:
    scale = WIDTH / per_row
    for extent in picture.inside:
        begin, end = extent.range.first - first, extent.range.last - first
        for row in range(begin // per_row, end // per_row + 1):
            left = max(begin, row * per_row) - row * per_row
            right = min(end, (row + 1) * per_row - 1) - row * per_row
            yield (
                f'<rect x="{LABEL + left * scale:.2f}" y="{HEAD + row * ROW_HEIGHT}"'
                f' width="{(right - left + 1) * scale:.2f}" height="{ROW_HEIGHT - 2}"'
                f' fill="{COLOURS[extent.state].fill}" stroke="#ffffff" stroke-width="0.5">'
                f"<title>{escape(told(extent))}</title></rect>\n"
            )


def told(extent: Extent) -> str:
    """Return one line about a stretch."""
    who = "; ".join(f"{one.allocation} for {one.tenant} ({one.type})" for one in extent.holders)
    parts = [f"{extent.range.text} ({extent.range.size:,})", extent.state.value, who, extent.note]
    return ", ".join(part for part in parts if part)


def _labels(picture: Picture, first: int, per_row: int, rows: int) -> Iterator[str]:
    family = picture.extents[0].range.family
    every = max(1, rows // ROWS)
    for row in range(0, rows, every):
        start = type(picture.extents[0].range)(
            first + row * per_row, first + row * per_row, family
        ).start_text
        y = HEAD + row * ROW_HEIGHT + ROW_HEIGHT - 4
        yield f'<text x="8" y="{y}" fill="#57606a">{escape(start)}</text>\n'


def _legend(picture: Picture, y: int) -> Iterator[str]:
    counts, x = picture.addresses(), 8
    for state in State:
        if not counts[state]:
            continue
        text = f"{state.value} {counts[state]:,}"
        yield (
            f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{COLOURS[state].fill}"/>'
            f'<text x="{x + 14}" y="{y}" fill="#1f2328">{text}</text>\n'
        )
        x += 34 + 7 * len(text)
