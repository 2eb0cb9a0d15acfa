"""What happens to the replicas, from a seed; and what must hold all the while, and afterwards.

One storm and one calm for pools of every kind: an adapter says what the objects are, and adds the
events that only its kind has.
"""

import asyncio
import gc
import logging
import random
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup

from controller.meta import Key
from tests.clock import VirtualClock, settle
from tests.reconcilers.simulation.adapter import NAMES, SPANS, Adapter, Event, Memory
from tests.reconcilers.simulation.figures import wrong_figures
from tests.reconcilers.simulation.laws import Judge, describe_unserved, given_twice
from tests.reconcilers.simulation.model import ModelServer
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.refusals import RefusedRequests
from tests.reconcilers.simulation.replica import Process, World
from tests.reconcilers.simulation.wire import Flight


class Run:
    """One seed, played.

    Args:
        adapter: the kind of the pools.
        seed: decides everything.
        plan: what is thrown at the replicas.
    """

    def __init__(self, adapter: type[Adapter], seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan = plan or Plan()
        self.random = random.Random(seed)
        self.clock = VirtualClock()
        self.model = ModelServer(self.clock)
        self.adapter = adapter(self.model, self.random, plan)
        self.refused = RefusedRequests(self.model)
        self.judge = Judge(self.adapter)
        self.flights: list[Flight] = []
        self.world = World(
            self.model,
            self.flights,
            clock=self.clock,
            rnd=self.random,
            patience=plan.patience,
            shards=plan.shards,
        )
        self.replicas: list[Process] = []
        self.is_switched_on = True
        """Whether processes that begin from now on have the integration."""
        self.switched_on: list[bool] = []
        """By replica: whether it has the integration."""
        self.switches = 0
        """How often the integration was switched off or on again."""
        self.requests = 0
        self.moves = 0
        self.shared = 0
        """How many steps were done while two replicas believed to hold one shard."""
        self.cancelled = 0
        """How many passes were cancelled as their shard moved, in replicas that have died."""

    def play(self, *, silent: bool = True) -> str | None:
        """Return the first violation, None if there was none; log only if not `silent`."""
        with keep_quiet(silent=silent):
            return asyncio.run(self._play())

    @property
    def number_of_writes(self) -> int:
        """How many writes took effect."""
        return self.model.writes

    async def _play(self) -> str | None:
        for name in SPANS:
            self.adapter.make_pool(name)
        self.replicas = [self._replica(stale=False) for _ in range(self.plan.replicas)]
        self.switched_on = [True] * self.plan.replicas
        for shard in range(self.plan.shards):
            self.random.choice(self.replicas).gain(shard)
        async with anyio.create_task_group() as group:
            verdict = await self._storm(group)
            if verdict is None and self.plan.lasting_refusals:
                verdict = await self._endure(group)
            if verdict is None and self.plan.calm:
                verdict = await self._calm(group)
            for replica in self.replicas:
                replica.die()
                self.cancelled += replica.cancelled
            self._abandon(self.flights)
            group.cancel_scope.cancel()
        return verdict

    async def _storm(self, group: TaskGroup) -> str | None:
        for _ in range(self.plan.steps):
            await settle()
            self._step(group)
            if self.judge.problem:
                return self.judge.problem
        return given_twice(self.adapter)

    def _step(self, group: TaskGroup) -> None:
        if self.plan.shards:
            self.shared += any(len(self._holders(shard)) > 1 for shard in range(self.plan.shards))
            if self.random.random() < self.plan.moves:
                self._move(self.random.randrange(self.plan.shards))
                return
        if self.plan.switches and self.random.random() < self.plan.switches:
            self._switch()
            return
        if self.plan.refusals and self.random.random() < self.plan.refusals:
            self.refused.change(self.random.choice(NAMES), self.random)
            return
        dice = self.random.random()
        busy = self.plan.users + 0.02
        if dice < self.plan.users:
            self.adapter.use()
        elif dice < busy:
            self._restart()
        elif dice < busy + self.plan.disturbances:
            self._disturb()
        elif dice < busy + 0.03 + self.plan.disturbances:
            self.clock.skip(self.random.choice(self.plan.pauses) / 1000)
        elif dice < 0.62 and self.flights:
            self._fly()
        else:
            replica = self.random.choice(self.replicas)
            replica.read(self.plan.reading)
            replica.work(group)

    def _holders(self, shard: int) -> list[Process]:
        return [
            replica for replica in self.replicas if replica.shards and shard in replica.shards.held
        ]

    def _move(self, shard: int) -> None:
        """Let a replica have a shard, or none; who had it may be frozen, and work on later."""
        self.moves += 1
        for holder in self._holders(shard):
            if self.random.random() < 0.7:
                holder.lose(shard)
        if self.random.random() < 0.8:
            self.random.choice(self.replicas).gain(shard)

    def _fly(self) -> None:
        flight = self.random.choice(self.flights)
        if self.plan.lost and self.random.random() < self.plan.lateness:
            flight.land(lost=True)  # the sender gives up; the request may still run
            return
        flight.run()
        self.flights.remove(flight)
        if flight.is_awaited:
            flight.land(lost=self.plan.lost and self.random.random() < 0.05)

    def _restart(self) -> None:
        self._replace_replica(self.random.randrange(len(self.replicas)), stale=self.plan.stale)

    def _replace_replica(self, place: int, *, stale: bool) -> None:
        """Let a process die, and another one begin in its place."""
        self.replicas[place].die()
        self.cancelled += self.replicas[place].cancelled
        self.replicas[place] = self._replica(stale=stale)
        self.switched_on[place] = self.is_switched_on
        self.adapter.is_abandoned = not any(self.switched_on)

    def _switch(self) -> None:
        """Switch the integration off, or on again; half of the processes restart at once."""
        self.switches += 1
        self.is_switched_on = not self.is_switched_on
        for place in range(len(self.replicas)):
            if self.random.random() < 0.5:
                self._replace_replica(place, stale=self.plan.stale)

    # What people do, and the laws do not forbid.

    def _disturb(self) -> None:
        self.judge.paused = True
        if events := self._events():
            self.random.choice(events)()
        self.judge.paused = False

    def _events(self) -> list[Event]:
        """Return the possible edits of the objects."""
        adapter = self.adapter
        events: dict[str, list[Event]] = {
            "resets": [partial(self._reset, plural) for plural in adapter.requests],
            "touches": [partial(self._touch, plural) for plural in adapter.requests],
            "pool_cycles": [self._cycle_pool],
            "wipes": [partial(self._wipe, memory) for memory in adapter.memories],
            "restores": [partial(self._restore, memory) for memory in adapter.memories],
        }
        if not self.plan.switches:  # a new pool has no journal; see SWITCHED
            events["pool_cycles"].append(self._replace_pool)
        for field, further in adapter.events().items():
            events.setdefault(field, []).extend(further)
        return [event for field in events if getattr(self.plan, field) for event in events[field]]

    def _reset(self, plural: str) -> None:
        """Wipe what a request shows."""
        if name := self.adapter.pick(plural):
            patch = self.adapter.resets[plural]
            self.model.edit(plural, name, patch)

    def _touch(self, plural: str) -> None:
        """Give a request another version."""
        if name := self.adapter.pick(plural):
            label = {"metadata": {"labels": {"touched": str(self.model.revision)}}}
            self.model.edit(plural, name, label)

    def _cycle_pool(self) -> None:
        """Delete the pool, or create it again."""
        if self.model.get(self.adapter.pools, "p"):
            self.model.delete(self.adapter.pools, "p")
        else:
            self.adapter.make_pool("p")

    def _replace_pool(self) -> None:
        """Have another pool in the place of the pool, maybe with its journal, as from a backup."""
        pool = self.model.get(self.adapter.pools, "p") or {"metadata": {}}
        journals = [patch for memory in self.adapter.memories if (patch := memory.make_copy(pool))]
        self.model.vanish(self.adapter.pools, "p")
        self.adapter.make_pool("p")
        if journals and self.random.random() < 0.5:
            for patch in journals:
                self.model.edit(self.adapter.pools, "p", patch)

    def _restore(self, memory: Memory) -> None:
        """Give the pool the memory of a history that is not ours."""
        if pool := self.model.get(self.adapter.pools, "p"):
            patch = memory.of_history(pool, self.model.revision + 100_000)
            self.model.edit(self.adapter.pools, "p", patch)

    def _wipe(self, memory: Memory) -> None:
        """Take the memory of the pool away."""
        if self.model.get(self.adapter.pools, "p"):
            self.model.edit(self.adapter.pools, "p", memory.forgotten())

    def _replica(self, *, stale: bool) -> Process:
        adapter, is_on = self.adapter, self.is_switched_on
        make = adapter.make_replica if is_on else adapter.make_replica_without_integration
        replica = make(self.world)
        replica.boot(stale=stale)
        return replica

    # The calm.

    async def _calm(self, group: TaskGroup) -> str | None:
        """No more mischief: everything that fits must be served, and promises settle."""
        self._abandon([flight for flight in self.flights if not flight.is_awaited])
        self.refused.clear()
        self._prepare_calm()
        quiet = 0
        for _ in range(_PATIENCE):
            before = self.requests
            for replica in self.replicas:
                await self._round(group, replica)
                if self.judge.problem:
                    return f"{self.judge.problem} (in the calm)"
            # Once nothing is asked for any more, a quiet minute must not change that.
            quiet = quiet + 1 if self.requests == before else 0
            if quiet == _RESTED:
                return (
                    given_twice(self.adapter)
                    or describe_unserved(self.adapter)
                    or wrong_figures(self.adapter)
                )
            self.clock.skip(61 if quiet else 7)
        return describe_unserved(self.adapter) or "it did not come to rest"

    async def _endure(self, group: TaskGroup) -> str | None:
        """No mischief but the refusals: a refused request costs few writes in each resync."""
        self._abandon([flight for flight in self.flights if not flight.is_awaited])
        self._prepare_calm()
        for resync in range(_RESYNCS):
            self.refused.writes.clear()
            for number in range(_ROUNDS):
                for replica in self.replicas:
                    failures = replica.failures
                    # As the runner backs off, but for the first seconds.
                    waits = {failure for failure in failures if number % 2 ** failures[failure]}
                    await self._round(group, replica, waits)
                    if self.judge.problem:
                        return f"{self.judge.problem} (while writes are refused)"
                self.clock.skip(_RESYNC / _ROUNDS)
            # In the first one the replicas learn what is refused.
            if resync and (problem := self.refused.busiest(len(self.replicas))):
                return problem
        return None

    def _prepare_calm(self) -> None:
        self.is_switched_on = True
        for place, is_on in enumerate(self.switched_on):
            if not is_on:
                self._replace_replica(place, stale=False)
        self.judge.paused = True
        self.adapter.prepare_calm()
        self.judge.paused = False
        for shard in range(self.plan.shards):
            for holder in self._holders(shard):
                holder.lose(shard)
            self.random.choice(self.replicas).gain(shard)

    async def _round(
        self, group: TaskGroup, replica: Process, without: Collection[tuple[int, Key]] = ()
    ) -> None:
        """Let a replica look at everything but what `without` has, and answer its requests."""
        replica.read(1.0, all_of_it=True)
        for number, key in replica.all_keys():
            if (number, key) in without:
                continue
            replica.begin(group, number, key)
            await settle()
            while not replica.idle or self.flights:
                for flight in list(self.flights):
                    self.requests += 1
                    flight.run()
                    self.flights.remove(flight)
                    flight.land()
                replica.read(1.0, all_of_it=True)
                await settle()

    def _abandon(self, flights: Iterable[Flight]) -> None:
        for flight in list(flights):
            flight.land(lost=True)


_PATIENCE = 30
_RESYNC = 60
"""Seconds: the default of the pools' settings."""
_RESYNCS = 3
_ROUNDS = 12
"""Passes of each replica over each key in a resync."""
_RESTED = 3


@contextmanager
def keep_quiet(*, silent: bool) -> Iterator[None]:
    """Log nothing if `silent`, and leave the garbage where it is while a seed is played."""
    before = structlog.get_config()
    if silent:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        structlog.configure(**before)
