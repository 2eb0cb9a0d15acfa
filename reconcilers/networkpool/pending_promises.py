"""The writes of allocations: ranges that are promised, refusals, and the fence.

A range is written to an allocation only with exactly the promise's resourceVersion as
precondition. A conflict is not an error: the object has moved on, so the promise is settled.

A pool without memory hands out nothing until earlier promises are void: the fence. One that was
just created, forcibly re-created or restored from a backup, or whose status was wiped, does not
know what was promised before; a write of such a promise may still be on its way. Every allocation
that holds nothing, and has the finalizer without which nothing is promised, is therefore written
once, with precondition: whatever was promised to its older version can no longer be written. Only
then does the pool get a memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import anyio

from allocator import AddressRange
from controller.client import Client
from controller.conditions import rfc3339
from controller.errors import ControllerError
from controller.meta import Key
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
from reconcilers.api.networkpool import NetworkPool, capped
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.networkpool.choicewords import allocated_message
from reconcilers.networkpool.protocol import Refusal
from reconcilers.networkpool.view import View
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.journal import Promise
from reconcilers.promises.keeping import Kept, refused_message
from reconcilers.promises.results import WriteResult
from reconcilers.reporting import dualstack
from reconcilers.reporting.allocationstatus import POOL_NOT_READY, waiting_status
from reconcilers.reporting.conditions import READY, Finding, rendered, with_findings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Promised:
    """A promise, and the allocation at exactly the version that it names."""

    promise: Promise
    allocation: IPAllocation


@dataclass(frozen=True, slots=True)
class Written:
    """One attempted status write of an allocation."""

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
        self, pool: NetworkPool, promised: Sequence[Promised], now: datetime
    ) -> list[Written]:
        """Write what the pool promised to its allocations; return the results, in order."""
        return await self.write([(p.allocation, _granted(p, pool, now)) for p in promised])

    async def refuse(self, refusals: Sequence[Refusal], now: datetime) -> list[Written]:
        """Mark each refused allocation Failed, with the reason."""
        return await self.write([(r.allocation, refused_status(r, now)) for r in refusals])

    async def report(
        self, allocations: Sequence[IPAllocation], ready: Finding, now: datetime
    ) -> list[Written]:
        """Mark each allocation Pending, with the reason; return the results, in order."""
        return await self.write([(a, waiting_status(a, PENDING, ready, now)) for a in allocations])

    async def void_refused(
        self, refused: Sequence[Kept[IPAllocation]], now: datetime
    ) -> list[Written]:
        """Void promises whose write was refused for good; show on the allocations why."""
        return await self.write(
            [(entry.request, refused_write_status(entry, now)) for entry in refused]
        )

    async def write(self, writes: Sequence[tuple[IPAllocation, dict[str, Any]]]) -> list[Written]:
        """Write each status to its allocation; return the results, in order."""
        work = [partial(self._write_one, *write) for write in writes]
        return await run_concurrently(work, self._width, self._turns)

    async def read(self, keys: Sequence[Key]) -> list[IPAllocation]:
        """Read allocations from the server; leave out those that are gone.

        Raises:
            ControllerError: a request failed.
        """
        work = [partial(self._read_one, key) for key in keys]
        answers = await run_concurrently(work, self._width, self._turns)
        for answer in answers:
            if isinstance(answer, ControllerError):
                raise answer
        return [answer for answer in answers if isinstance(answer, IPAllocation)]

    async def _read_one(self, key: Key) -> IPAllocation | ControllerError | None:
        """Read an allocation; return it, the error, or None if it is gone."""
        try:
            return await self._client.find(IP_ALLOCATION, key)
        except ControllerError as error:
            return error

    async def _write_one(self, allocation: IPAllocation, status: dict[str, Any]) -> Written:
        """Patch the status of an allocation; return the result, errors included."""
        try:
            answer = await self._client.patch_status(IP_ALLOCATION, allocation, status)
        except ControllerError as error:
            result = WriteResult.of_error(error)
            moved_on = result is WriteResult.SETTLED
            return Written(allocation, result, error=None if moved_on else error)
        return Written(allocation, WriteResult.WRITTEN, answer)


def _granted(promised: Promised, pool: NetworkPool, now: datetime) -> dict[str, Any]:
    given = tuple(part.range for part in promised.promise.ranges)
    return granted_status(promised.allocation, pool, given, now, promised.promise.choice)


def granted_status(
    allocation: IPAllocation,
    pool: NetworkPool,
    given: Sequence[AddressRange],
    now: datetime,
    choice: str = "",
) -> dict[str, Any]:
    """Return the status of `allocation` once it holds `given`.

    Args:
        allocation: the allocation.
        pool: of which it holds them.
        given: one range, or one of each family, in order.
        now: the time.
        choice: how they were chosen; empty if that is not known.
    """
    first, shown = given[0], [_range_status(one) for one in given]
    ready = Finding(READY, True, "Ready", allocated_message(pool, given, choice))
    findings = [ready, *dualstack.report_dual_stack(allocation, pool, given)]
    generation = allocation.metadata.generation
    return {
        "phase": ALLOCATED,
        **shown[0],
        "addresses": first.addresses(),
        **_families_status(allocation, given, shown),
        "observedGeneration": generation,
        "allocatedAt": rfc3339(now),
        **({"releasedAt": None} if allocation.status.releasedAt else {}),
        "allocatedBy": names.ALLOCATED_BY,
        "conditions": rendered(
            with_findings(allocation.status.conditions, findings, generation, now)
        ),
    }


def _range_status(given: AddressRange) -> dict[str, Any]:
    return {
        "cidr": given.text,
        "startAddress": given.start_text,
        "endAddress": given.end_text,
        "allocatedCount": capped(given.size),
        **({"exactCount": str(given.size)} if capped(given.size) != given.size else {}),
    }


def _families_status(
    allocation: IPAllocation, given: Sequence[AddressRange], shown: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the ranges by family, if the spec says anything of families.

    They are removed where it does not and the status has some all the same.
    """
    if allocation.spec.names_families:
        pairs = zip(given, shown, strict=True)
        return {
            "families": [
                {"family": familychoice.FAMILY_NAMES[one.family], **says} for one, says in pairs
            ]
        }
    return {"families": None} if allocation.status.families else {}


def refused_status(refusal: Refusal, now: datetime) -> dict[str, Any]:
    """Return the status of an allocation that cannot be served now."""
    failed = Finding(READY, False, refusal.reason, refusal.message)
    return waiting_status(refusal.allocation, FAILED, failed, now)


def refused_write_status(kept: Kept[IPAllocation], now: datetime) -> dict[str, Any]:
    """Return the status that voids a promise whose write was refused for good."""
    failed = Finding(READY, False, WRITE_REFUSED, refused_message(kept.why, now))
    return waiting_status(kept.request, PENDING, failed, now)


def new_refusals(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """Return the refusals that the statuses of their allocations do not show yet."""
    return tuple(refusal for refusal in refusals if refusal.is_new)


def at_version(promise: Promise, view: View) -> list[Promised]:
    """Return the promise with its allocation if the view shows it at the promised version."""
    allocation = view.current(promise.key, promise.uid)
    if (
        allocation is None
        or allocation.metadata.terminating
        or allocation.metadata.resourceVersion != promise.resourceVersion
    ):
        return []
    return [Promised(promise, allocation)]


def void_status(allocation: IPAllocation, now: datetime) -> dict[str, Any]:
    """Return a status that differs from every earlier one, so that writing it makes a new version.

    The server makes no new version of an unchanged object; the time, to the microsecond, sees to
    it that this is a change even if the same allocation is fenced twice.
    """
    message = (
        f"NetworkPool {allocation.spec.poolRef.name} had lost track of its promises;"
        f" those made before {now.isoformat()} are void"
    )
    ready = Finding(READY, False, POOL_NOT_READY, message)
    return waiting_status(allocation, PENDING, ready, now)


async def raise_fence(
    client: Client, writer: AllocationWriter, pool: NetworkPool, listed: View, now: datetime
) -> tuple[NetworkPool, View]:
    """Void earlier promises and give the pool a memory; return the pool and its allocations now.

    An allocation that moves on before it is voided needs no voiding: an unknown promise was made
    before `pool` was read, so to a version that is gone now. It may have moved on because such a
    promise was kept just then: so it is read again, and the memory reaches up to what is read.
    No other promise is made before the pool is written, so the view that is returned shows every
    range that is held.
    Starting over was rejected: two replicas that fence at once, each moving what the other has
    listed, keep each other from ever finishing.

    Args:
        client: writes the pool, with precondition.
        writer: writes the allocations, with preconditions, and reads them.
        pool: as it was read.
        listed: the view of a LIST that began after `pool` was read.
        now: the time, for the voiding statuses.

    Raises:
        Conflict: the pool changed meanwhile; read again and start over.
        ControllerError: a request failed; the pool still has no memory, so nothing is lost.
    """
    idle = [
        allocation
        for allocation in listed.of_pool
        if _may_be_promised_more(allocation) and not allocation.metadata.terminating
    ]
    written = await writer.write([(a, void_status(a, now)) for a in idle])
    for write in written:
        if write.error is not None:
            raise write.error
    moved = {
        write.allocation.metadata.key: write.allocation
        for write in written
        if write.answer is None
    }
    answers = [write.answer for write in written if write.answer is not None]
    current = {allocation.metadata.key: allocation for allocation in listed.of_pool}
    current = {key: allocation for key, allocation in current.items() if key not in moved}
    read = await writer.read([*moved])
    for allocation in read:
        if allocation.metadata.revision == moved[allocation.metadata.key].metadata.revision:
            raise ControllerError(
                f"IPAllocation {allocation.metadata.key} was not voided: its status write was"
                " refused as a conflict though its version is still the same"
            )
    current |= {a.metadata.key: a for a in (*answers, *read)}
    remembered = {
        "allocationsRevision": str(
            max((a.metadata.revision for a in current.values()), default=0)
        ),
        "assignments": None,
    }
    fenced = await client.patch_status(NETWORK_POOL, pool, remembered)
    of_pool = [a for a in current.values() if a.pool_key == pool.metadata.key]
    return fenced, View.from_allocations(listed.position, of_pool)


def _may_be_promised_more(allocation: IPAllocation) -> bool:
    """Return whether a promise to this version may name a range that the allocation does not hold.

    Not if this version has no finalizer of ours: nothing is promised to such a version, and a
    promise to an earlier one can no longer be written.

    One that waits and holds a range is promised that again; with RequireDualStack the second one,
    too. One in phase Allocated does not wait.
    """
    if names.FINALIZER_ALLOCATION not in allocation.metadata.finalizers:
        return False
    held = statusranges.list_held_ranges(allocation)
    if len(held) == 1 and allocation.spec.ipFamilyPolicy == REQUIRE_DUAL_STACK:
        return allocation.status.phase != ALLOCATED
    return not held
