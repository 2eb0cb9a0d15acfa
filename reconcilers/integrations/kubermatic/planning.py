"""Which cluster of a datacenter gets which addresses of a pool. Pure functions.

The oldest cluster comes first; a smaller request may pass a larger one that does not fit. A range
gets the lowest free addresses, which may be split, and what it has stays in front of what is
added; a prefix gets the lowest free block. What a cluster has is never taken back, except for a
prefix of another length than the pool's, which is replaced.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from allocator import AddressRange, PoolExhausted, Space
from controller.meta import Key
from reconcilers.integrations.kubermatic.api import Cluster, IPAMAllocation
from reconcilers.integrations.kubermatic.holdings import OVERLAPPING, Problem, held, problems
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace
from reconcilers.promises.journal import Journal
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


@dataclass(slots=True)
class Decided:
    """What a pass decided about all datacenters of a pool.

    Args:
        journal: the journal as it was, without what is settled.
        plans: the plan of each datacenter that can be served.
        by_cluster: the problem of each cluster; None if it has none.
        problems: those of the pool.
        eligibility: which allocations may be promised something.
    """

    journal: Journal
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
    """A cluster gets nothing now."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of one datacenter of a pool.

    Args:
        pool: the pool's name.
        datacenter: the datacenter's name.
        space: what it may hand out.
        allocations: those of the pool whose `dc` is this one.
        promised: what is promised and not written yet, by the uid of the allocation.
        find: returns the allocation of the pool in a namespace.
        eligibility: which allocations may be promised something.
    """

    pool: str
    datacenter: str
    space: DatacenterSpace
    allocations: Sequence[IPAMAllocation]
    promised: Mapping[str, Sequence[AddressRange]]
    find: Callable[[str], IPAMAllocation | None]
    eligibility: Eligibility = field(default_factory=Eligibility)

    def may_be_promised(self, cluster: Cluster, allocation: IPAMAllocation | None) -> bool:
        """Return whether something may be promised to the allocation of a cluster now.

        Args:
            cluster: is deferred itself if the creation of its allocation was refused.
            allocation: of the cluster; None if it has none yet.
        """
        if allocation is None:
            return self.eligibility.judge(cluster.metadata, "") is Verdict.ELIGIBLE
        meta = allocation.metadata
        if meta.terminating or meta.uid in self.promised:
            return False
        return self.eligibility.judge(meta, meta.namespace) is Verdict.ELIGIBLE


def plan(content: Content, clusters: Iterable[Cluster], room: int) -> Plan:
    """Serve the clusters of a datacenter, in order.

    Args:
        content: what was read.
        clusters: those that are served, the oldest first.
        room: the most ranges to promise.
    """
    made = Plan(faults=problems(content.allocations, content.space))
    taking = _Taking(content)
    for cluster in clusters:
        allocation = content.find(cluster.namespace)
        if not content.may_be_promised(cluster, allocation):
            continue
        if allocation is not None:
            fault = made.faults.get(allocation.metadata.key)
            if fault is not None:
                made.by_cluster[cluster.metadata.key] = fault
                if fault.reason != OVERLAPPING and not fault.harmless:
                    continue  # only a person can correct it
        if room <= 0:
            return _with_more(made)
        try:
            ranges = taking.take(allocation)
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


def _with_more(made: Plan) -> Plan:
    return Plan(made.grants, made.by_cluster, made.unserved, made.faults, more=True)


class _Taking:
    """Takes blocks of a datacenter, for one cluster after the other."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._taken = [
            (one.metadata.uid, blocks)
            for one in content.allocations
            for part in held(one.spec).ranges
            if (blocks := content.space.blocks(part)) is not None
        ]
        self._taken += [
            (uid, blocks)
            for uid, parts in content.promised.items()
            for part in parts
            if (blocks := content.space.blocks(part)) is not None
        ]
        self._space = Space(content.space.layout, [blocks for _, blocks in self._taken])

    def take(self, allocation: IPAMAllocation | None) -> tuple[AddressRange, ...]:
        """Return what an allocation gets; nothing if it has all that it should have.

        Raises:
            Refused: there is not enough, or it cannot be read.
        """
        space = self._content.space
        if allocation is None or allocation.empty:
            return self._first(space.wanted)
        mine = held(allocation.spec)
        if mine.faults:
            raise Refused(Problem("InvalidAllocation", "; ".join(mine.faults)))
        if allocation.spec.dc != self._content.datacenter:
            return self._moved(mine.ranges)
        if not space.prefixes:
            missing = space.wanted - mine.count
            return self._first(missing) if missing > 0 else ()
        if mine.prefix is not None and mine.prefix_length() == self._length:
            return ()
        return self._replaced(allocation)

    @property
    def _length(self) -> int:
        space = self._content.space
        return (32 if space.family == 4 else 128) - space.shift

    def _first(self, count: int) -> tuple[AddressRange, ...]:
        try:
            taken = self._space.first(count)
        except PoolExhausted:
            raise Refused(self._exhausted()) from None
        for blocks in taken:
            self._taken.append(("", blocks))
        if len(taken) > MOST_PARTS:
            text = f"{count} addresses would be split into {len(taken)} ranges"
            raise Refused(Problem(POOL_EXHAUSTED, f"{text}, more than {MOST_PARTS}"))
        return tuple(self._content.space.addresses(blocks) for blocks in taken)

    def _replaced(self, allocation: IPAMAllocation) -> tuple[AddressRange, ...]:
        """Return another prefix for an allocation, which may be of the one that it has."""
        others = [blocks for uid, blocks in self._taken if uid != allocation.metadata.uid]
        try:
            [blocks] = Space(self._content.space.layout, others).first(1)
        except PoolExhausted:
            raise Refused(self._exhausted()) from None
        self._hold(blocks)
        return (self._content.space.addresses(blocks),)

    def _moved(self, ranges: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
        """Return what an allocation of another datacenter gets: the same, if it can."""
        space = self._content.space
        same = [space.blocks(part) for part in ranges]
        mine = [blocks for blocks in same if blocks is not None]
        size = sum(blocks.size for blocks in mine)
        free = all(space.hands_out(part) for part in ranges) and not any(
            blocks.overlaps(other) for blocks in mine for _, other in self._taken
        )
        if not free or (space.prefixes and size != 1):
            return self._first(space.wanted)
        for blocks in mine:
            self._hold(blocks)
        return (*ranges, *(self._first(space.wanted - size) if size < space.wanted else ()))

    def _hold(self, blocks: AddressRange) -> None:
        self._space.hold(blocks)
        self._taken.append(("", blocks))

    def _exhausted(self) -> Problem:
        name = self._content.pool
        if self._content.space.prefixes:
            text = f'there is no free subnet available for IPAM Pool "{name}"'
        else:
            text = f'there is no enough free IPs available for IPAM pool "{name}"'
        return Problem(POOL_EXHAUSTED, text)
