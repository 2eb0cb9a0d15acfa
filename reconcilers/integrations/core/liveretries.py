"""Passes over one object that start again with the live object if it changed meanwhile."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from controller.errors import Conflict, NotFound
from controller.meta import Object
from controller.outcome import Again, Outcome

T = TypeVar("T", bound=Object)
ATTEMPTS = 3
"""Attempts at a pass before its key is queued again."""
RETRY = 1.0
"""Seconds until a key is queued again."""


async def retry_live(
    obj: T | None,
    attempt: Callable[[T | None], Awaitable[Outcome]],
    read_live: Callable[[], Awaitable[T | None]],
) -> Outcome:
    """Return the outcome of a pass over an object; repeat it with the live one if it is stale.

    Args:
        obj: as the cache shows it; None if the cache shows none.
        attempt: passes over it.
        read_live: reads it from the server.
    """
    for _ in range(ATTEMPTS):
        try:
            return await attempt(obj)
        except (Conflict, NotFound):
            # It changed, or is gone although the cache shows it.
            obj = await read_live()
    return Again(RETRY)
