"""Scenes in which one rule of KKP's pools is all that stands between two clusters and one."""

from typing import ClassVar

from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.kkp import DATACENTERS, Kkp, list_addresses
from tests.reconcilers.simulation.model import KKP_ALLOCATIONS, KKP_CLUSTERS
from tests.reconcilers.simulation.stage import Late, Stage
from tests.reconcilers.simulation.wire import Flight


class KkpStage(Stage):
    """A model with pool p, and no replica at work yet."""

    kind: ClassVar[type[Adapter]] = Kkp

    def give_each(self, count: int) -> None:
        """Have each cluster in datacenter x get so many addresses."""
        self.edit_pool({"spec": {"datacenters": {"x": {"allocationRange": count}}}})

    def has(self, cluster: str) -> int:
        """Return how many addresses a cluster has."""
        return len(list_addresses(self.model.get(KKP_ALLOCATIONS, f"cluster-{cluster}/p")))


def gives_to(name: str) -> Late:
    """Return a matcher for the write of a cluster's addresses."""

    def gives(flight: Flight) -> bool:
        its = flight.method == "PATCH" and flight.name == f"cluster-{name}/p"
        return its and "spec" in flight.body

    return gives


def _deletes(flight: Flight) -> bool:
    return flight.method == "DELETE"


async def late_growth_after_loss_of_memory(stage: KkpStage) -> str | None:
    """A's second address is on its way when it is not wanted any more, and the pool forgets."""
    stage.ask("a")
    await stage.pool(stage.replica())
    stage.give_each(2)
    await stage.pool(stage.replica(), gives_to("a"))
    stage.give_each(1)
    stage.forget()
    stage.ask("b")
    await stage.pool(stage.replica())
    stage.arrive()
    return stage.problem


async def datacenter_gone_and_back(stage: KkpStage) -> str | None:
    """A replica has heard that the pool lost A's datacenter, and not that it has it again."""
    stage.ask("a")
    await stage.pool(stage.replica())
    stage.edit_pool({"spec": {"datacenters": {"x": None}}})
    other = stage.replica()
    stage.edit_pool({"spec": {"datacenters": {"x": DATACENTERS["p"]["x"]}}})
    await stage.pool(other)
    return None if stage.has("a") else "A lost its addresses"


async def cluster_moved_away_and_back(stage: KkpStage) -> str | None:
    """A replica has heard that A moved to where the pool is not, and not that it is back."""
    stage.ask("a")
    await stage.pool(stage.replica())
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"cloud": {"dc": "z"}}})
    other = stage.replica()
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"cloud": {"dc": "x"}}})
    await stage.pool(other)
    return None if stage.has("a") else "A lost its addresses"


async def late_deletion_of_a_leftover(stage: KkpStage) -> str | None:
    """There is nothing for E, so its empty allocation is to go; then there is, and it gets it."""
    stage.give_each(2)
    for name in ("a", "b"):
        stage.ask(name)
    await stage.pool(stage.replica())
    stage.ask("e")
    stage.adapter.make_empty_allocation("e")
    await stage.pool(stage.replica(), _deletes)
    stage.model.vanish(KKP_ALLOCATIONS, "cluster-a/p")
    stage.model.vanish(KKP_CLUSTERS, "a")
    await stage.pool(stage.replica())
    addresses = stage.has("e")
    stage.arrive()
    return stage.problem or (None if addresses == stage.has("e") == 2 else "E lost its addresses")


async def promise_kept_while_another_cannot_be_made(stage: KkpStage) -> str | None:
    """A's allocation cannot be made, so C gets A's addresses; B gets its own meanwhile."""
    stage.ask("b")
    await stage.pool(stage.replica(), gives_to("b"))
    stage.ask("a")
    stage.ask("c")
    current = stage.replica()

    def is_for_a(flight: Flight) -> bool:
        is_creation = (
            flight.method == "POST" and flight.body["metadata"]["namespace"] == "cluster-a"
        )
        if is_creation:
            stage.arrive()
            current.allocations.advance(current.allocations.behind)
        return is_creation

    await stage.pool(current, is_for_a)
    return stage.problem or (None if stage.has("c") else "C has nothing")


async def growth(stage: KkpStage) -> str | None:
    """Each cluster is to get another address."""
    stage.ask("a")
    await stage.pool(stage.replica())
    stage.give_each(2)
    await stage.pool(stage.replica())
    return stage.problem or (None if stage.has("a") == 2 else "A lacks an address")


async def empty_allocation_of_a_full_pool(stage: KkpStage) -> str | None:
    """A user made an allocation without addresses, and there are none for it."""
    stage.give_each(2)
    for name in ("a", "b", "c"):
        stage.ask(name)
    stage.adapter.make_empty_allocation("c")
    replica = stage.replica()
    for _ in range(2):
        await stage.pool(replica)
        for feed in (replica.pools, replica.allocations):
            feed.advance(feed.behind)
    if stage.model.get(KKP_ALLOCATIONS, "cluster-c/p") is not None:
        return "an allocation stays without addresses"
    return stage.problem


async def promise_kept_by_who_believes_in_another_datacenter(stage: KkpStage) -> str | None:
    """A moved, and its new address is written by a replica that has not heard of that."""
    stage.ask("a")
    await stage.pool(stage.replica())
    other = stage.replica()
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"cloud": {"dc": "y"}}})
    await stage.pool(stage.replica(), gives_to("a"))
    stage.late.clear()
    for _ in range(2):
        other.pools.advance(other.pools.behind)
        await stage.pool(other)
        stage.clock.skip(3)
    return stage.problem


async def allocation_unreadable_for_a_while(stage: KkpStage) -> str | None:
    """The allocation of A, which is paused, becomes unreadable; B is served once it can be read.

    Were A not paused, its addresses would be set aside for it all the same.
    """
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"pause": True}})
    stage.edit(KKP_ALLOCATIONS, "cluster-a/p", {"spec": {"type": 7}})
    stage.ask("b")
    replica = stage.replica()
    await stage.serve(replica)
    was_served = stage.has("b")
    patch = {"spec": {"type": "range"}}
    stage.edit(KKP_ALLOCATIONS, "cluster-a/p", patch)
    await stage.serve(replica)
    if stage.problem:
        return stage.problem
    return None if stage.has("b") and not was_served else "B is served too early, or never"
