"""Writes to the statuses of a pool's allocations why the pool hands out nothing: the *block*.

The reason follows from the conditions of the pool, and is a word without names of objects: it must
not change with each object that is repaired. Thousands of allocations may wait, so they are
written in batches. A pass finds the allocations to write by the *rows* of the pool's queue: a row
has equal requests of one tenant whose statuses show equal reasons.

Another replica may have read more and may serve the pool. So the version of the pool is checked
before anything is written to its allocations.
"""

from collections.abc import Collection, Iterator
from itertools import islice

from controller.clock import Clock
from controller.conditions import find_condition, is_true
from controller.meta import Key
from reconcilers.api.ipallocation import PENDING, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.configuration.settings import PoolSettings
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.pending_promises import AllocationWriter, note_rejected_writes
from reconcilers.networkpool.statuswriter import PoolStatusWriter
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.due import RETRY
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Promise
from reconcilers.promises.refusedwrites import RefusedWrites
from reconcilers.promises.results import WriteResult
from reconcilers.reporting.allocationstatus import POOL_NOT_READY, shows
from reconcilers.reporting.conditions import FOREIGN_MANAGER, READY, ConditionFinding
from reconcilers.specrules.poolnamespaces import NAMESPACE_NOT_ALLOWED


def find_block(pool: NetworkPool) -> ConditionFinding | None:
    """Return condition Ready for the allocations that wait for a pool that hands out nothing.

    Returns:
        None if the pool hands out ranges, if no pass has reported on it yet, or if it is being
        deleted.
    """
    conditions, key = pool.status.conditions, pool.metadata.key
    # The reconciler of each allocation reports that its pool is being deleted.
    if pool.metadata.is_terminating:
        return None
    # Before Ready, because the other controller may write the pool's condition Ready, too.
    if is_true(conditions, FOREIGN_MANAGER):
        return _describe_block(key, FOREIGN_MANAGER)
    ready = find_condition(conditions, READY)
    if ready is None or ready.status == "True":
        return None
    # Its message names no object that may be repaired, so it need not be cut to a word.
    may_show_message = ready.reason == NAMESPACE_NOT_ALLOWED
    return _describe_block(key, ready.message if may_show_message else ready.reason)


def _describe_block(pool: Key, why: str) -> ConditionFinding:
    """Return condition Ready of an allocation that waits for a blocked pool."""
    return ConditionFinding(
        READY, False, reason=POOL_NOT_READY, message=f"NetworkPool {pool} is not ready: {why}"
    )


class BlockReports:
    """Writes to allocations that wait why their pool hands out nothing.

    Args:
        statuses: checks the version of pools.
        writer: writes the statuses of allocations.
        clock: the time.
        settings: how many allocations a pass writes, and when a refused write is tried again.
    """

    def __init__(
        self,
        statuses: PoolStatusWriter,
        writer: AllocationWriter,
        clock: Clock,
        settings: PoolSettings,
    ) -> None:
        self._statuses = statuses
        self._writer = writer
        self._clock = clock
        self._batch = settings.batch
        self._rejected_writes = RefusedWrites(clock, settings.resync)

    async def report(
        self, pool: NetworkPool, view: AllocationsView, promises: Collection[Promise] = ()
    ) -> float | None:
        """Write to a batch of the allocations that wait for a pool why it hands out nothing.

        Args:
            pool: as it was written last.
            view: the allocations of the pool, as this pass read them.
            promises: that may still be kept; their allocations are left out, because a write would
                void the promise.

        Returns:
            In how many seconds to call again; None if all allocations show it.

        Raises:
            Conflict: the pool has changed since it was read.
            ControllerError: the version of the pool could not be checked.
        """
        finding = find_block(pool)
        if finding is None:
            return None
        # One more than a batch, to know whether another batch is left.
        due = list(islice(self._find_due(view, finding, promises), self._batch + 1))
        if due:
            await self._statuses.check_version(pool)
        written = await self._writer.report(due[: self._batch], finding, self._clock.now())
        note_rejected_writes(self._rejected_writes, written)
        if any(write.result is WriteResult.UNKNOWN for write in written):
            return RETRY
        if len(due) > self._batch:
            return 0.0
        # All that are left had a rejected write, which is tried again after a resync.
        uninformed = find_uninformed(view, finding, promises)
        return self._rejected_writes.next_in(allocation.metadata for allocation in uninformed)

    def _find_due(
        self, view: AllocationsView, finding: ConditionFinding, promises: Collection[Promise]
    ) -> Iterator[IPAllocation]:
        """Yield the allocations to write now.

        An allocation is left out if the API server rejected its write less than a resync ago.
        """
        for allocation in find_uninformed(view, finding, promises):
            if self._rejected_writes.wait_of(allocation.metadata) is None:
                yield allocation


def find_uninformed(
    view: AllocationsView, finding: ConditionFinding, promises: Collection[Promise] = ()
) -> Iterator[IPAllocation]:
    """Return the waiting allocations that do not show `finding`; by rows, each row oldest first.

    Args:
        view: the allocations of the pool.
        finding: condition Ready that they have to show.
        promises: that may still be kept; their allocations are left out.
    """
    promised_uids = {promise.uid for promise in promises}

    def find_readable(holder: Holder) -> IPAllocation | None:
        # The present version of an unreadable allocation is not known, so a write would fail.
        return None if holder.key in view.unreadable else view.find(holder)

    uninformed = view.holdings.find_uninformed(
        KIND, find_readable, lambda allocation: shows(allocation, PENDING, finding)
    )
    return (
        allocation for allocation in uninformed if allocation.metadata.uid not in promised_uids
    )
