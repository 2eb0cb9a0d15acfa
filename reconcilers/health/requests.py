"""IPAllocations that wait for a range, and ranges that are being released."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from controller.conditions import find_condition, format_rfc3339
from controller.meta import Key
from reconcilers.addressing import requestedranges, statusranges
from reconcilers.addressing.familychoice import FAMILY_NAMES
from reconcilers.addressmap.audit import Finding, Severity, Subject
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.health.pools import FreeBlocks
from reconcilers.reporting.conditions import READY
from reconcilers.reporting.wording import count_addresses

SERVED_WITHIN = timedelta(seconds=30)
"""Longest time that a request may wait without a finding."""
RELEASED_WITHIN = timedelta(minutes=1)
"""Longest time that a release may wait for its tenant without a finding."""
STUCK_AFTER = timedelta(minutes=15)
"""Longest time that a release may wait for its tenant as a warning; then it is an error."""


def list_request_findings(
    allocations: Iterable[IPAllocation],
    pools: Mapping[Key, NetworkPool],
    largest_free: Mapping[Key, FreeBlocks],
    now: datetime,
) -> Iterator[Finding]:
    """Yield findings about IPAllocations that wait too long for a range or for their release.

    Args:
        pools: the NetworkPools that could be read.
        largest_free: the largest free blocks of each NetworkPool for which they are known.
        now: the time.
    """
    for allocation in allocations:
        if allocation.releasing and statusranges.find_held_range(allocation) is not None:
            yield from _find_late_release(allocation, now)
        elif statusranges.waits_for_range(allocation):
            yield from _find_late_request(allocation, pools, largest_free=largest_free, now=now)


def _find_late_request(
    allocation: IPAllocation,
    pools: Mapping[Key, NetworkPool],
    largest_free: Mapping[Key, FreeBlocks],
    now: datetime,
) -> Iterator[Finding]:
    """Yield a finding if a request has waited for longer than SERVED_WITHIN."""
    since = allocation.requested_at
    if now - since < SERVED_WITHIN:
        return
    ready = find_condition(allocation.status.conditions, READY)
    reason = f"{ready.reason}: {ready.message}" if ready is not None else "not reconciled yet"
    pool = pools.get(allocation.pool_key)
    blocks = largest_free.get(allocation.pool_key)
    if pool is None or blocks is None:  # the pool is absent, or its free blocks are not known
        sentence = f"waits for NetworkPool {allocation.pool_key}: {reason}"
    else:
        needed = requestedranges.count_requested(allocation, pool)
        sentence = (
            f"waits for {count_addresses(needed)} in a row of NetworkPool {allocation.pool_key},"
            f" whose {_describe_blocks(pool, blocks)}: {reason}"
        )
    subject = Subject.from_object(IP_ALLOCATION, allocation)
    yield Finding(
        "RequestWaits", "error", subject=subject, sentence=sentence, since=format_rfc3339(since)
    )


def _describe_blocks(pool: NetworkPool, blocks: FreeBlocks) -> str:
    """Return the largest free blocks of a pool: "largest free block is 64"."""
    if pool.spec.secondary is None:
        return f"largest free block is {max(blocks.values())}"
    sizes = (f"{size} of {FAMILY_NAMES[family]}" for family, size in blocks.items())
    return f"largest free blocks are {' and '.join(sizes)}"


def _find_late_release(allocation: IPAllocation, now: datetime) -> Iterator[Finding]:
    """Yield a finding if a release has waited for its tenant for longer than RELEASED_WITHIN.

    If the beginning of a release is not known, the finding is a warning.
    """
    since = allocation.releasing_since
    age = now - since if since is not None else RELEASED_WITHIN
    if age < RELEASED_WITHIN:
        return
    ready = find_condition(allocation.status.conditions, READY)
    reason = ready.message if ready is not None and ready.status == "False" else "no reason given"
    where = ", ".join(held_range.text for held_range in statusranges.list_held_ranges(allocation))
    severity: Severity = "error" if age > STUCK_AFTER else "warning"
    sentence = (
        f"{where} waits for TenantCluster {allocation.spec.tenantClusterRef.key} to stop using it:"
        f" {reason}"
    )
    subject = Subject.from_object(IP_ALLOCATION, allocation)
    since_text = format_rfc3339(since) if since is not None else None
    yield Finding("ReleaseWaits", severity, subject=subject, sentence=sentence, since=since_text)
