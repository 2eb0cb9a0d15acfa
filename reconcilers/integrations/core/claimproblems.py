"""Why a claim has no address: the reasons, and the sentence."""

from typing import NamedTuple

ADDRESS_ALLOCATED = "AddressAllocated"
"""The reason of events about claims that get their address; it is no problem."""
POOL_NOT_READY = "PoolNotReady"
POOL_EXHAUSTED = "PoolExhausted"
ALLOCATION_FAILED = "AllocationFailed"


class ClaimProblem(NamedTuple):
    """Why a claim has no address.

    Args:
        reason: of events, and of the condition Ready of an IPAddressClaim.
        message: in a sentence, or in the words that readers of the kind look for.
    """

    reason: str
    message: str


def describe_not_ready(kind: str, pool: str, why: str) -> str:
    """Return the message of claims that wait for a pool which serves no claim.

    Args:
        kind: of the pool.
        pool: its name.
        why: it serves none.
    """
    return f"{kind} {pool} is not ready: {why}"
