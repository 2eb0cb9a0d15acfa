"""Checks of the two promises that the controllers make to users.

1. No two allocations of a pool ever hold the same address. `OverlapWatch` checks every change
   that the API server sends, and not only at the ends of steps.
2. A range is free only after its tenant stopped using it. Watches of two API servers do not tell
   which change came first. So `ReleaseWatch` reads the tenant when an allocation becomes Released.
   Addresses that the tenant has then, it had when the range was released.

The checks do not use the arithmetic of the allocator, but Python's own.
"""

from collections import deque
from collections.abc import Sequence
from ipaddress import ip_address

import anyio

from controller.cache import Change
from controller.meta import Key
from reconcilers.api import names
from reconcilers.api.ipallocation import RELEASED, IPAllocation
from reconcilers.api.services import SERVICE
from reconcilers.cli.demo.view import Broken, NotSeenYet, PlatformView, TenantView, take_view_later

Span = tuple[int, int]


def _parse_ends(start: str, end: str) -> Span:
    """Return first and last address as numbers."""
    return int(ip_address(start)), int(ip_address(end))


def _parse_span(allocation: IPAllocation) -> Span | None:
    """Return first and last address of an allocation, as numbers; None if it has no range."""
    start, end = allocation.status.startAddress, allocation.status.endAddress
    return _parse_ends(start, end) if start and end else None


def _do_overlap(span: Span, other: Span) -> bool:
    """Return whether two spans share an address."""
    return span[0] <= other[1] and other[0] <= span[1]


class OverlapWatch:
    """Records each overlap of two ranges of a pool; called for every change of an allocation."""

    def __init__(self) -> None:
        self.changes = 0
        """The number of changes of IPAllocations."""
        self.handed_out: set[tuple[str, Span]] = set()
        """Every range that was ever held, with its holder's uid."""
        self.overlaps: list[str] = []
        """The overlaps, one sentence each."""
        self._held: dict[Key, tuple[str, Span]] = {}
        """The pool and the range of each allocation that has a range now."""

    def record_change(self, change: Change[IPAllocation]) -> None:
        """Count a change, and record each overlap of its range with a range of the same pool."""
        self.changes += 1
        if change.old is not None:
            self._held.pop(change.old.metadata.key, None)
        span = _parse_span(change.new) if change.new is not None else None
        if change.new is None or span is None:
            return
        meta, pool = change.new.metadata, change.new.spec.poolRef.name
        for other, (other_pool, other_span) in self._held.items():
            if other_pool == pool and _do_overlap(span, other_span):
                self.overlaps.append(f"in pool {pool}, {meta.name} and {other.name} overlap")
        self._held[meta.key] = (pool, span)
        self.handed_out.add((meta.uid, span))

    def check_no_overlaps(self, _: PlatformView) -> list[str]:
        """Check that no two ranges ever overlapped; return a line of the story with the numbers.

        Raises:
            Broken: two ranges overlapped.
        """
        if self.overlaps:
            raise Broken("; ".join(self.overlaps))
        change_count = f"{self.changes} changes of IPAllocations were seen"
        ranges = len(self.handed_out)
        return [
            f"{ranges} ranges were handed out, {change_count}, and no two ranges ever overlapped"
        ]


class ReleaseWatch:
    """Reads tenants when ranges are released, and records ranges that they still have."""

    def __init__(self, view: PlatformView) -> None:
        self.checked_count = 0
        """The number of released ranges that were looked for in their tenants."""
        self.late_ranges: list[str] = []
        """The released ranges that tenants still had, one sentence each."""
        self._view = view
        self._released: deque[IPAllocation] = deque()
        self._arrived = anyio.Event()

    def queue_release(self, change: Change[IPAllocation]) -> None:
        """Queue an allocation for `run` if the change released it and its tenant has a server."""
        old, new = change.old, change.new
        # Ranges of nodes are in no load balancer of the tenant.
        if new is None or new.status.phase != RELEASED or new.spec.type == names.TYPE_NODES:
            return
        # An earlier change released the allocation, and queued it then.
        if old is not None and old.status.phase == RELEASED:
            return
        if new.spec.tenantClusterRef.key in self._view.tenants:
            self._released.append(new)
            self._arrived.set()

    async def run(self) -> None:
        """Read the tenant of each queued allocation, until cancelled."""
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            while self._released:
                await self._check_tenant(self._released.popleft())
                # Those who wait for `checked` test their condition again.
                self._view.wake()

    async def _check_tenant(self, allocation: IPAllocation) -> None:
        """Record whether the tenant of a released allocation still has addresses of its range."""
        span = _parse_span(allocation)
        tenant = self._view.tenants[allocation.spec.tenantClusterRef.key]
        name = allocation.metadata.name
        for holder, tenant_span in await _list_live_holdings(tenant):
            if span is not None and _do_overlap(span, tenant_span):
                self.late_ranges.append(
                    f"{name} was released, and {holder} in the tenant still has it"
                )
        self.checked_count += 1

    def check_removed_first(self, _: PlatformView, count: int) -> list[str]:
        """Check that tenants had removed `count` ranges before these were released.

        Returns:
            How many ranges were looked for, as a line of the story.

        Raises:
            Broken: a tenant still had a range that was released.
            NotSeenYet: fewer ranges were released so far.
        """
        if self.late_ranges:
            raise Broken("; ".join(self.late_ranges))
        if self.checked_count < count:
            raise NotSeenYet(
                f"{self.checked_count} of {count} ranges were looked for in their tenants"
            )
        return [f"{count} ranges were looked for in their tenants when released: all were gone"]


async def _list_live_holdings(tenant: TenantView) -> list[tuple[str, Span]]:
    """Return each range in a tenant's pools, and each address of its Services, read live.

    Each entry has kind and name of the object, and then the range that the object has.
    """
    client, kind = tenant.server.client, tenant.pools.resource
    holdings = [
        (f"{kind.kind} {pool.metadata.name}", _parse_ends(*entry.split("-")))
        for pool in (await client.list(kind)).items
        for entry in tenant.balancer.list_entries(pool)
    ]
    holdings += [
        (f"Service {service.metadata.name}", _parse_ends(ingress.ip, ingress.ip))
        for service in (await client.list(SERVICE)).items
        for ingress in service.status.loadBalancer.ingress
    ]
    return holdings


@take_view_later
def check_sums(view: PlatformView) -> Sequence[str]:
    """Check that held and free addresses of each pool add up to its total; return the sums.

    Raises:
        NotSeenYet: the counters of a pool do not match what its IPAllocations hold.
    """
    parts = []
    for pool in sorted(view.pools, key=lambda pool: pool.metadata.name):
        name, status = pool.metadata.name, pool.status
        pool_allocations = (
            allocation
            for allocation in view.allocations
            if allocation.pool_key == pool.metadata.key
        )
        used = sum(
            span[1] - span[0] + 1
            for allocation in pool_allocations
            if (span := _parse_span(allocation))
        )
        if status.allocatedIPs != used or used + status.availableIPs != status.totalIPs:
            raise NotSeenYet(
                f"NetworkPool {name} says {status.allocatedIPs} used and"
                f" {status.availableIPs} free of {status.totalIPs}; its IPAllocations hold {used}"
            )
        # A pool that hands out nothing has no sum to tell.
        if status.totalIPs:
            parts.append(f"{name}: {used} held + {status.availableIPs} free = {status.totalIPs}")
    return ["the addresses add up: " + "; ".join(parts)]


@take_view_later
def check_pool_free(view: PlatformView, name: str) -> list[str]:
    """Check that all addresses of a pool are free; return a line of the story that says so.

    A range that is promised but not written yet counts as allocated, so the check fails. The
    addresses of a pool with one range must also be one free block. A pool with several ranges has
    no block of all its addresses.

    Raises:
        NotSeenYet: some addresses are not free, or IPAllocations of the pool still exist.
    """
    pool = view.get_pool(name)
    status, tenants = pool.status, pool.spec.tenantAllocation
    has_several_ranges = tenants is not None and len(tenants.ranges) > 1
    is_in_one_block = status.largestFreeBlock == status.totalIPs
    if status.availableIPs != status.totalIPs or not (has_several_ranges or is_in_one_block):
        raise NotSeenYet(
            f"NetworkPool {name} has {status.availableIPs} of {status.totalIPs} free,"
            f" {status.largestFreeBlock} of them in a row"
        )
    if any(allocation.spec.poolRef.name == name for allocation in view.allocations):
        raise NotSeenYet(f"there still are IPAllocations of {name}")
    where = "in its ranges" if has_several_ranges else "in one block"
    return [f"NetworkPool {name}: all {status.totalIPs} addresses are free, {where}"]


@take_view_later
def check_all_pools_free(view: PlatformView) -> list[str]:
    """Check that all addresses of all pools are free; return a line of the story for each pool.

    Raises:
        NotSeenYet: some addresses are not free.
    """
    return [line for pool in view.pools for line in check_pool_free(pool.metadata.name)(view)]


@take_view_later
def check_nothing_left(view: PlatformView) -> list[str]:
    """Check that no object of ours is left in the management cluster.

    Raises:
        NotSeenYet: some are still there.
    """
    for cache in (view.allocations, view.pools, view.providers, view.clusters):
        if len(cache):
            raise NotSeenYet(f"{len(cache)} {cache.resource.plural} are still there")
    return ["no NetworkPool, IPAllocation, ProviderConfig or TenantCluster is left"]
