"""Drives a controller by the API alone: creates and deletes IPAllocations, and watches them.

Nothing here belongs to the controller that is measured, so the same driver serves any of them, and
what it sees is what every client would see.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
import msgspec
from aiohttp import ClientSession

from tests.bench.api import Api, Request
from tests.bench.overlaps import Overlaps

GROUP = "butler.butlerlabs.dev"
NAMESPACE = "butler-system"
POOL = "bench"
FINALIZER = f"{GROUP}/ipallocation"
PATIENCE = 600.0
LONGEST_EVENT = 2**22
_PATH = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}"
ALLOCATIONS = f"{_PATH}/ipallocations"
POOLS = f"{_PATH}/networkpools"

T = TypeVar("T")


class Condition(msgspec.Struct):
    """A condition."""

    type: str
    status: str


class Metadata(msgspec.Struct):
    """What tells objects apart."""

    name: str
    uid: str


class Range(msgspec.Struct):
    """A first and a last address."""

    startAddress: str = ""
    endAddress: str = ""


class AllocationStatus(msgspec.Struct):
    """What an IPAllocation was given."""

    phase: str = ""
    startAddress: str = ""
    endAddress: str = ""
    families: list[Range] = []

    @property
    def ranges(self) -> list[tuple[str, str]]:
        """Its ranges: one, or one of each family."""
        ranges = self.families or [Range(self.startAddress, self.endAddress)]
        return [(family_range.startAddress, family_range.endAddress) for family_range in ranges]


class Allocation(msgspec.Struct):
    """An IPAllocation."""

    metadata: Metadata
    status: AllocationStatus = msgspec.field(default_factory=AllocationStatus)


class PoolStatus(msgspec.Struct):
    """What a NetworkPool counts."""

    allocatedIPs: int = 0
    allocationCount: int = 0
    conditions: list[Condition] = []


class Pool(msgspec.Struct):
    """A NetworkPool."""

    metadata: Metadata
    status: PoolStatus = msgspec.field(default_factory=PoolStatus)

    @property
    def ready(self) -> bool:
        """Whether its controller serves it."""
        return any(
            condition.type == "Ready" and condition.status == "True"
            for condition in self.status.conditions
        )


@dataclass(slots=True)
class ServedTimes:
    """When the watch first showed an allocation, and when it first showed it Allocated.

    Both are seconds of the driver's clock; None for an allocation that is not Allocated yet.
    """

    created: float
    allocated: float | None = None


@dataclass(slots=True)
class View:
    """What the watches have shown, and what the driver still expects.

    Attributes:
        seen: when the watch showed each allocation, by name.
        unserved: names of allocations that the driver expects to become Allocated.
        undeleted: names of allocations that the driver expects to vanish.
        moved: when the last name was removed from `unserved` or `undeleted`, in seconds of the
            driver's clock.
        overlaps: the allocations that held one address at once.
        pool: the current pool; None before the watch has shown it.
    """

    seen: dict[str, ServedTimes] = field(default_factory=dict)
    unserved: set[str] = field(default_factory=set)
    undeleted: set[str] = field(default_factory=set)
    moved: float = 0.0
    overlaps: Overlaps = field(default_factory=Overlaps)
    pool: Pool | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def take_allocation(self, change: str, raw: bytes, now: float) -> None:
        """Record a change of an allocation."""
        allocation = msgspec.json.decode(raw, type=Allocation)
        meta, status = allocation.metadata, allocation.status
        seen = self.seen.setdefault(meta.name, ServedTimes(now))
        if change == "DELETED":
            self.overlaps.note_deletion(meta.uid)
            self._remove_expected(self.undeleted, meta.name, now)
            return
        self.overlaps.note_ranges(meta.uid, *status.ranges)
        if status.phase == "Allocated" and seen.allocated is None:
            seen.allocated = now
            self._remove_expected(self.unserved, meta.name, now)

    def take_pool(self, change: str, raw: bytes, now: float) -> None:
        """Record a change of a pool."""
        pool = msgspec.json.decode(raw, type=Pool)
        if pool.metadata.name == POOL:
            self.pool = pool
            self._announce_change()

    def find_served_times(self, name: str, since: float) -> tuple[float, float]:
        """Return when an allocation was first seen, and when first Allocated, since a time."""
        seen = self.seen[name]
        if seen.allocated is None:
            raise RuntimeError(f"{name} was never Allocated")
        return seen.created - since, seen.allocated - since

    async def until(self, reached: Callable[[], bool], description: str) -> None:
        """Wait until a condition holds, which is evaluated after each change.

        Args:
            reached: returns whether the condition holds.
            description: describes the condition in the error.

        Raises:
            TimeoutError: it does not hold within PATIENCE.
        """
        with anyio.move_on_after(PATIENCE):
            while not reached():
                changed = self._changed
                await changed.wait()
            return
        raise TimeoutError(f"after {PATIENCE:.0f} s not yet: {description}")

    def _remove_expected(self, expected: set[str], name: str, now: float) -> None:
        if name in expected:
            expected.remove(name)
            self.moved = now
            self._announce_change()

    def _announce_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Driver(Api):
    """Creates and deletes IPAllocations, and watches them.

    Args:
        session: the API server's client; its base is the server's URL.
        kind: the spec.type of the allocations.
    """

    def __init__(self, session: ClientSession, kind: str = "nodes") -> None:
        super().__init__(session)
        self._kind = kind
        self._both = False
        self.view = View()

    async def prepare(self, cidr: str, second: str = "") -> None:
        """Create the namespace and the pool.

        Args:
            cidr: the CIDR of the pool.
            second: the CIDR of its other family, which allocations then require too; empty for a
                pool of one family.
        """
        self._both = bool(second)
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        pool = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "NetworkPool",
            "metadata": {"name": POOL, "namespace": NAMESPACE},
            "spec": {"cidr": cidr} | ({"secondary": {"cidr": second}} if second else {}),
        }
        await self.ask("POST", POOLS, pool)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[View]:
        """Keep the view current while the context lasts."""
        async with anyio.create_task_group() as group:
            await group.start(self.watch, ALLOCATIONS, self.view.take_allocation)
            await group.start(self.watch, POOLS, self.view.take_pool)
            yield self.view
            group.cancel_scope.cancel()

    async def change(self, delete: Sequence[int], create: Sequence[int]) -> None:
        """Delete and create allocations in turn, many at once; expect their effects."""
        await self.ask_all(self.expect(delete, create))

    def expect(self, delete: Sequence[int], create: Sequence[int]) -> list[Request]:
        """Return requests that delete and create allocations in turn; expect their effects."""
        self.view.undeleted |= set(map(name_allocation, delete))
        self.view.unserved |= set(map(name_allocation, create))
        deletions: list[Request] = [
            ("DELETE", f"{ALLOCATIONS}/{name_allocation(number)}", None) for number in delete
        ]
        creations: list[Request] = [
            ("POST", ALLOCATIONS, self._request(number)) for number in create
        ]
        return interleave(deletions, creations)

    def _request(self, number: int) -> dict[str, Any]:
        whole = make_allocation(number, self._kind)
        if self._both:
            whole["spec"]["ipFamilyPolicy"] = "RequireDualStack"
        return whole

    async def done(self) -> None:
        """Wait until all created allocations are Allocated, and all deleted ones are gone.

        Raises:
            TimeoutError: that has not happened within PATIENCE.
        """
        view = self.view
        await view.until(lambda: not view.unserved, "all are Allocated")
        await view.until(lambda: not view.undeleted, "the deleted ones are gone")

    async def list_allocations(self) -> list[Allocation]:
        """Return all allocations as the API server has them now."""
        return [msgspec.json.decode(raw, type=Allocation) for raw in await self.items(ALLOCATIONS)]


def interleave(first: Iterable[T], second: Iterable[T]) -> list[T]:
    """Return the items of both in turn, and then the further items of the longer one."""
    first_items, second_items = list(first), list(second)
    pairs = [item for pair in zip(first_items, second_items, strict=False) for item in pair]
    shorter = min(len(first_items), len(second_items))
    return [*pairs, *first_items[shorter:], *second_items[shorter:]]


def make_allocation(number: int, kind: str) -> dict[str, Any]:
    """Return an allocation as our controller of TenantClusters creates it, with its finalizer."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {
            "name": name_allocation(number),
            "namespace": NAMESPACE,
            "finalizers": [FINALIZER],
            "labels": {
                "app.kubernetes.io/managed-by": "butler",
                f"{GROUP}/network-pool": POOL,
                f"{GROUP}/allocation-type": kind,
            },
        },
        "spec": {
            "poolRef": {"name": POOL},
            "tenantClusterRef": {"name": name_allocation(number), "namespace": NAMESPACE},
            "type": kind,
            "count": count_addresses(number),
        },
    }


def name_allocation(number: int) -> str:
    """Return the name of the allocation with this number."""
    return f"bench-{number:06}"


def count_addresses(number: int) -> int:
    """Return how many addresses the allocation with this number requests: 1 to 8."""
    return 1 + number * 5 % 8
