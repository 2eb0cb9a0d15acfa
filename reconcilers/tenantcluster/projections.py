"""Which ranges a tenant's load balancer should hold, by the tenant's allocations."""

from collections.abc import Iterable, Sequence

from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.loadbalancers.port import AllocationName, ProjectedRanges, Projection


def make_projection(members: Sequence[IPAllocation], position: int) -> Projection:
    """Return the projection for the tenant of `members`.

    Ranges that are being given back, or that change load balancers, are left out. The order is
    that of creation, so that what is handed out first stays first; the ranges of one allocation
    are in its own order.
    """
    balancers = [a for a in members if a.spec.type == names.TYPE_LOADBALANCER]
    projected = [a for a in balancers if a.status.phase == ALLOCATED and not a.is_withdrawn]
    ranges = map(projected_ranges_of, sorted(projected, key=_age))
    return Projection(
        tuple(projected_ranges for projected_ranges in ranges if projected_ranges.entries),
        position,
        latest_mark(balancers),
    )


def projected_ranges_of(allocation: IPAllocation) -> ProjectedRanges:
    """Return the ranges of an allocation, as a tenant holds them."""
    return ProjectedRanges(
        AllocationName(allocation.metadata.name, allocation.metadata.uid),
        tuple(
            f"{span.start_text}-{span.end_text}"
            for span in statusranges.list_held_ranges(allocation)
        ),
    )


def latest_mark(allocations: Iterable[IPAllocation]) -> int:
    """Return the lowest basis at which every marked range of these is left out."""
    marks = [
        allocation.metadata.revision
        for allocation in allocations
        if allocation.spec.type == names.TYPE_LOADBALANCER
        and allocation.is_withdrawn
        and statusranges.find_held_range(allocation)
    ]
    return max(marks, default=0)


def _age(allocation: IPAllocation) -> tuple[str, str]:
    created = allocation.metadata.creationTimestamp
    return (created.isoformat() if created else "", allocation.metadata.name)
