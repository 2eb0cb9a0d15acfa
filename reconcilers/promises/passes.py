"""The pass over one pool, once for all kinds of pools.

A *pass* is one reconcile of a pool: it reads, chooses ranges for the requests that wait, writes
them to the pool as *promises*, and then to the requests. The open promises of a pool are its
*journal*. To write a promise to its request is to *keep* it. To *void* a promise is to give its
request another resourceVersion, so that the promise can no longer be kept. A *fence* voids the
promises to a kind of requests that the journal does not record (fence.py).

If another replica writes or deletes the pool during a pass, the pass discards its choice, reads
the pool live and starts over. No promise of another replica is overwritten, because the journal is
written with the resourceVersion that was read as precondition.

The journal and the other fields that a kind writes to the pool are one write. Some kinds write a
refusal to a request only after a write of the pool in the same pass. Then that write is due even
if nothing is promised.

While an object that may hold addresses of the pool cannot be decoded, nothing is allocated: what
it holds is unknown. The pass is called again when that object changes.

The functions of a kind of pools are one object, `PoolKind`. It has another one, `JournalWrites`,
for what follows from where its journals are. The functions of a kind of requests are a third one,
`RequestKind` (requestkinds.py), because claims are served from pools of several kinds, and a pool
may serve requests of several kinds. Rejected: a base class with template methods. Half of an
algorithm in a subclass cannot be read from top to bottom.
"""

from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ApiError, Conflict, ControllerError, NotFound
from controller.loggers import get_logger
from controller.meta import Key, Object, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from controller.resource import Resource
from reconcilers.configuration.settings import PoolSettings
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.journal import (
    ANNOTATION,
    Journal,
    JournalStore,
    Promise,
)
from reconcilers.promises.keeping import (
    Granted,
    Kept,
    PoolMemories,
    PoolMemory,
)
from reconcilers.promises.reading import Behind
from reconcilers.promises.requestkinds import ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits, Shares, TenantOf
from reconcilers.promises.unreadable import UnreadableHoldings
from reconcilers.promises.waitlog import WaitLog

ATTEMPTS = 5
"""So often a pass is tried before its key is queued again."""

NOT_STORED = (
    f"the API server does not store annotation {ANNOTATION} as it is written;"
    " find the admission webhook or policy that changes it"
)

log = get_logger(__name__)

PoolT = TypeVar("PoolT", bound=Object)
RequestT = TypeVar("RequestT", bound=Object)
ReadingT = TypeVar("ReadingT")
DetailT = TypeVar("DetailT")
PoolT_contra = TypeVar("PoolT_contra", bound=Object, contravariant=True)
ReadingT_contra = TypeVar("ReadingT_contra", contravariant=True)
RequestT_contra = TypeVar("RequestT_contra", bound=Object, contravariant=True)
DetailT_contra = TypeVar("DetailT_contra", contravariant=True)
Request_co = TypeVar("Request_co", bound=Object, covariant=True)
Detail_co = TypeVar("Detail_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Allotment(Generic[Request_co, Detail_co]):
    """The promises that one pass makes, and what else it decided.

    Args:
        settled: the journal of the pool without the promises that are over.
        granted: the new promises; at most a batch.
        more: whether the next pass may serve more: the batch is full, or a tenant has its share.
        detail: what else the kind decided: refusals, for example.
    """

    settled: Journal
    granted: Sequence[Granted[Request_co]]
    more: bool
    detail: Detail_co

    @property
    def promises(self) -> list[Promise]:
        """The new promises."""
        return [promise for promise, _ in self.granted]

    @property
    def journal(self) -> Journal:
        """The journal that has to be stored before a promise may be kept."""
        return self.settled.with_promises(self.promises)


@dataclass(frozen=True, slots=True)
class PoolWrite:
    """What the write of a journal carries besides the journal.

    Args:
        patch: a JSON merge patch of the same subresource; empty for the journal alone.
        is_due: whether to write it although nothing is promised.
    """

    patch: Mapping[str, Any] = field(default_factory=dict)
    is_due: bool = False


NO_FENCED_REQUESTS: Mapping[str, object] = {}
"""The argument `fenced_requests` of `PoolKind.read` in a pass without a fence."""


@dataclass(frozen=True, slots=True)
class PassWork(Generic[PoolT, RequestT, DetailT]):
    """What one pass has done.

    Args:
        pool: the pool as it was written last.
        stored: the pool's journal as it was written last.
        choice: what the pass has allocated.
        promise_writes: the promises that the pass wrote, each with the result of its write.
        memory: what this process remembers of the promises of the pool.
        served_kinds: the full names of the kinds that this process serves from the pool.
        finish_wait: in how many seconds `PoolKind.finish` has to run again; None if it need not.
        now: monotonic seconds.
        quiet_period: seconds after which settled promises are dropped.
    """

    pool: PoolT
    stored: Journal
    choice: Allotment[RequestT, DetailT]
    promise_writes: Sequence[Kept[RequestT]]
    memory: PoolMemory
    served_kinds: Container[str]
    finish_wait: float | None
    now: float
    quiet_period: float

    def list_unwritten(self) -> list[Promise]:
        """Return the open promises that a later pass of this process can write.

        A promise to a paused request calls for no pass: the end of the pause does. Nor does a
        promise to a kind that this process does not serve.
        """
        done = {
            entry.promise.identity
            for entry in self.promise_writes
            if entry.result in {WriteResult.WRITTEN, WriteResult.SETTLED, WriteResult.PAUSED}
        }
        return [
            promise
            for promise in self.choice.journal.promises
            if promise.kind in self.served_kinds and promise.identity not in done
        ]

    def has_promises_to_drop(self) -> bool:
        """Return whether the stored journal may have promises that a later pass has to drop.

        A promise to a paused request stays open during the pause, so it calls for no pass.
        """
        paused = {
            entry.promise.identity
            for entry in self.promise_writes
            if entry.result is WriteResult.PAUSED
        }
        return any(
            promise.kind in self.served_kinds and promise.identity not in paused
            for promise in self.stored.promises
        )


class JournalNotStored(Exception):
    """The API server does not store the journal of a pool as it is written.

    Args:
        pool: as the API server stored it. Other replicas do not know of the promises.
        after: seconds until the journal is written again.
        is_new: whether a write of this pass has shown it. If not, an earlier pass has.
    """

    def __init__(self, pool: Object, after: float, *, is_new: bool) -> None:
        super().__init__(f"{pool.metadata.key}: {NOT_STORED}")
        self.pool = pool
        self.after = after
        self.is_new = is_new


class PoolWriteRefused(ControllerError):
    """The API server rejected a write of the pool itself, and a retry would not help.

    Args:
        error: the API server's answer.
    """

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.request = error.request
        self.error = error


@contextmanager
def raise_if_pool_write_refused() -> Iterator[None]:
    """Raise PoolWriteRefused if the write of a pool in this block is refused for good.

    Any other error of the write is raised as it is.
    """
    try:
        yield
    except ApiError as error:
        if WriteResult.from_error(error) is WriteResult.REFUSED:
            raise PoolWriteRefused(error) from error
        raise


class JournalWrites(Protocol[PoolT_contra, RequestT_contra, ReadingT_contra, DetailT_contra]):
    """What a pool shows besides its journal, and when that is written.

    It depends on where the journal is. A journal in the status of a pool is written together with
    figures and conditions, and the status reports waits. A journal in an annotation is written
    alone (`annotationwrites.py`).
    """

    def describe_write(
        self,
        pool: PoolT_contra,
        reading: ReadingT_contra,
        choice: Allotment[RequestT_contra, DetailT_contra],
    ) -> PoolWrite:
        """Return the fields that are written with the journal.

        The result also tells whether to write them although nothing is promised.
        """
        ...

    def note_written(self, before: PoolT_contra, after: PoolT_contra) -> None:
        """Record what a write of the pool changed, by events for example.

        Args:
            before: the pool as it was read.
            after: the pool as the API server answered the write.
        """
        ...

    async def block_not_stored(self, pool: PoolT_contra, after: float, *, is_new: bool) -> Outcome:
        """Report that nothing is allocated, because the API server does not store the journal.

        Args:
            pool: the pool as it is stored. Its annotation is no journal of ours: it may lack
                promises that are still written.
            after: seconds until the journal is written again.
            is_new: whether a write of this pass has shown it.

        Returns:
            How the pass ends.

        Raises:
            Behind: this is reported as a wait.
        """
        ...

    def get_shown_wait(self, pool: PoolT_contra) -> str:
        """Return the wait that the status of a pool reports; empty if it reports none."""
        ...

    async def report_wait(self, pool: PoolT_contra, behind: Behind, waits: WaitLog) -> None:
        """Report that a pool has waited for a long time.

        Args:
            pool: the pool as it was read. The pass may have written it since.
            behind: what the pool waits for.
            waits: decides whether this replica writes the wait into the pool's status.
        """
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
    def journal_writes(self) -> JournalWrites[PoolT, RequestT, ReadingT, DetailT]:
        """What the pools show besides their journals."""
        ...

    @property
    def is_history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach."""
        ...

    def forget_lists(self) -> None:
        """Forget LISTs that are kept: the server may have another history than they show."""
        ...

    def is_left_alone(self, pool: PoolT) -> bool:
        """Return whether an existing pool gets no pass; the passes then forget it."""
        ...

    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool.

        The pool is gone or left alone, or another replica serves it.
        """
        ...

    async def prepare(self, pool: PoolT) -> tuple[PoolT, Outcome | None]:
        """Do what comes before the choice: finalizer, deletion, and reasons to allocate nothing.

        If the pool is being deleted, the deletion is continued. If it may not allocate, the reason
        is written. Otherwise the finalizer is added if the kind has one.

        Returns:
            The pool as it was written last, and the outcome with which the pass ends now; None if
            the pass goes on.
        """
        ...

    def request_kinds(self, pool: PoolT) -> Sequence[ServedRequests[PoolT, RequestT, ReadingT]]:
        """Return the kinds of requests that a pool serves now.

        Raises:
            Behind: the kinds are not known yet, or requests of one kind cannot be read.
        """
        ...

    def tenants(self, reading: ReadingT) -> TenantOf:
        """Return a function that finds the tenant of a request, as a reading shows it."""
        ...

    async def read(
        self,
        pool: PoolT,
        journal: Journal,
        fenced_requests: Mapping[str, object] = NO_FENCED_REQUESTS,
    ) -> ReadingT:
        """Read all sources at least up to the revisions of the journal.

        A pool may have requests of several kinds. LISTs are sent first. Then the reading is made
        of all sources without an await, so that all its parts are of one moment.

        Args:
            pool: as it was read or written last.
            journal: the journal of the pool.
            fenced_requests: by the full name of a kind, its requests as a fence of this pass left
                them (`Fenced.requests`). They need not be read again. Fences of most kinds return
                none.

        Raises:
            Behind: a cache lags and may still reach the revisions.
            UnreadableHoldings: an object that cannot be decoded may hold addresses of the pool.
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
        """Check a choice before its promises are written.

        1. A kind whose caches may miss holders reads them live, and then chooses again.
        2. A kind that creates its requests itself, such as the IPAMAllocations of KKP, creates
           those that the choice needs. If one cannot be created, it chooses again without it.
        3. Every other kind returns the reading and the choice unchanged.

        Args:
            limits: for the repeated choice, as in `choose`.

        Returns:
            The reading and the choice with which the pass goes on.
        """
        ...

    async def finish(
        self,
        pool: PoolT,
        reading: ReadingT,
        choice: Allotment[RequestT, DetailT],
        kept: Sequence[Kept[RequestT]],
        shares: Shares,
    ) -> float | None:
        """Write refusals and the status of the pool, and clean up left-over objects.

        Returns:
            In how many seconds another pass is due; None if only a change calls for it.
        """
        ...

    def next_pass(self, work: PassWork[PoolT, RequestT, DetailT]) -> Outcome:
        """Return when the next pass is due."""
        ...

    async def report_unreadable(self, pool: PoolT, unreadable: UnreadableHoldings) -> float | None:
        """Report that nothing is allocated, because objects cannot be decoded.

        Args:
            pool: as it was read.
            unreadable: which objects, and what a person has to do.

        Returns:
            In how many seconds another pass is due, if before one resync; else None.
        """
        ...

    async def report_pool_refused(self, pool: PoolT, error: ApiError) -> None:
        """Report that the API server refuses writes of the pool."""
        ...


class PoolPasses(Generic[PoolT, RequestT, ReadingT, DetailT]):
    """Passes over the pools of one kind.

    Args:
        kind: the functions of this kind of pools.
        client: for the requests.
        clock: the time.
        settings: intervals, and how much is done at once.
        memories: the memories of promises, for a kind that writes some promises by itself and so
            shares them with the passes; None to create memories for the passes alone.
    """

    def __init__(
        self,
        kind: PoolKind[PoolT, RequestT, ReadingT, DetailT],
        client: Client,
        clock: Clock,
        settings: PoolSettings,
        memories: PoolMemories | None = None,
    ) -> None:
        self.resource = kind.pools.resource
        """The kind of the pools."""
        self._kind = kind
        self._client = client
        self._clock = clock
        self._settings = settings
        self._memories = memories or make_memories(kind.journals, clock, settings)
        self._unreadable: dict[Key, str] = {}
        """By pool: the last logged message about objects that cannot be decoded."""
        self._waits = WaitLog(self.resource.kind, clock)
        self._not_stored_until: dict[Key, float] = {}
        """By pool: until when (monotonic seconds) its journal counts as one that is not stored."""

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one pool and the requests that wait for it.

        Returns:
            Blocked if the pool, or an object that may hold its addresses, cannot be decoded, or if
            the kind allocates nothing until a person acts. Settled if the pool is gone or left
            alone. Again if a cache has to catch up first, or if the pool changed in each attempt.
            Otherwise what the kind returns.
        """
        pools = self._kind.pools
        # No time for the next pass: a change of the pool calls for it.
        if key in pools.unreadable:
            return Blocked("Unreadable")
        pool = pools.get(key)
        for _ in range(ATTEMPTS):
            if not self._kind.is_history_confirmed:
                # The server could not be reached and may have been restored from a backup: then a
                # promise that the caches show names addresses that others may hold by now.
                self._kind.forget_lists()
                return Again(RETRY)
            if pool is None or self._kind.is_left_alone(pool):
                self.forget(key)
                return SETTLED
            try:
                outcome = await self._pass_or_block(pool)
                self._waits.note_pass(key)
                return outcome
            except Behind as behind:
                shown_reason = self._kind.journal_writes.get_shown_wait(pool)
                # Waits are usual for a moment: only a long one is reported in the status.
                self._waits.note_wait(key, behind.reason, shown_reason)
                if self._waits.has_waited_long(key):
                    await self._kind.journal_writes.report_wait(pool, behind, self._waits)
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
        """Pass over a pool; report errors that only a person can end.

        Those are: the API server rejects writes of the pool, it does not store the journal, or an
        object that may hold addresses cannot be decoded.

        Returns:
            The outcome of the pass, or Blocked with the seconds until the next pass.

        Raises:
            ApiError: the API server rejects writes of the pool. The runner calls again after a
                back-off.
            Behind: a cache has to catch up first.
            Conflict: the pool was written meanwhile.
            NotFound: the pool was deleted meanwhile.
        """
        key = pool.metadata.key
        try:
            outcome = await self._pass(pool)
            self._unreadable.pop(key, None)
            return outcome
        except PoolWriteRefused as refused:
            await self._kind.report_pool_refused(pool, refused.error)
            raise refused.error from None
        except JournalNotStored as not_stored:
            stored, after, is_new = not_stored.pool, not_stored.after, not_stored.is_new
            assert isinstance(stored, self.resource.type), "it is the pool of this pass"
            return await self._kind.journal_writes.block_not_stored(stored, after, is_new=is_new)
        except UnreadableHoldings as error:
            unreadable = error
        # Outside of the handler, so that an error of the report has no other error as its context.
        return await self._block_unreadable(pool, unreadable)

    async def _block_unreadable(self, pool: PoolT, unreadable: UnreadableHoldings) -> Blocked:
        """Log and report that a pool hands out nothing, because holders cannot be decoded."""
        key, message = pool.metadata.key, str(unreadable)
        if self._unreadable.get(key) != message:
            self._unreadable[key] = message
            kind = self.resource.kind
            log.error("A pool hands out nothing", kind=kind, name=str(key), reason=message)
        seconds = await self._kind.report_unreadable(pool, unreadable)
        resync = self._settings.resync
        return Blocked(unreadable.reason, resync if seconds is None else min(seconds, resync))

    async def _pass(self, pool: PoolT) -> Outcome:
        """Pass over one pool; return how the pass ends, with the time of the next pass.

        Raises:
            Behind: a cache has to catch up first.
            Conflict: the pool was written meanwhile.
            JournalNotStored: the server does not store the journal, as far as is known.
            NotFound: it was deleted meanwhile.
            PoolWriteRefused: the server refuses a write of the pool for good.
            UnreadableHoldings: what an object that cannot be decoded holds of it is unknown.
        """
        kind = self._kind
        pool, outcome = await kind.prepare(pool)
        if outcome is not None:
            return outcome

        self._raise_if_not_stored(pool)
        journal = kind.journals.read(pool)
        request_kinds = kind.request_kinds(pool)
        reading = await kind.read(pool, journal)
        limits = self._limits(pool, reading)
        kinds_to_fence = [
            request_kind
            for request_kind in request_kinds
            if request_kind.needs_fence(pool, journal, reading=reading, limits=limits)
        ]
        fenced_requests = dict[str, object]()
        for request_kind in kinds_to_fence:
            pool, journal, requests = await fence_requests(
                request_kind, pool, journal=journal, reading=reading, write=self._write_journal
            )
            if requests is not None:
                fenced_requests[request_kind.request_kind] = requests
        if kinds_to_fence:  # the fences waited for answers, so the reading may be out of date
            reading = await kind.read(pool, journal, fenced_requests)
        # The reading and the fences are of the kinds from before. A new kind may have holders.
        if [*kind.request_kinds(pool)] != [*request_kinds]:
            raise Behind(reason="which kinds of requests are served has changed during the pass")

        limits = self._limits(pool, reading)
        choice = kind.choose(pool, journal, reading, limits)
        reading, choice = await kind.confirm(
            pool, journal, reading=reading, choice=choice, limits=limits
        )

        pool, journal = await self._store_promises(pool, journal, reading=reading, choice=choice)
        memory = self._memories.get_memory(pool)
        # From the settled journal, because a promise that is over need not be written.
        due = memory.due.list_due(choice.journal.promises, self._clock.monotonic())
        work_of_kinds = [
            partial(
                request_kind.keep_promises,
                pool,
                reading,
                due=due,
                granted=choice.granted,
                memory=memory,
                clock=self._clock,
            )
            for request_kind in request_kinds
        ]
        kept_by_kind = await run_concurrently(work_of_kinds, len(work_of_kinds))
        kept = [entry for of_kind in kept_by_kind for entry in of_kind]
        finish_wait = await kind.finish(
            pool, reading, choice=choice, kept=kept, shares=memory.shares
        )
        served_kinds = {request_kind.request_kind for request_kind in request_kinds}
        now = self._clock.monotonic()
        work = PassWork(
            pool,
            journal,
            choice=choice,
            promise_writes=kept,
            memory=memory,
            served_kinds=served_kinds,
            finish_wait=finish_wait,
            now=now,
            quiet_period=self._settings.quiet_period,
        )
        return kind.next_pass(work)

    def _raise_if_not_stored(self, pool: PoolT) -> None:
        """Raise if a write less than a resync ago showed that the journal is not stored.

        Without a stored journal each pass would fence. A fence writes every request that waits,
        and each of these writes calls for a pass, so that would never end. The journal that is
        stored instead may lack promises that are still written, so nothing is chosen by it either.

        Raises:
            JournalNotStored: the server does not store the journal, as far as is known.
        """
        until = self._not_stored_until.get(pool.metadata.key, 0.0)
        wait = until - self._clock.monotonic()
        if wait > 0:
            raise JournalNotStored(pool, wait, is_new=False)

    async def _store_promises(
        self,
        pool: PoolT,
        stored: Journal,
        reading: ReadingT,
        choice: Allotment[RequestT, DetailT],
    ) -> tuple[PoolT, Journal]:
        """Write the pool if something is promised, the kind asks for it, or promises are over.

        Each write drops promises that are over. A write for that alone is sent only once nothing
        was promised for a quiet period.

        Args:
            pool: at the version for which the choice was made.
            stored: its journal as it is stored.
            reading: from which the choice was made.
            choice: what is promised.

        Returns:
            The pool as it was written last, and its journal.
        """
        write = self._kind.journal_writes.describe_write(pool, reading, choice)
        due, now = self._memories.get_memory(pool).due, self._clock.monotonic()
        if choice.granted:
            # Before the write: without its answer the pool may have the promises all the same.
            due.add_own(choice.promises, now)
        dropped_count = len(stored.promises) - len(choice.settled.promises)
        is_quiet = now - due.promised_at >= self._settings.quiet_period
        if choice.granted or write.is_due or (dropped_count > 0 and is_quiet):
            written = await self._write_journal(pool, choice.journal, write.patch)
            return written, choice.journal
        return pool, stored

    async def _write_journal(
        self, pool: PoolT, journal: Journal, beside: Mapping[str, Any] | None = None
    ) -> PoolT:
        """Write the journal with the version of `pool` as precondition; return the pool.

        Args:
            pool: as it was read.
            journal: to write.
            beside: the other fields of the same write, as a JSON merge patch; empty for none. None
                for a fence: it writes the journal alone, and `note_written` is not called, because
                nothing changed that would be recorded.

        Raises:
            JournalNotStored: the server stored the pool without the journal, so no other replica
                would know of its promises.
            PoolWriteRefused: the write was refused for good.
            ControllerError: the write failed.
        """
        key, journals = pool.metadata.key, self._kind.journals
        with raise_if_pool_write_refused():
            written = await patch_journal(
                self._client,
                self.resource,
                journals=journals,
                pool=pool,
                journal=journal,
                beside=beside,
            )
        if beside is not None:
            self._kind.journal_writes.note_written(pool, written)
        if not journals.is_stored(written, journal):
            resync = self._settings.resync
            self._not_stored_until[key] = self._clock.monotonic() + resync
            raise JournalNotStored(written, resync, is_new=True)
        self._not_stored_until.pop(key, None)
        return written

    def _limits(self, pool: PoolT, reading: ReadingT) -> Limits:
        """Return the limits on promises to requests of a pool in this pass."""
        return self._memories.build_limits(pool, self._kind.tenants(reading))


async def patch_journal(
    client: Client,
    resource: Resource[PoolT],
    journals: JournalStore[PoolT],
    pool: PoolT,
    journal: Journal,
    beside: Mapping[str, Any] | None = None,
) -> PoolT:
    """Write the journal of a pool with the version of `pool` as precondition.

    Args:
        pool: as it was read.
        journal: to write.
        beside: the other fields of the same write, as a JSON merge patch; None for none.

    Returns:
        The pool as the API server answered the write. Whether it stored the journal is not
        checked.
    """
    patch = _merge_patches(beside or {}, journals.patch(pool, journal))
    version = Version.from_object(pool)
    return await client.patch(resource, version, patch, subresource=journals.subresource)


async def fence_requests(
    request_kind: ServedRequests[PoolT, RequestT, ReadingT],
    pool: PoolT,
    journal: Journal,
    reading: ReadingT,
    write: Callable[[PoolT, Journal], Awaitable[PoolT]],
) -> tuple[PoolT, Journal, object]:
    """Void all promises to requests of a kind that a pool does not record; give it a memory.

    Args:
        pool: as it was read.
        journal: of the pool. Promises and revisions of other kinds stay.
        reading: of the pool, by a LIST that began after the pool was read if the kind needs one.
        write: writes the journal with the version of the pool as precondition.

    Returns:
        The pool as it was written, its journal, and the requests as the fence left them
        (`Fenced.requests`).
    """
    fenced = await request_kind.void_earlier(pool, reading)
    fenced_journal = journal.apply_fence(request_kind.request_kind, fenced.revisions)
    return await write(pool, fenced_journal), fenced_journal, fenced.requests


def make_memories(
    journals: JournalStore[PoolT], clock: Clock, settings: PoolSettings
) -> PoolMemories:
    """Return an empty memory of the promises of all pools of a kind.

    Args:
        journals: of the kind. An empty journal shows how many promises have room.
    """
    room = journals.count_room(Journal())
    return PoolMemories(clock, settings.foreign_patience, resync=settings.resync, capacity=room)


def next_after_quiet_period(work: PassWork[PoolT, RequestT, DetailT]) -> Outcome:
    """Return when the next pass over a pool is due for its promises or for `PoolKind.finish`.

    If neither needs one, only a change calls for the next pass. A pass is also due after the quiet
    period, which drops promises that are over.
    """
    return _limit_delay(_next_for_promises(work), work.finish_wait)


def _next_for_promises(work: PassWork[PoolT, RequestT, DetailT]) -> Outcome:
    """Return when the next pass is due for the promises of a pool.

    1. At once, if requests are left over, and a promise was written, so the next choice differs.
    2. After RETRY, if requests are left over, or the result of a write is unknown.
    3. When the first of these is due: the end of a deferral, a promise, the end of the quiet
       period.
    4. Settled, if none of these is due.
    """
    results = {entry.result for entry in work.promise_writes}
    has_left_over = work.choice.more
    if has_left_over and WriteResult.WRITTEN in results:
        return Again(0)
    if WriteResult.UNKNOWN in results or has_left_over:
        return Again(RETRY)
    waits = [work.memory.shares.next_in(work.now)]
    if work.has_promises_to_drop():
        waits.append(work.quiet_period)
    waits.append(work.memory.due.next_in(work.list_unwritten(), work.now))
    wait = min((seconds for seconds in waits if seconds is not None), default=None)
    return SETTLED if wait is None else Again(wait)


def _limit_delay(outcome: Outcome, seconds: float | None) -> Outcome:
    """Return the outcome, or another pass in `seconds` if that is sooner; None for no limit."""
    if seconds is None or (isinstance(outcome, Again) and outcome.after <= seconds):
        return outcome
    return Again(seconds)


def _merge_patches(patch: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Return two JSON merge patches as one; if both name a field, `override` decides."""
    shared_names = patch.keys() & override.keys()
    nested = {
        name: _merge_patches(patch[name], override[name])
        for name in shared_names
        if isinstance(patch[name], Mapping) and isinstance(override[name], Mapping)
    }
    return {**patch, **override, **nested}
