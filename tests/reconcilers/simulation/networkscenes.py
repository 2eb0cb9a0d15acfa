"""Scenes in which one rule of a network's promises keeps two machines from having one address.

Each scene returns the violation, None if there is none. Its docstring tells the course of events.
"""

from typing import ClassVar

from controller.codec import DecodeFailure
from reconcilers.integrations.vitistack.api import AllocationOutlineSpec, VitistackOutline
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.model import INTERFACES, NETWORK_ADDRESSES, Json
from tests.reconcilers.simulation.networks import Networks, make_address
from tests.reconcilers.simulation.stage import Matcher, Stage
from tests.reconcilers.simulation.wire import Flight


class NetworkStage(Stage):
    """A model with network p of three addresses and its journal, and no working replica yet."""

    kind: ClassVar[type[Adapter]] = Networks

    def has_first_address(self, name: str) -> bool:
        """Return whether an IPAllocation shows the first address of the network."""
        allocation = self.model.get(NETWORK_ADDRESSES, name) or {}
        return bool((allocation.get("status") or {}).get("address") == make_address(0))


def _match_reports_to(name: str) -> Matcher:
    """Return a matcher for the writes that report an address or a refusal to an IPAllocation."""

    def is_match(flight: Flight) -> bool:
        status = flight.plural == NETWORK_ADDRESSES and flight.name == name
        return status and flight.method == "PATCH" and "are void" not in str(flight.body)

    return is_match


_gives_to_b = _match_reports_to("b")


async def machine_whose_allocation_is_gone(stage: NetworkStage) -> str | None:
    """A machine shows the first address; only a lagging cache still shows its IPAllocation."""
    spec = {"networkNamespaceName": "p", "networkInterfaces": [{"name": "eth0"}]}
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": [make_address(0)]}]}
    stage.model.create(INTERFACES, {"metadata": {"name": "m"}, "spec": spec, "status": status})
    holds = {"phase": "Allocated", "address": make_address(0)}
    of_machine = {"networkNamespaceName": "p", "networkConfigurationName": "m"}
    stage.model.create(
        NETWORK_ADDRESSES,
        {"metadata": {"name": "m-eth0"}, "spec": of_machine, "status": holds},
    )
    lagging = stage.start_replica()
    stage.model.remove_by_force(NETWORK_ADDRESSES, "m-eth0")
    stage.create_request("c")
    await stage.drop_settled(stage.start_replica())  # the network remembers a revision after that
    stage.create_request("b")
    lagging.pools.catch_up()
    lagging.configurations.catch_up()
    await stage.reconcile_pool(lagging)  # it waits for its cache in vain, then lists
    await stage.clock.advance(lagging.settings.cache_patience)
    await stage.reconcile_pool(lagging)
    if stage.has_first_address("b"):
        return f"m and b both have {make_address(0)}"
    return stage.problem


async def allocation_unreadable_for_a_while(stage: NetworkStage) -> str | None:
    """IPAllocation a, which has its address, becomes unreadable; then b is created."""
    stage.create_request("a")
    await stage.drop_settled(stage.start_replica())
    stage.edit(NETWORK_ADDRESSES, "a", {"status": {"vlanId": "odd"}})
    return await _serve_b_beside_unreadable(
        stage, NETWORK_ADDRESSES, name="a", repair={"status": {"vlanId": 0}}
    )


async def machine_unreadable_for_a_while(stage: NetworkStage) -> str | None:
    """An unreadable machine shows the first address, from another operator; then b is created."""
    interfaces: list[Json] = [{"name": "eth0"}]
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": [make_address(0)]}]}
    spec = {"networkNamespaceName": "p", "provider": 7, "networkInterfaces": interfaces}
    body: Json = {"metadata": {"name": "m"}, "spec": spec, "status": status}
    stage.model.create(INTERFACES, body)
    return await _serve_b_beside_unreadable(
        stage, INTERFACES, name="m", repair={"spec": {"provider": None}}
    )


async def _serve_b_beside_unreadable(
    stage: NetworkStage, plural: str, name: str, repair: Json
) -> str | None:
    """Serve b while an unreadable object holds the first address, and again after its repair.

    Args:
        stage: a stage on which the object has the first address.
        plural: of the object's kind.
        name: of the object.
        repair: the patch that makes it readable.
    """
    stage.create_request("b")
    replica = stage.start_replica()
    await stage.serve_requests(replica)
    if stage.has_first_address("b"):
        return f"{name} and b both have {make_address(0)}"
    stage.edit(plural, name, repair)
    await stage.serve_requests(replica)
    if not stage.adapter.list_shown(stage.model.objects[NETWORK_ADDRESSES, "b"]):
        return f"b is not served once {name} can be read"
    return stage.problem


async def promise_to_an_unreadable_allocation(stage: NetworkStage) -> str | None:
    """The address of a is on its way; the replica that serves b can read only the network of a.

    The network that it reads is another one, as if a person had replaced it.
    """
    stage.create_request("first")
    await stage.serve_requests(stage.start_replica())  # a network without memory would be fenced
    stage.create_request("a")
    await stage.reconcile_pool(stage.start_replica(), _match_reports_to("a"))
    other = stage.start_replica()
    allocation = other.allocations.cache.get(stage.key("a"))
    outline = VitistackOutline(allocation.metadata, AllocationOutlineSpec("q"))
    failure = DecodeFailure("odd", outline, allocation.metadata)
    for unreadable in (
        {},
        {stage.key("a"): failure},
    ):  # the replica has just listed allocations, so it has no older version of a
        others = [
            allocation for allocation in other.allocations.cache if allocation.metadata.name != "a"
        ]
        other.allocations.cache.replace(others, stage.model.revision, unreadable)
    stage.create_request("b")
    await stage.serve_requests(other)
    stage.run_late_requests()
    return stage.problem
