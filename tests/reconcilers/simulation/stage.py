"""The stage of a scene: a course of events that a storm brings about too seldom.

Replicas, requests, server and laws are those of a run. But the scene decides how far each replica
reads, when it works, and which requests run late. Scenes call the requests a, b, c and so on; of
waiting requests, a goes first.
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
from tests.reconcilers.simulation.chaos import play_silently
from tests.reconcilers.simulation.laws import Judge, find_double_holders
from tests.reconcilers.simulation.model import Json, ModelServer, key_of
from tests.reconcilers.simulation.networkpools import NetworkPools
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.replica import Passes, World
from tests.reconcilers.simulation.wire import Flight

Matcher = Callable[[Flight], bool]
"""Returns whether a request on its way is one of those that a scene handles."""
Scene = Callable[["Stage"], Awaitable[str | None]]
"""Plays a scene; returns the violation, None if there is none."""


def match_none(_: Flight) -> bool:
    """Match no request: none is late."""
    return False


def match_writes_of(name: str) -> Matcher:
    """Return a matcher for the writes to an allocation."""
    return lambda flight: flight.method == "PATCH" and flight.name == name


class Stage:
    """A model with pool p of three addresses and its journal, and no working replica yet.

    A late request is one whose sender has given up: it runs when `run_late_requests` is called.

    Args:
        group: runs the passes of the replicas.
    """

    kind: ClassVar[type[Adapter]] = NetworkPools

    def __init__(self, group: TaskGroup) -> None:
        self.clock = VirtualClock()
        self.model = ModelServer(self.clock)
        self.adapter: Any = self.kind(self.model, random.Random(0), Plan())
        self.judge = Judge(self.adapter)
        self.flights: list[Flight] = []
        self.late_requests: list[Flight] = []
        self.group = group

    async def prepare(self) -> None:
        """Create pool p, and let a first replica add its finalizer and its journal."""
        self.adapter.make_pool("p")
        replica = self.start_replica()
        for number in self.adapter.pool_numbers:
            await self.reconcile(replica, number, "p")
            replica.catch_up()

    def create_request(self, name: str, count: int = 1, since: str = "") -> None:
        """Create a request that may be served; see `Adapter.create_request`."""
        self.adapter.create_request(name, count, since)

    def delete_journal(self) -> None:
        """Delete the journal of pool p."""
        for memory in self.adapter.memories:
            self.edit_pool(memory.make_removal())

    def delete_promises(self) -> None:
        """Delete the promises of pool p, and leave the rest of its journal."""
        for memory in self.adapter.memories:
            self.edit_pool(memory.make_truncation(self.model.objects[self.adapter.pools, "p"]))

    def restore_pool(self, revision: int) -> None:
        """Replace pool p by one whose journal is of another cluster, and read up to `revision`."""
        self.replace_pool()
        pool = self.model.objects[self.adapter.pools, "p"]
        for memory in self.adapter.memories:
            self.edit_pool(memory.make_empty_journal(pool, revision))

    def replace_pool(self, journals: Sequence[Json | None] = ()) -> None:
        """Replace pool p by a new object of its name.

        Args:
            journals: patches that give the new pool a journal; None in place of a missing journal.
        """
        self.judge.paused = True
        self.model.remove_by_force(self.adapter.pools, "p")
        self.adapter.make_pool("p")
        self.judge.paused = False
        for patch in filter(None, journals):
            self.edit_pool(patch)

    def match_grants_to(self, name: str) -> Matcher:
        """Return a matcher for the writes of promised addresses to a request."""
        return lambda flight: self.adapter.is_grant(flight, name)

    def is_served(self, name: str) -> bool:
        """Return whether a request shows addresses."""
        request = self.adapter.find_request(name)
        return request is not None and bool(self.adapter.list_shown(request))

    def skip_time(self, *, seconds: float) -> None:
        """Move the time on, without running anything."""
        self.clock.skip(seconds)

    def edit_pool(self, patch: Json) -> None:
        """Edit pool p as a person does, without being judged."""
        self.edit(self.adapter.pools, "p", patch)

    def edit(self, plural: str, name: str, patch: Json) -> None:
        """Edit an object as a person does, without being judged."""
        was_paused, self.judge.paused = self.judge.paused, True
        self.model.edit(plural, name, patch)
        self.judge.paused = was_paused

    def start_replica(self) -> Any:
        """Return a new replica that has read everything."""
        return self.start_sharing_replica(0)

    def start_sharing_replica(self, shards: int) -> Any:
        """Return a new replica that shares the pools, in so many shards, and holds none yet."""
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

    async def reconcile_pool(self, replica: Passes, late: Matcher = match_none) -> None:
        """Let a replica reconcile pool p; the requests that `late` matches run late."""
        await self.reconcile(replica, 0, name="p", late=late)

    async def reconcile(
        self, replica: Passes, number: int, name: str, late: Matcher = match_none
    ) -> None:
        """Let a replica reconcile an object, and answer its requests until the pass ends.

        Args:
            number: of the reconciler in the replica; 0 reconciles pools.
            name: of the object.
            late: matches the requests that become late: their sender gets an error, and they run
                when `run_late_requests` is called.
        """
        replica.begin_pass(self.group, number, self.key(name))
        await settle()
        while self.flights:
            for flight in list(self.flights):
                self.flights.remove(flight)
                if late(flight):
                    self.late_requests.append(flight)
                    flight.land(lost=True)
                else:
                    flight.run()
                    flight.land()
            await settle()

    async def reconcile_until_list(self, replica: Passes, pool: str) -> Flight:
        """Start a pass over a pool; return its LIST, which the server has answered.

        The pass waits until the caller lands the answer.
        """
        replica.begin_pass(self.group, 0, self.key(pool))
        while True:
            await settle()
            flight = self.flights.pop(0)
            flight.run()
            if flight.method == "GET" and not flight.name:
                return flight
            flight.land()

    async def reconcile_until(self, replica: Passes, awaited: Matcher) -> Flight:
        """Start a pass over pool p; return the first request that `awaited` matches.

        That request has not run, and the pass waits for its answer.
        """
        replica.begin_pass(self.group, 0, self.key("p"))
        while True:
            await settle()
            flight = self.flights.pop(0)
            if awaited(flight):
                return flight
            flight.run()
            flight.land()

    async def run_held_request(self, flight: Flight) -> None:
        """Run a request from `reconcile_until`, and all that its sender sends after it."""
        self.flights.append(flight)
        while self.flights:
            request = self.flights.pop(0)
            request.run()
            request.land()
            await settle()

    async def serve_requests(self, replica: Any) -> None:
        """Let a replica fence pool p, promise addresses to waiting requests, and write them."""
        for _ in range(3):
            replica.catch_up()
            await self.reconcile_pool(replica)

    async def drop_settled(self, replica: Any) -> None:
        """Serve the waiting requests; drop their settled promises after the quiet period."""
        await self.serve_requests(replica)
        await self.clock.advance(replica.settings.quiet_period)
        await self.serve_requests(replica)

    async def deliver_events_before_answers(self, replica: Any) -> None:
        """Run the requests on their way; the replica reads each event before the answer."""
        await settle()
        while self.flights:
            for flight in list(self.flights):
                self.flights.remove(flight)
                flight.run()
                replica.allocations.catch_up()
                flight.land()
            await settle()

    def run_late_requests(self) -> None:
        """Run the late requests, oldest first."""
        for flight in self.late_requests:
            flight.run()
        self.late_requests.clear()

    @property
    def problem(self) -> str | None:
        """The violation so far; None if there is none."""
        return self.judge.problem or find_double_holders(self.adapter)


def play_scene(
    scene: Callable[[Any], Awaitable[str | None]], on: type[Stage] = Stage
) -> str | None:
    """Play a scene on a stage of the type `on`; return the violation, None if there is none."""

    async def play() -> Any:
        async with anyio.create_task_group() as group:
            stage = on(group)
            await stage.prepare()
            return await scene(stage)

    with play_silently(silent=True):
        verdict: str | None = asyncio.run(play())
    return verdict
