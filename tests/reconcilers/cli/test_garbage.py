"""Long collections of garbage freeze what they leave, so that the next one is short."""

import gc
from collections.abc import Iterator

import pytest

from reconcilers.cli.garbage import Freezer


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
        freezer.note(phase, {"generation": generation})
    return gc.get_freeze_count()


def test_what_a_long_full_collection_leaves_is_frozen() -> None:
    assert _collect(0.1) > 0


def test_a_short_full_collection_freezes_nothing() -> None:
    assert _collect(0.01) == 0


def test_a_collection_of_young_objects_freezes_nothing() -> None:
    assert _collect(0.1, generation=1) == 0
