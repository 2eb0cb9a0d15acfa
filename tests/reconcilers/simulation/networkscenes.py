"""Scenes in which one rule of a network's promises is all that stands between two and one."""

from random import Random
from typing import Any

from typing_extensions import override

from reconcilers.integrations.core.journal import ANNOTATION
from tests.reconcilers.simulation.laws import Judge
from tests.reconcilers.simulation.model import NETWORK_ADDRESSES, NETWORKS
from tests.reconcilers.simulation.networkchaos import NetworkReplica, make_network
from tests.reconcilers.simulation.networklaws import NetworkJudge, both_have
from tests.reconcilers.simulation.stage import Stage
from tests.reconcilers.simulation.wire import Flight


class NetworkStage(Stage):
    """A model with network p of three addresses, and no replica at work yet."""

    @override
    def make_judge(self) -> Judge:
        return NetworkJudge(self.model)

    @override
    def overlap(self) -> str | None:
        return both_have(self.model)

    @override
    def make_pool(self, **status: str) -> None:
        make_network(self.model, "p")

    @override
    def ask(self, name: str, count: int = 1, since: str = "") -> None:
        spec = {"networkNamespaceName": "p", "networkConfigurationName": "missing"}
        self.model.create(NETWORK_ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    @override
    def replica(self) -> Any:
        made = NetworkReplica(self.model, self.flights, self.clock, Random(0), patience=0.0)
        made.boot(stale=False)
        return made

    def forget(self) -> None:
        """Take the network's memory away."""
        nothing = {"metadata": {"annotations": {ANNOTATION: None}}}
        self.model.patch(NETWORKS, "p", nothing, guarded=False)


def _gives_to_b(flight: Flight) -> bool:
    """Return whether a request says to B what it got, or why it got nothing."""
    status = flight.plural == NETWORK_ADDRESSES and flight.name == "b"
    return status and flight.method == "PATCH" and "are void" not in str(flight.body)


async def late_write_after_loss_of_memory(stage: NetworkStage) -> str | None:
    """B's address is on its way to it when the network forgets; then A asks, who goes first."""
    stage.ask("b")
    await stage.pool(stage.replica(), _gives_to_b)
    stage.forget()
    stage.ask("a")
    on_their_way, stage.late = stage.late, []
    await stage.pool(stage.replica(), _gives_to_b)
    stage.late = on_their_way
    stage.arrive()
    return stage.problem


async def address_that_a_lagging_cache_does_not_show(stage: NetworkStage) -> str | None:
    """B has its address, and its promise is dropped; who serves A has read neither."""
    stage.ask("c")
    await stage.pool(stage.replica())  # the network has a memory now
    other = stage.replica()
    stage.ask("b")
    first = stage.replica()
    stage.ask("a")
    await stage.pool(first)
    for _ in range(2):  # it drops the promise, and has not seen A
        await stage.clock.advance(60)
        first.networks.advance(first.networks.behind)
        await stage.pool(first)
    other.networks.advance(other.networks.behind)
    other.allocations.advance(2)  # B and A, not what B has
    await stage.pool(other)
    return stage.problem
