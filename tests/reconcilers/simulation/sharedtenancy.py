"""Tenants whose clusters and pool are shared out among replicas, as by shards that move.

A TenantCluster belongs to the replica that holds it, the pool with its allocations and the orphans
to the one that holds the pool. What is held moves while passes are under way: a replica that loses
it has its passes cancelled and forgets it, or is frozen, and two hold it for a while. In the calm
each is held by one replica, so that a range is projected by one process and taken back by another.
"""

from typing import Any

from anyio.abc import TaskGroup
from typing_extensions import override

from controller.meta import Key
from reconcilers.tenantcluster.reconciler import TenantClusterReconciler
from tests.clock import settle
from tests.reconcilers import make
from tests.reconcilers.lab import Replica
from tests.reconcilers.simulation.tenancy import TENANTS, Faults, Tenancy

POOL = make.key("lab")
MOVES = 0.05
"""How often something moves, of all steps."""


class SharedTenancy(Tenancy):
    """One seed, played by replicas that share the work."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        super().__init__(seed, faults)
        owners = [POOL, *(Key("team", name) for name in TENANTS)]
        self.held = {owner: {self._place()} for owner in owners}
        """Which replicas believe that they hold each cluster and the pool."""
        self.cancelled = 0
        """How many passes were cancelled because what they worked on had moved."""
        self.shared = 0
        """How many steps were done while two replicas held one thing."""

    def _place(self) -> int:
        return self.random.randrange(len(self.replicas))

    @override
    def _keys(self, replica: Replica) -> list[tuple[Any, Key]]:
        place = self.replicas.index(replica)
        return [
            (reconciler, key)
            for reconciler, key in super()._keys(replica)
            if place in self.held[_owner(type(reconciler).__name__, key)]
        ]

    @override
    def _work(self, group: TaskGroup) -> None:
        replica = self.random.choice(self.replicas)
        if keys := self._keys(replica):
            self._begin(group, replica, *self.random.choice(keys))

    @override
    async def _step(self, group: TaskGroup) -> None:
        self.shared += any(len(places) > 1 for places in self.held.values())
        if self.random.random() < MOVES:
            await self._move(self.random.choice(list(self.held)))
        else:
            await super()._step(group)

    async def _move(self, owner: Key) -> None:
        for place in sorted(self.held[owner]):
            if self.random.random() < 0.7:
                await self._lose(place, owner)
        if self.random.random() < 0.8:
            self.held[owner].add(self._place())

    async def _lose(self, place: int, owner: Key) -> None:
        """Do what a process does that loses a shard: cancel, wait, forget."""
        replica = self.replicas[place]
        self.held[owner].discard(place)
        for (process, key, name), scope in self.passes.items():
            if process == id(replica) and _owner(name, key) == owner:
                scope.cancel()
                self.cancelled += 1
        await settle()
        if owner != POOL:
            replica.clusters.forget(owner)
            return
        replica.pools.forget(POOL)
        for allocation in replica.caches["ipallocations"]:
            replica.allocations.forget(allocation.metadata.key)

    @override
    async def _calm(self, group: TaskGroup) -> None:
        for owner, places in self.held.items():
            for place in sorted(places):
                await self._lose(place, owner)
            places.add(self._place())
        await super()._calm(group)


def _owner(reconciler: str, key: Key) -> Key:
    """Return the key that must be held to reconcile a key."""
    return key if reconciler == TenantClusterReconciler.__name__ else POOL
