"""What happens to the replicas, from a seed; and what must hold all the while, and afterwards."""

import asyncio
import gc
import logging
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
import structlog
from anyio.abc import TaskGroup

from tests.clock import VirtualClock, settle
from tests.reconcilers.simulation.laws import (
    FIRST,
    SECOND,
    SECOND_SPAN,
    SPANS,
    Judge,
    overlap,
    unserved,
)
from tests.reconcilers.simulation.model import ALLOCATIONS, POOLS, Json, ModelServer
from tests.reconcilers.simulation.refusals import RefusedRequests
from tests.reconcilers.simulation.replica import Passes, Replica
from tests.reconcilers.simulation.wire import Flight

NAMES = ("a", "b", "c", "d")


@dataclass(frozen=True)
class Plan:
    """What is thrown at the replicas."""

    replicas: int = 2
    steps: int = 300
    disturbances: float = 0.05
    """How often something is edited, wiped or re-created, of all steps."""
    patience: float = 2.0
    """Seconds before a replica completes the promises of others; only economy, never safety."""
    reading: float = 0.5
    """How often a cache reads on before a replica works."""
    users: float = 0.05
    """How often a request is made or deleted, of all steps."""
    lateness: float = 0.06
    """How often a sender gives up on a request that runs later."""
    others: float = 0.25
    """How many of the requests are for the other, smaller pool."""
    lost: bool = True
    stale: bool = True
    resets: bool = True
    touches: bool = True
    pool_cycles: bool = True
    wipes: bool = True
    force: bool = False
    """Whether requests also vanish with the finalizer on them."""
    restores: bool = True
    """Whether a pool comes back from a backup of another history."""
    calm: bool = True
    shards: int = 0
    """In how many parts the pools are shared out; 0: every replica works on all of them."""
    moves: float = 0.04
    """How often a shard moves, of all steps."""
    refusals: float = 0.0
    """How often the server begins or stops to refuse the writes of one request, of all steps."""
    families: bool = False
    """Whether the larger pool has a second family, or gets one, and requests ask for either."""


_ASKED: tuple[Json, ...] = (
    {},
    {"ipFamilies": ["IPv6"]},
    {"ipFamilyPolicy": "PreferDualStack"},
    {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]},
    {"ipFamilyPolicy": "RequireDualStack"},
    {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]},
)
"""What requests say of families."""


@dataclass
class Run:
    """One seed, played."""

    seed: int
    plan: Plan = field(default_factory=Plan)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.clock = VirtualClock()
        self.model = ModelServer(self.clock.now)
        self.refused = RefusedRequests(self.model)
        self.judge = self._make_judge()
        self.flights: list[Flight] = []
        self.replicas: list[Passes] = []
        self.requests = 0
        self.moves = 0
        self.shared = 0
        """How many steps were done while two replicas believed to hold one shard."""
        self.cancelled = 0
        """How many passes were cancelled as their shard moved, in replicas that have died."""

    def _make_judge(self) -> Judge:
        return Judge(self.model)

    def play(self, *, silent: bool = True) -> str | None:
        """Return what went wrong, None if nothing did; log only if not `silent`."""
        with undisturbed(silent=silent):
            return asyncio.run(self._play())

    @property
    def number_of_writes(self) -> int:
        """How many writes took effect."""
        return self.model.writes

    async def _play(self) -> str | None:
        for name in SPANS:
            self._make_pool(name)
        self.replicas = [self._replica(stale=False) for _ in range(self.plan.replicas)]
        for shard in range(self.plan.shards):
            self.random.choice(self.replicas).gain(shard)
        async with anyio.create_task_group() as group:
            verdict = await self._storm(group)
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
        return self._overlap()

    def _step(self, group: TaskGroup) -> None:
        if self.plan.shards:
            self.shared += any(len(self._holders(one)) > 1 for one in range(self.plan.shards))
            if self.random.random() < self.plan.moves:
                self._move(self.random.randrange(self.plan.shards))
                return
        if self.plan.refusals and self.random.random() < self.plan.refusals:
            self.refused.change(self.random.choice(NAMES), self.random)
            return
        dice = self.random.random()
        busy = self.plan.users + 0.02
        if dice < self.plan.users:
            self._user()
        elif dice < busy:
            self._restart()
        elif dice < busy + self.plan.disturbances:
            self._disturb()
        elif dice < busy + 0.03 + self.plan.disturbances:
            self.clock._elapsed += self.random.choice((50, 800, 3000)) * 1_000_000
        elif dice < 0.62 and self.flights:
            self._fly()
        else:
            replica = self.random.choice(self.replicas)
            replica.read(self.plan.reading)
            replica.work(group)

    def _holders(self, shard: int) -> list[Passes]:
        return [one for one in self.replicas if one.shards and shard in one.shards.held]

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
        flight.run(self.model)
        self.flights.remove(flight)
        if flight.waited_for:
            flight.land(lost=self.plan.lost and self.random.random() < 0.05)

    def _user(self) -> None:
        name = self.random.choice(NAMES)
        if self.model.get(ALLOCATIONS, name):
            if self.plan.force and self.random.random() < 0.5:
                self.model.vanish(ALLOCATIONS, name)
            else:
                self.model.delete(ALLOCATIONS, name)
            return
        spec: Json = {
            "poolRef": {"name": "q" if self.random.random() < self.plan.others else "p"},
            "tenantClusterRef": {"name": name, "namespace": "team"},
            "type": "loadbalancer",
            "count": self.random.choice((1, 1, 2)),
        }
        if self.plan.families:
            spec |= self.random.choice(_ASKED)
        self.model.create(ALLOCATIONS, {"metadata": {"name": name}, "spec": spec})

    def _restart(self) -> None:
        place = self.random.randrange(len(self.replicas))
        self.replicas[place].die()
        self.cancelled += self.replicas[place].cancelled
        self.replicas[place] = self._replica(stale=self.plan.stale)

    def _disturb(self) -> None:
        self.judge.paused = True
        self._harm()
        self.judge.paused = False

    def _harm(self) -> None:
        options = []
        if self.plan.resets:
            options.append(self._reset)
        if self.plan.touches:
            options.append(self._touch)
        if self.plan.pool_cycles:
            options += [self._cycle_pool, self._force_pool]
        if self.plan.wipes:
            options.append(self._wipe)
        if self.plan.restores:
            options.append(self._restore)
        if self.plan.families:
            options += [self._add_family, self._lose_family]
        if options:
            self.random.choice(options)()

    def _some_allocation(self) -> str | None:
        names = [obj["metadata"]["name"] for obj in self.model.of(ALLOCATIONS)]
        return self.random.choice(names) if names else None

    def _reset(self) -> None:
        name = self._some_allocation()
        if name:
            nothing = dict.fromkeys(("startAddress", "endAddress", "cidr", "families"))
            self.model.patch(
                ALLOCATIONS,
                name,
                {"status": {**nothing, "phase": "Pending"}},
                status=True,
                guarded=False,
            )

    def _add_family(self) -> None:
        """Give the larger pool its second family, even while it is in use."""
        if self.model.get(POOLS, "p"):
            self.model.patch(POOLS, "p", {"spec": {"secondary": _SECONDARY}}, guarded=False)

    def _lose_family(self) -> None:
        """Wipe the second range from a status, and the phase, as an editor would."""
        name = self._some_allocation()
        if name:
            less = {"status": {"families": None, "phase": "Pending"}}
            self.model.patch(ALLOCATIONS, name, less, status=True, guarded=False)

    def _touch(self) -> None:
        name = self._some_allocation()
        if name:
            label = {"metadata": {"labels": {"touched": str(self.model.revision)}}}
            self.model.patch(ALLOCATIONS, name, label, guarded=False)

    def _cycle_pool(self) -> None:
        if self.model.get(POOLS, "p"):
            self.model.delete(POOLS, "p")
        else:
            self._make_pool("p")

    def _force_pool(self) -> None:
        self.model.vanish(POOLS, "p")
        self._make_pool("p")

    def _restore(self) -> None:
        """Bring the pool back with the memory of a history that is not ours."""
        self.model.vanish(POOLS, "p")
        self._make_pool("p", {"allocationsRevision": str(self.model.revision + 100_000)})

    def _wipe(self) -> None:
        if self.model.get(POOLS, "p"):
            self.model.patch(POOLS, "p", {"status": None}, guarded=False)

    def _make_pool(self, name: str, status: Json | None = None) -> None:
        first, last = SPANS[name]
        span = {"start": f"{FIRST}{first}", "end": f"{FIRST}{last}"}
        spec: Json = {"cidr": "10.0.0.0/24", "tenantAllocation": {"ranges": [span]}}
        if name == "p" and self.plan.families and self.random.random() < 0.7:
            spec["secondary"] = _SECONDARY
        body: Json = {"metadata": {"name": name}, "spec": spec}
        self.model.create(POOLS, body if status is None else body | {"status": status})

    def _replica(self, *, stale: bool) -> Passes:
        replica = Replica(
            self.model,
            self.flights,
            self.clock,
            self.random,
            patience=self.plan.patience,
            shards=self.plan.shards,
        )
        replica.boot(stale=stale)
        return replica

    def _overlap(self) -> str | None:
        return overlap(self.model)

    def _unserved(self) -> str | None:
        return unserved(self.model)

    async def _calm(self, group: TaskGroup) -> str | None:
        """No more mischief: everything that fits must be served, and promises settle."""
        self._abandon([flight for flight in self.flights if not flight.waited_for])
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
                return self._overlap() or self._unserved()
            self.clock._elapsed += (61 if quiet else 7) * 1_000_000_000
        return self._unserved() or "it did not come to rest"

    def _prepare_calm(self) -> None:
        for name in SPANS:
            if self.model.get(POOLS, name) is None:
                self._make_pool(name)
        for shard in range(self.plan.shards):
            for holder in self._holders(shard):
                holder.lose(shard)
            self.random.choice(self.replicas).gain(shard)

    async def _round(self, group: TaskGroup, replica: Passes) -> None:
        replica.read(1.0, all_of_it=True)
        for number, key in replica.all_keys():
            replica.begin(group, number, key)
            await settle()
            while not replica.idle or self.flights:
                for flight in list(self.flights):
                    self.requests += 1
                    flight.run(self.model)
                    self.flights.remove(flight)
                    flight.land()
                replica.read(1.0, all_of_it=True)
                await settle()

    def _abandon(self, flights: Iterable[Flight]) -> None:
        for flight in list(flights):
            flight.land(lost=True)


_PATIENCE = 30
_SECONDARY: Json = {
    "cidr": f"{SECOND}/64",
    "tenantAllocation": {
        "ranges": [{"start": f"{SECOND}{SECOND_SPAN[0]}", "end": f"{SECOND}{SECOND_SPAN[1]}"}]
    },
}
_RESTED = 3


@contextmanager
def undisturbed(*, silent: bool) -> Iterator[None]:
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
