"""Finding out who changes an object of a cache in place.

Objects are shared by all who read a cache. Most are frozen through and through; what a type holds
in plain dicts and lists is not, and who writes into one changes what everybody else reads, until
the next event. This mode finds it out, as client-go's KUBE_CACHE_MUTATION_DETECTOR does: it
remembers what each object looked like, and looks again every second. It costs the memory of
every object twice, so it is for tests and for hunting.
"""

from typing import Any

from controller.cache import Change
from controller.clock import Clock
from controller.informer import Informer
from controller.meta import Key, Object

CHECK_SECONDS = 1.0
_SHOWN = 200


class ObjectMutated(Exception):
    """An object of a cache was changed in place; whoever did so has to build a new one."""


class MutationDetector:
    """Remembers what the objects of one informer look like.

    Args:
        informer: what is looked after.
        clock: for the pauses.
    """

    def __init__(self, informer: Informer[Any], clock: Clock) -> None:
        self._informer = informer
        self._clock = clock
        self._seen: dict[Key, tuple[Object, str]] = {}
        self._replaced: list[tuple[Key, Object, str]] = []

    async def run(self) -> None:
        """Look every second, until cancelled.

        Raises:
            ObjectMutated: an object does not look as it did when it came.
        """
        registration = self._informer.add_handler(self._note)
        try:
            while True:
                await self._clock.sleep(CHECK_SECONDS)
                self.check()
        finally:
            registration.close()

    def check(self) -> None:
        """Look at every object that is there, and once more at those that were replaced.

        Raises:
            ObjectMutated: an object does not look as it did when it came.
        """
        replaced, self._replaced = self._replaced, []
        present = [(key, obj, before) for key, (obj, before) in self._seen.items()]
        for key, obj, before in (*replaced, *present):
            now = repr(obj)
            if now != before:
                raise ObjectMutated(
                    f"{self._informer.resource.kind} {key} was changed in place, in the cache that"
                    f" everybody reads: build a new object instead. {_difference(before, now)}"
                )

    def _note(self, change: Change[Any]) -> None:
        if change.old is not None:
            key = change.old.metadata.key
            if (known := self._seen.pop(key, None)) is not None:
                self._replaced.append((key, *known))
        if change.new is not None:
            self._seen[change.new.metadata.key] = (change.new, repr(change.new))


def _difference(before: str, after: str) -> str:
    """Return where two descriptions part, and a little of how they go on."""
    pairs = enumerate(zip(before, after, strict=False))
    start = next((at for at, (old, new) in pairs if old != new), min(len(before), len(after)))
    begin = max(0, start - 40)
    return f"Before: …{before[begin:][:_SHOWN]}… Now: …{after[begin:][:_SHOWN]}…"
