"""The outcomes of claims for `plan`: which address each claim got, or why it got none.

`plan` runs the controllers on manifests, and compares the claims before and after.
"""

from collections.abc import Iterator, Sequence

from controller.conditions import TRUE, find_condition
from reconcilers.integrations.clusterapi.api import GROUP, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import ClaimCaches, kind_of, pool_key
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.claimproblems import POOL_NOT_READY
from reconcilers.integrations.core.views import Planned
from reconcilers.reporting.conditions import READY


def list_outcomes(before: Sequence[IPAddressClaim], after: ClaimCaches) -> Iterator[Planned]:
    """Yield the outcome of each claim that had no address.

    Args:
        before: the claims as they were, in their order.
        after: the objects as the controllers left them.
    """
    for claim in before:
        kind = kind_of(claim.spec.poolRef)
        if kind is None or read_record(claim) is not None or claim.metadata.is_terminating:
            continue
        current = after.claims.get(claim.metadata.key) or claim
        record = read_record(current)
        gets = "" if record is None else f"{record.address}/{record.prefix}"
        reason = "" if gets else _explain_wait(current, after)
        pool = f"{kind.kind} {pool_key(kind, claim)}"
        yield Planned(
            GROUP, "IPAddressClaim", key=claim.metadata.key, pool=pool, gets=gets, reason=reason
        )


def _explain_wait(claim: IPAddressClaim, caches: ClaimCaches) -> str:
    """Return why a claim has no address: its condition Ready, or why controllers skip it."""
    stopped = caches.why_stopped(claim)
    # If the pool is absent, the condition names that reason, and it counts. Otherwise the reason
    # that stops the claim now counts: a condition from before a pause does not name the pause.
    ready = find_condition(claim.status.conditions, READY)
    if ready is None or ready.status == TRUE or (stopped and not caches.why_pool_absent(claim)):
        return f"{POOL_NOT_READY}: {stopped or 'its pool hands out nothing'}"
    return f"{ready.reason}: {ready.message}"
