"""A check around every test of the reconcilers: kept state never differs from rebuilt state."""

from collections.abc import Iterator

import pytest

from tests.reconcilers.checked import Differences, always_checked


@pytest.fixture(autouse=True)
def contents_differences() -> Iterator[Differences]:
    """Compare kept state with rebuilt state in each pass; fail the test at any difference."""
    with always_checked() as differences:
        yield differences
    assert differences == []
