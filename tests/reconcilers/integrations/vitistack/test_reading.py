"""Addresses that machines show without holding them, found without looking at all machines."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import TypeVar

from typing_extensions import override

from controller.cache import Cache
from controller.codec import Deleted, Modified
from controller.meta import Key, ObjectMeta
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    NETWORKS,
    AllocationStatus,
    ConfigurationSpec,
    ConfigurationStatus,
    NetworkConfiguration,
    VitistackAllocation,
    VitistackAllocationSpec,
)
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    list_namespaces_of,
)
from reconcilers.integrations.vitistack.reading import ShownAddresses

NET, OTHER = Key("n", "net"), Key("n", "other")
MACHINES = 200
T = TypeVar("T", NetworkConfiguration, VitistackAllocation)


class Looks(Cache[VitistackAllocation]):
    """Counts how often the IPAllocations of a machine are asked for."""

    looks = 0

    @override
    def list_by_index(self, index: str, value: str) -> tuple[VitistackAllocation, ...]:
        self.looks += 1
        return super().list_by_index(index, value)


class Site:
    """Machines of one network and their IPAllocations."""

    def __init__(self) -> None:
        self._revisions = count(1)
        self.allocations = Looks(ALLOCATIONS, indexes=ALLOCATION_INDEXES)
        by_namespace = {NAMESPACE_INDEX: list_namespaces_of}
        self.machines = Cache(CONFIGURATIONS, indexes=by_namespace)
        networks = Cache(NETWORKS, indexes=by_namespace)
        caches = VitistackCaches(
            networks, self.allocations, configurations=self.machines, provider="butler-ipam"
        )
        for cache in (networks, self.allocations, self.machines):
            cache.replace([], next(self._revisions))
        self.shown = ShownAddresses(caches)

    def _put(self, cache: Cache[T], obj: T) -> T:
        meta = replace(obj.metadata, resourceVersion=str(next(self._revisions)))
        put = replace(obj, metadata=meta)
        cache.apply(Modified(put))
        return put

    def machine(
        self, name: str, *addresses: str, network: str = "net", provider: str = ""
    ) -> NetworkConfiguration:
        interfaces = ({"name": "eth0", "ipv4Addresses": list(addresses)},)
        return self._put(
            self.machines,
            NetworkConfiguration(
                ObjectMeta(name, "n", uid=name),
                ConfigurationSpec(network, provider, ({"name": "eth0"},)),
                ConfigurationStatus(networkInterfaces=interfaces),
            ),
        )

    def holds(self, machine: str, address: str, network: str = "net") -> VitistackAllocation:
        return self._put(
            self.allocations,
            VitistackAllocation(
                ObjectMeta(f"{machine}-eth0", "n", uid=f"a-{machine}"),
                VitistackAllocationSpec(network, machine, "eth0"),
                AllocationStatus("Allocated", address),
            ),
        )

    def delete(self, cache: Cache[T], obj: T) -> None:
        meta = replace(obj.metadata, resourceVersion=str(next(self._revisions)))
        cache.apply(Deleted(replace(obj, metadata=meta)))


def test_an_address_is_shown_only_until_its_machine_holds_it_and_after_that_is_gone() -> None:
    site = Site()
    assert site.shown.list_in_network(NET) == {}
    machine = site.machine("vm", "10.0.0.5")
    assert site.shown.list_in_network(NET) == {"10.0.0.5": Key("n", "vm")}
    holds = site.holds("vm", "10.0.0.5")
    assert site.shown.list_in_network(NET) == {}
    site.delete(site.allocations, holds)
    assert site.shown.list_in_network(NET) == {"10.0.0.5": Key("n", "vm")}
    site.delete(site.machines, machine)
    assert site.shown.list_in_network(NET) == {}


def test_an_address_is_of_the_network_that_the_machine_names_and_of_its_own_provider() -> None:
    site = Site()
    site.machine("a", "10.0.0.5")
    site.machine("b", "10.0.0.6", network="")
    site.machine("c", "10.0.0.7", provider="kea")
    assert set(site.shown.list_in_network(NET)) == {"10.0.0.5", "10.0.0.6"}
    assert set(site.shown.list_in_network(OTHER)) == {"10.0.0.6"}
    assert site.shown.list_in_network(Key("elsewhere", "net")) == {}


def test_an_allocation_that_names_another_network_since_leaves_the_address_shown() -> None:
    site = Site()
    site.machine("vm", "10.0.0.5")
    site.holds("vm", "10.0.0.5")
    assert site.shown.list_in_network(NET) == {}
    site.holds("vm", "10.0.0.5", network="other")
    assert site.shown.list_in_network(NET) == {"10.0.0.5": Key("n", "vm")}


def test_only_machines_of_which_something_changed_are_looked_at_again() -> None:
    site = Site()
    for number in range(MACHINES):
        site.machine(f"vm{number}", f"10.0.1.{number}")
        site.holds(f"vm{number}", f"10.0.1.{number}")

    def looks() -> Sequence[object]:
        before = site.allocations.looks
        return site.shown.list_in_network(NET), site.allocations.looks - before

    assert looks() == ({}, MACHINES)
    assert looks() == ({}, 0)
    site.holds("vm7", "10.0.1.250")
    assert looks() == ({"10.0.1.7": Key("n", "vm7")}, 1)
