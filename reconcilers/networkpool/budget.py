"""How much may be told one by one: so many things in a minute, for each pool.

Allocations that are created one after another, as fast as they can be, are served by passes that
see but one or two of them each: the size of a pass alone does not tell a burst.
"""

from collections import deque

from controller.clock import Clock
from controller.meta import Key

WINDOW_SECONDS = 60.0


class Budget:
    """Counts what was told of each pool during the last minute.

    Args:
        clock: for the time.
        most: how many things may be told of one pool in a minute.
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._told: dict[Key, deque[float]] = {}

    def grants(self, pool: Key, count: int) -> bool:
        """Whether `count` more things may be told of the pool; if so, they count as told."""
        now = self._clock.monotonic()
        self._forget(now - WINDOW_SECONDS)
        told = self._told.get(pool, deque())
        if len(told) + count > self._most:
            return False
        if count:
            told.extend([now] * count)
            self._told[pool] = told
        return True

    def _forget(self, until: float) -> None:
        for pool, told in list(self._told.items()):
            while told and told[0] <= until:
                told.popleft()
            if not told:
                del self._told[pool]
