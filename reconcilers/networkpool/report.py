"""What people are told of a pass: events on the pool, log lines.

A few allocations get an event each, with a note of its own: it names the allocation as the related
object. Many at once, or many within a minute, share one event, because a burst must not cost an
event write for each. Such events of later passes join the series of the first, whose note stands:
what each allocation got or was refused is in its own status, and in the log.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import structlog

from controller.clock import Clock
from controller.conditions import find, is_true
from controller.eventkind import NOTE_BYTES, shortened
from controller.events import EventType, Recorder
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.conditions import FOREIGN_MANAGER
from reconcilers.metrics import IpamMetrics
from reconcilers.networkpool.budget import Budget
from reconcilers.networkpool.protocol import Refusal
from reconcilers.networkpool.view import Unreadable
from reconcilers.networkpool.writes import Fate, Written

_log = structlog.get_logger(__name__)

ALLOCATE = "Allocate"
FEW = 8
"""So many allocations of one pass get an event each."""
FEW_PER_MINUTE = 32
"""So many allocations of one pool get an event each within a minute."""
ITEM_BYTES = 300
"""The most that one allocation takes of a shared note: its name, and a range or a short reason."""


@dataclass(frozen=True, slots=True)
class _News:
    """What happened to one allocation: a note of its own, and its item in a shared one."""

    allocation: IPAllocation
    note: str
    item: str


class Reporter:
    """Turns what became of the writes into events and log lines."""

    def __init__(self, recorder: Recorder, clock: Clock, metrics: IpamMetrics) -> None:
        self._recorder = recorder
        self._clock = clock
        self._metrics = metrics
        self._budget = Budget(clock, FEW_PER_MINUTE)

    def served(
        self,
        pool: NetworkPool,
        granted: Sequence[Written],
        refusals: Sequence[Refusal],
        refused: Sequence[Written],
    ) -> None:
        """Report one pass.

        Args:
            pool: whose ranges they are.
            granted: the writes of ranges: those handed out, and those refused for good.
            refusals: who gets nothing, and why.
            refused: the writes that say so, in the same order: the allocations that turned
                Failed, and those that cannot even be told.
        """
        self._count(pool.metadata.key, granted, refused)
        self._tell(
            pool,
            "Warning",
            "AllocationFailed",
            "Failed to allocate IPs for",
            [*_unwritable(granted), *_failures(refusals, refused)],
        )
        answers = [w.answer for w in granted if w.fate is Fate.WRITTEN and w.answer is not None]
        total = sum(answer.status.allocatedCount or 0 for answer in answers)
        self._tell(
            pool, "Normal", "IPsAllocated", f"Allocated {total} IPs for", list(_grants(answers))
        )

    def _count(self, pool: Key, granted: Sequence[Written], refused: Sequence[Written]) -> None:
        self._metrics.pool(pool)
        now = self._clock.now()
        for one in granted:
            # One that held its range before, and lost its phase only, waited for nothing.
            if one.fate is Fate.WRITTEN and ranges.held(one.allocation) is None:
                waited = (now - one.allocation.requested_at).total_seconds()
                self._metrics.served(pool, one.allocation.spec.type, waited)
        for one in refused:
            if one.fate is Fate.WRITTEN:
                self._metrics.failed(pool)
        for one in (*granted, *refused):
            if one.fate is Fate.REFUSED:
                self._metrics.write_refused(pool)

    def _tell(
        self, pool: NetworkPool, kind: EventType, reason: str, opening: str, news: Sequence[_News]
    ) -> None:
        """Record an event for each of a few, or one for all of many."""
        if len(news) > FEW or not self._budget.grants(pool.metadata.key, len(news)):
            note = _shared(opening, news)
            self._recorder.record(NETWORK_POOL, pool, kind, reason, note, action=ALLOCATE)
            return
        for one in news:
            self._recorder.record(
                NETWORK_POOL,
                pool,
                kind,
                reason,
                one.note,
                action=ALLOCATE,
                related=(IP_ALLOCATION, one.allocation),
            )

    def intruded(self, before: NetworkPool, after: NetworkPool) -> None:
        """Report that a foreign controller was noticed, or has fallen silent."""
        found = find(after.status.conditions, FOREIGN_MANAGER)
        if found is None or is_true(before.status.conditions, FOREIGN_MANAGER) == (
            found.status == "True"
        ):
            return
        kind: EventType = "Warning" if found.status == "True" else "Normal"
        if kind == "Warning" or find(before.status.conditions, FOREIGN_MANAGER) is not None:
            self._recorder.record(
                NETWORK_POOL, after, kind, found.reason, found.message, action=ALLOCATE
            )
            _log.warning("foreign manager", reason=found.reason, message=found.message)

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


def _grants(answers: Iterable[IPAllocation]) -> Iterator[_News]:
    for answer in answers:
        status, name = answer.status, answer.metadata.name
        _log.info("allocated IPs", allocation=name, cidr=status.cidr)
        span = f"({status.startAddress} - {status.endAddress})"
        note = f"Allocated {status.allocatedCount} IPs {span} for {name}"
        yield _News(answer, note, f"{name} {span}")


def _unwritable(granted: Iterable[Written]) -> Iterator[_News]:
    for one in granted:
        if one.fate is Fate.REFUSED:
            yield _failure(one.allocation, str(one.error))


def _failures(refusals: Iterable[Refusal], refused: Iterable[Written]) -> Iterator[_News]:
    for refusal, one in zip(refusals, refused, strict=True):
        if one.fate is Fate.WRITTEN:
            yield _failure(refusal.allocation, refusal.message)
        elif one.fate is Fate.REFUSED:
            yield _failure(refusal.allocation, str(one.error))


def _failure(allocation: IPAllocation, why: str) -> _News:
    name = allocation.metadata.name
    _log.warning("allocation failed", allocation=name, reason=why)
    item = f"{name} ({shortened(why, ITEM_BYTES - len(name) - len(' ()'))})"
    return _News(allocation, f"Failed to allocate IPs for {name}: {why}", item)


def _shared(opening: str, news: Sequence[_News]) -> str:
    """Return a note that names as many of them as the server accepts, and counts the rest."""
    if len(news) == 1:
        return news[0].note
    opening, items = f"{opening} {len(news)} IPAllocations: ", [one.item for one in news]
    whole = opening + ", ".join(items)
    if len(whole.encode()) <= NOTE_BYTES:
        return whole
    room = NOTE_BYTES - len(f"{opening}... and {len(items)} more".encode())
    sizes = accumulate(len(f"{item}, ".encode()) for item in items)
    named = sum(1 for size in sizes if size <= room)
    return opening + ", ".join([*items[:named], f"... and {len(items) - named} more"])
