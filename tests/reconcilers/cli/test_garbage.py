"""A long garbage collection freezes the objects that survive it, so that the next one is short."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from reconcilers.cli.garbage import THAW_SECONDS, Freezer, keep_collections_short


@pytest.fixture(autouse=True)
def _unfreeze_objects() -> Iterator[None]:
    """Let no object be frozen before and after a test."""
    gc.unfreeze()
    yield
    gc.unfreeze()


def _count_frozen_after_collection(seconds: float, generation: int = 2) -> int:
    """Tell a Freezer of a collection; return the number of objects that are frozen after it.

    Args:
        seconds: the CPU time of the collection.
        generation: the generation that was collected; 2 is a full collection.
    """
    cpu_times = iter((10.0, 10.0 + seconds))
    freezer = Freezer(lambda: next(cpu_times))
    for phase in ("start", "stop"):
        freezer.handle_collection(phase, {"generation": generation})
    return gc.get_freeze_count()


def test_a_long_full_collection_freezes_the_surviving_objects() -> None:
    assert _count_frozen_after_collection(0.1) > 0


def test_a_short_full_collection_freezes_nothing() -> None:
    assert _count_frozen_after_collection(0.005) == 0


def test_a_collection_of_young_objects_freezes_nothing() -> None:
    assert _count_frozen_after_collection(0.1, generation=1) == 0


def test_the_settings_of_the_collector_are_restored_after_the_context() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    with keep_collections_short():
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), list(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0


class _Cycle:
    """An object that only a garbage collection frees."""

    def __init__(self) -> None:
        self.itself = self


def test_a_frozen_cycle_without_references_is_freed_after_the_next_thaw() -> None:
    cycle = _Cycle()
    reference = weakref.ref(cycle)
    gc.freeze()
    del cycle
    times = iter((0.0, 1.0, 1.0, THAW_SECONDS, THAW_SECONDS))
    freezer = Freezer(lambda: 0.0, lambda: next(times))
    for expected in (True, False):
        for phase in ("start", "stop"):
            freezer.handle_collection(phase, {"generation": 2})
        gc.collect()
        assert (reference() is not None) is expected
