"""One pass over one IPAMPool, for the clusters of all its datacenters.

gone, or being deleted?   hand out nothing; its allocations go with it, by their owner references
otherwise                 read, plan, make allocations, write the journal, write the addresses
                          delete what clusters of other datacenters have of it, repair, report

An allocation is made without addresses only if there are some for it, and one that stays without
is deleted. The journal is an annotation of the pool, which has no status.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

import structlog
from typing_extensions import override

from allocator import AddressRange, InvalidPool
from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError
from controller.meta import Key
from controller.outcome import Again, Outcome
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.core.passes import JournalReconciler
from reconcilers.integrations.core.rules import needs_fence
from reconcilers.integrations.kubermatic.allocations import (
    Allocations,
    Granted,
    datacenter_of,
    is_owned,
    promise_of,
    release_fields,
)
from reconcilers.integrations.kubermatic.api import (
    CLUSTERS,
    JOURNALS,
    POOLS,
    Cluster,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.facts import spaces_of
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, Problem
from reconcilers.integrations.kubermatic.offers import offers_in
from reconcilers.integrations.kubermatic.planning import (
    Content,
    Decided,
    Grant,
    Plan,
    exhausted,
    plan,
)
from reconcilers.integrations.kubermatic.reading import (
    POOL_INDEX,
    KeptClusters,
    KubermaticCaches,
    Reader,
    View,
)
from reconcilers.integrations.kubermatic.reports import RECONCILING_ERROR, Reports
from reconcilers.integrations.kubermatic.spaces import NO_DATACENTERS, space_of
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.journal import MOST_RANGES, Journal, Promise
from reconcilers.promises.keeping import Kept
from reconcilers.promises.reading import Behind, highest_revision
from reconcilers.promises.refusedwrites import result_beside_promise
from reconcilers.promises.results import WriteResult
from reconcilers.promises.settling import settle
from reconcilers.promises.unreadable import HOLDERS_UNKNOWN, holders_unknown_message
from reconcilers.reporting.releaselog import GONE, GoneHolders
from reconcilers.spaces.index import SpaceIndex

log = structlog.get_logger(__name__)

INVALID_POOL = "InvalidPool"


class PoolReconciler(JournalReconciler[IPAMPool]):
    """Hands out the addresses of IPAMPools.

    Args:
        client: for the requests.
        caches: the caches.
        reader: reads allocations.
        reports: takes what is to be reported.
        clock: the time.
        settings: intervals, and how much is done at once.
        spaces: what pools of all kinds hand out.
    """

    def __init__(  # noqa: PLR0913 - what a pass works with
        self,
        client: Client,
        caches: KubermaticCaches,
        reader: Reader,
        reports: Reports,
        clock: Clock,
        settings: PoolSettings,
        *,
        spaces: SpaceIndex,
    ) -> None:
        self._spaces = spaces
        super().__init__(
            caches.pools,
            JOURNALS,
            caches=caches,
            client=client,
            clock=clock,
            settings=settings,
        )
        self._caches = caches
        self._reader = reader
        self._reports = reports
        self._allocations = Allocations(client, clock, settings)
        self._logged: set[str] = set()
        """The uids of allocations whose deletion was logged; they may still be seen."""
        gone = GoneHolders[IPAMAllocation](
            "released IPAMAllocation",  # KKP deletes most of them
            lambda allocation: None if allocation.empty else release_fields(allocation, GONE),
            self._logged,
        )
        self._kept = KeptClusters(caches, clock, settings.contents_check)
        caches.allocations.subscribe(gone.log)

    @override
    def _is_left_alone(self, pool: IPAMPool) -> bool:
        return pool.metadata.terminating

    @override
    def _forget(self, key: Key) -> None:
        self._reports.forget_pool(key.name)
        self._reader.forget(key.name)
        self._kept.forget(key.name)

    @override
    async def _pass(self, pool: IPAMPool) -> Outcome:
        journal = JOURNALS.read(pool.metadata)
        revision = journal.revisions.get(JOURNALS.kind)
        view = await self._reader.at_least(pool.metadata.name, revision or 0)
        decided = self._decide(pool, journal, view)
        if needs_fence(revision, view.position, wanted=bool(decided.grants)):
            pool, journal = await self._fence(pool)
            revision = journal.revisions[JOURNALS.kind]
            view = await self._reader.at_least(pool.metadata.name, revision)
            decided = self._decide(pool, journal, view)
        return await self._serve(pool, view, decided)

    @override
    async def _report_unreadable(self, pool: IPAMPool, why: str) -> None:
        """Report it as an event on the pool, and on each cluster that waits for addresses.

        A cluster whose own allocation cannot be decoded may have its addresses.
        """
        name = pool.metadata.name
        problem = Problem(HOLDERS_UNKNOWN, holders_unknown_message(why))
        allocations = self._caches.allocations
        held = allocations.by_index(POOL_INDEX, name)
        served = {one.metadata.namespace for one in held if not one.empty}
        served |= {key.namespace for key in allocations.unreadable if key.name == name}
        self._reports.note(
            name,
            {
                cluster.metadata.key: problem
                for datacenter in pool.spec.datacenters
                for cluster in self._caches.served(datacenter)
                if cluster.namespace not in served
            },
        )
        self._reports.record_pool(pool, [problem])

    @override
    async def _write_fence(self, pool: IPAMPool) -> tuple[IPAMPool, Journal]:
        """Void whatever was promised before the pool was read, then give it a memory."""
        view = await self._reader.live(pool.metadata.name)
        allocations = await self._allocations.fence.void_earlier(view.allocations)
        journal = JOURNALS.with_revision(highest_revision(allocations))
        return await self._write_journal(pool, journal)

    def _decide(
        self,
        pool: IPAMPool,
        stored: Journal,
        view: View,
        without: Collection[Key] = frozenset(),
    ) -> Decided:
        """Decide about all datacenters of a pool; nothing is for the clusters `without`."""
        journal = settle(stored, JOURNALS.kind, view)
        room = min(self._settings.batch, MOST_RANGES - journal.range_count)
        eligibility = self._limits(pool).eligibility(journal.promises)
        decided = Decided(stored, journal, room, eligibility=eligibility)
        holdings = self._kept.holdings(pool.metadata.name, spaces_of(pool), view)
        if not pool.spec.datacenters:
            decided.problems.append(Problem(INVALID_POOL, NO_DATACENTERS))
        for name in sorted(pool.spec.datacenters):
            clusters = [
                one for one in self._caches.served(name) if one.metadata.key not in without
            ]
            made = self._plan(pool, view, name, clusters, decided, holdings)
            if made is not None:
                decided.room -= sum(len(grant.ranges) for grant in made.grants)
                decided.plans[name] = made
                decided.by_cluster.update(made.by_cluster)
                decided.problems += exhausted(name, made)
        for name in sorted(pool.spec.datacenters) if self._spaces.is_known else ():
            sentence = self._spaces.sharing(offers_in(pool, name)).sentence
            if not sentence:
                continue
            problem = Problem(OVERLAPPING, f"datacenter {name}: {sentence}", harmless=True)
            decided.problems.append(problem)
            for cluster in self._caches.served(name):
                if decided.by_cluster.get(cluster.metadata.key, problem) is None:
                    decided.by_cluster[cluster.metadata.key] = problem
        return decided

    def _plan(
        self,
        pool: IPAMPool,
        view: View,
        name: str,
        clusters: Sequence[Cluster],
        decided: Decided,
        holdings: Holdings,
    ) -> Plan | None:
        """Plan one datacenter; None if its settings cannot be served."""
        try:
            space = space_of(pool.spec.datacenters[name])
        except InvalidPool as invalid:
            problem = Problem(INVALID_POOL, "; ".join(invalid.messages))
            text = f"datacenter {name}: {problem.message}"
            decided.problems.append(Problem(INVALID_POOL, text))
            decided.by_cluster.update((one.metadata.key, problem) for one in clusters)
            return None
        here = [one for one in view.allocations if one.spec.dc == name]
        promised: dict[str, list[AddressRange]] = {}
        for promise in decided.journal.promises:
            promised.setdefault(promise.uid, []).extend(promise.in_space(name))
        content = Content(
            pool.metadata.name,
            name,
            space,
            here,
            holdings,
            promised,
            lambda namespace: view.find(Key(namespace, pool.metadata.name)),
            decided.eligibility,
        )
        return plan(content, clusters, decided.room)

    async def _serve(self, pool: IPAMPool, view: View, decided: Decided) -> Outcome:
        """Write promises to the pool, then addresses to allocations, then report what is wrong."""
        view, decided, granted, failed = await self._make(pool, view, decided)
        await self._delete_leftovers(pool, view, decided)
        fresh: list[Granted] = [(promise_of(grant, one), one) for grant, one in granted]
        added = [promise for promise, _ in fresh]
        journal = decided.journal.with_promises(added)
        pool, stored = await self._promise(pool, decided.stored, journal, added, decided.journal)
        kept = await self._keep(pool, view, journal, fresh)
        await self._allocations.repair(self._complete(pool, view, journal), pool)
        self._report(pool, view, decided, [*_unmade(failed), *self._refused(kept)])
        if self._defer_refused(pool, failed):
            return Again(RETRY)
        later = self._allocations.next_in(view.allocations)
        return self._next(pool, stored, decided.journal, kept, more=decided.more, later=later)

    def _defer_refused(
        self, pool: IPAMPool, failed: Sequence[tuple[Grant, ControllerError]]
    ) -> bool:
        """Defer the clusters whose allocation is refused for good.

        Returns:
            Whether other allocations could not be created, which may succeed at once.
        """
        shares, now = self._memories.memory_of(pool).shares, self._clock.monotonic()
        results = [(grant, result_beside_promise(error)) for grant, error in failed]
        for grant, result in results:
            if result is WriteResult.REFUSED:
                shares.defer(grant.cluster.metadata, now)
        return any(result is not WriteResult.REFUSED for _, result in results)

    async def _make(
        self, pool: IPAMPool, view: View, decided: Decided
    ) -> tuple[
        View,
        Decided,
        list[tuple[Grant, IPAMAllocation]],
        list[tuple[Grant, ControllerError]],
    ]:
        """Create the missing allocations.

        If the allocation of a cluster cannot be made, for want of its namespace for example, what
        it was to get is for other clusters: so decide again without it.

        Returns:
            The view by which it is decided in the end, what is, the grants that can be promised
            with their allocations, and those that cannot with the reason.
        """
        made: dict[Key, IPAMAllocation] = {}
        failed: list[tuple[Grant, ControllerError]] = []
        tried: set[Key] = set()
        while True:
            fresh = [one for one in decided.grants if one.cluster.metadata.key not in tried]
            tried.update(one.cluster.metadata.key for one in fresh)
            found, refused = await self._allocations.make(fresh, pool)
            made.update((grant.cluster.metadata.key, one) for grant, one in found)
            if not refused:
                break
            failed += refused
            unmade = {grant.cluster.metadata.key for grant, _ in failed}
            view, decided = await self._decide_again(pool, decided.stored, view, unmade)
        keys = ((grant, grant.cluster.metadata.key) for grant in decided.grants)
        return view, decided, [(grant, made[key]) for grant, key in keys if key in made], failed

    async def _decide_again(
        self, pool: IPAMPool, stored: Journal, view: View, without: Collection[Key]
    ) -> tuple[View, Decided]:
        """Decide by what there is now, later in a pass.

        A view's allocations are those of when it was made, and what it finds is of now: a promise
        that was kept meanwhile is settled, but its addresses are not among the allocations.

        Raises:
            Behind: the cache has begun anew meanwhile.
        """
        revision = stored.revisions.get(JOURNALS.kind, 0)
        view = await self._reader.at_least(pool.metadata.name, revision)
        if view.position < revision:
            raise Behind
        return view, self._decide(pool, stored, view, without)

    async def _delete_leftovers(self, pool: IPAMPool, view: View, decided: Decided) -> None:
        """Delete allocations of other datacenters, and those that stay without addresses."""
        promised = {promise.uid for promise in decided.journal.promises}
        gone = [one for made in decided.plans.values() for one in made.unserved]
        moved = []
        for one in view.allocations:
            if one.metadata.terminating:
                continue
            cluster = self._caches.cluster_in(one.metadata.namespace)
            if cluster is not None and cluster.datacenter not in pool.spec.datacenters:
                moved.append((one, cluster))
            elif self._caches.clusters.unreadable:
                continue  # it may be of a cluster that cannot be decoded
            elif cluster is None and one.empty and one.metadata.uid not in promised:
                gone += [one] if is_owned(one, pool) else []
        await self._allocations.delete(gone, "it has no addresses, and none are for it")
        moved_away = await self._confirmed(pool, moved)
        # The cache shows the deletion as soon as the API server has confirmed it.
        self._logged.update(allocation.metadata.uid for allocation in moved_away)
        await self._allocations.delete(moved_away, "its cluster is in no datacenter of the pool")

    async def _confirmed(
        self, pool: IPAMPool, found: Sequence[tuple[IPAMAllocation, Cluster]]
    ) -> list[IPAMAllocation]:
        """Return those whose cluster is in no datacenter of the pool, by live reads.

        Caches may show a past in which it was in another, or in which the pool had other ones.
        """
        live = await self._client.find(POOLS, pool.metadata.key) if found else None
        if live is None or live.metadata.uid != pool.metadata.uid:
            return []
        confirmed: list[IPAMAllocation] = []

        async def confirm_one(one: IPAMAllocation, key: Key) -> None:
            cluster = await self._client.find(CLUSTERS, key)
            if cluster is not None and cluster.datacenter not in live.spec.datacenters:
                confirmed.append(one)

        work = [partial(confirm_one, one, cluster.metadata.key) for one, cluster in found]
        await run_concurrently(work, self._settings.width)
        return confirmed

    async def _keep(
        self, pool: IPAMPool, view: View, journal: Journal, fresh: Sequence[Granted]
    ) -> list[Kept[IPAMAllocation]]:
        """Keep the new promises, and those earlier ones that are due.

        A promise of a datacenter that has left the pool cannot be kept any more, so it is voided.
        """
        earlier = self._earlier(pool, journal, (promise for promise, _ in fresh))
        granted, kept = [*fresh], list[Kept[IPAMAllocation]]()
        for promise, allocation in self._at_version(view, earlier):
            datacenter = datacenter_of(promise)
            if datacenter in pool.spec.datacenters:
                granted.append((promise, allocation))
                continue
            why = f"datacenter {datacenter} has left the pool"
            kept.append(Kept(promise, allocation, WriteResult.REFUSED, why, retry_after=RETRY))
        kept += await self._allocations.keep(granted, pool)
        return await self._void_refused(pool, kept, self._void)

    async def _void(self, refused: Sequence[Kept[IPAMAllocation]]) -> list[WriteResult]:
        """Void promises whose write was refused for good; return the results, in order."""
        allocations = [entry.request for entry in refused]
        return await self._allocations.void_refused(allocations)

    def _refused(self, kept: Sequence[Kept[IPAMAllocation]]) -> Iterable[tuple[Key, str]]:
        """Yield the clusters whose addresses could not be written for good, with the reason."""
        for entry in kept:
            cluster = self._caches.cluster_in(entry.request.metadata.namespace)
            if entry.result is WriteResult.REFUSED and cluster is not None:
                yield cluster.metadata.key, entry.why

    def _at_version(self, view: View, promises: Iterable[Promise]) -> Iterable[Granted]:
        """Yield the promises whose allocation is at their version, with the allocation."""
        for promise in promises:
            allocation = view.find(promise.key)
            if allocation is None or allocation.metadata.terminating:
                continue
            version = allocation.metadata.uid, allocation.metadata.resourceVersion
            if version == promise.identity:
                yield promise, allocation

    def _complete(
        self, pool: IPAMPool, view: View, journal: Journal
    ) -> list[tuple[IPAMAllocation, str]]:
        """Return the allocations of served clusters that wait for nothing, with their type."""
        promised = {promise.uid for promise in journal.promises}
        found = []
        for one in view.allocations:
            if one.metadata.terminating or one.empty or one.metadata.uid in promised:
                continue
            cluster = self._caches.cluster_in(one.metadata.namespace)
            if cluster is not None and cluster.datacenter in pool.spec.datacenters:
                found.append((one, pool.spec.datacenters[cluster.datacenter].type))
        return found

    def _report(
        self,
        pool: IPAMPool,
        view: View,
        decided: Decided,
        failed: Iterable[tuple[Key, str]],
    ) -> None:
        """Report what is wrong with a pool, its allocations and its clusters.

        Args:
            pool: as it was read.
            view: its allocations.
            decided: what the pass decided.
            failed: the clusters for which a write failed, with the reason.
        """
        name = pool.metadata.name
        by_cluster = dict(decided.by_cluster)
        by_cluster.update((key, Problem(RECONCILING_ERROR, why)) for key, why in failed)
        served = {
            one.metadata.key
            for datacenter in pool.spec.datacenters
            for one in self._caches.served(datacenter)
        }
        if not self._spaces.is_known:
            # Whether the pool shares addresses is not known yet: what a condition that is True
            # says of that stays until the pass that follows.
            by_cluster = {
                key: problem
                for key, problem in by_cluster.items()
                if problem is not None and not problem.harmless
            }
        self._reports.keep_only(name, served)
        self._reports.note(name, by_cluster)
        self._reports.record_pool(pool, decided.problems)
        faults = {key: one for made in decided.plans.values() for key, one in made.faults.items()}
        self._reports.record_allocations(name, faults, view.find)


def _unmade(failed: Sequence[tuple[Grant, ControllerError]]) -> Iterable[tuple[Key, str]]:
    """Yield the clusters whose allocations could not be created, with the reason."""
    return ((grant.cluster.metadata.key, str(error)) for grant, error in failed)
