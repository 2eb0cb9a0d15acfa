"""Which cluster of a datacenter gets which addresses of a pool. Pure functions.

The oldest cluster comes first; a smaller request is served if a larger, older one does not fit. A
cluster with single addresses gets the lowest free addresses, possibly in several ranges, after
those that it has. A cluster with a prefix gets the lowest free block. A cluster keeps what it has,
except for a prefix of another length than the pool's, which is replaced.

A *trial* takes blocks from the free space only while one pass chooses. A *row* is all Clusters of
a datacenter that ask for the same number of addresses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from allocator import AddressRange, PoolExhausted
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.kubermatic.api import JOURNALS, IPAMAllocation, KkpCluster
from reconcilers.integrations.kubermatic.facts import is_complete, make_holder
from reconcilers.integrations.kubermatic.holdings import (
    OVERLAPPING,
    AllocationProblem,
    parse_holding,
)
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace
from reconcilers.promises.choosing import Refused, ServedAskers, Taken, choose, exclude_ranges
from reconcilers.promises.holdings import Holdings
from reconcilers.promises.identities import Find, Holder
from reconcilers.promises.journal import Promise, PromisedRange
from reconcilers.promises.queue import Row
from reconcilers.promises.shares import NO_LIMITS, Limits

POOL_EXHAUSTED = "PoolExhausted"
MOST_PARTS = 200
"""The most ranges in one promise: the journal, an annotation, has room for so many."""


@dataclass(frozen=True, slots=True)
class ClusterGrant:
    """The addresses that a cluster gets.

    Args:
        datacenter: the name of the datacenter where the cluster runs.
        allocation: the allocation of the cluster; None if it has none yet.
        ranges: the ranges to add. If the allocation is of another datacenter, these are all ranges
            that it is to have.
    """

    cluster: KkpCluster
    datacenter: str
    allocation: IPAMAllocation | None
    ranges: tuple[AddressRange, ...]


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What one pass is to promise to the clusters of a pool, and which it cannot serve.

    Args:
        grants: the addresses to promise.
        refused: by holder, the problem of each cluster that was refused, the oldest first.
        exhausted: by datacenter, the problem of the oldest cluster for which too little is free.
        rows: by row, the problem that all of its clusters have; only the first of them was tried.
        more: whether the batch was full, so that clusters wait for the next pass.
    """

    grants: Sequence[ClusterGrant] = ()
    refused: Mapping[Holder, AllocationProblem] = field(default_factory=dict)
    exhausted: Mapping[str, AllocationProblem] = field(default_factory=dict)
    rows: Mapping[Row, AllocationProblem] = field(default_factory=dict)
    more: bool = False


class Exhausted(Refused):
    """Too few blocks are free for a cluster, and for all clusters that ask for as many."""


@dataclass(frozen=True, slots=True)
class DatacenterContent:
    """What was read of one datacenter of a pool.

    Args:
        space: the addresses that it may hand out.
        promised: the promised ranges that are not written to allocations yet.
    """

    space: DatacenterSpace
    promised: Sequence[AddressRange] = ()

    @property
    def promised_blocks(self) -> list[AddressRange]:
        """The blocks of the promised ranges, without ranges of the other family."""
        blocks = map(self.space.get_blocks, self.promised)
        return [part for part in blocks if part is not None]


@dataclass(frozen=True, slots=True)
class PoolContent:
    """What was read of a pool.

    Args:
        pool: the name of the pool.
        datacenters: by name, the datacenters that can be served.
        holdings: what allocations hold, and which Clusters wait.
        find: returns the allocation of a holder.
        find_cluster: returns the Cluster of a namespace, if something may be promised to it.
        problems: by key of an allocation, its problem.
        promises: the open promises of the pool.
    """

    pool: str
    datacenters: Mapping[str, DatacenterContent]
    holdings: Holdings
    find: Find[IPAMAllocation]
    find_cluster: Callable[[str], KkpCluster | None]
    problems: Mapping[Key, AllocationProblem] = field(default_factory=dict)
    promises: Sequence[Promise] = ()

    def find_asker(self, holder: Holder) -> "ClusterAsker | None":
        """Return the Cluster of a holder, with its allocation, if it may ask for addresses.

        Returns:
            The Cluster; None if it is not served, its datacenter cannot be served, or its
            allocation is being deleted.
        """
        cluster, allocation = self.find_cluster(holder.key.namespace), self.find(holder)
        if cluster is None or cluster.datacenter not in self.datacenters:
            return None
        is_terminating = allocation is not None and allocation.metadata.is_terminating
        return None if is_terminating else ClusterAsker(cluster, allocation)

    def find_problem_of(self, asker: "ClusterAsker") -> AllocationProblem | None:
        """Return the problem of a cluster's allocation.

        None if it has no problem, or if the allocation is of another datacenter. Then the Cluster
        has moved, and the problem does not count in its new datacenter.
        """
        allocation = asker.allocation
        if allocation is None or allocation.spec.dc != asker.cluster.datacenter:
            return None
        return self.problems.get(allocation.metadata.key)


@dataclass(frozen=True, slots=True)
class ClusterAsker:
    """A Cluster that asks for addresses, and the IPAMAllocation to which they are written.

    Args:
        allocation: the IPAMAllocation of the Cluster; None if it does not exist yet.
    """

    cluster: KkpCluster
    allocation: IPAMAllocation | None

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata by which the asker is deferred: the allocation's, or else the cluster's."""
        return self.cluster.metadata if self.allocation is None else self.allocation.metadata


def plan(
    content: PoolContent, room: int, limits: Limits = NO_LIMITS, *, batch: int | None = None
) -> PoolPlan:
    """Return the plan of a pass: the clusters that get addresses, and the refused ones.

    The oldest clusters come first. Clusters that ask for the same number of addresses wait in one
    row. If one of them finds too few free addresses, the others of its row are not tried: free
    addresses only get fewer during a pass.

    Args:
        content: what was read of the pool.
        room: the highest number of ranges to promise.
        limits: which allocations may get a promise in this pass.
        batch: the highest number of promises; None for no limit.
    """
    askers = ServedAskers(ClusterTaker(content))
    promised = [
        PromisedRange(blocks, name)
        for name, datacenter in content.datacenters.items()
        for blocks in datacenter.promised_blocks
    ]
    # Promised blocks are not in the holdings until they are written to allocations.
    with exclude_ranges(content.holdings, promised):
        choice = choose(
            content.holdings, [askers], content.promises, room, batch=batch, limits=limits
        )
    grants = []
    for grant in choice.grants:
        asker, ranges = grant.asker, grant.addresses
        name = asker.cluster.datacenter
        grants.append(
            ClusterGrant(asker.cluster, name, allocation=asker.allocation, ranges=ranges)
        )
    refused = {
        refusal.holder: AllocationProblem(refusal.reason, refusal.message)
        for refusal in choice.refusals
    }
    rows: dict[Row, AllocationProblem] = {
        content.holdings.get_facts(refusal.holder).row: refused[refusal.holder]
        for refusal in choice.refusals
        if refusal.is_shown
    }
    exhausted: dict[str, AllocationProblem] = {}
    for refusal in choice.refusals:  # the oldest first, and `setdefault` keeps the first
        if refusal.reason == POOL_EXHAUSTED:
            exhausted.setdefault(refusal.asker.cluster.datacenter, refused[refusal.holder])
    return PoolPlan(grants, refused, exhausted=exhausted, rows=rows, more=choice.more)


def is_blocking(problem: AllocationProblem | None) -> bool:
    """Return whether only a person can correct the allocation of a cluster.

    An allocation that overlaps another one is served all the same: it may need more addresses.
    """
    return problem is not None and problem.reason != OVERLAPPING and not problem.is_harmless


class ClusterTaker:
    """Takes blocks of the datacenters of a pool in a trial, for one cluster after the other.

    Args:
        content: what was read.
    """

    kind = JOURNALS.kind

    def __init__(self, content: PoolContent) -> None:
        self._content = content
        self._chosen = {
            name: datacenter.promised_blocks for name, datacenter in content.datacenters.items()
        }
        """By datacenter: the blocks that are promised, or were taken for other clusters."""

    def find(self, holder: Holder) -> ClusterAsker | None:
        """Return the cluster of a holder; None if only a person can correct its allocation."""
        asker = self._content.find_asker(holder)
        if asker is None or is_blocking(self._content.find_problem_of(asker)):
            return None
        return asker

    def take(self, asker: ClusterAsker) -> Taken | None:
        """Take the ranges that a cluster lacks; None if its allocation is complete.

        Raises:
            Refused: too few blocks are free, or the allocation cannot be parsed; nothing is taken.
        """
        name = asker.cluster.datacenter
        taking = _Taking(self._content, name, self._chosen[name])
        ranges = taking.take(asker.allocation)
        return Taken(tuple(PromisedRange(part, name) for part in ranges)) if ranges else None

    def is_refusal_shown(self, asker: ClusterAsker, refused: Refused) -> bool:
        """Return whether the refusal of this cluster holds for all clusters of its row.

        Only an exhausted datacenter refuses them all, because they ask for as many addresses.
        Other implementations of `shows` compare the refusal with the status of the asker. Here a
        pass reports to each Cluster of the row, whatever its condition shows.
        """
        del asker
        return isinstance(refused, Exhausted)


class _Taking:
    """Takes blocks of one datacenter in a trial.

    Args:
        content: what was read of the pool.
        name: the name of the datacenter.
        chosen: the blocks of the datacenter that are promised, or were taken for other clusters.
            Each block that is taken here is added to this list.
    """

    def __init__(self, content: PoolContent, name: str, chosen: list[AddressRange]) -> None:
        self._pool = content.pool
        self._name = name
        self._holdings = content.holdings
        self._free_space = content.holdings.get_space(name)
        """The free and the taken blocks; takings change it until the trial ends."""
        self._datacenter = content.datacenters[name].space
        """What the datacenter may hand out by its settings; nothing changes it."""
        self._chosen = chosen

    def take(self, allocation: IPAMAllocation | None) -> tuple[AddressRange, ...]:
        """Take the ranges that a cluster lacks; return none if its allocation is complete.

        Args:
            allocation: the allocation of the cluster; None if it has none yet.

        Raises:
            Refused: too few blocks are free, or the allocation cannot be parsed; nothing is taken.
        """
        space = self._datacenter
        if allocation is None or allocation.is_empty:
            return self._take_lowest(space.block_count)
        if is_complete(allocation, self._name, space):
            return ()
        holding = parse_holding(allocation.spec)
        if holding.faults:
            raise Refused("InvalidAllocation", "; ".join(holding.faults))
        if allocation.spec.dc != self._name:
            return self._move_ranges(holding.ranges)
        if not space.prefixes:
            return self._take_lowest(space.block_count - holding.count)
        # A prefix cannot grow. It is incomplete because its length is not the pool's.
        return self._take_replacement(allocation)

    def _take_lowest(self, count: int) -> tuple[AddressRange, ...]:
        """Take the lowest free blocks and return their addresses.

        Raises:
            Refused: too few are free, or they lie in too many ranges; nothing is taken.
        """
        try:
            taken_ranges = self._free_space.take_lowest(count)
        except PoolExhausted:
            raise self._build_exhausted() from None
        if len(taken_ranges) > MOST_PARTS:
            for blocks in reversed(taken_ranges):  # takings are undone in reverse order
                self._free_space.undo_take(blocks)
            message = f"{count} addresses would be split into {len(taken_ranges)} ranges"
            raise Refused(POOL_EXHAUSTED, f"{message}, more than {MOST_PARTS}")
        self._chosen += taken_ranges
        return tuple(self._datacenter.get_addresses(blocks) for blocks in taken_ranges)

    def _take_replacement(self, allocation: IPAMAllocation) -> tuple[AddressRange, ...]:
        """Take a prefix of the pool's length for an allocation with a prefix of another length.

        The new prefix may overlap the old one, because it replaces that.
        """
        holder = make_holder(allocation.metadata.namespace, self._pool)
        parts = self._holdings.get_facts(holder).ranges
        old_blocks = [part.range for part in parts if part.space == self._name]
        with self._free_space.release_temporarily(old_blocks):
            return self._take_lowest(1)

    def _move_ranges(self, ranges: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
        """Take ranges for a cluster that moved here, whose allocation is of another datacenter.

        Args:
            ranges: the ranges of the allocation. If all are free here, the cluster keeps them and
                gets the ranges that it lacks; otherwise the cluster gets only new ranges.
        """
        space = self._datacenter
        optional_blocks = [space.get_blocks(part) for part in ranges]
        block_ranges = [blocks for blocks in optional_blocks if blocks is not None]
        size = sum(blocks.size for blocks in block_ranges)
        is_free = all(space.hands_out(part) for part in ranges) and not any(
            self._is_taken(blocks) for blocks in block_ranges
        )
        # An allocation has exactly one prefix, of the pool's length, which is one block.
        if not is_free or (space.prefixes and size != 1):
            return self._take_lowest(space.block_count)
        for blocks in block_ranges:
            self._hold(blocks)
        if size >= space.block_count:
            return tuple(ranges)
        try:
            return (*ranges, *self._take_lowest(space.block_count - size))
        except Refused:
            for blocks in reversed(block_ranges):
                self._undo_hold(blocks)
            raise

    def _is_taken(self, blocks: AddressRange) -> bool:
        """Return whether a holder has some of these blocks, or they were chosen."""
        holdings, name = self._holdings, self._name
        return holdings.find_other_holder(blocks, space=name) is not None or any(
            blocks.overlaps(chosen) for chosen in self._chosen
        )

    def _hold(self, blocks: AddressRange) -> None:
        """Take a certain range of free blocks."""
        self._free_space.hold(blocks)
        self._chosen.append(blocks)

    def _undo_hold(self, blocks: AddressRange) -> None:
        """Undo `_hold` for the blocks that were held last."""
        self._free_space.undo_take(blocks)
        self._chosen.pop()

    def _build_exhausted(self) -> Exhausted:
        """Return the error for too few free blocks, with the message of KKP's controller."""
        name = self._pool
        if self._datacenter.prefixes:
            message = f'there is no free subnet available for IPAM Pool "{name}"'
        else:
            message = f'there is no enough free IPs available for IPAM pool "{name}"'
        return Exhausted(POOL_EXHAUSTED, message)
