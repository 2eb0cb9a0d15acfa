"""Caches of the vitistack reconcilers, and which networks this integration is responsible for.

A network is ours by its `ipAllocation.provider`. All reconcilers use the rules of this module, so
that none of them serves a network of another provider. A machine is a NetworkConfiguration.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator import InvalidPool
from controller.cache import Cache
from controller.codec import DecodeFailure
from controller.indexes import IndexFunction
from controller.meta import Key, Object
from controller.plaintext import escape_text
from controller.unreadables import find_near
from reconcilers.api.names import DNS_SUBDOMAIN, NAME_MAX, compute_short_hash, shorten
from reconcilers.integrations.core.objects import SPACE_INDEX, ObjectsByKind, is_of_kinds
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    ERROR,
    JOURNALS,
    NETWORKS,
    PENDING,
    PROVISIONED,
    RELEASED,
    STATIC,
    ConfigurationOutline,
    Interface,
    NetworkConfiguration,
    NetworkNamespace,
    Static,
    VitistackAllocation,
    VitistackOutline,
)
from reconcilers.integrations.vitistack.ranges import NetworkSpace, parse_space
from reconcilers.promises.holdings import Facts, Holdings
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import PromisedRange
from reconcilers.promises.unreadable import (
    UnreadableObject,
    check_holders,
    is_terminating,
    read_outline,
)

CONFIGURATION_INDEX = "configuration"
NAMESPACE_INDEX = "namespace"
NETWORK_NOT_FOUND = "NetworkNotFound"
NOT_PROVISIONED = "NotProvisioned"
NO_STATIC_CONFIGURATION = "NoStaticConfiguration"
INVALID_RANGE = "InvalidRange"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def list_space_names(allocation: VitistackAllocation) -> Iterable[str]:
    """Return the index value by which caches find the allocations of a network."""
    return (str(allocation.network),)


def list_configuration_names(allocation: VitistackAllocation) -> Iterable[str]:
    """Return the index value by which caches find the allocations of a NetworkConfiguration."""
    return (str(allocation.configuration),)


def list_namespaces_of(obj: Object) -> Iterable[str]:
    """Return the index value by which caches find the objects of a namespace."""
    return (obj.metadata.namespace,)


ALLOCATION_INDEXES: Mapping[str, IndexFunction[VitistackAllocation]] = {
    SPACE_INDEX: list_space_names,
    CONFIGURATION_INDEX: list_configuration_names,
    NAMESPACE_INDEX: list_namespaces_of,
}
"""The indexes of a cache of IPAllocations."""


def make_holder(allocation: VitistackAllocation) -> Holder:
    """Return an allocation as a holder of addresses."""
    return Holder(JOURNALS.kind, allocation.metadata.key)


def compute_facts(allocation: VitistackAllocation, space: NetworkSpace) -> Facts:
    """Return the facts of an IPAllocation: the address that it holds, and its place in the queue.

    An IPAllocation that waits may show an address, too: another operator gave it.

    Args:
        space: what the network hands out.
    """
    meta, status = allocation.metadata, allocation.status
    if status.phase == RELEASED:
        return Facts()  # it neither holds an address nor waits for one
    address = space.address(status.address) if status.address else None
    since = meta.creationTimestamp
    place = (since, make_holder(allocation)) if allocation.waits and since is not None else None
    outside = None
    if status.address and (address is None or not space.hands_out(address)):
        outside = status.address
    # A row is a group of IPAllocations for which a pass decides once. An IPAllocation that
    # requests or shows a certain address needs a decision of its own, so it is in no row.
    has_own_row = bool(allocation.spec.requestedAddress or status.address)
    return Facts(
        () if address is None else (PromisedRange(address),),
        place,
        row=None
        if place is None or has_own_row
        else (JOURNALS.kind, status.phase, status.message),
        is_in_use=allocation.holds,
        outside=outside,
    )


def compute_network_holdings(
    allocations: Iterable[VitistackAllocation], space: NetworkSpace
) -> Holdings:
    """Return the holdings of a network that all of these allocations name.

    Args:
        space: what the network hands out.
    """
    facts = (
        (make_holder(allocation), compute_facts(allocation, space)) for allocation in allocations
    )
    return Holdings(space.layouts, facts)


@dataclass(frozen=True, slots=True)
class VitistackProblem:
    """Why an IPAllocation has no address.

    Args:
        phase: Pending if the problem may pass by itself; else Error.
        reason: one word, for events.
        message: a sentence, for the status and events.
    """

    phase: str
    reason: str
    message: str

    def __post_init__(self) -> None:
        """Escape the message, which may quote other objects' texts."""
        object.__setattr__(self, "message", escape_text(self.message))


@dataclass(frozen=True, slots=True)
class VitistackCaches:
    """The caches of this integration.

    Args:
        networks: all NetworkNamespaces.
        allocations: all IPAllocations of vitistack.
        configurations: all NetworkConfigurations.
        provider: the name under which addresses are handed out, in small letters.
        unnamed: whether networks that name no provider are served.
        are_all_providers_ours: whether every provider counts as ours. True for views, because they
            do not know the provider name of the controllers.
    """

    networks: Cache[NetworkNamespace]
    allocations: Cache[VitistackAllocation]
    configurations: Cache[NetworkConfiguration]
    provider: str
    unnamed: bool = True
    are_all_providers_ours: bool = False

    @property
    def is_history_confirmed(self) -> bool:
        """Whether every cache was relisted since the API server was last out of reach.

        While it is False etcd may have been restored from a backup, and the caches may show
        objects that the server has no longer.
        """
        caches = (self.networks, self.allocations, self.configurations)
        return all(cache.is_history_confirmed for cache in caches)

    def is_our_provider(self, provider: str) -> bool:
        """Return whether a provider is ours; upper and lower case are equal.

        An empty name is ours if networks without provider are served (`unnamed`). In caches for
        views every provider is ours (`are_all_providers_ours`).
        """
        if self.are_all_providers_ours:
            return True
        name = provider.strip().lower()
        return name == self.provider if name else self.unnamed

    def is_ours(self, network: NetworkNamespace) -> bool:
        """Return whether this program hands out the addresses of a network, by its provider."""
        settings = network.spec.ipAllocation
        return self.is_our_provider(settings.provider if settings is not None else "")

    def check_readable(
        self,
        network: Key,
        allocations: Mapping[Key, str],
        configurations: Mapping[Key, str] | None = None,
    ) -> None:
        """Raise if objects that cannot be decoded may hold addresses of a network.

        These objects are IPAllocations, and NetworkConfigurations, which may show addresses. If
        not even the network of an object can be decoded, it may be any network of its namespace.

        Args:
            allocations: the IPAllocations that cannot be decoded, with the reason.
            configurations: the NetworkConfigurations that cannot be decoded, with the reason; None
                for those of the cache.

        Raises:
            UnreadableHolders: some of them may hold addresses.
        """

        def may_hold_addresses(key: Key, outline: Object | None) -> bool:
            """Return whether an object that cannot be decoded may hold addresses of the network.

            Args:
                key: the key of the object; without namespace if not even that can be decoded.
                outline: the part of the object that can be decoded; None if no part can.
            """
            if key.namespace not in {"", network.namespace}:
                return False
            if isinstance(outline, VitistackOutline):
                return outline.spec.networkNamespaceName == network.name
            if not isinstance(outline, ConfigurationOutline):
                return True  # no part of the object can be decoded
            if outline.metadata.is_terminating:
                return False  # addresses are not kept for a machine that is being deleted
            if outline.spec.networkNamespaceName not in {"", network.name}:
                return False  # a machine that names no network may be in any of its namespace
            return self.is_our_provider(outline.spec.provider)

        if configurations is None:
            configurations = self.configurations.unreadable
        if allocations or configurations:
            candidates = {
                ALLOCATIONS.full_name: find_near(allocations, SPACE_INDEX, str(network)),
                CONFIGURATIONS.kind: find_near(configurations, NAMESPACE_INDEX, network.namespace),
            }
            check_holders(candidates, may_hold_addresses)

    def find_unreadable_of_machine(
        self,
        machine: NetworkConfiguration,
        network: NetworkNamespace,
        interfaces_without_allocation: Collection[str],
    ) -> UnreadableObject | None:
        """Return an undecodable IPAllocation that may belong to a machine; None if there is none.

        An IPAllocation may belong to the machine if one of these holds:

        - Its last version that could be decoded names the machine.
        - Its owner or the part of its spec that can be decoded names the machine.
        - It has the name of an IPAllocation that is made for one of the machine's interfaces.
        - It is not known to name any machine or another network, and the machine lacks an
          IPAllocation.

        Args:
            network: the network of the machine.
            interfaces_without_allocation: those whose IPAllocation is absent or undecodable.

        Returns:
            The first such IPAllocation by key, so that all replicas report the same one.
        """
        key = machine.metadata.key
        names_for_interfaces = {
            name
            for interface in list_interface_names(machine)
            for name in make_allocation_names(key.name, interface)
        }

        def may_be_of_machine(allocation: Key, failure: str) -> bool:
            """Return whether an undecodable IPAllocation may belong to the machine."""
            # Without namespace, not even the key of the object could be decoded.
            if allocation.namespace not in {"", key.namespace}:
                return False
            named_machines = _list_named_machines(failure)
            last_decoded = self.allocations.get(allocation)
            if last_decoded is not None and last_decoded.configuration == key:
                return True
            if key.name in named_machines or allocation.name in names_for_interfaces:
                return True
            outline = read_outline(failure)
            network_name = (
                isinstance(outline, VitistackOutline) and outline.spec.networkNamespaceName
            )
            is_of_other_network = network_name and network_name != network.metadata.name
            return (
                bool(interfaces_without_allocation)
                and not named_machines
                and not is_of_other_network
            )

        unreadable = find_near(self.allocations.unreadable, NAMESPACE_INDEX, key.namespace)
        return min(
            (
                UnreadableObject(ALLOCATIONS.full_name, allocation, is_terminating(failure))
                for allocation, failure in unreadable.items()
                if may_be_of_machine(allocation, failure)
            ),
            default=None,
        )

    def find_network_of(self, allocation: VitistackAllocation) -> NetworkNamespace | None:
        """Return the network that an allocation names; None if it does not exist."""
        return self.networks.get(allocation.network)

    def list_networks_in(self, namespace: str) -> list[NetworkNamespace]:
        """Return the networks of a namespace, by their names."""
        networks = self.networks.list_by_index(NAMESPACE_INDEX, namespace)
        return sorted(networks, key=lambda network: network.metadata.name)

    def list_networks_that_may_be_named(self, holder: Key) -> list[Key]:
        """Return the networks that an undecodable object may name: all networks of its namespace.

        Args:
            holder: the key of the object. If it has no namespace, not even the key could be
                decoded, and the object may name any network.
        """
        networks = (
            self.networks if not holder.namespace else self.list_networks_in(holder.namespace)
        )
        return [network.metadata.key for network in networks]

    def list_allocations_in(self, network: Key) -> list[VitistackAllocation]:
        """Return the allocations that name a network."""
        return list(self.allocations.list_by_index(SPACE_INDEX, str(network)))

    def list_allocations_of(self, configuration: Key) -> list[VitistackAllocation]:
        """Return the allocations that name a NetworkConfiguration, by their names."""
        allocations = self.allocations.list_by_index(CONFIGURATION_INDEX, str(configuration))
        return sorted(allocations, key=lambda allocation: allocation.metadata.name)


def _list_named_machines(failure: str) -> set[str]:
    """Return the NetworkConfigurations that the spec or owners of an IPAllocation name.

    Args:
        failure: why the IPAllocation cannot be decoded, with the parts that can be.
    """
    outline = read_outline(failure)
    metadata = failure.metadata if isinstance(failure, DecodeFailure) else None
    owners = metadata.ownerReferences if metadata is not None else ()
    machines = {owner.name for owner in owners if owner.kind == CONFIGURATIONS.kind}
    if isinstance(outline, VitistackOutline):
        machines.add(outline.spec.networkConfigurationName)
    return machines - {""}  # a spec may have an empty name


def fill_caches(objects: ObjectsByKind) -> VitistackCaches:
    """Return caches of objects that were read, for views; every provider counts as ours."""
    by_namespace = {NAMESPACE_INDEX: list_namespaces_of}
    return VitistackCaches(
        objects.build_cache(NETWORKS, indexes=by_namespace),
        objects.build_cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES),
        objects.build_cache(CONFIGURATIONS, indexes=by_namespace),
        provider="",
        are_all_providers_ours=True,
    )


def fill_defaults(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a manifest with the default that vitistack fills in: the phase of a network."""
    status = dict(body.get("status") or {})
    if not is_of_kinds(body, [NETWORKS]) or status.get("provisioningPhase"):
        return body
    return {**body, "status": {**status, "provisioningPhase": PROVISIONED}}


def make_allocation_names(configuration: str, interface: str) -> tuple[str, str]:
    """Return the names of an IPAllocation that is made for an interface: first and second choice.

    The second name is used if an IPAllocation of another NetworkConfiguration has the first. If
    the name of an interface cannot be part of an object's name, both names have a hash, so that
    eth0 and ETH0 get different names.
    """
    digits = compute_short_hash(f"{configuration}/{interface}")
    cleaned = _NOT_IN_NAMES.sub("-", interface.lower()).strip("-") or "interface"
    hashed = shorten(f"{configuration}-{cleaned}", NAME_MAX - len(digits) - 1) + f"-{digits}"
    if not re.fullmatch(DNS_SUBDOMAIN, interface):
        return hashed, hashed
    return shorten(f"{configuration}-{interface}", NAME_MAX), hashed


def make_interface_name(interface: Interface, index: int) -> str:
    """Return the name of an interface; if it has none, its index as text."""
    return str(interface.get("name") or index)


def list_interface_names(machine: NetworkConfiguration) -> Sequence[str]:
    """Return the names of a machine's interfaces."""
    return [
        make_interface_name(interface, index)
        for index, interface in enumerate(machine.spec.networkInterfaces)
    ]


def is_made_for(allocation: VitistackAllocation, configuration: NetworkConfiguration) -> bool:
    """Return whether an IPAllocation that waits was made for the address that a machine has."""
    if not allocation.waits or not allocation.spec.requestedAddress:
        return False
    names = make_allocation_names(configuration.metadata.name, allocation.spec.interfaceName)
    return allocation.owner == configuration.metadata.uid and allocation.metadata.name in names


def list_addresses(interface: Interface) -> Sequence[str]:
    """Return the IPv4 addresses of an interface's status, without values of other types."""
    addresses = interface.get("ipv4Addresses")
    address_list = (
        addresses if isinstance(addresses, Sequence) and not isinstance(addresses, str) else ()
    )
    return [address for address in address_list if isinstance(address, str)]


def find_static(network: NetworkNamespace | None) -> Static | None:
    """Return the static settings of a network; None if it hands out no static addresses."""
    settings = network.spec.ipAllocation if network is not None else None
    return settings.static if settings is not None and settings.type == STATIC else None


def find_problem(network: NetworkNamespace | None, name: str) -> VitistackProblem | None:
    """Return why a network hands out nothing; None if it hands out addresses.

    Args:
        network: the network; None if it does not exist.
        name: the name of the network, for the message.
    """
    if network is None:
        return VitistackProblem(ERROR, NETWORK_NOT_FOUND, f'NetworkNamespace "{name}" not found')
    if network.metadata.is_terminating:
        message = f'NetworkNamespace "{name}" is being deleted'
        return VitistackProblem(PENDING, NOT_PROVISIONED, message)
    phase = network.status.provisioningPhase
    if phase != PROVISIONED:
        message = f'waiting for NetworkNamespace "{name}" provisioning (phase: {phase})'
        return VitistackProblem(PENDING, NOT_PROVISIONED, message)
    static = find_static(network)
    if static is None:
        message = f'NetworkNamespace "{name}" has no static IP configuration'
        return VitistackProblem(ERROR, NO_STATIC_CONFIGURATION, message)
    try:
        parse_space(static)
    except InvalidPool as invalid:
        return VitistackProblem(ERROR, INVALID_RANGE, "; ".join(invalid.messages))
    return None
