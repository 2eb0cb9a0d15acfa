"""Scenes for the rules of KKP's pools: each ends badly if one rule is switched off.

Most rules keep two clusters from having one address; others keep a cluster from losing its
addresses, or from having an allocation without any. test_kkp.py says which rule a scene needs.
Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

from typing import ClassVar

from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.kkp import DATACENTERS, Kkp, list_addresses
from tests.reconcilers.simulation.model import KKP_ALLOCATIONS, KKP_CLUSTERS
from tests.reconcilers.simulation.stage import Matcher, Stage
from tests.reconcilers.simulation.wire import Flight


class KkpStage(Stage):
    """A model with IPAMPool p of four addresses and its journal, and no working replica yet."""

    kind: ClassVar[type[Adapter]] = Kkp

    def set_cluster_size(self, count: int) -> None:
        """Let each cluster in datacenter x get `count` addresses."""
        self.edit_pool({"spec": {"datacenters": {"x": {"allocationRange": count}}}})

    def count_addresses(self, cluster: str) -> int:
        """Return how many addresses of pool p a cluster has."""
        return len(list_addresses(self.model.get(KKP_ALLOCATIONS, f"cluster-{cluster}/p")))


def match_grants_to(name: str) -> Matcher:
    """Return a matcher for the writes of addresses to a cluster."""

    def is_match(flight: Flight) -> bool:
        is_patch = flight.method == "PATCH" and flight.name == f"cluster-{name}/p"
        return is_patch and "spec" in flight.body

    return is_match


def _match_deletions(flight: Flight) -> bool:
    """Return whether a request deletes an object."""
    return flight.method == "DELETE"


async def play_late_growth_after_loss_of_memory(stage: KkpStage) -> str | None:
    """The second address of a is on its way when a is to have one, and the journal is lost."""
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    stage.set_cluster_size(2)
    await stage.reconcile_pool(stage.start_replica(), match_grants_to("a"))
    stage.set_cluster_size(1)
    stage.delete_journal()
    stage.create_request("b")
    await stage.reconcile_pool(stage.start_replica())
    stage.run_late_requests()
    return stage.problem


async def play_datacenter_gone_and_back(stage: KkpStage) -> str | None:
    """A replica has read that the pool lost the datacenter of a, and not that it is back."""
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    stage.edit_pool({"spec": {"datacenters": {"x": None}}})
    other = stage.start_replica()
    stage.edit_pool({"spec": {"datacenters": {"x": DATACENTERS["p"]["x"]}}})
    await stage.reconcile_pool(other)
    return None if stage.count_addresses("a") else "a lost its addresses"


async def play_cluster_moved_away_and_back(stage: KkpStage) -> str | None:
    """A replica has read that a moved to a datacenter without the pool, and not that a is back."""
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"cloud": {"dc": "z"}}})
    other = stage.start_replica()
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"cloud": {"dc": "x"}}})
    await stage.reconcile_pool(other)
    return None if stage.count_addresses("a") else "a lost its addresses"


async def play_late_deletion_of_a_leftover(stage: KkpStage) -> str | None:
    """The deletion of e's empty allocation is on its way when addresses become free for it."""
    stage.set_cluster_size(2)
    for name in ("a", "b"):
        stage.create_request(name)
    await stage.reconcile_pool(stage.start_replica())
    stage.create_request("e")
    stage.adapter.make_empty_allocation("e")
    await stage.reconcile_pool(stage.start_replica(), _match_deletions)
    stage.model.remove_by_force(KKP_ALLOCATIONS, "cluster-a/p")
    stage.model.remove_by_force(KKP_CLUSTERS, "a")
    await stage.reconcile_pool(stage.start_replica())
    addresses = stage.count_addresses("e")
    stage.run_late_requests()
    return stage.problem or (
        None if addresses == stage.count_addresses("e") == 2 else "e lost its addresses"
    )


async def play_promise_written_while_another_allocation_cannot_be_created(
    stage: KkpStage,
) -> str | None:
    """The allocation of a cannot be created, so c gets its addresses; b gets its own meanwhile."""
    stage.create_request("b")
    await stage.reconcile_pool(stage.start_replica(), match_grants_to("b"))
    stage.create_request("a")
    stage.create_request("c")
    current = stage.start_replica()

    def is_for_a(flight: Flight) -> bool:
        is_creation = (
            flight.method == "POST" and flight.body["metadata"]["namespace"] == "cluster-a"
        )
        if is_creation:
            stage.run_late_requests()
            current.allocations.catch_up()
        return is_creation

    await stage.reconcile_pool(current, is_for_a)
    return stage.problem or (None if stage.count_addresses("c") else "c has nothing")


async def play_growth(stage: KkpStage) -> str | None:
    """Each cluster is to get a second address."""
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    stage.set_cluster_size(2)
    await stage.reconcile_pool(stage.start_replica())
    return stage.problem or (None if stage.count_addresses("a") == 2 else "a lacks an address")


async def play_empty_allocation_of_a_full_pool(stage: KkpStage) -> str | None:
    """A user creates an allocation without addresses, and the pool has none for it.

    The rule: such an allocation is deleted. An allocation is created only if the pool has
    addresses for it, so one that stays without addresses is a leftover that serves no cluster.
    """
    stage.set_cluster_size(2)
    for name in ("a", "b", "c"):
        stage.create_request(name)
    stage.adapter.make_empty_allocation("c")
    replica = stage.start_replica()
    for _ in range(2):
        await stage.reconcile_pool(replica)
        for feed in (replica.pools, replica.allocations):
            feed.catch_up()
    if stage.model.get(KKP_ALLOCATIONS, "cluster-c/p") is not None:
        return "an allocation stays without addresses"
    return stage.problem


async def play_promise_written_by_a_replica_that_missed_a_move(stage: KkpStage) -> str | None:
    """Cluster a moved; a replica that has not read that writes its new address."""
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica())
    other = stage.start_replica()
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"cloud": {"dc": "y"}}})
    await stage.reconcile_pool(stage.start_replica(), match_grants_to("a"))
    stage.late_requests.clear()
    for _ in range(2):
        other.pools.catch_up()
        await stage.reconcile_pool(other)
        stage.skip_time(seconds=3)
    return stage.problem


async def play_allocation_unreadable_for_a_while(stage: KkpStage) -> str | None:
    """The allocation of a, which is paused, becomes unreadable; b is served once it can be read.

    If a were not paused, its addresses would be reserved for it anyway.
    """
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())
    stage.edit(KKP_CLUSTERS, "a", {"spec": {"pause": True}})
    stage.edit(KKP_ALLOCATIONS, "cluster-a/p", {"spec": {"type": 7}})
    stage.create_request("b")
    replica = stage.start_replica()
    await stage.serve_requests(replica)
    was_served = stage.count_addresses("b")
    patch = {"spec": {"type": "range"}}
    stage.edit(KKP_ALLOCATIONS, "cluster-a/p", patch)
    await stage.serve_requests(replica)
    if stage.problem:
        return stage.problem
    return (
        None
        if stage.count_addresses("b") and not was_served
        else "b is served too early, or never"
    )
