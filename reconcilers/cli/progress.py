"""What a command does while it takes long: a line on a terminal's standard error, none elsewhere.

It appears after a second, is rewritten each second, and is gone when the work has ended.
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
"""From one line to the next, and until the first."""
PROGRESS_BAR = 20
CUT = "..."
TAKEN_BACK = "\r\033[K"


@dataclass(slots=True)
class Work:
    """What is going on, and how much of it is done; of 0 the end is not known."""

    activity: str
    done: int = 0
    of: int = 0
    is_shown: bool = False
    lock: Lock = field(default_factory=Lock)
    """Held by the thread that writes."""

    def take_back(self) -> None:
        """Remove the line from the terminal, if it is there."""
        if self.is_shown:
            self.is_shown = False
            click.echo(TAKEN_BACK, err=True, nl=False)

    def line(self, seconds: float) -> str:
        """Return the line to show after so many seconds: with a bar if the end is known."""
        bar = ""
        if self.of:
            filled = PROGRESS_BAR * self.done // self.of
            bar = f" [{'#' * filled}{'-' * (PROGRESS_BAR - filled)}] {self.done} of {self.of}"
        end = f"{bar} ... {seconds:.0f} s"
        # A line that a terminal breaks could not be taken back.
        most = shutil.get_terminal_size().columns - 1
        room = max(0, most - len(end) - len(CUT))
        activity = (
            self.activity
            if len(self.activity) + len(end) <= most
            else f"{self.activity[:room]}{CUT}"
        )
        return f"\r{f'{activity}{end}'[:most]}\033[K"


_work: ContextVar[Work | None] = ContextVar("work", default=None)


def advance(done: int, of: int) -> None:
    """Show how much of the work under `progress` is done; nothing where there is none."""
    work = _work.get()
    if work is not None:
        work.done, work.of = done, of


def show_progress(activity: str) -> None:
    """Show what the work under `progress` does now; nothing outside of it."""
    work = _work.get()
    if work is not None:
        work.activity = activity


@contextmanager
def aside() -> Iterator[None]:
    """Take the line back, for sentences in its place; the next second shows it again."""
    work = _work.get()
    if work is None:
        yield
        return
    with work.lock:
        work.take_back()
        yield


def count_progress(all_of: Sequence[T]) -> Iterator[T]:
    """Yield the elements, and show how many of them were taken."""
    for done, element in enumerate(all_of):
        advance(done, len(all_of))
        yield element


@contextmanager
def progress(activity: str) -> Iterator[None]:
    """Show on standard error what is going on inside the context; on a terminal only.

    A thread does that, as some of the work (reading large files, working out large pools)
    leaves an event loop no moment to do so.

    Args:
        activity: is going on, for example `reading files`.
    """
    if not sys.stderr.isatty():
        yield
        return
    over, work = Event(), Work(activity)
    token = _work.set(work)

    def report() -> None:
        seconds = 0.0
        while not over.wait(PROGRESS_SECONDS):
            seconds += PROGRESS_SECONDS
            with work.lock:
                work.is_shown = True
                click.echo(work.line(seconds), err=True, nl=False)

    reporter = Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()
        work.take_back()
        _work.reset(token)
