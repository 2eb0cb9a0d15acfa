"""What follows for a pass from a journal that is an annotation, equally for all kinds of pools.

A journal has the open promises of a pool (journal.py). The definitions of these kinds belong to
other projects, so only the annotation is ours. Figures and conditions are not written together
with the journal, as they are for NetworkPools. A wait for a cache is reported by the log alone,
because these kinds have no condition that reports it.

Each kind has `ANNOTATION_WRITES` as its `PoolKind.journal_writes`.
"""

from typing_extensions import override

from controller.meta import Object
from controller.outcome import Outcome
from reconcilers.promises.passes import NOT_STORED, Allotment, JournalWrites, PoolWrite
from reconcilers.promises.reading import Behind
from reconcilers.promises.waitlog import WaitLog

_JOURNAL_ALONE = PoolWrite()
"""The write of a pool that carries nothing besides the journal."""


class _AnnotationWrites(JournalWrites[Object, Object, object, object]):
    """Journals that are annotations: written alone, and no status reports a wait."""

    @override
    def describe_write(
        self, pool: Object, reading: object, choice: Allotment[Object, object]
    ) -> PoolWrite:
        """Return a write of the journal alone; it is due only if the journal has to be written."""
        return _JOURNAL_ALONE

    @override
    def note_written(self, before: Object, after: Object) -> None:
        """Record nothing: only the journal has changed, and no event is about journals."""

    @override
    async def block_not_stored(self, pool: Object, after: float, *, is_new: bool) -> Outcome:
        """Report in the log that the API server does not store the annotation.

        Raises:
            Behind: always, because the log reports waits.
        """
        raise Behind(after, NOT_STORED)

    @override
    def get_shown_wait(self, pool: Object) -> str:
        """Return an empty text: no status of these kinds reports a wait."""
        return ""

    @override
    async def report_wait(self, pool: Object, behind: Behind, waits: WaitLog) -> None:
        """Write nothing: `WaitLog` has logged the wait, and no status of these kinds shows one."""


ANNOTATION_WRITES = _AnnotationWrites()
"""The journal writes of every kind of pools whose journal is an annotation."""
