"""One scene on the simulator, played by hand: for what a storm brings about too seldom.

The same replicas, wires, server and laws; but the scene says who reads how much, who works when,
and which requests run late.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from controller.meta import Key
from reconcilers.api import names
from tests.clock import VirtualClock, settle
from tests.reconcilers.simulation.chaos import undisturbed
from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge, overlap
from tests.reconcilers.simulation.model import ALLOCATIONS, NAMESPACE, POOLS, Json, ModelServer
from tests.reconcilers.simulation.replica import Passes, Replica
from tests.reconcilers.simulation.wire import Flight

Late = Callable[[Flight], bool]
Scene = Callable[["Stage"], Awaitable[str | None]]


def nothing(_: Flight) -> bool:
    """Nothing is late."""
    return False


def writes_of(name: str) -> Late:
    """Return what tells writes of an allocation."""
    return lambda flight: flight.method == "PATCH" and flight.name == name


def _pool(name: str) -> Json:
    first, last = SPANS[name]
    span = {"start": f"{FIRST}{first}", "end": f"{FIRST}{last}"}
    spec = {"cidr": "10.0.0.0/24", "tenantAllocation": {"ranges": [span]}}
    return {"metadata": {"name": name}, "spec": spec}


class Stage:
    """A model with pool p of three addresses, its memory, and no replica at work yet."""

    def __init__(self, group: TaskGroup) -> None:
        self.clock = VirtualClock()
        self.model = ModelServer(self.clock.now)
        self.judge = self.make_judge()
        self.flights: list[Flight] = []
        self.late: list[Flight] = []
        self.group = group

    def make_judge(self) -> Judge:
        """Return who looks at what happens."""
        return Judge(self.model)

    async def open(self) -> None:
        """Make the pool, and let a first replica give it its finalizer and its memory."""
        self.make_pool()
        await self.pool(self.replica())

    def make_pool(self, **status: str) -> None:
        """Make the pool."""
        self.model.create(POOLS, _pool("p") | ({"status": status} if status else {}))

    def make_second_pool(self) -> None:
        """Make pool q, which has no memory yet."""
        self.model.create(POOLS, _pool("q"))

    def ask(self, name: str, count: int = 1, since: str = "") -> None:
        """Make an allocation that may be served; `since` when it was first asked for."""
        spec = {
            "poolRef": {"name": "p"},
            "tenantClusterRef": {"name": name, "namespace": "team"},
            "type": "loadbalancer",
            "count": count,
        }
        meta: Json = {"name": name, "finalizers": [names.FINALIZER_ALLOCATION]}
        if since:
            meta["annotations"] = {names.ANNOTATION_REQUESTED_AT: since}
        self.model.create(ALLOCATIONS, {"metadata": meta, "spec": spec})

    def replica(self) -> Any:
        """Return a replica that has read everything."""
        return self.sharing_replica(0)

    def sharing_replica(self, shards: int) -> Replica:
        """Return one of those that share so many shards; it holds none of them yet."""
        found = Replica(
            self.model, self.flights, self.clock, random.Random(0), patience=0.0, shards=shards
        )
        found.boot(stale=False)
        return found

    def key(self, name: str) -> Key:
        """Return the key of an object of that name."""
        return Key(NAMESPACE, name)

    async def pool(self, replica: Passes, late: Late = nothing) -> None:
        """Let a replica work on the pool."""
        await self.work(replica, 0, "p", late)

    async def work(self, replica: Passes, number: int, name: str, late: Late = nothing) -> None:
        """Let a replica work on an object; its late requests run when `arrive` says so."""
        replica.begin(self.group, number, self.key(name))
        await settle()
        while self.flights:
            for flight in list(self.flights):
                self.flights.remove(flight)
                if late(flight):
                    self.late.append(flight)
                    flight.land(lost=True)
                else:
                    flight.run(self.model)
                    flight.land()
            await settle()

    async def begin_list(self, replica: Passes, pool: str) -> Flight:
        """Let a replica work on a pool until the server has answered its LIST; return that."""
        replica.begin(self.group, 0, self.key(pool))
        while True:
            await settle()
            flight = self.flights.pop(0)
            flight.run(self.model)
            if flight.method == "GET" and not flight.name:
                return flight
            flight.land()

    async def serve(self, replica: Any) -> None:
        """Let a replica fence the pool, serve who waits, and write what it promised."""
        for _ in range(3):
            replica.read(1.0, all_of_it=True)
            await self.pool(replica)

    async def drop_settled(self, replica: Any) -> None:
        """Let a replica serve who waits, and drop the settled promises after its quiet period."""
        await self.serve(replica)
        await self.clock.advance(replica.settings.quiet_period)
        await self.serve(replica)

    async def answered_late(self, replica: Replica) -> None:
        """Let what is under way run, and its answers come after word of it has."""
        await settle()
        while self.flights:
            for flight in list(self.flights):
                self.flights.remove(flight)
                flight.run(self.model)
                replica.allocations.advance(replica.allocations.behind)
                flight.land()
            await settle()

    def arrive(self) -> None:
        """Let the late requests run, oldest first."""
        for flight in self.late:
            flight.run(self.model)
        self.late.clear()

    @property
    def problem(self) -> str | None:
        """What is wrong by now."""
        return self.judge.problem or self.overlap()

    def overlap(self) -> str | None:
        """Return who holds what another does by now."""
        return overlap(self.model)


def played(scene: Callable[[Any], Awaitable[str | None]], on: type[Stage] = Stage) -> str | None:
    """Play a scene on a stage of that type; return what went wrong, None if nothing did."""

    async def play() -> Any:
        async with anyio.create_task_group() as group:
            stage = on(group)
            await stage.open()
            return await scene(stage)

    with undisturbed(silent=True):
        verdict: str | None = asyncio.run(play())
    return verdict
