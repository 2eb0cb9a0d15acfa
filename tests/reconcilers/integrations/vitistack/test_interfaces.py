"""What a NetworkConfiguration shows while its IPAllocations come and go."""

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

HAD = {"name": "eth0", "ipv4Addresses": ["10.0.2.7"], "ipAllocated": True}


def configuration(*interfaces: Any) -> NetworkConfiguration:
    return NetworkConfiguration(
        ObjectMeta(name="vm", namespace="n"),
        ConfigurationSpec("net", "", ({"name": "eth0"},)),
        ConfigurationStatus(networkInterfaces=interfaces),
    )


def allocation(phase: str, requested: str, address: str = "") -> VitistackAllocation:
    return VitistackAllocation(
        ObjectMeta(name="vm-eth0", namespace="n"),
        VitistackAllocationSpec("net", "vm", interfaceName="eth0", requestedAddress=requested),
        AllocationStatus(phase, address, prefix=24),
    )


def addresses(
    network_configuration: NetworkConfiguration, allocation: VitistackAllocation | None
) -> list[str]:
    said = compute_wanted_status(
        network_configuration, {} if allocation is None else {"eth0": allocation}
    )
    assert (said.phase == "Ready") == (allocation is not None and allocation.holds)
    return [
        ipv4_address
        for interface in said.interfaces
        for ipv4_address in interface.get("ipv4Addresses", ())
    ]


def test_an_address_that_the_machine_has_stays_shown_until_its_allocation_has_it() -> None:
    machine = configuration(HAD)
    assert addresses(machine, None) == ["10.0.2.7"]
    assert addresses(machine, allocation("Pending", "10.0.2.7")) == ["10.0.2.7"]
    assert addresses(machine, allocation("Allocated", "10.0.2.7", "10.0.2.7")) == ["10.0.2.7"]
    assert compute_wanted_status(machine, {}).phase == "Pending"


def test_an_address_that_the_machine_does_not_get_is_not_shown() -> None:
    machine = configuration(HAD)
    assert addresses(machine, allocation("Error", "10.0.2.7")) == []
    assert addresses(machine, allocation("Pending", "10.0.2.9")) == []
    assert addresses(machine, allocation("Released", "10.0.2.7")) == []
    assert addresses(configuration(), None) == []


def machine_of(*interfaces: str) -> NetworkConfiguration:
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
    first_name, other = (
        set(make_allocation_names("vm", list_interface_names))
        for list_interface_names in interfaces
    )
    assert not first_name & other


@pytest.mark.parametrize(
    "interface", ["eth0", "eth0.100", "ETH0", "a..b", "c.-d", "\u00fc", "..", "", "i" * 300]
)
def test_the_names_of_allocations_are_names_of_objects(interface: str) -> None:
    for name in make_allocation_names("vm", interface):
        assert len(name) <= 253
        for label in name.split("."):
            assert label.isascii()
            assert label[0].isalnum()
            assert label[-1].isalnum()
            assert label.replace("-", "").isalnum()
            assert label == label.lower()


def test_two_machines_have_no_name_of_an_allocation_in_common_that_both_can_use() -> None:
    (first, first_name), (second, other) = (
        make_allocation_names("a", "b-c"),
        make_allocation_names("a-b", "c"),
    )
    assert first == second
    assert len({first, first_name, other}) == 3


def test_an_allocation_is_never_shown_on_two_interfaces() -> None:
    machine = machine_of("eth0", "ETH0")
    own_allocation = replace(
        allocation("Allocated", "", "10.0.2.7"), spec=VitistackAllocationSpec("net", "vm", "ETH0")
    )
    assert find_by_interface(machine, [own_allocation]) == {"ETH0": own_allocation}
    machine = machine_of("eth0", "eth0")
    allocations = find_by_interface(machine, [allocation("Allocated", "", "10.0.2.7")])
    said = compute_wanted_status(machine, allocations)
    assert [interface.get("ipv4Addresses") for interface in said.interfaces] == [
        ["10.0.2.7"],
        None,
    ]
    assert said.phase == "Error"
    assert said.message == "interface eth0: another interface has this name"


def test_an_address_that_is_none_is_an_error_of_its_interface() -> None:
    said = compute_wanted_status(
        machine_of("eth0"), {"eth0": allocation("Allocated", "", "nonsense")}
    )
    assert said.phase == "Error"
    assert "IPAllocation vm-eth0 has an address that cannot be read" in said.message
    assert "ipv4Addresses" not in said.interfaces[0]
