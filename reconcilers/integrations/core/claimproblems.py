"""Why a claim has no address: the reasons of events and conditions, and their messages."""

from typing import NamedTuple

from reconcilers.reporting.conditions import READY, ConditionFinding

ADDRESS_ALLOCATED = "AddressAllocated"
"""The reason of events about claims that get their address; it is no problem."""
POOL_NOT_READY = "PoolNotReady"
POOL_EXHAUSTED = "PoolExhausted"
ALLOCATION_FAILED = "AllocationFailed"


class ClaimProblem(NamedTuple):
    """Why a claim has no address.

    Args:
        reason: a CamelCase word, for events and the condition Ready of an IPAddressClaim.
        message: a sentence, or the words of the kind's own provider that users search for.
    """

    reason: str
    message: str

    def make_ready_finding(self) -> ConditionFinding:
        """Return condition Ready of a claim with this problem: False."""
        return ConditionFinding(READY, False, reason=self.reason, message=self.message)


def describe_not_ready(kind: str, pool: str, why: str) -> str:
    """Return the message of claims that wait for a pool which serves no claim.

    Args:
        kind: the kind of the pool.
        pool: the name of the pool.
        why: why the pool serves no claim.
    """
    return f"{kind} {pool} is not ready: {why}"
