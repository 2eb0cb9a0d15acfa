"""A pool without memory hands out nothing until earlier promises are void: the fence.

A pool that was just created, forcibly re-created or restored from a backup, or whose status was
wiped, does not know what was promised before; a write of such a promise may still be on its way.
Every allocation that holds nothing is therefore written once, with precondition: whatever was
promised to its older version can no longer be written. Only then does the pool get a memory.
"""

from datetime import datetime
from typing import Any

from controller.client import Client
from reconcilers import ranges
from reconcilers.api.ipallocation import PENDING, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.conditions import READY, Finding, rendered, with_findings
from reconcilers.networkpool.pending_promises import AllocationWriter
from reconcilers.networkpool.view import Reader


def void_status(allocation: IPAllocation, now: datetime) -> dict[str, Any]:
    """Return a status that differs from every earlier one, so that writing it makes a new version.

    The server makes no new version of an unchanged object; the time, to the microsecond, sees to
    it that this is a change even if the same allocation is fenced twice.
    """
    message = (
        f"NetworkPool {allocation.spec.poolRef.name} had lost track of its promises;"
        f" those made before {now.isoformat()} are void"
    )
    generation = allocation.metadata.generation
    ready = Finding(READY, False, "PoolNotReady", message)
    return {
        "phase": PENDING,
        "observedGeneration": generation,
        "conditions": rendered(
            with_findings(allocation.status.conditions, [ready], generation, now)
        ),
    }


async def raise_fence(
    client: Client, writer: AllocationWriter, reader: Reader, pool: NetworkPool, now: datetime
) -> NetworkPool:
    """Void earlier promises and give the pool a memory; return the pool as written.

    An allocation that moves on before it is voided needs no voiding: an unknown promise was made
    before `pool` was read, so to a version that is gone now. It may have moved on because such a
    promise was kept just then: a second LIST sees that, and the memory reaches up to it. Starting
    over was rejected: two replicas that fence at once, each moving what the other has listed, keep
    each other from ever finishing.

    Args:
        client: writes the pool, with precondition.
        writer: writes the allocations, with preconditions.
        reader: lists the allocations live, after `pool` was read.
        pool: as it was read.
        now: the time, for the voiding statuses.

    Raises:
        Conflict: the pool changed meanwhile; read again and start over.
        ControllerError: a write failed; the pool still has no memory, so nothing is lost.
    """
    listed = await reader.live(pool.metadata.key)
    idle = [
        allocation
        for allocation in listed.of_pool
        if ranges.held(allocation) is None and not allocation.metadata.terminating
    ]
    written = await writer.write([(a, void_status(a, now)) for a in idle])
    for one in written:
        if one.error is not None:
            raise one.error
    if any(one.answer is None for one in written):
        listed = await reader.live(pool.metadata.key)
    seen = [*listed.of_pool, *(one.answer for one in written if one.answer is not None)]
    remembered = {
        "allocationsRevision": str(max((a.metadata.revision for a in seen), default=0)),
        "assignments": None,
    }
    return await client.patch_status(NETWORK_POOL, pool, remembered)
