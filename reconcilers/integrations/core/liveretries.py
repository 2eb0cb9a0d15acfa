"""Repeat the pass over an object with the live object if the cached object was stale."""

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
    """Return the outcome of a pass over an object.

    If a write fails because the object has changed or is gone, the pass is repeated with the
    object from the server, up to ATTEMPTS times in all. Then the key is queued again.

    Args:
        obj: as the cache shows it; None if the cache shows none.
        attempt: runs the pass over the object.
        read_live: reads the object from the server; None if it does not exist.
    """
    for _ in range(ATTEMPTS):
        try:
            return await attempt(obj)
        except (Conflict, NotFound):
            # The object changed, or is gone although the cache shows it.
            obj = await read_live()
    return Again(RETRY)
