"""How many allocations to add, and by which names: decisions, carried out by scaler.py.

n = ceil((addresses waited for - unused supply in flight) / growthIncrement), at most as many as
may be in flight, each against the quota, which counts every load-balancer allocation that is not
gone yet, those that wait or are given back included.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from allocator import AllocatorError
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster.allocations import membership
from reconcilers.tenantcluster.elastic.demand import Demand


@dataclass(frozen=True, slots=True)
class Supply:
    """What the tenant has for Services that wait.

    Args:
        addresses: in growth allocations that wait for a range, or in their ranges, unused.
        allocations: how many growth allocations those are.
        held: addresses in all load-balancer allocations that are not gone yet.
    """

    addresses: int
    allocations: int
    held: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What to add for Services that wait.

    Args:
        number: how many allocations to add now.
        over_quota: whether the quota forbids others that are needed.
    """

    number: int
    over_quota: bool = False


Sizer = Callable[[IPAllocation], int]


def size_of(allocation: IPAllocation, otherwise: int) -> int:
    """Return how many addresses of a family an allocation holds, or asks for, or `otherwise`."""
    held = ranges.all_held(allocation)
    if held:
        return max(one.size for one in held)
    try:
        pinned = ranges.pinned(allocation)
    except AllocatorError:
        pinned = None
    return pinned.size if pinned is not None else allocation.spec.count or otherwise


def supply(
    members: Sequence[IPAllocation],
    tenant: TenantCluster,
    demand: Demand,
    *,
    in_place: bool,
    size: Sizer,
) -> Supply:
    """Return what the tenant has, and what is being made.

    Args:
        members: the tenant's allocations.
        tenant: the tenant.
        demand: what its Services show.
        in_place: whether MetalLB has had the first range as long as a Service has to wait: then
            what is unused of it does not help waiting Services, or they would have it.
        size: how many addresses an allocation holds or asks for.
    """
    addresses = allocations = total = 0
    for one in members:
        if one.spec.type != names.TYPE_LOADBALANCER:
            continue
        total += size(one)
        if one.releasing or (in_place and not is_growth(one, tenant)):
            continue
        held = ranges.all_held(one)
        # Of two families, that of which less is unused counts: a Service may need that one.
        addresses += min((part.size - demand.in_use(part) for part in held), default=size(one))
        allocations += is_growth(one, tenant) and not any(map(demand.in_use, held))
    return Supply(addresses, allocations, total)


def is_growth(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether an allocation was added by growth, and may go again: pinned ones never."""
    return (
        allocation.spec.type == names.TYPE_LOADBALANCER
        and not allocation.spec.is_pinned
        and membership.role(allocation, tenant) == names.ROLE_GROWTH
    )


def decide(wanted: int, have: Supply, increment: int, quota: int | None, in_flight: int) -> Growth:
    """Return how many allocations to add.

    Args:
        wanted: addresses that Services have waited for long enough.
        have: what exists and what is being made.
        increment: addresses in one growth allocation.
        quota: the most load-balancer addresses the tenant may hold; None for no limit.
        in_flight: the most growth allocations that may be in flight.
    """
    missing = max(0, wanted - have.addresses)
    needed = min(-(-missing // increment), max(0, in_flight - have.allocations))
    if quota is None:
        return Growth(needed)
    allowed = max(0, (quota - have.held) // increment)
    return Growth(min(needed, allowed), over_quota=allowed < needed)
