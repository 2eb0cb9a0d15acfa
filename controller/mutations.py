"""Detects code that changes cached objects in place.

All readers of a cache share its objects. Objects are frozen, but dicts and lists in them are not:
all other readers see a change there until the next event. This detector, like client-go's
KUBE_CACHE_MUTATION_DETECTOR, keeps each object as JSON too, and compares both every few seconds.
It needs the memory of every object twice, so it is for tests and debugging. Rejected: the repr of
an object, which takes three times as long as JSON.
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
"""Characters of an object's JSON in a message."""
_CONTEXT = 40
"""So many of these characters are before the first difference."""


class ObjectMutated(Exception):
    """Code changed a cached object in place, instead of creating a new object."""


class MutationDetector:
    """Compares the cached objects of informers with their state on entering the cache.

    Args:
        informers: the informers whose caches are checked.
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
                stack.enter_context(closing(_CacheRecord(informer)))
                for informer in self._informers
            ]
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                for record in records:
                    record.check()


class _CacheRecord:
    """Finds changes in place of one informer's objects, by their JSON on entering the cache.

    An object that was replaced since the last check is checked once more: it may have been changed
    before.
    """

    def __init__(self, informer: AnyInformer) -> None:
        self._kind = informer.resource.kind
        self._present: dict[Key, tuple[Object, bytes]] = {}
        self._replaced: list[tuple[Key, Object, bytes]] = []
        self._registration = informer.add_handler(self._on_change)

    def close(self) -> None:
        """Stop recording objects."""
        self._registration.close()

    def check(self) -> None:
        """Compare all objects in the cache, and the objects replaced since the last call.

        Raises:
            ObjectMutated: an object was changed in place.
        """
        replaced, self._replaced = self._replaced, []
        present = [(key, obj, original) for key, (obj, original) in self._present.items()]
        for key, obj, original in (*replaced, *present):
            encoded = _encode(obj)
            if encoded != original:
                raise ObjectMutated(
                    f"{self._kind} {key} was changed in place, in the cache that all readers"
                    " share: make a new object instead."
                    f" {_describe_difference(original.decode(), encoded.decode())}"
                )

    def _on_change(self, change: Change[Any]) -> None:
        """Keep the new object with its JSON, and the replaced object for the next check."""
        if change.old is not None:
            key = change.old.metadata.key
            if (entry := self._present.pop(key, None)) is not None:
                self._replaced.append((key, *entry))
        if change.new is not None:
            self._present[change.new.metadata.key] = (change.new, _encode(change.new))


def _encode(obj: Object) -> bytes:
    """Return an object as JSON, with the repr of each value that msgspec cannot encode."""
    return msgspec.json.encode(obj, enc_hook=repr)


def _describe_difference(before: str, after: str) -> str:
    """Return excerpts of two texts, which begin shortly before their first difference."""
    pairs = enumerate(zip(before, after, strict=False))
    # If one text begins with the other, they differ where the shorter text ends.
    shorter_length = min(len(before), len(after))
    difference = next((index for index, (old, new) in pairs if old != new), shorter_length)
    begin = max(0, difference - _CONTEXT)
    end = begin + _EXCERPT
    return f"Before: …{before[begin:end]}… Now: …{after[begin:end]}…"
