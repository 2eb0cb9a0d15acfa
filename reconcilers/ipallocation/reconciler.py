"""One pass over one IPAllocation.

    gone?              nothing to do
    being deleted?     once the tenant let go: Released, then the finalizer goes
    no finalizer?      add it; nothing is handed out to an allocation without
    holds a range?     nothing to do
    not yet served?    Pending with the reason, unless the pool is about to serve it

Ranges, Allocated and Failed are written by the pool's reconciler alone.
"""

from datetime import datetime
from typing import Any

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import find, is_true, rfc3339
from controller.errors import Conflict, NotFound
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, FAILED, PENDING, RELEASED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.conditions import FOREIGN_MANAGER, READY, Finding, rendered, with_findings
from reconcilers.ipallocation.activity import PoolActivity
from reconcilers.ipallocation.gate import Gate, Holding
from reconcilers.settings import AllocationSettings

_log = structlog.get_logger(__name__)


class IPAllocationReconciler:
    """Looks after the life of requests, not after their ranges."""

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        pools: Cache[NetworkPool],
        gate: Gate,
        clock: Clock,
        settings: AllocationSettings,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._pools = pools
        self._gate = gate
        self._clock = clock
        self._settings = settings
        # Since when each was seen to wait, and its uid; creationTimestamp has whole seconds only.
        self._waiting_since: dict[Key, tuple[str, float]] = {}
        self._marks: dict[Key, tuple[str, int]] = {}
        self._activity = PoolActivity(allocations, clock, settings)

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one allocation up to date."""
        allocation = self._allocations.get(key)
        if allocation is None:
            self._marks.pop(key, None)
            self._waiting_since.pop(key, None)
            self._activity.tidy(self._pools)
            return SETTLED
        if allocation.status.phase not in {None, PENDING}:
            self._waiting_since.pop(key, None)
        try:
            return await self._pass(allocation)
        except (Conflict, NotFound):
            # The cache is behind what happened; it will show it, and that wakes us.
            return Again(self._settings.pending_after)

    async def _pass(self, allocation: IPAllocation) -> Outcome:
        ours = has_finalizer(allocation, names.FINALIZER_ALLOCATION)
        if allocation.metadata.terminating:
            return await self._leave(allocation) if ours else SETTLED
        if not ours:
            await add_finalizer(
                self._client, IP_ALLOCATION, allocation, names.FINALIZER_ALLOCATION
            )
            return SETTLED
        if ranges.held(allocation) is not None and allocation.status.phase == ALLOCATED:
            return Again(self._settings.requeue_allocated)
        if allocation.status.phase == FAILED and self._stands(allocation):
            return Again(self._settings.requeue_failed)
        return await self._wait(allocation)

    def _stands(self, allocation: IPAllocation) -> bool:
        """Whether a refusal still says what is wrong: its pool is there and serves others."""
        pool = self._pools.get(allocation.pool_key)
        return waiting_for(allocation, pool).reason == "Reconciling"

    async def _wait(self, allocation: IPAllocation) -> Outcome:
        """Show that, and why, the allocation waits; but not while it is about to be served.

        A write here makes a new version, which voids a promise for the old one: an allocation
        that can be served at once is left alone for a moment.
        """
        pool = self._pools.get(allocation.pool_key)
        reason = waiting_for(allocation, pool)
        if reason.reason == "Reconciling":
            if pool is not None and _is_promised(allocation, pool):
                return Again(self._settings.requeue_pending)
            left = self._patience(allocation, pool) - self._waited(allocation)
            if left > 0:
                return Again(min(left, self._settings.pending_after))
        if not says(allocation, PENDING, reason):
            status = pending_status(allocation, reason, self._clock.now())
            await self._client.patch_status(IP_ALLOCATION, allocation, status)
        return Blocked(reason.reason, self._settings.requeue_pending)

    def _waited(self, allocation: IPAllocation) -> float:
        meta, now = allocation.metadata, self._clock.monotonic()
        uid, since = self._waiting_since.get(meta.key, (meta.uid, now))
        self._waiting_since[meta.key] = (meta.uid, since if uid == meta.uid else now)
        return now - self._waiting_since[meta.key][1]

    def _patience(self, allocation: IPAllocation, pool: NetworkPool | None) -> float:
        """Return how long a wait needs no telling: longer in a burst that there is room for."""
        if pool is None or allocation.spec.pinnedRange is not None:
            return self._settings.pending_after
        wanted = allocation.spec.count or pool.spec.default_count(allocation.spec.type)
        fits = pool.status.largestFreeBlock >= wanted
        busy = self._activity.busy(pool)
        return self._settings.pending_in_burst if fits and busy else self._settings.pending_after

    async def _leave(self, allocation: IPAllocation) -> Outcome:
        """Give the range back: once the tenant let go, Released, then the finalizer goes."""
        if allocation.status.phase != RELEASED:
            if ranges.held(allocation) is not None:
                answer = await self._gate.ask(allocation, self._mark(allocation))
                if isinstance(answer, Holding):
                    return await self._hold(allocation, answer)
                _log.info("releasing IPAllocation", reason=answer.how)
            allocation = await self._client.patch_status(
                IP_ALLOCATION, allocation, released_status(allocation, self._clock.now())
            )
        await remove_finalizer(self._client, IP_ALLOCATION, allocation, names.FINALIZER_ALLOCATION)
        return SETTLED

    def _mark(self, allocation: IPAllocation) -> int:
        """Return the first resourceVersion at which this replica saw the allocation deleted.

        Not the present one: saying why it waits makes a new version, and a projection that left
        the range out before that is as good as one after it.
        """
        meta = allocation.metadata
        uid, first = self._marks.get(meta.key, (meta.uid, meta.revision))
        self._marks[meta.key] = (meta.uid, first if uid == meta.uid else meta.revision)
        return self._marks[meta.key][1]

    async def _hold(self, allocation: IPAllocation, holding: Holding) -> Outcome:
        finding = Finding(READY, False, "WaitingForTenant", holding.why)
        if not says(allocation, allocation.status.phase, finding):
            conditions = _conditions(allocation, finding, self._clock.now())
            await self._client.patch_status(IP_ALLOCATION, allocation, {"conditions": conditions})
        return Blocked("WaitingForTenant", self._settings.requeue_releasing)


def waiting_for(allocation: IPAllocation, pool: NetworkPool | None) -> Finding:
    """Return the Ready condition of an allocation that holds nothing."""
    where = allocation.pool_key
    if pool is None:
        return Finding(READY, False, "PoolNotFound", f"NetworkPool {where} does not exist")
    if pool.metadata.terminating:
        return Finding(READY, False, "PoolNotReady", f"NetworkPool {where} is being deleted")
    if is_true(pool.status.conditions, FOREIGN_MANAGER):
        message = f"NetworkPool {where} is not ready: {FOREIGN_MANAGER}"
        return Finding(READY, False, "PoolNotReady", message)
    ready = find(pool.status.conditions, READY)
    if ready is not None and not is_true(pool.status.conditions, READY):
        return Finding(
            READY, False, "PoolNotReady", f"NetworkPool {where} is not ready: {ready.reason}"
        )
    return Finding(
        READY, False, "Reconciling", f"waiting for NetworkPool {where} to assign a range"
    )


def _is_promised(allocation: IPAllocation, pool: NetworkPool) -> bool:
    meta = allocation.metadata
    return any(
        (promise.uid, promise.resourceVersion) == (meta.uid, meta.resourceVersion)
        for promise in pool.status.assignments
    )


def says(allocation: IPAllocation, phase: str | None, finding: Finding) -> bool:
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
    """Return the status of an allocation whose range is given back in this moment."""
    finding = Finding(READY, False, "Released", "the range was given back")
    return {
        "phase": RELEASED,
        "releasedAt": rfc3339(now),
        "conditions": _conditions(allocation, finding, now),
    }


def _conditions(allocation: IPAllocation, finding: Finding, now: datetime) -> list[dict[str, Any]]:
    return rendered(
        with_findings(allocation.status.conditions, [finding], allocation.metadata.generation, now)
    )
