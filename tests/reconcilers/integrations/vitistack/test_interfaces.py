"""What a NetworkConfiguration shows while its IPAllocations come and go."""

from typing import Any

from controller.meta import ObjectMeta
from reconcilers.integrations.vitistack.api import (
    AllocationSpec,
    AllocationStatus,
    ConfigurationSpec,
    ConfigurationStatus,
    IPAllocation,
    NetworkConfiguration,
)
from reconcilers.integrations.vitistack.interfaces import wanted_status

HAD = {"name": "eth0", "ipv4Addresses": ["10.0.2.7"], "ipAllocated": True}


def configuration(*interfaces: Any) -> NetworkConfiguration:
    return NetworkConfiguration(
        ObjectMeta(name="vm", namespace="n"),
        ConfigurationSpec("net", "", ({"name": "eth0"},)),
        ConfigurationStatus(networkInterfaces=interfaces),
    )


def allocation(phase: str, requested: str, address: str = "") -> IPAllocation:
    return IPAllocation(
        ObjectMeta(name="vm-eth0", namespace="n"),
        AllocationSpec("net", "vm", "eth0", requested),
        AllocationStatus(phase, address, prefix=24),
    )


def addresses(one: NetworkConfiguration, mine: IPAllocation | None) -> list[str]:
    said = wanted_status(one, {} if mine is None else {"eth0": mine})
    assert (said.phase == "Ready") == (mine is not None and mine.holds)
    return [text for each in said.interfaces for text in each.get("ipv4Addresses", ())]


def test_an_address_that_the_machine_has_stays_shown_until_its_allocation_has_it() -> None:
    machine = configuration(HAD)
    assert addresses(machine, None) == ["10.0.2.7"]
    assert addresses(machine, allocation("Pending", "10.0.2.7")) == ["10.0.2.7"]
    assert addresses(machine, allocation("Allocated", "10.0.2.7", "10.0.2.7")) == ["10.0.2.7"]
    assert wanted_status(machine, {}).phase == "Pending"


def test_an_address_that_the_machine_does_not_get_is_not_shown() -> None:
    machine = configuration(HAD)
    assert addresses(machine, allocation("Error", "10.0.2.7")) == []
    assert addresses(machine, allocation("Pending", "10.0.2.9")) == []
    assert addresses(machine, allocation("Released", "10.0.2.7")) == []
    assert addresses(configuration(), None) == []
