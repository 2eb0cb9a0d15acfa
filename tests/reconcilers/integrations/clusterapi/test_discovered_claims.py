"""What a replica remembers of pools whose claims are not served."""

from typing import Any

import pytest

from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.clusterapi.networkpoolclaims import (
    DiscoveredClaims,
)
from reconcilers.integrations.core.absentkinds import ABSENCE_SECONDS
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.facts import KIND
from reconcilers.promises.reading import Behind
from tests.clock import VirtualClock
from tests.reconcilers import make


def _pool_with_entry(*assignments: Any, of_allocations: int = 7, **status: Any) -> NetworkPool:
    """Return a pool whose journal has revisions of claims and IPAddresses, and promises."""
    revisions = {KIND: str(of_allocations), make.CLAIMS: "3"}
    journal = {"revisions": revisions, "assignments": [*assignments], **status}
    return make.pool("p", status=journal)


def _absent(clock: VirtualClock) -> DiscoveredClaims:
    """Return the knowledge of a process that has found no kind of claims."""
    claims = DiscoveredClaims(clock)
    claims.is_known = True
    return claims


async def test_a_pool_that_was_deleted_and_made_again_waits_as_long_as_a_new_one() -> None:
    clock = VirtualClock()
    claims, pool = _absent(clock), _pool_with_entry()
    with pytest.raises(Behind):
        claims.find_pool_claims(pool)
    await clock.advance(ABSENCE_SECONDS)
    assert claims.find_pool_claims(pool) is None
    claims.forget(pool.metadata.key)
    with pytest.raises(Behind):
        claims.find_pool_claims(pool)


async def test_an_entry_of_a_lost_journal_shows_that_claims_were_served() -> None:
    clock = VirtualClock()
    claims = _absent(clock)
    with pytest.raises(Behind):
        claims.find_pool_claims(_pool_with_entry(journalOf="nonsense"))
    await clock.advance(ABSENCE_SECONDS)
    to_claim = make.listed_for_claim("10.40.0.1", "10.40.0.1")
    with pytest.raises(Behind):
        claims.find_pool_claims(_pool_with_entry(to_claim, journalOf="nonsense"))
    await clock.advance(ABSENCE_SECONDS)
    assert claims.find_pool_claims(_pool_with_entry(to_claim, journalOf="other nonsense")) is None


async def test_promises_to_allocations_do_not_count_as_a_change_of_the_entry() -> None:
    clock = VirtualClock()
    claims = _absent(clock)
    with pytest.raises(Behind):
        claims.find_pool_claims(_pool_with_entry())
    await clock.advance(ABSENCE_SECONDS)
    promised = make.list_promise(make.promise(make.allocation("a"), "10.40.0.1", "10.40.0.1"))
    assert claims.find_pool_claims(_pool_with_entry(promised, of_allocations=9)) is None


def test_a_pool_without_an_entry_waits_only_while_it_is_not_known_what_is_served() -> None:
    claims = DiscoveredClaims(VirtualClock())
    with pytest.raises(Behind, match="not known"):
        claims.find_pool_claims(make.pool("p", memory=7))
    claims.is_known = True
    assert claims.find_pool_claims(make.pool("p", memory=7)) is None
    claims.incomplete_reason = "the definition of IPAddresses is missing"
    with pytest.raises(Behind, match="definition of IPAddresses"):
        claims.find_pool_claims(make.pool("p", memory=7))


@pytest.mark.parametrize("journal_of", ["nonsense", None])
def test_a_process_without_the_integration_waits_for_a_pool_with_an_entry(
    journal_of: str | None,
) -> None:
    """Even if the journal is lost: that says nothing about IPAddresses."""
    pool = _pool_with_entry() if journal_of is None else _pool_with_entry(journalOf=journal_of)
    with pytest.raises(Behind, match="set both fields to null"):
        ClaimService().find_pool_claims(pool)
    assert ClaimService().find_pool_claims(make.pool("p", memory=7)) is None
