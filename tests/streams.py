"""Leaves a stream before its end without leaving anything behind.

httpx reads a response through generators within generators. A `break` closes the outermost alone;
each of the others is then closed by a task of its own, that the event loop makes when it finds the
generator unreachable, and that is not awaited.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

Item = TypeVar("Item")


@asynccontextmanager
async def unwound(items: AsyncIterator[Item]) -> AsyncIterator[AsyncIterator[Item]]:
    """Lend a stream; at the end, a cancelled read unwinds all of its generators."""
    try:
        yield items
    finally:
        with anyio.CancelScope() as end:
            end.cancel()
            async for _ in items:
                pass
