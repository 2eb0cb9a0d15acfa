"""One pass over one IPAllocation.

    cannot be read?    nothing: what is written from an older version is refused
    gone?              forget it
    being deleted?     once the tenant has released the range: Released, then the finalizer goes
    no finalizer?      add it; nothing is handed out to an allocation without
    holds a range?     nothing to do
    not yet served?    Pending with the reason, unless the pool is about to serve it

Ranges, Allocated and Failed are written by the pool's reconciler alone.

A burst of requests is served within seconds, but not all in the first. To mark each of them
Pending would cost as many writes as serving them; so no allocation is marked while its pool hands
out ranges, and all are as soon as it does not: because it is blocked, or without memory. None is
marked before the first pass over its pool has reported on the pool, unless that takes minutes.
"""

from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from controller import (
    SETTLED,
    Again,
    Blocked,
    Cache,
    Client,
    Clock,
    Conflict,
    Key,
    NotFound,
    Outcome,
    add_finalizer,
    has_finalizer,
    remove_finalizer,
)
from controller.conditions import find, is_true, rfc3339
from controller.meta import Object
from reconcilers.addressing import requestedranges, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    ALLOCATED,
    FAILED,
    PENDING,
    RELEASED,
    WRITE_REFUSED,
    IPAllocation,
)
from reconcilers.api.networkpool import Assignment, NetworkPool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.configuration.settings import AllocationSettings
from reconcilers.ipallocation.release import InUse, ReleaseCheck
from reconcilers.reporting.conditions import (
    FOREIGN_MANAGER,
    READY,
    Finding,
    rendered,
    with_findings,
)
from reconcilers.reporting.poolreferences import describe_unreadable_pool
from reconcilers.reporting.releaselog import GONE, release_fields
from reconcilers.specrules.poolnamespaces import NAMESPACE_NOT_ALLOWED

SHORTEST_LOOK = 2.0
"""Seconds between two looks at one that waits while its pool hands out ranges, at least: most are
served before. Of one whose pool gets stuck meanwhile, Pending shows some seconds later for it."""
LONGEST_LOOK = 15.0
"""Seconds between two looks at one that waits while its pool hands out ranges, at most."""
LONGEST_WRITE = 5.0
"""Seconds without a write or a promise kept after which a pool counts as stuck. Not less: between
two batches of a slow server nothing is kept until the next write of the pool is answered."""
GIVEN_BACK = Finding(READY, False, "Released", "the range was given back")

_log = structlog.get_logger(__name__)


class IPAllocationReconciler:
    """Adds and removes finalizers, and writes Pending and Released."""

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        pools: Cache[NetworkPool],
        release: ReleaseCheck,
        clock: Clock,
        settings: AllocationSettings,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._pools = pools
        self._release_check = release
        self._clock = clock
        self._settings = settings
        # Since when each was seen to wait, and its uid; creationTimestamp has whole seconds only.
        self._waiting_since: dict[Key, tuple[str, float]] = {}
        self._marks: dict[Key, tuple[str, int]] = {}
        self._activity = PoolActivity(allocations, clock)

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one allocation up to date."""
        if key in self._allocations.unreadable:
            return Blocked("Unreadable")
        allocation = self._allocations.get(key)
        if allocation is None:
            self.forget(key)
            self._activity.forget_gone(self._pools)
            return SETTLED
        if allocation.status.phase not in {None, PENDING}:
            self._waiting_since.pop(key, None)
        try:
            return await self._pass(allocation)
        except (Conflict, NotFound):
            # The cache is behind; the event that brings it up to date enqueues the key again.
            return Again(self._settings.pending_after)

    def forget(self, key: Key) -> None:
        """Forget an allocation that is gone, or that another replica works on from now on."""
        self._marks.pop(key, None)
        self._waiting_since.pop(key, None)

    async def _pass(self, allocation: IPAllocation) -> Outcome:
        """Do what an allocation needs next: release, finalizer, a later look, or Pending."""
        ours = has_finalizer(allocation, names.FINALIZER_ALLOCATION)
        if allocation.metadata.terminating:
            return await self._release(allocation) if ours else SETTLED
        if not ours:
            await add_finalizer(
                self._client, IP_ALLOCATION, allocation, names.FINALIZER_ALLOCATION
            )
            return SETTLED
        if is_served(allocation):
            return Again(self._settings.requeue_allocated)
        is_refused = allocation.status.phase == FAILED or is_write_refused(allocation)
        if is_refused and self._still_refused(allocation):
            return Again(self._settings.requeue_failed)
        return await self._wait(allocation)

    def _still_refused(self, allocation: IPAllocation) -> bool:
        """Return whether a refusal is still true: the pool exists and serves others."""
        return waiting_for(allocation, self._pools).reason == "Reconciling"

    async def _wait(self, allocation: IPAllocation) -> Outcome:
        """Write Pending with the reason, unless the allocation is about to be served.

        A write here makes a new version, which voids a promise for the old one; so nothing is
        written to an allocation that can be served at once, for a moment.
        """
        pool = self._pools.get(allocation.pool_key)
        reason = waiting_for(allocation, self._pools)
        if reason.reason == "Reconciling":
            if pool is not None and self._activity.promises(pool, allocation):
                return Again(self._settings.requeue_pending)
            waited = self._waited(allocation)
            after = self._pending_after(allocation, pool)
            if waited < after:
                # Ever less often: one that waits behind thousands costs as little as the first.
                least = min(after, SHORTEST_LOOK)
                return Again(min(after - waited, max(least, min(waited, LONGEST_LOOK))))
        if not shows(allocation, PENDING, reason):
            status = pending_status(allocation, reason, self._clock.now())
            await self._client.patch_status(IP_ALLOCATION, allocation, status)
        return Blocked(reason.reason, self._settings.requeue_pending)

    def _waited(self, allocation: IPAllocation) -> float:
        """Return for how many seconds the allocation has waited since it was first reconciled."""
        meta, now = allocation.metadata, self._clock.monotonic()
        uid, since = self._waiting_since.get(meta.key, (meta.uid, now))
        self._waiting_since[meta.key] = (meta.uid, since if uid == meta.uid else now)
        return now - self._waiting_since[meta.key][1]

    def _pending_after(self, allocation: IPAllocation, pool: NetworkPool | None) -> float:
        """Return after how many seconds of waiting Pending is written.

        Later in a burst, if the pool has room for the allocation. Later also before a pass has
        reported on the pool: at a first start the allocation waits behind those of other pools.
        """
        if pool is None or allocation.spec.is_pinned:
            return self._settings.pending_after
        if find(pool.status.conditions, READY) is None:
            return self._settings.pending_in_burst
        fits = pool.status.largest_free >= requestedranges.count_requested(allocation, pool)
        busy = self._activity.busy(pool)
        return self._settings.pending_in_burst if fits and busy else self._settings.pending_after

    async def _release(self, allocation: IPAllocation) -> Outcome:
        """Once the tenant has released the range: write Released, remove the finalizer.

        A phase Released without our condition is not ours, so the tenant was not asked.
        """
        if not shows(allocation, RELEASED, GIVEN_BACK):
            if statusranges.find_held_range(allocation) is not None:
                answer = await self._release_check.check(allocation, self._mark(allocation))
                if isinstance(answer, InUse):
                    return await self._wait_for_tenant(allocation, answer)
                _log.info("releasing IPAllocation", **release_fields(allocation, answer.reason))
            allocation = await self._client.patch_status(
                IP_ALLOCATION, allocation, released_status(allocation, self._clock.now())
            )
        await remove_finalizer(self._client, IP_ALLOCATION, allocation, names.FINALIZER_ALLOCATION)
        return SETTLED

    def _mark(self, allocation: IPAllocation) -> int:
        """Return the first resourceVersion at which this replica saw the allocation deleted.

        Not the present one: writing why it waits makes a new version, and a projection that left
        the range out before that is as good as one after it. A version below the first one is from
        another history, that of a restored backup, where the first may be far in the future.
        """
        meta = allocation.metadata
        uid, first = self._marks.get(meta.key, (meta.uid, meta.revision))
        mark = min(first, meta.revision) if uid == meta.uid else meta.revision
        self._marks[meta.key] = (meta.uid, mark)
        return mark

    async def _wait_for_tenant(self, allocation: IPAllocation, in_use: InUse) -> Outcome:
        finding = Finding(READY, False, "WaitingForTenant", in_use.why)
        before = find(allocation.status.conditions, READY)
        if not in_use.is_asked and before is not None and before.reason == finding.reason:
            # Another replica may have asked since, and would write its own reason again.
            return Blocked(finding.reason, self._settings.requeue_releasing)
        if not shows(allocation, allocation.status.phase, finding):
            conditions = _conditions(allocation, finding, self._clock.now())
            await self._client.patch_status(IP_ALLOCATION, allocation, {"conditions": conditions})
        return Blocked("WaitingForTenant", self._settings.requeue_releasing)


def is_served(allocation: IPAllocation) -> bool:
    """Return whether an allocation has all it needs: there is nothing to do for it."""
    return (
        allocation.status.phase == ALLOCATED
        and not allocation.metadata.terminating
        and has_finalizer(allocation, names.FINALIZER_ALLOCATION)
        and statusranges.find_held_range(allocation) is not None
    )


def is_write_refused(allocation: IPAllocation) -> bool:
    """Return whether an allocation shows that the API server refused the write of its range."""
    ready = find(allocation.status.conditions, READY)
    return (
        allocation.status.phase == PENDING and ready is not None and ready.reason == WRITE_REFUSED
    )


def waiting_for(allocation: IPAllocation, pools: Cache[NetworkPool]) -> Finding:
    """Return the Ready condition of an allocation that holds nothing."""
    where = allocation.pool_key
    if where in pools.unreadable:
        return Finding(READY, False, "PoolUnreadable", describe_unreadable_pool(where))
    pool = pools.get(where)
    if pool is None:
        return Finding(READY, False, "PoolNotFound", f"NetworkPool {where} does not exist")
    if pool.metadata.terminating:
        return Finding(READY, False, "PoolNotReady", f"NetworkPool {where} is being deleted")
    if is_true(pool.status.conditions, FOREIGN_MANAGER):
        message = f"NetworkPool {where} is not ready: {FOREIGN_MANAGER}"
        return Finding(READY, False, "PoolNotReady", message)
    ready = find(pool.status.conditions, READY)
    if ready is not None and not is_true(pool.status.conditions, READY):
        why = ready.message if ready.reason == NAMESPACE_NOT_ALLOWED else ready.reason
        return Finding(READY, False, "PoolNotReady", f"NetworkPool {where} is not ready: {why}")
    return Finding(
        READY, False, "Reconciling", f"waiting for NetworkPool {where} to assign a range"
    )


def shows(allocation: IPAllocation, phase: str | None, finding: Finding) -> bool:
    """Return whether the allocation's status carries this phase and finding already."""
    said = find(allocation.status.conditions, finding.type)
    return (
        said is not None
        and allocation.status.phase == phase
        and (said.status, said.reason, said.message)
        == ("True" if finding.status else "False", finding.reason, finding.message)
    )


def pending_status(allocation: IPAllocation, finding: Finding, now: datetime) -> dict[str, Any]:
    """Return the status of an allocation that waits."""
    return {
        "phase": PENDING,
        "observedGeneration": allocation.metadata.generation,
        "conditions": _conditions(allocation, finding, now),
    }


def released_status(allocation: IPAllocation, now: datetime) -> dict[str, Any]:
    """Return the status of an allocation whose range is given back now."""
    return {
        "phase": RELEASED,
        "releasedAt": rfc3339(now),
        "conditions": _conditions(allocation, GIVEN_BACK, now),
    }


def describe_unreleased(gone: IPAllocation) -> dict[str, str] | None:
    """Return the fields of a log line about an allocation that went without our release.

    A person who removes its finalizer brings that about. None if it held nothing, or if its
    release has a line.
    """
    if not statusranges.list_held_ranges(gone) or shows(gone, RELEASED, GIVEN_BACK):
        return None
    return release_fields(gone, f"{GONE}, and its tenant was not asked")


def _conditions(allocation: IPAllocation, finding: Finding, now: datetime) -> list[dict[str, Any]]:
    return rendered(
        with_findings(allocation.status.conditions, [finding], allocation.metadata.generation, now)
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """How far a pool has come, since when it is there, and whether it was seen to get there."""

    version: tuple[str, str]
    kept: int
    since: float
    moved: bool


@dataclass(frozen=True, slots=True)
class _Promised:
    """The versions of allocations that one version of a pool promises ranges to."""

    version: tuple[str, str]
    allocations: frozenset[tuple[str, str]]


@dataclass(slots=True)
class PoolActivity:
    """Whether a pool is handing out ranges just now, and to whom.

    Args:
        allocations: shows whether a promise is still open.
        clock: the time.
    """

    allocations: Cache[IPAllocation]
    clock: Clock
    _seen: dict[Key, _Seen] = field(default_factory=dict)
    _promised: dict[Key, _Promised] = field(default_factory=dict)

    def promises(self, pool: NetworkPool, allocation: IPAllocation) -> bool:
        """Return whether the pool promises a range to this very version of the allocation.

        Hundreds that wait in a burst ask this of one version of their pool.
        """
        key, version = pool.metadata.key, _version(pool)
        known = self._promised.get(key)
        if known is None or known.version != version:
            named = frozenset((one.uid, one.resourceVersion) for one in pool.status.assignments)
            known = self._promised[key] = _Promised(version, named)
        return _version(allocation) in known.allocations

    def busy(self, pool: NetworkPool) -> bool:
        """Return whether the pool's status changed just now, or its promises are being kept."""
        if not pool.status.allocationsRevision:
            return False
        seen = self._look(pool)
        unchanged = self.clock.monotonic() - seen.since
        return unchanged < LONGEST_WRITE and (seen.moved or self._is_writing(pool))

    def forget_gone(self, pools: Container[Key]) -> None:
        """Forget pools that are gone."""
        for known in (self._seen, self._promised):
            for key in [key for key in known if key not in pools]:
                del known[key]

    def _look(self, pool: NetworkPool) -> _Seen:
        """Return how far a pool has come, noting when that is further than at the last look."""
        key, version, kept = pool.metadata.key, _version(pool), self._kept(pool)
        seen = self._seen.get(key)
        if seen is None or (seen.version, seen.kept) != (version, kept):
            moved = seen is not None and seen.version[0] == pool.metadata.uid
            seen = self._seen[key] = _Seen(version, kept, self.clock.monotonic(), moved)
        return seen

    def _kept(self, pool: NetworkPool) -> int:
        """Return about how many promises of the pool are kept: they are written in order."""
        is_open = partial(self._is_open, pool)
        return bisect_left(pool.status.assignments, True, key=is_open)

    def _is_writing(self, pool: NetworkPool) -> bool:
        """Return whether the last promise is not written yet."""
        promises = pool.status.assignments
        return bool(promises) and self._is_open(pool, promises[-1])

    def _is_open(self, pool: NetworkPool, promise: Assignment) -> bool:
        found = self.allocations.get(Key(pool.metadata.namespace, promise.name))
        return found is not None and _version(found) == (promise.uid, promise.resourceVersion)


def _version(obj: Object) -> tuple[str, str]:
    """Return the uid and the resourceVersion of an object."""
    return obj.metadata.uid, obj.metadata.resourceVersion
