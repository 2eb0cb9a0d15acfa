"""What several sights are made of."""

from collections.abc import Sequence

from controller.conditions import Condition, find
from reconcilers import ranges
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.cli.demo.world import NotYet, World
from reconcilers.conditions import READY

METALLB = "metallb-system"


def condition_of(
    whose: str, conditions: Sequence[Condition], wanted: str, status: str
) -> Condition:
    """Return a condition of an object.

    Raises:
        NotYet: it has none of that type, or another status.
    """
    found = find(conditions, wanted)
    if found is None:
        raise NotYet(f"{whose} says nothing of {wanted} yet")
    if found.status != status:
        raise NotYet(f"{whose}: {wanted} is {found.status}, {found.reason}: {found.message}")
    return found


def served_one(world: World, name: str) -> IPAllocation:
    """Return an allocation that has a range.

    Raises:
        NotYet: it has none.
    """
    found = world.allocation(name)
    if found.status.phase != ALLOCATED or ranges.held(found) is None:
        said = find(found.status.conditions, READY)
        why = f": {said.message}" if said else ""
        raise NotYet(f"IPAllocation {name} is {found.status.phase or 'new'}{why}")
    return found


def referred(world: World, cluster: TenantCluster, reference: object, field: str) -> IPAllocation:
    """Return the allocation that a field of a cluster's status refers to, with its range.

    Raises:
        NotYet: there is none, or it has none.
    """
    name = getattr(reference, "name", None)
    if name is None:
        raise NotYet(f"TenantCluster {cluster.metadata.key} has no {field}")
    return served_one(world, name)


def told(allocation: IPAllocation) -> str:
    """Return an allocation's range in words."""
    status = allocation.status
    held = f"{status.startAddress}-{status.endAddress}"
    return (
        f"IPAllocation {allocation.metadata.name}: {status.allocatedCount}"
        f" for {allocation.spec.type}, {held}, from {allocation.spec.poolRef.name}"
    )
