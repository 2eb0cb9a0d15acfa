"""Detecting code that changes cached objects in place.

All readers of a cache share its objects. Objects are frozen, but dicts and lists in them are not:
a change there is seen by all other readers until the next event. This detector, like client-go's
KUBE_CACHE_MUTATION_DETECTOR, keeps the repr of each object and compares it every second. It needs
the memory of every object twice, so it is for tests and debugging.
"""

from typing import Any

from controller.cache import Change
from controller.clock import Clock
from controller.informer import Informer
from controller.meta import Key, Object

CHECK_SECONDS = 1.0
_EXCERPT = 200


class ObjectMutated(Exception):
    """A cached object was changed in place, instead of making a new object."""


class MutationDetector:
    """Compares the cached objects of one informer with what they were.

    Args:
        informer: the informer.
        clock: for the delays.
    """

    def __init__(self, informer: Informer[Any], clock: Clock) -> None:
        self._informer = informer
        self._clock = clock
        self._seen: dict[Key, tuple[Object, str]] = {}
        self._replaced: list[tuple[Key, Object, str]] = []

    async def run(self) -> None:
        """Compare all objects every second until cancelled.

        Raises:
            ObjectMutated: an object was changed in place.
        """
        registration = self._informer.add_handler(self._record)
        try:
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                self.check()
        finally:
            registration.close()

    def check(self) -> None:
        """Compare all objects in the cache, and those that were replaced since the last call.

        Raises:
            ObjectMutated: an object was changed in place.
        """
        replaced, self._replaced = self._replaced, []
        present = [(key, obj, before) for key, (obj, before) in self._seen.items()]
        for key, obj, before in (*replaced, *present):
            now = repr(obj)
            if now != before:
                raise ObjectMutated(
                    f"{self._informer.resource.kind} {key} was changed in place, in the cache that"
                    f" all readers share: make a new object instead. {_difference(before, now)}"
                )

    def _record(self, change: Change[Any]) -> None:
        if change.old is not None:
            key = change.old.metadata.key
            if (known := self._seen.pop(key, None)) is not None:
                self._replaced.append((key, *known))
        if change.new is not None:
            self._seen[change.new.metadata.key] = (change.new, repr(change.new))


def _difference(before: str, after: str) -> str:
    """Return excerpts of two texts from shortly before where they begin to differ."""
    pairs = enumerate(zip(before, after, strict=False))
    start = next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))
    begin = max(0, start - 40)
    return f"Before: …{before[begin:][:_EXCERPT]}… Now: …{after[begin:][:_EXCERPT]}…"
