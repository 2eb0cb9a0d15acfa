"""What must hold of every single write, and in the end; judged by the server as it stores."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from allocator import AddressRange
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import FAILED
from tests.reconcilers.simulation.world import ALLOCATIONS, POOLS, Json, World

FIRST = "10.0.0."
SPANS = {"p": (0, 2), "q": (16, 17)}


class Judge:
    """Looks at every change of a world, and remembers the first that must not be."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.problem: str | None = None
        self.paused = False
        """Whether what happens now is done by people, who may do anything."""
        world.witness = self._look

    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        if self.problem is not None or self.paused:
            return
        crimes = {ALLOCATIONS: self._allocation, POOLS: self._pool}[plural](old, new)
        self.problem = next(crimes, None)

    def _allocation(self, old: Json | None, new: Json | None) -> Iterator[str]:
        if old is None or new is None:
            return
        meta = new["metadata"]
        name, now = meta["name"], held(new)
        if now is not None and held(old) != now:
            for other in self.world.of(ALLOCATIONS):
                theirs = held(other)
                if other is not new and theirs is not None and theirs.overlaps(now):
                    yield f"{name} and {other['metadata']['name']} both hold part of {now.text}"
            if names.FINALIZER_ALLOCATION not in meta.get("finalizers", ()):
                yield f"{name} came to hold {now.text} without its finalizer"
            if "deletionTimestamp" in meta:
                yield f"{name} came to hold {now.text} while it was being deleted"
        if phase(new) == FAILED != phase(old):
            version = old["metadata"]["resourceVersion"]
            if any(p["resourceVersion"] == version for p in self._promises(new)):
                yield f"{name} was refused what its pool had promised it"

    def _promises(self, allocation: Json) -> list[Json]:
        pool = self.world.get(POOLS, allocation["spec"]["poolRef"]["name"])
        uid = allocation["metadata"]["uid"]
        return [p for p in promises(pool) if p["uid"] == uid]

    def _pool(self, old: Json | None, new: Json | None) -> Iterator[str]:
        if old is None:
            return
        if new is None:
            name = old["metadata"]["name"]
            for one in self.world.of(ALLOCATIONS):
                if one["spec"]["poolRef"]["name"] == name and held(one) is not None:
                    yield f"pool {name} went while {one['metadata']['name']} held a range of it"
            return
        meta, before = new["metadata"], promises(old)
        added = [promise for promise in promises(new) if promise not in before]
        if added and "deletionTimestamp" in meta:
            yield f"pool {meta['name']} promised something while it was being deleted"
        if added and names.FINALIZER_POOL not in meta.get("finalizers", ()):
            yield f"pool {meta['name']} promised something without its finalizer"
        uids = [promise["uid"] for promise in promises(new)]
        if len(uids) != len(set(uids)):
            yield f"pool {meta['name']} promised two ranges to one allocation"


def phase(obj: Json) -> str | None:
    """Return the phase in an object's status."""
    found: str | None = (obj.get("status") or {}).get("phase")
    return found


def promises(pool: Json | None) -> list[Json]:
    """Return the promises in a pool's status."""
    status: Json = (pool or {}).get("status") or {}
    found: list[Json] = status.get("assignments") or []
    return found


def held(obj: Json) -> AddressRange | None:
    """Return the range in an allocation's status."""
    status: dict[str, Any] = obj.get("status") or {}
    if not status.get("startAddress"):
        return None
    return ranges.parsed(status["startAddress"], status["endAddress"])


def overlap(world: World) -> str | None:
    """Return which two allocations hold one address, None if no two do."""
    holders = [(obj, span) for obj in world.of(ALLOCATIONS) if (span := held(obj)) is not None]
    for (one, its), (other, others) in combinations(holders, 2):
        if its.overlaps(others):
            names_of = [obj["metadata"]["name"] for obj in (one, other)]
            return f"{names_of[0]} and {names_of[1]} both hold part of {its.text}"
    return None


def unserved(world: World) -> str | None:
    """Return which allocation waits although it fits, None if none does."""
    for obj in world.of(ALLOCATIONS):
        pool = world.get(POOLS, obj["spec"]["poolRef"]["name"])
        if pool is None or "deletionTimestamp" in pool["metadata"]:
            continue
        if "deletionTimestamp" in obj["metadata"]:
            return f"{obj['metadata']['name']} is deleted and still there"
        if held(obj) is None and _fits(world, obj):
            return f"{obj['metadata']['name']} waits although it fits: {pool.get('status')}"
    return None


def _fits(world: World, obj: Json) -> bool:
    first, last = SPANS[obj["spec"]["poolRef"]["name"]]
    taken = {
        address
        for other in world.of(ALLOCATIONS)
        if (span := held(other)) is not None
        for address in span.addresses()
    }
    run = 0
    for number in range(first, last + 1):
        run = 0 if f"{FIRST}{number}" in taken else run + 1
        if run >= obj["spec"]["count"]:
            return True
    return False
