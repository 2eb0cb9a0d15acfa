"""Static tenants follow spec.networking.lbPoolSize: what to add or release, decided only.

A range cannot be divided or enlarged. So a larger size adds one more range of the difference, and
a smaller size releases the youngest added ranges that no Service uses and whose removal leaves at
least the size. A request that holds no range yet is withdrawn before any range is released, and
asked for again if that is too much. The first range stays while the cluster lives, and so does a
pinned one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from reconcilers.api.ipallocation import IPAllocation
from reconcilers.conditions import Finding
from reconcilers.wording import count_addresses, count_noun

LOAD_BALANCER_SIZED = "LoadBalancerSized"
FIELD = "spec.networking.lbPoolSize"


@dataclass(frozen=True, slots=True)
class TargetSize:
    """How many load-balancer addresses a static tenant should hold of each family.

    Args:
        addresses: how many, the quota applied.
        asked: how many its spec asks for.
    """

    addresses: int
    asked: int

    @property
    def is_cut(self) -> bool:
        """Whether the quota allows fewer than the spec asks for."""
        return self.addresses < self.asked

    @property
    def text(self) -> str:
        """What the spec asks for, and what the quota allows of it."""
        asked = f"{FIELD} asks for {count_addresses(self.asked)}"
        return f"{asked}, maxLoadBalancerIPs allows {self.addresses}" if self.is_cut else asked


@dataclass(frozen=True, slots=True)
class SizedAllocation:
    """A load-balancer allocation of a static tenant that is not being released.

    Args:
        allocation: the allocation.
        size: addresses of each family that it holds or asks for.
        is_removable: whether it was added later and may go again.
        is_used: whether a Service shows an address of it.
        has_range: whether it holds a range; without one it is a request.
    """

    allocation: IPAllocation
    size: int
    is_removable: bool
    is_used: bool
    has_range: bool = True


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
    requests = [sized for sized in allocations if not sized.has_range]
    served = [sized for sized in allocations if sized.has_range]
    for sized in (*reversed(requests), *reversed(served)):
        is_too_large = sized.has_range and sized.size > surplus
        if not surplus or not sized.is_removable or is_too_large:
            continue
        if sized.is_used:
            is_used = True
            continue
        release.append(sized.allocation)
        surplus = max(0, surplus - sized.size)
    return SizeChange(held, release=tuple(release), surplus=surplus, surplus_is_used=is_used)


def _held(addresses: int) -> str:
    return count_noun(addresses, "is held", "are held")


def sized(target: TargetSize) -> Finding:
    """Return the condition of a tenant that has its size."""
    if not target.is_cut:
        message = f"{count_addresses(target.addresses)}, as {FIELD} asks"
        return Finding(LOAD_BALANCER_SIZED, True, "Ready", message)
    message = (
        f"{count_addresses(target.addresses)}; {FIELD} asks for more than maxLoadBalancerIPs,"
        f" {target.addresses}"
    )
    return Finding(LOAD_BALANCER_SIZED, False, "QuotaExceeded", message)


def growing(target: TargetSize, held: int) -> Finding:
    """Return the condition of a tenant that gets a further range."""
    message = f"{target.text}, {_held(held)}; a range of {target.addresses - held} is added"
    return Finding(LOAD_BALANCER_SIZED, False, "Growing", message)


def waiting_for_release(target: TargetSize, held: int) -> Finding:
    """Return the condition of a tenant that gets a range once a deleted one is released."""
    message = (
        f"{target.text}, {_held(held)}; a range of {target.addresses - held} is added once the"
        " tenant has released those that are deleted"
    )
    return Finding(LOAD_BALANCER_SIZED, False, "Growing", message)


def refused(target: TargetSize, held: int, obstacle: str) -> Finding:
    """Return the condition of a tenant that no pool gives the further range.

    Args:
        target: the size that it should have.
        held: the addresses that it holds.
        obstacle: what is needed, and what each pool has.
    """
    message = f"{target.text}, {_held(held)}; cannot grow: {obstacle}"
    return Finding(LOAD_BALANCER_SIZED, False, "PoolExhausted", message)


def shrinking(target: TargetSize, change: SizeChange) -> Finding:
    """Return the condition of a tenant that holds more than its size."""
    asked = f"{target.text}, {_held(change.held)}"
    if change.release:
        names = ", ".join(allocation.metadata.name for allocation in change.release)
        return Finding(LOAD_BALANCER_SIZED, False, "Shrinking", f"{asked}; released: {names}")
    if change.surplus_is_used:
        message = f"{asked}; Services use addresses of every range that could be released"
        return Finding(LOAD_BALANCER_SIZED, False, "AddressesInUse", message)
    remedy = "raise maxLoadBalancerIPs" if target.is_cut else "set the size"
    message = (
        f"{asked}; no added range has {count_addresses(change.surplus)} or fewer, and a range"
        " cannot be divided: the cluster keeps them until it is deleted, or"
        f" {remedy} to {change.held}"
    )
    return Finding(LOAD_BALANCER_SIZED, False, "RangeNotDivisible", message)
