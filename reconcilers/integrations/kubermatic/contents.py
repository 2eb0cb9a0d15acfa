"""The addresses that IPAMAllocations hold, and the Clusters that wait, for views and audits.

Each datacenter of a pool hands out addresses of its own, and is shown like a pool.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from allocator import AddressRange, InvalidPool
from controller.meta import Key
from reconcilers.integrations.core.heldparts import HeldPart, list_open_promises
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.views import (
    Wanted,
    want_every_pool,
)
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    JOURNALS,
    POOLS,
    IPAMAllocation,
    IPAMPool,
    KkpCluster,
)
from reconcilers.integrations.kubermatic.holdings import (
    AllocationHoldings,
    parse_holding,
)
from reconcilers.integrations.kubermatic.reading import (
    POOL_INDEX,
    KubermaticCaches,
    check_readable,
)
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace, parse_space
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName


@dataclass(frozen=True, slots=True)
class DatacenterContents:
    """One datacenter of a pool: the addresses that it may hand out, and those that are held.

    Args:
        name: the name of the datacenter.
        space: the addresses that it may hand out; None if its settings are invalid.
        fault: why the settings are invalid; empty if they are valid.
        allocations: the allocations of the pool whose `dc` is this datacenter.
        waiting: the clusters that lack addresses.
        clusters: the names of clusters by their namespaces.
        unreadable: allocations of the pool that cannot be decoded.
    """

    pool: IPAMPool
    name: str
    space: DatacenterSpace | None
    fault: str
    allocations: tuple[IPAMAllocation, ...]
    waiting: tuple[KkpCluster, ...]
    clusters: Mapping[str, str]
    unreadable: Sequence[UnreadableObject] = ()

    def list_held_parts(self) -> Iterator[HeldPart]:
        """Yield the ranges that allocations hold and that the journal promises."""
        for allocation in self.allocations:
            for part in parse_holding(allocation.spec).ranges:
                yield HeldPart(part, "held", allocation.metadata.key)
        by_key = {allocation.metadata.key: allocation for allocation in self.allocations}
        find = find_by_key(JOURNALS.kind, by_key.get)
        for promise in list_open_promises(JOURNALS.read(self.pool), find):
            for promised in promise.ranges:
                yield HeldPart(promised.range, "promised", promise.key)

    def list_blocks(self) -> list[AddressRange]:
        """Return the held and the promised ranges, in blocks of the space."""
        if self.space is None:
            return []
        block_ranges = (self.space.get_blocks(part.range) for part in self.list_held_parts())
        return [blocks for blocks in block_ranges if blocks is not None]


def list_contents(
    caches: KubermaticCaches, is_wanted: Wanted = want_every_pool, not_read: Sequence[NotRead] = ()
) -> Iterator[DatacenterContents]:
    """Yield the space and the holders of each datacenter of each pool, by pool and datacenter.

    Args:
        caches: the objects.
        is_wanted: returns whether to yield a pool.
        not_read: the objects that the user may not read. A cluster does not count as waiting if
            its IPAMAllocation may be one of them.
    """
    clusters = {
        cluster.namespace: cluster.metadata.name
        for cluster in caches.clusters
        if cluster.namespace
    }
    for pool in sorted(caches.pools, key=lambda pool: pool.metadata.key):
        if not is_wanted(PoolName(POOLS.kind, pool.metadata.key)):
            continue
        check = partial(check_readable, pool.metadata.name, caches.allocations.unreadable)
        unreadable = find_unreadable(check)
        allocations = list(caches.allocations.list_by_index(POOL_INDEX, pool.metadata.name))
        for name, settings in sorted(pool.spec.datacenters.items()):
            space, fault = None, ""
            try:
                space = parse_space(settings)
            except InvalidPool as invalid:
                fault = "; ".join(invalid.messages)
            allocations_of_datacenter = tuple(
                sorted(
                    (allocation for allocation in allocations if allocation.spec.dc == name),
                    key=lambda allocation: allocation.metadata.key,
                )
            )
            waiting = tuple(_list_waiting(caches, pool, name=name, space=space, not_read=not_read))
            yield DatacenterContents(
                pool,
                name,
                space=space,
                fault=fault,
                allocations=allocations_of_datacenter,
                waiting=waiting,
                clusters=clusters,
                unreadable=unreadable,
            )


def _list_waiting(
    caches: KubermaticCaches,
    pool: IPAMPool,
    name: str,
    space: DatacenterSpace | None,
    not_read: Sequence[NotRead],
) -> Iterator[KkpCluster]:
    """Yield the clusters of a datacenter that have fewer addresses than they should get.

    If the settings of the datacenter are invalid, all of its clusters wait.
    """
    for cluster in caches.list_served(name):
        key = Key(cluster.namespace, pool.metadata.name)
        if is_left_out(ALLOCATIONS, key, not_read):
            continue  # the cluster may have its addresses
        allocation = caches.allocations.get(key)
        # After a move, the allocation may still have addresses of the old datacenter.
        holding = (
            parse_holding(allocation.spec)
            if allocation is not None and allocation.spec.dc == name
            else None
        )
        if space is None or holding is None or not _has_all_addresses(holding, space):
            yield cluster


def _has_all_addresses(holding: AllocationHoldings, space: DatacenterSpace) -> bool:
    """Return whether an allocation has a prefix, or as many addresses as the pool's spec says."""
    return holding.prefix is not None if space.prefixes else holding.count >= space.block_count
