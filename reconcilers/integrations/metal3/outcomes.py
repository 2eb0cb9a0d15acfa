"""The outcomes of claims of IPPools for `plan`: their addresses, or why they got none.

`plan` runs the controllers on manifests, and compares the claims before and after.
"""

from collections.abc import Iterator
from functools import partial

from controller.meta import Key
from reconcilers.integrations.core.claimproblems import describe_not_ready
from reconcilers.integrations.core.views import Planned
from reconcilers.integrations.metal3.api import POOL
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches, Metal3Caches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimFormat, ClaimT


def list_outcomes(before: Metal3Caches, after: Metal3Caches) -> Iterator[Planned]:
    """Yield the outcome of each claim that had no address: its address, or the reason.

    Args:
        before: the objects as they were.
        after: the objects as the controllers left them.
    """
    for claim_caches in before.claim_caches_by_kind.values():
        yield from claim_caches.visit(partial(_list_outcomes_of_kind, after))


def _list_outcomes_of_kind(
    after: Metal3Caches, before: IPPoolClaimCaches[ClaimT, AddressT], /
) -> Iterator[Planned]:
    """Yield the outcome of each claim of one kind that had no address."""
    claim_format = before.claim_format
    for claim in sorted(before.claims, key=lambda claim: claim.metadata.key):
        pool, key = claim_format.find_pool_of_claim(claim), claim.metadata.key
        if pool is None or claim_format.get_address_name(claim) or claim.metadata.is_terminating:
            continue
        caches_after = after.claim_caches_by_kind[before.claim_kind]
        current = caches_after.claims.get(key)
        # For the type checker, which cannot know the kind; a missing claim is as before.
        if not isinstance(current, claim_format.claims.type):
            current = claim
        ip_address = caches_after.addresses.get(
            Key(key.namespace, claim_format.get_address_name(current))
        )
        gets = "" if ip_address is None else ip_address.spec.address
        reason = "" if gets else _find_reason(after, claim_format, current)
        group, kind_name = claim_format.claims.group, claim_format.claims.kind
        yield Planned(group, kind_name, key=key, pool=f"{POOL} {pool}", gets=gets, reason=reason)


def _find_reason(
    caches: Metal3Caches, claim_format: ClaimFormat[ClaimT, AddressT], claim: ClaimT
) -> str:
    """Return why a claim has no address: a pause, its own error, or why its pool serves no claim.

    The result is empty if nothing is known.
    """
    pool_key = claim_format.find_pool_of_claim(claim)
    assert pool_key is not None, "it names a pool"
    pool = caches.pools.get(pool_key)
    if pool is None:
        return describe_not_ready(POOL, pool_key.name, "it does not exist")
    # The caches have no Clusters, so a pool may seem to have a missing Cluster. So the claim's own
    # error comes first.
    pause = caches.claim_caches_by_kind[claim_format.claim_kind].why_claim_stops(claim)
    if reason := pause or claim_format.read_error(claim):
        return reason
    why = caches.why_pool_stops(pool)
    return describe_not_ready(POOL, pool_key.name, why) if why else ""
