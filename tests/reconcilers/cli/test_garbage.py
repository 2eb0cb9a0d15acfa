"""Long collections of garbage freeze what they leave, so that the next one is short."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from reconcilers.cli.garbage import THAW_SECONDS, Freezer, short_collections


@pytest.fixture(autouse=True)
def _unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def _collect(seconds: float, generation: int = 2) -> int:
    """Note a collection that took so many CPU seconds; return how many objects are frozen then."""
    times = iter((10.0, 10.0 + seconds))
    freezer = Freezer(lambda: next(times))
    for phase in ("start", "stop"):
        freezer.handle_collection(phase, {"generation": generation})
    return gc.get_freeze_count()


def test_what_a_long_full_collection_leaves_is_frozen() -> None:
    assert _collect(0.1) > 0


def test_a_short_full_collection_freezes_nothing() -> None:
    assert _collect(0.005) == 0


def test_a_collection_of_young_objects_freezes_nothing() -> None:
    assert _collect(0.1, generation=1) == 0


def test_after_the_run_garbage_is_collected_as_before() -> None:
    before = gc.get_threshold(), list(gc.callbacks)
    with short_collections():
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), list(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0


class _Knot:
    """An object that only a garbage collection frees."""

    def __init__(self) -> None:
        self.itself = self


def test_a_frozen_cycle_that_fell_out_of_use_is_freed_after_the_next_thaw() -> None:
    knot = _Knot()
    reference = weakref.ref(knot)
    gc.freeze()
    del knot
    times = iter((0.0, 1.0, 1.0, THAW_SECONDS, THAW_SECONDS))
    freezer = Freezer(lambda: 0.0, lambda: next(times))
    for expected in (True, False):
        for phase in ("start", "stop"):
            freezer.handle_collection(phase, {"generation": 2})
        gc.collect()
        assert (reference() is not None) is expected
