"""Compute the status of a NetworkConfiguration from its IPAllocations. Pure functions.

A NetworkConfiguration is Ready only if each interface of its spec has an address. So while the
cache lacks an IPAllocation that was just created, the NetworkConfiguration is not Ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocator import AddressRange
from allocator.errors import MalformedText
from controller.plaintext import escape_text
from reconcilers.integrations.vitistack.api import (
    ERROR,
    STATIC,
    Interface,
    NetworkConfiguration,
    VitistackAllocation,
)
from reconcilers.integrations.vitistack.caches import (
    list_addresses,
    list_interface_names,
    make_allocation_names,
    make_interface_name,
)
from reconcilers.integrations.vitistack.networks import EXHAUSTED

READY = "Ready"
CONFIGURED = "Configured"
RECONCILING = "Reconciling"
FAILED = "Failed"
ALLOCATION_FIELDS = (
    "ipv4Addresses",
    "ipv4Subnet",
    "ipv4Gateway",
    "dns",
    "ipAllocated",
    "allocationMethod",
    "allocationExpiry",
)
"""The fields of an interface's status that an IPAllocation decides."""


@dataclass(frozen=True, slots=True)
class WantedStatus:
    """The status of a NetworkConfiguration, without times.

    Args:
        phase: Ready, Error or Pending.
        status: Success, Failed or Pending.
        reason: the reason of the condition Ready.
        message: a sentence.
        interfaces: the statuses of all interfaces, each with its address if it has one.
    """

    phase: str
    status: str
    reason: str
    message: str
    interfaces: tuple[Interface, ...] = ()

    def __post_init__(self) -> None:
        """Escape the message, which may quote other objects' texts."""
        object.__setattr__(self, "message", escape_text(self.message))


def find_by_interface(
    configuration: NetworkConfiguration, allocations: Sequence[VitistackAllocation]
) -> Mapping[str, VitistackAllocation]:
    """Return the IPAllocation of each interface that has one.

    Args:
        configuration: the machine with the interfaces.
        allocations: the IPAllocations that name the NetworkConfiguration.
    """
    by_name: dict[str, VitistackAllocation] = {}
    names = list_interface_names(configuration)
    for name in names:
        own_names = make_allocation_names(configuration.metadata.name, name)
        # An IPAllocation belongs to the interface that its spec names. Only if there is no such
        # interface, the IPAllocation's name decides. So no address is shown on two interfaces.
        candidates = [
            allocation
            for allocation in allocations
            if allocation.spec.interfaceName == name
            or (
                allocation.metadata.name in own_names
                and allocation.spec.interfaceName not in names
            )
        ]
        if candidates:
            # Other programs may have created IPAllocations, too. An IPAllocation with an address
            # is preferred, then an IPAllocation that this program made.
            by_name[name] = min(
                candidates,
                key=lambda allocation: (
                    not allocation.holds,
                    allocation.metadata.name not in own_names,
                ),
            )
    return by_name


def compute_wanted_status(
    configuration: NetworkConfiguration, allocations: Mapping[str, VitistackAllocation]
) -> WantedStatus:
    """Return the status that a NetworkConfiguration must have. The first row that applies decides.

        Error      an interface has the name of another one, an unreadable address, or an
                   IPAllocation in phase Error
        Pending    an interface has no address, or there is no interface
        Ready      otherwise

    Args:
        configuration: the machine with the interfaces.
        allocations: the IPAllocations, by the names of their interfaces.
    """
    interfaces, errors, waiting = [], [], []
    earlier_names: set[str] = set()
    shown_interfaces = {
        str(interface.get("name", "")): interface
        for interface in configuration.status.networkInterfaces
    }
    for index, interface in enumerate(configuration.spec.networkInterfaces):
        name = make_interface_name(interface, index)
        # The first interface of a name has the IPAllocation; a second one shows no address.
        if name in earlier_names:
            interfaces.append(
                _build_interface_status(interface, allocation=None, shown_interface=None)
            )
            errors.append(_describe_error(name, "another interface has this name"))
            continue
        earlier_names.add(name)
        allocation = allocations.get(name)
        # The subnet of the address cannot be computed, so the address is not shown.
        if allocation is not None and allocation.holds and _find_subnet(allocation) is None:
            interfaces.append(
                _build_interface_status(interface, allocation=None, shown_interface=None)
            )
            message = f"IPAllocation {allocation.metadata.name} has an address that cannot be read"
            errors.append(_describe_error(name, message))
            continue
        interfaces.append(
            _build_interface_status(interface, allocation, shown_interfaces.get(name))
        )
        if allocation is not None and allocation.holds:
            continue
        waiting.append(name)
        if allocation is not None and allocation.status.phase == ERROR:
            errors.append(_describe_error(name, allocation.status.message))
    all_interfaces = tuple(interfaces)
    if errors:
        return WantedStatus(
            ERROR, FAILED, reason=ERROR, message="; ".join(errors), interfaces=all_interfaces
        )
    if waiting or not all_interfaces:
        message = f"waiting for the addresses of {', '.join(waiting)}"
        return WantedStatus(
            "Pending",
            "Pending",
            reason=RECONCILING,
            message=message if waiting else "no interfaces",
            interfaces=all_interfaces,
        )
    message = f"All {len(all_interfaces)} interfaces allocated static IPs via IPAllocation CRs"
    return WantedStatus(
        READY, "Success", reason=CONFIGURED, message=message, interfaces=all_interfaces
    )


def _describe_error(name: str, message: str) -> str:
    """Return the error sentence about an interface; for an exhausted network, vitistack's own."""
    if message == EXHAUSTED:
        return f"no available IPs for interface {name}"
    return f"interface {name}: {message}"


def _find_subnet(allocation: VitistackAllocation) -> str | None:
    """Return the subnet of an IPAllocation's address; None if it cannot be parsed."""
    try:
        return AddressRange.parse_cidr(
            f"{allocation.status.address}/{allocation.status.prefix}"
        ).text
    except MalformedText:
        return None


def _build_interface_status(
    interface: Interface, allocation: VitistackAllocation | None, shown_interface: Interface | None
) -> dict[str, Any]:
    """Return the status of an interface.

    Args:
        interface: the interface in the spec.
        allocation: its IPAllocation; None if it has none.
        shown_interface: the present status of the interface; None if it has none. While the
            IPAllocation waits for a shown address, this status stays, because the machine uses the
            address.
    """
    # If there is no IPAllocation, an IPAllocation that requests the shown address is created soon.
    still_waits = allocation is None or (allocation.waits and allocation.status.phase != ERROR)
    shown_addresses = (
        list_addresses(shown_interface) if shown_interface is not None and still_waits else ()
    )
    if (
        shown_interface is not None
        and shown_addresses
        and (allocation is None or allocation.spec.requestedAddress in shown_addresses)
    ):
        return dict(shown_interface)
    spec_fields = {
        name: value for name, value in interface.items() if name not in ALLOCATION_FIELDS
    }
    if allocation is None or not allocation.holds:
        return {**spec_fields, "ipAllocated": False}
    status = allocation.status
    fields: dict[str, Any] = {
        **spec_fields,
        "ipv4Addresses": [status.address],
        "ipv4Subnet": _find_subnet(allocation),
        "ipv4Gateway": status.gateway,
        "dns": list(status.dns),
        "ipAllocated": True,
        "allocationMethod": STATIC,
    }
    if status.expiresAt:
        fields["allocationExpiry"] = status.expiresAt
    return fields
