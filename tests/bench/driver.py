"""Drives a controller by the API alone: creates and deletes IPAllocations, and watches them.

Nothing here belongs to the controller that is measured, so the same driver serves any of them, and
what it sees is what every client would see.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

import anyio
import msgspec
from aiohttp import ClientSession, ClientTimeout

from tests.bench.overlaps import Overlaps

GROUP = "butler.butlerlabs.dev"
NAMESPACE = "butler-system"
POOL = "bench"
FINALIZER = f"{GROUP}/ipallocation"
WIDTH = 32
PATIENCE = 600.0
LONGEST_EVENT = 2**22
_PATH = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}"
ALLOCATIONS = f"{_PATH}/ipallocations"
POOLS = f"{_PATH}/networkpools"
_PAGE = 500

T = TypeVar("T")


class Condition(msgspec.Struct):
    """A condition."""

    type: str
    status: str


class Metadata(msgspec.Struct):
    """What tells objects apart."""

    name: str
    uid: str


class AllocationStatus(msgspec.Struct):
    """What an IPAllocation was given."""

    phase: str = ""
    startAddress: str = ""
    endAddress: str = ""


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
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)


class _Event(msgspec.Struct):
    """An event of a watch; the object is decoded when it is known to be one."""

    type: str
    object: msgspec.Raw


class _Version(msgspec.Struct):
    """The metadata of which only the version matters."""

    resourceVersion: str


class _Versioned(msgspec.Struct):
    """An object of which only the version matters."""

    metadata: _Version


class _ListMetadata(msgspec.Struct, rename={"next": "continue"}):
    """Where a list was read, and where it goes on."""

    resourceVersion: str
    next: str = ""


class _List(msgspec.Struct):
    """A page of a list."""

    metadata: _ListMetadata
    items: list[msgspec.Raw] = []


class Refused(Exception):
    """The API server refused a request of the driver; says which and why."""


@dataclass(slots=True)
class Seen:
    """When the watch first showed one allocation, and when it first showed it Allocated."""

    created: float
    allocated: float | None = None


@dataclass(slots=True)
class View:
    """What the watches showed so far.

    Attributes:
        seen: by name, when.
        unserved: names of allocations that were not yet Allocated, of those that are expected to.
        undeleted: names of allocations that are not yet gone, of those that are expected to.
        moved: when the last of all these was crossed out, in seconds of the driver's clock.
        overlaps: who held what.
        pool: as it is now.
    """

    seen: dict[str, Seen] = field(default_factory=dict)
    unserved: set[str] = field(default_factory=set)
    undeleted: set[str] = field(default_factory=set)
    moved: float = 0.0
    overlaps: Overlaps = field(default_factory=Overlaps)
    pool: Pool | None = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def take_allocation(self, change: str, raw: bytes, now: float) -> None:
        """Note a change of an allocation."""
        one = msgspec.json.decode(raw, type=Allocation)
        meta, status = one.metadata, one.status
        seen = self.seen.setdefault(meta.name, Seen(now))
        if change == "DELETED":
            self.overlaps.gone(meta.uid)
            self._cross_out(self.undeleted, meta.name, now)
            return
        self.overlaps.shown(meta.uid, status.startAddress, status.endAddress)
        if status.phase == "Allocated" and seen.allocated is None:
            seen.allocated = now
            self._cross_out(self.unserved, meta.name, now)

    def take_pool(self, change: str, raw: bytes, now: float) -> None:
        """Note a change of a pool."""
        one = msgspec.json.decode(raw, type=Pool)
        if one.metadata.name == POOL:
            self.pool = one
            self._move()

    def served(self, name: str, since: float) -> tuple[float, float]:
        """Return when an allocation was first seen, and when first Allocated, since a time."""
        seen = self.seen[name]
        if seen.allocated is None:
            raise RuntimeError(f"{name} was never Allocated")
        return seen.created - since, seen.allocated - since

    async def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait until a state is reached.

        Raises:
            TimeoutError: it was not.
        """
        with anyio.move_on_after(PATIENCE):
            while not reached():
                changed = self._changed
                await changed.wait()
            return
        raise TimeoutError(f"after {PATIENCE:.0f} s not yet: {what}")

    def _cross_out(self, expected: set[str], name: str, now: float) -> None:
        if name in expected:
            expected.remove(name)
            self.moved = now
            self._move()

    def _move(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


class Driver:
    """The one who asks.

    Args:
        session: the API server's client; its base is the server's URL.
        kind: what the addresses are for that it asks for.
    """

    def __init__(self, session: ClientSession, kind: str = "nodes") -> None:
        self._session = session
        self._kind = kind
        self.view = View()

    async def prepare(self, cidr: str) -> None:
        """Make the namespace and the pool."""
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        pool = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "NetworkPool",
            "metadata": {"name": POOL, "namespace": NAMESPACE},
            "spec": {"cidr": cidr},
        }
        await self.ask("POST", POOLS, pool)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[View]:
        """Keep the view current while the context lasts."""
        async with anyio.create_task_group() as group:
            await group.start(self._watch, ALLOCATIONS, self.view.take_allocation)
            await group.start(self._watch, POOLS, self.view.take_pool)
            yield self.view
            group.cancel_scope.cancel()

    async def change(self, delete: Sequence[int], create: Sequence[int]) -> None:
        """Delete and create allocations, in turn, many at once; expect that it comes true."""
        self.view.undeleted |= set(map(named, delete))
        self.view.unserved |= set(map(named, create))
        deletions = [("DELETE", f"{ALLOCATIONS}/{named(number)}", None) for number in delete]
        creations = [("POST", ALLOCATIONS, allocation(number, self._kind)) for number in create]
        left = iter(interleaved(deletions, creations))

        async def work() -> None:
            for method, path, body in left:
                await self.ask(method, path, body)

        async with anyio.create_task_group() as group:
            for _ in range(WIDTH):
                group.start_soon(work)

    async def done(self) -> None:
        """Wait until all that was asked for is so.

        Raises:
            TimeoutError: it is not.
        """
        view = self.view
        await view.until(lambda: not view.unserved, "all are Allocated")
        await view.until(lambda: not view.undeleted, "the deleted ones are gone")

    async def listed(self) -> list[Allocation]:
        """Return all allocations as the API server has them now."""
        found: list[Allocation] = []
        token = ""
        while True:
            text = await self.ask("GET", f"{ALLOCATIONS}?limit={_PAGE}&continue={token}")
            page = msgspec.json.decode(text, type=_List)
            found += [msgspec.json.decode(raw, type=Allocation) for raw in page.items]
            token = page.metadata.next
            if not token:
                return found

    async def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """Send a request; return the body of its answer.

        Raises:
            Refused: the answer is an error.
        """
        async with self._session.request(method, path, json=body) as answer:
            text = await answer.read()
        if answer.status >= 400:
            raise Refused(f"{method} {path} gave {answer.status}: {text.decode()}")
        return text

    async def _watch(
        self,
        path: str,
        take: Callable[[str, bytes, float], None],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Read events of a collection from now on.

        The API server ends a watch when the definition of the kind changes, and says for a
        moment that it is not ready to serve another; none of the events is lost, for the next
        watch begins where the last one ended.

        Raises:
            Refused: the API server does not have them any more.
        """
        listed = msgspec.json.decode(await self.ask("GET", f"{path}?limit=1"), type=_List)
        assert not listed.items, "the driver saw every object from its beginning"
        revision = listed.metadata.resourceVersion
        task_status.started()
        while True:
            query = {"watch": "1", "resourceVersion": revision}
            async with self._session.get(path, params=query, timeout=ClientTimeout()) as answer:
                if answer.status == 429:
                    await anyio.sleep(float(answer.headers.get("Retry-After", "1")))
                    continue
                if answer.status != 200:
                    raise Refused(f"watching {path} gave {answer.status}: {await answer.text()}")
                async for line in answer.content:
                    event = msgspec.json.decode(line, type=_Event)
                    raw = bytes(event.object)
                    if event.type not in {"ADDED", "MODIFIED", "DELETED"}:
                        raise Refused(f"watching {path} gave {event.type}: {raw!r}")
                    take(event.type, raw, perf_counter())
                    revision = msgspec.json.decode(raw, type=_Versioned).metadata.resourceVersion


def interleaved(first: Iterable[T], second: Iterable[T]) -> list[T]:
    """Return the items of both in turn, then what one has more."""
    left, right = list(first), list(second)
    pairs = [one for pair in zip(left, right, strict=False) for one in pair]
    shorter = min(len(left), len(right))
    return [*pairs, *left[shorter:], *right[shorter:]]


def allocation(number: int, kind: str) -> dict[str, Any]:
    """Return a request as our TenantCluster controller makes it: the finalizer is there."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "IPAllocation",
        "metadata": {
            "name": named(number),
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
            "tenantClusterRef": {"name": named(number), "namespace": NAMESPACE},
            "type": kind,
            "count": count(number),
        },
    }


def named(number: int) -> str:
    """Return the name of the allocation with this number."""
    return f"bench-{number:06}"


def count(number: int) -> int:
    """Return how many addresses the allocation with this number asks for: 1 to 8."""
    return 1 + number * 5 % 8
