"""Which keys wait for an instant, and which comes first.

A heap with one live entry per key. Moving a key pushes a new entry and leaves the old one behind
as a stale one that is skipped when it surfaces; when the stale outnumber the live, the heap is
built anew, so a key that is moved forever does not grow it.
"""

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Delays(Generic[K]):
    """Keys, each with the instant it is due and a priority to be queued with."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._live: dict[K, tuple[float, int, int]] = {}
        self._order = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: K) -> bool:
        return key in self._live

    @property
    def earliest(self) -> float | None:
        """The instant at which the first key is due; None if no key waits."""
        heap, live = self._heap, self._live
        while heap:
            due, order, key = heap[0]
            entry = live.get(key)
            if entry is not None and entry[1] == order:
                return due
            heapq.heappop(heap)
        return None

    def put(self, key: K, due: float, priority: int) -> None:
        """Let `key` wait until `due`; of several instants the earliest counts.

        Of several priorities the highest counts.
        """
        known = self._live.get(key)
        if known is not None:
            priority = max(priority, known[2])
            if known[0] <= due:
                self._live[key] = (known[0], known[1], priority)
                return
        self._order += 1
        self._live[key] = (due, self._order, priority)
        heapq.heappush(self._heap, (due, self._order, key))
        if len(self._heap) > 2 * len(self._live) + _SLACK:
            self._rebuild()

    def discard(self, key: K) -> int | None:
        """Take `key` out whenever it is due; returns its priority, None if it did not wait."""
        entry = self._live.pop(key, None)
        return None if entry is None else entry[2]

    def pop_due(self, now: float) -> tuple[K, float, int] | None:
        """Take out the first key that is due: the key, its instant, its priority."""
        due = self.earliest
        if due is None or due > now:
            return None
        key = heapq.heappop(self._heap)[2]
        return key, due, self._live.pop(key)[2]

    def clear(self) -> None:
        """Forget every key."""
        self._heap.clear()
        self._live.clear()

    def _rebuild(self) -> None:
        self._heap = [(due, order, key) for key, (due, order, _) in self._live.items()]
        heapq.heapify(self._heap)
