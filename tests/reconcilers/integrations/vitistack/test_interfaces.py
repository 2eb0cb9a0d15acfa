"""The addresses that the status of a NetworkConfiguration shows, by its IPAllocations.

Machine `vm` has the interface eth0, and its IPAllocation is called vm-eth0.
"""

from dataclasses import replace
from typing import Any

import pytest

from controller.meta import ObjectMeta
from reconcilers.integrations.vitistack.api import (
    AllocationStatus,
    ConfigurationSpec,
    ConfigurationStatus,
    NetworkConfiguration,
    VitistackAllocation,
    VitistackAllocationSpec,
)
from reconcilers.integrations.vitistack.caches import make_allocation_names
from reconcilers.integrations.vitistack.interfaces import compute_wanted_status, find_by_interface

SHOWN = {"name": "eth0", "ipv4Addresses": ["10.0.2.7"], "ipAllocated": True}
"""An interface in a status that shows an address."""


def make_configuration(*interfaces: Any) -> NetworkConfiguration:
    """Return the NetworkConfiguration of the machine with the interfaces of its status."""
    return NetworkConfiguration(
        ObjectMeta(name="vm", namespace="n"),
        ConfigurationSpec("net", "", ({"name": "eth0"},)),
        ConfigurationStatus(networkInterfaces=interfaces),
    )


def make_allocation(phase: str, requested: str, address: str = "") -> VitistackAllocation:
    """Return the IPAllocation of the machine.

    Args:
        phase: the phase in its status.
        requested: the address that its spec requests; empty for any.
        address: the address in its status; empty for none.
    """
    return VitistackAllocation(
        ObjectMeta(name="vm-eth0", namespace="n"),
        VitistackAllocationSpec("net", "vm", interfaceName="eth0", requestedAddress=requested),
        AllocationStatus(phase, address, prefix=24),
    )


def compute_addresses(
    machine: NetworkConfiguration, allocation: VitistackAllocation | None
) -> list[str]:
    """Return the addresses in the computed status; assert that it is Ready only with a holder."""
    status = compute_wanted_status(machine, {} if allocation is None else {"eth0": allocation})
    assert (status.phase == "Ready") == (allocation is not None and allocation.holds)
    return [
        ipv4_address
        for interface in status.interfaces
        for ipv4_address in interface.get("ipv4Addresses", ())
    ]


def test_an_address_that_a_machine_shows_is_kept_until_its_allocation_has_it() -> None:
    machine = make_configuration(SHOWN)
    assert compute_addresses(machine, None) == ["10.0.2.7"]
    assert compute_addresses(machine, make_allocation("Pending", "10.0.2.7")) == ["10.0.2.7"]
    assert compute_addresses(machine, make_allocation("Allocated", "10.0.2.7", "10.0.2.7")) == [
        "10.0.2.7"
    ]
    assert compute_wanted_status(machine, {}).phase == "Pending"


def test_an_address_that_the_allocation_does_not_hold_or_request_is_not_shown() -> None:
    machine = make_configuration(SHOWN)
    assert compute_addresses(machine, make_allocation("Error", "10.0.2.7")) == []
    assert compute_addresses(machine, make_allocation("Pending", "10.0.2.9")) == []
    assert compute_addresses(machine, make_allocation("Released", "10.0.2.7")) == []
    assert compute_addresses(make_configuration(), None) == []


def make_machine(*interfaces: str) -> NetworkConfiguration:
    """Return a machine without status, with interfaces of some names."""
    interface_specs = tuple({"name": name} for name in interfaces)
    return NetworkConfiguration(
        ObjectMeta("vm", "n"), ConfigurationSpec("net", "", interface_specs)
    )


@pytest.mark.parametrize(
    "interfaces",
    [("eth0", "ETH0"), ("br_0", "br-0"), ("a..b", "a-b"), ("\u00fc", "\u00f6"), ("", "_")],
)
def test_interfaces_of_similar_names_have_allocations_of_different_names(
    interfaces: tuple[str, str],
) -> None:
    first_names, second_names = (
        set(make_allocation_names("vm", interface)) for interface in interfaces
    )
    assert not first_names & second_names


@pytest.mark.parametrize(
    "interface", ["eth0", "eth0.100", "ETH0", "a..b", "c.-d", "\u00fc", "..", "", "i" * 300]
)
def test_the_names_of_allocations_are_valid_names_of_objects(interface: str) -> None:
    for name in make_allocation_names("vm", interface):
        assert len(name) <= 253
        for label in name.split("."):
            assert label.isascii()
            assert label[0].isalnum()
            assert label[-1].isalnum()
            assert label.replace("-", "").isalnum()
            assert label == label.lower()


def test_machines_whose_allocations_have_the_same_plain_name_have_different_other_names() -> None:
    """An interface has a plain name for its IPAllocation, and another name if that is taken."""
    plain, other = make_allocation_names("a", "b-c")
    plain_of_second, other_of_second = make_allocation_names("a-b", "c")
    assert plain == plain_of_second
    assert len({plain, other, other_of_second}) == 3


def test_an_allocation_is_never_shown_on_two_interfaces() -> None:
    machine = make_machine("eth0", "ETH0")
    allocation = replace(
        make_allocation("Allocated", "", "10.0.2.7"),
        spec=VitistackAllocationSpec("net", "vm", "ETH0"),
    )
    assert find_by_interface(machine, [allocation]) == {"ETH0": allocation}
    machine = make_machine("eth0", "eth0")
    allocations = find_by_interface(machine, [make_allocation("Allocated", "", "10.0.2.7")])
    status = compute_wanted_status(machine, allocations)
    assert [interface.get("ipv4Addresses") for interface in status.interfaces] == [
        ["10.0.2.7"],
        None,
    ]
    assert status.phase == "Error"
    assert status.message == "interface eth0: another interface has this name"


def test_an_allocation_whose_address_cannot_be_parsed_is_an_error_of_its_interface() -> None:
    allocation = make_allocation("Allocated", "", "nonsense")
    status = compute_wanted_status(make_machine("eth0"), {"eth0": allocation})
    assert status.phase == "Error"
    assert "IPAllocation vm-eth0 has an address that cannot be read" in status.message
    assert "ipv4Addresses" not in status.interfaces[0]
