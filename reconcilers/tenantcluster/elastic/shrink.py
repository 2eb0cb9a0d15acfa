"""Which growth allocations are out of use, and which have been for long enough: decisions.

The disuse is remembered on the allocation, so that it survives a restart, and begins anew when a
Service takes an address. First allocations and pinned ones are not looked at.
"""

from dataclasses import dataclass
from datetime import datetime

from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.tenantcluster.elastic.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Disuse:
    """How a growth allocation stands.

    Args:
        remember: what the annotation should say; None that it should not be there.
        due_in: seconds until it may go; None while it is in use.
    """

    remember: str | None
    due_in: float | None

    @property
    def over(self) -> bool:
        """Whether it may go now."""
        return self.due_in is not None and self.due_in <= 0


def look(
    allocation: IPAllocation, found: Inventory, now: datetime, grace: float, settling: float
) -> Disuse:
    """Return how long a growth allocation is out of use.

    Args:
        allocation: one that growth made; without a range yet it is out of use.
        found: what the tenant's Services show.
        now: the time.
        grace: for how many seconds it must be out of use, and how old it must be.
        settling: for how many seconds from its creation it is not judged: MetalLB is about to use
            it, and the disuse would be told only to be taken back.
    """
    held = ranges.held(allocation)
    if held is not None and found.in_use(held):
        return Disuse(None, None)
    created = allocation.metadata.creationTimestamp or now
    age = (now - created).total_seconds()
    since = idle_since(allocation, now)
    if since is None:
        if age < settling:
            return Disuse(None, settling - age)
        return Disuse(now.isoformat(), grace)
    idle = (now - since).total_seconds()
    return Disuse(remembered(allocation), grace - min(idle, age))


def remembered(allocation: IPAllocation) -> str | None:
    """Return what the allocation remembers of its disuse, as it is written there."""
    return allocation.metadata.annotations.get(names.ANNOTATION_IDLE_SINCE)


def idle_since(allocation: IPAllocation, now: datetime) -> datetime | None:
    """Return since when it is out of use; None if it does not say, or says nonsense."""
    try:
        since = datetime.fromisoformat(remembered(allocation) or "")
    except ValueError:
        return None
    return since if since.tzinfo is not None and since <= now else None
