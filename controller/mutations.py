"""Detecting code that changes cached objects in place.

All readers of a cache share its objects. Objects are frozen, but dicts and lists in them are not:
a change there is seen by all other readers until the next event. This detector, like client-go's
KUBE_CACHE_MUTATION_DETECTOR, keeps each object as JSON and compares that every few seconds. It
needs the memory of every object twice, so it is for tests and debugging. (The repr of an object
would take three times as long to make.)
"""

from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import Any

import msgspec

from controller.cache import Change
from controller.clock import Clock
from controller.informers import AnyInformer
from controller.meta import Key, Object

CHECK_SECONDS = 5.0
_EXCERPT = 200


class ObjectMutated(Exception):
    """A cached object was changed in place, instead of making a new object."""


class MutationDetector:
    """Compares the cached objects of informers with what they were.

    Args:
        informers: whose caches.
        clock: for the delays.
    """

    def __init__(self, informers: Iterable[AnyInformer], clock: Clock) -> None:
        self._informers = informers
        self._clock = clock

    async def run(self) -> None:
        """Compare all objects every five seconds until cancelled.

        Raises:
            ObjectMutated: an object was changed in place.
        """
        with ExitStack() as stack:
            records = [
                stack.enter_context(closing(_Record(informer))) for informer in self._informers
            ]
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                for record in records:
                    record.check()


class _Record:
    """Finds changes in place of one informer's objects, by their JSON on entering the cache."""

    def __init__(self, informer: AnyInformer) -> None:
        self._kind = informer.resource.kind
        self._seen: dict[Key, tuple[Object, bytes]] = {}
        self._replaced: list[tuple[Key, Object, bytes]] = []
        self._registration = informer.add_handler(self._on_change)

    def close(self) -> None:
        """Record nothing more."""
        self._registration.close()

    def check(self) -> None:
        """Compare all objects in the cache, and those that were replaced since the last call.

        Raises:
            ObjectMutated: an object was changed in place.
        """
        replaced, self._replaced = self._replaced, []
        present = [(key, obj, before) for key, (obj, before) in self._seen.items()]
        for key, obj, before in (*replaced, *present):
            now = _encode(obj)
            if now != before:
                raise ObjectMutated(
                    f"{self._kind} {key} was changed in place, in the cache that all readers"
                    " share: make a new object instead."
                    f" {_difference(before.decode(), now.decode())}"
                )

    def _on_change(self, change: Change[Any]) -> None:
        """Keep the new object with its encoded form, and the replaced one for the next check."""
        if change.old is not None:
            key = change.old.metadata.key
            if (known := self._seen.pop(key, None)) is not None:
                self._replaced.append((key, *known))
        if change.new is not None:
            self._seen[change.new.metadata.key] = (change.new, _encode(change.new))


def _encode(obj: Object) -> bytes:
    """Return an object as JSON; of what msgspec cannot write, its repr."""
    return msgspec.json.encode(obj, enc_hook=repr)


def _difference(before: str, after: str) -> str:
    """Return excerpts of two texts from shortly before where they begin to differ."""
    pairs = enumerate(zip(before, after, strict=False))
    start = next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))
    begin = max(0, start - 40)
    return f"Before: …{before[begin:][:_EXCERPT]}… Now: …{after[begin:][:_EXCERPT]}…"
