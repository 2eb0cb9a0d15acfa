"""The outcomes of claims for `plan`: which address each claim got, or why it got none.

`plan` runs the controllers on manifests, and compares the claims before and after.
"""

from collections.abc import Iterator, Sequence

from controller.conditions import TRUE, find_condition
from reconcilers.integrations.clusterapi.api import GROUP, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import ClaimCaches, find_pool_kind, get_pool_key
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.claimproblems import POOL_NOT_READY
from reconcilers.integrations.core.views import Planned
from reconcilers.reporting.conditions import READY


def list_outcomes(before: Sequence[IPAddressClaim], after: ClaimCaches) -> Iterator[Planned]:
    """Yield the outcome of each claim that had no address before the controllers ran.

    Args:
        before: the claims before the controllers ran, in the order of the outcomes.
        after: the objects after the controllers ran.
    """
    for claim in before:
        kind = find_pool_kind(claim.spec.poolRef)
        if kind is None or read_record(claim) is not None or claim.metadata.is_terminating:
            continue
        current = after.claims.get(claim.metadata.key) or claim
        record = read_record(current)
        gets = "" if record is None else f"{record.address}/{record.prefix}"
        reason = "" if gets else _explain_wait(current, after)
        pool = f"{kind.kind} {get_pool_key(kind, claim)}"
        yield Planned(
            GROUP, "IPAddressClaim", key=claim.metadata.key, pool=pool, gets=gets, reason=reason
        )


def _explain_wait(claim: IPAddressClaim, caches: ClaimCaches) -> str:
    """Return why a claim has no address: its condition Ready, or why controllers skip it."""
    stop_reason = caches.explain_stop(claim)
    ready = find_condition(claim.status.conditions, READY)
    # If the pool is absent, the condition says so. Otherwise it may be from before a pause.
    may_be_stale = bool(stop_reason) and not caches.explain_absent_pool(claim)
    if ready is None or ready.status == TRUE or may_be_stale:
        return f"{POOL_NOT_READY}: {stop_reason or 'its pool hands out nothing'}"
    return f"{ready.reason}: {ready.message}"
