"""What a replica remembers of pools whose claims are not served."""

from dataclasses import replace

import pytest

from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.api import JOURNALS
from reconcilers.integrations.clusterapi.networkpools import ABSENCE_SECONDS, ClaimHolders
from reconcilers.integrations.core.holders import AllHolders
from reconcilers.promises.journal import ANNOTATION
from reconcilers.promises.reading import Behind
from tests.clock import VirtualClock
from tests.reconcilers import make


def _pool_with_journal(stored: str | None = None) -> NetworkPool:
    """Return a pool with a journal as it is stored; None for one without promises."""
    pool = make.pool("p")
    patch = JOURNALS.patch(pool, JOURNALS.with_revision(7))
    annotations = patch["metadata"]["annotations"]
    if stored is not None:
        annotations = {ANNOTATION: stored}
    return replace(pool, metadata=replace(pool.metadata, annotations=annotations))


async def test_a_pool_that_was_deleted_and_made_again_waits_as_long_as_a_new_one() -> None:
    clock = VirtualClock()
    claims = ClaimHolders(clock)
    claims.known = True
    holders, pool = AllHolders([claims]), _pool_with_journal()
    with pytest.raises(Behind):
        holders.held(pool)
    await clock.advance(ABSENCE_SECONDS)
    assert holders.held(pool) == []
    holders.forget(pool.metadata.key)
    with pytest.raises(Behind):
        holders.held(pool)


async def test_an_unreadable_journal_shows_that_claims_were_served() -> None:
    clock = VirtualClock()
    claims = ClaimHolders(clock)
    claims.known = True
    with pytest.raises(Behind):
        claims.held(_pool_with_journal("nonsense"))
    await clock.advance(ABSENCE_SECONDS)
    with pytest.raises(Behind):
        claims.held(_pool_with_journal("other nonsense"))
    await clock.advance(ABSENCE_SECONDS)
    assert claims.held(_pool_with_journal("other nonsense")) == []
