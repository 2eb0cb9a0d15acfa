"""What must hold of every single write, and in the end; judged by the server as it stores."""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

from allocator import AddressRange, Family
from reconcilers.addressing import addresstexts, familychoice
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, FAILED, REQUIRE_DUAL_STACK, SINGLE_STACK
from tests.reconcilers.simulation.model import ALLOCATIONS, POOLS, Json, ModelServer

FIRST = "10.0.0."
SPANS = {"p": (0, 2), "q": (16, 17)}
SECOND = "fd00::"
SECOND_SPAN = (0, 1)
"""Of the second family, in a pool that has one."""
PREFIX: dict[Family, str] = {4: FIRST, 6: SECOND}


class Judge:
    """Looks at every change of the objects, and remembers the first that must not be."""

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self.problem: str | None = None
        self.paused = False
        """Whether what happens now is done by people, who may do anything."""
        model.witness = self._look

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
        if now and held(old) != now:
            yield from self._shared(new, now)
            texts = " and ".join(one.text for one in now)
            if names.FINALIZER_ALLOCATION not in meta.get("finalizers", ()):
                yield f"{name} came to hold {texts} without its finalizer"
            if "deletionTimestamp" in meta:
                yield f"{name} came to hold {texts} while it was being deleted"
        changed = held(old) != now or phase(old) != phase(new) == ALLOCATED
        if now and changed and policy(new) == REQUIRE_DUAL_STACK and len(now) < 2:
            yield f"{name} requires both families and shows one"
        if now and changed and len({one.family for one in now}) < len(now):
            yield f"{name} shows two ranges of one family"
        if phase(new) == FAILED != phase(old):
            version = old["metadata"]["resourceVersion"]
            if any(p["resourceVersion"] == version for p in self._promises(new)):
                yield f"{name} was refused what its pool had promised it"

    def _shared(self, new: Json, now: tuple[AddressRange, ...]) -> Iterator[str]:
        for other in self.model.of(ALLOCATIONS):
            for one, theirs in product(now, held(other)):
                if other is not new and theirs.overlaps(one):
                    names_of = new["metadata"]["name"], other["metadata"]["name"]
                    yield f"{' and '.join(names_of)} both hold part of {one.text}"

    def _promises(self, allocation: Json) -> list[Json]:
        pool = self.model.get(POOLS, allocation["spec"]["poolRef"]["name"])
        uid = allocation["metadata"]["uid"]
        return [p for p in promises(pool) if p["uid"] == uid]

    def _pool(self, old: Json | None, new: Json | None) -> Iterator[str]:
        if old is None:
            return
        if new is None:
            name = old["metadata"]["name"]
            for one in self.model.of(ALLOCATIONS):
                if one["spec"]["poolRef"]["name"] == name and held(one):
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


def policy(obj: Json) -> str:
    """Return the ipFamilyPolicy of an allocation."""
    return obj["spec"].get("ipFamilyPolicy") or SINGLE_STACK


def held(obj: Json) -> tuple[AddressRange, ...]:
    """Return the ranges in an allocation's status."""
    status: dict[str, Any] = obj.get("status") or {}
    shown = [status, *(status.get("families") or [])]
    found = (
        addresstexts.parse_ends(one["startAddress"], one["endAddress"])
        for one in shown
        if one.get("startAddress")
    )
    return tuple(dict.fromkeys(one for one in found if one is not None))


def overlap(model: ModelServer) -> str | None:
    """Return which two allocations hold one address, None if no two do."""
    holders = [(obj, span) for obj in model.of(ALLOCATIONS) for span in held(obj)]
    for (one, its), (other, others) in combinations(holders, 2):
        if one is not other and its.overlaps(others):
            names_of = [obj["metadata"]["name"] for obj in (one, other)]
            return f"{names_of[0]} and {names_of[1]} both hold part of {its.text}"
    return None


def unserved(model: ModelServer) -> str | None:
    """Return which allocation waits although it fits, None if none does."""
    for obj in model.of(ALLOCATIONS):
        pool = model.get(POOLS, obj["spec"]["poolRef"]["name"])
        if pool is None or "deletionTimestamp" in pool["metadata"]:
            continue
        if "deletionTimestamp" in obj["metadata"]:
            return f"{obj['metadata']['name']} is deleted and still there"
        if not held(obj) and _fits(model, obj, pool):
            return f"{obj['metadata']['name']} waits although it fits: {pool.get('status')}"
    return None


def _fits(model: ModelServer, obj: Json, pool: Json) -> bool:
    """Return whether an allocation could be served: its first family, or both if it has to be."""
    spans: dict[Family, tuple[int, int]] = {4: SPANS[pool["metadata"]["name"]]}
    if "secondary" in pool["spec"]:
        spans[6] = SECOND_SPAN
    asked = [familychoice.FAMILIES_BY_NAME[word] for word in obj["spec"].get("ipFamilies", ())]
    wanted = list(familychoice.FAMILIES_BY_NAME.values())
    if policy(obj) != REQUIRE_DUAL_STACK:
        wanted = (asked or wanted)[:1]
    if not spans.keys() >= {*asked, *wanted}:
        return False
    return all(_has_room(model, family, spans[family], obj["spec"]["count"]) for family in wanted)


def _has_room(model: ModelServer, family: Family, span: tuple[int, int], count: int) -> bool:
    taken = {
        address
        for other in model.of(ALLOCATIONS)
        for one in held(other)
        for address in one.addresses()
    }
    run = 0
    for number in range(span[0], span[1] + 1):
        address = f"{PREFIX[family]}{number or (0 if family == 4 else '')}"
        run = 0 if address in taken else run + 1
        if run >= count:
            return True
    return False
