"""Long loops in slices, between which other tasks of the event loop run.

A loop over very many objects takes seconds, and leases, probes and watches would wait meanwhile.
So such a loop is an iterator that yields after every `SLICE` objects, and `run_in_slices` lets
other tasks run at each yield. These tasks can read the state that the loop changes, so each loop
documents the state between two slices.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from anyio.lowlevel import checkpoint

T = TypeVar("T")

SLICE = 50
"""How many objects are processed at once: some milliseconds of CPU time."""


def split_into_batches(items: Iterable[T], size: int = SLICE) -> Iterator[Sequence[T]]:
    """Yield `items` in batches of `size`; the last batch may be smaller."""
    iterator = iter(items)
    while batch := tuple(islice(iterator, size)):
        yield batch


def exhaust(steps: Iterable[None]) -> None:
    """Run an iterator to its end without letting other tasks run."""
    for _ in steps:
        pass


async def run_in_slices(steps: Iterable[None]) -> None:
    """Run an iterator to its end, and let other tasks run after each of its steps."""
    for _ in steps:
        await checkpoint()
