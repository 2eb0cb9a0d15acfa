"""One pass over one NetworkPool.

gone?            forget it
being deleted?   hand out nothing; go when no allocation holds or is promised a range
no finalizer?    add it, so that a deletion waits for the pool's allocations
no memory?       raise_fence (pending_promises.py)
otherwise        read, decide, write the pool, write the allocations

A pool in a namespace that `--pool-namespaces` does not name gets the same pass, which hands out
nothing new: its ranges are kept, earlier promises are written, and its figures stay current.
"""

from collections.abc import Sequence
from typing import Any

import structlog

from allocator import InvalidPool, Layout
from controller import (
    SETTLED,
    Again,
    Blocked,
    Cache,
    Client,
    Clock,
    Conflict,
    Key,
    NotFound,
    Outcome,
    add_finalizer,
    has_finalizer,
    remove_finalizer,
)
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.settings import PoolSettings
from reconcilers.networkpool import status
from reconcilers.networkpool.blockreports import BlockReports
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.facts import KIND, tenant_of
from reconcilers.networkpool.offers import layout_offers, network_pool_spaces
from reconcilers.networkpool.pending_promises import (
    AllocationWriter,
    Written,
    new_refusals,
    note_refused,
    raise_fence,
)
from reconcilers.networkpool.problems import (
    ForeignManager,
    ForeignManagers,
    PoolSpecs,
    is_sound,
)
from reconcilers.networkpool.protocol import (
    Decision,
    blockers,
    decide,
)
from reconcilers.networkpool.statusjournal import (
    STATUS_JOURNALS,
    JournalNotStored,
    check_stored,
    has_journal,
    settle_journal,
)
from reconcilers.networkpool.statuswriter import PoolStatusWriter
from reconcilers.networkpool.view import HeldRange, OtherHolders, Reader, View, keep_holdings
from reconcilers.promises.choosing import Refusal
from reconcilers.promises.due import RETRY
from reconcilers.promises.identities import Holder, Tenant
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept, PoolMemories, void_refused
from reconcilers.promises.reading import Behind, ListUnderWay
from reconcilers.promises.refusedwrites import RefusedWrites
from reconcilers.promises.results import WriteResult
from reconcilers.promises.unreadable import Unreadable
from reconcilers.promises.waitlog import WaitLog
from reconcilers.reporting.conditions import FOREIGN_MANAGER, Finding
from reconcilers.spaces.index import SpaceIndex

_log = structlog.get_logger(__name__)

ATTEMPTS = 5
OUTDATED = "DefinitionOutdated"


class NetworkPoolReconciler:
    """Hands out the ranges of pools, and writes the pools' statuses.

    Args:
        client: the management cluster.
        pools: all pools.
        allocations: all allocations, indexed by pool.
        events: takes what is to be recorded.
        clock: the time.
        settings: intervals and thresholds.
        others: what others than allocations hold.
        spaces: what pools of all kinds hand out; by default, what NetworkPools do.
    """

    def __init__(  # noqa: PLR0913 - what a pass reads and writes
        self,
        client: Client,
        pools: Cache[NetworkPool],
        allocations: Cache[IPAllocation],
        events: PoolEvents,
        clock: Clock,
        settings: PoolSettings,
        *,
        others: OtherHolders | None = None,
        spaces: SpaceIndex | None = None,
    ) -> None:
        self._client = client
        self._others = others or OtherHolders()
        self._pools = pools
        self._events = events
        self._clock = clock
        self._settings = settings
        kept = keep_holdings(
            allocations,
            client.field_manager,
            clock,
            settings.contents_check,
            events.allocations.contents_differ,
        )
        self._reader = Reader(allocations, client, clock, settings.cache_patience, kept)
        self._specs = PoolSpecs(pools, settings.max_addresses)
        self._spaces = spaces or network_pool_spaces(pools, settings.max_addresses)
        self._writer = AllocationWriter(client, settings.width)
        self._statuses = PoolStatusWriter(client, events)
        self._reports = BlockReports(self._statuses, self._writer, clock, settings)
        self._refused = RefusedWrites(clock, settings.resync)
        self._memories = PoolMemories(
            clock, settings.foreign_patience, settings.resync, STATUS_JOURNALS.room(Journal())
        )
        self._not_before: dict[Key, float] = {}
        self._waits = WaitLog(NETWORK_POOL.kind, clock)
        self._foreign = ForeignManagers(client.field_manager, settings.foreign_silence)

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one pool and the allocations that wait for it."""
        if key in self._pools.unreadable:
            return Blocked("Unreadable")
        pool = self._pools.get(key)
        for _ in range(ATTEMPTS):
            if not (self._pools.history_confirmed and self._reader.history_confirmed):
                # The server could not be reached and may have been restored from a backup: then a
                # promise that the caches show names addresses that others may hold by now.
                self._reader.forget_lists()
                return Again(RETRY)
            if pool is None:
                self.forget(key)
                return SETTLED
            try:
                outcome = await self._pass(pool)
                self._waits.note_pass(key)
                return outcome
            except Behind as behind:
                shown = status.shown_unknown(pool)
                is_long = self._waits.note_wait(key, behind.reason, shown)
                # All pools wait for the LIST of another pool: that is in the log alone.
                if is_long and not isinstance(behind, ListUnderWay):
                    await self._report_unknown(pool, behind)
                return Again(behind.after)
            except (Conflict, NotFound):
                # It was written or deleted meanwhile: forget the choice, read live, try again.
                pool = await self._client.find(NETWORK_POOL, key)
        return Again(RETRY)

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone, or that another replica works on from now on."""
        self._memories.forget(key)
        self._reader.forget(key)
        self._foreign.forget(key)
        self._others.forget(key)
        self._not_before.pop(key, None)
        self._waits.forget(key)
        self._events.forget(key)

    async def _pass(self, pool: NetworkPool) -> Outcome:
        """Reconcile a pool; write a condition if objects are unreadable or fields are pruned."""
        try:
            if pool.metadata.terminating:
                return await self._reconcile_deleted(pool)
            return await self._reconcile(pool)
        except Unreadable as unreadable:
            return await self._block_unreadable(pool, unreadable)
        except JournalNotStored as not_stored:
            return await self._block_not_stored(not_stored.pool)

    async def _reconcile(self, pool: NetworkPool) -> Outcome:
        """Serve a pool that is not being deleted, unless its spec or status forbids it."""
        pool = await self._with_finalizer(pool)
        closed = status.closed_by_namespace(pool, self._settings.namespaces)
        try:
            geometry = self._specs.layouts(pool)
        except InvalidPool as invalid:
            return await self._block_invalid(pool, invalid.messages, closed)
        last = self._reader.cached(pool.metadata.key).holdings.last_foreign_write
        other = self._foreign.of_pool(pool, last, self._clock.now())
        if other is not None:
            return await self._block_foreign(pool, other)
        wait = self._not_before.get(pool.metadata.key, 0.0) - self._clock.monotonic()
        if wait > 0:
            return await self._block(pool, OUTDATED, wait)
        pool, journal, view = await self._with_memory(pool)
        return await self._serve(pool, journal, view, geometry, closed)

    async def _block(self, pool: NetworkPool, reason: str, after: float | None = None) -> Outcome:
        """Report on the allocations that wait for a pool why it hands out nothing.

        Args:
            pool: as it was written last; its conditions report why.
            reason: the same in one word, for logs.
            after: seconds until the next look at the pool; None if only a change calls for it.
        """
        more = await self._reports.report(pool, self._reader.cached(pool.metadata.key))
        if more is not None and (after is None or more < after):
            return Blocked(reason, more)
        return Blocked(reason, after)

    async def _block_foreign(self, pool: NetworkPool, other: ForeignManager) -> Outcome:
        """Hand out nothing until the other controller has stopped writing; say so on the pool."""
        now = self._clock.now()
        written = await self._statuses.write(pool, status.foreign_managed(pool, other, now))
        after = other.stopped_in(now, self._settings.foreign_silence)
        return await self._block(written, FOREIGN_MANAGER, after)

    async def _with_finalizer(self, pool: NetworkPool) -> NetworkPool:
        return await add_finalizer(self._client, NETWORK_POOL, pool, names.FINALIZER_POOL)

    async def _with_memory(self, pool: NetworkPool) -> tuple[NetworkPool, Journal, View]:
        """Return the pool and its journal with a memory, and a view that has read that far."""
        journal = STATUS_JOURNALS.read(pool)
        revision = journal.revisions.get(KIND)
        if revision is None:
            listed = await self._reader.shared(pool)
        else:
            view = await self._reader.at_least(pool, revision)
            if view.position >= revision:
                return pool, journal, view
            # A LIST has not got there: the number is of another cluster, or of a lost history.
            listed = view
        fenced, journal, view = await self._raise_fence(pool, journal, listed)
        check_stored(fenced, journal)
        return fenced, journal, view

    async def _raise_fence(
        self, pool: NetworkPool, journal: Journal, listed: View
    ) -> tuple[NetworkPool, Journal, View]:
        now = self._clock.now()
        return await raise_fence(self._client, self._writer, pool, journal, listed, now)

    async def _serve(
        self,
        pool: NetworkPool,
        journal: Journal,
        view: View,
        geometry: Sequence[Layout],
        closed: Finding | None = None,
    ) -> Outcome:
        """Write promises to the pool, then ranges and refusals to allocations, then events.

        Args:
            pool: the pool.
            journal: its journal, with a memory of allocations.
            view: its allocations.
            geometry: what it may hand out of each family.
            closed: condition Ready if it hands out nothing new; None if it does.
        """
        held = self._others.held(pool)
        batch = 0 if closed is not None else self._settings.batch

        def tenant_of_holder(holder: Holder) -> Tenant | None:
            allocation = view.find(holder)
            return None if allocation is None else tenant_of(allocation)

        limits = self._memories.limits_of(pool, tenant_of_holder)
        decision = decide(pool, view, geometry, batch, held, limits=limits, journal=journal)
        refusals = self._due_refusals(decision)
        pool, journal = await self._write_pool(pool, view, decision, closed, refusals=refusals)
        written, kept = await self._write_promised(pool, journal, view, decision)
        refused = await self._writer.refuse(refusals, self._clock.now())
        note_refused(self._refused, refused)
        self._events.allocations.served(pool, written, refusals, refused)
        more = await self._reports.report(pool, view, journal.promises)
        results = [*(entry.result for entry in kept), *(write.result for write in refused)]
        is_unknown = WriteResult.UNKNOWN in results
        return self._next(pool, decision, kept, is_unknown=is_unknown, report=more)

    def _due_refusals(self, decision: Decision) -> list[Refusal[IPAllocation]]:
        """Return the refusals to write: not those whose write was refused within a resync."""
        return [
            refusal
            for refusal in new_refusals(decision.choice.refusals)
            if self._refused.wait_of(refusal.asker.metadata) is None
        ]

    async def _write_pool(
        self,
        pool: NetworkPool,
        view: View,
        decision: Decision,
        closed: Finding | None,
        *,
        refusals: Sequence[Refusal[IPAllocation]],
    ) -> tuple[NetworkPool, Journal]:
        """Write the pool's status if there are promises to make, refusals to back, or changes.

        A refusal is written only after a write of the pool succeeded in the same pass, so that a
        replica with an old view of the pool cannot refuse what another one granted. An unchanged
        status makes no new version, but its precondition is checked all the same.

        Args:
            pool: the pool.
            view: its allocations.
            decision: about them.
            closed: condition Ready if it hands out nothing new; None if it does.
            refusals: that will be written to allocations.

        Returns:
            The pool as it was written last, and its journal.
        """
        overlapping = self._spaces.finding(layout_offers(pool, decision.layouts))
        others = self._holders_to_name(pool, decision)
        now = self._clock.now()
        wanted = status.served(pool, view, decision, now, overlapping, closed, others=others)
        if decision.choice.grants:
            self._memories.memory_of(pool).due.add_own(decision.promises, self._clock.monotonic())
        has_answers = bool(decision.choice.grants or refusals)
        is_due = has_answers or self._should_drop_settled(pool, decision)
        written = await self._statuses.write(pool, wanted, is_due=is_due)
        if written is pool:
            return pool, decision.stored
        check_stored(written, decision.journal)
        return written, decision.journal

    def _holders_to_name(self, pool: NetworkPool, decision: Decision) -> Sequence[HeldRange]:
        """Return what others than allocations hold, if the status of the pool may have to name it.

        To list it costs as much as there are holders, so it is not listed if all is well.
        """
        return () if is_sound(decision) else self._others.named(pool)

    def _should_drop_settled(self, pool: NetworkPool, decision: Decision) -> bool:
        """Return whether settled promises are to be dropped by a write of their own.

        They are once nothing was promised for a quiet while; before, the next write drops them.
        """
        dropped = len(decision.stored.promises) - len(decision.settled.promises)
        quiet = self._clock.monotonic() - self._memories.memory_of(pool).due.promised_at
        return dropped > 0 and quiet >= self._settings.quiet_period

    async def _write_promised(
        self, pool: NetworkPool, journal: Journal, view: View, decision: Decision
    ) -> tuple[list[Written], list[Kept[IPAllocation]]]:
        """Write the new promises to their allocations, and those earlier ones that are due."""
        askers = (grant.asker for grant in decision.choice.grants)
        fresh = zip(decision.promises, askers, strict=True)
        new = {promise.identity for promise in decision.promises}
        earlier = [promise for promise in decision.settled.promises if promise.identity not in new]
        due = self._due_promises(pool, journal, view, earlier)
        return await self._keep(pool, [*due, *fresh])

    async def _keep(
        self, pool: NetworkPool, granted: Sequence[Granted[IPAllocation]]
    ) -> tuple[list[Written], list[Kept[IPAllocation]]]:
        """Write promises to their allocations; void those whose write is refused for good.

        Returns:
            The writes, and what became of the promises.
        """
        written = await self._writer.grant(pool, granted, self._clock.now())
        kept = [
            Kept(promise, allocation, write.result, str(write.error or ""))
            for (promise, allocation), write in zip(granted, written, strict=True)
        ]
        memory = self._memories.memory_of(pool)
        return written, await void_refused(kept, self._void, memory, self._clock)

    async def _void(self, refused: Sequence[Kept[IPAllocation]]) -> list[WriteResult]:
        """Void promises whose write was refused for good; return the results, in order."""
        written = await self._writer.void_refused(refused, self._clock.now())
        return [write.result for write in written]

    def _due_promises(
        self, pool: NetworkPool, journal: Journal, view: View, still_open: Sequence[Promise]
    ) -> list[Granted[IPAllocation]]:
        """Return the open promises that are due, with their allocations.

        Args:
            pool: the pool.
            journal: as the pool has it.
            view: its allocations.
            still_open: the promises of the journal that are not over.
        """
        identities = {promise.identity for promise in still_open}
        due = self._memories.memory_of(pool).due.due(journal.promises, self._clock.monotonic())
        return [
            (promise, allocation)
            for promise in due
            if promise.identity in identities
            and (allocation := view.at_version(promise)) is not None
        ]

    def _next(
        self,
        pool: NetworkPool,
        decision: Decision,
        kept: Sequence[Kept[IPAllocation]],
        *,
        is_unknown: bool,
        report: float | None,
    ) -> Outcome:
        """Return when the next pass is due.

        Args:
            pool: as it was written last.
            decision: of this pass.
            kept: what became of the promises that it wrote.
            is_unknown: whether it is not known of some write if it took effect.
            report: seconds until further allocations are told why the pool hands out nothing.
        """
        done = {
            entry.promise.identity
            for entry in kept
            if entry.result in {WriteResult.WRITTEN, WriteResult.SETTLED}
        }
        if decision.choice.more and done:
            return Again(0)
        if is_unknown:
            return Again(RETRY)
        # A promise to a request of another kind is not written here, so it calls for no pass.
        unwritten = [
            promise
            for promise in decision.journal.promises
            if promise.kind == KIND and promise.identity not in done
        ]
        settings, memory, now = (
            self._settings,
            self._memories.memory_of(pool),
            self._clock.monotonic(),
        )
        rest = settings.requeue_after_work if decision.choice.grants else settings.resync
        promise = memory.due.next_in(unwritten, now)
        deferral = memory.shares.next_in(now)
        event = self._events.capacity.record_due(pool)
        waits = (rest, promise, deferral, event, report)
        return Again(min(wait for wait in waits if wait is not None))

    async def _report_unknown(self, pool: NetworkPool, behind: Behind) -> None:
        """Report on the pool that it waits for what is held, which is unknown.

        Another replica may know what is held, or wait for something else; see WaitLog.
        """
        key, message = pool.metadata.key, status.unknown_holders(pool, behind.reason).message
        shown = status.shown_unknown(pool)
        should_report = self._waits.should_report(key, shown, message)
        if not (should_report or shown == message):
            return
        try:
            if should_report:
                wanted = status.holders_unknown(pool, behind.reason, self._clock.now())
                pool = await self._statuses.write(pool, wanted)
                self._waits.note_reported(key, message)
            # Another replica that knows what is held may be about to keep these promises.
            promises = STATUS_JOURNALS.read(pool).promises
            await self._reports.report(pool, self._reader.cached(key), promises)
        except (Conflict, NotFound) as error:
            _log.info("A pool changed before its status was written", error=str(error))

    async def _block_invalid(
        self, pool: NetworkPool, problems: tuple[str, ...], closed: Finding | None
    ) -> Outcome:
        wanted = status.invalid(pool, problems, self._clock.now(), closed)
        return await self._block(await self._statuses.write(pool, wanted), "ValidationFailed")

    async def _block_unreadable(self, pool: NetworkPool, unreadable: Unreadable) -> Outcome:
        """Hand out nothing while what some objects hold is unknown; say so on the pool."""
        wanted = status.unreadable(pool, unreadable, self._clock.now())
        written = await self._statuses.write(pool, wanted)
        if written is not pool:
            self._events.allocations.unreadable(written, unreadable)
        return await self._block(written, unreadable.reason, self._settings.resync)

    async def _block_not_stored(self, pool: NetworkPool) -> Outcome:
        """Hand out nothing while the API server does not store the journal; say so on the pool.

        A fence writes every waiting allocation, and each of these writes brings the next pass: so
        the next attempt is not before some time has passed, whatever happens meanwhile.
        """
        self._not_before[pool.metadata.key] = self._clock.monotonic() + self._settings.resync
        wanted = status.definition_outdated(pool, self._clock.now())
        written = await self._statuses.write(pool, wanted, is_due=has_journal(pool))
        if written is not pool:
            self._events.allocations.definition_outdated(written)
        return await self._block(written, OUTDATED, self._settings.resync)

    async def _reconcile_deleted(self, pool: NetworkPool) -> Outcome:
        """Keep earlier promises; take the finalizer off when nothing holds or is promised a range.

        A late write of a promise cannot come after that: the promise is settled, or it blocks.
        """
        if not has_finalizer(pool, names.FINALIZER_POOL):
            return SETTLED
        journal = STATUS_JOURNALS.read(pool)
        count, view = await self._blockers(pool, journal)
        if count == 0 and not _has_memory(journal, view):
            # What it promised before it lost its memory may still be written.
            pool, journal, _ = await self._raise_fence(pool, journal, view)
            count, view = await self._blockers(pool, journal)
        if count == 0:
            await remove_finalizer(self._client, NETWORK_POOL, pool, names.FINALIZER_POOL)
            return SETTLED
        pool = await self._statuses.write(
            pool, self._status_of_deleted(pool, journal, view, count)
        )
        self._events.capacity.record_due(pool)
        still_open = settle_journal(journal, view).promises
        due = self._due_promises(pool, journal, view, still_open)
        await self._keep(pool, due)
        return Blocked("Deleting", self._settings.requeue_deleting)

    def _status_of_deleted(
        self, pool: NetworkPool, journal: Journal, view: View, count: int
    ) -> dict[str, Any]:
        """Return the status of a pool whose deletion waits: figures stay current as far as known.

        It has no journal: only a pass that hands out ranges drops promises. So the figures count
        what objects of other kinds show, not what a journal of those kinds promises: how many of
        these promises are over depends on what a replica has read, and two replicas would write
        against each other.

        Args:
            pool: the pool.
            journal: its journal.
            view: its allocations.
            count: how many objects the deletion waits for.
        """
        now = self._clock.now()
        others = self._others.named(pool)
        waiting = status.waiting_for_holders(count, others)
        is_foreign = self._foreign.of_pool(pool, view.holdings.last_foreign_write, now) is not None
        if is_foreign or view.position < journal.revisions.get(KIND, 0):
            return status.without_figures(pool, waiting, now)
        try:
            geometry = self._specs.layouts(pool)
            self._others.held(pool)  # raises if what they hold is not known
        except InvalidPool as invalid:
            return status.invalid(pool, invalid.messages, now, waiting)
        except (Behind, Unreadable):
            return status.without_figures(pool, waiting, now)
        held = [holding.range for holding in others]
        decision = decide(pool, view, geometry, 0, held, journal=journal)
        overlapping = self._spaces.finding(layout_offers(pool, decision.layouts))
        return status.current_figures(
            pool, view, decision, now, overlapping, waiting, others=others
        )

    async def _blockers(self, pool: NetworkPool, journal: Journal) -> tuple[int, View]:
        """Return how many allocations block the pool's deletion, and the view that shows it.

        The cache may show that there are some; only a live LIST may show that there are none.
        """
        cached = self._reader.cached(pool.metadata.key)
        count = blockers(journal, cached) + self._others.seen_blockers(pool)
        if count:
            return count, cached
        listed = await self._reader.shared(pool)
        return blockers(journal, listed) + await self._others.blockers(pool), listed


def _has_memory(journal: Journal, listed: View) -> bool:
    """Return whether a journal records all promises to allocations, in the history of now."""
    revision = journal.revisions.get(KIND)
    return revision is not None and listed.position >= revision
