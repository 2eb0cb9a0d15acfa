"""Keeps pauses of the garbage collector short in a process that holds many objects.

A full collection looks at every container there is, and the event loop stands meanwhile: with
20,000 cached IPAllocations it takes more than a tenth of a second, again and again while they are
listed and served. So what is still in use after a collection that took long is frozen: no later
collection looks at it. It goes by its reference count, as nearly everything does. Only a cycle of
frozen objects that falls out of use later stays. So nothing is frozen after a short collection,
and every six hours all objects are thawed: the next full collection takes long, and frees these.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

LONGEST_SECONDS = 0.01
"""CPU seconds that a full collection may take before what it leaves is frozen."""
THAW_SECONDS = 6 * 3600.0
"""Seconds after which frozen objects are looked at once more."""
_THRESHOLDS = (700, 10, 3)
"""Python's own, but for full collections: they come after 3 of the second generation, not 10. So
each looks at fewer objects, as those of before are frozen."""
_FULL = 2


class Freezer:
    """Freezes what a full collection leaves if the collection took long.

    Args:
        cpu_time: returns the CPU seconds of the calling thread.
        monotonic: returns the time in seconds.
    """

    def __init__(
        self,
        cpu_time: Callable[[], float] = time.thread_time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cpu_time = cpu_time
        self._monotonic = monotonic
        self._begun = 0.0
        self._thawed_at = monotonic()

    def note(self, phase: str, info: Mapping[str, int]) -> None:
        """Note the start or the end of a collection, as `gc.callbacks` are called."""
        if info["generation"] != _FULL:
            return
        now = self._monotonic()
        if phase == "start":
            self._begun = self._cpu_time()
        elif now - self._thawed_at >= THAW_SECONDS:
            # Not before a collection: its callbacks begin when its generation is chosen already.
            self._thawed_at = now
            gc.unfreeze()
        elif self._cpu_time() - self._begun > LONGEST_SECONDS:
            gc.freeze()


@contextmanager
def short_collections() -> Iterator[None]:
    """Freeze what is loaded, and what long collections leave; undo that in the end."""
    note, thresholds = Freezer().note, gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
