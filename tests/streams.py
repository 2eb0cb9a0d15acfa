"""Closes a stream that is left before its end.

httpx reads a response through nested generators. A `break` closes only the outermost one. The
event loop closes each of the others in a task that nobody awaits, once it is unreachable.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

Item = TypeVar("Item")


@asynccontextmanager
async def unwind_on_exit(items: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """Yield a stream; at the end a cancelled read closes all of its nested generators."""
    try:
        yield items
    finally:
        with anyio.CancelScope() as end:
            end.cancel()
            async for _ in items:
                pass
