"""The writes of allocations: ranges that are promised, refusals, and the fence.

A range is written to an allocation only with exactly the promise's resourceVersion as
precondition. A conflict is not an error: the allocation has another version by now, so the promise
can never be written and is over.

To *void* a promise is to write its allocation so that it gets another version. A *fence* voids all
promises that a pool's journal does not record; these promises are *lost*.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import anyio

from allocator import AddressRange
from controller.client import Client
from controller.conditions import format_rfc3339
from controller.errors import ControllerError
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    ALLOCATED,
    FAILED,
    PENDING,
    REQUIRE_DUAL_STACK,
    WRITE_REFUSED,
    IPAllocation,
)
from reconcilers.api.networkpool import NetworkPool, cap_at_int32
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.networkpool.choicewords import describe_allocated
from reconcilers.promises.choosing import AskerRefusal
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.fence import Fence
from reconcilers.promises.journal import Promise
from reconcilers.promises.keeping import Granted, Kept, build_refused_message
from reconcilers.promises.refusedwrites import RefusedWrites
from reconcilers.promises.results import WriteResult
from reconcilers.reporting import dualstack
from reconcilers.reporting.allocationstatus import POOL_NOT_READY, make_waiting_status
from reconcilers.reporting.conditions import (
    READY,
    ConditionFinding,
    render_conditions,
    with_findings,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """One attempted status write of an allocation.

    Args:
        allocation: as it was before the write.
        answer: the allocation as the API server answered; None if the write failed.
        error: why the write failed; None if it did not, or if the allocation has another version.
    """

    allocation: IPAllocation
    result: WriteResult
    answer: IPAllocation | None = None
    error: ControllerError | None = None


class AllocationWriter:
    """Writes the status of allocations, `width` at once for all pools together.

    The limit is for all pools, because all requests of the process share their connections: ten
    pools with 32 writes each would keep the renewal of the lease waiting until it is lost.
    """

    def __init__(self, client: Client, width: int) -> None:
        self._client = client
        self._width = width
        # Acquired without giving way to other tasks where a turn is free.
        self._turns = anyio.Semaphore(width, fast_acquire=True)

    async def grant(
        self, pool: NetworkPool, granted: Sequence[Granted[IPAllocation]], now: datetime
    ) -> list[Written]:
        """Write what the pool promised to its allocations; return the results, in order."""
        return await self.write(
            [
                (allocation, _render_granted(promise, allocation, pool=pool, now=now))
                for promise, allocation in granted
            ]
        )

    async def refuse(
        self, refusals: Sequence[AskerRefusal[IPAllocation]], now: datetime
    ) -> list[Written]:
        """Mark each refused allocation Failed, with the reason; return the results, in order."""
        return await self.write(
            [(refusal.asker, render_refused(refusal, now)) for refusal in refusals]
        )

    async def report(
        self, allocations: Sequence[IPAllocation], ready: ConditionFinding, now: datetime
    ) -> list[Written]:
        """Mark each allocation Pending, with the reason; return the results, in order."""
        return await self.write(
            [
                (allocation, make_waiting_status(allocation, PENDING, ready=ready, now=now))
                for allocation in allocations
            ]
        )

    async def void_refused(
        self, refused: Sequence[Kept[IPAllocation]], now: datetime
    ) -> list[Written]:
        """Void promises whose write was rejected for good; the allocations then show why.

        Returns:
            The results of the voiding writes, in order.
        """
        return await self.write(
            [(entry.request, render_write_refused(entry, now)) for entry in refused]
        )

    async def write(self, writes: Sequence[tuple[IPAllocation, dict[str, Any]]]) -> list[Written]:
        """Write each status to its allocation; return the results, in order."""
        work = [partial(self._write_one, *write) for write in writes]
        return await run_concurrently(work, self._width, self._turns)

    def make_fence(self, now: datetime) -> Fence[IPAllocation]:
        """Return a fence, which voids promises that a pool made before it was read.

        Args:
            now: the time, for the voiding statuses.
        """

        async def void(allocation: IPAllocation) -> IPAllocation:
            """Write a status that gives the allocation another version; return that version."""
            status = render_voiding(allocation, now)
            return await self._client.patch_status(IP_ALLOCATION, allocation, status)

        return Fence(
            self._client,
            IP_ALLOCATION,
            may_have_promise=_may_have_promise,
            void=void,
            width=self._width,
            turns=self._turns,
        )

    async def _write_one(self, allocation: IPAllocation, status: dict[str, Any]) -> Written:
        """Patch the status of an allocation; return the result, errors included."""
        try:
            answer = await self._client.patch_status(IP_ALLOCATION, allocation, status)
        except ControllerError as error:
            result = WriteResult.from_error(error)
            # The next pass serves the new version, so nothing has failed for the user.
            has_moved_on = result is WriteResult.SETTLED
            return Written(allocation, result, error=None if has_moved_on else error)
        return Written(allocation, WriteResult.WRITTEN, answer)


def _render_granted(
    promise: Promise, allocation: IPAllocation, pool: NetworkPool, now: datetime
) -> dict[str, Any]:
    """Return the status of an allocation that writes a promise to it."""
    ranges = tuple(part.range for part in promise.ranges)
    return render_allocated(allocation, pool, ranges=ranges, now=now, choice=promise.choice)


def render_allocated(
    allocation: IPAllocation,
    pool: NetworkPool,
    ranges: Sequence[AddressRange],
    now: datetime,
    choice: str = "",
) -> dict[str, Any]:
    """Return the status of `allocation` once it holds `ranges`, as a merge patch.

    A null removes a field that an earlier release, or an earlier spec, has left.

    Args:
        pool: that allocated them.
        ranges: one range, or one of each family, in order.
        now: the time.
        choice: how they were chosen; empty if that is not known.
    """
    first, range_statuses = ranges[0], [_render_range(address_range) for address_range in ranges]
    ready = ConditionFinding(
        READY, True, reason="Ready", message=describe_allocated(pool, ranges, choice)
    )
    findings = [ready, *dualstack.report_dual_stack(allocation, pool, ranges)]
    generation = allocation.metadata.generation
    return {
        "phase": ALLOCATED,
        **range_statuses[0],
        "addresses": first.list_addresses(),
        **_render_families(allocation, ranges, range_statuses),
        "observedGeneration": generation,
        "allocatedAt": format_rfc3339(now),
        **({"releasedAt": None} if allocation.status.releasedAt else {}),
        "allocatedBy": names.ALLOCATED_BY,
        "conditions": render_conditions(
            with_findings(allocation.status.conditions, findings, generation=generation, now=now)
        ),
    }


def _render_range(address_range: AddressRange) -> dict[str, Any]:
    """Return the status fields of one range; `exactCount` only if int32 cannot hold its size."""
    return {
        "cidr": address_range.text,
        "startAddress": address_range.start_text,
        "endAddress": address_range.end_text,
        "allocatedCount": cap_at_int32(address_range.size),
        **(
            {"exactCount": str(address_range.size)}
            if cap_at_int32(address_range.size) != address_range.size
            else {}
        ),
    }


def _render_families(
    allocation: IPAllocation,
    ranges: Sequence[AddressRange],
    range_statuses: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """Return the status field `families` if the spec names families, or a null that removes it.

    Empty if the spec names no family, and the status has no such field.
    """
    if allocation.spec.names_families:
        pairs = zip(ranges, range_statuses, strict=True)
        return {
            "families": [
                {"family": familychoice.FAMILY_NAMES[address_range.family], **range_status}
                for address_range, range_status in pairs
            ]
        }
    return {"families": None} if allocation.status.families else {}


def render_refused(refusal: AskerRefusal[IPAllocation], now: datetime) -> dict[str, Any]:
    """Return the status of an allocation that cannot be served now."""
    failed = ConditionFinding(READY, False, reason=refusal.reason, message=refusal.message)
    return make_waiting_status(refusal.asker, FAILED, ready=failed, now=now)


def render_write_refused(kept: Kept[IPAllocation], now: datetime) -> dict[str, Any]:
    """Return the status that voids a promise whose write was refused for good."""
    failed = ConditionFinding(
        READY, False, reason=WRITE_REFUSED, message=build_refused_message(kept.why, now)
    )
    return make_waiting_status(kept.request, PENDING, ready=failed, now=now)


def note_rejected_writes(rejected_writes: RefusedWrites, written: Iterable[Written]) -> None:
    """Note in `rejected_writes` each write that the API server rejected for good."""
    for write in written:
        if write.result is WriteResult.REFUSED and write.error is not None:
            rejected_writes.note_refused(write.allocation.metadata, write.error)


def list_unshown_refusals(
    refusals: Iterable[AskerRefusal[IPAllocation]],
) -> tuple[AskerRefusal[IPAllocation], ...]:
    """Return the refusals that the statuses of their allocations do not show yet."""
    return tuple(refusal for refusal in refusals if not refusal.is_shown)


def render_voiding(allocation: IPAllocation, now: datetime) -> dict[str, Any]:
    """Return a status that differs from every earlier one, so that writing it makes a new version.

    The server makes no new version of an unchanged object. The time, to the microsecond, makes the
    status differ even if the same allocation is fenced twice.
    """
    message = (
        f"NetworkPool {allocation.spec.poolRef.name} had lost track of its promises;"
        f" those made before {now.isoformat()} are void"
    )
    ready = ConditionFinding(READY, False, reason=POOL_NOT_READY, message=message)
    return make_waiting_status(allocation, PENDING, ready=ready, now=now)


def _may_have_promise(allocation: IPAllocation) -> bool:
    """Return whether a lost promise to this version may name a range that it does not hold.

    Only such a promise could give away a range that the pool does not know of.
    """
    metadata = allocation.metadata
    # Nothing is promised to such a version, and a promise to an older one cannot be written.
    if metadata.is_terminating or names.FINALIZER_ALLOCATION not in metadata.finalizers:
        return False
    held_ranges = statusranges.list_held_ranges(allocation)
    # It may be promised its second range, unless it is in phase Allocated and so does not wait.
    if len(held_ranges) == 1 and allocation.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return allocation.status.phase != ALLOCATED
    # An allocation that waits and holds a range is promised the same range again.
    return not held_ranges
