"""IPAllocations that cannot be decoded, and the NetworkPools that they may be of."""

from collections.abc import Mapping, Sequence

from controller.meta import Key
from controller.unreadables import UnreadableObjects
from reconcilers.api.ipallocation import POOL_INDEX
from reconcilers.api.resources import AllocationOutline
from reconcilers.promises.unreadable import (
    FINISH_DELETION,
    UnreadableHoldings,
    UnreadableObject,
    describe_unreadable,
    is_terminating,
    read_outline,
)
from reconcilers.reporting.wording import name_with_count


class UnreadableAllocations(UnreadableHoldings):
    """Some IPAllocations of the pool cannot be decoded.

    Args:
        allocations: the names of these.
        others: objects of other kinds that cannot be decoded either.
    """

    reason = "UnreadableAllocation"

    def __init__(
        self, allocations: tuple[str, ...], others: Sequence[UnreadableObject] = ()
    ) -> None:
        message = f"IPAllocations that cannot be read: {name_with_count(allocations)}"
        if others:
            message += f"; {describe_unreadable(others)}"
        super().__init__(message)


def describe_unreadable_allocations(unreadable: Mapping[Key, str], pool: Key) -> tuple[str, ...]:
    """Return the names of the unreadable allocations that may belong to the pool, sorted.

    They are for messages: the name of an allocation that is being deleted is followed by what to
    do. If the poolRef of an allocation cannot be read, it may belong to any pool in its namespace.
    If its namespace cannot be read, it may belong to any pool.

    Args:
        unreadable: by key of an allocation, why it cannot be decoded.
    """
    return tuple(
        sorted(
            f"{key.name} (it is being deleted: {FINISH_DELETION})"
            if is_terminating(failure)
            else key.name
            for key, failure in unreadable.items()
            if may_concern_pool(key, failure, pool)
        )
    )


def find_unreadable_names(unreadable: UnreadableObjects, pool: Key) -> tuple[str, ...]:
    """Return the names of the unreadable allocations that may belong to the pool, for messages.

    The allocations are found by an index of pools, so those of other pools cost nothing, however
    many there are.
    """
    return describe_unreadable_allocations(unreadable.find_near(POOL_INDEX, str(pool)), pool)


def may_concern_pool(key: Key, failure: str, pool: Key) -> bool:
    """Return whether an IPAllocation that cannot be decoded may be a pool's."""
    outline = read_outline(failure)
    if isinstance(outline, AllocationOutline):
        return pool == (key.namespace, outline.spec.poolRef.name)
    return key.namespace in {"", pool.namespace}
