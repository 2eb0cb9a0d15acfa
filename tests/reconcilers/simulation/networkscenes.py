"""Scenes in which one rule of a network's promises is all that stands between two and one."""

from typing import ClassVar

from controller.codec import DecodeFailure
from reconcilers.integrations.vitistack.api import AllocationOutlineSpec, VitistackOutline
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.model import INTERFACES, NETWORK_ADDRESSES, Json
from tests.reconcilers.simulation.networks import Networks, address
from tests.reconcilers.simulation.stage import Late, Stage
from tests.reconcilers.simulation.wire import Flight


class NetworkStage(Stage):
    """A model with network p of three addresses, and no replica at work yet."""

    kind: ClassVar[type[Adapter]] = Networks

    def shows_first(self, name: str) -> bool:
        """Return whether an IPAllocation shows the first address of the network."""
        allocation = self.model.get(NETWORK_ADDRESSES, name) or {}
        return bool((allocation.get("status") or {}).get("address") == address(0))


def _gives_to(name: str) -> Late:
    """Return a matcher for the write that reports an IPAllocation's address or refusal."""

    def gives(flight: Flight) -> bool:
        status = flight.plural == NETWORK_ADDRESSES and flight.name == name
        return status and flight.method == "PATCH" and "are void" not in str(flight.body)

    return gives


_gives_to_b = _gives_to("b")


async def machine_whose_allocation_is_gone(stage: NetworkStage) -> str | None:
    """A machine shows the first address, whose IPAllocation a lagging cache shows still."""
    spec = {"networkNamespaceName": "p", "networkInterfaces": [{"name": "eth0"}]}
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": [address(0)]}]}
    stage.model.create(INTERFACES, {"metadata": {"name": "m"}, "spec": spec, "status": status})
    holds = {"phase": "Allocated", "address": address(0)}
    of_machine = {"networkNamespaceName": "p", "networkConfigurationName": "m"}
    stage.model.create(
        NETWORK_ADDRESSES,
        {"metadata": {"name": "m-eth0"}, "spec": of_machine, "status": holds},
    )
    lagging = stage.replica()
    stage.model.vanish(NETWORK_ADDRESSES, "m-eth0")
    stage.ask("c")
    await stage.drop_settled(stage.replica())  # the network remembers a revision after that
    stage.ask("b")
    lagging.pools.advance(lagging.pools.behind)
    lagging.configurations.advance(lagging.configurations.behind)
    await stage.pool(lagging)  # it waits for its cache in vain, then lists
    await stage.clock.advance(lagging.settings.cache_patience)
    await stage.pool(lagging)
    if stage.shows_first("b"):
        return f"m and b both have {address(0)}"
    return stage.problem


async def allocation_unreadable_for_a_while(stage: NetworkStage) -> str | None:
    """IPAllocation a, which has its address, becomes unreadable; then b asks."""
    stage.ask("a")
    await stage.drop_settled(stage.replica())
    stage.edit(NETWORK_ADDRESSES, "a", {"status": {"vlanId": "odd"}})
    return await _ask_until_readable(
        stage, NETWORK_ADDRESSES, name="a", repair={"status": {"vlanId": 0}}
    )


async def machine_unreadable_for_a_while(stage: NetworkStage) -> str | None:
    """A machine shows the first address, which another operator gave, unreadably; then b asks."""
    interfaces: list[Json] = [{"name": "eth0"}]
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": [address(0)]}]}
    spec = {"networkNamespaceName": "p", "provider": 7, "networkInterfaces": interfaces}
    body: Json = {"metadata": {"name": "m"}, "spec": spec, "status": status}
    stage.model.create(INTERFACES, body)
    return await _ask_until_readable(
        stage, INTERFACES, name="m", repair={"spec": {"provider": None}}
    )


async def _ask_until_readable(
    stage: NetworkStage, plural: str, name: str, repair: Json
) -> str | None:
    """Let b ask while an object holds the first address unreadably, until it is corrected."""
    stage.ask("b")
    replica = stage.replica()
    await stage.serve(replica)
    if stage.shows_first("b"):
        return f"{name} and b both have {address(0)}"
    stage.edit(plural, name, repair)
    await stage.serve(replica)
    if not stage.adapter.addresses(stage.model.objects[NETWORK_ADDRESSES, "b"]):
        return f"b is not served once {name} can be read"
    return stage.problem


async def promise_to_an_unreadable_allocation(stage: NetworkStage) -> str | None:
    """A's address is on its way when b asks a replica that can read of a only its network.

    That is another network, as if a person had replaced it.
    """
    stage.ask("first")
    await stage.serve(stage.replica())  # a network without memory would be fenced
    stage.ask("a")
    await stage.pool(stage.replica(), _gives_to("a"))
    other = stage.replica()
    allocation = other.allocations.cache.get(stage.key("a"))
    outline = VitistackOutline(allocation.metadata, AllocationOutlineSpec("q"))
    failure = DecodeFailure("odd", outline, allocation.metadata)
    for unreadable in ({}, {stage.key("a"): failure}):  # it has just begun: no older version
        others = [
            allocation for allocation in other.allocations.cache if allocation.metadata.name != "a"
        ]
        other.allocations.cache.replace(others, stage.model.revision, unreadable)
    stage.ask("b")
    await stage.serve(other)
    stage.arrive()
    return stage.problem
