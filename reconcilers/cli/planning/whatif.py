"""What a plan does to the pools: their free space before and after, and what more would fit."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator import AddressRange, Capacity, InvalidPool, PoolExhausted, Space
from controller.meta import Key
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.planning.ledger import Ledger
from reconcilers.cli.reading.manifests import Manifests


@dataclass(frozen=True, slots=True)
class Size:
    """What one tenant takes of a pool, in addresses.

    Args:
        nodes: for its nodes, in a row; 0 for none.
        balancers: for its load balancers, in a row; 0 for none.
    """

    nodes: int
    balancers: int

    @property
    def text(self) -> str:
        """As it was given: `5+8`."""
        return f"{self.nodes}+{self.balancers}"


@dataclass(frozen=True, slots=True)
class Standing:
    """A pool's space at one time.

    Args:
        capacity: what is held and what is free.
        fits: how many more tenants of each size find room, load balancers before nodes.
    """

    capacity: Capacity
    fits: Mapping[Size, int]


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one pool."""

    pool: NetworkPool
    before: Standing
    after: Standing


def changes(read: Manifests, ledger: Ledger, sizes: Sequence[Size], most: int) -> list[Change]:
    """Return what becomes of every pool that can be served from.

    Args:
        read: the objects as they were.
        ledger: the objects as they would be.
        sizes: of tenants to try.
        most: the largest pool, in addresses.
    """
    earlier = [one.object for one in read.allocations]
    later = list(ledger.allocations)
    statuses = {one.key: one.object for one in read.pools}
    found = []
    for pool in ledger.pools:
        before = _standing(statuses[pool.metadata.key], earlier, sizes, most)
        after = _standing(pool, later, sizes, most)
        if before is not None and after is not None:
            found.append(Change(pool, before, after))
    return found


def _standing(
    pool: NetworkPool, allocations: Iterable[IPAllocation], sizes: Sequence[Size], most: int
) -> Standing | None:
    try:
        layout = ranges.layout(pool.spec, most)
    except InvalidPool:
        return None
    taken = list(_taken(pool, allocations))
    closed = pool.metadata.terminating
    fits = {one: 0 if closed else more(Space(layout, taken), one) for one in sizes}
    return Standing(Space(layout, taken).capacity(), fits)


def _taken(pool: NetworkPool, allocations: Iterable[IPAllocation]) -> Iterator[AddressRange]:
    key: Key = pool.metadata.key
    of_pool = [one for one in allocations if one.pool_key == key]
    found = [ranges.held(one) for one in of_pool]
    found += [ranges.promised(one) for one in pool.status.assignments]
    yield from (one for one in found if one is not None)


def more(space: Space, size: Size) -> int:
    """Return how many tenants of a size find room, by the controllers' own choice of ranges.

    Args:
        space: what is free; used up in the counting.
        size: of each.
    """
    wanted = [count for count in (size.balancers, size.nodes) if count]
    if len(wanted) == 1:
        return sum(extent.size // wanted[0] for extent in space.free_extents())
    served = 0
    while True:
        try:
            for count in wanted:
                space.allocate(count)
        except PoolExhausted:
            return served
        served += 1


def report(found: Iterable[Change]) -> dict[str, Any]:
    """Return the changes as a document for programs."""
    return {
        "apiVersion": "report.butler-ipam/v1",
        "kind": "PoolForecastList",
        "items": [
            {
                "namespace": one.pool.metadata.namespace,
                "name": one.pool.metadata.name,
                "cidr": one.pool.spec.cidr,
                "before": _figures(one.before),
                "after": _figures(one.after),
            }
            for one in found
        ],
    }


def _figures(standing: Standing) -> dict[str, Any]:
    capacity = standing.capacity
    return {
        "total": capacity.total,
        "allocated": capacity.allocated,
        "available": capacity.available,
        "largestFreeBlock": capacity.largest_free,
        "fragmentationPercent": capacity.fragmentation_percent,
        "fits": [
            {"nodes": size.nodes, "loadBalancers": size.balancers, "tenants": count}
            for size, count in standing.fits.items()
        ],
    }
