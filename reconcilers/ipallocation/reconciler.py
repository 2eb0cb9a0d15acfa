"""One pass over one IPAllocation.

    cannot be read?     nothing: the API server rejects a write from an older version
    gone?               forget it
    being deleted?      once the tenant has released the range: Released, then the finalizer goes
    no finalizer?       add it; an allocation gets no range before it has the finalizer
    holds a range?      nothing to do
    no pool to ask?     Pending: the pool is missing, unreadable or being deleted
    otherwise           nothing to do

The pass over the pool writes everything else: Allocated, Failed, and Pending while the pool hands
out nothing. A promise is a range that a pass over the pool has reserved for one version of an
allocation. A write here makes a new version, which invalidates the promise to the old version. So
nothing is written to an allocation that a pass over its pool may serve.

A mark is the resourceVersion from which on the allocation was being deleted. The tenant has
released the range when a projection that read at least up to the mark leaves the range out.
"""

from datetime import datetime
from typing import Any

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
from controller.conditions import find_condition, format_rfc3339
from controller.loggers import get_logger
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, PENDING, RELEASED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.configuration.settings import AllocationSettings
from reconcilers.ipallocation.poolproblems import find_pool_problem
from reconcilers.ipallocation.release import InUse, ReleaseCheck
from reconcilers.reporting.allocationstatus import (
    make_waiting_status,
    render_conditions_with,
    shows,
)
from reconcilers.reporting.conditions import READY, ConditionFinding
from reconcilers.reporting.releaselog import GONE, release_fields

GIVEN_BACK = ConditionFinding(READY, False, reason="Released", message="the range was given back")

_log = get_logger(__name__)


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
        self._marks: dict[Key, tuple[str, int]] = {}
        """By allocation: its uid, and its mark."""

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one allocation up to date."""
        if key in self._allocations.unreadable:
            # The cache still has an older version; a write from that would be rejected.
            return Blocked("Unreadable")
        allocation = self._allocations.get(key)
        if allocation is None:
            self.forget(key)
            return SETTLED
        try:
            return await self._write_next_step(allocation)
        except (Conflict, NotFound):
            # The cache is behind; the event that brings it up to date enqueues the key again.
            return Again(self._settings.requeue_stale)

    def forget(self, key: Key) -> None:
        """Forget an allocation that is gone, or that another replica works on from now on."""
        self._marks.pop(key, None)

    async def _write_next_step(self, allocation: IPAllocation) -> Outcome:
        """Write what an allocation needs next: its release, the finalizer, or Pending."""
        has_our_finalizer = has_finalizer(allocation, names.FINALIZER_ALLOCATION)
        if allocation.metadata.is_terminating:
            # Without our finalizer it never had a range, or its release is done.
            return await self._release(allocation) if has_our_finalizer else SETTLED
        if not has_our_finalizer:
            await add_finalizer(
                self._client, IP_ALLOCATION, allocation, names.FINALIZER_ALLOCATION
            )
            return SETTLED  # the event of this write brings the next pass
        problem = find_pool_problem(allocation.pool_key, self._pools)
        if is_served(allocation) or problem is None:
            # Nothing to write: it has its range, or the pass over its pool reports on it.
            return Again(self._settings.requeue_idle)
        if not shows(allocation, PENDING, problem):
            status = make_waiting_status(allocation, PENDING, ready=problem, now=self._clock.now())
            await self._client.patch_status(IP_ALLOCATION, allocation, status)
        return Blocked(problem.reason, self._settings.requeue_pending)

    async def _release(self, allocation: IPAllocation) -> Outcome:
        """Write Released and remove the finalizer, once the tenant has released the range.

        The phase Released counts only with our condition. Another program may have written the
        phase alone, without asking the tenant.
        """
        if not shows(allocation, RELEASED, GIVEN_BACK):
            # Without a range there is nothing that the tenant could use.
            if statusranges.find_held_range(allocation) is not None:
                answer = await self._release_check.check(allocation, self._record_mark(allocation))
                if isinstance(answer, InUse):
                    return await self._report_wait_for_tenant(allocation, answer)
                _log.info("releasing IPAllocation", **release_fields(allocation, answer.reason))
            allocation = await self._client.patch_status(
                IP_ALLOCATION, allocation, make_released_status(allocation, self._clock.now())
            )
        await remove_finalizer(self._client, IP_ALLOCATION, allocation, names.FINALIZER_ALLOCATION)
        return SETTLED

    def _record_mark(self, allocation: IPAllocation) -> int:
        """Remember the mark of an allocation that is being deleted, and return it.

        The mark is the first resourceVersion at which this replica saw the deletion.

        The present resourceVersion may be too late: writing the reason of the wait raises it,
        and a projection that left the range out before that write is good enough. A present
        version below the recorded one means that etcd was restored from a backup. The recorded one
        may then be far in the future, so the lower one is the mark.
        """
        meta = allocation.metadata
        uid, recorded = self._marks.get(meta.key, (meta.uid, meta.revision))
        # Another uid is another allocation of the same name.
        mark = min(recorded, meta.revision) if uid == meta.uid else meta.revision
        self._marks[meta.key] = (meta.uid, mark)
        return mark

    async def _report_wait_for_tenant(self, allocation: IPAllocation, in_use: InUse) -> Outcome:
        """Write to condition Ready why the release waits, unless the status shows it already.

        Returns:
            Blocked, so that the tenant is checked again later.
        """
        finding = ConditionFinding(READY, False, reason="WaitingForTenant", message=in_use.why)
        condition = find_condition(allocation.status.conditions, READY)
        if not in_use.is_fresh and condition is not None and condition.reason == finding.reason:
            # `why` is a remembered answer. The condition may have a newer one of another replica,
            # and the two replicas would overwrite each other's message.
            return Blocked(finding.reason, self._settings.requeue_releasing)
        if not shows(allocation, allocation.status.phase, finding):
            conditions = render_conditions_with(allocation, [finding], self._clock.now())
            await self._client.patch_status(IP_ALLOCATION, allocation, {"conditions": conditions})
        return Blocked(finding.reason, self._settings.requeue_releasing)


def is_served(allocation: IPAllocation) -> bool:
    """Return whether an allocation has its range, phase Allocated and our finalizer."""
    return (
        allocation.status.phase == ALLOCATED
        and not allocation.metadata.is_terminating
        and has_finalizer(allocation, names.FINALIZER_ALLOCATION)
        and statusranges.find_held_range(allocation) is not None
    )


def make_released_status(allocation: IPAllocation, now: datetime) -> dict[str, Any]:
    """Return the status of an allocation that gives its range back at the time `now`."""
    return {
        "phase": RELEASED,
        "releasedAt": format_rfc3339(now),
        "conditions": render_conditions_with(allocation, [GIVEN_BACK], now),
    }


def describe_unreleased(gone: IPAllocation) -> dict[str, str] | None:
    """Return the fields of a log line about an allocation that disappeared without our release.

    This happens when a person removes its finalizer. None if the allocation held no range, or if
    its release was logged before it disappeared.
    """
    if not statusranges.list_held_ranges(gone) or shows(gone, RELEASED, GIVEN_BACK):
        return None
    return release_fields(gone, f"{GONE}, and its tenant was not asked")
