"""What a NetworkConfiguration shows of its IPAllocations. Pure functions.

It is never Ready with an interface without address: what counts are its interfaces, not the
IPAllocations that the cache happens to show.
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
    addresses_of,
    allocation_names,
    interface_names,
    name_of,
)
from reconcilers.integrations.vitistack.networks import EXHAUSTED

READY = "Ready"
CONFIGURED = "Configured"
RECONCILING = "Reconciling"
FAILED = "Failed"
DECIDED = (
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
        reason: of the condition Ready.
        message: a sentence.
        interfaces: each with its address, if it has one.
    """

    phase: str
    status: str
    reason: str
    message: str
    interfaces: tuple[Interface, ...] = ()

    def __post_init__(self) -> None:
        """Escape the message, which may quote other objects' texts."""
        object.__setattr__(self, "message", escape_text(self.message))


def by_interface(
    configuration: NetworkConfiguration, allocations: Sequence[VitistackAllocation]
) -> Mapping[str, VitistackAllocation]:
    """Return the IPAllocation of each interface that has one.

    Args:
        configuration: whose interfaces.
        allocations: those that name it.
    """
    by_name: dict[str, VitistackAllocation] = {}
    names = interface_names(configuration)
    for name in names:
        own_names = allocation_names(configuration.metadata.name, name)
        # What is for another interface by its spec is never shown on two.
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
            # With an address first, then the one that we made: there may be others.
            by_name[name] = min(
                candidates,
                key=lambda allocation: (
                    not allocation.holds,
                    allocation.metadata.name not in own_names,
                ),
            )
    return by_name


def wanted_status(
    configuration: NetworkConfiguration, allocations: Mapping[str, VitistackAllocation]
) -> WantedStatus:
    """Return the status that a NetworkConfiguration has to have, by its IPAllocations.

    Args:
        configuration: whose interfaces.
        allocations: by the names of interfaces.
    """
    interfaces, errors, waiting = [], [], []
    seen: set[str] = set()
    before = {
        str(interface.get("name", "")): interface
        for interface in configuration.status.networkInterfaces
    }
    for index, interface in enumerate(configuration.spec.networkInterfaces):
        name = name_of(interface, index)
        if name in seen:
            interfaces.append(_interface(interface, None, None))
            errors.append(_error(name, "another interface has this name"))
            continue
        seen.add(name)
        allocation = allocations.get(name)
        if allocation is not None and allocation.holds and _subnet(allocation) is None:
            interfaces.append(_interface(interface, None, None))
            message = f"IPAllocation {allocation.metadata.name} has an address that cannot be read"
            errors.append(_error(name, message))
            continue
        interfaces.append(_interface(interface, allocation, before.get(name)))
        if allocation is not None and allocation.holds:
            continue
        waiting.append(name)
        if allocation is not None and allocation.status.phase == ERROR:
            errors.append(_error(name, allocation.status.message))
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


def _error(name: str, message: str) -> str:
    if message == EXHAUSTED:
        return f"no available IPs for interface {name}"
    return f"interface {name}: {message}"


def _subnet(allocation: VitistackAllocation) -> str | None:
    """Return the network of an IPAllocation's address; None if a person wrote what is none."""
    try:
        return AddressRange.parse_cidr(
            f"{allocation.status.address}/{allocation.status.prefix}"
        ).text
    except MalformedText:
        return None


def _interface(
    interface: Interface, allocation: VitistackAllocation | None, before: Interface | None
) -> dict[str, Any]:
    """Return the status of an interface.

    Args:
        interface: as its spec says.
        allocation: its IPAllocation; None if it has none.
        before: what is shown of it now. An address that its IPAllocation is about to get stays
            there: the machine has it, and readers must not see it go.
    """
    still_waits = allocation is None or (allocation.waits and allocation.status.phase != ERROR)
    had = addresses_of(before) if before is not None and still_waits else ()
    if (
        before is not None
        and had
        and (allocation is None or allocation.spec.requestedAddress in had)
    ):
        return dict(before)
    kept = {name: value for name, value in interface.items() if name not in DECIDED}
    if allocation is None or not allocation.holds:
        return {**kept, "ipAllocated": False}
    status = allocation.status
    fields: dict[str, Any] = {
        **kept,
        "ipv4Addresses": [status.address],
        "ipv4Subnet": _subnet(allocation),
        "ipv4Gateway": status.gateway,
        "dns": list(status.dns),
        "ipAllocated": True,
        "allocationMethod": STATIC,
    }
    if status.expiresAt:
        fields["allocationExpiry"] = status.expiresAt
    return fields
