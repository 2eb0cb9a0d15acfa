"""One scene on the simulator, played by hand: for what a storm brings about too seldom.

The same replicas, wires, server and laws; but the scene says who reads how much, who works when,
and which requests run late.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

import anyio
from anyio.abc import TaskGroup

from controller.meta import Key
from tests.clock import VirtualClock, settle
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.chaos import keep_quiet
from tests.reconcilers.simulation.laws import Judge, given_twice
from tests.reconcilers.simulation.model import Json, ModelServer, key_of
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.replica import Passes, World
from tests.reconcilers.simulation.wire import Flight

Late = Callable[[Flight], bool]
Scene = Callable[["Stage"], Awaitable[str | None]]


def nothing(_: Flight) -> bool:
    """Nothing is late."""
    return False


def writes_of(name: str) -> Late:
    """Return a matcher for writes of an allocation."""
    return lambda flight: flight.method == "PATCH" and flight.name == name


class Stage:
    """A model with pool p of three addresses, its memory, and no replica at work yet."""

    kind: ClassVar[type[Adapter]] = NetworkPools

    def __init__(self, group: TaskGroup) -> None:
        self.clock = VirtualClock()
        self.model = ModelServer(self.clock)
        self.adapter: Any = self.kind(self.model, random.Random(0), Plan())
        self.judge = Judge(self.adapter)
        self.flights: list[Flight] = []
        self.late: list[Flight] = []
        self.group = group

    async def open(self) -> None:
        """Make the pool, and let a first replica give it its finalizer and its memory."""
        self.adapter.make_pool("p")
        replica = self.replica()
        for number in self.adapter.pool_numbers:
            await self.work(replica, number, "p")
            replica.read(1.0, all_of_it=True)

    def ask(self, name: str, count: int = 1, since: str = "") -> None:
        """Make a request that may be served; `since` when it was first asked for."""
        self.adapter.ask(name, count, since)

    def forget(self) -> None:
        """Take the memory of the pool away."""
        for memory in self.adapter.memories:
            self.edit_pool(memory.forgotten())

    def truncate(self) -> None:
        """Take the promises of the pool away, and leave the rest of its journal."""
        for memory in self.adapter.memories:
            self.edit_pool(memory.make_truncation(self.model.objects[self.adapter.pools, "p"]))

    def restore(self, revision: int) -> None:
        """Have another pool in the place of the pool, with the memory of another history."""
        self.replace_pool()
        pool = self.model.objects[self.adapter.pools, "p"]
        for memory in self.adapter.memories:
            self.edit_pool(memory.of_history(pool, revision))

    def replace_pool(self, journals: Sequence[Json | None] = ()) -> None:
        """Have another pool in the place of the pool, maybe with journals."""
        self.judge.paused = True
        self.model.vanish(self.adapter.pools, "p")
        self.adapter.make_pool("p")
        self.judge.paused = False
        for patch in filter(None, journals):
            self.edit_pool(patch)

    def gives_to(self, name: str) -> Late:
        """Return a matcher for the writes by which a promise to a request is kept."""
        return lambda flight: self.adapter.gives(flight, name)

    def is_served(self, name: str) -> bool:
        """Return whether a request shows addresses."""
        request = self.adapter.request_of(name)
        return request is not None and bool(self.adapter.addresses(request))

    def edit_pool(self, patch: Json) -> None:
        """Edit the pool, as a person does."""
        self.edit(self.adapter.pools, "p", patch)

    def edit(self, plural: str, name: str, patch: Json) -> None:
        """Edit an object, as a person does, who may do anything."""
        was_paused, self.judge.paused = self.judge.paused, True
        self.model.edit(plural, name, patch)
        self.judge.paused = was_paused

    def replica(self) -> Any:
        """Return a replica that has read everything."""
        return self.sharing_replica(0)

    def sharing_replica(self, shards: int) -> Any:
        """Return a replica among replicas that share so many shards; it holds none of them yet."""
        world = World(
            self.model,
            self.flights,
            clock=self.clock,
            rnd=random.Random(0),
            patience=0.0,
            shards=shards,
        )
        replica = self.adapter.make_replica(world)
        replica.boot(stale=False)
        return replica

    def key(self, name: str) -> Key:
        """Return the key of an object of that name, where the pool is, too."""
        return key_of(self.adapter.pools, name)

    async def pool(self, replica: Passes, late: Late = nothing) -> None:
        """Let a replica work on the pool."""
        await self.work(replica, 0, name="p", late=late)

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
                    flight.run()
                    flight.land()
            await settle()

    async def begin_list(self, replica: Passes, pool: str) -> Flight:
        """Let a replica work on a pool until the server has answered its LIST; return that."""
        replica.begin(self.group, 0, self.key(pool))
        while True:
            await settle()
            flight = self.flights.pop(0)
            flight.run()
            if flight.method == "GET" and not flight.name:
                return flight
            flight.land()

    async def begin(self, replica: Passes, awaited: Late) -> Flight:
        """Let a replica work on the pool until it sends a request that is awaited; return that."""
        replica.begin(self.group, 0, self.key("p"))
        while True:
            await settle()
            flight = self.flights.pop(0)
            if awaited(flight):
                return flight
            flight.run()
            flight.land()

    async def go_on(self, flight: Flight) -> None:
        """Let a request run that was held up, and what its sender sends after it."""
        self.flights.append(flight)
        while self.flights:
            under_way = self.flights.pop(0)
            under_way.run()
            under_way.land()
            await settle()

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

    async def answered_late(self, replica: Any) -> None:
        """Let what is under way run, and its answers come after word of it has."""
        await settle()
        while self.flights:
            for flight in list(self.flights):
                self.flights.remove(flight)
                flight.run()
                replica.allocations.advance(replica.allocations.behind)
                flight.land()
            await settle()

    def arrive(self) -> None:
        """Let the late requests run, oldest first."""
        for flight in self.late:
            flight.run()
        self.late.clear()

    @property
    def problem(self) -> str | None:
        """What is wrong by now."""
        return self.judge.problem or given_twice(self.adapter)


def play_scene(
    scene: Callable[[Any], Awaitable[str | None]], on: type[Stage] = Stage
) -> str | None:
    """Play a scene on a stage of that type; return what went wrong, None if nothing did."""

    async def play() -> Any:
        async with anyio.create_task_group() as group:
            stage = on(group)
            await stage.open()
            return await scene(stage)

    with keep_quiet(silent=True):
        verdict: str | None = asyncio.run(play())
    return verdict
