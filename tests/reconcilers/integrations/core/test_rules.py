"""When a pool is fenced before it hands out addresses."""

import pytest

from reconcilers.integrations.core.rules import needs_fence

JOURNAL_REVISION = 7
"""The revision up to which the journal of the pool requires the cache to be read."""


@pytest.mark.parametrize("has_requests", [True, False])
def test_a_pool_without_a_journal_is_fenced_once_it_has_requests(has_requests: bool) -> None:
    assert needs_fence(None, JOURNAL_REVISION, has_requests=has_requests) == has_requests


@pytest.mark.parametrize("has_requests", [True, False])
@pytest.mark.parametrize("position", [6, 7, 8])
def test_a_pool_is_fenced_if_the_position_of_the_cache_is_before_the_journals_revision(
    position: int, has_requests: bool
) -> None:
    """Then etcd was restored from a backup, so the journal is of another history."""
    is_fenced = needs_fence(JOURNAL_REVISION, position, has_requests=has_requests)
    assert is_fenced == (position < JOURNAL_REVISION)
