"""Which of the ready keys is next: by priority, in turns, and nobody starves.

Within a priority the keys of different groups (tenants, say) take turns, so that one with a
thousand keys delays another's first by no more than one per group; within a group it is first in,
first out. Without groups that is all there is.

Strict priorities starve: with enough live events the objects of the initial list are never
looked at (controller-runtime issue 3496). Letting everything old overtake was rejected as well:
after a start with ten thousand objects all of them are old at once, and live events wait for the
whole backlog. So age buys a share: while somebody has waited longer than the bound, one hand-out
in `SHARE` goes to whoever has waited longest, and the others still go by priority.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

Group = Callable[[K], Hashable]

AGEING_SECONDS = 10.0
SHARE = 16


class Ready(NamedTuple, Generic[K]):
    """A key taken out: with which priority, and since when (monotonic seconds) it was ready."""

    key: K
    priority: int
    since: float


class _Level(Generic[K]):
    """The keys of one priority, by age and by whose turn it is.

    Args:
        group: from a key to the group that it shares its turns with; None for no turns. Asked
            once each time a key is queued, so what it reads may change while the key waits.
    """

    __slots__ = ("_group", "_group_of", "_since", "_turns")

    def __init__(self, group: Group[K] | None) -> None:
        self._group = group
        self._since: OrderedDict[K, float] = OrderedDict()
        self._turns: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()
        self._group_of: dict[K, Hashable] = {}

    def __len__(self) -> int:
        return len(self._since)

    @property
    def head(self) -> float:
        """Since when the key that came first is ready."""
        return self._since[next(iter(self._since))]

    def push(self, key: K, since: float) -> None:
        """Put a key at the end of its group; a group that had none waits for its turn."""
        self._since[key] = since
        if self._group is not None:
            group = self._group_of[key] = self._group(key)
            self._turns.setdefault(group, OrderedDict())[key] = None

    def remove(self, key: K) -> float:
        """Take a key out; returns since when it is ready."""
        if self._group is not None:
            group = self._group_of.pop(key)
            keys = self._turns[group]
            del keys[key]
            if not keys:
                del self._turns[group]
        return self._since.pop(key)

    def pop(self) -> tuple[K, float]:
        """Take out the first key of the group whose turn it is, which then waits for its next."""
        if self._group is None:
            return self._since.popitem(last=False)
        group, keys = next(iter(self._turns.items()))
        key, _ = keys.popitem(last=False)
        if keys:
            self._turns.move_to_end(group)
        else:
            del self._turns[group]
        del self._group_of[key]
        return key, self._since.pop(key)

    def pop_oldest(self) -> tuple[K, float]:
        """Take out the key that came first, out of turn."""
        key = next(iter(self._since))
        return key, self.remove(key)


class ReadyLevels(Generic[K]):
    """Ready keys in levels of priority; a higher number goes first.

    Args:
        ageing: seconds of waiting after which a key takes part in the share for the old.
        group: from a key to the group that it shares its turns with; None for no turns.
    """

    def __init__(self, ageing: float = AGEING_SECONDS, group: Group[K] | None = None) -> None:
        self._ageing = ageing
        self._group = group
        self._levels: dict[int, _Level[K]] = {}
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
            level = self._levels[priority] = _Level(self._group)
        level.push(key, since)
        self._level_of[key] = priority
        return current

    def pop(self, now: float) -> Ready[K] | None:
        """Take the next key out; None if there is none."""
        if not self._level_of:
            return None
        priority, aged = self._next_level(now)
        level = self._levels[priority]
        key, since = level.pop_oldest() if aged else level.pop()
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
        return min((level.head for level in self._levels.values()), default=None)

    def _next_level(self, now: float) -> tuple[int, bool]:
        """Return the level whose turn it is, and whether it is for its oldest key's sake."""
        levels = self._levels
        if len(levels) == 1:
            return next(iter(levels)), False
        top = max(levels)
        oldest = min(levels, key=lambda priority: levels[priority].head)
        if oldest == top or now - levels[oldest].head <= self._ageing:
            return top, False
        self._passed_over += 1
        if self._passed_over < SHARE:
            return top, False
        self._passed_over = 0
        return oldest, True

    def _leave(self, key: K, priority: int) -> float:
        level = self._levels[priority]
        since = level.remove(key)
        if not level:
            del self._levels[priority]
        return since
