"""Shows the progress of a long command: one line on standard error, if that is a terminal.

The line appears after a second, is rewritten each second, and is removed when the work has ended.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TypeVar

import click

T = TypeVar("T")

PROGRESS_SECONDS = 1.0
"""Seconds until the first line, and from one line to the next."""
PROGRESS_BAR = 20
"""The width of the bar, in characters."""
CUT = "..."
"""The end of an activity that is cut to the width of the terminal."""
_ERASE_REST = "\033[K"
"""Erases the line from the cursor to its end."""


@dataclass(slots=True)
class Work:
    """The current activity of a command, and how many of its steps are done.

    Args:
        activity: a few words, such as `reading files`.
        done: the number of finished steps.
        total: the number of all steps; 0 if it is not known.
        is_shown: whether the line is on the terminal.
    """

    activity: str
    done: int = 0
    total: int = 0
    is_shown: bool = False
    lock: Lock = field(default_factory=Lock)
    """Held by the thread that writes."""

    def remove_line(self) -> None:
        """Remove the line from the terminal, if it is there."""
        if self.is_shown:
            self.is_shown = False
            click.echo(f"\r{_ERASE_REST}", err=True, nl=False)

    def render_line(self, seconds: float) -> str:
        """Return the line of progress, cut to the width of the terminal.

        The line has a bar if the steps are counted.

        Args:
            seconds: how long the work has taken so far.
        """
        bar = ""
        if self.total:
            filled = PROGRESS_BAR * self.done // self.total
            bar = f" [{'#' * filled}{'-' * (PROGRESS_BAR - filled)}] {self.done} of {self.total}"
        end = f"{bar} ... {seconds:.0f} s"
        # A line that the terminal breaks into two could not be removed.
        max_width = shutil.get_terminal_size().columns - 1
        room = max(0, max_width - len(end) - len(CUT))
        activity = (
            self.activity
            if len(self.activity) + len(end) <= max_width
            else f"{self.activity[:room]}{CUT}"
        )
        # Cut once more: in a very narrow terminal, the end alone may be too long.
        line = f"{activity}{end}"[:max_width]
        return f"\r{line}{_ERASE_REST}"


_work: ContextVar[Work | None] = ContextVar("work", default=None)


def show_done(done: int, total: int) -> None:
    """Show how many steps of the work inside `progress` are done; do nothing outside of it."""
    work = _work.get()
    if work is not None:
        work.done, work.total = done, total


def show_progress(activity: str) -> None:
    """Show another activity of the work inside `progress`; do nothing outside of it."""
    work = _work.get()
    if work is not None:
        work.activity = activity


@contextmanager
def hide_progress() -> Iterator[None]:
    """Remove the line during the context, so that messages can be printed.

    The line comes back at its next second. The thread that writes it waits during the context.
    """
    work = _work.get()
    if work is None:
        yield
        return
    with work.lock:
        work.remove_line()
        yield


def count_progress(all_of: Sequence[T]) -> Iterator[T]:
    """Yield the elements of a sequence, and show how many of them are done."""
    for done, element in enumerate(all_of):
        show_done(done, len(all_of))
        yield element


@contextmanager
def show_progress_during(activity: str) -> Iterator[None]:
    """Show an activity on standard error during the context, if that is a terminal.

    A thread writes the line, because some work (reading large files, computing large pools)
    blocks the event loop.

    Args:
        activity: a few words, such as `reading files`.
    """
    if not sys.stderr.isatty():
        yield
        return
    is_over, work = Event(), Work(activity)
    token = _work.set(work)

    def report() -> None:
        """Write the line each second until the work is over."""
        seconds = 0.0
        while not is_over.wait(PROGRESS_SECONDS):
            seconds += PROGRESS_SECONDS
            with work.lock:
                work.is_shown = True
                click.echo(work.render_line(seconds), err=True, nl=False)

    reporter = Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        is_over.set()
        reporter.join()
        work.remove_line()
        _work.reset(token)
