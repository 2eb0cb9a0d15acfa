"""What people are told of a pass: events on the pool, log lines."""

from collections.abc import Iterable, Sequence

import structlog

from controller.events import Recorder
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.networkpool.protocol import Refusal
from reconcilers.networkpool.view import Unreadable
from reconcilers.networkpool.writes import Fate, Written

_log = structlog.get_logger(__name__)

ALLOCATE = "Allocate"


class Reporter:
    """Turns what became of the writes into events and log lines."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def granted(self, pool: NetworkPool, written: Iterable[Written]) -> None:
        """Report the ranges that were handed out, and those whose write was refused for good."""
        for one in written:
            if one.fate is Fate.WRITTEN and one.answer is not None:
                status, name = one.answer.status, one.answer.metadata.name
                self._recorder.record(
                    NETWORK_POOL,
                    pool,
                    "Normal",
                    "IPsAllocated",
                    f"Allocated {status.allocatedCount} IPs"
                    f" ({status.startAddress} - {status.endAddress}) for {name}",
                    action=ALLOCATE,
                )
                _log.info("allocated IPs", allocation=name, cidr=status.cidr)
            elif one.fate is Fate.REFUSED:
                self._failed(pool, one.allocation.metadata.name, str(one.error))

    def refused(
        self, pool: NetworkPool, refusals: Sequence[Refusal], written: Sequence[Written]
    ) -> None:
        """Report the allocations that turned Failed, and those that cannot even be told."""
        for refusal, one in zip(refusals, written, strict=True):
            if one.fate is Fate.WRITTEN:
                self._failed(pool, refusal.allocation.metadata.name, refusal.message)
            elif one.fate is Fate.REFUSED:
                self._failed(pool, refusal.allocation.metadata.name, str(one.error))

    def _failed(self, pool: NetworkPool, name: str, why: str) -> None:
        self._recorder.record(
            NETWORK_POOL,
            pool,
            "Warning",
            "AllocationFailed",
            f"Failed to allocate IPs for {name}: {why}",
            action=ALLOCATE,
        )
        _log.warning("allocation failed", allocation=name, reason=why)

    def unreadable(self, pool: NetworkPool, unreadable: Unreadable) -> None:
        """Report that nothing is handed out, because what some allocations hold is unknown."""
        self._recorder.record(
            NETWORK_POOL,
            pool,
            "Warning",
            "UnreadableAllocation",
            f"Nothing is handed out: {unreadable}. Repair or delete them.",
            action=ALLOCATE,
        )
        _log.error("pool hands out nothing", reason=str(unreadable))
