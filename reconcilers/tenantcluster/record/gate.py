"""What the release check remembers of the ranges of one TenantCluster, and of its Secret.

The check runs where the shard of the pool is, so its memory outlives the pass over the cluster. It
is lost with the process, which begins each wait anew: rather too long than too short.
"""

from dataclasses import dataclass, field

from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.loadbalancers.port import BalancerMemory

FORGET_SECONDS = 3_600.0
"""Seconds without a check after which an allocation is forgotten."""
UNRESOLVED_SECONDS = 120.0
"""How long a record counts: an API server gives up a request after a minute (--request-timeout),
and the process that sent it gives up before."""


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
class BoundedWaits:
    """Waits for a balancer that cannot show whether it still hands out the range of an allocation.

    Each is for one state: the resourceVersion at which the allocation was marked, and the version
    of the offers. A wait that has elapsed stays so, because a pass asks twice: before and after
    its projection. A wait is forgotten when it was not asked for during an hour; the next call
    starts it anew.
    """

    _waits: dict[tuple[int, str, int], tuple[float, float]] = field(default_factory=dict)
    """When each began, and when it was last asked for, in monotonic seconds."""

    def has_elapsed(self, state: tuple[int, str, int], seconds: float, now: float) -> bool:
        """Return whether so many seconds have passed since the first call with this state.

        Args:
            state: what is waited for; the first call with it starts its wait.
            seconds: how long the wait is.
            now: monotonic seconds.
        """
        recent = {one: at for one, at in self._waits.items() if now - at[1] < FORGET_SECONDS}
        since, _ = recent.get(state, (now, now))
        recent[state] = (since, now)
        self._waits = recent
        return now - since >= seconds

    def clear(self) -> None:
        """Forget all waits: the balancer may hand out the range after all."""
        self._waits = {}


@dataclass(slots=True)
class SeenCreations:
    """Since when records of creations have been seen on one allocation."""

    _seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By record: when it was first seen, and when last, in monotonic seconds."""

    def may_arrive(self, allocation: IPAllocation, now: float) -> bool:
        """Return whether the creation that is recorded on the allocation may still be under way.

        Args:
            allocation: the allocation.
            now: monotonic seconds.
        """
        record = allocation.metadata.annotations.get(names.ANNOTATION_MARKER_CREATION)
        if record is None:
            return False
        recent = {one: at for one, at in self._seen.items() if now - at[1] < FORGET_SECONDS}
        since, _ = recent.get(record, (now, now))
        recent[record] = since, now
        self._seen = recent
        return now - since < UNRESOLVED_SECONDS


@dataclass(slots=True)
class AllocationMemory:
    """What is remembered of one allocation that is being released.

    Args:
        checked_at: when it was last checked, in monotonic seconds.
        held_since: since when the tenant of a deleted cluster holds it up; None if it does not.
        waits: the bounded waits for a balancer that cannot show what it hands out.
        creations: the records of creations in the tenant that were seen on it.
        balancer: what the adapter of the balancer remembers of its release.
    """

    checked_at: float
    held_since: float | None = None
    waits: BoundedWaits = field(default_factory=BoundedWaits)
    creations: SeenCreations = field(default_factory=SeenCreations)
    balancer: BalancerMemory = field(default_factory=BalancerMemory)


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
