"""The pass over one pool, once for all kinds of pools whose journal is an annotation.

A pass that finds its pool written or deleted meanwhile forgets what it chose, reads the pool live
and begins again. Nothing that another replica may have promised is overwritten, because the
journal is written with the version that was read.

While an object that may hold addresses of the pool cannot be decoded, nothing is allocated: what
it holds is unknown. The pass is called again when that object changes.

What a kind of pools adds stands in one object with functions, `PoolKind`, and what a kind of
requests adds in another one, `RequestKind`: claims are served from pools of several kinds, and a
pool may serve requests of several kinds. Rejected: a base class with template methods. Half of an
algorithm in a subclass cannot be read from top to bottom.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ApiError, Conflict, ControllerError, NotFound
from controller.meta import Key, Object, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.promises.due import RETRY
from reconcilers.promises.journal import (
    ANNOTATION,
    Journal,
    JournalStore,
    Promise,
)
from reconcilers.promises.keeping import Granted, Kept, PoolMemories, void_refused
from reconcilers.promises.reading import Behind
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits, Shares, no_tenant, tenant_of_namespace
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
ReadingT = TypeVar("ReadingT")
DetailT = TypeVar("DetailT")
PoolT_contra = TypeVar("PoolT_contra", bound=Object, contravariant=True)
ReadingT_contra = TypeVar("ReadingT_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class Allotment(Generic[RequestT, DetailT]):
    """What one pass allocates.

    Args:
        settled: the journal of the pool without the promises that are over.
        granted: the new promises; at most a batch.
        more: whether a full batch, or a tenant's share of it, left others for the next pass.
        detail: what else the kind decided: refusals, for example.
    """

    settled: Journal
    granted: Sequence[Granted[RequestT]]
    more: bool
    detail: DetailT

    @property
    def promises(self) -> list[Promise]:
        """The new promises."""
        return [promise for promise, _ in self.granted]

    @property
    def journal(self) -> Journal:
        """What the journal has to hold before a request is written."""
        return self.settled.with_promises(self.promises)


class PoolWriteRefused(ControllerError):
    """The API server refused a write of the pool itself in a way that only a person ends.

    Args:
        error: the API server's answer.
    """

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.request = error.request
        self.error = error


@contextmanager
def writing_pool() -> Iterator[None]:
    """Raise PoolWriteRefused if the write of a pool in this block is refused for good."""
    try:
        yield
    except ApiError as error:
        if WriteResult.of_error(error) is WriteResult.REFUSED:
            raise PoolWriteRefused(error) from error
        raise


class RequestKind(Protocol[PoolT_contra, RequestT, ReadingT_contra]):
    """What a kind of requests adds to a pass over a pool that serves it."""

    @property
    def request_resource(self) -> Resource[RequestT]:
        """The kind of the requests, whose full name stands in promises."""
        ...

    def needs_fence(
        self, pool: PoolT_contra, journal: Journal, reading: ReadingT_contra, limits: Limits
    ) -> bool:
        """Return whether earlier promises have to be voided before the pool allocates.

        The journal was never written, is lost, or is of another cluster's history. In the last
        case the answer is always yes, or each pass would LIST to find out.
        """
        ...

    async def void_earlier(self, pool: PoolT_contra) -> Mapping[str, int]:
        """Void every promise to requests of this kind that was made before the pool was read.

        Returns:
            By the full name of a kind, how far readers of the pool have to read from now on: of
            this kind, and of the objects that are created for promises.
        """
        ...

    def find_request(self, reading: ReadingT_contra, promise: Promise) -> RequestT | None:
        """Return the request of a promise; None if it is not at the promised version."""
        ...

    async def keep(
        self, pool: PoolT_contra, reading: ReadingT_contra, granted: Sequence[Granted[RequestT]]
    ) -> list[Kept[RequestT]]:
        """Write promises to their requests, each with the promised version as precondition.

        Args:
            pool: as it was written last.
            reading: of the pool.
            granted: promises to requests of this kind, which may be none.
        """
        ...

    async def void_refused(
        self, pool: PoolT_contra, refused: Sequence[Kept[RequestT]]
    ) -> Sequence[WriteResult]:
        """Void promises whose write was refused for good; return the results, in order."""
        ...


class PoolKind(Protocol[PoolT, RequestT, ReadingT, DetailT]):
    """What a kind of pools adds to a pass, in the order in which the pass calls it."""

    @property
    def pools(self) -> Cache[PoolT]:
        """The cache of the pools."""
        ...

    @property
    def journals(self) -> JournalStore[PoolT]:
        """Reads and writes the journals of the pools."""
        ...

    @property
    def history_confirmed(self) -> bool:
        """Whether every cache was listed anew since the API server was last out of reach."""
        ...

    def is_left_alone(self, pool: PoolT) -> bool:
        """Return whether a pool that exists is left as it is, and forgotten."""
        ...

    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool that is gone, left alone, or another replica's."""
        ...

    async def prepare(self, pool: PoolT) -> tuple[PoolT, Outcome | None]:
        """Add the finalizer; write why a pool allocates nothing, or delete it.

        Returns:
            The pool as it was written last, and how the pass ends if the pool allocates nothing.
        """
        ...

    def request_kinds(self, pool: PoolT) -> Sequence[RequestKind[PoolT, RequestT, ReadingT]]:
        """Return the kinds of requests that a pool serves. A pass asks once per attempt."""
        ...

    async def read(self, pool: PoolT, journal: Journal) -> ReadingT:
        """Read all sources as far as the journal says, or all that there is now.

        Raises:
            Behind: a cache may still get there.
            Unreadable: what an object that cannot be decoded holds is unknown.
        """
        ...

    async def complete(self, pool: PoolT, reading: ReadingT) -> ReadingT | Outcome:
        """Read what others hold, right before the choice.

        Returns:
            The reading of now, or how the pass ends if the pool allocates nothing.
        """
        ...

    def choose(
        self, pool: PoolT, journal: Journal, reading: ReadingT, limits: Limits
    ) -> Allotment[RequestT, DetailT]:
        """Choose ranges for the requests that wait."""
        ...

    async def confirm(
        self,
        pool: PoolT,
        journal: Journal,
        reading: ReadingT,
        choice: Allotment[RequestT, DetailT],
        limits: Limits,
    ) -> tuple[ReadingT, Allotment[RequestT, DetailT]]:
        """Read live what no cache may decide, create missing requests; choose again if need be."""
        ...

    async def finish(
        self,
        pool: PoolT,
        reading: ReadingT,
        choice: Allotment[RequestT, DetailT],
        kept: Sequence[Kept[RequestT]],
        shares: Shares,
    ) -> float | None:
        """Write refusals, left-over objects and the status of the pool.

        Returns:
            In how many seconds another pass is due; None for no such time.
        """
        ...

    async def report_unreadable(self, pool: PoolT, why: str) -> None:
        """Report that nothing is allocated, because objects cannot be decoded.

        Args:
            pool: as it was read.
            why: which objects, and what a person has to do.
        """
        ...

    async def report_pool_refused(self, pool: PoolT, error: ApiError) -> None:
        """Report that the API server refuses writes of the pool."""
        ...


class PoolPasses(Generic[PoolT, RequestT, ReadingT, DetailT]):
    """Passes over the pools of one kind.

    Args:
        kind: what the kind adds.
        client: for the requests.
        clock: the time.
        settings: intervals, and how much is done at once.
    """

    def __init__(
        self,
        kind: PoolKind[PoolT, RequestT, ReadingT, DetailT],
        client: Client,
        clock: Clock,
        settings: PoolSettings,
    ) -> None:
        self.resource = kind.pools.resource
        """The kind of the pools."""
        self._kind = kind
        self._client = client
        self._clock = clock
        self._settings = settings
        self._memories = PoolMemories(
            clock, settings.foreign_patience, settings.resync, kind.journals.room(Journal())
        )
        self._unreadable: dict[Key, str] = {}
        """By pool: which objects that cannot be decoded were logged."""
        self._waits = WaitLog(self.resource.kind, clock)
        self._not_stored_until: dict[Key, float] = {}
        """By pool: until when (monotonic seconds) its journal counts as one that is not stored."""

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one pool and the requests that wait for it."""
        pools = self._kind.pools
        if key in pools.unreadable:
            return Blocked("Unreadable")
        pool = pools.get(key)
        for _ in range(ATTEMPTS):
            if not self._kind.history_confirmed:
                return Again(RETRY)
            if pool is None or self._kind.is_left_alone(pool):
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
                pool = await self._client.find(self.resource, key)
        return Again(RETRY)

    def forget(self, key: Key) -> None:
        """Forget a pool that another replica works on from now on."""
        self._unreadable.pop(key, None)
        self._memories.forget(key)
        self._waits.forget(key)
        self._not_stored_until.pop(key, None)
        self._kind.forget(key)

    async def _pass_or_block(self, pool: PoolT) -> Outcome:
        """Pass over a pool; report objects that cannot be decoded, and refused pool writes."""
        key = pool.metadata.key
        try:
            outcome = await self._pass(pool)
            self._unreadable.pop(key, None)
            return outcome
        except PoolWriteRefused as refused:
            await self._kind.report_pool_refused(pool, refused.error)
            raise refused.error from None
        except Unreadable as error:
            unreadable = error
        why = str(unreadable)
        if self._unreadable.get(key) != why:
            self._unreadable[key] = why
            kind = self.resource.kind
            log.error("A pool hands out nothing", kind=kind, name=str(key), reason=why)
        await self._kind.report_unreadable(pool, why)
        return Blocked(unreadable.reason, self._settings.resync)

    async def _pass(self, pool: PoolT) -> Outcome:
        """Pass over one pool.

        Raises:
            Behind: a cache has to catch up first.
            Conflict: the pool was written meanwhile.
            NotFound: it was deleted meanwhile.
            Unreadable: what an object that cannot be decoded holds of it is unknown.
        """
        kind = self._kind
        pool, outcome = await kind.prepare(pool)
        if outcome is not None:
            return outcome

        limits, journal = self._limits(pool), kind.journals.read(pool)
        request_kinds = kind.request_kinds(pool)
        reading = await kind.read(pool, journal)
        forgotten = [
            request_kind
            for request_kind in request_kinds
            if request_kind.needs_fence(pool, journal, reading, limits)
        ]
        for request_kind in forgotten:
            pool, journal = await self._fence(pool, journal, request_kind)
        if forgotten:
            reading = await kind.read(pool, journal)
        completed = await kind.complete(pool, reading)
        if isinstance(completed, Outcome):
            return completed

        choice = kind.choose(pool, journal, completed, limits)
        reading, choice = await kind.confirm(pool, journal, completed, choice, limits)

        pool, journal = await self._promise(pool, journal, choice)
        memory = self._memories.memory_of(pool)
        promises = self._promises_to_keep(pool, choice)
        kept = list[Kept[RequestT]]()
        for request_kind in request_kinds:
            granted = _granted_of(request_kind, reading, promises, choice)
            written = await request_kind.keep(pool, reading, granted)
            void = partial(request_kind.void_refused, pool)
            kept += await void_refused(written, void, memory, self._clock)
        later = await kind.finish(pool, reading, choice, kept, memory.shares)
        served = {request_kind.request_resource.full_name for request_kind in request_kinds}
        return _sooner(self._next(pool, journal, choice, kept, served), later)

    async def _fence(
        self,
        pool: PoolT,
        journal: Journal,
        request_kind: RequestKind[PoolT, RequestT, ReadingT],
    ) -> tuple[PoolT, Journal]:
        """Void what the pool promised to one kind before it was read; give that kind memory.

        Promises and revisions of other kinds stay.

        A fence writes every request that waits, and each of these writes calls for a pass. If the
        journal is not stored, that would never end: so nothing is voided for a while after that.

        Raises:
            Behind: the server does not store the journal, as far as is known.
            ControllerError: a write failed.
        """
        until = self._not_stored_until.get(pool.metadata.key, 0.0)
        wait = until - self._clock.monotonic()
        if wait > 0:
            raise Behind(wait, NOT_STORED)
        revisions = await request_kind.void_earlier(pool)
        fenced = journal.after_fence(request_kind.request_resource.full_name, revisions)
        return await self._write_journal(pool, fenced)

    async def _promise(
        self, pool: PoolT, stored: Journal, choice: Allotment[RequestT, DetailT]
    ) -> tuple[PoolT, Journal]:
        """Write the journal if something is promised, or settled promises are to be dropped.

        Those are dropped by a write of their own only once nothing was promised for a quiet while;
        before, the next promise's write drops them.

        Args:
            pool: at the version that the choice was made for.
            stored: its journal.
            choice: what is promised.

        Returns:
            The pool as it was written last, and its journal.
        """
        due, now = self._memories.memory_of(pool).due, self._clock.monotonic()
        if choice.granted:
            due.add_own(choice.promises, now)
            return await self._write_journal(pool, choice.journal)
        dropped = len(stored.promises) - len(choice.settled.promises)
        if dropped > 0 and now - due.promised_at >= self._settings.quiet_period:
            return await self._write_journal(pool, choice.journal)
        return pool, stored

    async def _write_journal(self, pool: PoolT, journal: Journal) -> tuple[PoolT, Journal]:
        """Write the journal with the version of `pool` as precondition; return both as stored.

        Raises:
            Behind: the server stored the pool without it, so no other replica would know of it.
            PoolWriteRefused: the write was refused for good.
            ControllerError: the write failed.
        """
        key, journals = pool.metadata.key, self._kind.journals
        patch, version = journals.patch(pool, journal), Version.from_object(pool)
        with writing_pool():
            written = await self._client.patch(
                self.resource, version, patch, subresource=journals.subresource
            )
        if not journals.is_stored(written, journal):
            resync = self._settings.resync
            self._not_stored_until[key] = self._clock.monotonic() + resync
            raise Behind(resync, NOT_STORED)
        self._not_stored_until.pop(key, None)
        return written, journal

    def _limits(self, pool: PoolT) -> Limits:
        """Return which requests of a pool may be promised something in this pass."""
        # All requests of a pool with a namespace are in it: there are no tenants to tell apart.
        tenant_of = no_tenant if self.resource.namespaced else tenant_of_namespace
        return self._memories.limits_of(pool, tenant_of)

    def _promises_to_keep(
        self, pool: PoolT, choice: Allotment[RequestT, DetailT]
    ) -> list[Promise]:
        """Return the promises of earlier passes that are due, then the new ones."""
        new = {promise.identity for promise in choice.promises}
        due = self._memories.memory_of(pool).due
        promises = due.due(choice.journal.promises, self._clock.monotonic())
        earlier = [promise for promise in promises if promise.identity not in new]
        return [*earlier, *choice.promises]

    def _next(
        self,
        pool: PoolT,
        stored: Journal,
        choice: Allotment[RequestT, DetailT],
        kept: Sequence[Kept[RequestT]],
        served: Container[str],
    ) -> Outcome:
        """Return when the next pass is due for the sake of promises.

        A promise to a kind that is not served cannot be written, so it calls for no pass.

        Args:
            pool: as it was written last.
            stored: its journal.
            choice: of this pass.
            kept: what became of the promises that this pass wrote.
            served: the full names of the kinds that this process serves from the pool.
        """
        results = {entry.result for entry in kept}
        if choice.more and WriteResult.WRITTEN in results:
            return Again(0)
        if WriteResult.UNKNOWN in results or choice.more:
            return Again(RETRY)
        memory, now = self._memories.memory_of(pool), self._clock.monotonic()
        waits = [memory.shares.next_in(now)]
        if any(promise.kind in served for promise in stored.promises):
            waits.append(self._settings.quiet_period)
            still_open = [promise for promise in choice.settled.promises if promise.kind in served]
            waits.append(memory.due.next_in(still_open, now))
        wait = min((seconds for seconds in waits if seconds is not None), default=None)
        return SETTLED if wait is None else Again(wait)


def _granted_of(
    request_kind: RequestKind[PoolT, RequestT, ReadingT],
    reading: ReadingT,
    promises: Sequence[Promise],
    choice: Allotment[RequestT, DetailT],
) -> list[Granted[RequestT]]:
    """Return the promises to requests of one kind that may still be kept, with these requests.

    Args:
        request_kind: the kind of the requests.
        reading: of the pool.
        promises: to requests of all kinds.
        choice: of this pass; it has the requests of new promises.
    """
    new = {promise.identity: request for promise, request in choice.granted}
    granted = []
    for promise in promises:
        if promise.kind != request_kind.request_resource.full_name:
            continue
        request = new.get(promise.identity) or request_kind.find_request(reading, promise)
        if request is not None:
            granted.append((promise, request))
    return granted


def _sooner(outcome: Outcome, seconds: float | None) -> Outcome:
    """Return the outcome, with the next pass in so many seconds at the latest."""
    if seconds is None or (isinstance(outcome, Again) and outcome.after <= seconds):
        return outcome
    return Again(seconds)
