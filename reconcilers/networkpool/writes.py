"""The writes of a pass, each with its precondition.

A range is written to an allocation only with exactly the promise's resourceVersion as
precondition. A conflict is not an error: the object has moved on, so the promise is settled.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any

import anyio

from allocator import AddressRange
from controller.client import Client
from controller.conditions import rfc3339
from controller.errors import (
    ApiError,
    Conflict,
    ControllerError,
    NotFound,
    ServerFailure,
    TooManyRequests,
    Unauthorized,
)
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.fields import INT32_MAX
from reconcilers.api.ipallocation import ALLOCATED, FAILED, IPAllocation
from reconcilers.api.networkpool import Assignment
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.conditions import READY, Finding, rendered, with_findings
from reconcilers.networkpool.protocol import Refusal


class Fate(Enum):
    """What became of one write."""

    WRITTEN = auto()
    """The object carries it."""
    SETTLED = auto()
    """The object has moved on or is gone; the write can never take effect."""
    UNKNOWN = auto()
    """No answer, or one that says to try again: it may or may not have taken effect."""
    REFUSED = auto()
    """Refused for good."""


@dataclass(frozen=True, slots=True)
class Promised:
    """A promise, and the allocation at exactly the version that it names."""

    promise: Assignment
    allocation: IPAllocation


@dataclass(frozen=True, slots=True)
class Written:
    """One attempted status write of an allocation."""

    allocation: IPAllocation
    fate: Fate
    answer: IPAllocation | None = None
    error: ControllerError | None = None


class AllocationWriter:
    """Writes the status of allocations, `width` at once."""

    def __init__(self, client: Client, width: int) -> None:
        self._client = client
        self._width = width

    async def grant(self, promised: Sequence[Promised], now: datetime) -> list[Written]:
        """Write each promised range to its allocation; return what became of each, in order."""
        return await self.write([(p.allocation, _granted(p, now)) for p in promised])

    async def refuse(self, refusals: Sequence[Refusal], now: datetime) -> list[Written]:
        """Mark each refused allocation Failed, with the reason."""
        return await self.write([(r.allocation, refused_status(r, now)) for r in refusals])

    async def write(self, writes: Sequence[tuple[IPAllocation, dict[str, Any]]]) -> list[Written]:
        """Write each status to its allocation; return what became of each, in order."""
        results: dict[int, Written] = {}
        limit = anyio.CapacityLimiter(self._width)

        async def one(number: int, allocation: IPAllocation, status: dict[str, Any]) -> None:
            async with limit:
                results[number] = await self._one(allocation, status)

        async with anyio.create_task_group() as group:
            for number, (allocation, status) in enumerate(writes):
                group.start_soon(one, number, allocation, status)
        return [results[number] for number in range(len(writes))]

    async def _one(self, allocation: IPAllocation, status: dict[str, Any]) -> Written:
        try:
            answer = await self._client.patch_status(IP_ALLOCATION, allocation, status)
        except (Conflict, NotFound):
            return Written(allocation, Fate.SETTLED)
        except (Unauthorized, TooManyRequests, ServerFailure) as error:
            return Written(allocation, Fate.UNKNOWN, error=error)
        except ApiError as error:
            return Written(allocation, Fate.REFUSED, error=error)
        except ControllerError as error:
            return Written(allocation, Fate.UNKNOWN, error=error)
        return Written(allocation, Fate.WRITTEN, answer)


def _granted(promised: Promised, now: datetime) -> dict[str, Any]:
    given = ranges.promised(promised.promise)
    assert given is not None, "only promises that parse are granted"
    allocation = promised.allocation
    return granted_status(allocation, given, now)


def granted_status(allocation: IPAllocation, given: AddressRange, now: datetime) -> dict[str, Any]:
    """Return the status of `allocation` once it holds `given`."""
    ready = Finding(READY, True, "Ready", f"allocated {given.size} IPs: {given.text}")
    generation = allocation.metadata.generation
    return {
        "phase": ALLOCATED,
        "cidr": given.text,
        "startAddress": given.start_text,
        "endAddress": given.end_text,
        "addresses": given.addresses(limit=ranges.LISTED_ADDRESSES),
        "allocatedCount": min(given.size, INT32_MAX),
        "observedGeneration": generation,
        "allocatedAt": rfc3339(now),
        "allocatedBy": names.ALLOCATED_BY,
        "conditions": rendered(
            with_findings(allocation.status.conditions, [ready], generation, now)
        ),
    }


def refused_status(refusal: Refusal, now: datetime) -> dict[str, Any]:
    """Return the status of an allocation that cannot be served now."""
    allocation = refusal.allocation
    failed = Finding(READY, False, refusal.reason, refusal.message)
    generation = allocation.metadata.generation
    return {
        "phase": FAILED,
        "observedGeneration": generation,
        "conditions": rendered(
            with_findings(allocation.status.conditions, [failed], generation, now)
        ),
    }


def tells_news(refusal: Refusal) -> bool:
    """Return whether the allocation does not say yet that, and why, it was refused."""
    status = refusal.allocation.status
    said = next((c for c in status.conditions if c.type == READY), None)
    return (
        status.phase != FAILED
        or said is None
        or (said.status, said.reason, said.message) != ("False", refusal.reason, refusal.message)
    )


def news(refusals: Iterable[Refusal]) -> tuple[Refusal, ...]:
    """Return the refusals that their allocations do not tell yet."""
    return tuple(refusal for refusal in refusals if tells_news(refusal))
