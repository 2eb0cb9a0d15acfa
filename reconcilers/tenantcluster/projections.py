"""Which ranges a tenant's load balancer should hold, computed from the tenant's allocations.

An allocation is marked when its range is to be released. The *basis* of a projection is the
position of the cache of IPAllocations that the projection was computed from.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.loadbalancers.port import AllocationName, ProjectedRanges, Projection


def make_projection(members: Sequence[IPAllocation], position: int) -> Projection:
    """Return the projection for the tenant whose allocations are `members`.

    Ranges that are being released, or that change load balancers, are left out. Allocations are
    in the order of their creation: a load balancer hands out the first ranges first, and a new
    range must not come before them. The ranges of one allocation keep the order of its status.

    Args:
        members: the allocations of the tenant, of any type.
        position: the position of the cache that they were read from.
    """
    balancer_allocations = [a for a in members if a.spec.type == names.TYPE_LOADBALANCER]
    projected_allocations = [
        a for a in balancer_allocations if a.status.phase == ALLOCATED and not a.is_withdrawn
    ]
    ranges = map(
        make_projected_ranges, sorted(projected_allocations, key=attrgetter("creation_order"))
    )
    return Projection(
        allocations=tuple(
            projected_ranges for projected_ranges in ranges if projected_ranges.entries
        ),
        basis=position,
        needed=find_needed_basis(balancer_allocations),
    )


def make_projected_ranges(allocation: IPAllocation) -> ProjectedRanges:
    """Return the ranges of an allocation, in the form in which a tenant holds them."""
    return ProjectedRanges(
        AllocationName(allocation.metadata.name, allocation.metadata.uid),
        tuple(
            f"{span.start_text}-{span.end_text}"
            for span in statusranges.list_held_ranges(allocation)
        ),
    )


def find_needed_basis(allocations: Iterable[IPAllocation]) -> int:
    """Return the lowest basis at which a projection leaves out every marked range.

    A cache shows a mark once its position has reached the resourceVersion of the marked
    allocation. So the needed basis is the highest resourceVersion of all marked allocations that
    hold a range; 0 if no range is marked.
    """
    marked_revisions = [
        allocation.metadata.revision
        for allocation in allocations
        if allocation.spec.type == names.TYPE_LOADBALANCER
        and allocation.is_withdrawn
        and statusranges.find_held_range(allocation)
    ]
    return max(marked_revisions, default=0)
