"""What takes longer than a second says that it is still at it.

On a terminal only, and gone when it ends. A thread tells the time, as some of the work (reading
large files, working out large pools) leaves an event loop no moment to do so.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import click

EVERY = 1.0
"""Seconds from one line to the next, and until the first."""


@contextmanager
def progress(what: str, every: float = EVERY) -> Iterator[None]:
    """Tell on standard error of what is going on, while it is.

    Args:
        what: is going on, for example `reading the cluster's objects`.
        every: seconds.
    """
    if not sys.stderr.isatty():
        yield
        return
    over = Event()
    teller = Thread(target=_tell, args=(what, every, over), daemon=True)
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()


def _tell(what: str, every: float, over: Event) -> None:
    seconds = 0.0
    while not over.wait(every):
        seconds += every
        click.echo(f"\r{what} ... {seconds:.0f} s", err=True, nl=False)
    if seconds:
        click.echo("\r\033[K", err=True, nl=False)
