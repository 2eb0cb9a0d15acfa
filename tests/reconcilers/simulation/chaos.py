"""A run of a seed: a storm, in which anything may happen to the replicas, and then a calm.

In the storm a seed decides which disturbances happen, and each write is judged. In the calm
nothing disturbs the replicas any more: everything that fits must be served. There is one storm
and one calm for pools of every kind: an adapter adds the disturbances that only its kind has.
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
from tests.reconcilers.simulation.adapter import NAMES, SPANS, Adapter, Disturbance, Memory
from tests.reconcilers.simulation.figures import find_wrong_figure
from tests.reconcilers.simulation.laws import Judge, describe_unserved, find_double_holders
from tests.reconcilers.simulation.model import ModelServer
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.refusals import RefusedRequests
from tests.reconcilers.simulation.replica import Process, World
from tests.reconcilers.simulation.wire import Flight


class Run:
    """A run of one seed.

    Args:
        adapter: the kind of the pools.
        seed: decides everything that happens.
        plan: the number of replicas and steps, and which disturbances happen how often.
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
        """How many requests ran in the calm."""
        self.moves = 0
        """How often a shard moved."""
        self.shared = 0
        """How many steps were done while two replicas believed to hold one shard."""
        self.cancelled = 0
        """How many passes were cancelled as their shard moved, in replicas that were stopped."""

    def play(self, *, silent: bool = True) -> str | None:
        """Play the seed; return the first violation, None for none. Log if not `silent`."""
        with play_silently(silent=silent):
            return asyncio.run(self._play())

    @property
    def number_of_writes(self) -> int:
        """How many writes took effect."""
        return self.model.writes

    async def _play(self) -> str | None:
        """Play the storm and the calm; return the first violation, None if there was none."""
        for name in SPANS:
            self.adapter.make_pool(name)
        self.replicas = [self._start_replica(stale=False) for _ in range(self.plan.replicas)]
        self.switched_on = [True] * self.plan.replicas
        for shard in range(self.plan.shards):
            self.random.choice(self.replicas).gain_shard(shard)
        async with anyio.create_task_group() as group:
            verdict = await self._storm(group)
            if verdict is None and self.plan.lasting_refusals:
                verdict = await self._play_refusals(group)
            if verdict is None and self.plan.calm:
                verdict = await self._play_calm(group)
            for replica in self.replicas:
                replica.stop()
                self.cancelled += replica.cancelled
            self._lose_answers(self.flights)
            group.cancel_scope.cancel()
        return verdict

    async def _storm(self, group: TaskGroup) -> str | None:
        """Do the steps of the plan; return the first violation, None if there was none."""
        for _ in range(self.plan.steps):
            await settle()
            self._step(group)
            if self.judge.problem:
                return self.judge.problem
        return find_double_holders(self.adapter)

    def _step(self, group: TaskGroup) -> None:
        """Do one random step: a disturbance, a request that runs, time that passes, or a pass."""
        if self.plan.shards:
            self.shared += any(
                len(self._list_holders(shard)) > 1 for shard in range(self.plan.shards)
            )
            if self.random.random() < self.plan.moves:
                self._move_shard(self.random.randrange(self.plan.shards))
                return
        if self.plan.switches and self.random.random() < self.plan.switches:
            self._switch_integration()
            return
        if self.plan.refusals and self.random.random() < self.plan.refusals:
            self.refused.change_refusal(self.random.choice(NAMES), self.random)
            return
        dice = self.random.random()
        busy = self.plan.users + 0.02
        if dice < self.plan.users:
            self.adapter.act_as_user()
        elif dice < busy:
            self._restart_replica()
        elif dice < busy + self.plan.disturbances:
            self._disturb()
        elif dice < busy + 0.03 + self.plan.disturbances:
            self.clock.skip(self.random.choice(self.plan.pauses) / 1000)
        elif dice < 0.62 and self.flights:
            self._run_request()
        else:
            replica = self.random.choice(self.replicas)
            replica.read_some(self.plan.reading)
            replica.begin_any_pass(group)

    def _list_holders(self, shard: int) -> list[Process]:
        """Return the replicas that believe to hold a shard."""
        return [
            replica for replica in self.replicas if replica.shards and shard in replica.shards.held
        ]

    def _move_shard(self, shard: int) -> None:
        """Give a shard to another replica or to none; its holder may not notice, and go on."""
        self.moves += 1
        for holder in self._list_holders(shard):
            if self.random.random() < 0.7:
                holder.lose_shard(shard)
        if self.random.random() < 0.8:
            self.random.choice(self.replicas).gain_shard(shard)

    def _run_request(self) -> None:
        """Run one of the requests on their way, or let its sender give up waiting for it."""
        flight = self.random.choice(self.flights)
        if self.plan.lost and self.random.random() < self.plan.lateness:
            flight.land(lost=True)  # the sender gets an error; the request may still run
            return
        flight.run()
        self.flights.remove(flight)
        if flight.is_awaited:
            flight.land(lost=self.plan.lost and self.random.random() < 0.05)

    def _restart_replica(self) -> None:
        """Replace a random replica by a new process."""
        self._replace_replica(self.random.randrange(len(self.replicas)), stale=self.plan.stale)

    def _replace_replica(self, place: int, *, stale: bool) -> None:
        """Stop the process at a place of `replicas`, and start another one there."""
        self.replicas[place].stop()
        self.cancelled += self.replicas[place].cancelled
        self.replicas[place] = self._start_replica(stale=stale)
        self.switched_on[place] = self.is_switched_on
        self.adapter.is_abandoned = not any(self.switched_on)

    def _switch_integration(self) -> None:
        """Switch the integration off or on again; half of the processes restart at once."""
        self.switches += 1
        self.is_switched_on = not self.is_switched_on
        for place in range(len(self.replicas)):
            if self.random.random() < 0.5:
                self._replace_replica(place, stale=self.plan.stale)

    # Disturbances: people may do anything.

    def _disturb(self) -> None:
        """Let a person do something at random; the judge does not judge that."""
        self.judge.paused = True
        if events := self._list_disturbances():
            self.random.choice(events)()
        self.judge.paused = False

    def _list_disturbances(self) -> list[Disturbance]:
        """Return the disturbances that the plan allows."""
        adapter = self.adapter
        events: dict[str, list[Disturbance]] = {
            "resets": [partial(self._wipe_request, plural) for plural in adapter.requests],
            "touches": [partial(self._touch_request, plural) for plural in adapter.requests],
            "pool_cycles": [self._cycle_pool],
            "wipes": [partial(self._delete_journal, memory) for memory in adapter.memories],
            "restores": [
                partial(self._give_foreign_journal, memory) for memory in adapter.memories
            ],
        }
        if not self.plan.switches:  # a new pool has no journal; see SWITCHED
            events["pool_cycles"].append(self._replace_pool)
        for field, further in adapter.list_disturbances().items():
            events.setdefault(field, []).extend(further)
        return [event for field in events if getattr(self.plan, field) for event in events[field]]

    def _wipe_request(self, plural: str) -> None:
        """Wipe the addresses that a request shows."""
        if name := self.adapter.pick_name(plural):
            patch = self.adapter.resets[plural]
            self.model.edit(plural, name, patch)

    def _touch_request(self, plural: str) -> None:
        """Edit a label of a request, so that it gets another resourceVersion."""
        if name := self.adapter.pick_name(plural):
            label = {"metadata": {"labels": {"touched": str(self.model.revision)}}}
            self.model.edit(plural, name, label)

    def _cycle_pool(self) -> None:
        """Delete pool p, or create it again."""
        if self.model.get(self.adapter.pools, "p"):
            self.model.delete(self.adapter.pools, "p")
        else:
            self.adapter.make_pool("p")

    def _replace_pool(self) -> None:
        """Replace pool p by a new object, sometimes with its old journal, as from a backup."""
        pool = self.model.get(self.adapter.pools, "p") or {"metadata": {}}
        journals = [patch for memory in self.adapter.memories if (patch := memory.make_copy(pool))]
        self.model.remove_by_force(self.adapter.pools, "p")
        self.adapter.make_pool("p")
        if journals and self.random.random() < 0.5:
            for patch in journals:
                self.model.edit(self.adapter.pools, "p", patch)

    def _give_foreign_journal(self, memory: Memory) -> None:
        """Give pool p a journal of another cluster, whose revision is ahead of this one's."""
        if pool := self.model.get(self.adapter.pools, "p"):
            patch = memory.make_empty_journal(pool, self.model.revision + 100_000)
            self.model.edit(self.adapter.pools, "p", patch)

    def _delete_journal(self, memory: Memory) -> None:
        """Delete the journal of pool p."""
        if self.model.get(self.adapter.pools, "p"):
            self.model.edit(self.adapter.pools, "p", memory.make_removal())

    def _start_replica(self, *, stale: bool) -> Process:
        """Return a new process that has listed its kinds, with or without the integration."""
        adapter, is_on = self.adapter, self.is_switched_on
        make = adapter.make_replica if is_on else adapter.make_replica_without_integration
        replica = make(self.world)
        replica.boot(stale=stale)
        return replica

    # The calm.

    async def _play_calm(self, group: TaskGroup) -> str | None:
        """Play the calm; return the first violation, None if all is served and at rest."""
        self._lose_answers([flight for flight in self.flights if not flight.is_awaited])
        self.refused.clear()
        self._prepare_calm()
        quiet = 0
        for _ in range(_MOST_CALM_ROUNDS):
            before = self.requests
            for replica in self.replicas:
                await self._run_all_passes(group, replica)
                if self.judge.problem:
                    return f"{self.judge.problem} (in the calm)"
            # Once no request is sent any more, a quiet minute must not change that.
            quiet = quiet + 1 if self.requests == before else 0
            if quiet == _QUIET_ROUNDS:
                return (
                    find_double_holders(self.adapter)
                    or describe_unserved(self.adapter)
                    or find_wrong_figure(self.adapter)
                )
            self.clock.skip(61 if quiet else 7)
        return describe_unserved(self.adapter) or "it did not come to rest"

    async def _play_refusals(self, group: TaskGroup) -> str | None:
        """Refuse writes for some resyncs; return a request that is written too often, or None."""
        self._lose_answers([flight for flight in self.flights if not flight.is_awaited])
        self._prepare_calm()
        for resync in range(_RESYNCS):
            self.refused.writes.clear()
            for number in range(_ROUNDS):
                for replica in self.replicas:
                    failures = replica.failures
                    # As the runner backs off: longer after each failure.
                    waits = {failure for failure in failures if number % 2 ** failures[failure]}
                    await self._run_all_passes(group, replica, waits)
                    if self.judge.problem:
                        return f"{self.judge.problem} (while writes are refused)"
                self.clock.skip(_RESYNC_SECONDS / _ROUNDS)
            if resync and (problem := self.refused.describe_excess(len(self.replicas))):
                return problem
        return None

    def _prepare_calm(self) -> None:
        """End all disturbances; give all replicas the integration, and each shard one holder."""
        self.is_switched_on = True
        for place, is_on in enumerate(self.switched_on):
            if not is_on:
                self._replace_replica(place, stale=False)
        self.judge.paused = True
        self.adapter.prepare_calm()
        self.judge.paused = False
        for shard in range(self.plan.shards):
            for holder in self._list_holders(shard):
                holder.lose_shard(shard)
            self.random.choice(self.replicas).gain_shard(shard)

    async def _run_all_passes(
        self, group: TaskGroup, replica: Process, without: Collection[tuple[int, Key]] = ()
    ) -> None:
        """Let a replica do a pass over each of its objects, and answer all requests at once.

        Args:
            group: runs the passes.
            without: reconcilers' numbers and keys for which no pass is due.
        """
        replica.catch_up()
        for number, key in replica.list_all_keys():
            if (number, key) in without:
                continue
            replica.begin_pass(group, number, key)
            await settle()
            while not replica.is_idle or self.flights:
                for flight in list(self.flights):
                    self.requests += 1
                    flight.run()
                    self.flights.remove(flight)
                    flight.land()
                replica.catch_up()
                await settle()

    def _lose_answers(self, flights: Iterable[Flight]) -> None:
        """Let the senders of some requests give up; the requests never run."""
        for flight in list(flights):
            flight.land(lost=True)


_MOST_CALM_ROUNDS = 30
"""A run that is not at rest after these rounds never comes to rest."""
_RESYNC_SECONDS = 60
"""The default of the pools' settings."""
_RESYNCS = 3
"""Resyncs in which writes are refused; in the first one the replicas learn of the refusals."""
_ROUNDS = 12
"""Passes of each replica over each key in a resync."""
_QUIET_ROUNDS = 3
"""Rounds without a request after which a run is at rest."""


@contextmanager
def play_silently(*, silent: bool) -> Iterator[None]:
    """Log nothing if `silent`, and collect no garbage, while a seed is played."""
    before = structlog.get_config()
    if silent:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        structlog.configure(**before)
