"""One pass over one NetworkConfiguration of vitistack.

another provider's, or not static    leave it
being deleted                        show Released on its IPAllocations, then let it go
otherwise                            an IPAllocation for each interface, and what they say

The finalizer comes before anything is made. IPAllocations belong to the NetworkConfiguration and
go with it; those of an interface that is gone are released and deleted here.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from allocator import InvalidPool
from allocator.addresses import parse_address
from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339
from controller.errors import AlreadyExists, Conflict, NotFound
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.integrations.core.owners import owner_reference
from reconcilers.integrations.vitistack.allocations import labels_of
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    ERROR,
    FINALIZER,
    RELEASED,
    STATIC,
    NetworkConfiguration,
    NetworkNamespace,
    Static,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    VitistackCaches,
    allocation_names,
    interface_names,
    name_of,
    static_of,
)
from reconcilers.integrations.vitistack.interfaces import (
    FAILED,
    READY,
    WantedStatus,
    by_interface,
    wanted_status,
)
from reconcilers.integrations.vitistack.ranges import space_of
from reconcilers.integrations.vitistack.writing import release
from reconcilers.reporting.conditions import ConditionFinding, render_conditions, with_findings

RETRY = 0.2


class ConfigurationReconciler:
    """Makes the IPAllocations of NetworkConfigurations, and shows what became of them.

    Args:
        client: for the requests.
        clock: the time.
    """

    def __init__(self, client: Client, caches: VitistackCaches, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one NetworkConfiguration up to date."""
        if not self._caches.history_confirmed:
            return Again(RETRY)
        if key in self._caches.configurations.unreadable:
            return Blocked("Unreadable")
        configuration = self._caches.configurations.get(key)
        if configuration is None or not self._caches.names_us(configuration.spec.provider):
            return SETTLED
        try:
            if configuration.metadata.terminating:
                return await self._release(configuration)
            return await self._reconcile(configuration)
        except (Conflict, NotFound):
            return Again(RETRY)  # something was written or deleted meanwhile

    async def _reconcile(self, configuration: NetworkConfiguration) -> Outcome:
        if self._may_be_of_others(configuration):
            return Blocked("Unreadable")
        network = network_of(self._caches, configuration)
        if isinstance(network, str):
            # What it shows its machine has, and no other is given it meanwhile.
            interfaces = configuration.status.networkInterfaces
            await self._write_status(
                configuration,
                WantedStatus(ERROR, FAILED, reason=ERROR, message=network, interfaces=interfaces),
            )
            return SETTLED
        how = network.spec.ipAllocation
        if how is None or how.type != STATIC or not self._caches.is_ours(network):
            return SETTLED
        allocations = self._caches.of_configuration(configuration.metadata.key)
        allocations_by_interface = by_interface(configuration, allocations)
        lacking = [
            name for name in interface_names(configuration) if name not in allocations_by_interface
        ]
        unreadable = self._caches.unreadable_of_machine(configuration, network, lacking)
        if unreadable is not None:
            # It may hold the address of an interface: none is made beside it, and none is wiped.
            interfaces = configuration.status.networkInterfaces
            await self._write_status(
                configuration,
                WantedStatus(
                    ERROR, FAILED, reason=ERROR, message=str(unreadable), interfaces=interfaces
                ),
            )
            return Blocked("Unreadable")
        configuration = await add_finalizer(self._client, CONFIGURATIONS, configuration, FINALIZER)
        await self._make_missing(configuration, network, lacking)
        await self._remove(configuration, allocations, allocations_by_interface.values())
        await self._write_status(
            configuration, wanted_status(configuration, allocations_by_interface)
        )
        return SETTLED

    async def _make_missing(
        self,
        configuration: NetworkConfiguration,
        network: NetworkNamespace,
        interfaces: Sequence[str],
    ) -> None:
        """Make the IPAllocations of interfaces that have none.

        Which address a machine shows is read live: another operator may have written it a moment
        ago, and an IPAllocation that was created without asking for it gets another one. For a
        NetworkConfiguration that is gone or being deleted nothing is made; its event is to come.
        """
        if not interfaces:
            return
        live = await self._client.find(CONFIGURATIONS, configuration.metadata.key)
        if (
            live is None
            or live.metadata.uid != configuration.metadata.uid
            or live.metadata.terminating
        ):
            return
        for interface in interfaces:
            await self._make(live, network, interface)

    async def _make(
        self, configuration: NetworkConfiguration, network: NetworkNamespace, interface: str
    ) -> None:
        """Make the IPAllocation of an interface."""
        namespace = configuration.metadata.namespace
        for name in allocation_names(configuration.metadata.name, interface):
            try:
                body = allocation_for(configuration, network, interface=interface, name=name)
                await self._client.create(ALLOCATIONS, namespace, body)
            except AlreadyExists:
                there = await self._client.find(ALLOCATIONS, Key(namespace, name))
                if there is not None and there.configuration != configuration.metadata.key:
                    continue
                # It is by another replica or by hand: its event leads to the next pass.
            return

    async def _remove(
        self,
        configuration: NetworkConfiguration,
        allocations: Sequence[VitistackAllocation],
        used: Iterable[VitistackAllocation],
    ) -> None:
        """Take away the IPAllocations that no interface has any more, and those of a predecessor.

        What others made for no interface in particular stays.
        """
        keep = {allocation.metadata.uid for allocation in used}
        for allocation in allocations:
            owned = allocation.owner == configuration.metadata.uid
            earlier = bool(allocation.owner) and not owned and allocation.status.phase == RELEASED
            gone = owned and allocation.spec.interfaceName and allocation.metadata.uid not in keep
            if allocation.metadata.terminating or not (gone or earlier):
                continue
            last = allocation
            if allocation.status.phase != RELEASED:
                message = f"interface {allocation.spec.interfaceName} is gone"
                last = await release(self._client, allocation, message)
            await self._client.delete(ALLOCATIONS, Version.from_object(last))

    async def _write_status(
        self, configuration: NetworkConfiguration, wanted_status: WantedStatus
    ) -> None:
        """Write the status of a NetworkConfiguration if it differs."""
        now, meta, has = self._clock.now(), configuration.metadata, configuration.status
        finding = ConditionFinding(
            READY,
            wanted_status.phase == READY,
            reason=wanted_status.reason,
            message=wanted_status.message,
        )
        conditions = with_findings(has.conditions, [finding], generation=meta.generation, now=now)
        status: dict[str, Any] = {
            "phase": wanted_status.phase,
            "status": wanted_status.status,
            "message": wanted_status.message,
            "conditions": render_conditions(conditions),
            "networkInterfaces": list(wanted_status.interfaces),
        }
        same = (has.phase, has.status, has.message, has.conditions, has.networkInterfaces) == (
            wanted_status.phase,
            wanted_status.status,
            wanted_status.message,
            conditions,
            wanted_status.interfaces,
        )
        if same:
            return
        if has.created is None and meta.creationTimestamp is not None:
            status["created"] = rfc3339(meta.creationTimestamp)
        await self._client.patch_status(CONFIGURATIONS, configuration, status)

    async def _release(self, configuration: NetworkConfiguration) -> Outcome:
        """Show Released on the IPAllocations of a NetworkConfiguration, then let it go."""
        if self._may_be_of_others(configuration):
            return Blocked("Unreadable")
        if not has_finalizer(configuration, FINALIZER) or not self._is_ours_to_release(
            configuration
        ):
            return SETTLED
        message = f"NetworkConfiguration {configuration.metadata.name} is deleted"
        for allocation in self._caches.of_configuration(configuration.metadata.key):
            if allocation.metadata.key in self._caches.allocations.unreadable:
                continue  # an older version: the garbage collector takes it with its owner
            is_own = allocation.owner in {"", configuration.metadata.uid}
            if (
                is_own
                and allocation.status.phase != RELEASED
                and not allocation.metadata.terminating
            ):
                await release(self._client, allocation, message)
        await remove_finalizer(self._client, CONFIGURATIONS, configuration, FINALIZER)
        return SETTLED

    def _may_be_of_others(self, configuration: NetworkConfiguration) -> bool:
        """Return whether a machine may be another operator's: its network cannot be read.

        The network says whose the machine is, unless the machine itself names us.
        """
        return (
            not configuration.spec.provider
            and unreadable_network_of(self._caches, configuration) is not None
        )

    def _is_ours_to_release(self, configuration: NetworkConfiguration) -> bool:
        """Return whether the finalizer, whose name another operator has too, is ours."""
        network = network_of(self._caches, configuration)
        if isinstance(network, str) or self._caches.is_ours(network):
            return True
        allocations = self._caches.of_configuration(configuration.metadata.key)
        return any(allocation.owner == configuration.metadata.uid for allocation in allocations)


def network_of(
    caches: VitistackCaches, configuration: NetworkConfiguration
) -> NetworkNamespace | str:
    """Return the network of a NetworkConfiguration, or why it has none.

    One that names none means the only one of its namespace: with several, the first by whatever
    order would be a guess.
    """
    namespace, name = configuration.metadata.namespace, configuration.spec.networkNamespaceName
    unreadable = unreadable_network_of(caches, configuration)
    if unreadable is not None:
        return describe_unreadable_network(unreadable)
    if name:
        network = caches.networks.get(Key(namespace, name))
        return network or f'NetworkNamespace "{name}" not found'
    networks = caches.networks_in(namespace)
    if len(networks) == 1:
        return networks[0]
    return f"spec.networkNamespaceName is empty, and the namespace has {len(networks)} networks"


def describe_unreadable_network(name: str) -> str:
    """Return the sentence that a network cannot be read, and what to do."""
    return f'NetworkNamespace "{name}" cannot be read; correct it'


def unreadable_network_of(
    caches: VitistackCaches, configuration: NetworkConfiguration
) -> str | None:
    """Return the name of a network that cannot be decoded and that a machine's may be.

    Of several the first by name, so that two replicas say the same; None if there is none.
    """
    namespace, name = configuration.metadata.namespace, configuration.spec.networkNamespaceName
    unreadable = {key.name for key in caches.networks.unreadable if key.namespace == namespace}
    if name:
        return name if name in unreadable else None
    return min(unreadable, default=None)


def allocation_for(
    configuration: NetworkConfiguration, network: NetworkNamespace, interface: str, name: str
) -> dict[str, Any]:
    """Return the IPAllocation that is made for an interface: metadata and spec.

    One that shows an address already, of an IPAllocation that was deleted by hand or of an
    operator before us, requests that address: the machine has it.

    Args:
        configuration: whose interface.
        network: that the address is of.
        interface: its name.
        name: of the IPAllocation, one of its allocation_names.
    """
    spec = {
        "networkNamespaceName": network.metadata.name,
        "networkConfigurationName": configuration.metadata.name,
        "interfaceName": interface,
    }
    had = _address_of(configuration, interface)
    if had and _hands_out(network, had):
        spec["requestedAddress"] = had
    labels = labels_of(network.metadata.name, configuration.metadata.name)
    metadata = {
        "name": name,
        "labels": labels,
        "ownerReferences": [owner_reference(configuration, CONFIGURATIONS)],
    }
    return {"metadata": metadata, "spec": spec}


def _hands_out(network: NetworkNamespace, address_text: str) -> bool:
    """Return whether a network hands out an address, now or once it can be served.

    What settings that cannot be read mean is not known yet: then it may.
    """
    try:
        space = space_of(static_of(network) or Static())
    except InvalidPool:
        return parse_address(address_text) is not None
    address = space.address(address_text)
    return address is not None and space.hands_out(address)


def _address_of(configuration: NetworkConfiguration, interface: str) -> str:
    """Return the address that an interface shows; empty for none."""
    for index, shown_now in enumerate(configuration.status.networkInterfaces):
        addresses = shown_now.get("ipv4Addresses") or ()
        if name_of(shown_now, index) == interface and addresses:
            return str(addresses[0])
    return ""
