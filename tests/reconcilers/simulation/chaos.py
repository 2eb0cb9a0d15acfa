"""What happens to the replicas, from a seed; and what must hold all the while, and afterwards."""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import anyio
from anyio.abc import TaskGroup

from allocator import AddressRange
from tests.clock import VirtualClock, settle
from tests.reconcilers.simulation.replica import Replica
from tests.reconcilers.simulation.wire import Flight
from tests.reconcilers.simulation.world import ALLOCATIONS, POOLS, Json, World

FIRST = "10.0.0."
SPANS = {"p": (0, 2), "q": (16, 17)}
NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Plan:
    """What is thrown at the replicas."""

    replicas: int = 2
    steps: int = 300
    mischief: float = 0.05
    """How often something is edited, wiped or re-created, of all steps."""
    patience: float = 2.0
    """Seconds before a replica completes the promises of others; only economy, never safety."""
    lost: bool = True
    stale: bool = True
    resets: bool = True
    touches: bool = True
    pool_cycles: bool = True
    wipes: bool = True
    calm: bool = True


@dataclass
class Run:
    """One seed, played."""

    seed: int
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        self.rnd = random.Random(self.seed)
        self.clock = VirtualClock()
        self.world = World(self.clock.now)
        self.flights: list[Flight] = []
        self.replicas: list[Replica] = []

    def play(self) -> str | None:
        """Return what went wrong, None if nothing did."""
        return asyncio.run(self._play())

    async def _play(self) -> str | None:
        for name in SPANS:
            self._make_pool(name)
        self.replicas = [self._replica(stale=False) for _ in range(self.plan.replicas)]
        async with anyio.create_task_group() as group:
            verdict = await self._storm(group)
            if verdict is None and self.plan.calm:
                verdict = await self._calm(group)
            for replica in self.replicas:
                replica.die()
            self._abandon(self.flights)
            group.cancel_scope.cancel()
        return verdict

    async def _storm(self, group: TaskGroup) -> str | None:
        for _ in range(self.plan.steps):
            await settle()
            self._step(group)
            clash = overlap(self.world)
            if clash:
                return clash
        return None

    def _step(self, group: TaskGroup) -> None:
        dice = self.rnd.random()
        if dice < 0.05:
            self._user()
        elif dice < 0.07:
            self._restart()
        elif dice < 0.07 + self.plan.mischief:
            self._mischief()
        elif dice < 0.10 + self.plan.mischief:
            self.clock._elapsed += self.rnd.choice((50, 800, 3000)) * 1_000_000
        elif dice < 0.62 and self.flights:
            self._fly()
        else:
            replica = self.rnd.choice(self.replicas)
            replica.read()
            replica.work(group)

    def _fly(self) -> None:
        flight = self.rnd.choice(self.flights)
        if self.plan.lost and self.rnd.random() < 0.06:
            flight.land(lost=True)  # the sender gives up; the request may still run
            return
        flight.run(self.world)
        self.flights.remove(flight)
        if flight.waited_for:
            flight.land(lost=self.plan.lost and self.rnd.random() < 0.05)

    def _user(self) -> None:
        name = self.rnd.choice(NAMES)
        if self.world.get(ALLOCATIONS, name):
            self.world.delete(ALLOCATIONS, name)
            return
        spec: Json = {
            "poolRef": {"name": "q" if self.rnd.random() < 0.25 else "p"},
            "tenantClusterRef": {"name": name, "namespace": "team"},
            "type": "loadbalancer",
            "count": self.rnd.choice((1, 1, 2)),
        }
        self.world.create(ALLOCATIONS, {"metadata": {"name": name}, "spec": spec})

    def _restart(self) -> None:
        place = self.rnd.randrange(len(self.replicas))
        self.replicas[place].die()
        self.replicas[place] = self._replica(stale=self.plan.stale)

    def _mischief(self) -> None:
        options = []
        if self.plan.resets:
            options.append(self._reset)
        if self.plan.touches:
            options.append(self._touch)
        if self.plan.pool_cycles:
            options += [self._cycle_pool, self._force_pool]
        if self.plan.wipes:
            options.append(self._wipe)
        if options:
            self.rnd.choice(options)()

    def _some_allocation(self) -> str | None:
        names = [obj["metadata"]["name"] for obj in self.world.of(ALLOCATIONS)]
        return self.rnd.choice(names) if names else None

    def _reset(self) -> None:
        name = self._some_allocation()
        if name:
            nothing = dict.fromkeys(("startAddress", "endAddress", "cidr"))
            self.world.patch(
                ALLOCATIONS,
                name,
                {"status": {**nothing, "phase": "Pending"}},
                status=True,
                guarded=False,
            )

    def _touch(self) -> None:
        name = self._some_allocation()
        if name:
            label = {"metadata": {"labels": {"touched": str(self.world.revision)}}}
            self.world.patch(ALLOCATIONS, name, label, guarded=False)

    def _cycle_pool(self) -> None:
        if self.world.get(POOLS, "p"):
            self.world.delete(POOLS, "p")
        else:
            self._make_pool("p")

    def _force_pool(self) -> None:
        self.world.vanish(POOLS, "p")
        self._make_pool("p")

    def _wipe(self) -> None:
        if self.world.get(POOLS, "p"):
            self.world.patch(POOLS, "p", {"status": None}, guarded=False)

    def _make_pool(self, name: str) -> None:
        first, last = SPANS[name]
        span = {"start": f"{FIRST}{first}", "end": f"{FIRST}{last}"}
        spec = {"cidr": "10.0.0.0/24", "tenantAllocation": {"ranges": [span]}}
        self.world.create(POOLS, {"metadata": {"name": name}, "spec": spec})

    def _replica(self, *, stale: bool) -> Replica:
        replica = Replica(
            self.world, self.flights, self.clock, self.rnd, patience=self.plan.patience
        )
        replica.boot(stale=stale, world=self.world)
        return replica

    async def _calm(self, group: TaskGroup) -> str | None:
        """No more mischief: everything that fits must be served, and promises settle."""
        self._abandon([flight for flight in self.flights if not flight.waited_for])
        for name in SPANS:
            if self.world.get(POOLS, name) is None:
                self._make_pool(name)
        for _ in range(14):
            for replica in self.replicas:
                await self._round(group, replica)
                clash = overlap(self.world)
                if clash:
                    return f"{clash} (in the calm)"
            self.clock._elapsed += 7_000_000_000
        return unserved(self.world)

    async def _round(self, group: TaskGroup, replica: Replica) -> None:
        replica.read(all_of_it=True)
        for number, key in replica.all_keys():
            replica.begin(group, number, key)
            await settle()
            while not replica.idle or self.flights:
                for flight in list(self.flights):
                    flight.run(self.world)
                    self.flights.remove(flight)
                    flight.land()
                replica.read(all_of_it=True)
                await settle()

    def _abandon(self, flights: Iterable[Flight]) -> None:
        for flight in list(flights):
            flight.land(lost=True)


def held(obj: Json) -> AddressRange | None:
    """Return the range in an allocation's status."""
    status: dict[str, Any] = obj.get("status") or {}
    if not status.get("startAddress"):
        return None
    return AddressRange.parse(status["startAddress"], status["endAddress"])


def overlap(world: World) -> str | None:
    """Return which two allocations hold one address, None if no two do."""
    holders = [(obj, span) for obj in world.of(ALLOCATIONS) if (span := held(obj)) is not None]
    for (one, its), (other, others) in combinations(holders, 2):
        if its.overlaps(others):
            names = [obj["metadata"]["name"] for obj in (one, other)]
            return f"{names[0]} and {names[1]} both hold part of {its.text}"
    return None


def unserved(world: World) -> str | None:
    """Return which allocation waits although it fits, None if none does."""
    for obj in world.of(ALLOCATIONS):
        pool = world.get(POOLS, obj["spec"]["poolRef"]["name"])
        if held(obj) is not None or pool is None or "deletionTimestamp" in pool["metadata"]:
            continue
        if "deletionTimestamp" in obj["metadata"]:
            return f"{obj['metadata']['name']} is deleted and still there"
        if _fits(world, obj):
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
