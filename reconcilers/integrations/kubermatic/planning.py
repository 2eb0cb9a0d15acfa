"""Which cluster of a datacenter gets which addresses of a pool. Pure functions.

The oldest cluster comes first; a smaller request may pass a larger one that does not fit. A range
gets the lowest free addresses, which may be split, and what it has stays in front of what is
added; a prefix gets the lowest free block. What a cluster has is never taken back, except for a
prefix of another length than the pool's, which is replaced.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allocator import AddressRange, PoolExhausted, Space
from controller.meta import Key
from reconcilers.integrations.kubermatic.api import JOURNALS, Cluster, IPAMAllocation
from reconcilers.integrations.kubermatic.facts import ClusterRow, holder_in, is_complete
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, Problem, held, problems
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace
from reconcilers.promises.holdings import Holdings, Place
from reconcilers.promises.identities import Find, Holder, Tenant
from reconcilers.promises.journal import Journal
from reconcilers.promises.queue import Row, Turns
from reconcilers.promises.shares import Eligibility, Verdict

POOL_EXHAUSTED = "PoolExhausted"
MOST_PARTS = 200
"""One promise is of at most so many ranges; the journal has room for that."""


@dataclass(frozen=True, slots=True)
class Grant:
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
            promise is open are missing.
        unserved: allocations without addresses for which there are none.
        faults: the problems of allocations.
        more: whether a full batch left others for the next pass.
    """

    grants: list[Grant] = field(default_factory=list)
    by_cluster: dict[Key, Problem | None] = field(default_factory=dict)
    unserved: list[IPAMAllocation] = field(default_factory=list)
    faults: Mapping[Key, Problem] = field(default_factory=dict)
    more: bool = False

    def fault_of(self, allocation: IPAMAllocation | None) -> Problem | None:
        """Return the problem of an allocation; None if it has none."""
        return None if allocation is None else self.faults.get(allocation.metadata.key)


@dataclass(slots=True)
class Decided:
    """What a pass decided about all datacenters of a pool.

    Args:
        journal: the journal as it was, without what is settled.
        room: how many ranges may still be promised.
        plans: the plan of each datacenter that can be served.
        by_cluster: the problem of each cluster; None if it has none.
        problems: those of the pool.
        eligibility: which allocations may be promised something.
    """

    journal: Journal
    room: int
    plans: dict[str, Plan] = field(default_factory=dict)
    by_cluster: dict[Key, Problem | None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    eligibility: Eligibility = field(default_factory=Eligibility)

    @property
    def grants(self) -> list[Grant]:
        """What is to be promised."""
        return [grant for one in self.plans.values() for grant in one.grants]

    @property
    def more(self) -> bool:
        """Whether a full batch left others for the next pass."""
        return any(one.more for one in self.plans.values())


def exhausted(name: str, made: Plan) -> Iterable[Problem]:
    """Yield the problem of a datacenter that has not enough for all its clusters."""
    waiting = [one for one in made.by_cluster.values() if one and one.reason == POOL_EXHAUSTED]
    if waiting:
        yield Problem(POOL_EXHAUSTED, f"datacenter {name}: {waiting[0].message}")


class Refused(Exception):
    """A cluster gets nothing now.

    Args:
        problem: why.
        is_exhausted: whether equal requests are refused as well, because too little is free.
    """

    def __init__(self, problem: Problem, *, is_exhausted: bool = False) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.is_exhausted = is_exhausted


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of one datacenter of a pool.

    Args:
        pool: the pool's name.
        datacenter: the datacenter's name.
        space: what it may hand out.
        allocations: those of the pool whose `dc` is this one.
        holdings: of the pool: what is held, and which Clusters wait.
        promised: what is promised and not written yet, by the uid of the allocation.
        find: returns the allocation of a holder.
        eligibility: which allocations may be promised something.
    """

    pool: str
    datacenter: str
    space: DatacenterSpace
    allocations: Sequence[IPAMAllocation]
    holdings: Holdings
    promised: Mapping[str, Sequence[AddressRange]]
    find: Find[IPAMAllocation]
    eligibility: Eligibility = field(default_factory=Eligibility)

    def may_be_promised(self, cluster: Cluster, allocation: IPAMAllocation | None) -> bool:
        """Return whether something may be promised to the allocation of a cluster now.

        Args:
            cluster: is deferred itself if the creation of its allocation was refused.
            allocation: of the cluster; None if it has none yet.
        """
        if allocation is None:
            return self.eligibility.judge(cluster.metadata, None) is Verdict.ELIGIBLE
        meta = allocation.metadata
        if meta.terminating or meta.uid in self.promised:
            return False
        tenant = Tenant(JOURNALS.kind, meta.namespace)
        return self.eligibility.judge(meta, tenant) is Verdict.ELIGIBLE


def plan(content: Content, clusters: Iterable[Cluster], room: int) -> Plan:
    """Serve the clusters of a datacenter that wait, the oldest first.

    Clusters that ask for the same number of addresses wait in one row. Once one of them cannot
    have that, none of the others can: free addresses only get fewer. So they are not tried.

    Args:
        content: what was read.
        clusters: those that are served; others wait in vain.
        room: the most ranges to promise.
    """
    made = Plan(faults=problems(content.allocations, content.space))
    askers = {holder_in(cluster.namespace, content.pool): cluster for cluster in clusters}
    for holder, cluster in askers.items():
        allocation = content.find(holder)
        is_waiting = content.holdings.facts(holder).place is not None
        if not is_waiting and content.may_be_promised(cluster, allocation):
            made.by_cluster[cluster.metadata.key] = made.fault_of(allocation)
    with content.holdings.trial():
        taking = _Taking(content)
        for cluster, allocation in _waiting(content, askers, made):
            if room <= 0:
                return _with_more(made)
            try:
                ranges = taking.take(allocation, cluster)
            except Refused as refused:
                made.by_cluster[cluster.metadata.key] = refused.problem
                if allocation is not None and allocation.empty:
                    made.unserved.append(allocation)
                continue
            if ranges:
                room -= len(ranges)
                made.grants.append(Grant(cluster, content.datacenter, allocation, ranges))
            else:
                made.by_cluster.setdefault(cluster.metadata.key, None)
    return made


def _waiting(
    content: Content, askers: Mapping[Holder, Cluster], made: Plan
) -> Iterator[tuple[Cluster, IPAMAllocation | None]]:
    """Yield the clusters that may get something, the oldest first, with their allocations.

    The fault of an allocation is noted in the plan, even if its cluster may get something.
    """
    rows: dict[Row, list[Place]] = {
        row: places
        for row, places in content.holdings.queue.items()
        if isinstance(row, ClusterRow) and row.datacenter == content.datacenter
    }
    for _, holder in Turns(rows):
        cluster = askers.get(holder)
        if cluster is None:
            continue
        allocation = content.find(holder)
        if not content.may_be_promised(cluster, allocation):
            continue
        fault = made.fault_of(allocation)
        if fault is not None:
            made.by_cluster[cluster.metadata.key] = fault
            if fault.reason != OVERLAPPING and not fault.harmless:
                continue  # only a person can correct it
        yield cluster, allocation


def _with_more(made: Plan) -> Plan:
    return Plan(made.grants, made.by_cluster, made.unserved, made.faults, more=True)


class _Taking:
    """Takes blocks of a datacenter in a trial, for one cluster after the other."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._space = content.holdings.space(content.datacenter)
        self._chosen: list[AddressRange] = []
        """The blocks that are promised, or were taken for other clusters."""
        self._exhausted_rows: dict[Row | None, Refused] = {}
        """The rows whose requests do not fit any more."""
        for parts in content.promised.values():
            for part in parts:
                blocks = content.space.blocks(part)
                if blocks is not None:
                    self._hold(blocks)

    def take(
        self, allocation: IPAMAllocation | None, cluster: Cluster
    ) -> tuple[AddressRange, ...]:
        """Return what a cluster gets; nothing if it has all that it should have by now.

        Args:
            allocation: of the cluster; None if it has none yet.
            cluster: the cluster.

        Raises:
            Refused: there is not enough, or its allocation cannot be read.
        """
        holder = holder_in(cluster.namespace, self._content.pool)
        row = self._content.holdings.facts(holder).row
        if row in self._exhausted_rows:
            raise self._exhausted_rows[row]
        try:
            return self._take(allocation)
        except Refused as refused:
            if refused.is_exhausted:
                self._exhausted_rows[row] = refused
            raise

    def _take(self, allocation: IPAMAllocation | None) -> tuple[AddressRange, ...]:
        """Return what the cluster of an allocation gets, which is tried."""
        space = self._content.space
        if allocation is None or allocation.empty:
            return self._first(space.wanted)
        if is_complete(allocation, self._content.datacenter, space):
            return ()
        mine = held(allocation.spec)
        if mine.faults:
            raise Refused(Problem("InvalidAllocation", "; ".join(mine.faults)))
        if allocation.spec.dc != self._content.datacenter:
            return self._moved(mine.ranges)
        if not space.prefixes:
            return self._first(space.wanted - mine.count)
        return self._replaced(allocation)

    def _first(self, count: int) -> tuple[AddressRange, ...]:
        try:
            taken = self._space.first(count)
        except PoolExhausted:
            raise self._exhausted() from None
        self._chosen += taken
        if len(taken) > MOST_PARTS:
            text = f"{count} addresses would be split into {len(taken)} ranges"
            raise Refused(Problem(POOL_EXHAUSTED, f"{text}, more than {MOST_PARTS}"))
        return tuple(self._content.space.addresses(blocks) for blocks in taken)

    def _replaced(self, allocation: IPAMAllocation) -> tuple[AddressRange, ...]:
        """Return another prefix for an allocation, which may be of the one that it has."""
        holder = holder_in(allocation.metadata.namespace, self._content.pool)
        others = self._content.holdings.ranges_of_others(holder, self._content.datacenter)
        try:
            [blocks] = Space(self._space.layout, [*others, *self._chosen]).first(1)
        except PoolExhausted:
            raise self._exhausted() from None
        self._hold(blocks)
        return (self._content.space.addresses(blocks),)

    def _moved(self, ranges: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
        """Return what an allocation of another datacenter gets: the same, if it can."""
        space = self._content.space
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
        return (*ranges, *(self._first(space.wanted - size) if size < space.wanted else ()))

    def _is_taken(self, blocks: AddressRange) -> bool:
        """Return whether a holder has some of these blocks, or they were chosen."""
        holdings, name = self._content.holdings, self._content.datacenter
        return holdings.other_holder(blocks, space=name) is not None or any(
            blocks.overlaps(chosen) for chosen in self._chosen
        )

    def _hold(self, blocks: AddressRange) -> None:
        self._space.hold(blocks)
        self._chosen.append(blocks)

    def _exhausted(self) -> Refused:
        name = self._content.pool
        if self._content.space.prefixes:
            text = f'there is no free subnet available for IPAM Pool "{name}"'
        else:
            text = f'there is no enough free IPs available for IPAM pool "{name}"'
        return Refused(Problem(POOL_EXHAUSTED, text), is_exhausted=True)
