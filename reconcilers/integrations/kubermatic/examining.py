"""Decide what to do about a Cluster of a pool and its IPAMAllocation, given the plan of a pass.

An allocation without addresses is deleted if the pool has none for it. An allocation whose Cluster
is in no datacenter of the pool is deleted, too. The type and the owner of an allocation with
addresses are corrected. While a promise to the allocation is open, none of this is done.

A *holder* is the pair of a Cluster and its IPAMAllocation. A *row* is all Clusters of a datacenter
that ask for the same number of addresses. A *report* is what the pass notes for a Cluster: its
problem, or that it has none. A pass ends early when its batch is full; then it has not come to
some rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from controller.meta import Key
from reconcilers.integrations.kubermatic.allocations import is_owned
from reconcilers.integrations.kubermatic.api import IPAMAllocation, IPAMPool, KkpCluster
from reconcilers.integrations.kubermatic.facts import make_holder
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.integrations.kubermatic.planning import (
    ClusterAsker,
    PoolContent,
    PoolPlan,
    is_blocking,
)
from reconcilers.promises.identities import Holder
from reconcilers.promises.queue import Row
from reconcilers.promises.shares import Limits, ShareVerdict


@dataclass(frozen=True, slots=True)
class HolderFinding:
    """What a pass found out about one holder.

    Args:
        cluster: the Cluster of the holder; None if the pool does not serve it.
        is_decided: whether `problem` is reported for the Cluster; if not, its last report stays.
        problem: the problem of the Cluster; None if it has none.
        surplus: the allocation of the holder, to be deleted because it has no addresses and gets
            none; else None.
        moved: the allocation and the Cluster, if the Cluster is in no datacenter of the pool; the
            allocation is to be deleted. Else None.
        repair: the allocation and its right type, if its type or its owner is wrong; else None.
        is_settled: whether nothing is left to do until one of the holder's objects changes.
        open_row: the row in which the Cluster waits, if the pass ended before it tried that row.
    """

    holder: Holder
    cluster: Key | None = None
    is_decided: bool = False
    problem: AllocationProblem | None = None
    surplus: IPAMAllocation | None = None
    moved: tuple[IPAMAllocation, KkpCluster] | None = None
    repair: tuple[IPAMAllocation, str] | None = None
    is_settled: bool = True
    open_row: Row | None = None


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is reported for a Cluster.

    Args:
        is_decided: whether `problem` is reported; if not, the last report stays.
        problem: the problem of the Cluster; None if it has none.
        is_unserved: whether its allocation has no addresses and gets none.
        is_settled: whether nothing is left to do until one of the holder's objects changes.
        open_row: the row in which it waits, if the pass ended before it tried that row.
    """

    is_decided: bool = False
    problem: AllocationProblem | None = None
    is_unserved: bool = False
    is_settled: bool = True
    open_row: Row | None = None


_NOT_ASKING = _Decision()
"""Nothing is reported until one of the holder's objects changes."""
_DECIDED_LATER = _Decision(is_settled=False)
"""Nothing is reported until a later pass, which examines the holder again."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What one pass read and planned.

    Args:
        pool: the pool as it was read.
        content: what was read of the datacenters that can be served.
        planned: what the pass promises, and what it cannot serve.
        limits: which allocations may be promised something.
        invalid: the problems of datacenters that cannot be served, by name.
        shared: the problems of datacenters that share addresses with other pools, by name; None
            while it is not known which do.
        find_served: returns the Cluster of a namespace, if it is served.
        has_unreadable_clusters: whether some Cluster cannot be decoded.
        omitted: the holders for which nothing is chosen in this pass, because their allocation
            could not be created.
    """

    pool: IPAMPool
    content: PoolContent
    planned: PoolPlan
    limits: Limits
    invalid: Mapping[str, AllocationProblem]
    shared: Mapping[str, AllocationProblem] | None
    find_served: Callable[[str], KkpCluster | None]
    has_unreadable_clusters: bool
    omitted: Collection[Holder]


class Examiner:
    """Examines the holders of a pool.

    Args:
        situation: what the pass read and planned.
    """

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        """What the pass read and planned."""
        content, planned = situation.content, situation.planned
        self._content = content
        self._planned = planned
        self._eligibility = situation.limits.build_eligibility(content.promises)
        self._promised = {promise.uid for promise in content.promises}
        self._granted = {
            make_holder(grant.cluster.namespace, content.pool) for grant in planned.grants
        }

    def list_affected(self) -> Iterator[Holder]:
        """Yield the holders of open promises, and holders that this pass tried to serve or omits.

        Their findings may differ from those of the last pass although no event came for them.
        """
        promised = (promise.holder for promise in self._content.promises)
        omitted = self.situation.omitted
        return chain(promised, self._granted, self._planned.refused, omitted)

    def examine(self, holder: Holder) -> HolderFinding:
        """Return the finding about a holder."""
        allocation = self._content.find(holder)
        # Nothing is to be done for an allocation that is being deleted.
        if allocation is not None and allocation.metadata.is_terminating:
            allocation = None
        cluster = self.situation.find_served(holder.key.namespace)
        if cluster is None:
            return self._examine_unserved(holder, allocation)
        settings = self.situation.pool.spec.datacenters.get(cluster.datacenter)
        # The Cluster is in no datacenter of the pool.
        if settings is None:
            moved = None if allocation is None else (allocation, cluster)
            return HolderFinding(holder, moved=moved, is_settled=moved is None)
        decision = self._decide(holder, cluster)
        repair = self._find_repair(allocation, settings.type)
        is_promised = allocation is not None and allocation.metadata.uid in self._promised
        return HolderFinding(
            holder,
            cluster.metadata.key,
            is_decided=decision.is_decided,
            problem=decision.problem,
            surplus=allocation if decision.is_unserved else None,
            repair=repair,
            is_settled=decision.is_settled and repair is None and not is_promised,
            open_row=decision.open_row,
        )

    def _find_repair(
        self, allocation: IPAMAllocation | None, allocation_type: str
    ) -> tuple[IPAMAllocation, str] | None:
        """Return an allocation to repair, with its right type; None if nothing is to be repaired.

        Args:
            allocation: the allocation of a Cluster; None if it has none.
            allocation_type: the type that the Cluster's datacenter has in the pool.
        """
        # Writing the promised or first addresses sets the type and the owner, too.
        if allocation is None or allocation.is_empty or allocation.metadata.uid in self._promised:
            return None
        is_owned_by_pool = is_owned(allocation, self.situation.pool)
        is_right = is_owned_by_pool and allocation.spec.type == allocation_type
        return None if is_right else (allocation, allocation_type)

    def _examine_unserved(
        self, holder: Holder, allocation: IPAMAllocation | None
    ) -> HolderFinding:
        """Return the finding about a holder without a served Cluster."""
        pool = self.situation.pool
        # Addresses stay in use while the allocation exists. An empty allocation that the pool does
        # not own was not made here.
        if allocation is None or not allocation.is_empty or not is_owned(allocation, pool):
            return HolderFinding(holder)
        # The allocation may belong to a Cluster that cannot be decoded.
        may_be_used = self.situation.has_unreadable_clusters
        is_kept = may_be_used or allocation.metadata.uid in self._promised
        return HolderFinding(holder, surplus=None if is_kept else allocation, is_settled=False)

    def _decide(self, holder: Holder, cluster: KkpCluster) -> _Decision:
        """Return the report for a Cluster. The first row that applies decides.

        settings of its datacenter invalid         report that
        allocation could not be created now        decide in a later pass
        allocation is being deleted                no report
        `_decide_asker` decides later, or finds    that decision
        a problem that is not harmless
        unknown which pools share addresses        decide in a later pass
        otherwise                                  report its harmless problem, or else that
                                                   its datacenter shares addresses
        """
        if invalid := self.situation.invalid.get(cluster.datacenter):
            return _Decision(is_decided=True, problem=invalid)
        if holder in self.situation.omitted:
            return _DECIDED_LATER
        asker = self._content.find_asker(holder)
        if asker is None:
            return _NOT_ASKING  # its allocation is being deleted
        decision = self._decide_asker(holder, asker)
        if not decision.is_decided or (decision.problem and not decision.problem.is_harmless):
            return decision
        if self.situation.shared is None:
            # It is not known yet whether the pool shares addresses, so the last report stays.
            # Once it is known, a pass examines all holders.
            return _Decision(is_settled=decision.is_settled)
        problem = decision.problem or self.situation.shared.get(cluster.datacenter)
        return _Decision(is_decided=True, problem=problem, is_settled=decision.is_settled)

    def _decide_asker(self, holder: Holder, asker: ClusterAsker) -> _Decision:
        """Return the report for a Cluster that may ask for addresses.

        The report is the refusal if the pass refuses the Cluster or its row, else the problem of
        its allocation. If there is neither, and the Cluster waits, a later pass decides.
        """
        verdict = self._eligibility.judge(asker.metadata, self.situation.limits.get_tenant(holder))
        if asker.metadata.uid in self._promised or verdict is not ShareVerdict.ELIGIBLE:
            return _DECIDED_LATER
        facts, planned = self._content.holdings.get_facts(holder), self._planned
        problem = self._content.find_problem_of(asker)
        # The Cluster does not wait, or waits until a person has corrected its allocation.
        if facts.place is None or is_blocking(problem):
            return _Decision(is_decided=True, problem=problem)
        is_granted = holder in self._granted
        refusal = planned.refused.get(holder) or planned.rows.get(facts.row)
        if refusal is not None and not is_granted:
            is_unserved = asker.allocation is not None and asker.allocation.is_empty
            # Not settled: the empty allocation must be deleted, or the pass tried this Cluster,
            # and the next pass tries it again. Of a row, only the first Cluster is tried.
            is_settled = not is_unserved and holder not in planned.refused
            return _Decision(
                is_decided=True, problem=refusal, is_unserved=is_unserved, is_settled=is_settled
            )
        if problem is not None:
            return _Decision(is_decided=True, problem=problem)
        return _DECIDED_LATER if is_granted else _Decision(open_row=facts.row)
