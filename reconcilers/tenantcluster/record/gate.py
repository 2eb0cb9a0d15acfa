"""What the release check remembers of the ranges of one TenantCluster, and of its Secret.

The check runs where the shard of the pool is, so its memory outlives the pass over the cluster. It
is lost with the process, which begins each wait anew: rather too long than too short.
"""

from dataclasses import dataclass, field

from reconcilers.loadbalancers.metallb.markerrecord import SeenCreations
from reconcilers.loadbalancers.metallb.uptake import ReadingWaits

FORGET_SECONDS = 3_600.0
"""Seconds without a check after which an allocation is forgotten."""


@dataclass(frozen=True, slots=True)
class SecretReads:
    """Live reads of a deleted cluster's Secret.

    Args:
        times: how many there were.
        due: when it may be read again, in monotonic seconds.
    """

    times: int
    due: float


@dataclass(slots=True)
class AllocationMemory:
    """What is remembered of one allocation that is being released.

    Args:
        checked_at: when it was last checked, in monotonic seconds.
        held_since: since when the tenant of a deleted cluster holds it up; None if it does not.
        waits: the bounded waits for a MetalLB that does not show what it has read.
        creations: the records of marker creations that were seen on it.
    """

    checked_at: float
    held_since: float | None = None
    waits: ReadingWaits = field(default_factory=ReadingWaits)
    creations: SeenCreations = field(default_factory=SeenCreations)


@dataclass(slots=True)
class GateMemory:
    """What the release check remembers of one TenantCluster.

    Args:
        secret_reads: live reads of its Secret; None for none since it was last found absent.
    """

    secret_reads: SecretReads | None = None
    _allocations: dict[str, AllocationMemory] = field(default_factory=dict)

    def of_allocation(self, uid: str, now: float) -> AllocationMemory:
        """Return what is remembered of an allocation; create it at the first check.

        Args:
            uid: of the allocation.
            now: monotonic seconds.
        """
        recent = {
            known: memory
            for known, memory in self._allocations.items()
            if now - memory.checked_at < FORGET_SECONDS
        }
        memory = recent.setdefault(uid, AllocationMemory(now))
        memory.checked_at = now
        self._allocations = recent
        return memory
