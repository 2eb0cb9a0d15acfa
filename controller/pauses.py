"""How long a watch loop waits after failures."""

import random

from controller.clock import Clock

FIRST_SECONDS = 0.8
LONGEST_SECONDS = 30.0
STEADY_SECONDS = 120.0


class Pauses:
    """How long to wait after the n-th failure: client-go's reflector backoff.

    From 0.8 s, doubling up to 30 s, each lengthened by up to its own length at random; from the
    start again after two minutes without a failure.

    Args:
        clock: tells how long the last failure is ago.
        randomness: where the jitter comes from.
        longest: seconds at which the doubling ends.
    """

    def __init__(
        self, clock: Clock, randomness: random.Random, *, longest: float = LONGEST_SECONDS
    ) -> None:
        self._clock = clock
        self._random = randomness
        self._longest = longest
        self._next = FIRST_SECONDS
        self._last = clock.monotonic()

    def reset(self) -> None:
        """Begin with the shortest again: things went well for a while."""
        self._next = FIRST_SECONDS

    def next(self) -> float:
        """Return the seconds to wait now."""
        now = self._clock.monotonic()
        if now - self._last > STEADY_SECONDS:
            self._next = FIRST_SECONDS
        base, self._next = self._next, min(self._longest, self._next * 2)
        seconds = base * (1 + self._random.random())
        self._last = now + seconds
        return seconds
