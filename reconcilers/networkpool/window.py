"""What happened to each pool in the last minute: events recorded, owners whose orphans went."""

from collections import deque
from typing import Generic, TypeVar

from controller.clock import Clock
from controller.meta import Key

T = TypeVar("T")
WINDOW_SECONDS = 60.0


class MinuteWindow(Generic[T]):
    """Remembers what happened to each pool during the last 60 seconds.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[Key, deque[tuple[float, T]]] = {}

    def add(self, pool: Key, happened: T) -> None:
        """Remember what happens to a pool now."""
        entries = self._entries.setdefault(pool, deque())
        entries.append((self._clock.monotonic(), happened))

    def list_recent(self, pool: Key) -> list[T]:
        """Return the entries added for a pool during the last 60 seconds, in order."""
        self._drop(self._clock.monotonic() - WINDOW_SECONDS)
        return [happened for _, happened in self._entries.get(pool, ())]

    def _drop(self, until: float) -> None:
        """Forget what was added at monotonic second `until` or before, for every pool."""
        for pool, entries in list(self._entries.items()):
            while entries and entries[0][0] <= until:
                entries.popleft()
            if not entries:
                del self._entries[pool]
