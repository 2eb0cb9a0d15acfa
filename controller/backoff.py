"""How long a list/watch loop waits after failures."""

import random

from controller.clock import Clock

WATCH_BASE_SECONDS = 0.8
WATCH_MAX_SECONDS = 30.0
WATCH_RESET_SECONDS = 120.0


class WatchBackoff:
    """Delays after failures of a list/watch loop, with the numbers of client-go's reflector.

    The first delay is 0.8 s, and each delay is twice the one before, up to a maximum of 30 s. Each
    is lengthened by a random share of up to its own length. After two minutes without a failure
    the delays begin with 0.8 s again.

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
        self._next = WATCH_BASE_SECONDS  # the next delay, without its random share
        self._retried_at = clock.monotonic()

    def reset(self) -> None:
        """Begin with 0.8 s again at the next failure."""
        self._next = WATCH_BASE_SECONDS

    def note_failure(self) -> float:
        """Count a failure; return the seconds to wait before the retry."""
        now = self._clock.monotonic()
        if now - self._retried_at > WATCH_RESET_SECONDS:
            self.reset()  # the watch has worked since the retry, so this is a new problem
        base, self._next = self._next, min(self._maximum, self._next * 2)
        seconds = base * (1 + self._random.random())
        self._retried_at = now + seconds  # the caller retries after the wait
        return seconds
