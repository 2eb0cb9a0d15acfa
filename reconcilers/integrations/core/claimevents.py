"""Events about claims: a few claims get an event each, many at once share one about their pool.

A burst of claims must not cost an event write for each claim. The status of each claim shows its
address, or why it has none.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

from controller.clock import Clock
from controller.eventkind import shorten
from controller.events import EventType, Recorder
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.networkpool.window import MinuteWindow
from reconcilers.reporting.conditions import ConditionFinding

MOST_SINGLE = 8
"""Up to so many claims of one pass get an event each."""
MOST_SINGLE_PER_MINUTE = 32
"""Up to so many claims of one pool get an event each within a minute."""
ACTION = "Allocating"

ClaimT = TypeVar("ClaimT", bound=Object)
Reported = tuple[ClaimT, ConditionFinding]
"""A claim as it was written, and the Ready condition that was written to it."""


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

    def record(
        self, pool_kind: Resource[Object], pool: Object, written: Sequence[Reported[ClaimT]]
    ) -> None:
        """Record events for the claims that one pass over a pool wrote, by reason.

        The claims of one reason get an event each, or one event about the pool if they are many.

        Args:
            pool: that the claims name.
            written: the claims that were written.
        """
        by_reason: dict[str, list[Reported[ClaimT]]] = {}
        for report in written:
            by_reason.setdefault(report[1].reason, []).append(report)  # [1]: the condition
        for reason, reports in by_reason.items():
            # One reason stands for success or for a problem, so the first report tells for all.
            type_: EventType = "Normal" if reports[0][1].status else "Warning"
            # Pools of two kinds may have one key, so the window is named by kind and key.
            window_name = Key(pool_kind.kind, str(pool.metadata.key))
            if self._may_record_each(window_name, len(reports)):
                for claim, finding in reports:
                    self._recorder.record(
                        self._kind, claim, type_, reason, finding.message, action=ACTION
                    )
            else:
                texts = (f"{claim.metadata.key}: {finding.message}" for claim, finding in reports)
                note = shorten(f"{len(reports)} {self._kind.kind}s: " + "; ".join(texts))
                self._recorder.record(pool_kind, pool, type_, reason, note, action=ACTION)

    def _may_record_each(self, pool: Key, count: int) -> bool:
        """Return whether each of `count` claims may get its own event; count them if so.

        Args:
            pool: the kind of the pool, and its key as one text.
            count: the number of claims with one reason.
        """
        if (
            count > MOST_SINGLE
            or sum(self._single.list_recent(pool)) + count > MOST_SINGLE_PER_MINUTE
        ):
            return False
        self._single.add(pool, count)
        return True
