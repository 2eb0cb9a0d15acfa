"""One pass over one IPAMPool, for the clusters of all its datacenters.

gone, or being deleted?   hand out nothing; its allocations go with it, by their owner references
otherwise                 read, plan, make allocations, write the journal, write the addresses
                          delete what clusters of other datacenters have of it, repair, report

An allocation is made without addresses only if there are some for it, and one that stays without
is deleted. The journal is an annotation of the pool, which has no status.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import override

from allocator import InvalidPool
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
    datacenter_of,
    is_owned,
    promise_of,
    release_fields,
)
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
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
    ClusterGrant,
    Content,
    Decided,
    PoolContent,
    find_exhausted,
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
from reconcilers.integrations.kubermatic.rules import describe_datacenter_fault, list_pool_faults
from reconcilers.integrations.kubermatic.spaces import space_of
from reconcilers.promises.annotatedpools import AnnotatedPools
from reconcilers.promises.concurrency import run_concurrently
from reconcilers.promises.due import RETRY
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.keeping import Granted, Kept
from reconcilers.promises.passes import (
    NOTHING_SEEN,
    Allotment,
    Fenced,
    PassWork,
    RequestKind,
    next_after_quiet_period,
)
from reconcilers.promises.reading import Behind, highest_revision
from reconcilers.promises.refusedwrites import result_beside_promise
from reconcilers.promises.results import WriteResult
from reconcilers.promises.settling import find_promised_version, settle
from reconcilers.promises.shares import Limits, Shares, TenantOf, tenant_of_namespace
from reconcilers.promises.unreadable import (
    HOLDERS_UNKNOWN,
    Unreadable,
    holders_unknown_message,
)
from reconcilers.reporting.releaselog import GONE, GoneHolders
from reconcilers.spaces.index import SpaceIndex

log = get_logger(__name__)

INVALID_POOL = "InvalidPool"


@dataclass(frozen=True, slots=True)
class DecidedPool:
    """What a pass decided about a pool.

    Args:
        decided: about all of its datacenters.
        failed: the clusters whose allocations could not be created, with the reason.
    """

    decided: Decided
    failed: Sequence[tuple[ClusterGrant, ControllerError]] = ()


PoolChoice = Allotment[IPAMAllocation, DecidedPool]


class Pools(
    AnnotatedPools[IPAMPool, IPAMAllocation, View, DecidedPool],
    RequestKind[IPAMPool, IPAMAllocation, View],
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
    request_resource = ALLOCATIONS

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
        self._client = client
        self._clock = clock
        self._settings = settings
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

    @property
    @override
    def pools(self) -> Cache[IPAMPool]:
        return self._caches.pools

    @property
    @override
    def history_confirmed(self) -> bool:
        return self._caches.history_confirmed

    @override
    def is_left_alone(self, pool: IPAMPool) -> bool:
        return pool.metadata.terminating

    @override
    def forget(self, pool: Key) -> None:
        self._reports.forget_pool(pool.name)
        self._reader.forget(pool.name)
        self._kept.forget(pool.name)

    @override
    async def prepare(self, pool: IPAMPool) -> tuple[IPAMPool, Outcome | None]:
        return pool, None

    @override
    def request_kinds(self, pool: IPAMPool) -> Sequence["Pools"]:
        return (self,)

    @override
    def tenants(self, reading: View) -> TenantOf:
        return tenant_of_namespace

    @override
    async def read(
        self, pool: IPAMPool, journal: Journal, seen: Mapping[str, Any] = NOTHING_SEEN
    ) -> View:
        revision = journal.revisions.get(JOURNALS.kind, 0)
        return await self._reader.at_least(pool.metadata.name, revision)

    @override
    def needs_fence(self, pool: IPAMPool, journal: Journal, reading: View, limits: Limits) -> bool:
        revision = journal.revisions.get(JOURNALS.kind)
        if revision is not None:
            return reading.position < revision
        return bool(self._decide(pool, journal, reading, limits).grants)

    @override
    async def void_earlier(self, pool: IPAMPool, reading: View) -> Fenced:
        view = await self._reader.live(pool.metadata.name)
        allocations = await self._allocations.fence.void_earlier(view.allocations)
        return Fenced({JOURNALS.kind: highest_revision(allocations)})

    @override
    def choose(
        self, pool: IPAMPool, journal: Journal, reading: View, limits: Limits
    ) -> PoolChoice:
        decided = self._decide(pool, journal, reading, limits)
        existing = {
            grant.cluster.metadata.key: grant.allocation
            for grant in decided.grants
            if grant.allocation is not None
        }
        return _choice(decided, existing)

    @override
    async def confirm(
        self,
        pool: IPAMPool,
        journal: Journal,
        reading: View,
        choice: PoolChoice,
        limits: Limits,
    ) -> tuple[View, PoolChoice]:
        """Create the missing allocations, and delete those that stay without addresses.

        If the allocation of a cluster cannot be created, for want of its namespace for example,
        what it was to get is for other clusters: so the choice is repeated without it.
        """
        decided = choice.detail.decided
        created: dict[Key, IPAMAllocation] = {}
        failed: list[tuple[ClusterGrant, ControllerError]] = []
        tried: set[Key] = set()
        while True:
            fresh = [grant for grant in decided.grants if grant.cluster.metadata.key not in tried]
            tried.update(grant.cluster.metadata.key for grant in fresh)
            granted, refused = await self._allocations.make(fresh, pool)
            created.update(
                (grant.cluster.metadata.key, allocation) for grant, allocation in granted
            )
            if not refused:
                break
            failed += refused
            without = {grant.cluster.metadata.key for grant, _ in failed}
            reading, decided = await self._decide_again(pool, journal, reading, limits, without)
        await self._delete_leftovers(pool, reading, decided)
        return reading, _choice(decided, created, failed)

    @override
    def find_request(self, reading: View, promise: Promise) -> IPAMAllocation | None:
        return find_promised_version(promise, reading.find(promise.holder))

    @override
    async def keep(
        self, pool: IPAMPool, reading: View, granted: Sequence[Granted[IPAMAllocation]]
    ) -> list[Kept[IPAMAllocation]]:
        """Write what is promised.

        A promise of a datacenter that has left the pool cannot be kept any more, so it is voided.
        """
        served_allocations, refused = list[Granted[IPAMAllocation]](), list[Kept[IPAMAllocation]]()
        for promise, allocation in granted:
            datacenter = datacenter_of(promise)
            if datacenter in pool.spec.datacenters:
                served_allocations.append((promise, allocation))
                continue
            why = f"datacenter {datacenter} has left the pool"
            refused.append(Kept(promise, allocation, WriteResult.REFUSED, why, retry_after=RETRY))
        return [*refused, *await self._allocations.keep(served_allocations, pool)]

    @override
    async def void_refused(
        self, pool: IPAMPool, refused: Sequence[Kept[IPAMAllocation]]
    ) -> Sequence[WriteResult]:
        return await self._allocations.void_refused([entry.request for entry in refused])

    @override
    async def finish(
        self,
        pool: IPAMPool,
        reading: View,
        choice: PoolChoice,
        kept: Sequence[Kept[IPAMAllocation]],
        shares: Shares,
    ) -> float | None:
        """Repair allocations, report what is wrong, and defer clusters without allocation."""
        failed = choice.detail.failed
        await self._allocations.repair(self._complete(pool, reading, choice.journal), pool)
        unserved = [*_unmade(failed), *self._list_refused(kept)]
        self._report(pool, reading, choice.detail.decided, unserved)
        if self._defer_refused(shares, failed):
            return RETRY
        return self._allocations.next_in(reading.allocations)

    @override
    def next_pass(self, work: PassWork[IPAMPool, IPAMAllocation, DecidedPool]) -> Outcome:
        return next_after_quiet_period(work, self._settings.quiet_period)

    @override
    async def report_unreadable(self, pool: IPAMPool, unreadable: Unreadable) -> float | None:
        """Report it as an event on the pool, and on each cluster that waits for addresses.

        A cluster whose own allocation cannot be decoded may have its addresses.
        """
        name = pool.metadata.name
        problem = Problem(HOLDERS_UNKNOWN, holders_unknown_message(str(unreadable)))
        allocations = self._caches.allocations
        pool_allocations = allocations.by_index(POOL_INDEX, name)
        served_namespaces = {
            allocation.metadata.namespace
            for allocation in pool_allocations
            if not allocation.empty
        }
        served_namespaces |= {key.namespace for key in allocations.unreadable if key.name == name}
        self._reports.note(
            name,
            {
                cluster.metadata.key: problem
                for datacenter in pool.spec.datacenters
                for cluster in self._caches.list_served(datacenter)
                if cluster.namespace not in served_namespaces
            },
        )
        self._reports.record_pool(pool, [problem])
        return None

    @override
    async def report_pool_refused(self, pool: IPAMPool, error: ApiError) -> None:
        """Leave that to the log: a Cluster does not show whether a pool can be written."""

    def _decide(
        self,
        pool: IPAMPool,
        stored: Journal,
        view: View,
        limits: Limits,
        without: Collection[Key] = frozenset(),
    ) -> Decided:
        """Decide about all datacenters of a pool; nothing is for the clusters `without`."""
        journal = settle(stored, JOURNALS.kind, view)
        room = min(self._settings.batch, JOURNALS.room(journal))
        decided = Decided(journal)
        holdings = self._kept.holdings(pool.metadata.name, spaces_of(pool), view)
        decided.problems += (Problem(INVALID_POOL, fault) for fault in list_pool_faults(pool))
        contents = self._contents(pool, view, decided, without)
        content = PoolContent(pool.metadata.name, contents, holdings, view.find, journal.promises)
        planned = plan(content, room, limits)
        decided.plans, decided.more = planned.by_datacenter, planned.more
        for name, datacenter_plan in planned.by_datacenter.items():
            decided.by_cluster.update(datacenter_plan.by_cluster)
            decided.problems += find_exhausted(name, datacenter_plan)
            if fault := describe_datacenter_fault(pool, name):
                decided.problems.append(Problem(INVALID_POOL, fault))
        for name in sorted(pool.spec.datacenters) if self._spaces.is_known else ():
            sentence = self._spaces.sharing(offers_in(pool, name)).sentence
            if not sentence:
                continue
            problem = Problem(OVERLAPPING, f"datacenter {name}: {sentence}", harmless=True)
            decided.problems.append(problem)
            for cluster in self._caches.list_served(name):
                if decided.by_cluster.get(cluster.metadata.key, problem) is None:
                    decided.by_cluster[cluster.metadata.key] = problem
        return decided

    def _contents(
        self, pool: IPAMPool, view: View, decided: Decided, without: Collection[Key]
    ) -> dict[str, Content]:
        """Return the contents of a pool's datacenters; note those whose settings are invalid.

        Args:
            pool: as it was read.
            view: its allocations.
            decided: has the open promises; gets the problems.
            without: the clusters that get nothing.
        """
        contents: dict[str, Content] = {}
        for name in sorted(pool.spec.datacenters):
            clusters = [
                cluster
                for cluster in self._caches.list_served(name)
                if cluster.metadata.key not in without
            ]
            try:
                space = space_of(pool.spec.datacenters[name])
            except InvalidPool as invalid:
                problem = Problem(INVALID_POOL, "; ".join(invalid.messages))
                message = f"datacenter {name}: {problem.message}"
                decided.problems.append(Problem(INVALID_POOL, message))
                decided.by_cluster.update((cluster.metadata.key, problem) for cluster in clusters)
                continue
            here = [allocation for allocation in view.allocations if allocation.spec.dc == name]
            promises = decided.journal.promises
            promised = [part for promise in promises for part in promise.in_space(name)]
            contents[name] = Content(space, here, clusters, promised)
        return contents

    def _defer_refused(
        self, shares: Shares, failed: Sequence[tuple[ClusterGrant, ControllerError]]
    ) -> bool:
        """Defer the clusters whose allocation is refused for good.

        Returns:
            Whether other allocations could not be created, which may succeed at once.
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
        view: View,
        limits: Limits,
        without: Collection[Key],
    ) -> tuple[View, Decided]:
        """Decide by what there is now, later in a pass.

        A view's allocations are those of when it was made, and what it finds is of now: a promise
        that was kept meanwhile is settled, but its addresses are not among the allocations.

        Raises:
            Behind: the cache was relisted meanwhile.
        """
        revision = stored.revisions.get(JOURNALS.kind, 0)
        view = await self._reader.at_least(pool.metadata.name, revision)
        if view.position < revision:
            raise Behind
        return view, self._decide(pool, stored, view, limits, without)

    async def _delete_leftovers(self, pool: IPAMPool, view: View, decided: Decided) -> None:
        """Delete allocations of other datacenters, and those that stay without addresses."""
        promised = {promise.uid for promise in decided.journal.promises}
        gone = [allocation for plan in decided.plans.values() for allocation in plan.unserved]
        moved = []
        for leftover in view.allocations:
            if leftover.metadata.terminating:
                continue
            cluster = self._caches.cluster_in(leftover.metadata.namespace)
            if cluster is not None and cluster.datacenter not in pool.spec.datacenters:
                moved.append((leftover, cluster))
            elif self._caches.clusters.unreadable:
                continue  # it may be of a cluster that cannot be decoded
            elif cluster is None and leftover.empty and leftover.metadata.uid not in promised:
                gone += [leftover] if is_owned(leftover, pool) else []
        await self._allocations.delete(gone, "it has no addresses, and none are for it")
        moved_away = await self._confirm_leftovers(pool, moved)
        # The cache shows the deletion as soon as the API server has confirmed it.
        self._logged.update(allocation.metadata.uid for allocation in moved_away)
        await self._allocations.delete(moved_away, "its cluster is in no datacenter of the pool")

    async def _confirm_leftovers(
        self, pool: IPAMPool, candidates: Sequence[tuple[IPAMAllocation, Cluster]]
    ) -> list[IPAMAllocation]:
        """Return the allocations whose cluster is in no datacenter of the pool, by live reads.

        Caches may show a past in which it was in another, or in which the pool had other ones.
        """
        live = await self._client.find(POOLS, pool.metadata.key) if candidates else None
        if live is None or live.metadata.uid != pool.metadata.uid:
            return []
        confirmed: list[IPAMAllocation] = []

        async def confirm_one(allocation: IPAMAllocation, key: Key) -> None:
            cluster = await self._client.find(CLUSTERS, key)
            if cluster is not None and cluster.datacenter not in live.spec.datacenters:
                confirmed.append(allocation)

        work = [
            partial(confirm_one, allocation, cluster.metadata.key)
            for allocation, cluster in candidates
        ]
        await run_concurrently(work, self._settings.width)
        return confirmed

    def _list_refused(self, kept: Sequence[Kept[IPAMAllocation]]) -> Iterable[tuple[Key, str]]:
        """Yield the clusters whose addresses could not be written for good, with the reason."""
        for entry in kept:
            cluster = self._caches.cluster_in(entry.request.metadata.namespace)
            if entry.result is WriteResult.REFUSED and cluster is not None:
                yield cluster.metadata.key, entry.why

    def _complete(
        self, pool: IPAMPool, view: View, journal: Journal
    ) -> list[tuple[IPAMAllocation, str]]:
        """Return the allocations of served clusters that wait for nothing, with their type."""
        promised = {promise.uid for promise in journal.promises}
        incomplete = []
        for allocation in view.allocations:
            if (
                allocation.metadata.terminating
                or allocation.empty
                or allocation.metadata.uid in promised
            ):
                continue
            cluster = self._caches.cluster_in(allocation.metadata.namespace)
            if cluster is not None and cluster.datacenter in pool.spec.datacenters:
                incomplete.append((allocation, pool.spec.datacenters[cluster.datacenter].type))
        return incomplete

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
        served_clusters = {
            cluster.metadata.key
            for datacenter in pool.spec.datacenters
            for cluster in self._caches.list_served(datacenter)
        }
        if not self._spaces.is_known:
            # Whether the pool shares addresses is not known yet: what a condition that is True
            # says of that stays until the pass that follows.
            by_cluster = {
                key: problem
                for key, problem in by_cluster.items()
                if problem is not None and not problem.harmless
            }
        self._reports.keep_only(name, served_clusters)
        self._reports.note(name, by_cluster)
        self._reports.record_pool(pool, decided.problems)
        faults = {
            key: fault for plan in decided.plans.values() for key, fault in plan.faults.items()
        }
        self._reports.record_allocations(name, faults, view.find)


def _choice(
    decided: Decided,
    allocations: Mapping[Key, IPAMAllocation],
    failed: Sequence[tuple[ClusterGrant, ControllerError]] = (),
) -> PoolChoice:
    """Return the choice of a pass.

    Args:
        decided: about all datacenters of the pool.
        allocations: by cluster, those that exist; nothing is promised to other clusters.
        failed: the clusters whose allocations could not be created, with the reason.
    """
    keys = ((grant, grant.cluster.metadata.key) for grant in decided.grants)
    pairs = [(grant, allocations[key]) for grant, key in keys if key in allocations]
    granted = [(promise_of(grant, allocation), allocation) for grant, allocation in pairs]
    return Allotment(decided.journal, granted, decided.more, DecidedPool(decided, failed))


def _unmade(failed: Sequence[tuple[ClusterGrant, ControllerError]]) -> Iterable[tuple[Key, str]]:
    """Yield the clusters whose allocations could not be created, with the reason."""
    return ((grant.cluster.metadata.key, str(error)) for grant, error in failed)
