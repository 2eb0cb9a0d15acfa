"""What the release check remembers of the ranges of one TenantCluster, and of its Secret.

The check runs in the replica that has the shard of the pool, so its memory is kept apart from the
memory of the pass over the cluster. This memory is lost with the process. Then each wait starts
again: it is too long, but never too short.

The *record* of a creation is an annotation on an IPAllocation: an object is about to be created in
the tenant for its release (release/creationnote.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import Service
from reconcilers.loadbalancers.port import BalancerMemory

FORGET_SECONDS = 3_600.0
"""Seconds without a check after which an allocation is forgotten."""
MOST_SERVICES = 5_000
"""How many Services are remembered for one allocation."""
UNRESOLVED_SECONDS = 120.0
"""Seconds for which a record of a creation counts after it was first seen. An API server gives up
a request after a minute (--request-timeout), and the process that sent it gives up before."""


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
class BoundedWait:
    """The wait for a balancer that cannot show whether it still hands out an allocation's range.

    A wait is for one state: the resourceVersion at which the allocation was marked, and the
    version of the offers. Another state restarts the wait, also if the same state returns
    later: the balancer may have read other offers in between. A wait that has elapsed stays
    elapsed, because a pass asks twice: before and after its projection. It is forgotten after an
    hour without a check.
    """

    _state: tuple[int, str, int] | None = None
    _began_at: float = 0.0
    _checked_at: float = 0.0

    def start_or_check(self, state: tuple[int, str, int], seconds: float, now: float) -> bool:
        """Start the wait if the state is new; return whether the wait for the state is over.

        Args:
            state: the mark and the version of the offers. Another state than at the last call
                restarts the wait.
            seconds: how long the wait is.
            now: monotonic seconds.
        """
        if state != self._state or now - self._checked_at >= FORGET_SECONDS:
            self._state, self._began_at = state, now
        self._checked_at = now
        return now - self._began_at >= seconds

    def clear(self) -> None:
        """Forget the wait: the balancer may hand out the range after all."""
        self._state = None


@dataclass(slots=True)
class SeenCreations:
    """When the records of creations on one allocation were seen; `creationnote` writes them."""

    _sightings: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When each record was first seen and last seen, in monotonic seconds, by the record."""

    def note_sighting(self, allocation: IPAllocation, now: float) -> bool:
        """Note that this process sees an allocation's record; return whether the record counts.

        A record counts for UNRESOLVED_SECONDS after this process first saw it: for so long, the
        recorded creation may still happen. False if the allocation has no record.

        Args:
            now: monotonic seconds.
        """
        record = allocation.metadata.annotations.get(names.ANNOTATION_MARKER_CREATION)
        if record is None:
            return False
        recent = {
            seen_record: (first_seen, last_seen)
            for seen_record, (first_seen, last_seen) in self._sightings.items()
            if now - last_seen < FORGET_SECONDS
        }
        first_seen, _ = recent.get(record, (now, now))
        recent[record] = first_seen, now
        self._sightings = recent
        return now - first_seen < UNRESOLVED_SECONDS


@dataclass(slots=True)
class EarlierWaits:
    """The Services that waited for an address at the first check of a marked allocation.

    The mark is the value of the annotation, so another mark begins a new memory.

    This memory is lost with the process. Then the next check counts as the first one, and
    `find_newcomers` misses a Service that lost its address before. Growth serves that Service.
    """

    _mark: str | None = None
    _uids: frozenset[str] | None = frozenset()

    def find_newcomers(self, mark: str, services: Iterable[Service]) -> list[Service]:
        """Return the waiting Services that did not wait at the first check of this mark.

        At the first check of a mark, remember the Services that wait. If there are more than
        MOST_SERVICES, none is remembered, and the result is empty for this mark.

        Args:
            mark: the value of the annotation that marks the allocation.
            services: the Services that wait now.
        """
        waiting = list(services)
        if mark != self._mark:
            # The first check of this mark.
            uids = frozenset(service.metadata.uid for service in waiting)
            self._mark = mark
            # A tenant may have any number of Services, and must not fill our memory.
            self._uids = uids if len(uids) <= MOST_SERVICES else None
        uids_at_first_check = self._uids
        if uids_at_first_check is None:
            return []
        return [service for service in waiting if service.metadata.uid not in uids_at_first_check]


@dataclass(slots=True)
class AllocationMemory:
    """What is remembered of one allocation that is being released.

    Args:
        checked_at: when it was last checked, in monotonic seconds.
        held_since: since when the tenant of a deleted cluster holds up its release, in monotonic
            seconds; None if it does not.
        wait: the bounded wait for a balancer that cannot show which addresses it hands out.
        creations: when the records of creations on it were seen.
        balancer: the adapter's memory of its release.
        earlier_waits: the Services that waited for an address before its range left the tenant.
    """

    checked_at: float
    held_since: float | None = None
    wait: BoundedWait = field(default_factory=BoundedWait)
    creations: SeenCreations = field(default_factory=SeenCreations)
    balancer: BalancerMemory = field(default_factory=BalancerMemory)
    earlier_waits: EarlierWaits = field(default_factory=EarlierWaits)


@dataclass(slots=True)
class GateMemory:
    """What the release check remembers of one TenantCluster.

    Args:
        secret_reads: live reads of its Secret; None if there was none since the Secret was absent.
    """

    secret_reads: SecretReads | None = None
    _allocations: dict[str, AllocationMemory] = field(default_factory=dict)

    def get_or_create(self, uid: str, now: float) -> AllocationMemory:
        """Return the memory of an allocation; create it at the first check.

        The memories of allocations that were not checked for FORGET_SECONDS are dropped.

        Args:
            uid: of the allocation.
            now: monotonic seconds.
        """
        recent = {
            allocation_uid: memory
            for allocation_uid, memory in self._allocations.items()
            if now - memory.checked_at < FORGET_SECONDS
        }
        memory = recent.setdefault(uid, AllocationMemory(now))
        memory.checked_at = now
        self._allocations = recent
        return memory
