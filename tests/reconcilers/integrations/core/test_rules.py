"""When an object with a journal is fenced before it hands out."""

import pytest

from reconcilers.integrations.core.rules import needs_fence


@pytest.mark.parametrize("expected", [True, False])
def test_one_that_was_never_written_is_fenced_once_something_is_wanted(expected: bool) -> None:
    assert needs_fence(None, 7, has_requests=expected) == expected


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("position", [6, 7, 8])
def test_one_of_another_history_is_fenced_whatever_is_wanted(
    position: int, expected: bool
) -> None:
    assert needs_fence(7, position, has_requests=expected) == (position < 7)
