"""Which cluster of a datacenter gets which addresses of a pool. Pure functions.

The oldest cluster comes first; a smaller request may pass a larger one that does not fit. A range
gets the lowest free addresses, which may be split, and what it has stays in front of what is
added; a prefix gets the lowest free block. What a cluster has is never taken back, except for a
prefix of another length than the pool's, which is replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from allocator import AddressRange, PoolExhausted, Space
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.kubermatic.api import JOURNALS, Cluster, IPAMAllocation
from reconcilers.integrations.kubermatic.facts import holder_in, is_complete
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, Problem, held, problems
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace
from reconcilers.promises.choosing import Choice, Refused, Taken, choose, taken
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder
from reconcilers.promises.journal import Journal, Promise, PromisedRange
from reconcilers.promises.queue import Row
from reconcilers.promises.shares import NO_LIMITS, Limits, Verdict

POOL_EXHAUSTED = "PoolExhausted"
MOST_PARTS = 200
"""One promise is of at most so many ranges; the journal has room for that."""


@dataclass(frozen=True, slots=True)
class ClusterGrant:
    """What a cluster gets.

    Args:
        cluster: the cluster.
        datacenter: where it runs.
        allocation: its allocation; None if it has none yet.
        ranges: what it gets in addition, or, of another datacenter, altogether.
    """

    cluster: Cluster
    datacenter: str
    allocation: IPAMAllocation | None
    ranges: tuple[AddressRange, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one pass is to do about one datacenter of a pool.

    Args:
        grants: what is to be promised.
        by_cluster: the problem of each cluster; None if it has none. Those to which a
            promise is open are missing, and those that a full batch left for the next pass.
        unserved: allocations without addresses for which there are none.
        faults: the problems of allocations.
    """

    grants: list[ClusterGrant] = field(default_factory=list)
    by_cluster: dict[Key, Problem | None] = field(default_factory=dict)
    unserved: list[IPAMAllocation] = field(default_factory=list)
    faults: Mapping[Key, Problem] = field(default_factory=dict)

    def fault_of(self, allocation: IPAMAllocation | None) -> Problem | None:
        """Return the problem of an allocation; None if it has none."""
        return None if allocation is None else self.faults.get(allocation.metadata.key)


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What one pass is to do about all datacenters of a pool.

    Args:
        by_datacenter: the plan of each datacenter.
        more: whether a full batch left others for the next pass.
    """

    by_datacenter: Mapping[str, Plan]
    more: bool


@dataclass(slots=True)
class Decided:
    """What a pass decided about all datacenters of a pool.

    Args:
        journal: the journal as it was, without what is settled.
        plans: the plan of each datacenter that can be served.
        by_cluster: the problem of each cluster; None if it has none.
        problems: those of the pool.
        more: whether a full batch left others for the next pass.
    """

    journal: Journal
    plans: Mapping[str, Plan] = field(default_factory=dict)
    by_cluster: dict[Key, Problem | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    more: bool = False

    @property
    def grants(self) -> list[ClusterGrant]:
        """What is to be promised."""
        return [grant for one in self.plans.values() for grant in one.grants]


def exhausted(name: str, made: Plan) -> Iterable[Problem]:
    """Yield the problem of a datacenter that has not enough for all its clusters."""
    waiting = [one for one in made.by_cluster.values() if one and one.reason == POOL_EXHAUSTED]
    if waiting:
        yield Problem(POOL_EXHAUSTED, f"datacenter {name}: {waiting[0].message}")


class Exhausted(Refused):
    """Too little is free for a cluster, and so for all that ask for as much."""


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of one datacenter of a pool.

    Args:
        space: what it may hand out.
        allocations: those of the pool whose `dc` is this one.
        clusters: those that are served; others wait in vain.
        promised: what is promised and not written yet.
    """

    space: DatacenterSpace
    allocations: Sequence[IPAMAllocation]
    clusters: Sequence[Cluster]
    promised: Sequence[AddressRange] = ()

    @property
    def promised_blocks(self) -> list[AddressRange]:
        """The blocks of what is promised."""
        blocks = map(self.space.blocks, self.promised)
        return [part for part in blocks if part is not None]


@dataclass(frozen=True, slots=True)
class PoolContent:
    """What was read of a pool.

    Args:
        pool: the pool's name.
        datacenters: those that can be served, by name.
        holdings: what is held, and which Clusters wait.
        find: returns the allocation of a holder.
        promises: the open promises.
    """

    pool: str
    datacenters: Mapping[str, Content]
    holdings: Holdings
    find: Find[IPAMAllocation]
    promises: Sequence[Promise] = ()


@dataclass(frozen=True, slots=True)
class ClusterAsker:
    """A Cluster that asks for addresses, and the request that they are written to.

    Args:
        cluster: the cluster.
        allocation: its allocation; None if it has none yet.
    """

    cluster: Cluster
    allocation: IPAMAllocation | None

    @property
    def metadata(self) -> ObjectMeta:
        """Of the allocation; of the cluster, which may be deferred itself, if it has none."""
        return self.cluster.metadata if self.allocation is None else self.allocation.metadata


def plan(content: PoolContent, room: int, limits: Limits = NO_LIMITS) -> PoolPlan:
    """Serve the clusters that wait, the oldest first.

    Clusters that ask for the same number of addresses wait in one row. Once one of them cannot
    have that, none of the others can: free addresses only get fewer. So they are not tried.

    Args:
        content: what was read.
        room: the most ranges to promise.
        limits: which allocations may be promised something.
    """
    plans = {
        name: Plan(faults=problems(one.allocations, one.space))
        for name, one in content.datacenters.items()
    }
    taker = ClusterTaker(content, plans)
    promised = [
        PromisedRange(blocks, name)
        for name, one in content.datacenters.items()
        for blocks in one.promised_blocks
    ]
    with taken(content.holdings, promised):
        choice = choose(content.holdings, [taker], content.promises, room, limits=limits)
    for grant in choice.grants:
        asker, ranges = grant.asker, grant.addresses
        name = asker.cluster.datacenter
        plans[name].grants.append(ClusterGrant(asker.cluster, name, asker.allocation, ranges))
    _note_problems(content, plans, taker, choice, limits)
    return PoolPlan(plans, choice.more)


def _note_problems(
    content: PoolContent,
    plans: Mapping[str, Plan],
    taker: "ClusterTaker",
    choice: Choice[ClusterAsker],
    limits: Limits,
) -> None:
    """Note in the plans the problem of each cluster, and the allocations that stay empty."""
    granted = {grant.holder for grant in choice.grants}
    refused = {
        refusal.holder: Problem(refusal.reason, refusal.message) for refusal in choice.refusals
    }
    rows: dict[Row | None, Problem] = {
        content.holdings.facts(refusal.holder).row: refused[refusal.holder]
        for refusal in choice.refusals
        if refusal.is_shown
    }
    eligibility = limits.eligibility(content.promises)
    promised = {promise.uid for promise in content.promises}
    for holder, asker in taker.askers.items():
        made, key = plans[asker.cluster.datacenter], asker.cluster.metadata.key
        verdict = eligibility.judge(asker.metadata, limits.tenant_of(holder))
        if asker.metadata.uid in promised or verdict is not Verdict.ELIGIBLE:
            continue
        fault, facts = made.fault_of(asker.allocation), content.holdings.facts(holder)
        problem = refused.get(holder) or rows.get(facts.row)
        if facts.place is None:
            made.by_cluster[key] = fault
        elif problem is not None and holder not in granted and not _is_blocking(fault):
            made.by_cluster[key] = problem
            if asker.allocation is not None and asker.allocation.empty:
                made.unserved.append(asker.allocation)
        elif fault is not None or holder in taker.complete:
            made.by_cluster[key] = fault


def _is_blocking(fault: Problem | None) -> bool:
    """Return whether only a person can correct the allocation of a cluster."""
    return fault is not None and fault.reason != OVERLAPPING and not fault.harmless


class ClusterTaker:
    """Takes blocks of the datacenters of a pool in a trial, for one cluster after the other.

    Args:
        content: what was read.
        plans: of the datacenters, with the faults of allocations.
    """

    kind = JOURNALS.kind

    def __init__(self, content: PoolContent, plans: Mapping[str, Plan]) -> None:
        self.askers: dict[Holder, ClusterAsker] = {}
        """The clusters that are served; not those whose allocation is being deleted."""
        self.complete: set[Holder] = set()
        """The clusters that were tried, and have all that they should have by now."""
        self._content = content
        self._plans = plans
        self._chosen = {name: one.promised_blocks for name, one in content.datacenters.items()}
        """By datacenter: the blocks that are promised, or were taken for other clusters."""
        for one in content.datacenters.values():
            for cluster in one.clusters:
                holder = holder_in(cluster.namespace, content.pool)
                allocation = content.find(holder)
                if allocation is None or not allocation.metadata.terminating:
                    self.askers[holder] = ClusterAsker(cluster, allocation)

    def find(self, holder: Holder) -> ClusterAsker | None:
        """Return the cluster of a holder; None if only a person can correct its allocation."""
        asker = self.askers.get(holder)
        if asker is None:
            return None
        fault = self._plans[asker.cluster.datacenter].fault_of(asker.allocation)
        return None if _is_blocking(fault) else asker

    def take(self, asker: ClusterAsker) -> Taken | None:
        """Take what a cluster gets; None if it has all that it should have by now.

        Raises:
            Refused: there is not enough, or its allocation cannot be read; nothing is taken.
        """
        name = asker.cluster.datacenter
        taking = _Taking(self._content, name, self._chosen[name])
        ranges = taking.take(asker.allocation)
        if not ranges:
            self.complete.add(holder_in(asker.cluster.namespace, self._content.pool))
            return None
        return Taken(tuple(PromisedRange(part, name) for part in ranges))

    def shows(self, asker: ClusterAsker, refused: Refused) -> bool:
        """Return whether all clusters of a row are refused as this one is.

        A row does not depend on what its Clusters show: a pass reports to each of them.
        """
        del asker
        return isinstance(refused, Exhausted)


class _Taking:
    """Takes blocks of one datacenter in a trial.

    Args:
        content: of the pool.
        name: of the datacenter.
        chosen: the blocks that are promised, or were taken for other clusters; what is taken is
            added.
    """

    def __init__(self, content: PoolContent, name: str, chosen: list[AddressRange]) -> None:
        self._pool = content.pool
        self._name = name
        self._holdings = content.holdings
        self._space = content.holdings.space(name)
        self._datacenter = content.datacenters[name].space
        self._chosen = chosen

    def take(self, allocation: IPAMAllocation | None) -> tuple[AddressRange, ...]:
        """Return what a cluster gets; nothing if it has all that it should have by now.

        Args:
            allocation: of the cluster; None if it has none yet.

        Raises:
            Refused: there is not enough, or the allocation cannot be read; nothing is taken.
        """
        space = self._datacenter
        if allocation is None or allocation.empty:
            return self._first(space.wanted)
        if is_complete(allocation, self._name, space):
            return ()
        mine = held(allocation.spec)
        if mine.faults:
            raise Refused("InvalidAllocation", "; ".join(mine.faults))
        if allocation.spec.dc != self._name:
            return self._moved(mine.ranges)
        if not space.prefixes:
            return self._first(space.wanted - mine.count)
        return self._replaced(allocation)

    def _first(self, count: int) -> tuple[AddressRange, ...]:
        try:
            taken = self._space.first(count)
        except PoolExhausted:
            raise self._exhausted() from None
        if len(taken) > MOST_PARTS:
            for blocks in reversed(taken):
                self._space.put_back(blocks)
            text = f"{count} addresses would be split into {len(taken)} ranges"
            raise Refused(POOL_EXHAUSTED, f"{text}, more than {MOST_PARTS}")
        self._chosen += taken
        return tuple(self._datacenter.addresses(blocks) for blocks in taken)

    def _replaced(self, allocation: IPAMAllocation) -> tuple[AddressRange, ...]:
        """Return another prefix for an allocation, which may be of the one that it has."""
        holder = holder_in(allocation.metadata.namespace, self._pool)
        others = self._holdings.ranges_of_others(holder, self._name)
        try:
            [blocks] = Space(self._space.layout, [*others, *self._chosen]).first(1)
        except PoolExhausted:
            raise self._exhausted() from None
        self._hold(blocks)
        return (self._datacenter.addresses(blocks),)

    def _moved(self, ranges: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
        """Return what an allocation of another datacenter gets: the same, if it can."""
        space = self._datacenter
        same = [space.blocks(part) for part in ranges]
        mine = [blocks for blocks in same if blocks is not None]
        size = sum(blocks.size for blocks in mine)
        is_free = all(space.hands_out(part) for part in ranges) and not any(
            self._is_taken(blocks) for blocks in mine
        )
        if not is_free or (space.prefixes and size != 1):
            return self._first(space.wanted)
        for blocks in mine:
            self._hold(blocks)
        if size >= space.wanted:
            return tuple(ranges)
        try:
            return (*ranges, *self._first(space.wanted - size))
        except Refused:
            for blocks in reversed(mine):
                self._put_back(blocks)
            raise

    def _is_taken(self, blocks: AddressRange) -> bool:
        """Return whether a holder has some of these blocks, or they were chosen."""
        holdings, name = self._holdings, self._name
        return holdings.other_holder(blocks, space=name) is not None or any(
            blocks.overlaps(chosen) for chosen in self._chosen
        )

    def _hold(self, blocks: AddressRange) -> None:
        self._space.hold(blocks)
        self._chosen.append(blocks)

    def _put_back(self, blocks: AddressRange) -> None:
        """Put back the blocks that were held last."""
        self._space.put_back(blocks)
        self._chosen.pop()

    def _exhausted(self) -> Exhausted:
        name = self._pool
        if self._datacenter.prefixes:
            text = f'there is no free subnet available for IPAM Pool "{name}"'
        else:
            text = f'there is no enough free IPs available for IPAM pool "{name}"'
        return Exhausted(POOL_EXHAUSTED, text)
