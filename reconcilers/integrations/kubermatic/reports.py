"""What passes over pools report: in the condition of each Cluster, and as events.

A pool has no status, so each of its problems is an event on the pool, recorded once until the
problem changes. A *report* is what a pass over a pool found for a Cluster: a problem, or None if
the Cluster has its addresses. This module stores it until the pass over the Cluster writes it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from controller.events import Recorder
from controller.meta import Key
from reconcilers.integrations.core.eventmemory import EventMemory
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.promises.identities import Find, Holder

RECONCILING_ERROR = "ReconcilingError"
ACTION = "Reconciling"


class Reports:
    """Stores the report of each pool for each cluster, and which problems have had an event.

    Args:
        recorder: takes the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._problems_by_cluster: dict[Key, dict[str, AllocationProblem | None]] = {}
        """By cluster and pool: the problem; None if the cluster has its addresses."""
        self._clusters_by_pool: dict[str, set[Key]] = {}
        """By pool: the clusters for which the pool has a report."""
        self._recorded_pools: dict[str, tuple[str, frozenset[AllocationProblem]]] = {}
        """By pool: its uid, and the problems for which events were recorded."""
        self._recorded_allocations: dict[str, EventMemory[Key]] = {}
        """By pool and allocation: the problem of the last event."""
        self.changed: Callable[[Key], None] = lambda _: None
        """Called with the key of a Cluster whose reports have changed."""

    def list_for_cluster(self, cluster: Key) -> Mapping[str, AllocationProblem | None]:
        """Return the reports for a cluster by pool: its problem; None for no problem."""
        return self._problems_by_cluster.get(cluster, {})

    def note(self, pool: str, clusters: Mapping[Key, AllocationProblem | None]) -> None:
        """Note the problems that one pass over a pool found; reports of other clusters stay."""
        for key, problem in clusters.items():
            by_pool = self._problems_by_cluster.setdefault(key, {})
            self._clusters_by_pool.setdefault(pool, set()).add(key)
            # None is a report, too: that the cluster has its addresses of the pool.
            if pool not in by_pool or by_pool[pool] != problem:
                by_pool[pool] = problem
                self.changed(key)

    def is_noted(self, pool: str, cluster: Key, problem: AllocationProblem | None) -> bool:
        """Return whether this problem is the last report of a pool for a cluster."""
        by_pool = self._problems_by_cluster.get(cluster, {})
        return pool in by_pool and by_pool[pool] == problem

    def keep_only(self, pool: str, clusters: set[Key]) -> None:
        """Forget the reports of a pool for all clusters except the given ones."""
        self.drop(pool, self._clusters_by_pool.get(pool, set()) - clusters)

    def drop(self, pool: str, clusters: Iterable[Key]) -> None:
        """Forget the reports of a pool for the given clusters."""
        by_pool = self._clusters_by_pool.get(pool, set())
        for key in sorted(by_pool.intersection(clusters)):
            by_pool.discard(key)
            del self._problems_by_cluster[key][pool]
            self.changed(key)

    def forget_cluster(self, cluster: Key) -> None:
        """Forget a cluster that is gone."""
        for pool in self._problems_by_cluster.pop(cluster, {}):
            self._clusters_by_pool[pool].discard(cluster)

    def forget_pool(self, pool: str) -> None:
        """Forget a pool that is gone."""
        self.keep_only(pool, set())
        self._clusters_by_pool.pop(pool, None)
        self._recorded_pools.pop(pool, None)
        self._recorded_allocations.pop(pool, None)

    def record_pool(self, pool: IPAMPool, problems: Sequence[AllocationProblem]) -> None:
        """Record an event for each problem that a pool did not have at the last pass.

        Problems with the same reason make one event.
        """
        name = pool.metadata.name
        texts: dict[str, list[str]] = {}
        for reported_problem in problems:
            texts.setdefault(reported_problem.reason, []).append(reported_problem.message)
        reported_problems = frozenset(
            AllocationProblem(reason, "; ".join(messages)) for reason, messages in texts.items()
        )
        uid, recorded_problems = self._recorded_pools.get(name, ("", frozenset()))
        if uid != pool.metadata.uid:  # a new pool of the same name
            recorded_problems = frozenset()
        for problem in sorted(
            reported_problems - recorded_problems,
            key=lambda problem: (problem.reason, problem.message),
        ):
            self._recorder.record(
                POOLS, pool, "Warning", problem.reason, problem.message, action=ACTION
            )
        self._recorded_pools[name] = pool.metadata.uid, reported_problems

    def record_allocations(
        self,
        pool: str,
        problems: Mapping[Key, AllocationProblem | None],
        find: Find[IPAMAllocation],
        *,
        are_all: bool = False,
    ) -> None:
        """Record an event for each problem that an allocation did not have at the last pass.

        Args:
            problems: the problem of each allocation whose problem may have changed; None for no
                problem. The records of other allocations stay.
            are_all: whether `problems` has all allocations of the pool.
        """
        recorded = self._recorded_allocations.setdefault(pool, EventMemory())
        if are_all:
            recorded.retain(problems)
        for key, problem in problems.items():
            allocation = None if problem is None else find(Holder(JOURNALS.kind, key))
            if allocation is None or problem is None:
                recorded.forget(key)
            elif recorded.note_state(key, allocation.metadata.uid, problem):
                self._recorder.record(
                    ALLOCATIONS,
                    allocation,
                    "Warning",
                    problem.reason,
                    problem.message,
                    action=ACTION,
                )

    def record_error(self, cluster: KkpCluster, pool: IPAMPool, message: str) -> None:
        """Record on a Cluster why it did not get addresses of a pool, with the words of KKP."""
        self._recorder.record(
            CLUSTERS,
            cluster,
            "Warning",
            RECONCILING_ERROR,
            message,
            action=ACTION,
            related=(POOLS, pool),
        )
