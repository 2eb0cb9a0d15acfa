"""Tenants whose clusters and pool are shared out among replicas, as by shards that move.

A TenantCluster belongs to the replica that holds it, the pool with its allocations and the orphans
to the replica that holds the pool. Clusters and the pool move while passes are running. The
replica that loses one has its passes cancelled and forgets it; or it is frozen, and two replicas
hold it for a while. In the calm each has one replica, so one process projects a range, and another
releases it.
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
    """One seed of the tenants' simulation, played by replicas that share the work."""

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        super().__init__(seed, faults)
        owners = [POOL, *(Key("team", name) for name in TENANTS)]
        self.held = {owner: {self._choose_place()} for owner in owners}
        """Which replicas believe that they hold each cluster and the pool."""
        self.cancelled = 0
        """How many passes were cancelled because what they worked on had moved."""
        self.shared = 0
        """How many steps were done while two replicas held one thing."""

    def _choose_place(self) -> int:
        """Return the place of a random replica in `replicas`."""
        return self.random.randrange(len(self.replicas))

    @override
    def _list_passes(self, replica: Replica) -> list[tuple[Any, Key]]:
        place = self.replicas.index(replica)
        return [
            (reconciler, key)
            for reconciler, key in super()._list_passes(replica)
            if place in self.held[_find_owner(type(reconciler).__name__, key)]
        ]

    @override
    def _begin_any_pass(self, group: TaskGroup) -> None:
        replica = self.random.choice(self.replicas)
        if keys := self._list_passes(replica):
            self._begin_pass(group, replica, *self.random.choice(keys))

    @override
    async def _step(self, group: TaskGroup) -> None:
        self.shared += any(len(places) > 1 for places in self.held.values())
        if self.random.random() < MOVES:
            await self._move_owner(self.random.choice(list(self.held)))
        else:
            await super()._step(group)

    async def _move_owner(self, owner: Key) -> None:
        """Give a cluster or the pool to another replica or none; its holder may keep it, too."""
        for place in sorted(self.held[owner]):
            if self.random.random() < 0.7:
                await self._cancel_and_forget(place, owner)
        if self.random.random() < 0.8:
            self.held[owner].add(self._choose_place())

    async def _cancel_and_forget(self, place: int, owner: Key) -> None:
        """Do what a process does that loses a shard: cancel its passes, wait, and forget."""
        replica = self.replicas[place]
        self.held[owner].discard(place)
        for (process, key, name), scope in self.passes.items():
            if process == id(replica) and _find_owner(name, key) == owner:
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
    async def _play_calm(self, group: TaskGroup) -> None:
        for owner, places in self.held.items():
            for place in sorted(places):
                await self._cancel_and_forget(place, owner)
            places.add(self._choose_place())
        await super()._play_calm(group)


def _find_owner(reconciler: str, key: Key) -> Key:
    """Return the key that a replica must hold to reconcile a key: the cluster's or the pool's."""
    return key if reconciler == TenantClusterReconciler.__name__ else POOL
