"""What commands print: tables for people, documents for programs, names for pipes.

Tables are aligned, coloured on a terminal only, with bars for how full a pool is.
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
from reconcilers.addressmap.integers import write_large_as_text
from reconcilers.api import names
from reconcilers.cli.forms import Form

T = TypeVar("T")


GAP = "  "
NARROWEST_TEXT = 24
"""Columns that a wrapped text needs at least."""
BAR = 20
STATUS_COLOURS = {"True": "green", "False": "red"}
"""Of a condition's status."""
_WIDTH = 100
_LONG = 10**12
_REPORT = "report.butler-ipam/v1"
NOT_READ = "reconcilers.cli.not_read"
"""Where the context of a command has what the user may not read."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table, in a colour of click's, aligned to the right as numbers are.

    Its text is one line without control characters, whoever wrote it.
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
        value: what a row says there; a number is aligned to the right, None is a dash.
        wide: whether it is shown with -o wide only, and where a terminal has room for it.
        narrow: what a row says there on a terminal that has no room for the value; without it,
            numbers are `short`.
        drop: columns of higher numbers are left out first where there is no room; 0 for never.
        wraps: whether it is a text that may take several lines on a terminal; the last column.
    """

    head: str
    value: Callable[[T], Cell | str | int | None]
    wide: bool = False
    narrow: Callable[[T], Cell | str | int | None] | None = None
    drop: int = 0
    wraps: bool = False

    def cell(self, row: T) -> Cell:
        """Return the cell of a row."""
        value = self.value(row)
        if isinstance(value, Cell):
            return value
        return number(value) if isinstance(value, int) else Cell(value or "-")


def table(columns: Sequence[TableColumn[T]], rows: Iterable[T], *, wide: bool = True) -> str:
    """Return the lines of a table; a column of numbers has its heading on the right too.

    Args:
        columns: from left to right.
        rows: what each row is about; no text at all if there is none.
        wide: whether columns for -o wide are shown.
    """
    shown_columns = [column for column in columns if wide or not column.wide]
    cells = [[column.cell(row) for column in shown_columns] for row in rows]
    if not cells:
        return ""
    heads = [
        Cell(column.head, right=first.right)
        for column, first in zip(shown_columns, cells[0], strict=True)
    ]
    lines = [heads, *cells]
    widths = [max(len(line[at].content) for line in lines) for at in range(len(shown_columns))]
    return "".join(_line(line, widths) for line in lines)


def terminal_width() -> int | None:
    """Return how many columns standard output has; None if it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def fit_table(
    columns: Sequence[TableColumn[T]], rows: Iterable[T], form: Form, *, indent: str = ""
) -> str:
    """Return a table that fits the terminal and uses its width; all there is where it has none.

    Where even the narrowest table does not fit, each row is a block with a line for each column.
    What is written to a file or a pipe is the same whatever the window, and so is -o wide.

    Args:
        columns: from left to right.
        rows: what each row is about.
        form: `wide` for all columns, in whatever width.
        indent: what each line begins with.
    """
    width = terminal_width()
    room = None if form == "wide" or width is None else width - len(indent)
    return textwrap.indent(_fitted_into(room, columns, list(rows), wide=form == "wide"), indent)


def _fitted_into(
    room: int | None, columns: Sequence[TableColumn[T]], rows: Sequence[T], *, wide: bool
) -> str:
    """Return a table that fits a width; see `fit_table`.

    Args:
        room: how many columns there are; None for no limit.
        columns: from left to right.
        rows: what each row is about.
        wide: whether columns for -o wide are shown where there is no limit.
    """
    if room is None:
        return table(columns, rows, wide=wide)
    for kept in _ever_narrower(columns):
        narrowed = table(kept, rows)
        if max(map(len, click.unstyle(narrowed).splitlines()), default=0) <= room:
            return narrowed
        if kept[-1].wraps and (wrapped := _wrapped_table(kept, rows, room)):
            return wrapped
    needed = [column for column in columns if not column.wide]
    return "\n".join(_block(needed, row, room) for row in rows)


def wrapped_lines(line: str, indent: str = "") -> list[str]:
    """Return a line as lines that fit the terminal; those after the first are indented.

    Args:
        line: the line; control characters in it are shown as escapes.
        indent: what the further lines begin with.
    """
    line = escape_text(line)
    room = terminal_width()
    if room is None:
        return [line]
    return _wrap(line, max(room, NARROWEST_TEXT), indent)


def wrap_line(unwrapped: str, indent: str = "") -> str:
    """Return a line as `wrapped_lines` does, as one text with all ends of lines."""
    return "".join(f"{line}\n" for line in wrapped_lines(unwrapped, indent))


def _wrapped_table(columns: Sequence[TableColumn[T]], rows: Sequence[T], room: int) -> str:
    """Return a table whose last column is wrapped; empty if that has too little room."""
    *others, last = columns
    margin = max(map(len, click.unstyle(table(others, rows)).splitlines()), default=0)
    width = room - margin - len(GAP)
    if width < NARROWEST_TEXT:
        return ""
    texts = [_wrap(last.cell(row).content, width) for row in rows]
    first_texts = iter([cell_lines[0] for cell_lines in texts])
    first_line = replace(last, value=lambda _: next(first_texts), narrow=None)
    lines = table([*others, first_line], rows).splitlines(keepends=True)
    indent = " " * (margin + len(GAP))
    parts = [lines[0]]
    for line, further_lines in zip(lines[1:], texts, strict=True):
        parts += [line, *(f"{indent}{further}\n" for further in further_lines[1:])]
    return "".join(parts)


def _wrap(line: str, width: int, indent: str = "") -> list[str]:
    wrapped = textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return wrapped or [""]


def _block(columns: Sequence[TableColumn[T]], row: T, room: int) -> str:
    """Return a row as a line for each column, for a terminal that has no room for a table."""
    margin = max(len(column.head) for column in columns) + len(GAP)
    lines = []
    for column in columns:
        cell = _narrow(column).cell(row)
        is_below = max(map(len, cell.content.split()), default=0) > room - margin
        indent = GAP if is_below else " " * margin
        texts = _wrap(cell.content, max(room - len(indent), 1))
        texts = [painted_text(line, cell.colour) for line in texts]
        if is_below:
            lines += [column.head, *(f"{indent}{line}" for line in texts)]
        else:
            lines += [f"{column.head.ljust(margin)}{texts[0]}"]
            lines += [f"{indent}{line}" for line in texts[1:]]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _ever_narrower(columns: Sequence[TableColumn[T]]) -> Iterator[list[TableColumn[T]]]:
    """Yield choices of columns: all, without those for -o wide, narrow ones, the needed ones."""
    kept = list(columns)
    yield kept
    for wide_column in reversed([wide_column for wide_column in columns if wide_column.wide]):
        kept.remove(wide_column)
        yield kept
    kept = [_narrow(column) for column in kept]
    yield kept
    for droppable in sorted(
        (droppable for droppable in kept if droppable.drop), key=lambda droppable: -droppable.drop
    ):
        kept.remove(droppable)
        yield kept


def _narrow(column: TableColumn[T]) -> TableColumn[T]:
    return replace(column, value=column.narrow or partial(_shorter, column.value))


def _shorter(value: Callable[[T], Cell | str | int | None], row: T) -> Cell | str | int | None:
    cell = value(row)
    return Cell(short(cell), right=True) if isinstance(cell, int) else cell


def short(value: int) -> str:
    """Return a number, thousands apart; of what has more than twelve digits, the order."""
    return f"{value:,}" if value < _LONG else f"{value:.1e}"


def tables(*parts: str) -> str:
    """Return the tables that are not empty, one below the other."""
    return "\n".join(filter(None, parts))


Plain = Sequence[tuple[str, Callable[[T], str | int | None]]]
"""Columns as headings and values."""


def plain(columns: Plain[T], rows: Iterable[T]) -> str:
    """Return a table of columns that are given by heading and value."""
    return table([TableColumn(head, value) for head, value in columns], rows)


def _line(cells: Sequence[Cell], widths: Sequence[int]) -> str:
    texts = [
        cell.content.rjust(width) if cell.right else cell.content.ljust(width)
        for cell, width in zip(cells, widths, strict=True)
    ]
    texts[-1] = texts[-1].rstrip()
    colours = [cell.colour for cell in cells]
    painted = [
        painted_text(cell_text, colour) for cell_text, colour in zip(texts, colours, strict=True)
    ]
    return GAP.join(painted).rstrip() + "\n"


def painted_text(content: str, colour: str | None) -> str:
    """Return a text in a colour of click's; as it is for None."""
    return click.style(content, fg=colour) if colour else content


def number(value: int | None) -> Cell:
    """Return a cell with a number, thousands apart; a dash for none."""
    return Cell("-" if value is None else f"{value:,}", right=True)


def percent(value: int | None) -> Cell:
    """Return a cell with a percentage."""
    return Cell(f"{value or 0}%", right=True)


def bar(used: int, total: int, width: int = BAR) -> Cell:
    """Return a bar and a percentage, rounded down: `[####----------------]  20%`."""
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
    """Print what a command found in one of the forms.

    Args:
        form: one of the values of `--output`.
        document: gives what programs read.
        object_names: of the objects, as `kubectl get -o name` prints them: kind in small letters,
            name. A kind without group is one of ours.
        as_text: returns the text for people.
    """
    match form:
        case "name":
            full = (
                (kind if "." in kind else f"{kind}.{names.GROUP}", name)
                for kind, name in object_names
            )
            lines = (f"{kind}/{escape_text(name)}\n" for kind, name in full)
            output = "".join(dict.fromkeys(lines))
        case "json":
            output = as_json(document())
        case "yaml":
            output = as_yaml([document()])
        case _:
            output = as_text()
    click.echo(output, nl=False)


def report(kind: str, **parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a document for programs; versioned, as they rely on it.

    What the user may not read is in `notRead`, if there is any.

    Args:
        kind: what it is, for example `PoolUsageList`.
        **parts: its lists, `items` for example.
    """
    head: dict[str, Any] = {"apiVersion": _REPORT, "kind": kind}
    context = click.get_current_context(silent=True)
    if context is not None and (not_read := context.meta.get(NOT_READ)):
        head["notRead"] = not_read
    return head | {
        name: [write_large_as_text(item) for item in items] for name, items in parts.items()
    }


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # C if there
    """Writes what equals twice out twice: people read no anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


# What was read from a file knows its lines, and is a dict or list all the same.
_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)
_Dumper.add_multi_representer(list, yaml.SafeDumper.represent_list)


def as_yaml(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the objects as YAML, separated by `---`."""
    return "---\n".join(map(_as_yaml, documents))


def _as_yaml(document: Mapping[str, Any]) -> str:
    readable = _dump(document, allow_unicode=True)
    # YAML leaves invisible controls as they are unless all of Unicode is escaped.
    return readable if readable == escape_lines(readable) else _dump(document, allow_unicode=False)


def _dump(document: Mapping[str, Any], *, allow_unicode: bool) -> str:
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


def as_json(document: Mapping[str, Any]) -> str:
    """Return one object as indented JSON."""
    return escape_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def as_list(items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the objects as a v1 List."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(items)}
