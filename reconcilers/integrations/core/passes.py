"""What surrounds each pass over an object with a journal: attempts, writes, the next pass.

A pass that finds its object written or deleted meanwhile forgets what it chose, reads the object
live and begins anew. Nothing that another replica may have promised is overwritten, as the journal
is written with the version that was read.

While an object that may hold addresses of the pool cannot be decoded, nothing is handed out: what
it holds is unknown. The pass is called again when that object changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, NotFound
from controller.meta import Key, Object, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.configuration.settings import PoolSettings
from reconcilers.promises.due import RETRY
from reconcilers.promises.journal import (
    ANNOTATION,
    MOST_RANGES,
    AnnotatedJournal,
    Journal,
    Promise,
)
from reconcilers.promises.keeping import Kept, PoolMemories, Void, void_refused
from reconcilers.promises.reading import Behind
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits, no_tenant, tenant_of_namespace
from reconcilers.promises.unreadable import Unreadable
from reconcilers.promises.waitlog import WaitLog

ATTEMPTS = 5
"""So often a pass begins anew before its key is queued again."""

NOT_STORED = (
    f"the API server does not store annotation {ANNOTATION} as it is written;"
    " find the admission webhook or policy that changes it"
)

log = structlog.get_logger(__name__)

PoolT = TypeVar("PoolT", bound=Object)
RequestT = TypeVar("RequestT", bound=Object)


class PassCaches(Protocol):
    """All caches that a pass reads."""

    @property
    def history_confirmed(self) -> bool:
        """Whether every cache was listed anew since the API server was last out of reach."""


class JournalReconciler(ABC, Generic[PoolT]):
    """Reconciles the objects of one kind that hand out addresses by a journal.

    Args:
        pools: the cache of the objects.
        journals: reads and writes their journals.
        caches: all caches that a pass reads.
        client: for the requests.
        clock: the time.
        settings: intervals, and how much is done at once.
    """

    def __init__(
        self,
        pools: Cache[PoolT],
        journals: AnnotatedJournal,
        caches: PassCaches,
        client: Client,
        clock: Clock,
        settings: PoolSettings,
    ) -> None:
        self.kind = pools.resource
        """The kind of the objects."""
        self._pools = pools
        self._journals = journals
        self._pass_caches = caches
        self._client = client
        self._clock = clock
        self._settings = settings
        self._memories = PoolMemories(
            clock, settings.foreign_patience, settings.resync, MOST_RANGES
        )
        self._unreadable: dict[Key, str] = {}
        """By pool: which objects that cannot be decoded were logged."""
        self._waits = WaitLog(self.kind.kind, clock)
        self._not_stored_until: dict[Key, float] = {}
        """By pool: until when (monotonic seconds) its journal counts as one that is not stored."""

    @abstractmethod
    def _is_left_alone(self, pool: PoolT) -> bool:
        """Return whether an object that exists is to be left as it is, and forgotten."""

    @abstractmethod
    def _forget(self, key: Key) -> None:
        """Drop what is remembered of an object that is gone or left alone."""

    @abstractmethod
    async def _pass(self, pool: PoolT) -> Outcome:
        """Reconcile one pool object and the requests that wait for it.

        Raises:
            Behind: a cache has to catch up first.
            Conflict: the object was written meanwhile.
            NotFound: it was deleted meanwhile.
            Unreadable: what an object that cannot be decoded holds of it is unknown.
        """

    @abstractmethod
    async def _report_unreadable(self, pool: PoolT, why: str) -> None:
        """Report that nothing is handed out, because objects cannot be decoded.

        Args:
            pool: as it was read.
            why: which objects, and what a person has to do.
        """

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one pool object and the requests that wait for it."""
        if key in self._pools.unreadable:
            return Blocked("Unreadable")
        pool = self._pools.get(key)
        for _ in range(ATTEMPTS):
            if not self._pass_caches.history_confirmed:
                return Again(RETRY)
            if pool is None or self._is_left_alone(pool):
                self.forget(key)
                return SETTLED
            try:
                outcome = await self._pass_or_block(pool)
                self._waits.note_pass(key)
                return outcome
            except Behind as behind:
                self._waits.note_wait(key, behind.reason)
                return Again(behind.after)
            except (Conflict, NotFound):
                # It was written or deleted meanwhile: forget the choice, read live, try again.
                pool = await self._client.find(self.kind, key)
        return Again(RETRY)

    async def _pass_or_block(self, pool: PoolT) -> Outcome:
        """Reconcile one pool object, unless objects that cannot be decoded may hold some of it."""
        key = pool.metadata.key
        try:
            outcome = await self._pass(pool)
            self._unreadable.pop(key, None)
            return outcome
        except Unreadable as error:
            unreadable = error
        why = str(unreadable)
        if self._unreadable.get(key) != why:
            self._unreadable[key] = why
            log.error("A pool hands out nothing", kind=self.kind.kind, name=str(key), reason=why)
        await self._report_unreadable(pool, why)
        return Blocked(unreadable.reason, self._settings.resync)

    def forget(self, key: Key) -> None:
        """Forget an object that another replica works on from now on."""
        self._unreadable.pop(key, None)
        self._memories.forget(key)
        self._waits.forget(key)
        self._not_stored_until.pop(key, None)
        self._forget(key)

    @abstractmethod
    async def _write_fence(self, pool: PoolT) -> tuple[PoolT, Journal]:
        """Void whatever was promised before the pool was read, then give it a memory.

        Returns:
            The pool as it was written, and its journal.
        """

    async def _fence(self, pool: PoolT) -> tuple[PoolT, Journal]:
        """Fence a pool, unless its journal was not stored a while ago; see `_write_fence`.

        A fence writes every request that waits, and each of these writes calls for a pass. If the
        journal is not stored, that would never end.

        Raises:
            Behind: the server does not store the journal, as far as is known.
            ControllerError: a write failed.
        """
        until = self._not_stored_until.get(pool.metadata.key, 0.0)
        wait = until - self._clock.monotonic()
        if wait > 0:
            raise Behind(wait, NOT_STORED)
        return await self._write_fence(pool)

    async def _write_journal(self, pool: PoolT, journal: Journal) -> tuple[PoolT, Journal]:
        """Write the journal with the version of `pool` as precondition; return both as stored.

        Raises:
            Behind: the server stored the pool without it, so no other replica would know of it.
            ControllerError: the write failed.
        """
        key, patch = pool.metadata.key, self._journals.patch(pool.metadata, journal)
        written = await self._client.patch(self.kind, Version.from_object(pool), patch)
        stored = written.metadata.annotations.get(ANNOTATION)
        if stored != patch["metadata"]["annotations"][ANNOTATION]:
            resync = self._settings.resync
            self._not_stored_until[key] = self._clock.monotonic() + resync
            raise Behind(resync, NOT_STORED)
        self._not_stored_until.pop(key, None)
        return written, journal

    def _limits(self, pool: PoolT) -> Limits:
        """Return which requests of a pool may be promised something in this pass."""
        # All requests of a pool with a namespace are in it: there are no tenants to tell apart.
        tenant_of = no_tenant if self.kind.namespaced else tenant_of_namespace
        return self._memories.limits_of(pool, tenant_of)

    async def _promise(
        self,
        pool: PoolT,
        stored: Journal,
        journal: Journal,
        added: Sequence[Promise],
        settled: Journal,
    ) -> tuple[PoolT, Journal]:
        """Write the journal if something is promised, or settled promises are to be dropped.

        Those are dropped by a write of their own only once nothing was promised for a quiet while;
        before, the next promise's write drops them.

        Args:
            pool: at the version that the choice was made for.
            stored: its journal.
            journal: to be written.
            added: those of its promises that are new.
            settled: the journal as it was, without what is settled.

        Returns:
            The pool as it was written last, and its journal.
        """
        due, now = self._memories.memory_of(pool).due, self._clock.monotonic()
        if added:
            due.add_own(added, now)
            return await self._write_journal(pool, journal)
        dropped = len(stored.promises) - len(settled.promises)
        if dropped > 0 and now - due.promised_at >= self._settings.quiet_period:
            return await self._write_journal(pool, journal)
        return pool, stored

    def _earlier(
        self, pool: PoolT, journal: Journal, fresh: Iterable[Promise]
    ) -> Iterable[Promise]:
        """Yield the promises of the journal that are due and were not made just now."""
        new = {promise.identity for promise in fresh}
        due = self._memories.memory_of(pool).due.due(journal.promises, self._clock.monotonic())
        return (promise for promise in due if promise.identity not in new)

    async def _void_refused(
        self, pool: PoolT, kept: Sequence[Kept[RequestT]], void: Void[RequestT]
    ) -> list[Kept[RequestT]]:
        """Void the promises whose write was refused for good; return what became of all."""
        return await void_refused(kept, void, self._memories.memory_of(pool), self._clock)

    def _next(
        self,
        pool: PoolT,
        stored: Journal,
        settled: Journal,
        kept: Sequence[Kept[Any]],
        *,
        more: bool,
        later: float | None = None,
    ) -> Outcome:
        """Return when the next pass is due.

        Args:
            pool: as it was written last.
            stored: its journal.
            settled: the journal as it was, without what is settled.
            kept: what became of the promises that this pass wrote.
            more: whether a full batch left others for the next pass.
            later: seconds until another write is due; None for none.
        """
        results = {entry.result for entry in kept}
        if more and WriteResult.WRITTEN in results:
            return Again(0)
        if WriteResult.UNKNOWN in results or more:
            return Again(RETRY)
        memory, now = self._memories.memory_of(pool), self._clock.monotonic()
        waits = [memory.shares.next_in(now), later]
        if stored.promises:
            waits += [self._settings.quiet_period, memory.due.next_in(settled.promises, now)]
        wait = min((seconds for seconds in waits if seconds is not None), default=None)
        return SETTLED if wait is None else Again(wait)
