"""The order in which keys leave a work queue: by due time, then by priority, in turns, by age.

`KeyBackoff` computes how long a key waits after failures. `Delays` holds keys until they are due.
`ReadyLevels` holds the ready keys in levels of priority. In a level the keys of different groups
(tenants, for example) take turns, so that one group with a thousand keys delays the first key of
another by at most one key per group. Within a group, and in a level without groups, the order is
first in, first out.

Strict priorities would starve keys: with enough live events the objects of the initial list are
never reconciled (controller-runtime issue 3496). Rejected: letting every old key go first. After a
start with ten thousand objects all of them are old at once, and live events would wait for all of
them. So while a key has waited longer than a limit, every `OLDEST_EVERY`th key that is taken is
the oldest key. The other keys are still taken by priority.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from controller.callbacks import call_plain
from controller.loggers import get_logger

K = TypeVar("K", bound=Hashable)

Group = Callable[[K], Hashable]

KEY_BASE_SECONDS = 0.005
"""The delay after a key's first failure."""
KEY_MAX_SECONDS = 1000.0
"""The longest delay after a failure."""
AGEING_SECONDS = 10.0
"""A key that is ready for so long counts as old."""
OLDEST_EVERY = 16
"""One of so many keys that are taken is the oldest key, if there are old keys."""

_STALE_ENTRIES = 64
"""The heap is rebuilt when its stale entries outnumber the live ones by more than this."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retries:
    """How a controller retries the keys whose passes raise.

    Args:
        first_seconds: the delay before the first retry; it doubles with each failure.
        longest_seconds: the longest delay.
        most_tries: after so many failed passes in a row the key is blocked until something
            changes; None to retry for ever. Only the fifth Conflict in a row, and further ones,
            count as failed passes.

    Raises:
        ValueError: a number is out of range.
    """

    first_seconds: float = KEY_BASE_SECONDS
    longest_seconds: float = KEY_MAX_SECONDS
    most_tries: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.first_seconds <= self.longest_seconds < math.inf:
            raise ValueError(
                f"retries need 0 < first_seconds <= longest_seconds, not {self.first_seconds!r}"
                f" and {self.longest_seconds!r}"
            )
        if self.most_tries is not None and self.most_tries < 1:
            raise ValueError(f"most_tries must be at least 1, not {self.most_tries!r}")


class KeyBackoff(Generic[K]):
    """Exponential delays per key: base, 2 base, 4 base and so on up to a maximum.

    These are the numbers of client-go's per-item limiter. client-go's second limiter, a token
    bucket that all keys share, is left out, as in controller-runtime's priority queue. With it the
    failures of one tenant's keys would delay all other keys.

    Args:
        retries: the delays.
    """

    def __init__(self, retries: Retries | None = None) -> None:
        retries = retries or Retries()
        self._base = retries.first_seconds
        self._maximum = retries.longest_seconds
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Return the number of keys that have failures."""
        return len(self._failures)

    def note_failure(self, key: K) -> float:
        """Count a failure of `key`; return the seconds to wait before the retry."""
        earlier_failures = self._failures.get(key, 0)
        self._failures[key] = earlier_failures + 1
        # The exponent is limited because 2.0**1024 raises OverflowError.
        return min(self._maximum, self._base * 2.0 ** min(earlier_failures, 64))

    def forget(self, key: K) -> None:
        """Reset the failures of `key` to 0, after a success or when it is not retried."""
        self._failures.pop(key, None)

    def count_failures(self, key: K) -> int:
        """Return how often `key` has failed since the last `forget`."""
        return self._failures.get(key, 0)


class Delays(Generic[K]):
    """Keys that wait, each with the time it is due and a priority.

    The heap has one live entry for each key. A key that is moved gets a new entry; its stale entry
    is skipped when it reaches the top. The heap is rebuilt when most entries are stale, so a key
    that is moved again and again does not make it grow.
    """

    def __init__(self) -> None:
        # Due time, number of the entry, and key. An entry is live if its number is in `_live`.
        self._heap: list[tuple[float, int, K]] = []
        # By key: due time, number of the live entry, and priority.
        self._live: dict[K, tuple[float, int, int]] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: K) -> bool:
        return key in self._live

    @property
    def earliest(self) -> float | None:
        """When the first key is due (monotonic seconds); None if no key waits."""
        heap, live = self._heap, self._live
        while heap:
            due, order, key = heap[0]
            entry = live.get(key)
            if entry is not None and entry[1] == order:
                return due
            heapq.heappop(heap)  # a stale entry
        return None

    def put(self, key: K, due: float, priority: int) -> None:
        """Add `key`, due at monotonic second `due`.

        A key that waits already keeps the earlier of both times and the higher of both priorities.
        """
        entry = self._live.get(key)
        if entry is not None:
            old_due, old_order, old_priority = entry
            priority = max(priority, old_priority)
            if old_due <= due:
                # The entry in the heap stays live: it has no priority that could change.
                self._live[key] = (old_due, old_order, priority)
                return
        self._order += 1
        self._live[key] = (due, self._order, priority)
        heapq.heappush(self._heap, (due, self._order, key))
        if len(self._heap) > 2 * len(self._live) + _STALE_ENTRIES:
            self._heap = [
                (live_due, order, live_key)
                for live_key, (live_due, order, _) in self._live.items()
            ]
            heapq.heapify(self._heap)

    def discard(self, key: K) -> int | None:
        """Remove `key`, due or not; return its priority, or None if the key does not wait here."""
        entry = self._live.pop(key, None)
        return None if entry is None else entry[2]

    def pop_due(self, now: float) -> tuple[K, float, int] | None:
        """Remove the first key that is due; None if no key is due.

        Args:
            now: the present time, in monotonic seconds.

        Returns:
            The key, its due time (monotonic seconds), and its priority.
        """
        due = self.earliest
        if due is None or due > now:
            return None
        key = heapq.heappop(self._heap)[2]  # live: `earliest` has removed stale entries above it
        return key, due, self._live.pop(key)[2]

    def clear(self) -> None:
        """Remove all keys."""
        self._heap.clear()
        self._live.clear()


class Ready(NamedTuple, Generic[K]):
    """A key that was taken, its priority, and since when (monotonic seconds) it was ready."""

    key: K
    priority: int
    since: float


class _Level(Generic[K]):
    """The keys of one priority.

    Args:
        group: from a key to its group; None for no groups. It is called once each time a key is
            added, and the result is kept: later it may return another group for the key.
    """

    __slots__ = ("_group", "_group_of", "_since", "_turns")

    def __init__(self, group: Group[K] | None) -> None:
        self._group = group
        # Since when (monotonic seconds) each key is ready, in the order of addition.
        self._since: OrderedDict[K, float] = OrderedDict()
        # The keys of each group; the group at the front has the next turn.
        self._turns: OrderedDict[Hashable, OrderedDict[K, None]] = OrderedDict()
        self._group_of: dict[K, Hashable] = {}

    def __len__(self) -> int:
        return len(self._since)

    @property
    def oldest_since(self) -> float:
        """Since when (monotonic seconds) the key that was added first is ready."""
        return self._since[next(iter(self._since))]

    def push(self, key: K, since: float) -> None:
        """Add a key at the end of its group; a new group gets the last turn."""
        self._since[key] = since
        if self._group is not None:
            group = self._group_of[key] = self._call_group(key)
            self._turns.setdefault(group, OrderedDict())[key] = None

    def _call_group(self, key: K) -> Hashable:
        """Return the group of a key; None, the group of all keys for which the function raises.

        The key has to be taken in any case, so the error is only logged.
        """
        assert self._group is not None
        try:
            group = call_plain(self._group, key)
            hash(group)  # raises for a value that cannot be a key of a dictionary
        except Exception:
            log.exception("group function raised", key=str(key))
            return None
        return group

    def remove(self, key: K) -> float:
        """Remove a key; return since when (monotonic seconds) it was ready."""
        if self._group is not None:
            group = self._group_of.pop(key)
            keys = self._turns[group]
            del keys[key]
            if not keys:
                del self._turns[group]
        return self._since.pop(key)

    def pop(self) -> tuple[K, float]:
        """Remove and return the first key of the group whose turn it is, and its ready time.

        The group gets the last turn after that.
        """
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
        """Remove and return the key that was added first, of any group, and its ready time."""
        key = next(iter(self._since))
        return key, self.remove(key)


class ReadyLevels(Generic[K]):
    """Ready keys in levels of priority; a higher number goes first.

    Args:
        ageing: seconds after which a waiting key counts as old.
        group: from a key to the group that takes turns; None for no groups.
    """

    def __init__(self, ageing: float = AGEING_SECONDS, group: Group[K] | None = None) -> None:
        self._ageing = ageing
        self._group = group
        self._levels: dict[int, _Level[K]] = {}
        self._level_of: dict[K, int] = {}
        # How many keys were taken by priority, while there were old keys, since the last old key.
        self._pops_since_oldest = 0

    def __len__(self) -> int:
        return len(self._level_of)

    def __contains__(self, key: K) -> bool:
        return key in self._level_of

    def push(self, key: K, priority: int, since: float) -> int | None:
        """Add a key; move a ready key of lower priority to the end of the higher level.

        A ready key of at least that priority stays where it is.

        Returns:
            The old priority of a key that was moved; None if the key was added or stays.
        """
        old_priority = self._level_of.get(key)
        if old_priority is not None:
            if priority <= old_priority:
                return None
            level = self._levels[old_priority]
            since = level.remove(key)  # the key keeps its age
            if not level:
                del self._levels[old_priority]
        if priority not in self._levels:
            self._levels[priority] = _Level(self._group)
        self._levels[priority].push(key, since)
        self._level_of[key] = priority
        return old_priority

    def pop(self, now: float) -> Ready[K] | None:
        """Remove and return the next key; None if no key is ready."""
        if not self._level_of:
            return None
        priority, takes_oldest = self._choose_level(now)
        level = self._levels[priority]
        key, since = level.pop_oldest() if takes_oldest else level.pop()
        del self._level_of[key]
        if not level:
            del self._levels[priority]
        return Ready(key, priority, since)

    def clear(self) -> Mapping[int, int]:
        """Remove all keys; return their number by priority."""
        dropped = self.count_by_priority()
        self._levels.clear()
        self._level_of.clear()
        return dropped

    def count_by_priority(self) -> Mapping[int, int]:
        """Return the number of keys by priority."""
        return {priority: len(level) for priority, level in self._levels.items()}

    def find_oldest_since(self) -> float | None:
        """Return since when (monotonic seconds) the oldest key is ready; None if no key is."""
        return min((level.oldest_since for level in self._levels.values()), default=None)

    def _choose_level(self, now: float) -> tuple[int, bool]:
        """Return the priority of the level to take a key from, and whether to take its oldest key.

        Usually it is the highest level, whose groups take turns. If a lower level has the oldest
        key of all, and that key is old, every OLDEST_EVERY-th call returns the lower level and
        True. The calls are counted for this.
        """
        levels = self._levels
        if len(levels) == 1:
            return next(iter(levels)), False
        highest = max(levels)
        oldest = min(levels, key=lambda priority: levels[priority].oldest_since)
        if oldest == highest or now - levels[oldest].oldest_since <= self._ageing:
            return highest, False
        self._pops_since_oldest += 1
        if self._pops_since_oldest < OLDEST_EVERY:
            return highest, False
        self._pops_since_oldest = 0
        return oldest, True
