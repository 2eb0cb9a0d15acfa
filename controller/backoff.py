"""How long a key that failed waits for its next try: longer each time, and each key for itself."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

BASE_SECONDS = 0.005
CAP_SECONDS = 1000.0


class KeyBackoff(Generic[K]):
    """Exponential delays per key: base, 2 base, 4 base and so on up to a cap.

    client-go's item limiter with its numbers. Its second part, a bucket shared by all keys, is
    left out on purpose (controller-runtime's priority queue has none either): with it, one
    tenant's failures delay everybody.

    Args:
        base: seconds before the first retry.
        cap: seconds that no delay exceeds.
    """

    def __init__(self, base: float = BASE_SECONDS, cap: float = CAP_SECONDS) -> None:
        self._base = base
        self._cap = cap
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Return how many keys have failures on record."""
        return len(self._failures)

    def failed(self, key: K) -> float:
        """Record one more failure of `key`; returns the seconds to wait."""
        before = self._failures.get(key, 0)
        self._failures[key] = before + 1
        # The exponent is bounded because 2.0**1024 is an OverflowError.
        return min(self._cap, self._base * 2.0 ** min(before, 64))

    def forget(self, key: K) -> None:
        """Drop the record of `key`: it succeeded, or nobody will retry it."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often `key` failed since it was last forgotten."""
        return self._failures.get(key, 0)
