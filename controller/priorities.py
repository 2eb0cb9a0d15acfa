"""Which of the ready keys is next: by priority, first in first out, and nobody starves.

Strict priorities starve: with enough live events the objects of the initial list are never
looked at (controller-runtime issue 3496). Letting everything old overtake was rejected as well:
after a start with ten thousand objects all of them are old at once, and live events wait for the
whole backlog. So age buys a share: while somebody has waited longer than the bound, one hand-out
in `SHARE` goes to whoever has waited longest, and the others still go by priority.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

AGEING_SECONDS = 10.0
SHARE = 16


class Ready(NamedTuple, Generic[K]):
    """A key taken out: with which priority, and since when (monotonic seconds) it was ready."""

    key: K
    priority: int
    since: float


class ReadyLevels(Generic[K]):
    """Ready keys in levels of priority; a higher number goes first.

    Args:
        ageing: seconds of waiting after which a key takes part in the share for the old.
    """

    def __init__(self, ageing: float = AGEING_SECONDS) -> None:
        self._ageing = ageing
        self._levels: dict[int, OrderedDict[K, float]] = {}
        self._level_of: dict[K, int] = {}
        self._passed_over = 0

    def __len__(self) -> int:
        return len(self._level_of)

    def __contains__(self, key: K) -> bool:
        return key in self._level_of

    def push(self, key: K, priority: int, since: float) -> int | None:
        """Queue `key`; one that is queued already only ever rises, to the end of its new level.

        Returns:
            The level that the key left by rising; None if it was new or stays where it is.
        """
        current = self._level_of.get(key)
        if current is not None:
            if priority <= current:
                return None
            since = self._leave(key, current)
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = OrderedDict()
        level[key] = since
        self._level_of[key] = priority
        return current

    def pop(self, now: float) -> Ready[K] | None:
        """Take the next key out; None if there is none."""
        if not self._level_of:
            return None
        priority = self._next_level(now)
        level = self._levels[priority]
        key, since = level.popitem(last=False)
        del self._level_of[key]
        if not level:
            del self._levels[priority]
        return Ready(key, priority, since)

    def clear(self) -> Mapping[int, int]:
        """Forget every key; returns how many each level held."""
        dropped = self.depths()
        self._levels.clear()
        self._level_of.clear()
        return dropped

    def depths(self) -> Mapping[int, int]:
        """Return how many keys each level holds."""
        return {priority: len(level) for priority, level in self._levels.items()}

    def oldest(self) -> float | None:
        """Return since when the longest waiting level head is ready; None if nothing is."""
        return min((_head(level) for level in self._levels.values()), default=None)

    def _next_level(self, now: float) -> int:
        levels = self._levels
        if len(levels) == 1:
            return next(iter(levels))
        top = max(levels)
        oldest = min(levels, key=lambda priority: _head(levels[priority]))
        if oldest == top or now - _head(levels[oldest]) <= self._ageing:
            return top
        self._passed_over += 1
        if self._passed_over < SHARE:
            return top
        self._passed_over = 0
        return oldest

    def _leave(self, key: K, priority: int) -> float:
        level = self._levels[priority]
        since = level.pop(key)
        if not level:
            del self._levels[priority]
        return since


def _head(level: OrderedDict[K, float]) -> float:
    return level[next(iter(level))]
