"""What happened to each pool in the last minute: events recorded, owners whose orphans went."""

from collections import deque

from controller.clock import Clock
from controller.meta import Key

WINDOW_SECONDS = 60.0


class MinuteWindow:
    """Counts what happened to each pool during the last 60 seconds.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[Key, deque[float]] = {}

    def add(self, pool: Key, count: int = 1) -> None:
        """Count `count` things that happen to a pool now."""
        if count:
            times = self._times.setdefault(pool, deque())
            times.extend([self._clock.monotonic()] * count)

    def recent(self, pool: Key) -> int:
        """Return how many were added for a pool during the last 60 seconds."""
        self._drop(self._clock.monotonic() - WINDOW_SECONDS)
        return len(self._times.get(pool, ()))

    def _drop(self, until: float) -> None:
        """Forget what was added at monotonic second `until` or before, for every pool."""
        for pool, times in list(self._times.items()):
            while times and times[0] <= until:
                times.popleft()
            if not times:
                del self._times[pool]


Owner = tuple[Key, str]
"""A TenantCluster that was there once: its name, and its uid."""


class RecentOwners:
    """Remembers whose orphans of each pool were collected during the last 60 seconds.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[Key, dict[Owner, float]] = {}

    def add(self, pool: Key, owner: Owner) -> None:
        """Remember that an orphan of `owner` is collected now."""
        self._times.setdefault(pool, {})[owner] = self._clock.monotonic()

    def recent(self, pool: Key) -> set[Owner]:
        """Return the owners of the last minute; forget those before, of all pools."""
        until = self._clock.monotonic() - WINDOW_SECONDS
        kept = {
            one: {owner: at for owner, at in times.items() if at > until}
            for one, times in self._times.items()
        }
        self._times = {one: times for one, times in kept.items() if times}
        return set(self._times.get(pool, ()))
