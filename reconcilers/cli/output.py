"""The output of commands: tables for people, documents for programs, names for pipes.

Tables are aligned. Colours are used on a terminal only. A bar shows how full a pool is.
"""

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import click
import yaml

from allocator import utilization_percent
from controller.plaintext import escape_json, escape_lines, escape_text
from reconcilers.addressmap.integers import convert_large_integers
from reconcilers.api import names
from reconcilers.cli.forms import Form

T = TypeVar("T")


GAP = "  "
"""The space between two columns, and the indentation of further lines."""
NARROWEST_TEXT = 24
"""The least width of a wrapped text, in characters."""
BAR = 20
"""The width of a bar, in characters."""
STATUS_COLOURS = {"True": "green", "False": "red"}
"""The colours of a condition's status."""
_WIDTH = 100
"""The width of lines in YAML, in characters."""
_LONG = 10**12
"""From this number on, a shortened number is a power of ten."""
_REPORT = "report.butler-ipam/v1"
"""The apiVersion of documents for programs."""
NOT_READ = "reconcilers.cli.not_read"
"""The key in click's context under which a command keeps the lists that the user may not read."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table.

    Args:
        content: one line; control characters in it are escaped, whoever wrote it.
        colour: click's name of a colour; None for the terminal's own.
        right: whether it is aligned to the right, as numbers are.
    """

    content: str
    colour: str | None = None
    right: bool = False

    def __post_init__(self) -> None:
        """Escape the text."""
        object.__setattr__(self, "content", escape_text(self.content))


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[T]):
    """One column of a table.

    Args:
        head: its heading.
        value: returns the value of a row; a number is aligned to the right, None becomes a dash.
        wide: whether the column is shown only with -o wide, or if the terminal has room for it.
        narrow: returns a shorter value for a terminal without room; None shortens numbers only.
        drop: the columns with the highest number are left out first if there is no room; 0 means
            never.
        wraps: whether the text may take several lines; only the last column may.
    """

    head: str
    value: Callable[[T], Cell | str | int | None]
    wide: bool = False
    narrow: Callable[[T], Cell | str | int | None] | None = None
    drop: int = 0
    wraps: bool = False

    def build_cell(self, row: T) -> Cell:
        """Return the cell of a row; a dash for a value that is None or empty."""
        value = self.value(row)
        if isinstance(value, Cell):
            return value
        return build_number_cell(value) if isinstance(value, int) else Cell(value or "-")


def render_table(
    columns: Sequence[TableColumn[T]], rows: Iterable[T], *, wide: bool = True
) -> str:
    """Return a table as text, whatever its width; empty without rows.

    Args:
        columns: from left to right.
        rows: the objects to show, one for each row.
        wide: whether columns for -o wide are shown.
    """
    shown_columns = [column for column in columns if wide or not column.wide]
    cells = [[column.build_cell(row) for column in shown_columns] for row in rows]
    if not cells:
        return ""
    heads = [
        Cell(column.head, right=first.right)
        for column, first in zip(shown_columns, cells[0], strict=True)
    ]
    lines = [heads, *cells]
    widths = [
        max(len(line[index].content) for line in lines) for index in range(len(shown_columns))
    ]
    return "".join(_render_line(line, widths) for line in lines)


def find_terminal_width() -> int | None:
    """Return the width of standard output in characters; None if it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit_table(
    columns: Sequence[TableColumn[T]], rows: Iterable[T], form: Form, *, indent: str = ""
) -> str:
    """Return a table that fits the width of the terminal.

    If even the narrowest table does not fit, each row is a block with a line for each column. With
    -o wide, and in a file or a pipe, the table has any width.

    Args:
        columns: from left to right.
        rows: the objects to show, one for each row.
        form: `wide` shows all columns.
        indent: the beginning of each line.
    """
    width = find_terminal_width()
    room = None if form == "wide" or width is None else width - len(indent)
    return textwrap.indent(_fit_into(room, columns, list(rows), wide=form == "wide"), indent)


def _fit_into(
    room: int | None, columns: Sequence[TableColumn[T]], rows: Sequence[T], *, wide: bool
) -> str:
    """Return a table that fits a width.

    From the widest choice of columns to the narrowest, the first that fits is taken:

    1. The table as it is.
    2. The table with its last column wrapped, if that column may be wrapped.

    If none fits, each row becomes a block with a line for each column.

    Args:
        room: the width in characters; None for no limit.
        columns: from left to right.
        rows: the objects to show, one for each row.
        wide: whether columns for -o wide are shown if there is no limit.
    """
    if room is None:
        return render_table(columns, rows, wide=wide)
    for choice in _narrow_columns(columns):
        narrowed = render_table(choice, rows)
        if max(map(len, click.unstyle(narrowed).splitlines()), default=0) <= room:
            return narrowed
        if choice[-1].wraps and (wrapped := _wrap_last_column(choice, rows, room)):
            return wrapped
    needed = [column for column in columns if not column.wide]
    return "\n".join(_render_block(needed, row, room) for row in rows)


def wrap_to_lines(line: str, indent: str = "") -> list[str]:
    """Return a line as lines that fit the terminal.

    Args:
        line: the line; control characters in it are escaped.
        indent: the beginning of all lines but the first.
    """
    line = escape_text(line)
    room = find_terminal_width()
    if room is None:
        return [line]
    return _wrap(line, max(room, NARROWEST_TEXT), indent)


def wrap_line(unwrapped: str, indent: str = "") -> str:
    """Return a line as one text of lines that fit the terminal, each with its newline."""
    return "".join(f"{line}\n" for line in wrap_to_lines(unwrapped, indent))


def _wrap_last_column(columns: Sequence[TableColumn[T]], rows: Sequence[T], room: int) -> str:
    """Return a table whose last column is wrapped; empty if that column has too little room.

    The table is rendered with the first line of each wrapped value. The further lines are put
    below, without the other columns.
    """
    *other_columns, last_column = columns
    margin = max(
        map(len, click.unstyle(render_table(other_columns, rows)).splitlines()), default=0
    )
    width = room - margin - len(GAP)
    if width < NARROWEST_TEXT:
        return ""
    texts = [_wrap(last_column.build_cell(row).content, width) for row in rows]
    # `value` is called once for each row, in order.
    first_texts = iter([cell_lines[0] for cell_lines in texts])
    first_lines = replace(last_column, value=lambda _: next(first_texts), narrow=None)
    lines = render_table([*other_columns, first_lines], rows).splitlines(keepends=True)
    indent = " " * (margin + len(GAP))
    parts = [lines[0]]
    for line, further_lines in zip(lines[1:], texts, strict=True):
        parts += [line, *(f"{indent}{further}\n" for further in further_lines[1:])]
    return "".join(parts)


def _wrap(line: str, width: int, indent: str = "") -> list[str]:
    """Return a line as lines of a width: at least one, which may be empty."""
    wrapped = textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return wrapped or [""]


def _render_block(columns: Sequence[TableColumn[T]], row: T, room: int) -> str:
    """Return a row as a line for each column, for a terminal without room for a table.

    A value with a word that does not fit beside its heading goes below the heading.
    """
    margin = max(len(column.head) for column in columns) + len(GAP)
    lines = []
    for column in columns:
        cell = _narrow_column(column).build_cell(row)
        is_below = max(map(len, cell.content.split()), default=0) > room - margin
        indent = GAP if is_below else " " * margin
        texts = _wrap(cell.content, max(room - len(indent), 1))
        texts = [apply_colour(line, cell.colour) for line in texts]
        if is_below:
            lines += [column.head, *(f"{indent}{line}" for line in texts)]
        else:
            lines += [f"{column.head.ljust(margin)}{texts[0]}"]
            lines += [f"{indent}{line}" for line in texts[1:]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _narrow_columns(columns: Sequence[TableColumn[T]]) -> Iterator[list[TableColumn[T]]]:
    """Yield choices of columns, each narrower than the one before.

    1. All columns.
    2. Without the columns for -o wide, which are removed one by one.
    3. The remaining columns with narrow values.
    4. Without the columns that may be dropped, which are removed one by one by `drop`.

    The yielded list is changed afterwards, so a caller must not keep it.
    """
    choice = list(columns)
    yield choice
    for wide_column in reversed([wide_column for wide_column in columns if wide_column.wide]):
        choice.remove(wide_column)
        yield choice
    choice = [_narrow_column(column) for column in choice]
    yield choice
    for droppable in sorted(
        (droppable for droppable in choice if droppable.drop),
        key=lambda droppable: -droppable.drop,
    ):
        choice.remove(droppable)
        yield choice


def _narrow_column(column: TableColumn[T]) -> TableColumn[T]:
    """Return a column with its narrow values, or else with shortened numbers."""
    return replace(column, value=column.narrow or partial(_shorten_value, column.value))


def _shorten_value(
    value: Callable[[T], Cell | str | int | None], row: T
) -> Cell | str | int | None:
    """Return the value of a row; a number is shortened."""
    cell = value(row)
    return Cell(shorten_number(cell), right=True) if isinstance(cell, int) else cell


def shorten_number(value: int) -> str:
    """Return a number with separators of thousands; above twelve digits, as a power of ten."""
    return f"{value:,}" if value < _LONG else f"{value:.1e}"


def join_tables(*parts: str) -> str:
    """Return tables one below the other, without the empty ones."""
    return "\n".join(filter(None, parts))


def _render_line(cells: Sequence[Cell], widths: Sequence[int]) -> str:
    """Return one line of a table: the cells aligned to the widths of the columns, and coloured."""
    texts = [
        cell.content.rjust(width) if cell.right else cell.content.ljust(width)
        for cell, width in zip(cells, widths, strict=True)
    ]
    texts[-1] = texts[-1].rstrip()
    colours = [cell.colour for cell in cells]
    painted = [
        apply_colour(cell_text, colour) for cell_text, colour in zip(texts, colours, strict=True)
    ]
    return GAP.join(painted).rstrip() + "\n"


def apply_colour(content: str, colour: str | None) -> str:
    """Return a text in a colour of click; unchanged for None."""
    return click.style(content, fg=colour) if colour else content


def build_number_cell(value: int | None) -> Cell:
    """Return a cell with a number and separators of thousands; a dash for None."""
    return Cell("-" if value is None else f"{value:,}", right=True)


def build_percent_cell(value: int | None) -> Cell:
    """Return a cell with a percentage; 0% for None."""
    return Cell(f"{value or 0}%", right=True)


def draw_bar(used: int, total: int, width: int = BAR) -> Cell:
    """Return a cell with a bar and a percentage: `[####----------------]  20%`.

    The bar is rounded up, so that it shows a single address, too. Its colour changes at the
    thresholds of a pool's conditions CapacityWarning (70 %) and CapacityExhausted (95 %).
    """
    share = utilization_percent(used, total)
    filled = min(width, -(-width * used // total)) if total else 0
    colour = "red" if share >= 95 else "yellow" if share >= 70 else "green"
    return Cell(f"[{'#' * filled}{'-' * (width - filled)}] {share:>3}%", colour)


def show(
    form: Form,
    document: Callable[[], Mapping[str, Any]],
    object_names: Iterable[tuple[str, str]],
    as_text: Callable[[], str],
) -> None:
    """Print the result of a command in the form of --output.

    Args:
        form: the value of --output.
        document: returns the document for programs.
        object_names: kind in lower case and name of each object, as `kubectl get -o name` prints
            them. A kind without a group is one of ours.
        as_text: returns the text for people.
    """
    match form:
        case "name":
            full_names = (
                (kind if "." in kind else f"{kind}.{names.GROUP}", name)
                for kind, name in object_names
            )
            lines = (f"{kind}/{escape_text(name)}\n" for kind, name in full_names)
            output = "".join(dict.fromkeys(lines))  # each object once
        case "json":
            output = render_json(document())
        case "yaml":
            output = render_yaml([document()])
        case _:  # table or wide
            output = as_text()
    click.echo(output, nl=False)


def build_report(kind: str, **parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a document for programs, with a version, because programs rely on its form.

    `notRead` has the lists that the user may not read. A command notes them in click's context.

    Args:
        kind: the kind of the document, such as `PoolList`.
        **parts: its lists, such as `items`.
    """
    head: dict[str, Any] = {"apiVersion": _REPORT, "kind": kind}
    context = click.get_current_context(silent=True)
    if context is not None and (not_read := context.meta.get(NOT_READ)):
        head["notRead"] = not_read
    return head | {
        name: [convert_large_integers(item) for item in items] for name, items in parts.items()
    }


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # C if there
    """Writes a value that occurs twice in full each time, because anchors are hard to read."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Return True: no value is replaced by an alias."""
        return True


# Values from a file are subclasses of dict and list that know their lines.
_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
_Dumper.add_multi_representer(list, yaml.SafeDumper.represent_list)


def render_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the objects as YAML, separated by `---`."""
    return "---\n".join(map(_as_yaml, documents))


def _as_yaml(document: Mapping[str, Any]) -> str:
    """Return an object as YAML; if it has control characters, with all of Unicode escaped."""
    readable = _dump(document, allow_unicode=True)
    # PyYAML escapes invisible control characters only together with all of Unicode.
    return readable if readable == escape_lines(readable) else _dump(document, allow_unicode=False)


def _dump(document: Mapping[str, Any], *, allow_unicode: bool) -> str:
    """Return an object as YAML in block style, with its fields in their order."""
    return str(
        yaml.dump(
            document,
            Dumper=_Dumper,
            sort_keys=False,
            allow_unicode=allow_unicode,
            width=_WIDTH,
            default_flow_style=False,
        )
    )


def render_json(document: Mapping[str, Any]) -> str:
    """Return one object as indented JSON."""
    return escape_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def build_list(items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return objects as a List of Kubernetes, as `kubectl get -o json` prints them."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items)}
