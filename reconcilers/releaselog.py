"""What a log line says of a range that is released, or of a request that is withdrawn."""

from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation


def release_fields(allocation: IPAllocation, reason: str) -> dict[str, str]:
    """Return the fields of a log line about an allocation that gives its range back.

    Args:
        allocation: the allocation; one that waits for a range has the range `none`.
        reason: why it is given back.
    """
    return {
        "allocation": str(allocation.metadata.key),
        "range": " and ".join(held.text for held in ranges.all_held(allocation)) or "none",
        "pool": str(allocation.pool_key),
        "tenant": str(allocation.spec.tenantClusterRef.key),
        "reason": reason,
    }
