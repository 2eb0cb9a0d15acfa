"""What IPAMAllocations hold of IPAMPools, and which Clusters wait, to be shown and audited.

Each datacenter of a pool hands out by itself, and is shown as a pool of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from allocator import AddressRange, InvalidPool
from controller.meta import Key
from reconcilers.integrations.core.heldparts import HeldPart
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.views import (
    Wanted,
    every_pool,
)
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    JOURNALS,
    POOLS,
    Cluster,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.holdings import (
    Held,
    held,
)
from reconcilers.integrations.kubermatic.reading import (
    POOL_INDEX,
    KubermaticCaches,
    check_readable,
)
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace, space_of
from reconcilers.promises.unreadable import UnreadableObject, find_unreadable
from reconcilers.spaces.offers import PoolName


@dataclass(frozen=True, slots=True)
class DatacenterContents:
    """What one datacenter of a pool may hand out, and what is held of it.

    Args:
        pool: the pool.
        name: of the datacenter.
        space: what it may hand out; None if its settings make no sense.
        fault: why, then.
        allocations: those of the pool whose `dc` is this one.
        waiting: the clusters that lack some.
        clusters: the names of clusters by their namespaces.
        unreadable: allocations of the pool that cannot be decoded.
    """

    pool: IPAMPool
    name: str
    space: DatacenterSpace | None
    fault: str
    allocations: tuple[IPAMAllocation, ...]
    waiting: tuple[Cluster, ...]
    clusters: Mapping[str, str]
    unreadable: Sequence[UnreadableObject] = ()

    def held(self) -> Iterator[HeldPart]:
        """Yield what is held and what is promised."""
        for one in self.allocations:
            for part in held(one.spec).ranges:
                yield HeldPart(part, "held", one.metadata.key)
        by_uid = {one.metadata.uid: one for one in self.allocations}
        for promise in JOURNALS.read(self.pool).promises:
            found = by_uid.get(promise.uid)
            version = found.metadata.resourceVersion if found is not None else ""
            if version == promise.resourceVersion:
                for promised in promise.ranges:
                    yield HeldPart(promised.range, "promised", promise.key)

    def blocks(self) -> list[AddressRange]:
        """Return what is held and what is promised, in blocks of the space."""
        if self.space is None:
            return []
        found = (self.space.blocks(one.range) for one in self.held())
        return [one for one in found if one is not None]


def contents_of(
    caches: KubermaticCaches, wanted: Wanted = every_pool, not_read: Sequence[NotRead] = ()
) -> Iterator[DatacenterContents]:
    """Yield what every pool may hand out and what is held of it, by pool and datacenter.

    Args:
        caches: the objects.
        wanted: which pools.
        not_read: what the user may not read; a cluster whose IPAMAllocation may be among it is
            not known to wait.
    """
    clusters = {one.namespace: one.metadata.name for one in caches.clusters if one.namespace}
    for pool in sorted(caches.pools, key=lambda one: one.metadata.key):
        if not wanted(PoolName(POOLS.kind, pool.metadata.key)):
            continue
        check = partial(check_readable, pool.metadata.name, caches.allocations.unreadable)
        unreadable = find_unreadable(check)
        allocations = list(caches.allocations.by_index(POOL_INDEX, pool.metadata.name))
        for name, settings in sorted(pool.spec.datacenters.items()):
            space, fault = None, ""
            try:
                space = space_of(settings)
            except InvalidPool as invalid:
                fault = "; ".join(invalid.messages)
            here = tuple(sorted((one for one in allocations if one.spec.dc == name), key=_key))
            waiting = tuple(_waiting(caches, pool, name, space, not_read))
            yield DatacenterContents(pool, name, space, fault, here, waiting, clusters, unreadable)


def _key(one: IPAMAllocation) -> Key:
    return one.metadata.key


def _waiting(
    caches: KubermaticCaches,
    pool: IPAMPool,
    name: str,
    space: DatacenterSpace | None,
    not_read: Sequence[NotRead],
) -> Iterator[Cluster]:
    """Yield the clusters of a datacenter that have less than they should."""
    for cluster in caches.served(name):
        key = Key(cluster.namespace, pool.metadata.name)
        if is_left_out(ALLOCATIONS, key, not_read):
            continue
        one = caches.allocations.get(key)
        mine = held(one.spec) if one is not None and one.spec.dc == name else None
        if space is None or mine is None or not _has_all(mine, space):
            yield cluster


def _has_all(mine: Held, space: DatacenterSpace) -> bool:
    """Return whether an allocation has as much as it should have."""
    return mine.prefix is not None if space.prefixes else mine.count >= space.wanted
