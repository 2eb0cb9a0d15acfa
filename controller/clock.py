"""Time, injected: code gets a Clock, so that tests can use a virtual one (tests/clock.py)."""

import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

import anyio
from typing_extensions import override


class Clock(Protocol):
    """Reads the time and waits."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC, for times that people and other processes read."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease, for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`; 0 or less yields once."""
        ...

    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        """Return a context cancelled after `seconds`; `cancelled_caught` is then True."""
        ...


class SystemClock(Clock):
    """The time of this machine."""

    @override
    def now(self) -> datetime:
        return datetime.now(UTC)

    @override
    def monotonic(self) -> float:
        # The clock of asyncio's loop. Reading it through the loop takes ten times as long, and a
        # work queue reads it three times for each key.
        return time.monotonic()

    @override
    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(max(0.0, seconds))

    @override
    def move_on_after(self, seconds: float) -> AbstractContextManager[anyio.CancelScope]:
        return anyio.move_on_after(seconds)
