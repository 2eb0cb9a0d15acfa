"""What IPAllocations mean to the NetworkPool that they name. Pure functions.

The *facts* of an allocation are the ranges that it holds, and its *place* and *row* in the pool's
queue while it waits. Places are ordered by the time of the request. A row has requests that would
get the same answer. A *space* is the part of a pool that has one address family.
"""

from collections.abc import Iterable

from allocator import AddressRange
from controller.cache import Change
from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.addressing import familychoice, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, FAILED, PENDING, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.promises.holdings import Facts, Holdings, Place
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import PromisedRange
from reconcilers.promises.queue import Row, TenantRow
from reconcilers.promises.statuswrites import last_foreign_write
from reconcilers.reporting.allocationstatus import POOL_NOT_READY
from reconcilers.reporting.conditions import READY

KIND = IP_ALLOCATION.full_name
"""The kind of these requests, in journals and as holders."""
SHOWN_KINDS = {KIND: IP_ALLOCATION.kind, names.KIND_CLAIMS: "IPAddressClaim"}
"""What messages call the kinds of requests of a NetworkPool."""


def is_unserved(allocation: IPAllocation) -> bool:
    """Return whether the allocation still needs a range, or a status that reports its range.

    It is not served before it has our finalizer: without that, its deletion would not wait until
    the tenant has released the range.
    """
    return (
        (allocation.status.phase != ALLOCATED or statusranges.find_held_range(allocation) is None)
        and names.FINALIZER_ALLOCATION in allocation.metadata.finalizers
        and not allocation.metadata.is_terminating
    )


def make_holder(allocation: IPAllocation) -> Holder:
    """Return the identity by which a pool knows an allocation: its kind and its key."""
    return Holder(KIND, allocation.metadata.key)


def describe_holder(holder: Holder) -> str:
    """Return kind and name of a holder, for messages; for a claim, the namespace as well."""
    if holder.kind == KIND:
        return f"{IP_ALLOCATION.kind} {holder.key.name}"
    return f"{SHOWN_KINDS.get(holder.kind, holder.kind)} {holder.key}"


def find_place(allocation: IPAllocation) -> Place:
    """Return the place of an allocation among those that wait: oldest request first."""
    return allocation.requested_at, make_holder(allocation)


def read_shown_answer(allocation: IPAllocation) -> tuple[str, str, str] | None:
    """Return phase, reason and message of the refusal that a request shows; None if it shows none.

    A refusal has phase Failed, or phase Pending and reason PoolNotReady. Pending with another
    reason only tells that the request waits.
    """
    phase, ready = allocation.status.phase, find_condition(allocation.status.conditions, READY)
    if ready is None or ready.status != "False":
        return None
    if phase == FAILED or (phase == PENDING and ready.reason == POOL_NOT_READY):
        return phase, ready.reason, ready.message
    return None


def make_row(allocation: IPAllocation) -> Row:
    """Return the row of a request: all that its answer depends on, and the answer that it shows.

    A request for certain addresses has a row of its own, because a refusal names these addresses.
    So has a request that holds a range already, because it gets the same range again.
    """
    spec = allocation.spec
    if spec.is_pinned or statusranges.list_held_ranges(allocation):
        return make_holder(allocation)
    asked = (spec.type, spec.count, spec.prefixLength, spec.ipFamilyPolicy, spec.ipFamilies)
    return TenantRow(get_tenant(allocation), (KIND, asked, read_shown_answer(allocation)))


def get_tenant(allocation: IPAllocation) -> Tenant:
    """Return the tenant that an allocation is for: the namespace of its TenantCluster."""
    return Tenant(KIND, allocation.spec.tenantClusterRef.key.namespace)


def name_spaces(ranges: Iterable[AddressRange]) -> tuple[PromisedRange, ...]:
    """Return ranges of a NetworkPool, each with the space of its family."""
    return tuple(PromisedRange(part, familychoice.FAMILY_NAMES[part.family]) for part in ranges)


def compute_facts(allocation: IPAllocation, our_manager: str) -> Facts:
    """Return the facts of an allocation: its ranges, and its place in the queue if it waits.

    Requests that get the same answer are one row of the queue.

    Args:
        our_manager: our field manager; if it is not known, no status write counts as foreign.
    """
    held_ranges, is_waiting = statusranges.list_held_ranges(allocation), is_unserved(allocation)
    # A status that a person wrote may name a range twice; facts have each range once.
    if len(held_ranges) > 1:
        held_ranges = tuple(dict.fromkeys(held_ranges))
    return Facts(
        name_spaces(held_ranges),
        place=find_place(allocation) if is_waiting else None,
        row=make_row(allocation) if is_waiting else None,
        uid=allocation.metadata.uid,
        is_in_use=bool(held_ranges) and allocation.status.phase == ALLOCATED,
        foreign=last_foreign_write(allocation.metadata, our_manager),
    )


def find_facts_in_pool(
    pool: Key, allocation: IPAllocation | None, our_manager: str
) -> Facts | None:
    """Return the facts of an allocation for a pool; None if it is gone or names another pool.

    Args:
        our_manager: our field manager.
    """
    if allocation is None or allocation.pool_key != pool:
        return None
    return compute_facts(allocation, our_manager)


def compute_holdings(allocations: Iterable[IPAllocation]) -> Holdings:
    """Return the holdings of the pool that all of these allocations name."""
    facts = (
        (make_holder(allocation), compute_facts(allocation, our_manager=""))
        for allocation in allocations
    )
    return Holdings(facts=facts)


def concerns_pool(change: Change[IPAllocation], our_manager: str) -> bool:
    """Return whether a pass over the pool may do something about a change of an allocation.

    1. Its pool or its facts changed: yes.
    2. It was created or deleted: yes, if it holds a range, waits, or has a foreign write.
    3. Otherwise, for new labels for example: yes, if it waits, because a promise to the version
       before is void now.

    Args:
        change: of one allocation.
        our_manager: our field manager.
    """
    old = (
        None
        if change.old is None
        else (change.old.pool_key, compute_facts(change.old, our_manager))
    )
    new = (
        None
        if change.new is None
        else (change.new.pool_key, compute_facts(change.new, our_manager))
    )
    if old is not None and new is not None and old != new:
        return True
    facts = new or old  # of a deleted allocation, those that it had
    if facts is None:
        return False
    _, latest_facts = facts
    is_waiting = latest_facts.place is not None
    if old is None or new is None:
        has_foreign_write = latest_facts.foreign is not None
        return bool(latest_facts.ranges) or is_waiting or has_foreign_write
    return is_waiting
