"""One pass over one NetworkConfiguration of vitistack.

another provider's, or not static    do nothing
being deleted                        release its IPAllocations, then remove the finalizer
otherwise                            create an IPAllocation for each interface, write the status

The finalizer is added before anything is created. The NetworkConfiguration owns its IPAllocations,
so they are deleted with it. IPAllocations of a removed interface are released and deleted here. A
machine is a NetworkConfiguration.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from allocator import InvalidPool
from allocator.addresses import parse_address
from controller.client import Client
from controller.clock import Clock
from controller.conditions import format_rfc3339
from controller.errors import AlreadyExists, Conflict, NotFound
from controller.finalizers import add_finalizer, has_finalizer, remove_finalizer
from controller.meta import Key, Version
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.integrations.core.owners import make_owner_reference
from reconcilers.integrations.vitistack.allocations import make_labels
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
    find_static,
    list_interface_names,
    make_allocation_names,
    make_interface_name,
)
from reconcilers.integrations.vitistack.interfaces import (
    FAILED,
    READY,
    WantedStatus,
    compute_wanted_status,
    find_by_interface,
)
from reconcilers.integrations.vitistack.ranges import parse_space
from reconcilers.integrations.vitistack.writing import release
from reconcilers.reporting.conditions import ConditionFinding, render_conditions, with_findings

RETRY = 0.2
"""Seconds until a pass is repeated that found the caches to be behind."""


class ConfigurationReconciler:
    """Creates the IPAllocations of NetworkConfigurations, and shows their addresses or problems.

    Args:
        client: for the requests.
        clock: the time.
    """

    def __init__(self, client: Client, caches: VitistackCaches, clock: Clock) -> None:
        self._client = client
        self._caches = caches
        self._clock = clock

    async def reconcile(self, key: Key) -> Outcome:
        """Run one pass over a NetworkConfiguration, by the table of this module.

        The outcome is Blocked if an object that cannot be decoded prevents the pass.
        """
        # The caches may show objects from before a restore of etcd.
        if not self._caches.is_history_confirmed:
            return Again(RETRY)
        if key in self._caches.configurations.unreadable:
            return Blocked("Unreadable")  # the cache has only an older version
        configuration = self._caches.configurations.get(key)
        if configuration is None or not self._caches.is_our_provider(configuration.spec.provider):
            return SETTLED
        try:
            if configuration.metadata.is_terminating:
                return await self._release(configuration)
            return await self._reconcile(configuration)
        except (Conflict, NotFound):
            return Again(RETRY)  # something was written or deleted meanwhile

    async def _reconcile(self, configuration: NetworkConfiguration) -> Outcome:
        """Create and remove IPAllocations of a machine, then write its status.

        Nothing is done if the machine may be of another provider, or its network is not static.
        Only the status is written if its network is unknown, or if an undecodable IPAllocation may
        belong to the machine.
        """
        if self._may_be_of_others(configuration):
            return Blocked("Unreadable")
        network = find_network(self._caches, configuration)
        if isinstance(network, str):
            # The addresses in the machine's status stay, because the machine uses them. While the
            # status shows them, no other machine gets them.
            interfaces = configuration.status.networkInterfaces
            await self._write_status(
                configuration,
                WantedStatus(ERROR, FAILED, reason=ERROR, message=network, interfaces=interfaces),
            )
            return SETTLED
        settings = network.spec.ipAllocation
        if settings is None or settings.type != STATIC or not self._caches.is_ours(network):
            return SETTLED
        allocations = self._caches.list_allocations_of(configuration.metadata.key)
        allocations_by_interface = find_by_interface(configuration, allocations)
        interfaces_without_allocation = [
            name
            for name in list_interface_names(configuration)
            if name not in allocations_by_interface
        ]
        unreadable = self._caches.find_unreadable_of_machine(
            configuration, network, interfaces_without_allocation
        )
        if unreadable is not None:
            # The IPAllocation may hold the address of an interface. So no second IPAllocation is
            # created for that interface, and the address stays in the status.
            interfaces = configuration.status.networkInterfaces
            await self._write_status(
                configuration,
                WantedStatus(
                    ERROR, FAILED, reason=ERROR, message=str(unreadable), interfaces=interfaces
                ),
            )
            return Blocked("Unreadable")
        configuration = await add_finalizer(self._client, CONFIGURATIONS, configuration, FINALIZER)
        await self._create_missing(configuration, network, interfaces_without_allocation)
        await self._delete_unused(configuration, allocations, allocations_by_interface.values())
        await self._write_status(
            configuration, compute_wanted_status(configuration, allocations_by_interface)
        )
        return SETTLED

    async def _create_missing(
        self,
        configuration: NetworkConfiguration,
        network: NetworkNamespace,
        interfaces: Sequence[str],
    ) -> None:
        """Create the IPAllocations of interfaces that have none.

        The machine is read live: another operator may have written an address a moment ago, and an
        IPAllocation that does not request that address would get another one. Nothing is created
        for a NetworkConfiguration that is gone or being deleted; its event leads to a pass.
        """
        if not interfaces:
            return  # no need of a live read
        live = await self._client.find(CONFIGURATIONS, configuration.metadata.key)
        if (
            live is None
            or live.metadata.uid != configuration.metadata.uid
            or live.metadata.is_terminating
        ):
            return
        for interface in interfaces:
            await self._create_allocation(live, network, interface)

    async def _create_allocation(
        self, configuration: NetworkConfiguration, network: NetworkNamespace, interface: str
    ) -> None:
        """Create the IPAllocation of an interface, by the first of its two names that is free."""
        namespace = configuration.metadata.namespace
        for name in make_allocation_names(configuration.metadata.name, interface):
            try:
                body = render_allocation(configuration, network, interface=interface, name=name)
                await self._client.create(ALLOCATIONS, namespace, body)
            except AlreadyExists:
                existing = await self._client.find(ALLOCATIONS, Key(namespace, name))
                if existing is not None and existing.configuration != configuration.metadata.key:
                    continue  # another machine has the name, so the second name is tried
                # Another replica or a person created it: its event leads to the next pass.
            return

    async def _delete_unused(
        self,
        configuration: NetworkConfiguration,
        allocations: Sequence[VitistackAllocation],
        used: Iterable[VitistackAllocation],
    ) -> None:
        """Release and delete the IPAllocations of removed interfaces and of an earlier machine.

        An IPAllocation that names no interface stays: another program or a person created it. An
        IPAllocation of an earlier machine of the same name is deleted only once it is released.

        Args:
            used: the IPAllocations that interfaces have now.
        """
        used_uids = {allocation.metadata.uid for allocation in used}
        for allocation in allocations:
            is_owned = allocation.owner == configuration.metadata.uid
            is_released = allocation.status.phase == RELEASED
            is_of_earlier_machine = bool(allocation.owner) and not is_owned and is_released
            is_of_removed_interface = (
                is_owned
                and allocation.spec.interfaceName
                and allocation.metadata.uid not in used_uids
            )
            if allocation.metadata.is_terminating or not (
                is_of_removed_interface or is_of_earlier_machine
            ):
                continue
            latest = allocation
            if not is_released:
                message = f"interface {allocation.spec.interfaceName} is gone"
                latest = await release(self._client, allocation, message)
            await self._client.delete(ALLOCATIONS, Version.from_object(latest))

    async def _write_status(
        self, configuration: NetworkConfiguration, wanted_status: WantedStatus
    ) -> None:
        """Write the status of a NetworkConfiguration if it differs."""
        now = self._clock.now()
        meta, old_status = configuration.metadata, configuration.status
        finding = ConditionFinding(
            READY,
            wanted_status.phase == READY,
            reason=wanted_status.reason,
            message=wanted_status.message,
        )
        conditions = with_findings(
            old_status.conditions, [finding], generation=meta.generation, now=now
        )
        status: dict[str, Any] = {
            "phase": wanted_status.phase,
            "status": wanted_status.status,
            "message": wanted_status.message,
            "conditions": render_conditions(conditions),
            "networkInterfaces": list(wanted_status.interfaces),
        }
        is_shown = (
            old_status.phase,
            old_status.status,
            old_status.message,
            old_status.conditions,
            old_status.networkInterfaces,
        ) == (
            wanted_status.phase,
            wanted_status.status,
            wanted_status.message,
            conditions,
            wanted_status.interfaces,
        )
        if is_shown:
            return
        if old_status.created is None and meta.creationTimestamp is not None:
            status["created"] = format_rfc3339(meta.creationTimestamp)
        await self._client.patch_status(CONFIGURATIONS, configuration, status)

    async def _release(self, configuration: NetworkConfiguration) -> Outcome:
        """Release the IPAllocations of a deleted machine, then remove the finalizer."""
        if self._may_be_of_others(configuration):
            return Blocked("Unreadable")
        if not has_finalizer(configuration, FINALIZER) or not self._is_ours_to_release(
            configuration
        ):
            return SETTLED
        message = f"NetworkConfiguration {configuration.metadata.name} is deleted"
        for allocation in self._caches.list_allocations_of(configuration.metadata.key):
            if allocation.metadata.key in self._caches.allocations.unreadable:
                continue  # the garbage collector deletes it with its owner
            is_of_machine = allocation.owner in {"", configuration.metadata.uid}
            if (
                is_of_machine
                and allocation.status.phase != RELEASED
                and not allocation.metadata.is_terminating
            ):
                await release(self._client, allocation, message)
        await remove_finalizer(self._client, CONFIGURATIONS, configuration, FINALIZER)
        return SETTLED

    def _may_be_of_others(self, configuration: NetworkConfiguration) -> bool:
        """Return whether a machine may be another operator's, because its network is undecodable.

        A machine that names no provider belongs to the provider of its network.
        """
        return (
            not configuration.spec.provider
            and find_unreadable_network(self._caches, configuration) is not None
        )

    def _is_ours_to_release(self, configuration: NetworkConfiguration) -> bool:
        """Return whether the finalizer on a machine is ours to remove.

        Another operator uses a finalizer of the same name. It is ours if the network is ours or
        not known, or if the machine owns an IPAllocation.
        """
        network = find_network(self._caches, configuration)
        if isinstance(network, str) or self._caches.is_ours(network):
            return True
        allocations = self._caches.list_allocations_of(configuration.metadata.key)
        return any(allocation.owner == configuration.metadata.uid for allocation in allocations)


def find_network(
    caches: VitistackCaches, configuration: NetworkConfiguration
) -> NetworkNamespace | str:
    """Return the network of a NetworkConfiguration, or why it is not known, as a sentence.

    If the NetworkConfiguration names no network, its network is the only one of the namespace. If
    the namespace has none or several, the network is unknown.
    """
    namespace, name = configuration.metadata.namespace, configuration.spec.networkNamespaceName
    unreadable = find_unreadable_network(caches, configuration)
    if unreadable is not None:
        return describe_unreadable_network(unreadable)
    if name:
        network = caches.networks.get(Key(namespace, name))
        return network or f'NetworkNamespace "{name}" not found'
    networks = caches.list_networks_in(namespace)
    if len(networks) == 1:
        return networks[0]
    return f"spec.networkNamespaceName is empty, and the namespace has {len(networks)} networks"


def describe_unreadable_network(name: str) -> str:
    """Return the sentence that a network cannot be read, and what to do."""
    return f'NetworkNamespace "{name}" cannot be read; correct it'


def find_unreadable_network(
    caches: VitistackCaches, configuration: NetworkConfiguration
) -> str | None:
    """Return the name of an undecodable network that may be the machine's; None if there is none.

    Of several such networks, the first by name is returned, so that all replicas report the same.
    """
    namespace, name = configuration.metadata.namespace, configuration.spec.networkNamespaceName
    unreadable = {key.name for key in caches.networks.unreadable if key.namespace == namespace}
    if name:
        return name if name in unreadable else None
    return min(unreadable, default=None)


def render_allocation(
    configuration: NetworkConfiguration, network: NetworkNamespace, interface: str, name: str
) -> dict[str, Any]:
    """Return the metadata and spec of a new IPAllocation for an interface.

    If the interface shows an address already, the IPAllocation requests it, because the machine
    has it. The IPAllocation of that address was deleted, or an earlier operator gave the address.

    Args:
        configuration: the machine.
        network: the network of the address.
        interface: the name of the interface.
        name: the name of the new IPAllocation, one of `make_allocation_names`.
    """
    spec = {
        "networkNamespaceName": network.metadata.name,
        "networkConfigurationName": configuration.metadata.name,
        "interfaceName": interface,
    }
    shown_address = _find_shown_address(configuration, interface)
    if shown_address and _hands_out(network, shown_address):
        spec["requestedAddress"] = shown_address
    labels = make_labels(network.metadata.name, configuration.metadata.name)
    metadata = {
        "name": name,
        "labels": labels,
        "ownerReferences": [make_owner_reference(configuration, CONFIGURATIONS)],
    }
    return {"metadata": metadata, "spec": spec}


def _hands_out(network: NetworkNamespace, address_text: str) -> bool:
    """Return whether a network may hand out an address, now or once it can be served.

    While its settings are invalid, it may hand out any address.
    """
    try:
        space = parse_space(find_static(network) or Static())
    except InvalidPool:
        return parse_address(address_text) is not None
    address = space.address(address_text)
    return address is not None and space.hands_out(address)


def _find_shown_address(configuration: NetworkConfiguration, interface: str) -> str:
    """Return the first address that the status shows for an interface; empty for none."""
    for index, interface_status in enumerate(configuration.status.networkInterfaces):
        addresses = interface_status.get("ipv4Addresses") or ()
        if make_interface_name(interface_status, index) == interface and addresses:
            return str(addresses[0])
    return ""
