"""A NetworkPool waits until its claims are known to be served or absent.

The *entry* of a pool is what its journal has of claims and IPAddresses: revisions and promises.
`DiscoveredClaims.find_pool_claims` raises Behind while the pool has to wait.
"""

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


def _make_pool_with_entry(
    *assignments: Any, allocations_revision: int = 7, **status: Any
) -> NetworkPool:
    """Return a pool whose journal has a revision of claims.

    Args:
        *assignments: the promises of the journal.
        allocations_revision: the revision of IPAllocations in the journal.
        **status: further fields of the status.
    """
    revisions = {KIND: str(allocations_revision), make.CLAIMS: "3"}
    journal = {"revisions": revisions, "assignments": [*assignments], **status}
    return make.pool("p", status=journal)


def _discover_no_claims(clock: VirtualClock) -> DiscoveredClaims:
    """Return the claims of a process that has discovered that no kind of claims is served."""
    claims = DiscoveredClaims(clock)
    claims.is_known = True
    return claims


async def test_a_recreated_pool_waits_as_long_as_a_new_one() -> None:
    clock = VirtualClock()
    claims, pool = _discover_no_claims(clock), _make_pool_with_entry()
    with pytest.raises(Behind):
        claims.find_pool_claims(pool)
    await clock.advance(ABSENCE_SECONDS)
    assert claims.find_pool_claims(pool) is None
    claims.forget(pool.metadata.key)
    with pytest.raises(Behind):
        claims.find_pool_claims(pool)


async def test_a_pool_waits_again_if_a_promise_to_a_claim_appears_in_its_invalid_journal() -> None:
    clock = VirtualClock()
    claims = _discover_no_claims(clock)
    with pytest.raises(Behind):
        claims.find_pool_claims(_make_pool_with_entry(journalOf="nonsense"))
    await clock.advance(ABSENCE_SECONDS)
    to_claim = make.render_claim_promise("10.40.0.1", "10.40.0.1")
    with pytest.raises(Behind):
        claims.find_pool_claims(_make_pool_with_entry(to_claim, journalOf="nonsense"))
    await clock.advance(ABSENCE_SECONDS)
    assert (
        claims.find_pool_claims(_make_pool_with_entry(to_claim, journalOf="other nonsense"))
        is None
    )


async def test_a_pool_does_not_wait_again_for_a_promise_to_an_allocation() -> None:
    clock = VirtualClock()
    claims = _discover_no_claims(clock)
    with pytest.raises(Behind):
        claims.find_pool_claims(_make_pool_with_entry())
    await clock.advance(ABSENCE_SECONDS)
    promised = make.render_promise(make.promise(make.allocation("a"), "10.40.0.1", "10.40.0.1"))
    assert claims.find_pool_claims(_make_pool_with_entry(promised, allocations_revision=9)) is None


def test_a_pool_without_an_entry_waits_only_until_all_kinds_of_claims_are_discovered() -> None:
    claims = DiscoveredClaims(VirtualClock())
    with pytest.raises(Behind, match="not known"):
        claims.find_pool_claims(make.pool("p", memory=7))
    claims.is_known = True
    assert claims.find_pool_claims(make.pool("p", memory=7)) is None
    claims.incomplete_reason = "the definition of IPAddresses is missing"
    with pytest.raises(Behind, match="definition of IPAddresses"):
        claims.find_pool_claims(make.pool("p", memory=7))


@pytest.mark.parametrize("status", [{}, {"journalOf": "nonsense"}], ids=["valid", "invalid"])
def test_without_the_integration_a_pool_with_an_entry_waits_until_a_person_removes_the_entry(
    status: dict[str, Any],
) -> None:
    """Even if the journal is invalid: its IPAddresses may exist all the same."""
    pool = _make_pool_with_entry(**status)
    with pytest.raises(Behind, match="set both fields to null"):
        ClaimService().find_pool_claims(pool)
    assert ClaimService().find_pool_claims(make.pool("p", memory=7)) is None
