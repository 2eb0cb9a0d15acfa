"""How long to wait after failures: per key of a work queue, and per list/watch loop."""

import random
from collections.abc import Hashable
from typing import Generic, TypeVar

from controller.clock import Clock

K = TypeVar("K", bound=Hashable)

KEY_BASE_SECONDS = 0.005
KEY_MAX_SECONDS = 1000.0
WATCH_BASE_SECONDS = 0.8
WATCH_MAX_SECONDS = 30.0
WATCH_RESET_SECONDS = 120.0


class KeyBackoff(Generic[K]):
    """Exponential delays per key: base, 2 base, 4 base and so on up to a maximum.

    These are the numbers of client-go's per-item limiter. Its second part, a token bucket that all
    keys share, is left out, as in controller-runtime's priority queue: with it the failures of one
    tenant's keys would delay all other keys.

    Args:
        base: seconds before the first retry.
        maximum: seconds of the longest delay.
    """

    def __init__(self, base: float = KEY_BASE_SECONDS, maximum: float = KEY_MAX_SECONDS) -> None:
        self._base = base
        self._maximum = maximum
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Return the number of keys that have failures."""
        return len(self._failures)

    def failed(self, key: K) -> float:
        """Count a failure of `key`; return the seconds to wait before the retry."""
        before = self._failures.get(key, 0)
        self._failures[key] = before + 1
        # The exponent is limited because 2.0**1024 raises OverflowError.
        return min(self._maximum, self._base * 2.0 ** min(before, 64))

    def forget(self, key: K) -> None:
        """Reset the failures of `key` to 0, after a success or when it is not retried."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        return self._failures.get(key, 0)


class WatchBackoff:
    """Delays after failures of a list/watch loop, with the numbers of client-go's reflector.

    From 0.8 s, doubling up to a maximum of 30 s, each lengthened by a random share of up to its
    own length; from 0.8 s again after two minutes without a failure.

    Args:
        clock: measures the time since the last failure.
        randomness: for the random share.
        maximum: seconds at which the doubling ends.
    """

    def __init__(
        self, clock: Clock, randomness: random.Random, *, maximum: float = WATCH_MAX_SECONDS
    ) -> None:
        self._clock = clock
        self._random = randomness
        self._maximum = maximum
        self._next = WATCH_BASE_SECONDS
        self._retried_at = clock.monotonic()

    def reset(self) -> None:
        """Begin with 0.8 s again at the next failure."""
        self._next = WATCH_BASE_SECONDS

    def failed(self) -> float:
        """Count a failure; return the seconds to wait before the retry."""
        now = self._clock.monotonic()
        if now - self._retried_at > WATCH_RESET_SECONDS:
            self.reset()
        base, self._next = self._next, min(self._maximum, self._next * 2)
        seconds = base * (1 + self._random.random())
        self._retried_at = now + seconds
        return seconds
