"""How many new events one object may get: client-go's spam filter (tools/record).

A bucket of 25 for each object, refilled by one every five minutes. It stands before new events
only: repetitions of one become a series, which costs two writes however long it is. An event
that concerns a second object has a bucket of the two: what one object does for a hundred others
is a hundred stories, and how many of those are told is for the teller to decide.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar

from controller.clock import Clock

K = TypeVar("K")

BURST = 25
REFILL_SECONDS = 300.0
REMEMBERED = 4096
"""Objects whose buckets are kept; the one longest unheard of is forgotten first."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_at: float


class SpamFilter(Generic[K]):
    """A token bucket for each key, bounded in number.

    Args:
        clock: refills them.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[K, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def admits(self, key: K) -> bool:
        """Whether one more may pass; if so, a token is taken."""
        now = self._clock.monotonic()
        bucket = self._buckets.pop(key, None) or _Bucket(BURST, now)
        refilled = bucket.tokens + (now - bucket.filled_at) / REFILL_SECONDS
        bucket.tokens, bucket.filled_at = min(float(BURST), refilled), now
        self._buckets[key] = bucket
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
