"""The promise, checked from outside: no two allocations of a pool ever hold the same address.

`Witness` looks at every change that the API server told of, from the first to the last, and not
only at the ends of steps. The arithmetic is Python's own, none of the allocator's.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from controller.cache import Change
from controller.meta import Key
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.cli.demo.step import Sight
from reconcilers.cli.demo.world import NotYet, World

Span = tuple[int, int]


class Broken(Exception):
    """The promise was broken; waiting cannot mend it."""


class Witness:
    """Sees every change of an allocation and remembers who held what at the same time."""

    def __init__(self) -> None:
        self.changes = 0
        """How many changes there were."""
        self.handed_out: set[tuple[str, Span]] = set()
        """Every range that anybody ever held, with its holder's uid."""
        self.overlaps: list[str] = []
        """What broke the promise, in words."""
        self._held: dict[Key, tuple[str, Span]] = {}

    def see(self, change: Change[IPAllocation]) -> None:
        """Take note of a change."""
        self.changes += 1
        if change.old is not None:
            self._held.pop(change.old.metadata.key, None)
        span = held(change.new) if change.new is not None else None
        if change.new is None or span is None:
            return
        meta, pool = change.new.metadata, change.new.spec.poolRef.name
        for other, (other_pool, theirs) in self._held.items():
            if other_pool == pool and overlap(span, theirs):
                self.overlaps.append(f"in pool {pool}, {meta.name} and {other.name} overlap")
        self._held[meta.key] = (pool, span)
        self.handed_out.add((meta.uid, span))


def held(allocation: IPAllocation) -> Span | None:
    """Return the first and last address in an allocation's status, as numbers."""
    status = allocation.status
    if not status.startAddress or not status.endAddress:
        return None
    return int(ip_address(status.startAddress)), int(ip_address(status.endAddress))


def overlap(one: Span, other: Span) -> bool:
    """Return whether two spans have an address in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def adds_up(world: World) -> Sequence[str]:
    """See, for every pool, that what is held and what is free make the whole."""
    told = []
    for pool in sorted(world.pools, key=lambda one: one.metadata.name):
        status = pool.status
        used = sum(size for size in _sizes(pool, world.allocations))
        if status.allocatedIPs != used or used + status.availableIPs != status.totalIPs:
            raise NotYet(
                f"NetworkPool {pool.metadata.name} says {status.allocatedIPs} used and"
                f" {status.availableIPs} free of {status.totalIPs}; its IPAllocations hold {used}"
            )
        if status.totalIPs:
            told.append(
                f"{pool.metadata.name}: {used} held + {status.availableIPs} free"
                f" = {status.totalIPs}"
            )
    return ["the books balance: " + "; ".join(told)]


def _sizes(pool: NetworkPool, allocations: Iterable[IPAllocation]) -> Iterable[int]:
    for allocation in allocations:
        span = held(allocation)
        if span is not None and allocation.pool_key == pool.metadata.key:
            yield span[1] - span[0] + 1


def vouches(witness: Witness) -> Sight:
    """See that no two ranges ever overlapped."""

    def look(_: World) -> Sequence[str]:
        if witness.overlaps:
            raise Broken("; ".join(witness.overlaps))
        return [
            (
                f"{len(witness.handed_out)} ranges were handed out, {witness.changes} changes of"
                " IPAllocations were seen, and no two ranges ever overlapped"
            )
        ]

    return look


def all_free(name: str) -> Sight:
    """See a pool that has all its addresses back and owes nothing."""

    def look(world: World) -> Sequence[str]:
        pool = world.pool(name)
        status, ranges = pool.status, pool.spec.tenantAllocation
        several = ranges is not None and len(ranges.ranges) > 1
        whole = several or status.largestFreeBlock == status.totalIPs
        if status.availableIPs != status.totalIPs or not whole:
            raise NotYet(
                f"NetworkPool {name} has {status.availableIPs} of {status.totalIPs} free,"
                f" {status.largestFreeBlock} of them in a row"
            )
        if any(a.spec.poolRef.name == name for a in world.allocations):
            raise NotYet(f"there still are IPAllocations of {name}")
        where = "in its ranges" if several else "in one block"
        return [f"NetworkPool {name}: all {status.totalIPs} addresses are free, {where}"]

    return look


def nothing_left(world: World) -> Sequence[str]:
    """See an empty management cluster."""
    for cache in (world.allocations, world.pools, world.providers, world.clusters):
        if len(cache):
            raise NotYet(f"{len(cache)} {cache.resource.plural} are still there")
    return ["no NetworkPool, IPAllocation, ProviderConfig or TenantCluster is left"]
