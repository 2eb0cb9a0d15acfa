"""A pool's space as SVG.

There is one rectangle for each range and row, and none for single addresses, so the picture of a
large pool with few ranges is small. There are at most 32 rows, of 16 addresses at least, as on the
page. The name of a tenant stands in its range if it fits, and beside the row if not.
"""

from collections.abc import Iterator, Mapping
from html import escape as escape_markup

from controller.plaintext import escape_text
from reconcilers.addressmap.integers import choose_cell_size
from reconcilers.addressmap.looks import FILLS, PATTERNS, TILE, ExtentLook, find_look
from reconcilers.addressmap.styles import STYLES
from reconcilers.pictures.extents import BY_TENANT, AddressState, Extent
from reconcilers.pictures.poolpicture import PoolFamily

# The most rows, and the fewest addresses of a row.
ROWS = 32
LEAST_PER_ROW = 16
# Sizes in pixels. From left to right: the row's first address, its ranges, names that do not fit.
LABEL = 120
WIDTH = 960
NAMES_WIDTH = 260
# From top to bottom: the title, the rows, the legend.
HEAD = 44
ROW = 18
LEGEND_ROW = 20
LEGEND_COLUMNS = 4
_LETTER = 6.6
"""About how many pixels wide a letter is."""
_FONT = 'font-family="sans-serif" font-size="11"'


def draw_svg(title: str, picture: PoolFamily, numbers: Mapping[str, int]) -> str:
    """Return one family of a pool as one SVG document.

    Args:
        title: kind and name of the pool.
        picture: the family; it has no fault.
        numbers: the number of each tenant's look, from `assign_look_numbers`.
    """
    first, size = picture.first_and_size
    per_row = max(LEAST_PER_ROW, choose_cell_size(size, ROWS))
    rows = -(-size // per_row)  # rounded up
    tenant_names = {extent.tenant_text for extent in picture.inside if extent.state in BY_TENANT}
    by_tenant = {name: find_look(numbers[name]) for name in sorted(tenant_names)}
    entries = [*_list_state_entries(picture), *_list_tenant_entries(picture, by_tenant)]
    legend = HEAD + rows * ROW + LEGEND_ROW
    height = legend + -(-len(entries) // LEGEND_COLUMNS) * LEGEND_ROW
    width = LABEL + WIDTH + NAMES_WIDTH
    view_box = f'viewBox="0 0 {width} {height}"'
    attributes = f'{view_box} width="{width}" height="{height}" {_FONT} role="img"'
    title = escape_xml(f"{title}  {picture.label}")
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>\n',
            f"<title>{title}</title>\n",
            _draw_patterns(set(by_tenant.values())),
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n',
            f'<text x="8" y="22" font-size="15" fill="#1f2328">{title}</text>\n',
            *_draw_rectangles(picture, first, per_row=per_row, by_tenant=by_tenant),
            *_draw_labels(picture, first, per_row=per_row, rows=rows),
            *_draw_legend(entries, legend),
            "</svg>\n",
        ]
    )


def _draw_patterns(looks: set[ExtentLook]) -> str:
    """Return the SVG definitions of the patterns that the rectangles use."""
    patterns = "".join(
        f'<pattern id="{look.name}" width="{TILE}" height="{TILE}" patternUnits="userSpaceOnUse">'
        f'<rect width="{TILE}" height="{TILE}" fill="{FILLS[look.colour]}"/>'
        f'<path d="{PATTERNS[look.pattern]}" stroke="#ffffff" stroke-width="1.6" fill="none"/>'
        "</pattern>\n"
        for look in sorted(looks, key=lambda look: look.name)
    )
    return f"<defs>\n{patterns}</defs>\n"


def _choose_fill(extent: Extent, by_tenant: Mapping[str, ExtentLook]) -> str:
    """Return the SVG fill of a range: the tenant's pattern, or else the colour of the state."""
    if extent.state in BY_TENANT:
        return f"url(#{by_tenant[extent.tenant_text].name})"
    return STYLES[extent.state].fill


def _draw_rectangles(
    picture: PoolFamily, first: int, per_row: int, by_tenant: Mapping[str, ExtentLook]
) -> Iterator[str]:
    """Yield a rectangle for each range and row, with its tenant's name where it fits.

    A name that fits nowhere in its range goes to the right of the range's first row.
    """
    scale = WIDTH / per_row
    after_row: dict[int, list[str]] = {}
    for extent in picture.inside:
        begin, end = extent.range.first - first, extent.range.last - first
        name = extent.tenant_text
        for row in range(begin // per_row, end // per_row + 1):
            first_column = max(begin - row * per_row, 0)
            last_column = min(end - row * per_row, per_row - 1)
            x, width = LABEL + first_column * scale, (last_column - first_column + 1) * scale
            yield (
                f'<rect x="{x:.2f}" y="{HEAD + row * ROW}"'
                f' width="{width:.2f}" height="{ROW - 2}" fill="{_choose_fill(extent, by_tenant)}"'
                ' stroke="#ffffff" stroke-width="0.5">'
                f"<title>{escape_xml(_describe_extent(extent))}</title></rect>\n"
            )
            if not name:
                continue
            if len(name) * _LETTER + 8 <= width:  # 8 pixels of margin
                yield _draw_name(name, x + 3, HEAD + row * ROW)
                name = ""  # written once, in the first row with room
            elif row == end // per_row:
                # The last row has no room either: the name goes beside the first row.
                after_row.setdefault(begin // per_row, []).append(name)
    for row, names in after_row.items():
        yield _draw_names_after_row(names, HEAD + row * ROW + ROW - 5)


def _draw_name(name: str, x: float, y: float) -> str:
    """Return a tenant's name on white ground, because it cannot be read on a pattern."""
    return (
        f'<rect x="{x:.2f}" y="{y + 2}" width="{len(name) * _LETTER + 4:.2f}" height="{ROW - 6}"'
        ' rx="2" fill="#ffffff" fill-opacity="0.9"/>'
        f'<text x="{x + 2:.2f}" y="{y + 12}" fill="#1f2328">{escape_xml(name)}</text>\n'
    )


def _draw_names_after_row(names: list[str], y: int) -> str:
    """Return names that do not fit into their ranges, to the right of a row, cut to the width."""
    joined_names = ", ".join(dict.fromkeys(names))
    max_letters = int(NAMES_WIDTH / _LETTER) - 2  # a margin, because letters differ in width
    short = (
        joined_names if len(joined_names) <= max_letters else joined_names[: max_letters - 1] + "…"
    )
    return f'<text x="{LABEL + WIDTH + 6}" y="{y}" fill="#57606a">{escape_xml(short)}</text>\n'


def _describe_extent(extent: Extent) -> str:
    """Return a range with size, state, holders and note as text, for a tooltip."""
    holders = "; ".join(
        f"{holder.text} for {holder.tenant} ({holder.purpose})" for holder in extent.holders
    )
    parts = [
        f"{extent.range.text} ({extent.range.size:,})",
        extent.state.value,
        holders,
        extent.note,
    ]
    return ", ".join(part for part in parts if part)


def _draw_labels(picture: PoolFamily, first: int, per_row: int, rows: int) -> Iterator[str]:
    """Yield a label to the left of each row: the row's first address."""
    for row in range(rows):
        start = escape_xml(picture.format_address(first + row * per_row))
        y = HEAD + row * ROW + ROW - 5
        yield f'<text x="8" y="{y}" fill="#57606a">{start}</text>\n'


def _list_state_entries(picture: PoolFamily) -> Iterator[tuple[str, str]]:
    """Yield fill and text of a legend entry for each state that occurs.

    The states in BY_TENANT are left out: they have the colours of tenants, with their own entries.
    """
    counts = picture.count_states()
    for state in AddressState:
        if counts.get(state) and state not in BY_TENANT:
            yield STYLES[state].fill, f"{state.value} {counts[state]:,}"


def _list_tenant_entries(
    picture: PoolFamily, by_tenant: Mapping[str, ExtentLook]
) -> Iterator[tuple[str, str]]:
    """Yield fill and text of a legend entry for each tenant, with its number of addresses."""
    for name, look in by_tenant.items():
        sizes = [extent.range.size for extent in picture.inside if extent.tenant_text == name]
        yield f"url(#{look.name})", f"{name} {sum(sizes):,}"


def _draw_legend(entries: list[tuple[str, str]], top: int) -> Iterator[str]:
    """Yield a coloured square and a text for each entry, in LEGEND_COLUMNS columns."""
    for index, (fill, label) in enumerate(entries):
        x = 8 + index % LEGEND_COLUMNS * ((LABEL + WIDTH + NAMES_WIDTH) // LEGEND_COLUMNS)
        y = top + index // LEGEND_COLUMNS * LEGEND_ROW
        yield (
            f'<rect x="{x}" y="{y - 12}" width="16" height="16" fill="{fill}"/>'
            f'<text x="{x + 22}" y="{y}" fill="#1f2328">{escape_xml(label)}</text>\n'
        )


def escape_xml(content: str) -> str:
    """Return a text of unknown origin as XML text: markup and control characters are escaped."""
    return escape_markup(escape_text(content))
