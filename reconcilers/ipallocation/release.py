"""The question before a deleted allocation's range counts as free: has the tenant released it?

The finalizer of an IPAllocation waits for the answer, whichever client deleted the allocation.
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
        why: what is waited for.
        by_service: whether a Service there shows an address of the range, or lost one because
            the range was taken out.
        is_asked: whether the tenant was asked now; if not, `why` is remembered by this process.
    """

    why: str
    by_service: bool = False
    is_asked: bool = True


class ReleaseCheck(Protocol):
    """Finds out whether a tenant has released a range."""

    async def check(self, allocation: IPAllocation, mark: int) -> Released | InUse:
        """Return whether the tenant has released the range of a marked allocation.

        Args:
            allocation: being deleted, or marked by shrink.
            mark: a resourceVersion at or after which it was; a projection into the tenant by a
                reader that had read this far does not contain the range.

        Raises:
            ControllerError: the management cluster did not answer; check again.
        """
        ...
