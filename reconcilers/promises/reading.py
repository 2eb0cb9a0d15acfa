"""How far a pass has to read before it may rely on a cache.

If a cache lags, the pass waits for it. If it stays behind, the pass sends a LIST instead. The
*position* of a cache is the resourceVersion up to which its watch or list delivered everything.
Answers to our own writes never move it: objects that others wrote before may still be missing.
"""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from controller.cache import Cache
from controller.clock import Clock
from controller.meta import Object

ObjectT = TypeVar("ObjectT", bound=Object)

RETRY_SECONDS = 0.1
"""Seconds after which a pass looks again at a cache that is behind."""
LIST_SECONDS = 0.5
"""Seconds after which a pass looks again for the LIST that it waits for."""


def highest_revision(objects: Iterable[Object]) -> int:
    """Return the highest resourceVersion of objects of one kind; 0 for none."""
    return max((obj.metadata.revision for obj in objects), default=0)


class Behind(Exception):
    """The pass cannot know yet what is held, so it is retried after `after` seconds.

    Args:
        after: seconds until the retry.
        reason: what the pass waits for, for the log.
    """

    def __init__(
        self,
        after: float = RETRY_SECONDS,
        reason: str = "the cache has not read as far as the pool's promises",
    ) -> None:
        super().__init__(f"{reason}; trying again after {after} s")
        self.after = after
        self.reason = reason


class ListUnderWay(Behind):
    """A LIST for other pools is under way, which began before this pool was read.

    That LIST may lack an object that was written after it began and before the pool was read. The
    next LIST serves this pool.
    """

    def __init__(self) -> None:
        super().__init__(LIST_SECONDS, "a LIST of IPAllocations for other pools is under way")


class CacheWait:
    """Decides how long passes wait for a cache before they ask the server.

    A LIST may show what a cache that is behind does not: an object that a person wrote, which no
    promise announces. So a cache is used again only once it has read what the last LIST showed.

    Args:
        clock: the time.
        seconds: how long the pass over one pool waits before it sends a LIST.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since: dict[Hashable, float] = {}
        """By pool: since when (monotonic seconds) it has waited for the cache."""
        self._listed: dict[Hashable, int] = {}
        """By pool: the highest resourceVersion that its last LIST showed, until it is read."""

    def note_list(self, pool: Hashable, objects: Iterable[Object]) -> None:
        """Note what a LIST showed of a pool."""
        self._listed[pool] = highest_revision(objects)

    def has_read_list(self, cache: Cache[ObjectT], pool: Hashable) -> bool:
        """Return whether a cache has read what the last LIST showed of a pool.

        True if no LIST is noted.
        """
        return cache.position >= self._listed.get(pool, 0)

    def has_read(self, cache: Cache[ObjectT], revision: int, pool: Hashable) -> bool:
        """Return whether a pass may use a cache; False if it has waited enough and should LIST.

        Args:
            cache: the cache that the pass would use.
            revision: the resourceVersion that the cache has to reach.
            pool: identifies the pool of the pass; together with the kind of the cache if passes
                over the pool wait for caches of several kinds.

        Raises:
            Behind: the cache has not reached the revision, and the pass should wait for it.
        """
        if cache.position >= revision and self.has_read_list(cache, pool):
            self.forget(pool)
            return True
        now = self._clock.monotonic()
        if now - self._since.setdefault(pool, now) < self._seconds:
            raise Behind
        return False

    def forget(self, pool: Hashable) -> None:
        """Forget a pool that is gone, or whose cache has caught up."""
        self._since.pop(pool, None)
        self._listed.pop(pool, None)
