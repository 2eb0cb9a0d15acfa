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
    IPAllocation,
    NetworkConfiguration,
    NetworkNamespace,
    Static,
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
from reconcilers.reporting.conditions import Finding, render_conditions, with_findings

RETRY = 0.2


class ConfigurationReconciler:
    """Makes the IPAllocations of NetworkConfigurations, and shows what became of them.

    Args:
        client: for the requests.
        caches: the caches.
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
        one = self._caches.configurations.get(key)
        if one is None or not self._caches.names_us(one.spec.provider):
            return SETTLED
        try:
            if one.metadata.terminating:
                return await self._release(one)
            return await self._reconcile(one)
        except (Conflict, NotFound):
            return Again(RETRY)  # something was written or deleted meanwhile

    async def _reconcile(self, one: NetworkConfiguration) -> Outcome:
        if self._may_be_of_others(one):
            return Blocked("Unreadable")
        network = network_of(self._caches, one)
        if isinstance(network, str):
            # What it shows its machine has, and no other is given it meanwhile.
            shown = one.status.networkInterfaces
            await self._write_status(one, WantedStatus(ERROR, FAILED, ERROR, network, shown))
            return SETTLED
        how = network.spec.ipAllocation
        if how is None or how.type != STATIC or not self._caches.is_ours(network):
            return SETTLED
        allocations = self._caches.of_configuration(one.metadata.key)
        found = by_interface(one, allocations)
        lacking = [name for name in interface_names(one) if name not in found]
        unreadable = self._caches.unreadable_of_machine(one, network, lacking)
        if unreadable is not None:
            # It may hold the address of an interface: none is made beside it, and none is wiped.
            shown = one.status.networkInterfaces
            await self._write_status(
                one, WantedStatus(ERROR, FAILED, ERROR, str(unreadable), shown)
            )
            return Blocked("Unreadable")
        one = await add_finalizer(self._client, CONFIGURATIONS, one, FINALIZER)
        await self._make_missing(one, network, lacking)
        await self._remove(one, allocations, found.values())
        await self._write_status(one, wanted_status(one, found))
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
        self, one: NetworkConfiguration, network: NetworkNamespace, interface: str
    ) -> None:
        """Make the IPAllocation of an interface."""
        namespace = one.metadata.namespace
        for name in allocation_names(one.metadata.name, interface):
            try:
                body = allocation_for(one, network, interface, name)
                await self._client.create(ALLOCATIONS, namespace, body)
            except AlreadyExists:
                there = await self._client.find(ALLOCATIONS, Key(namespace, name))
                if there is not None and there.configuration != one.metadata.key:
                    continue
                # It is by another replica or by hand: its event leads to the next pass.
            return

    async def _remove(
        self,
        one: NetworkConfiguration,
        allocations: Sequence[IPAllocation],
        used: Iterable[IPAllocation],
    ) -> None:
        """Take away the IPAllocations that no interface has any more, and those of a predecessor.

        What others made for no interface in particular stays.
        """
        keep = {each.metadata.uid for each in used}
        for each in allocations:
            owned = each.owner == one.metadata.uid
            earlier = bool(each.owner) and not owned and each.status.phase == RELEASED
            gone = owned and each.spec.interfaceName and each.metadata.uid not in keep
            if each.metadata.terminating or not (gone or earlier):
                continue
            last = each
            if each.status.phase != RELEASED:
                text = f"interface {each.spec.interfaceName} is gone"
                last = await release(self._client, each, text)
            await self._client.delete(ALLOCATIONS, Version.from_object(last))

    async def _write_status(self, one: NetworkConfiguration, wanted: WantedStatus) -> None:
        """Write the status of a NetworkConfiguration if it differs."""
        now, meta, has = self._clock.now(), one.metadata, one.status
        finding = Finding(READY, wanted.phase == READY, wanted.reason, wanted.message)
        conditions = with_findings(has.conditions, [finding], meta.generation, now)
        status: dict[str, Any] = {
            "phase": wanted.phase,
            "status": wanted.status,
            "message": wanted.message,
            "conditions": render_conditions(conditions),
            "networkInterfaces": list(wanted.interfaces),
        }
        same = (has.phase, has.status, has.message, has.conditions, has.networkInterfaces) == (
            wanted.phase,
            wanted.status,
            wanted.message,
            conditions,
            wanted.interfaces,
        )
        if same:
            return
        if has.created is None and meta.creationTimestamp is not None:
            status["created"] = rfc3339(meta.creationTimestamp)
        await self._client.patch_status(CONFIGURATIONS, one, status)

    async def _release(self, one: NetworkConfiguration) -> Outcome:
        """Show Released on the IPAllocations of a NetworkConfiguration, then let it go."""
        if self._may_be_of_others(one):
            return Blocked("Unreadable")
        if not has_finalizer(one, FINALIZER) or not self._is_ours_to_release(one):
            return SETTLED
        text = f"NetworkConfiguration {one.metadata.name} is deleted"
        for each in self._caches.of_configuration(one.metadata.key):
            if each.metadata.key in self._caches.allocations.unreadable:
                continue  # an older version: the garbage collector takes it with its owner
            mine = each.owner in {"", one.metadata.uid}
            if mine and each.status.phase != RELEASED and not each.metadata.terminating:
                await release(self._client, each, text)
        await remove_finalizer(self._client, CONFIGURATIONS, one, FINALIZER)
        return SETTLED

    def _may_be_of_others(self, one: NetworkConfiguration) -> bool:
        """Return whether a machine may be another operator's: its network cannot be read.

        The network says whose the machine is, unless the machine itself names us.
        """
        return not one.spec.provider and unreadable_network_of(self._caches, one) is not None

    def _is_ours_to_release(self, one: NetworkConfiguration) -> bool:
        """Return whether the finalizer, whose name another operator has too, is ours."""
        network = network_of(self._caches, one)
        if isinstance(network, str) or self._caches.is_ours(network):
            return True
        allocations = self._caches.of_configuration(one.metadata.key)
        return any(each.owner == one.metadata.uid for each in allocations)


def network_of(caches: VitistackCaches, one: NetworkConfiguration) -> NetworkNamespace | str:
    """Return the network of a NetworkConfiguration, or why it has none.

    One that names none means the only one of its namespace: with several, the first by whatever
    order would be a guess.
    """
    namespace, name = one.metadata.namespace, one.spec.networkNamespaceName
    unreadable = unreadable_network_of(caches, one)
    if unreadable is not None:
        return describe_unreadable_network(unreadable)
    if name:
        found = caches.networks.get(Key(namespace, name))
        return found or f'NetworkNamespace "{name}" not found'
    every = caches.networks_in(namespace)
    if len(every) == 1:
        return every[0]
    return f"spec.networkNamespaceName is empty, and the namespace has {len(every)} networks"


def describe_unreadable_network(name: str) -> str:
    """Return the sentence that a network cannot be read, and what to do."""
    return f'NetworkNamespace "{name}" cannot be read; correct it'


def unreadable_network_of(caches: VitistackCaches, one: NetworkConfiguration) -> str | None:
    """Return the name of a network that cannot be decoded and that a machine's may be.

    Of several the first by name, so that two replicas say the same; None if there is none.
    """
    namespace, name = one.metadata.namespace, one.spec.networkNamespaceName
    unreadable = {key.name for key in caches.networks.unreadable if key.namespace == namespace}
    if name:
        return name if name in unreadable else None
    return min(unreadable, default=None)


def allocation_for(
    one: NetworkConfiguration, network: NetworkNamespace, interface: str, name: str
) -> dict[str, Any]:
    """Return the IPAllocation that is made for an interface: metadata and spec.

    One that shows an address already, of an IPAllocation that was deleted by hand or of an
    operator before us, requests that address: the machine has it.

    Args:
        one: whose interface.
        network: that the address is of.
        interface: its name.
        name: of the IPAllocation, one of its allocation_names.
    """
    spec = {
        "networkNamespaceName": network.metadata.name,
        "networkConfigurationName": one.metadata.name,
        "interfaceName": interface,
    }
    had = _address_of(one, interface)
    if had and _hands_out(network, had):
        spec["requestedAddress"] = had
    labels = labels_of(network.metadata.name, one.metadata.name)
    metadata = {
        "name": name,
        "labels": labels,
        "ownerReferences": [owner_reference(one, CONFIGURATIONS)],
    }
    return {"metadata": metadata, "spec": spec}


def _hands_out(network: NetworkNamespace, text: str) -> bool:
    """Return whether a network hands out an address, now or once it can be served.

    What settings that cannot be read mean is not known yet: then it may.
    """
    try:
        space = space_of(static_of(network) or Static())
    except InvalidPool:
        return parse_address(text) is not None
    address = space.address(text)
    return address is not None and space.hands_out(address)


def _address_of(one: NetworkConfiguration, interface: str) -> str:
    """Return the address that an interface shows; empty for none."""
    for index, shown_now in enumerate(one.status.networkInterfaces):
        addresses = shown_now.get("ipv4Addresses") or ()
        if name_of(shown_now, index) == interface and addresses:
            return str(addresses[0])
    return ""
