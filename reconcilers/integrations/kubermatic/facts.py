"""Derive from Clusters and IPAMAllocations who holds and who waits in a pool. Pure functions.

A Cluster waits for addresses, and its IPAMAllocation holds them. Both are one *holder*, named by
the key of the IPAMAllocation, even if that does not exist. The *facts* of a holder are its ranges,
and its place in the queue if it waits.

Each datacenter of a pool is a *space*, a set of addresses with the name of the datacenter. A *row*
is all Clusters that ask for the same number of addresses in one datacenter.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from allocator import InvalidPool
from allocator.addresses import BITS
from controller.meta import Key
from reconcilers.integrations.kubermatic.api import JOURNALS, IPAMAllocation, IPAMPool, KkpCluster
from reconcilers.integrations.kubermatic.holdings import parse_holding
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace, parse_space
from reconcilers.promises.holdings import Facts, Holdings, Layouts
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import PromisedRange

Spaces = Mapping[str, DatacenterSpace]
"""What a pool hands out, by datacenter."""
LAST = datetime.max.replace(tzinfo=UTC)
"""The age of an object without creation time: younger than all others."""


class ClusterRow(NamedTuple):
    """The row of Clusters that ask for the same number of blocks in one datacenter.

    Args:
        kind: the full name of the kind of their requests.
        datacenter: the datacenter of the Clusters.
        request: how many blocks each Cluster lacks. If the new addresses of a Cluster depend on
            the addresses that it has, the request is the holder, so that the row has no other
            Cluster.
    """

    kind: str
    datacenter: str
    request: int | Holder


def parse_spaces(pool: IPAMPool) -> Spaces:
    """Return the spaces of a pool's datacenters, without those whose settings are invalid."""
    spaces: dict[str, DatacenterSpace] = {}
    for name, settings in pool.spec.datacenters.items():
        with suppress(InvalidPool):  # the pass reports it
            spaces[name] = parse_space(settings)
    return spaces


def get_layouts(spaces: Spaces) -> Layouts:
    """Return the layouts of spaces by their names."""
    return {name: space.layout for name, space in spaces.items()}


def make_holder(namespace: str, pool: str) -> Holder:
    """Return the holder of a pool's addresses in the namespace of a cluster."""
    return Holder(JOURNALS.kind, Key(namespace, pool))


def is_complete(allocation: IPAMAllocation, datacenter: str, space: DatacenterSpace) -> bool:
    """Return whether an allocation has all addresses that its cluster should get of the pool.

    Args:
        datacenter: the datacenter of the cluster.
        space: the addresses that the pool hands out in that datacenter.
    """
    content = parse_holding(allocation.spec)
    # The addresses of another datacenter do not count after a move.
    if content.faults or allocation.is_empty or allocation.spec.dc != datacenter:
        return False
    if not space.prefixes:
        return content.count >= space.block_count
    # A prefix of another length than the pool's is replaced.
    pool_prefix_length = BITS[space.family] - space.shift
    return content.prefix_length() == pool_prefix_length


def compute_facts(
    holder: Holder,
    allocation: IPAMAllocation | None,
    cluster: KkpCluster | None,
    spaces: Spaces,
) -> Facts | None:
    """Return the ranges of a holder, and its place in the queue if its Cluster waits.

    Args:
        allocation: the IPAMAllocation of the holder; None if it does not exist.
        cluster: the Cluster of the holder; None if it is not served.
        spaces: what the pool hands out.

    Returns:
        The facts; None if the holder has no allocation, and its Cluster asks nothing of this
        pool because it is not served or its datacenter is not among the pool's.
    """
    asked_space = None if cluster is None else spaces.get(cluster.datacenter)
    if allocation is None and asked_space is None:
        return None
    ranges = () if allocation is None else _list_held_ranges(allocation, spaces)
    if cluster is None or asked_space is None:
        return Facts(ranges)
    if allocation is not None and is_complete(allocation, cluster.datacenter, asked_space):
        return Facts(ranges)
    place = cluster.metadata.creationTimestamp or LAST, holder  # the oldest comes first
    row = _make_row(holder, allocation, cluster=cluster, space=asked_space)
    return Facts(ranges, place, row)


def _list_held_ranges(allocation: IPAMAllocation, spaces: Spaces) -> tuple[PromisedRange, ...]:
    """Return the ranges of block numbers that an allocation has addresses of, each once.

    They are in the space of the allocation's own datacenter, because the Cluster may be in another
    by now. The result is empty if the pool does not have that datacenter. Addresses of the other
    family than the space's have no block.
    """
    space = spaces.get(allocation.spec.dc)
    if space is None:
        return ()
    blocks = dict.fromkeys(
        space.get_blocks(addresses) for addresses in parse_holding(allocation.spec).ranges
    )
    return tuple(PromisedRange(block, allocation.spec.dc) for block in blocks if block is not None)


def _make_row(
    holder: Holder, allocation: IPAMAllocation | None, cluster: KkpCluster, space: DatacenterSpace
) -> ClusterRow:
    """Return the row of the queue in which a Cluster waits.

    Clusters that lack the same number of blocks share a row. A Cluster has a row of its own, named
    by its holder, if its new addresses depend on what its IPAMAllocation has.

    Args:
        holder: the holder of the Cluster.
        allocation: the IPAMAllocation of the Cluster; None if it does not exist.
        cluster: the Cluster as it was read.
        space: what the pool hands out in the datacenter of the Cluster.
    """
    row_of_its_own = ClusterRow(holder.kind, cluster.datacenter, holder)
    missing_blocks = space.block_count
    if allocation is not None and not allocation.is_empty:
        content = parse_holding(allocation.spec)
        if content.faults:  # its addresses cannot be parsed
            return row_of_its_own
        if space.prefixes:  # its new prefix replaces the prefix that it has, and may overlap it
            return row_of_its_own
        if allocation.spec.dc != cluster.datacenter:  # it keeps addresses that are free there
            return row_of_its_own
        missing_blocks -= content.count
    return ClusterRow(holder.kind, cluster.datacenter, missing_blocks)


def compute_holdings(
    pool: str,
    spaces: Spaces,
    allocations: Iterable[IPAMAllocation],
    find_cluster: Callable[[str], KkpCluster | None],
    namespaces: Iterable[str],
) -> Holdings:
    """Return the holdings of a pool.

    Args:
        pool: the name of the pool.
        spaces: what the pool hands out.
        allocations: all allocations of the pool.
        find_cluster: returns the served Cluster of a namespace; None if there is none.
        namespaces: the namespaces of all served Clusters.
    """
    by_key = {allocation.metadata.key: allocation for allocation in allocations}
    keys = dict.fromkeys([*by_key, *(Key(namespace, pool) for namespace in namespaces)])
    holdings = Holdings(get_layouts(spaces))
    for key in keys:
        holder = make_holder(key.namespace, key.name)
        facts = compute_facts(
            holder, by_key.get(key), cluster=find_cluster(key.namespace), spaces=spaces
        )
        if facts is not None:
            holdings.put(holder, facts)
    return holdings
