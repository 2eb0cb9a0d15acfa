"""What holds for every test of the reconcilers: no kept state ever differs from a rebuilt one."""

from collections.abc import Iterator

import pytest

from tests.reconcilers.checked import Differences, always_checked


@pytest.fixture(autouse=True)
def contents_differences() -> Iterator[Differences]:
    """Check what is kept of pools in each pass; fail the test if it is ever wrong."""
    with always_checked() as checks:
        yield checks
    assert checks == []
