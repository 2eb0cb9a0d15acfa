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
    IPAllocation,
    NetworkConfiguration,
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
    configuration: NetworkConfiguration, allocations: Sequence[IPAllocation]
) -> Mapping[str, IPAllocation]:
    """Return the IPAllocation of each interface that has one.

    Args:
        configuration: whose interfaces.
        allocations: those that name it.
    """
    found: dict[str, IPAllocation] = {}
    names = interface_names(configuration)
    for name in names:
        made = allocation_names(configuration.metadata.name, name)
        # What is for another interface by its spec is never shown on two.
        mine = [
            one
            for one in allocations
            if one.spec.interfaceName == name
            or (one.metadata.name in made and one.spec.interfaceName not in names)
        ]
        if mine:
            # With an address first, then the one that we made: there may be others.
            found[name] = min(mine, key=lambda one: (not one.holds, one.metadata.name not in made))
    return found


def wanted_status(
    configuration: NetworkConfiguration, allocations: Mapping[str, IPAllocation]
) -> WantedStatus:
    """Return the status that a NetworkConfiguration has to have, by its IPAllocations.

    Args:
        configuration: whose interfaces.
        allocations: by the names of interfaces.
    """
    interfaces, errors, waiting = [], [], []
    seen: set[str] = set()
    before = {str(each.get("name", "")): each for each in configuration.status.networkInterfaces}
    for index, interface in enumerate(configuration.spec.networkInterfaces):
        name = name_of(interface, index)
        if name in seen:
            interfaces.append(_interface(interface, None, None))
            errors.append(_error(name, "another interface has this name"))
            continue
        seen.add(name)
        one = allocations.get(name)
        if one is not None and one.holds and _subnet(one) is None:
            interfaces.append(_interface(interface, None, None))
            text = f"IPAllocation {one.metadata.name} has an address that cannot be read"
            errors.append(_error(name, text))
            continue
        interfaces.append(_interface(interface, one, before.get(name)))
        if one is not None and one.holds:
            continue
        waiting.append(name)
        if one is not None and one.status.phase == ERROR:
            errors.append(_error(name, one.status.message))
    every = tuple(interfaces)
    if errors:
        return WantedStatus(ERROR, FAILED, ERROR, "; ".join(errors), every)
    if waiting or not every:
        text = f"waiting for the addresses of {', '.join(waiting)}"
        return WantedStatus(
            "Pending", "Pending", RECONCILING, text if waiting else "no interfaces", every
        )
    text = f"All {len(every)} interfaces allocated static IPs via IPAllocation CRs"
    return WantedStatus(READY, "Success", CONFIGURED, text, every)


def _error(name: str, message: str) -> str:
    if message == EXHAUSTED:
        return f"no available IPs for interface {name}"
    return f"interface {name}: {message}"


def _subnet(one: IPAllocation) -> str | None:
    """Return the network of an IPAllocation's address; None if a person wrote what is none."""
    try:
        return AddressRange.parse_cidr(f"{one.status.address}/{one.status.prefix}").text
    except MalformedText:
        return None


def _interface(
    interface: Interface, one: IPAllocation | None, before: Interface | None
) -> dict[str, Any]:
    """Return the status of an interface.

    Args:
        interface: as its spec says.
        one: its IPAllocation; None if it has none.
        before: what is shown of it now. An address that its IPAllocation is about to get stays
            there: the machine has it, and readers must not see it go.
    """
    still_waits = one is None or (one.waits and one.status.phase != ERROR)
    had = addresses_of(before) if before is not None and still_waits else ()
    if before is not None and had and (one is None or one.spec.requestedAddress in had):
        return dict(before)
    kept = {name: value for name, value in interface.items() if name not in DECIDED}
    if one is None or not one.holds:
        return {**kept, "ipAllocated": False}
    status = one.status
    found: dict[str, Any] = {
        **kept,
        "ipv4Addresses": [status.address],
        "ipv4Subnet": _subnet(one),
        "ipv4Gateway": status.gateway,
        "dns": list(status.dns),
        "ipAllocated": True,
        "allocationMethod": STATIC,
    }
    if status.expiresAt:
        found["allocationExpiry"] = status.expiresAt
    return found
