"""One pass over one IPAMPool, for the clusters of all its datacenters.

gone, or being deleted   hand out nothing; the garbage collector deletes the allocations, which
                         the pool owns
otherwise                read, plan, create allocations, delete leftovers, write the journal, write
                         the addresses, repair, report

An allocation is created without addresses, and only if the pool has addresses for it. *Leftovers*
are allocations that stay without addresses, and those of clusters in no datacenter of the pool. A
*promise* is a range that the pool's journal reserves for one version of an allocation. The journal
is an annotation of the pool, because a pool has no status.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from typing_extensions import override

from allocator import AddressRange, InvalidPool
from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ApiError, ControllerError
from controller.loggers import get_logger
from controller.meta import Key
from controller.outcome import Outcome
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.kubermatic.allocations import (
    Allocations,
    get_datacenter_name,
    make_promise,
    release_fields,
)
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.examining import Examiner, Situation
from reconcilers.integrations.kubermatic.facts import make_holder, parse_spaces
from reconcilers.integrations.kubermatic.findings import IPAMPoolDecision, KeptFindings
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, AllocationProblem
from reconcilers.integrations.kubermatic.offers import make_offers_in
from reconcilers.integrations.kubermatic.planning import (
    POOL_EXHAUSTED,
    ClusterGrant,
    DatacenterContent,
    PoolContent,
    PoolPlan,
    plan,
)
from reconcilers.integrations.kubermatic.reading import (
    KkpHoldings,
    KkpReader,
    KkpView,
    KubermaticCaches,
)
from reconcilers.integrations.kubermatic.reports import RECONCILING_ERROR, Reports
from reconcilers.integrations.kubermatic.rules import describe_datacenter_fault, list_pool_faults
from reconcilers.integrations.kubermatic.spaces import parse_space
from reconcilers.promises.annotationwrites import ANNOTATION_WRITES
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import (
    NO_FENCED_REQUESTS,
    Allotment,
    PassWork,
    PoolKind,
    next_after_quiet_period,
)
from reconcilers.promises.reading import Behind, highest_revision
from reconcilers.promises.refusedwrites import result_beside_promise
from reconcilers.promises.requestkinds import Fenced, RequestKind, ServedRequests
from reconcilers.promises.results import WriteResult
from reconcilers.promises.settling import find_promised_version, settle
from reconcilers.promises.shares import Limits, Shares, TenantOf, get_namespace_as_tenant
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    UnreadableHoldings,
    build_holders_unknown_message,
)
from reconcilers.reporting.releaselog import GONE, GoneHolders
from reconcilers.spaces.index import SpaceIndex

log = get_logger(__name__)

INVALID_POOL = "InvalidPool"


@dataclass(frozen=True, slots=True)
class AllotmentDetail:
    """The detail of a pool's allotment: the decision, and what could not be created for it.

    Args:
        decision: what the pass decided about all datacenters of the pool.
        failed: the clusters whose allocations could not be created, with the reason.
    """

    decision: IPAMPoolDecision
    failed: Sequence[tuple[ClusterGrant, ControllerError]] = ()


PoolAllotment = Allotment[IPAMAllocation, AllotmentDetail]


class Pools(
    PoolKind[IPAMPool, IPAMAllocation, KkpView, AllotmentDetail],
    RequestKind[IPAMPool, IPAMAllocation, KkpView],
):
    """IPAMPools, as passes over pools of all kinds see them.

    Args:
        client: for the requests.
        reader: reads allocations.
        reports: takes what is to be reported.
        clock: the time.
        settings: intervals, and how much is done at once.
        spaces: what pools of all kinds hand out.
    """

    journals = JOURNALS
    journal_writes = ANNOTATION_WRITES
    request_resource = ALLOCATIONS

    def __init__(  # noqa: PLR0913 - what a pass works with
        self,
        client: Client,
        caches: KubermaticCaches,
        reader: KkpReader,
        reports: Reports,
        clock: Clock,
        settings: PoolSettings,
        *,
        spaces: SpaceIndex,
    ) -> None:
        self._spaces = spaces
        self._client = client
        self._clock = clock
        self._settings = settings
        self._caches = caches
        self._reader = reader
        self._reports = reports
        self._allocations = Allocations(client, clock, settings)
        self._logged: set[str] = set()
        """The uids of allocations whose deletion was logged by this process, and so not again."""
        gone = GoneHolders[IPAMAllocation](
            "released IPAMAllocation",  # for the log: KKP itself deletes most allocations
            lambda allocation: None if allocation.is_empty else release_fields(allocation, GONE),
            self._logged,
        )
        self._kkp_holdings = KkpHoldings(caches, clock, settings.contents_check)
        self._findings = KeptFindings(
            caches, reports, clock, check_interval=settings.contents_check
        )
        caches.allocations.subscribe(gone.log)
        self._served_requests = ServedRequests(self)

    @property
    @override
    def pools(self) -> Cache[IPAMPool]:
        return self._caches.pools

    @property
    @override
    def is_history_confirmed(self) -> bool:
        return self._caches.is_history_confirmed

    @override
    def forget_lists(self) -> None:
        """Forget nothing: no LIST is stored between passes."""

    @override
    def is_left_alone(self, pool: IPAMPool) -> bool:
        """Return whether the pool is being deleted, so that nothing is done about it."""
        # KKP deletes the allocations of a deleted pool by their owner references.
        return pool.metadata.is_terminating

    @override
    def forget(self, pool: Key) -> None:
        """Drop what is remembered of a pool that is gone."""
        self._reports.forget_pool(pool.name)
        self._reader.forget(pool.name)
        self._kkp_holdings.forget(pool.name)
        self._findings.forget(pool.name)

    @override
    async def prepare(self, pool: IPAMPool) -> tuple[IPAMPool, Outcome | None]:
        """Return the pool unchanged, and None: the pass goes on."""
        return pool, None  # neither a finalizer nor a status is needed before a pass

    @override
    def request_kinds(
        self, pool: IPAMPool
    ) -> Sequence[ServedRequests[IPAMPool, IPAMAllocation, KkpView]]:
        return (self._served_requests,)

    @override
    def tenants(self, reading: KkpView) -> TenantOf:
        return get_namespace_as_tenant

    @override
    async def read(
        self,
        pool: IPAMPool,
        journal: Journal,
        fenced_requests: Mapping[str, object] = NO_FENCED_REQUESTS,
    ) -> KkpView:
        """Read the allocations of a pool as far as its journal says."""
        revision = journal.revisions.get(JOURNALS.kind, 0)
        return await self._reader.read_up_to(pool.metadata.name, revision)

    @override
    def needs_fence(
        self, pool: IPAMPool, journal: Journal, reading: KkpView, limits: Limits
    ) -> bool:
        """Return whether promises of an earlier journal must be voided before this pass."""
        revision = journal.revisions.get(JOURNALS.kind)
        # With a revision in the journal, a fence is needed only if the reading is older.
        if revision is not None:
            return reading.position < revision
        # Without a revision, a lost journal may have had promises. They matter only if this pass
        # would give addresses.
        return bool(self._decide(pool, journal, view=reading, limits=limits).grants)

    @override
    async def void_earlier(self, pool: IPAMPool, reading: KkpView) -> Fenced:
        """Write each allocation not being deleted once: earlier promises to it are void."""
        view = await self._reader.list_live(pool.metadata.name)
        allocations = await self._allocations.fence.void_earlier(view.list_allocations())
        return Fenced({JOURNALS.kind: highest_revision(allocations)})

    @override
    def choose(
        self, pool: IPAMPool, journal: Journal, reading: KkpView, limits: Limits
    ) -> PoolAllotment:
        """Choose addresses for Clusters; promise them to Clusters that have an allocation."""
        decision = self._decide(pool, journal, view=reading, limits=limits)
        existing = {
            grant.cluster.metadata.key: grant.allocation
            for grant in decision.grants
            if grant.allocation is not None
        }
        return _make_allotment(decision, existing)  # `confirm` creates missing allocations

    @override
    async def confirm(
        self,
        pool: IPAMPool,
        journal: Journal,
        reading: KkpView,
        choice: PoolAllotment,
        limits: Limits,
    ) -> tuple[KkpView, PoolAllotment]:
        """Create the missing allocations, and delete leftovers; return the final choice.

        If the allocation of a cluster cannot be created (its namespace may be missing), other
        clusters should get its addresses. So the choice is repeated without that cluster.
        """
        decision = choice.detail.decision
        created: dict[Key, IPAMAllocation] = {}
        failed: list[tuple[ClusterGrant, ControllerError]] = []
        tried: set[Key] = set()
        while True:
            untried = [
                grant for grant in decision.grants if grant.cluster.metadata.key not in tried
            ]
            tried.update(grant.cluster.metadata.key for grant in untried)
            granted, refused = await self._allocations.create_missing(untried, pool)
            created.update(
                (grant.cluster.metadata.key, allocation) for grant, allocation in granted
            )
            if not refused:
                break
            failed += refused
            omitted = _list_creation_problems(pool, failed).keys()
            reading, decision = await self._decide_again(
                pool, journal, view=reading, limits=limits, omitted=omitted
            )
        await self._delete_leftovers(pool, decision)
        return reading, _make_allotment(decision, created, failed)

    @override
    def find_request(self, reading: KkpView, promise: Promise) -> IPAMAllocation | None:
        """Return the allocation of a promise; None if it has another version by now."""
        return find_promised_version(promise, reading.find(promise.holder))

    @override
    def is_request_paused(self, pool: IPAMPool, request: IPAMAllocation) -> bool:
        """Return whether the Cluster of an allocation is paused, or may be."""
        return self._caches.is_cluster_paused(request.metadata.namespace)

    @override
    async def keep(
        self, pool: IPAMPool, reading: KkpView, granted: Sequence[Granted[IPAMAllocation]]
    ) -> list[Kept[IPAMAllocation]]:
        """Write promised addresses to allocations; return the result for each promise.

        A promise of a datacenter that has left the pool cannot be kept. Its result is REFUSED, so
        that it is voided.
        """
        served_allocations, refused = list[Granted[IPAMAllocation]](), list[Kept[IPAMAllocation]]()
        for promise, allocation in granted:
            datacenter = get_datacenter_name(promise)
            if datacenter in pool.spec.datacenters:
                served_allocations.append((promise, allocation))
                continue
            why = f"datacenter {datacenter} has left the pool"
            refused.append(
                Kept(promise, allocation, result=WriteResult.REFUSED, why=why, retry_after=RETRY)
            )
        return [*refused, *await self._allocations.keep(served_allocations, pool)]

    @override
    async def void_refused(
        self, pool: IPAMPool, refused: Sequence[Kept[IPAMAllocation]]
    ) -> Sequence[WriteResult]:
        return await self._allocations.void_refused(refused)

    @override
    async def finish(
        self,
        pool: IPAMPool,
        reading: KkpView,
        choice: PoolAllotment,
        kept: Sequence[Kept[IPAMAllocation]],
        shares: Shares,
    ) -> float | None:
        """Repair allocations, report what is wrong, and defer clusters without allocation.

        Returns:
            Seconds until the next pass is due: for a failed create or a rejected write. None if
            only a change leads to it.
        """
        decision, failed = choice.detail.decision, choice.detail.failed
        examination = decision.examination
        await self._allocations.repair(examination.list_repairs(choice.journal.promises), pool)
        problems = {**_list_creation_problems(pool, failed), **self._list_refused(kept)}
        self._findings.commit(pool, reading, examination=examination, failed=problems)
        self._reports.record_pool(pool, decision.problems)
        if self._defer_refused(shares, failed):
            return RETRY
        return self._allocations.seconds_until_retry(examination.unfinished)

    @override
    def next_pass(self, work: PassWork[IPAMPool, IPAMAllocation, AllotmentDetail]) -> Outcome:
        """Return when the next pass is due for the promises or for `finish`."""
        return next_after_quiet_period(work)

    @override
    async def report_unreadable(
        self, pool: IPAMPool, unreadable: UnreadableHoldings
    ) -> float | None:
        """Report unreadable allocations by an event on the pool, and for each waiting cluster.

        Returns:
            None, no time for the next pass: a change of the unreadable objects leads to it.
        """
        problem = AllocationProblem(
            HOLDERS_UNKNOWN, build_holders_unknown_message(str(unreadable))
        )
        self._findings.report_unreadable(pool, problem)
        self._reports.record_pool(pool, [problem])
        return None

    @override
    async def report_pool_refused(self, pool: IPAMPool, error: ApiError) -> None:
        """Report nothing beside the log: Clusters do not show that a pool cannot be written."""

    def _decide(
        self,
        pool: IPAMPool,
        stored: Journal,
        view: KkpView,
        limits: Limits,
        omitted: Collection[Holder] = frozenset(),
    ) -> IPAMPoolDecision:
        """Decide about all datacenters of a pool.

        Args:
            stored: the journal as the pool has it.
            view: the allocations of the pool.
            limits: which allocations may be promised something.
            omitted: the holders for which nothing is chosen, because their allocation could not
                be created in this pass.
        """
        journal = settle(stored, JOURNALS.kind, view)
        room = JOURNALS.count_room(journal)
        name, spaces = pool.metadata.name, parse_spaces(pool)
        holdings = self._kkp_holdings.get_holdings(name, spaces, view)
        kept = self._findings.bring_up_to_date(pool, spaces, view=view, holdings=holdings)

        def find_cluster(namespace: str) -> KkpCluster | None:
            """Return the served Cluster of a namespace; None if it is omitted in this pass."""
            is_omitted = make_holder(namespace, name) in omitted
            return None if is_omitted else self._caches.find_cluster(namespace)

        contents = {
            datacenter: DatacenterContent(space, _list_promised(journal, datacenter))
            for datacenter, space in sorted(spaces.items())
        }
        content = PoolContent(
            name,
            contents,
            holdings=holdings,
            find=view.find,
            find_cluster=find_cluster,
            problems=kept.problems.by_key,
            promises=journal.promises,
        )
        planned = plan(content, room, limits, batch=self._settings.batch)
        invalid, shared = _find_invalid(pool), self._find_shared(pool)
        situation = Situation(
            pool,
            content,
            planned=planned,
            limits=limits,
            invalid=invalid,
            shared=shared,
            find_served=self._caches.find_cluster,
            has_unreadable_clusters=bool(self._caches.clusters.unreadable),
            omitted=omitted,
        )
        examination = self._findings.examine(kept, view, Examiner(situation))
        problems = _list_problems(pool, planned, invalid=invalid, shared=shared or {})
        return IPAMPoolDecision(
            journal,
            planned.grants,
            examination=examination,
            problems=problems,
            more=planned.more,
        )

    def _find_shared(self, pool: IPAMPool) -> Mapping[str, AllocationProblem] | None:
        """Return the problems of datacenters that share addresses with other pools, by name.

        They are harmless: the clusters get their addresses all the same.

        Returns:
            The problems; None while not all pools of all kinds are known.
        """
        if not self._spaces.is_known:
            return None
        sentences = {
            name: self._spaces.find_sharing(make_offers_in(pool, name)).sentence
            for name in sorted(pool.spec.datacenters)
        }
        return {
            name: AllocationProblem(
                OVERLAPPING, f"datacenter {name}: {sentence}", is_harmless=True
            )
            for name, sentence in sentences.items()
            if sentence
        }

    def _defer_refused(
        self, shares: Shares, failed: Sequence[tuple[ClusterGrant, ControllerError]]
    ) -> bool:
        """Defer the clusters whose allocation the API server rejects for good.

        Returns:
            Whether creating other allocations failed for a reason that may pass, so that the
            next pass is due soon.
        """
        now = self._clock.monotonic()
        results = [(grant, result_beside_promise(error)) for grant, error in failed]
        for grant, result in results:
            if result is WriteResult.REFUSED:
                shares.defer(grant.cluster.metadata, now)
        return any(result is not WriteResult.REFUSED for _, result in results)

    async def _decide_again(
        self,
        pool: IPAMPool,
        stored: Journal,
        view: KkpView,
        limits: Limits,
        omitted: Collection[Holder],
    ) -> tuple[KkpView, IPAMPoolDecision]:
        """Read the allocations again, later in a pass, and decide by the new reading.

        The first reading is stale by now: a promise may have been kept since then. It would count
        as over, but the first reading does not show its addresses, so they would seem to be free.

        Raises:
            Behind: the cache lags, or was relisted since then and shows an older state.
            UnreadableHolders: allocations that may be the pool's cannot be decoded.
            ControllerError: a LIST failed.
        """
        revision = stored.revisions.get(JOURNALS.kind, 0)
        view = await self._reader.read_up_to(pool.metadata.name, revision)
        if view.position < revision:
            raise Behind
        return view, self._decide(pool, stored, view=view, limits=limits, omitted=omitted)

    async def _delete_leftovers(self, pool: IPAMPool, decision: IPAMPoolDecision) -> None:
        """Delete allocations of other datacenters, and allocations that get no addresses."""
        surplus, moved = decision.examination.surplus, decision.examination.moved
        await self._allocations.delete(surplus, "it has no addresses, and none are for it")
        moved_away = await self._confirm_moved(pool, moved)
        # Noted, so that the handler of the cache does not log these deletions again. Noted before
        # the delete, because the cache may show the deletion before the delete returns.
        self._logged.update(allocation.metadata.uid for allocation in moved_away)
        await self._allocations.delete(moved_away, "its cluster is in no datacenter of the pool")

    async def _confirm_moved(
        self, pool: IPAMPool, candidates: Sequence[tuple[IPAMAllocation, KkpCluster]]
    ) -> list[IPAMAllocation]:
        """Return the allocations whose cluster is in no datacenter of the pool, by live reads.

        A cache may be behind, and still show the cluster in another datacenter, or the pool
        without that datacenter.
        """
        live = await self._client.find(POOLS, pool.metadata.key) if candidates else None
        # If the pool is gone or was recreated, its next pass decides what to delete.
        if live is None or live.metadata.uid != pool.metadata.uid:
            return []
        confirmed: list[IPAMAllocation] = []

        async def confirm_if_moved(allocation: IPAMAllocation, key: Key) -> None:
            """Read the Cluster of an allocation; confirm the allocation if the Cluster moved."""
            cluster = await self._client.find(CLUSTERS, key)
            # If the Cluster is gone, a later pass examines the allocation as one without a
            # Cluster. Its addresses stay in use while the allocation exists.
            if cluster is not None and cluster.datacenter not in live.spec.datacenters:
                confirmed.append(allocation)

        work = [
            partial(confirm_if_moved, allocation, cluster.metadata.key)
            for allocation, cluster in candidates
        ]
        await run_concurrently(work, self._settings.width)
        return confirmed

    def _list_refused(
        self, kept: Sequence[Kept[IPAMAllocation]]
    ) -> dict[Holder, tuple[Key, AllocationProblem]]:
        """Return the clusters whose addresses the API server rejected for good, with the problem.

        Args:
            kept: the outcome of the write of each promise.
        """
        refused = {}
        for entry in kept:
            cluster = self._caches.find_cluster(entry.request.metadata.namespace)
            if entry.result is WriteResult.REFUSED and cluster is not None:
                problem = AllocationProblem(RECONCILING_ERROR, entry.why)
                refused[entry.promise.holder] = cluster.metadata.key, problem
        return refused


def _list_promised(journal: Journal, datacenter: str) -> list[AddressRange]:
    """Return the ranges of a datacenter in open promises."""
    return [
        part for promise in journal.promises for part in promise.list_ranges_in_space(datacenter)
    ]


def _find_invalid(pool: IPAMPool) -> dict[str, AllocationProblem]:
    """Return the problems of datacenters that cannot be served, by name."""
    invalid = {}
    for name, settings in sorted(pool.spec.datacenters.items()):
        try:
            parse_space(settings)
        except InvalidPool as error:
            invalid[name] = AllocationProblem(INVALID_POOL, "; ".join(error.messages))
    return invalid


def _list_problems(
    pool: IPAMPool,
    planned: PoolPlan,
    invalid: Mapping[str, AllocationProblem],
    shared: Mapping[str, AllocationProblem],
) -> list[AllocationProblem]:
    """Return the problems of a pool.

    Args:
        planned: what the pass promises, and what it cannot serve.
        invalid: the problems of datacenters that cannot be served, by name.
        shared: the problems of datacenters that share addresses with other pools, by name.
    """
    problems = [AllocationProblem(INVALID_POOL, fault) for fault in list_pool_faults(pool)]
    problems += (
        AllocationProblem(INVALID_POOL, f"datacenter {name}: {problem.message}")
        for name, problem in invalid.items()
    )
    for name in sorted(pool.spec.datacenters.keys() - invalid.keys()):
        if problem := planned.exhausted.get(name):
            problems.append(
                AllocationProblem(POOL_EXHAUSTED, f"datacenter {name}: {problem.message}")
            )
        if fault := describe_datacenter_fault(pool, name):
            problems.append(AllocationProblem(INVALID_POOL, fault))
    return [*problems, *shared.values()]


def _make_allotment(
    decision: IPAMPoolDecision,
    allocations: Mapping[Key, IPAMAllocation],
    failed: Sequence[tuple[ClusterGrant, ControllerError]] = (),
) -> PoolAllotment:
    """Return the allotment of a pass: a promise for each grant whose allocation exists.

    A promise names one version of an allocation, so a grant without allocation gets none.

    Args:
        decision: what the pass decided about all datacenters of the pool.
        allocations: by cluster, the existing allocations; nothing is promised to other clusters.
        failed: the clusters whose allocations could not be created, with the reason.
    """
    keys = ((grant, grant.cluster.metadata.key) for grant in decision.grants)
    pairs = [(grant, allocations[key]) for grant, key in keys if key in allocations]
    granted = [(make_promise(grant, allocation), allocation) for grant, allocation in pairs]
    return Allotment(
        decision.journal, granted, more=decision.more, detail=AllotmentDetail(decision, failed)
    )


def _list_creation_problems(
    pool: IPAMPool, failed: Sequence[tuple[ClusterGrant, ControllerError]]
) -> dict[Holder, tuple[Key, AllocationProblem]]:
    """Return the problems of the allocations that could not be created, by their holders.

    The holder is the allocation that a cluster would have: the cluster's namespace, and the pool's
    name. With each problem comes the key of the cluster.
    """
    return {
        make_holder(grant.cluster.namespace, pool.metadata.name): (
            grant.cluster.metadata.key,
            AllocationProblem(RECONCILING_ERROR, str(error)),
        )
        for grant, error in failed
    }
