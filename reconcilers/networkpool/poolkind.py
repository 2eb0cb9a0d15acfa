"""NetworkPools, as passes over pools of all kinds see them.

being deleted?   hand out nothing; remove the finalizer once no request holds or may get a range
no finalizer?    add it, so that a deletion waits for the pool's allocations
invalid spec, another controller, journal not stored?   hand out nothing; report why
otherwise        read, fence, choose, write the pool, write the allocations (promises/passes.py)

To *block* a pool is to hand out nothing and to report why on the requests that wait. A *blocker*
is an object for which the deletion of a pool waits. A *journal* has the open promises of a pool;
it is a *memory* if it records all promises. A *fence* voids promises that it may not record.

A pool in a namespace that `--pool-namespaces` does not name gets the same pass, which hands out
nothing new: its ranges are kept, earlier promises are written, and its figures stay current.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from allocator import InvalidPool
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ApiError, Conflict, NotFound
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.loggers import get_logger
from controller.meta import Key, Object
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.settings import PoolSettings
from reconcilers.networkpool import status
from reconcilers.networkpool.allocationkind import (
    AllocationKind,
    has_memory,
    list_allocation_writes,
    make_tenant_finder,
)
from reconcilers.networkpool.blockreports import find_block
from reconcilers.networkpool.claims import ClaimService
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.offers import index_network_pools, make_layout_offers
from reconcilers.networkpool.otherholders import ObservedRanges
from reconcilers.networkpool.problems import (
    ForeignManager,
    ForeignManagers,
    PoolSpecs,
    is_sound,
    list_claimed,
)
from reconcilers.networkpool.protocol import PassDecision, ServeAskers, count_blockers, decide
from reconcilers.networkpool.reading import PoolReader, keep_holdings
from reconcilers.networkpool.statusjournal import (
    STATUS_JOURNALS,
    raise_if_unknown_kinds,
)
from reconcilers.networkpool.statuswriter import PoolStatusWriter
from reconcilers.networkpool.view import AllocationsView, NetworkPoolReading
from reconcilers.promises.choosing import AskerRefusal, ServedAskers, select_refusals
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.journal import Journal
from reconcilers.promises.keeping import Kept, PoolMemories
from reconcilers.promises.passes import (
    NO_FENCED_REQUESTS,
    Allotment,
    JournalWrites,
    PassWork,
    PoolKind,
    PoolPasses,
    PoolWrite,
    fence_requests,
    make_memories,
    patch_journal,
)
from reconcilers.promises.reading import Behind, ListUnderWay
from reconcilers.promises.requestkinds import ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.shares import Limits, Shares, TenantOf
from reconcilers.promises.unreadable import UnreadableHoldings
from reconcilers.promises.waitlog import WaitLog
from reconcilers.reporting.conditions import FOREIGN_MANAGER
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules.poolnamespaces import describe_refused_namespace

_log = get_logger(__name__)

OUTDATED = "DefinitionOutdated"


@dataclass(frozen=True, slots=True)
class PoolDecision:
    """What a pass over a NetworkPool decides.

    Args:
        decision: who gets what, and how full the pool is then.
        refusals: to write to allocations, once a write of the pool backs them.
        claim_refusals: which claims cannot be served.
        due_claim_refusals: the claim refusals to write, once a write of the pool backs them.
    """

    decision: PassDecision
    refusals: Sequence[AskerRefusal[IPAllocation]]
    claim_refusals: Sequence[AskerRefusal[Object]] = ()
    due_claim_refusals: Sequence[AskerRefusal[Object]] = ()


NetworkPoolChoice = Allotment[Object, PoolDecision]
NetworkPoolPasses = PoolPasses[NetworkPool, Object, NetworkPoolReading, PoolDecision]


class NetworkPoolKind(
    PoolKind[NetworkPool, Object, NetworkPoolReading, PoolDecision],
    JournalWrites[NetworkPool, Object, NetworkPoolReading, PoolDecision],
):
    """NetworkPools, which serve IPAllocations, and claims while these are served.

    The journal is a part of the status, so the same object writes both.

    Args:
        client: for the requests.
        pools: all pools.
        allocations: IPAllocations.
        claims: answers whether claims are served.
        statuses: writes the pools' statuses.
        events: takes what is to be recorded.
        clock: the time.
        settings: intervals and thresholds.
        memories: what is remembered of promises; the passes have the same.
        observed: what another allocator gave.
        spaces: what pools of all kinds hand out.
    """

    journals = STATUS_JOURNALS

    def __init__(  # noqa: PLR0913 - what a pass reads and writes
        self,
        client: Client,
        pools: Cache[NetworkPool],
        *,
        allocations: AllocationKind,
        claims: ClaimService,
        statuses: PoolStatusWriter,
        events: PoolEvents,
        clock: Clock,
        settings: PoolSettings,
        memories: PoolMemories,
        observed: ObservedRanges,
        spaces: SpaceIndex,
    ) -> None:
        self._client = client
        self._pools = pools
        self._allocations = allocations
        self._claims = claims
        self._statuses = statuses
        self._events = events
        self._clock = clock
        self._settings = settings
        self._memories = memories
        self._observed = observed
        self._spaces = spaces
        self._specs = PoolSpecs(pools, settings.max_addresses)
        self._foreign = ForeignManagers(client.field_manager, settings.foreign_silence)

    @property
    @override
    def pools(self) -> Cache[NetworkPool]:
        return self._pools

    @property
    @override
    def journal_writes(
        self,
    ) -> JournalWrites[NetworkPool, Object, NetworkPoolReading, PoolDecision]:
        return self

    @property
    @override
    def is_history_confirmed(self) -> bool:
        """Whether the caches were relisted since the API server was last out of reach."""
        return self._pools.is_history_confirmed and self._allocations.is_history_confirmed

    @override
    def forget_lists(self) -> None:
        self._allocations.forget_lists()

    @override
    def is_left_alone(self, pool: NetworkPool) -> bool:
        """Return False: each NetworkPool gets passes."""
        return False

    @override
    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._allocations.forget(pool)
        self._foreign.forget(pool)
        self._claims.forget(pool)
        self._events.forget(pool)

    @override
    async def prepare(self, pool: NetworkPool) -> tuple[NetworkPool, Outcome | None]:
        """Do what comes before the choice; the first case that applies.

        1. The pool is being deleted: continue the deletion; the pass ends.
        2. Its spec is invalid: report that on the pool and its requests; the pass ends.
        3. Another controller writes its statuses: report that likewise; the pass ends.
        4. Otherwise the pass goes on.

        The finalizer is added in all cases but the first.

        Returns:
            The pool as it was written last, and the outcome of the pass; None if it goes on.
        """
        if pool.metadata.is_terminating:
            return await self._reconcile_deleted(pool)
        pool = await self._add_finalizer(pool)
        try:
            self._specs.get_layouts(pool)
        except InvalidPool as invalid:
            return pool, await self._block_invalid(pool, invalid.messages)
        cached_holdings = self._allocations.read_cached(pool.metadata.key).holdings
        foreign_manager = self._foreign.observe_writes(
            pool, cached_holdings.last_foreign_write, self._clock.now()
        )
        if foreign_manager is not None:
            return pool, await self._block_foreign(pool, foreign_manager)
        return pool, None

    async def _add_finalizer(self, pool: NetworkPool) -> NetworkPool:
        """Add our finalizer to a pool if it lacks it; return the pool as it was written last."""
        return await add_finalizer(self._client, NETWORK_POOL, pool, names.FINALIZER_POOL)

    @override
    def request_kinds(
        self, pool: NetworkPool
    ) -> Sequence[ServedRequests[NetworkPool, Object, NetworkPoolReading]]:
        """Return the kinds of requests that the pool serves: IPAllocations, and claims if served.

        Raises:
            Behind: the journal names a kind that this version does not know. Or this process does
                not know, or does not read, the addresses that claims hold (`ClaimService`).
        """
        raise_if_unknown_kinds(pool)
        claims = self._claims.find_pool_claims(pool)
        allocations = self._allocations.served_requests
        return (allocations,) if claims is None else (allocations, claims.served_requests)

    @override
    def tenants(self, reading: NetworkPoolReading) -> TenantOf:
        """Return a function that finds the tenant of an allocation or claim."""
        return make_tenant_finder(reading.view, reading.pool, self._claims.pool_claims)

    @override
    async def read(
        self,
        pool: NetworkPool,
        journal: Journal,
        fenced_requests: Mapping[str, object] = NO_FENCED_REQUESTS,
    ) -> NetworkPoolReading:
        """Return the geometry and the requests of a pool, and what another allocator gave.

        Args:
            pool: as it was read.
            journal: of the pool.
            fenced_requests: by the full name of a kind, its requests as a fence of this pass left
                them. The allocations among them are not read again.

        Raises:
            Behind: a cache has to catch up first, or was not relisted yet.
        """
        fenced = fenced_requests.get(KIND)
        assert fenced is None or isinstance(fenced, AllocationsView), "a fence of AllocationKind"
        view = await self._allocations.read(pool, journal, fenced)
        # No await follows, so the ranges of another allocator are of the same moment as the view.
        if not self.is_history_confirmed:
            raise Behind(reason="the caches have not been relisted")
        closed = status.find_namespace_block(pool, self._settings.namespaces)
        geometry, observed = self._specs.get_layouts(pool), self._observed.list_ranges(pool)
        return NetworkPoolReading(
            pool.metadata.key, geometry, closed=closed, view=view, observed=observed
        )

    @override
    def choose(
        self, pool: NetworkPool, journal: Journal, reading: NetworkPoolReading, limits: Limits
    ) -> NetworkPoolChoice:
        """Choose ranges for the requests that wait, and list the refusals to write.

        Refusals of allocations and of claims are listed apart, because each kind writes its own.
        """
        decision = decide(
            pool,
            reading.view,
            geometry=reading.geometry,
            batch=self._settings.batch,
            observed=reading.observed,
            limits=limits,
            journal=journal,
            claims=self._make_claim_lister(pool, reading),
            are_allocations_served=reading.closed is None,
        )
        askers = (grant.asker for grant in decision.choice.grants)
        granted = [*zip(decision.promises, askers, strict=True)]
        claim_refusals = [
            refusal for refusal in decision.choice.refusals if refusal.holder.kind != KIND
        ]
        allocation_refusals = select_refusals(IPAllocation, decision.choice.refusals)
        claims = self._claims.pool_claims
        detail = PoolDecision(
            decision,
            self._allocations.list_due_refusals(allocation_refusals),
            claim_refusals=claim_refusals,
            due_claim_refusals=() if claims is None else claims.list_due_refusals(claim_refusals),
        )
        return Allotment(decision.settled, granted, more=decision.choice.more, detail=detail)

    def _make_claim_lister(
        self, pool: NetworkPool, reading: NetworkPoolReading
    ) -> ServeAskers | None:
        """Return a function that lists the claims that wait, for `decide`, which calls it.

        None if claims get nothing now: none are served, none were read, or the pool is paused.
        """
        claims = self._claims.pool_claims
        if claims is None or reading.view.claims is None or claims.is_paused(pool):
            return None
        closed = describe_refused_namespace(pool.metadata.namespace, self._settings.namespaces)

        def serve_askers(settled: Journal) -> ServedAskers[Object]:
            return claims.serve_askers(pool, settled, reading, closed=closed)

        return serve_askers

    @override
    async def confirm(
        self,
        pool: NetworkPool,
        journal: Journal,
        reading: NetworkPoolReading,
        choice: NetworkPoolChoice,
        limits: Limits,
    ) -> tuple[NetworkPoolReading, NetworkPoolChoice]:
        """Return the reading and the choice unchanged: no live reads are needed."""
        return reading, choice

    @override
    def describe_write(
        self, pool: NetworkPool, reading: NetworkPoolReading, choice: NetworkPoolChoice
    ) -> PoolWrite:
        """Return figures and conditions. Their write is due if they differ, or to back a refusal.

        A refusal is written only after a write of the pool succeeded in the same pass. So a
        replica with an old view of the pool cannot refuse what another replica granted. A write of
        an unchanged status makes no new version, but its precondition is checked all the same.
        """
        decision = choice.detail.decision
        overlapping = self._spaces.make_overlap_finding(make_layout_offers(pool, decision.layouts))
        # Holders are named only in conditions about overlaps. If all is sound, none is reported.
        observed = (
            ()
            if is_sound(reading.view, decision)
            else self._observed.list_ranges_with_holders(pool)
        )
        figures = status.render_figures(
            pool,
            reading.view,
            decision=decision,
            now=self._clock.now(),
            overlapping=overlapping,
            closed=reading.closed,
            observed=observed,
        )
        refusals = (*choice.detail.refusals, *choice.detail.due_claim_refusals)
        is_due = bool(refusals) or status.differs(pool.status, figures)
        return PoolWrite({"status": figures}, is_due)

    @override
    def note_written(self, before: NetworkPool, after: NetworkPool) -> None:
        """Record the events that follow from the changes of the pool's status."""
        self._events.record_status_write(before, after)

    @override
    async def finish(
        self,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        choice: NetworkPoolChoice,
        kept: Sequence[Kept[Object]],
        shares: Shares,
    ) -> float | None:
        """Write refusals, record what was written, and report a block.

        Returns:
            In how many seconds to try again; None if nothing is left to write.
        """
        work = [
            partial(self._finish_allocations, pool, reading, choice, kept),
            partial(self._finish_claims, pool, reading, choice),
        ]
        # A failure of one kind is raised only after the other kind is done.
        waits = await run_concurrently(work, len(work))
        return min((seconds for seconds in waits if seconds is not None), default=None)

    async def _finish_allocations(
        self,
        pool: NetworkPool,
        reading: NetworkPoolReading,
        choice: NetworkPoolChoice,
        kept: Sequence[Kept[Object]],
    ) -> float | None:
        """Write refusals to allocations, record what was written to them, and report a block.

        Returns:
            In how many seconds to call again; None if nothing is left to write.
        """
        refusals = choice.detail.refusals
        refused = await self._allocations.write_refusals(refusals)
        self._events.allocations.record_served(
            pool, list_allocation_writes(kept), refusals=refusals, refused=refused
        )
        report_wait = await self._report_block(pool, reading.view)
        # Such a refusal may not have been written, so the next pass compares the statuses again.
        if any(write.result is WriteResult.UNKNOWN for write in refused):
            return RETRY
        return report_wait

    async def _finish_claims(
        self, pool: NetworkPool, reading: NetworkPoolReading, choice: NetworkPoolChoice
    ) -> float | None:
        """Write refusals to claims, and delete IPAddresses that stand in the way of claims.

        Returns:
            In how many seconds to call again; None if no claims are served or nothing is left.
        """
        claims, view, detail = self._claims.pool_claims, reading.view.claims, choice.detail
        if claims is None or view is None:
            return None
        return await claims.finish(
            pool,
            view,
            promises=choice.settled.promises,
            refusals=detail.claim_refusals,
            due=detail.due_claim_refusals,
        )

    async def _report_block(self, pool: NetworkPool, view: AllocationsView) -> float | None:
        """Write to allocations that wait why the pool hands out nothing, if that is so.

        Allocations that are promised a range are left out, because a write voids the promise.

        Args:
            pool: as it was written last.
            view: the allocations, as this pass read them.

        Returns:
            In how many seconds to call again; None if there is nothing more to report.
        """
        # Without a block the journal need not be parsed.
        if find_block(pool) is None:
            return None
        promises = STATUS_JOURNALS.read(pool).promises
        return await self._allocations.report_block(pool, view, promises)

    @override
    def next_pass(self, work: PassWork[NetworkPool, Object, PoolDecision]) -> Outcome:
        """Return when the next pass is due, and record the capacity events that are due.

        It is due at once if a full batch left requests over and this pass wrote a promise. If it
        wrote none, the next pass would choose the same batch again. It is due after RETRY if the
        result of a write is unknown. Otherwise it is due when the first of these is: a promise
        that is not written yet, a deferred tenant, a capacity event, the rest of `finish`, or the
        longest wait, which is shorter after a pass that granted something.
        """
        choice, memory = work.choice, work.memory
        results = {entry.result for entry in work.promise_writes}
        if choice.more and results & {WriteResult.WRITTEN, WriteResult.SETTLED}:
            return Again(0)
        if WriteResult.UNKNOWN in results:
            return Again(RETRY)
        settings = self._settings
        longest = settings.requeue_after_work if choice.granted else settings.resync
        promise_wait = memory.due.next_in(work.list_unwritten(), work.now)
        deferral_wait = memory.shares.next_in(work.now)
        event_wait = self._events.capacity.record_due(work.pool)
        waits = (longest, promise_wait, deferral_wait, event_wait, work.finish_wait)
        return Again(min(wait for wait in waits if wait is not None))

    async def _block(
        self, pool: NetworkPool, reason: str, after: float | None = None, *, why: str = ""
    ) -> Outcome:
        """Report on the requests that wait for a pool why it hands out nothing.

        Args:
            pool: as it was written last; its conditions report why.
            reason: why, in one word, for the outcome of the pass.
            after: seconds until the next pass over the pool; None if only a change calls for it.
            why: why, in a sentence, for the claims; empty to write nothing to claims.
        """
        report_wait = await self._allocations.report_block(
            pool, self._allocations.read_cached(pool.metadata.key)
        )
        claim_wait = await self._write_block_to_claims(pool, why) if why else None
        waits = (after, report_wait, claim_wait)
        return Blocked(
            reason, min((seconds for seconds in waits if seconds is not None), default=None)
        )

    async def _write_block_to_claims(self, pool: NetworkPool, why: str) -> float | None:
        """Write to the claims that wait for a pool why it hands out nothing.

        The version of the pool is checked first, if a claim does not show the reason yet: another
        replica may have read more and may serve the pool.

        Args:
            pool: as it was written last.
            why: the reason, in a sentence.

        Returns:
            In how many seconds to try claims again whose write the API server rejected; None if
            there are none.

        Raises:
            Conflict: the pool has changed since it was read, so another replica may serve it.
        """
        claims = self._claims.pool_claims
        if claims is None:
            return None
        holdings = self._allocations.read_cached(pool.metadata.key).holdings
        refusals = claims.make_block_refusals(pool, holdings, why)
        if claims.list_due_refusals(refusals):
            await self._statuses.check_version(pool)
        return await claims.refuse(pool, refusals)

    async def _write_status(self, pool: NetworkPool, new_status: Mapping[str, Any]) -> NetworkPool:
        """Write the status of a pool if it differs; record the events that follow from that.

        Args:
            pool: as it was read.
            new_status: its status; fields that are absent stay as they are.

        Returns:
            The pool as it was written; `pool` itself if it was not.

        Raises:
            Conflict: the pool has changed since it was read.
            ControllerError: the write failed.
        """
        written = await self._statuses.write(pool, new_status)
        if written is not pool:
            self._events.record_status_write(pool, written)
        return written

    async def _block_invalid(self, pool: NetworkPool, problems: tuple[str, ...]) -> Outcome:
        """Allocate nothing from a pool whose spec is invalid; report why on pool and requests."""
        closed = status.find_namespace_block(pool, self._settings.namespaces)
        new_status = status.render_invalid(pool, problems, now=self._clock.now(), closed=closed)
        written = await self._write_status(pool, new_status)
        return await self._block(written, "ValidationFailed", why="; ".join(problems))

    async def _block_foreign(self, pool: NetworkPool, other: ForeignManager) -> Outcome:
        """Hand out nothing until the other controller stops writing; report that on the pool."""
        now = self._clock.now()
        written = await self._write_status(pool, status.render_foreign_managed(pool, other, now))
        after = other.seconds_until_stopped(now, self._settings.foreign_silence)
        why = "another controller writes its status"
        return await self._block(written, FOREIGN_MANAGER, after, why=why)

    @override
    async def block_not_stored(self, pool: NetworkPool, after: float, *, is_new: bool) -> Outcome:
        """Report that the API server does not store the journal as it is written.

        If an earlier pass found that out, it wrote the status of the pool; then only requests that
        do not show the reason yet are written.

        Args:
            pool: as it is stored.
            after: seconds until the journal is written again.
            is_new: whether a write of this pass has shown it.
        """
        if not is_new:
            return await self._block(pool, OUTDATED, after)
        new_status = status.render_outdated_definition(pool, self._clock.now())
        written = await self._write_status(pool, new_status)
        if written is not pool:
            self._events.allocations.record_outdated_definition(written)
        return await self._block(written, OUTDATED, after)

    @override
    async def report_unreadable(
        self, pool: NetworkPool, unreadable: UnreadableHoldings
    ) -> float | None:
        """Report on the pool and its requests that some objects cannot be decoded.

        Returns:
            In how many seconds to call again; None if all allocations show the reason.
        """
        new_status = status.render_unreadable(pool, unreadable, self._clock.now())
        written = await self._write_status(pool, new_status)
        if written is not pool:
            self._events.allocations.record_unreadable(written, unreadable)
        # The wait of claims is left out: the next pass is due after a resync at the latest.
        await self._write_block_to_claims(written, str(unreadable))
        view = self._allocations.read_cached(written.metadata.key)
        return await self._allocations.report_block(written, view)

    @override
    async def report_pool_refused(self, pool: NetworkPool, error: ApiError) -> None:
        """Write the error to claims; for allocations it is in the log alone."""
        claims = self._claims.pool_claims
        if claims is not None:
            holdings = self._allocations.read_cached(pool.metadata.key).holdings
            why = f"it cannot be written: {error}"
            await claims.refuse(pool, claims.make_block_refusals(pool, holdings, why))

    @override
    def get_shown_wait(self, pool: NetworkPool) -> str:
        """Return the wait that condition Ready of a pool reports; empty if it reports none."""
        return status.find_shown_wait(pool)

    @override
    async def report_wait(self, pool: NetworkPool, behind: Behind, waits: WaitLog) -> None:
        """Report on the pool that a pass cannot know yet what is held.

        `WaitLog` decides whether to write it, because another replica may know what is held, or
        may wait for something else. A wait for a LIST under way is in the log alone: many pools
        wait for the same LIST.
        """
        if isinstance(behind, ListUnderWay):
            return
        key, message = (
            pool.metadata.key,
            status.describe_unknown_holders(pool, behind.reason).message,
        )
        reported_message = status.find_shown_wait(pool)
        should_report = waits.should_report(key, reported_message, message)
        # Requests may show only a wait that the pool shows: after this write, or already.
        if not should_report and reported_message != message:
            return
        try:
            if should_report:
                new_status = status.render_unknown_holders(pool, behind.reason, self._clock.now())
                pool = await self._write_status(pool, new_status)
                waits.note_reported(key, message)
            # Allocations with a promise are left out: another replica may be about to keep it.
            await self._report_block(pool, self._allocations.read_cached(key))
        except (Conflict, NotFound) as error:
            _log.info("A pool changed before its status was written", error=str(error))

    async def _reconcile_deleted(self, pool: NetworkPool) -> tuple[NetworkPool, Outcome]:
        """Write earlier promises; remove the finalizer once no object blocks the deletion.

        After that no promise can be written: an open promise to an allocation blocks the deletion,
        and `_count_blockers` voids open promises to claims once no IPAddress blocks it.

        Returns:
            The pool as it was written last, and the outcome of the pass.
        """
        # An earlier pass has released the pool; finalizers of others may still keep the object.
        if not has_finalizer(pool, names.FINALIZER_POOL):
            return pool, SETTLED
        journal = STATUS_JOURNALS.read(pool)
        count, view = await self._count_blockers(pool, journal)
        if count == 0 and not has_memory(journal, view):
            # Promises that the journal does not record may still be written, so they are voided.
            pool, journal = await self._fence_deleted(pool, journal, view)
            count, view = await self._count_blockers(pool, journal)
        if count == 0:
            await remove_finalizer(self._client, NETWORK_POOL, pool, names.FINALIZER_POOL)
            return pool, SETTLED
        new_status = self._render_deleted_status(pool, journal, view=view, count=count)
        pool = await self._write_status(pool, new_status)
        self._events.capacity.record_due(pool)
        await self._write_due_promises(pool, journal, view)
        return pool, Blocked("Deleting", self._settings.requeue_deleting)

    async def _count_blockers(
        self, pool: NetworkPool, journal: Journal
    ) -> tuple[int, AllocationsView]:
        """Return how many objects block the pool's deletion, and the view that was counted.

        A cache suffices to show that some objects block it. Only a LIST may show that none does.
        If no IPAddress blocks the deletion, open promises to claims are voided here.

        Raises:
            Behind: the journal names a kind that this version does not know. Or this process does
                not know, or does not read, the addresses that claims hold.
        """
        key, claims = pool.metadata.key, self._claims.pool_claims
        self._claims.check_counts(pool)
        cached = self._allocations.read_cached(key)
        count = count_blockers(journal, cached) + (
            0 if claims is None else claims.count_addresses(key)
        )
        if count:
            return count, cached
        raise_if_unknown_kinds(pool)
        claims = self._claims.find_pool_claims(pool)
        listed = await self._allocations.read_shared(pool)
        count = count_blockers(journal, listed)
        if claims is not None:
            count += await claims.count_blockers(pool, journal)
        return count, listed

    async def _fence_deleted(
        self, pool: NetworkPool, journal: Journal, listed: AllocationsView
    ) -> tuple[NetworkPool, Journal]:
        """Void earlier promises of a pool that is being deleted, and give it a memory.

        Whether the API server stores the journal is not checked: nothing is promised any more, so
        the finalizer goes, or the next pass fences again.

        Args:
            pool: as it was read.
            journal: of the pool. Promises and revisions of other kinds stay.
            listed: the view of a LIST that began after `pool` was read.
        """
        reading = NetworkPoolReading(pool.metadata.key, (), closed=None, view=listed)
        pool, journal, _ = await fence_requests(
            self._allocations.served_requests,
            pool,
            journal=journal,
            reading=reading,
            write=partial(patch_journal, self._client, NETWORK_POOL, STATUS_JOURNALS),
        )
        return pool, journal

    def _render_deleted_status(
        self, pool: NetworkPool, journal: Journal, view: AllocationsView, count: int
    ) -> dict[str, Any]:
        """Return the status of a pool whose deletion waits; the first case that applies.

        1. Another controller writes it, or the allocations were not read up to the journal:
           condition Ready alone.
        2. Its spec is invalid: the status of an invalid pool, with this condition Ready.
        3. What others than allocations hold is not known: condition Ready alone.
        4. Otherwise: condition Ready and all figures.

        The journal is not part of it: only a pass that hands out ranges drops promises. The
        figures leave out promises to claims. How many of these are over depends on what a replica
        has read, so two replicas would overwrite each other's figures.

        Args:
            view: the allocations, as this pass read them.
            count: how many objects the deletion waits for.
        """
        now = self._clock.now()
        cached_claims = self._allocations.read_cached(pool.metadata.key).claims
        # A LIST of allocations shows no claims.
        if view.claims is None and cached_claims is not None:
            view = view.with_claims(cached_claims)
        waiting = status.describe_waiting_deletion(count, list_claimed(view))
        is_foreign = (
            self._foreign.observe_writes(pool, view.holdings.last_foreign_write, now) is not None
        )
        # A view that lags behind the journal may lack holders, so its figures are not known.
        if is_foreign or view.position < journal.revisions.get(KIND, 0):
            return status.render_ready_only(pool, waiting, now)
        try:
            geometry, observed = self._specs.get_layouts(pool), self._observed.list_ranges(pool)
            claims = self._claims.find_pool_claims(pool)
            if claims is not None and (
                claims.find_unreadable(pool.metadata.key)
                or not claims.can_read_cached(pool, journal)
            ):
                return status.render_ready_only(pool, waiting, now)
        except InvalidPool as invalid:
            return status.render_invalid(pool, invalid.messages, now=now, closed=waiting)
        except (Behind, UnreadableHoldings):
            return status.render_ready_only(pool, waiting, now)
        promises = tuple(promise for promise in journal.promises if promise.kind == KIND)
        journal_of_kind = Journal(journal.revisions, promises)
        decision = decide(
            pool, view, geometry=geometry, batch=0, observed=observed, journal=journal_of_kind
        )
        overlapping = self._spaces.make_overlap_finding(make_layout_offers(pool, decision.layouts))
        return status.render_figures(
            pool,
            view,
            decision=decision,
            now=now,
            overlapping=overlapping,
            closed=waiting,
            observed=self._observed.list_ranges_with_holders(pool),
        )

    async def _write_due_promises(
        self, pool: NetworkPool, journal: Journal, view: AllocationsView
    ) -> None:
        """Write due promises to their allocations; void promises whose write is refused for good.

        Args:
            pool: as it was written last.
            journal: of the pool.
            view: the allocations, as this pass read them.
        """
        memory = self._memories.get_memory(pool)
        await self._allocations.served_requests.keep_promises(
            pool,
            NetworkPoolReading(pool.metadata.key, (), closed=None, view=view),
            due=memory.due.list_due(journal.promises, self._clock.monotonic()),
            memory=memory,
            clock=self._clock,
        )


def make_networkpool_passes(  # noqa: PLR0913 - what a pass reads and writes
    client: Client,
    pools: Cache[NetworkPool],
    allocations: Cache[IPAllocation],
    events: PoolEvents,
    clock: Clock,
    settings: PoolSettings,
    *,
    claims: ClaimService | None = None,
    observed: ObservedRanges | None = None,
    spaces: SpaceIndex | None = None,
) -> NetworkPoolPasses:
    """Return the passes over NetworkPools, which alone hand out their ranges.

    Args:
        client: the management cluster.
        pools: all pools.
        allocations: all allocations, indexed by pool.
        events: takes what is to be recorded.
        clock: the time.
        settings: intervals and thresholds.
        claims: answers whether claims are served; None if this process serves none.
        observed: what another allocator gave; None for nothing.
        spaces: what pools of all kinds hand out; None for what NetworkPools do.
    """
    statuses = PoolStatusWriter(client)
    memories = make_memories(STATUS_JOURNALS, clock, settings)
    claims = claims or ClaimService()
    keep = partial(
        keep_holdings,
        allocations,
        client.field_manager,
        clock,
        settings.contents_check,
        events.allocations.report_wrong_contents,
    )
    reader = PoolReader(
        allocations,
        client,
        clock=clock,
        wait_seconds=settings.cache_patience,
        keep=keep,
        claims=claims,
    )
    kind = NetworkPoolKind(
        client,
        pools,
        allocations=AllocationKind(
            client, clock, settings=settings, statuses=statuses, reader=reader
        ),
        claims=claims,
        statuses=statuses,
        events=events,
        clock=clock,
        settings=settings,
        memories=memories,
        observed=observed or ObservedRanges(),
        spaces=spaces or index_network_pools(pools, settings.max_addresses),
    )
    return PoolPasses(kind, client, clock=clock, settings=settings, memories=memories)
