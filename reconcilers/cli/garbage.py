"""Keeps pauses of the garbage collector short in a process that holds many objects.

A full collection visits every container object, and the event loop stops meanwhile. With 20,000
cached IPAllocations it takes more than a tenth of a second, and there are many while the objects
are listed and served. To *freeze* objects (`gc.freeze`) excludes them from later collections.
All objects that are left after a long full collection are frozen.

A frozen object is still freed when its reference count falls to zero. Only a cycle of frozen
objects is not freed. Therefore nothing is frozen after a short collection, and every six hours all
objects are thawed: the next full collection takes long, and frees such cycles.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

LONGEST_SECONDS = 0.01
"""CPU seconds that a full collection may take before what it leaves is frozen."""
THAW_SECONDS = 6 * 3600.0
"""Seconds after which frozen objects are thawed."""
_THRESHOLDS = (5000, 1, 2)
"""A collection follows after 5,000 new objects and not 700 as by default: most objects of a
request are freed by then, so half the CPU time of collections is saved. A full collection follows
after 30,000 new objects, so that it is short: earlier objects are frozen."""
_FULL = 2
"""The generation of a full collection."""


class Freezer:
    """Freezes all objects that are left after a full collection that took long.

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
        self._cpu_time_at_start = 0.0
        self._thawed_at = monotonic()

    def handle_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Handle the start or the end of a collection; a callback for `gc.callbacks`.

        Args:
            phase: "start" or "stop".
            info: has the `generation` of the collection.
        """
        # Collections of young objects are short: only full ones are measured.
        if info["generation"] != _FULL:
            return
        now = self._monotonic()
        if phase == "start":
            self._cpu_time_at_start = self._cpu_time()
        elif now - self._thawed_at >= THAW_SECONDS:
            # Objects are thawed at the end of a collection, for the next one. At the start of a
            # collection it would be too late: Python has already chosen the generation.
            self._thawed_at = now
            gc.unfreeze()
        elif self._cpu_time() - self._cpu_time_at_start > LONGEST_SECONDS:
            gc.freeze()


@contextmanager
def keep_collections_short() -> Iterator[None]:
    """Keep garbage collections short during the context.

    All present objects are frozen: modules and classes stay for the life of the process. Later,
    all objects that are left after a long collection are frozen. At the end, all is thawed.
    """
    handle_collection, thresholds = Freezer().handle_collection, gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(handle_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(handle_collection)
        gc.set_threshold(*thresholds)
        gc.unfreeze()
