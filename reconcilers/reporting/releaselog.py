"""What a log line says of a range that is released, or of a request that is withdrawn."""

from collections.abc import Iterable

from reconcilers.addressing.statusranges import list_held_ranges
from reconcilers.api.ipallocation import IPAllocation


def holder_fields(holder: str, held: Iterable[str], pool: str, reason: str) -> dict[str, str]:
    """Return the fields of a log line about a range that is released, whatever kind holds it.

    Args:
        holder: kind and name of the object.
        held: its ranges or addresses; none for a request that waits.
        pool: the pool of the range, with its kind unless that is NetworkPool.
        reason: why the range is released.
    """
    return {
        "holder": holder,
        "range": " and ".join(held) or "none",
        "pool": pool,
        "reason": reason,
    }


def release_fields(allocation: IPAllocation, reason: str) -> dict[str, str]:
    """Return the fields of a log line about an allocation that gives its range back.

    Args:
        allocation: the allocation; one that waits for a range has the range `none`.
        reason: why it is given back.
    """
    key = allocation.metadata.key
    held = (span.text for span in list_held_ranges(allocation))
    return {
        "allocation": str(key),
        "tenant": str(allocation.spec.tenantClusterRef.key),
        **holder_fields(f"IPAllocation {key}", held, str(allocation.pool_key), reason),
    }
