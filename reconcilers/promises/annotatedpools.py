"""The parts of a pass that are equal for all kinds of pools whose journal is an annotation.

A journal has the open promises of a pool (journal.py). The definitions of these kinds belong to
other projects, so only the annotation is ours. Figures and conditions are not written together
with the journal, as they are for NetworkPools. A wait for a cache is reported by the log alone,
because these kinds have no condition that reports it.
"""

from typing import TypeVar

from typing_extensions import override

from controller.meta import Object
from controller.outcome import Outcome
from reconcilers.promises.journal import Journal
from reconcilers.promises.passes import (
    JOURNAL_ALONE,
    NOT_STORED,
    Allotment,
    PassWork,
    PoolKind,
    PoolWrite,
    next_after_quiet_period,
)
from reconcilers.promises.reading import Behind
from reconcilers.promises.shares import Limits
from reconcilers.promises.waitlog import WaitLog

PoolT = TypeVar("PoolT", bound=Object)
RequestT = TypeVar("RequestT", bound=Object)
ReadingT = TypeVar("ReadingT")
DetailT = TypeVar("DetailT")


class AnnotatedPools(PoolKind[PoolT, RequestT, ReadingT, DetailT]):
    """Pools of one kind whose journal is an annotation.

    A kind overrides the methods for which it does something else.
    """

    @override
    def is_left_alone(self, pool: PoolT) -> bool:
        """Return False: each pool of the kind gets passes."""
        return False

    @override
    async def confirm(
        self,
        pool: PoolT,
        journal: Journal,
        reading: ReadingT,
        choice: Allotment[RequestT, DetailT],
        limits: Limits,
    ) -> tuple[ReadingT, Allotment[RequestT, DetailT]]:
        """Return the reading and the choice unchanged: no live read is needed."""
        return reading, choice

    @override
    def forget_lists(self) -> None:
        """Forget nothing: no LIST is kept from one pass to the next."""

    @override
    async def block_not_stored(self, pool: PoolT, after: float, *, is_new: bool) -> Outcome:
        """Report in the log that the API server does not store the annotation.

        Raises:
            Behind: always, because the log reports waits.
        """
        raise Behind(after, NOT_STORED)

    @override
    def describe_write(
        self, pool: PoolT, reading: ReadingT, choice: Allotment[RequestT, DetailT]
    ) -> PoolWrite:
        """Return JOURNAL_ALONE: the write has no other fields."""
        return JOURNAL_ALONE

    @override
    def note_written(self, before: PoolT, after: PoolT) -> None:
        """Record nothing: events follow from statuses and requests."""

    @override
    def next_pass(self, work: PassWork[PoolT, RequestT, DetailT]) -> Outcome:
        """Return when the next pass is due for the promises or for `finish`."""
        return next_after_quiet_period(work)

    @override
    def shown_wait(self, pool: PoolT) -> str:
        """Return an empty text: no status of these kinds reports a wait."""
        return ""

    @override
    async def report_wait(self, pool: PoolT, behind: Behind, waits: WaitLog) -> None:
        """Write nothing: `WaitLog` has logged the wait, and no status of these kinds shows one."""
