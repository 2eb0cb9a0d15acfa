"""Waiting for states that no event reports: polling up to a deadline."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

SECONDS = 240.0
"""The default deadline of `until`.

A test that passes never waits so long. But real servers on a loaded machine take five times as
long as usual, and a state is often several of their steps away.
"""
BETWEEN_LOOKS = 0.05
"""Seconds between two reads of a state."""

T = TypeVar("T")


def make_awaitable(question: Callable[[], T]) -> Callable[[], Awaitable[T]]:
    """Return a coroutine function that calls `question`, for `until`."""

    async def ask() -> T:
        return question()

    return ask


async def until(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], bool], *, seconds: float = SECONDS
) -> T:
    """Read a state again and again until it meets a condition; return that state.

    Args:
        look: reads the present state.
        holds: returns whether a state meets the condition.
        seconds: the deadline.

    Raises:
        AssertionError: no state met the condition in time; its message has the last state.
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
    """Read a state again and again for some seconds; return all states in order."""
    seen: list[T] = []
    with anyio.move_on_after(seconds):
        while True:
            seen.append(await look())
            await anyio.sleep(BETWEEN_LOOKS)
    return seen
