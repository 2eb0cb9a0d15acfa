"""Events about claims: a few claims get an event each, many at once share one about their pool.

A burst of claims must not cost an event write for each claim. The status of each claim shows its
address, or why it has none.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from controller.clock import Clock
from controller.eventkind import shorten
from controller.events import EventType, Recorder
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.networkpool.window import MinuteWindow
from reconcilers.reporting.conditions import ConditionFinding

MOST_SINGLE = 8
"""The most claims with one reason that get an event each in one pass; more share one event."""
MOST_SINGLE_PER_MINUTE = 32
"""The most claims of one pool that get an event each within a minute; more share one event."""
ACTION = "Allocating"

ClaimT = TypeVar("ClaimT", bound=Object)


class ClaimReport(NamedTuple, Generic[ClaimT]):
    """A claim as a pass wrote it, and the condition Ready that its event reports."""

    claim: ClaimT
    finding: ConditionFinding


class ClaimEvents(Generic[ClaimT]):
    """Records what passes over pools wrote to claims of one kind.

    Args:
        recorder: takes the events.
        clock: the time.
    """

    def __init__(self, recorder: Recorder, clock: Clock, claim_kind: Resource[ClaimT]) -> None:
        self._recorder = recorder
        self._kind = claim_kind
        self._single = MinuteWindow[int](clock)
        """By kind and key of a pool: how many claims got an event each within the last minute."""

    def record(
        self, pool_kind: Resource[Object], pool: Object, reports: Sequence[ClaimReport[ClaimT]]
    ) -> None:
        """Record events for the claims that one pass over a pool wrote.

        Claims with the same reason get an event each, or share one event about the pool if they
        are too many.

        Args:
            pool: the pool that the claims name.
            reports: the written claims, with the conditions to report.
        """
        by_reason: dict[str, list[ClaimReport[ClaimT]]] = {}
        for report in reports:
            by_reason.setdefault(report.finding.reason, []).append(report)
        for reason, same_reports in by_reason.items():
            # A reason stands for success or for a problem, so all of these have the same status.
            is_success = same_reports[0].finding.status
            event_type: EventType = "Normal" if is_success else "Warning"
            if self._take_single_events(pool_kind, pool, len(same_reports)):
                for claim, finding in same_reports:
                    self._recorder.record(
                        self._kind, claim, event_type, reason, finding.message, action=ACTION
                    )
            else:
                texts = (
                    f"{claim.metadata.key}: {finding.message}" for claim, finding in same_reports
                )
                note = shorten(f"{len(same_reports)} {self._kind.kind}s: " + "; ".join(texts))
                self._recorder.record(pool_kind, pool, event_type, reason, note, action=ACTION)

    def _take_single_events(self, pool_kind: Resource[Object], pool: Object, count: int) -> bool:
        """Return whether `count` claims of a pool may get an event each; if so, count the events.

        Args:
            count: the number of claims with one reason.
        """
        # Pools of two kinds may have one key, so the window is named by kind and key.
        window_name = Key(pool_kind.kind, str(pool.metadata.key))
        recent_count = sum(self._single.list_recent(window_name))
        if count > MOST_SINGLE or recent_count + count > MOST_SINGLE_PER_MINUTE:
            return False
        self._single.add(window_name, count)
        return True
