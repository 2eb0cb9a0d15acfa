"""Tables for people: aligned, coloured on a terminal only, with bars for how full a pool is."""

from collections.abc import Sequence
from dataclasses import dataclass

import click

GAP = "  "
BAR = 20


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell.

    Args:
        text: what it says.
        colour: of click's; none leaves it as it is.
        right: whether it is aligned to the right, as numbers are.
    """

    text: str
    colour: str | None = None
    right: bool = False


def number(value: int | None) -> Cell:
    """Return a cell with a number, thousands apart; a dash for none."""
    return Cell("-" if value is None else f"{value:,}", right=True)


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return the lines of a table; a column of numbers has its heading on the right too."""
    if not rows:
        return ""
    right = [cell.right for cell in rows[0]]
    heading = [Cell(text, right=on_right) for text, on_right in zip(head, right, strict=True)]
    widths = [max(len(row[at].text) for row in [heading, *rows]) for at in range(len(head))]
    return "".join(_line(row, widths) for row in [heading, *rows])


def _line(row: Sequence[Cell], widths: Sequence[int]) -> str:
    parts = []
    for cell, width in zip(row, widths, strict=True):
        text = cell.text.rjust(width) if cell.right else cell.text.ljust(width)
        parts.append((text, cell.colour))
    if parts:
        parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
    line = GAP.join(click.style(text, fg=colour) if colour else text for text, colour in parts)
    return line.rstrip() + "\n"


def bar(used: int, total: int) -> Cell:
    """Return a bar and a percentage, rounded down: `[####----------------]  20%`."""
    percent = 100 * used // total if total else 0
    filled = min(BAR, -(-BAR * used // total)) if total else 0
    text = f"[{'#' * filled}{'-' * (BAR - filled)}] {percent:>3}%"
    return Cell(text, _tier(percent))


def _tier(percent: int) -> str:
    if percent >= 95:
        return "red"
    return "yellow" if percent >= 70 else "green"
