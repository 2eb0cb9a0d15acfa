"""The check before the range of a deleted allocation counts as free: has the tenant released it?

The finalizer of an IPAllocation stays until the tenant has, whichever client deleted the
allocation.
"""

from dataclasses import dataclass
from typing import Protocol

from reconcilers.api.ipallocation import IPAllocation


@dataclass(frozen=True, slots=True)
class Released:
    """Nothing in the tenant can use the range any more.

    Args:
        reason: how that is known.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class InUse:
    """The tenant uses the range, or may still use it.

    Args:
        why: what the release waits for.
        by_service: whether a Service of the tenant has an address of the range, or lost its
            address because the range was withdrawn.
        is_fresh: whether the tenant was read just now; False if `why` is the remembered answer
            of an earlier check by this process, or no answer of the tenant. Such a `why` does not
            replace a message that the status has.
    """

    why: str
    by_service: bool = False
    is_fresh: bool = True


class ReleaseCheck(Protocol):
    """Finds out whether a tenant has released a range."""

    async def check(self, allocation: IPAllocation, mark: int) -> Released | InUse:
        """Return whether the tenant has released the range of a marked allocation.

        Args:
            allocation: an allocation that is being deleted, or that shrink has marked.
            mark: a resourceVersion at which the allocation was deleted or marked. A projection by
                a reader that had read up to this version does not contain the range.

        Raises:
            ControllerError: the management cluster did not answer; check again.
        """
        ...
