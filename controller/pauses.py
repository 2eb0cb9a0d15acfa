"""How long a watch loop waits after failures."""

import random

from controller.clock import Clock


class Pauses:
    """How long to wait after the n-th failure: client-go's reflector backoff.

    From 0.8 s, doubling up to 30 s, each lengthened by up to its own length at random; from the
    start again after two minutes without a failure.

    Args:
        clock: tells how long the last failure is ago.
        randomness: where the jitter comes from.
    """

    def __init__(self, clock: Clock, randomness: random.Random) -> None:
        self._clock = clock
        self._random = randomness
        self._next = 0.8
        self._last = clock.monotonic()

    def next(self) -> float:
        """Return the seconds to wait now."""
        now = self._clock.monotonic()
        if now - self._last > 120:
            self._next = 0.8
        base, self._next = self._next, min(30.0, self._next * 2)
        seconds = base * (1 + self._random.random())
        self._last = now + seconds
        return seconds
