"""Store what a pass found out about the Clusters and IPAMAllocations of a pool for the next pass.

A *holder* is the pair of a Cluster and its IPAMAllocation, named by the allocation's key. A *row*
is all Clusters of a datacenter that ask for the same number of addresses. To *examine* a holder is
to find out what to report for its Cluster and what to do about its allocation. A *finding* is the
result. A holder is *settled* if nothing is left to do until one of its objects changes.

A pool may have thousands of clusters, and a pass changes something for few of them. So a pass
examines a holder only if one of these holds:

- One of its objects has changed since the last pass.
- This pass tried to serve it, or a promise to it is open.
- The last pass left it unsettled.
- It waits in a row whose problem has changed. All Clusters of a row that cannot be served have
  one problem.

All holders are examined by the first pass. The same is done if the pool's spec has changed, if
other addresses than before are shared with other pools, or if a LIST was read. From time to time
all holders are examined as a check: a difference from the stored findings is a bug, and is logged.

While allocations of the pool cannot be decoded, no holder is examined, and each Cluster that waits
shows that problem. A pass reports it to Clusters that have changed; if the problem is new, to all.

A pass that fails before its end commits nothing, and the next pass examines at least the same
holders.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.cache import Change
from controller.clock import Clock
from controller.meta import Key
from reconcilers.integrations.kubermatic.allocationproblems import AllocationProblems
from reconcilers.integrations.kubermatic.api import (
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
    KkpPoolSpec,
)
from reconcilers.integrations.kubermatic.examining import Examiner, HolderFinding
from reconcilers.integrations.kubermatic.facts import Spaces, make_holder
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.integrations.kubermatic.planning import ClusterGrant
from reconcilers.integrations.kubermatic.reading import (
    NAMESPACE_INDEX,
    KkpView,
    KubermaticCaches,
    may_affect_addresses,
)
from reconcilers.integrations.kubermatic.reports import Reports
from reconcilers.promises.holdings import Holdings, Place, log_differences
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Journal, Promise
from reconcilers.promises.queue import Row, Rows


@dataclass(frozen=True, slots=True)
class Examination:
    """What one pass found out about the holders of a pool.

    Args:
        findings: one for each examined holder.
        is_whole: whether all holders were examined.
        rows: by row, the problem that all of its Clusters have.
        refused_rows: the rows whose remaining Clusters this pass refuses.
        shared: by datacenter, the problem that it shares addresses; None if that is not known.
    """

    findings: Sequence[HolderFinding] = ()
    is_whole: bool = False
    rows: Mapping[Row, AllocationProblem] = field(default_factory=dict)
    refused_rows: frozenset[Row] = frozenset()
    shared: Mapping[str, AllocationProblem] | None = None

    @property
    def surplus(self) -> list[IPAMAllocation]:
        """The allocations to delete because they have no addresses and get none."""
        return [finding.surplus for finding in self.findings if finding.surplus is not None]

    @property
    def moved(self) -> list[tuple[IPAMAllocation, KkpCluster]]:
        """The allocations whose Clusters are in no datacenter of the pool."""
        return [finding.moved for finding in self.findings if finding.moved is not None]

    def list_repairs(self, promises: Iterable[Promise]) -> list[tuple[IPAMAllocation, str]]:
        """Return the allocations to repair with their types, without those of open promises."""
        promised = {promise.uid for promise in promises}
        repairs = (finding.repair for finding in self.findings if finding.repair is not None)
        return [repair for repair in repairs if repair[0].metadata.uid not in promised]

    @property
    def unfinished(self) -> list[IPAMAllocation]:
        """The allocations to delete or repair, even if an open promise delays that."""
        # Without promises, `list_repairs` leaves no allocation out.
        pairs = [*self.moved, *self.list_repairs(promises=())]
        return [*self.surplus, *(allocation for allocation, _ in pairs)]


@dataclass(slots=True)
class StoredPool:
    """What is stored of one pool between passes.

    Args:
        uid: the uid of the pool.
        spec: the spec of the pool; if it changes, all holders are examined.
        problems: the problems of its allocations, and which allocations overlap.
        is_listed: whether the problems come from a LIST, so that changes of the caches do not
            apply to them.
        checked_at: monotonic seconds of the last examination of all holders.
        changed: the holders that have changed since the problems were computed.
        unsettled: the holders that the next pass has to examine.
        recomputed: the holders whose problems were computed, but not recorded as events yet.
        clusters: by holder, the served Cluster.
        rows: by row, the problem that all of its Clusters have.
        refused_rows: the rows that the last pass refused.
        shared: by datacenter, the problem that it shares addresses; None if that is not known.
        was_examined_wholly: whether all holders were examined once.
        is_checked: whether this pass examines all holders to check what is stored.
    """

    uid: str
    spec: KkpPoolSpec
    problems: AllocationProblems
    is_listed: bool
    checked_at: float
    changed: set[Holder] = field(default_factory=set)
    unsettled: set[Holder] = field(default_factory=set)
    recomputed: set[Holder] = field(default_factory=set)
    clusters: dict[Holder, Key] = field(default_factory=dict)
    rows: Mapping[Row, AllocationProblem] = field(default_factory=dict)
    refused_rows: frozenset[Row] = frozenset()
    shared: Mapping[str, AllocationProblem] | None = None
    was_examined_wholly: bool = False
    is_checked: bool = False


@dataclass(slots=True)
class BlockedPool:
    """What is stored of a pool that hands out nothing because allocations cannot be decoded.

    Args:
        uid: the uid of the pool.
        spec: the spec of the pool. If it changes, the problem is reported for all Clusters again.
        problem: the problem that was last reported for the Clusters that wait.
        changed: the holders that have changed since that report.
    """

    uid: str
    spec: KkpPoolSpec
    problem: AllocationProblem
    changed: set[Holder] = field(default_factory=set)


class KeptFindings:
    """What passes found out about the holders of pools.

    Args:
        caches: the Clusters and IPAMAllocations, whose changes are noted for the next pass.
        reports: what was reported for Clusters; a check compares it with what it finds.
        clock: the time.
        check_interval: seconds between two examinations of all holders.
        on_difference: called with the pool and the parts that a check found to differ: a bug.
    """

    def __init__(
        self,
        caches: KubermaticCaches,
        reports: Reports,
        clock: Clock,
        *,
        check_interval: float,
        on_difference: Callable[[str, list[str]], None] = log_differences,
    ) -> None:
        self._caches = caches
        self._reports = reports
        self._clock = clock
        self._check_interval = check_interval
        self._on_difference = on_difference
        self._pools: dict[str, StoredPool | BlockedPool] = {}
        """By the pool's name. The next pass examines all holders of a pool without entry."""
        caches.allocations.subscribe(self._note_allocation)
        caches.allocations.subscribe_unreadable(self._note_unreadable_allocation)
        caches.clusters.subscribe(self._note_cluster_change)
        caches.clusters.subscribe_unreadable(self._note_unreadable_cluster)

    def forget(self, pool: str) -> None:
        """Forget a pool: the next pass examines all of its holders."""
        self._pools.pop(pool, None)

    def bring_up_to_date(
        self, pool: IPAMPool, spaces: Spaces, view: KkpView, holdings: Holdings
    ) -> StoredPool:
        """Update the problems of a pool's allocations; return what is stored of the pool.

        Args:
            spaces: the addresses that the pool hands out.
            view: the allocations of the pool, read just now.
            holdings: what the allocations of the view hold.
        """
        name, uid, spec = pool.metadata.name, pool.metadata.uid, pool.spec
        # Removed until all is up to date: if anything raises, the next pass examines all holders.
        previous = self._pools.pop(name, None)
        stored = None
        # Changes are noted by events of the caches. They lead from one state of the caches to the
        # next, but not to or from the state of a LIST, which may be newer than the caches.
        if (
            isinstance(previous, StoredPool)
            and (previous.uid, previous.spec) == (uid, spec)
            and not (previous.is_listed or view.is_listed)
        ):
            recomputed = previous.problems.update(previous.changed, holdings, view.find)
            previous.unsettled |= recomputed
            previous.recomputed |= recomputed
            previous.changed.clear()
            previous.is_checked = self._is_check_due(previous)
            are_right = not previous.is_checked or self._are_problems_right(name, previous, view)
            stored = previous if are_right else None
        if stored is None:
            problems = AllocationProblems(spaces, view.list_allocations())
            stored = StoredPool(
                uid,
                spec,
                problems=problems,
                is_listed=view.is_listed,
                checked_at=self._clock.monotonic(),
            )
        self._pools[name] = stored
        return stored

    def report_unreadable(self, pool: IPAMPool, problem: AllocationProblem) -> None:
        """Report a problem for each Cluster that waits, while allocations cannot be decoded.

        The first report of a problem is for all Clusters that wait. While the problem and the
        pool's spec stay the same, later reports are only for Clusters that have changed.

        Args:
            problem: says which allocations cannot be decoded.
        """
        name, uid, spec = pool.metadata.name, pool.metadata.uid, pool.spec
        previous = self._pools.get(name)
        holders: Iterable[Holder]
        blocked = BlockedPool(uid, spec, problem)
        # The changed holders are no part of the comparison: `blocked` has none yet.
        if isinstance(previous, BlockedPool) and replace(previous, changed=set()) == blocked:
            holders = previous.changed
        else:
            holders = self._list_served_holders(pool)
        # A Cluster whose own allocation cannot be decoded gets no report: it may have its
        # addresses.
        clusters = {
            cluster.metadata.key: problem
            for holder in holders
            if not self._may_hold_addresses(holder)
            and (cluster := self._caches.find_cluster(holder.key.namespace)) is not None
            and cluster.datacenter in spec.datacenters
        }
        # This replaces a StoredPool: once all allocations can be decoded, a pass examines all
        # holders.
        self._pools[name] = blocked
        self._reports.note(name, clusters)

    def examine(self, stored: StoredPool, view: KkpView, examiner: Examiner) -> Examination:
        """Examine the holders whose finding may differ from that of the last pass.

        Args:
            stored: the findings of the last pass, as `bring_up_to_date` returned it.
            view: the allocations of the pool; the same that `bring_up_to_date` got.
            examiner: examines one holder.
        """
        situation = examiner.situation
        pool, shared, refused_rows = situation.pool, situation.shared, situation.planned.rows
        queue = situation.content.holdings.queue
        due = stored.unsettled.union(
            examiner.list_affected(), _list_due_in_rows(stored, refused_rows, queue)
        )
        # A row that has left the queue has no Clusters any more, so its problem is dropped.
        rows = {
            row: problem
            for row, problem in {**stored.rows, **refused_rows}.items()
            if row in queue
        }
        # Each Cluster shows which addresses its datacenter shares, so if these have changed, all
        # reports may differ.
        is_whole = not stored.was_examined_wholly or stored.shared != shared
        holders = due
        if is_whole or stored.is_checked:
            holders = due.union(self._list_holders(pool, view.list_allocations()))
        findings = [examiner.examine(holder) for holder in sorted(holders)]
        # The finding of a due holder may differ from the stored finding. The other holders had no
        # change, so a different finding is a bug.
        if stored.is_checked and not is_whole:
            others = (finding for finding in findings if finding.holder not in due)
            self._report_differences(pool.metadata.name, stored, others)
        return Examination(
            findings,
            is_whole=is_whole or stored.is_checked,
            rows=rows,
            refused_rows=frozenset(refused_rows),
            shared=shared,
        )

    def commit(
        self,
        pool: IPAMPool,
        view: KkpView,
        examination: Examination,
        failed: Mapping[Holder, tuple[Key, AllocationProblem]],
    ) -> None:
        """Report what a pass found out, and store it for the next pass, at the end of a pass.

        Args:
            view: the allocations of the pool.
            examination: the last examination of the pass.
            failed: by holder, the Cluster for which a write failed, with the problem.
        """
        name, findings = pool.metadata.name, examination.findings
        stored = self._pools.get(name)
        if not isinstance(stored, StoredPool):
            return  # the pool was forgotten during the pass
        examined = {finding.holder for finding in findings}
        self._report_clusters(name, stored, examination=examination, failed=failed)
        recorded = stored.recomputed.union(examined if examination.is_whole else ())
        self._reports.record_allocations(
            name,
            {holder.key: stored.problems.by_key.get(holder.key) for holder in sorted(recorded)},
            view.find,
            are_all=examination.is_whole,
        )
        stored.recomputed.clear()
        stored.unsettled -= examined
        stored.unsettled.update(finding.holder for finding in findings if not finding.is_settled)
        stored.unsettled.update(failed)
        # The pass ended before it tried these rows. So the stored problem of such a row may no
        # longer hold.
        open_rows = {finding.open_row for finding in findings}
        stored.rows = {
            row: problem for row, problem in examination.rows.items() if row not in open_rows
        }
        stored.refused_rows, stored.shared = examination.refused_rows, examination.shared
        if examination.is_whole:
            stored.was_examined_wholly, stored.checked_at = True, self._clock.monotonic()

    def _report_clusters(
        self,
        pool: str,
        stored: StoredPool,
        examination: Examination,
        failed: Mapping[Holder, tuple[Key, AllocationProblem]],
    ) -> None:
        """Report the problems of Clusters; drop the reports of Clusters no longer served.

        Args:
            pool: the name of the pool.
            examination: the examination of the pool's holders.
            failed: by holder, the Cluster for which a write failed, with the problem.
        """
        findings = examination.findings
        served_clusters = {
            finding.holder: finding.cluster for finding in findings if finding.cluster is not None
        }
        if examination.is_whole:
            self._reports.keep_only(pool, set(served_clusters.values()))
            stored.clusters = served_clusters
        else:
            earlier_clusters = {stored.clusters.pop(finding.holder, None) for finding in findings}
            stored.clusters |= served_clusters
            unserved = earlier_clusters - {*served_clusters.values()}
            self._reports.drop(pool, [cluster for cluster in unserved if cluster is not None])
        stored.clusters |= {holder: cluster for holder, (cluster, _) in failed.items()}
        problems = {
            finding.cluster: finding.problem
            for finding in findings
            if finding.is_decided and finding.cluster is not None
        }
        # The problem of a failed write comes last, because it overrides the decided problem.
        self._reports.note(pool, {**problems, **dict(failed.values())})

    def _is_check_due(self, stored: StoredPool) -> bool:
        """Return whether a check interval has passed since all holders were last examined."""
        return self._clock.monotonic() - stored.checked_at >= self._check_interval

    def _list_holders(
        self, pool: IPAMPool, allocations: Iterable[IPAMAllocation]
    ) -> Iterator[Holder]:
        """Yield the holders of a pool: of all allocations, and of all Clusters that it serves."""
        for allocation in allocations:
            yield make_holder(allocation.metadata.namespace, pool.metadata.name)
        yield from self._list_served_holders(pool)

    def _list_served_holders(self, pool: IPAMPool) -> Iterator[Holder]:
        """Yield the holders of all Clusters that a pool serves."""
        for datacenter in pool.spec.datacenters:
            for cluster in self._caches.list_served(datacenter):
                yield make_holder(cluster.namespace, pool.metadata.name)

    def _may_hold_addresses(self, holder: Holder) -> bool:
        """Return whether a holder has addresses, or its allocation cannot be decoded."""
        allocations = self._caches.allocations
        allocation = allocations.get(holder.key)
        has_addresses = allocation is not None and not allocation.is_empty
        return has_addresses or holder.key in allocations.unreadable

    def _are_problems_right(self, pool: str, stored: StoredPool, view: KkpView) -> bool:
        """Return whether stored problems equal newly computed ones; report each difference."""
        problems = AllocationProblems(stored.problems.spaces, view.list_allocations())
        parts = stored.problems.list_differences(problems)
        if parts:
            self._on_difference(pool, parts)
        return not parts

    def _report_differences(
        self, pool: str, stored: StoredPool, findings: Iterable[HolderFinding]
    ) -> None:
        """Report where findings of unchanged holders differ from what is stored."""
        parts = [
            part for finding in findings for part in self._list_differences(pool, stored, finding)
        ]
        if parts:
            self._on_difference(pool, parts)

    def _list_differences(
        self, pool: str, stored: StoredPool, finding: HolderFinding
    ) -> Iterator[str]:
        """Yield a description of each part of a finding that differs from what is stored."""
        holder, cluster = finding.holder, finding.cluster
        if stored.clusters.get(holder) != cluster:
            yield f"Cluster of {holder.key}"
        if not finding.is_settled:
            yield f"IPAMAllocation {holder.key}"
        # A finding without decision leaves the last report as it is, so there is none to compare.
        if cluster is None or not finding.is_decided:
            return
        if not self._reports.is_noted(pool, cluster, finding.problem):
            yield f"report for {holder.key}"

    def _note_allocation(self, change: Change[IPAMAllocation]) -> None:
        """Note that an allocation was created, changed or deleted."""
        state = change.new or change.old
        if state is not None:
            self._note_holder(state.metadata.name, state.metadata.namespace)

    def _note_unreadable_allocation(self, key: Key) -> None:
        """Note that an allocation can no longer be decoded, or can be again."""
        self._note_holder(key.name, key.namespace)

    def _note_cluster_change(self, change: Change[KkpCluster]) -> None:
        """Note a change of a Cluster for the pools that served it before or serve it now.

        The old and the new state may name different datacenters, and so different pools. Changes
        of fields that no pass reads are ignored: KKP writes the status of a Cluster often.
        """
        if may_affect_addresses(change):
            for cluster in (change.old, change.new):
                if cluster is not None:
                    self._note_cluster(cluster)

    def _note_unreadable_cluster(self, key: Key) -> None:
        """Note that a Cluster can no longer be decoded, or can be again."""
        cluster = self._caches.clusters.get(key)
        # A Cluster that could never be decoded is in no finding yet.
        if cluster is not None:
            self._note_cluster(cluster)

    def _note_cluster(self, cluster: KkpCluster) -> None:
        """Note a Cluster as changed in the pools of its datacenter and of its allocations."""
        if not cluster.namespace:
            return  # a Cluster without namespace is not part of a holder yet
        for name, stored in self._pools.items():
            if cluster.datacenter in stored.spec.datacenters:
                self._note_holder(name, cluster.namespace)
        for allocation in self._caches.allocations.list_by_index(
            NAMESPACE_INDEX, cluster.namespace
        ):
            self._note_holder(allocation.metadata.name, cluster.namespace)

    def _note_holder(self, pool: str, namespace: str) -> None:
        """Note that something of a holder has changed."""
        stored = self._pools.get(pool)
        # The next pass examines all holders of a pool that is not stored.
        if stored is not None:
            stored.changed.add(make_holder(namespace, pool))


def _list_due_in_rows(
    stored: StoredPool, refused_rows: Mapping[Row, AllocationProblem], queue: Rows[Place]
) -> Iterator[Holder]:
    """Yield the holders in rows whose report may change by this pass.

    - This pass refuses a row with another problem than the stored one: all Clusters of the row.
    - Exactly one of the last pass and this pass refuses a row: the Clusters of the row whose
      allocation has a problem. Such a Cluster shows the problem of the row while the row is
      refused, and otherwise the problem of its allocation.

    Args:
        refused_rows: the problems of the rows that this pass refuses.
        queue: the Clusters that wait.
    """
    for row, problem in refused_rows.items():
        if stored.rows.get(row) != problem:
            yield from (holder for _, holder in queue.get(row, ()))
    for row in stored.refused_rows ^ refused_rows.keys():  # refused by exactly one of the passes
        holders = (holder for _, holder in queue.get(row, ()))
        yield from (holder for holder in holders if holder.key in stored.problems.by_key)


@dataclass(slots=True)
class IPAMPoolDecision:
    """What a pass decided about all datacenters of a pool.

    Args:
        journal: the journal that the pass read, without the promises that are over.
        grants: the addresses to promise to clusters.
        examination: the findings about clusters and allocations.
        problems: the problems of the pool itself.
        more: whether the batch was full, so that Clusters wait for the next pass.
    """

    journal: Journal
    grants: Sequence[ClusterGrant] = ()
    examination: Examination = field(default_factory=Examination)
    problems: Sequence[AllocationProblem] = ()
    more: bool = False
