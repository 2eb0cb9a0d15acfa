"""Static tenants follow spec.networking.lbPoolSize: what to add or release, decided only.

A range cannot be divided or enlarged. So a larger size adds one more range of the difference, and
a smaller size releases the youngest added ranges that no Service uses and whose removal leaves at
least the size. The first range stays while the cluster lives, and so does a pinned one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.conditions import Finding

LOAD_BALANCER_SIZED = "LoadBalancerSized"
FIELD = "spec.networking.lbPoolSize"


@dataclass(frozen=True, slots=True)
class SizedAllocation:
    """A load-balancer allocation of a static tenant that is not being released.

    Args:
        allocation: the allocation.
        size: addresses of each family that it holds or asks for.
        is_removable: whether it was added later and may go again.
        is_used: whether a Service shows an address of it.
    """

    allocation: IPAllocation
    size: int
    is_removable: bool
    is_used: bool


@dataclass(frozen=True, slots=True)
class SizeChange:
    """What brings a tenant to its size.

    Args:
        held: addresses in all its allocations that are not being released.
        add: addresses to request as one more range; 0 for none.
        release: allocations to release.
        surplus: addresses above the size that cannot be released now.
        surplus_is_used: whether Services use all that could otherwise be released.
    """

    held: int
    add: int = 0
    release: tuple[IPAllocation, ...] = ()
    surplus: int = 0
    surplus_is_used: bool = False


def decide(size: int, allocations: Sequence[SizedAllocation]) -> SizeChange:
    """Return what brings a tenant to `size` addresses.

    Args:
        size: how many it should hold of each family.
        allocations: its load-balancer allocations that are not being released, oldest first.
    """
    held = sum(sized.size for sized in allocations)
    if held < size:
        return SizeChange(held, add=size - held)
    surplus = held - size
    release: list[IPAllocation] = []
    is_used = False
    for sized in reversed(allocations):
        if not surplus or not sized.is_removable or sized.size > surplus:
            continue
        if sized.is_used:
            is_used = True
            continue
        release.append(sized.allocation)
        surplus -= sized.size
    return SizeChange(held, release=tuple(release), surplus=surplus, surplus_is_used=is_used)


def sized(size: int, limit: int | None) -> Finding:
    """Return the condition of a tenant that has its size.

    Args:
        size: the addresses that it holds.
        limit: the quota, if that is below what the spec asks for; None if it is not.
    """
    if limit is None:
        return Finding(LOAD_BALANCER_SIZED, True, "Ready", f"{size} addresses, as {FIELD} asks")
    message = f"{size} addresses; {FIELD} asks for more than maxLoadBalancerIPs, {limit}"
    return Finding(LOAD_BALANCER_SIZED, False, "QuotaExceeded", message)


def growing(size: int, held: int) -> Finding:
    """Return the condition of a tenant that gets a further range."""
    message = (
        f"{FIELD} asks for {size} addresses, {held} are held; a range of {size - held} is added"
    )
    return Finding(LOAD_BALANCER_SIZED, False, "Growing", message)


def refused(size: int, held: int, obstacle: str) -> Finding:
    """Return the condition of a tenant that no pool gives the further range.

    Args:
        size: the addresses that the spec asks for.
        held: the addresses that it holds.
        obstacle: what is needed, and what each pool has.
    """
    message = f"{FIELD} asks for {size} addresses, {held} are held; cannot grow: {obstacle}"
    return Finding(LOAD_BALANCER_SIZED, False, "PoolExhausted", message)


def shrinking(size: int, change: SizeChange) -> Finding:
    """Return the condition of a tenant that holds more than its size."""
    asked = f"{FIELD} asks for {size} addresses, {change.held} are held"
    if change.release:
        names = ", ".join(allocation.metadata.name for allocation in change.release)
        return Finding(LOAD_BALANCER_SIZED, False, "Shrinking", f"{asked}; released: {names}")
    if change.surplus_is_used:
        message = f"{asked}; Services use addresses of every range that could be released"
        return Finding(LOAD_BALANCER_SIZED, False, "AddressesInUse", message)
    message = (
        f"{asked}; no added range has {change.surplus} addresses or fewer, and a range cannot be"
        " divided: the cluster keeps them until it is deleted, or set the size to"
        f" {change.held}"
    )
    return Finding(LOAD_BALANCER_SIZED, False, "RangeNotDivisible", message)
