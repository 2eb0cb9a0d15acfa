"""A pool's space as SVG.

There is a rectangle for each row that a stretch touches, and none for single addresses, so the
picture of a large pool is as small as its story is short.
"""

from collections.abc import Iterator
from html import escape

from reconcilers.addressmap.extents import Extent, Picture, State, power_of_two
from reconcilers.addressmap.styles import STYLES

ROWS = 32
SVG_WIDTH = 960
SVG_ROW = 14
SVG_LABEL = 120
SVG_HEAD = 44
SVG_LEGEND = 26
_FONT = 'font-family="sans-serif" font-size="11"'


def svg(picture: Picture) -> str:
    """Return the picture of a pool whose spec makes sense as one SVG document."""
    first, size = picture.first_and_size
    per_row = power_of_two(size, ROWS)
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
        start = escape(picture.address(first + row * per_row))
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
