"""Waiting for what no event tells: looking again and again, up to a deadline."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

SECONDS = 240.0
"""After which a state is given up, unless a caller says otherwise.

No test that passes waits for it. Real servers on a loaded machine take five times as long as
elsewhere, and what is waited for is often several steps of theirs.
"""
BETWEEN_LOOKS = 0.05

T = TypeVar("T")


def make_awaitable(question: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Return a question that does not wait for anything as one that may."""

    async def ask() -> T:
        return question()

    return ask


async def until(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], bool], *, seconds: float = SECONDS
) -> T:
    """Look again and again until what is seen is as it should be; return it.

    Args:
        look: returns what is seen now.
        holds: whether that is as it should be.
        seconds: after which it is given up.

    Raises:
        AssertionError: it did not come to that in time; says what was seen last.
    """
    seen: list[T] = []
    with anyio.move_on_after(seconds):
        while True:
            seen[:] = [await look()]
            if holds(seen[0]):
                return seen[0]
            await anyio.sleep(BETWEEN_LOOKS)
    last = f"seen last: {seen[0]}" if seen else "nothing was seen"
    raise AssertionError(f"not within {seconds:.0f} s; {last}")


async def keep_looking(look: Callable[[], Awaitable[T]], seconds: float) -> list[T]:
    """Look again and again for so many seconds; return all that was seen."""
    seen: list[T] = []
    with anyio.move_on_after(seconds):
        while True:
            seen.append(await look())
            await anyio.sleep(BETWEEN_LOOKS)
    return seen
