"""Time, injected: code asks a Clock, tests own one (tests/clock.py holds the virtual one)."""

import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

import anyio
from typing_extensions import override


class Clock(Protocol):
    """The three questions about time, and the one wait."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC, for what people and other processes read."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring and for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`; 0 or less yields once."""
        ...

    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        """Return a context cancelled after `seconds`; `cancelled_caught` tells that it was."""
        ...


class SystemClock(Clock):
    """The machine's own time."""

    @override
    def now(self) -> datetime:
        return datetime.now(UTC)

    @override
    def monotonic(self) -> float:
        # The clock of asyncio's loop itself; asking for it by way of the loop takes ten times as
        # long, and a queue asks three times for each key.
        return time.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))

    @override
    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        return anyio.move_on_after(seconds)
