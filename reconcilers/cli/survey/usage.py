"""How full each pool is, worked out from the objects and not from what a status says of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from allocator import Capacity, InvalidPool, Space
from controller.conditions import find
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.survey.extents import ALL_SIZES, holders
from reconcilers.cli.survey.objects import Objects, sorted_by_key
from reconcilers.conditions import READY

_NOTHING = Capacity(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """A pool's figures, in addresses.

    Args:
        pool: the pool.
        capacity: of what tenants may draw from.
        allocations: how many hold a range.
        waiting: how many want one and have none.
        tenants: how many clusters hold something of it.
        ready: True, False or Unknown: the pool's Ready condition.
        reason: why.
    """

    pool: NetworkPool
    capacity: Capacity
    allocations: int
    waiting: int
    tenants: int
    ready: str
    reason: str

    @property
    def percent(self) -> int:
        """Allocated of total, rounded down."""
        total = self.capacity.total
        return 100 * self.capacity.allocated // total if total else 0


def usage(pool: NetworkPool, allocations: Sequence[IPAllocation]) -> Usage:
    """Return the figures of one pool.

    Args:
        pool: the pool.
        allocations: those that name it.
    """
    held = list(holders(pool, allocations))
    ready = find(pool.status.conditions, READY)
    status, reason = (ready.status, ready.message) if ready else ("Unknown", "not looked at yet")
    try:
        layout = ranges.layout(pool.spec, ALL_SIZES)
        capacity = Space(layout, (where for _, where in held)).capacity()
    except InvalidPool as invalid:
        capacity, status, reason = _NOTHING, "False", "; ".join(invalid.messages)
    serving = {holder.allocation for holder, _ in held}
    waiting = sum(
        one.metadata.key not in serving and not one.metadata.terminating for one in allocations
    )
    tenants = {holder.tenant for holder, _ in held}
    return Usage(pool, capacity, len(serving), waiting, len(tenants), status, reason)


def usages(objects: Objects) -> list[Usage]:
    """Return the figures of every pool, by namespace and name."""
    of_pool = objects.by_pool()
    return [usage(pool, of_pool[pool.metadata.key]) for pool in sorted_by_key(objects.pools)]
