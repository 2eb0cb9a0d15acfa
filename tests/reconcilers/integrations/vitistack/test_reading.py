"""The addresses that machines show and hold by no IPAllocation, kept up to date by changes."""

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


class CountingCache(Cache[VitistackAllocation]):
    """A cache that counts how often the IPAllocations of a machine are read."""

    read_count = 0

    @override
    def list_by_index(self, index: str, value: str) -> tuple[VitistackAllocation, ...]:
        self.read_count += 1
        return super().list_by_index(index, value)


class MachineCaches:
    """Caches of machines and IPAllocations in namespace `n`, which a test changes.

    Attributes:
        shown: what is kept about the addresses that machines show.
    """

    def __init__(self) -> None:
        self._revisions = count(1)
        self.allocations = CountingCache(ALLOCATIONS, indexes=ALLOCATION_INDEXES)
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
        """Put an object into a cache at a new revision, and return it."""
        meta = replace(obj.metadata, resourceVersion=str(next(self._revisions)))
        put = replace(obj, metadata=meta)
        cache.apply(Modified(put))
        return put

    def put_machine(
        self, name: str, *addresses: str, network: str = "net", provider: str = ""
    ) -> NetworkConfiguration:
        """Create or replace a machine whose status shows some addresses."""
        interfaces = ({"name": "eth0", "ipv4Addresses": list(addresses)},)
        return self._put(
            self.machines,
            NetworkConfiguration(
                ObjectMeta(name, "n", uid=name),
                ConfigurationSpec(network, provider, ({"name": "eth0"},)),
                ConfigurationStatus(networkInterfaces=interfaces),
            ),
        )

    def put_allocation(
        self, machine: str, address: str, network: str = "net"
    ) -> VitistackAllocation:
        """Create or replace the IPAllocation by which a machine holds an address."""
        return self._put(
            self.allocations,
            VitistackAllocation(
                ObjectMeta(f"{machine}-eth0", "n", uid=f"a-{machine}"),
                VitistackAllocationSpec(network, machine, "eth0"),
                AllocationStatus("Allocated", address),
            ),
        )

    def delete(self, cache: Cache[T], obj: T) -> None:
        """Delete an object from a cache."""
        meta = replace(obj.metadata, resourceVersion=str(next(self._revisions)))
        cache.apply(Deleted(replace(obj, metadata=meta)))


def test_an_address_counts_as_shown_while_its_machine_exists_and_has_no_allocation_of_it() -> None:
    caches = MachineCaches()
    assert caches.shown.list_in_network(NET) == {}
    machine = caches.put_machine("vm", "10.0.0.5")
    assert caches.shown.list_in_network(NET) == {"10.0.0.5": Key("n", "vm")}
    allocation = caches.put_allocation("vm", "10.0.0.5")
    assert caches.shown.list_in_network(NET) == {}
    caches.delete(caches.allocations, allocation)
    assert caches.shown.list_in_network(NET) == {"10.0.0.5": Key("n", "vm")}
    caches.delete(caches.machines, machine)
    assert caches.shown.list_in_network(NET) == {}


def test_machines_of_another_network_or_provider_do_not_count() -> None:
    """A machine that names no network counts in all networks of its namespace."""
    caches = MachineCaches()
    caches.put_machine("a", "10.0.0.5")
    caches.put_machine("b", "10.0.0.6", network="")
    caches.put_machine("c", "10.0.0.7", provider="kea")
    assert set(caches.shown.list_in_network(NET)) == {"10.0.0.5", "10.0.0.6"}
    assert set(caches.shown.list_in_network(OTHER)) == {"10.0.0.6"}
    assert caches.shown.list_in_network(Key("elsewhere", "net")) == {}


def test_an_address_counts_as_shown_again_once_its_allocation_names_another_network() -> None:
    caches = MachineCaches()
    caches.put_machine("vm", "10.0.0.5")
    caches.put_allocation("vm", "10.0.0.5")
    assert caches.shown.list_in_network(NET) == {}
    caches.put_allocation("vm", "10.0.0.5", network="other")
    assert caches.shown.list_in_network(NET) == {"10.0.0.5": Key("n", "vm")}


def test_only_changed_machines_are_examined_again() -> None:
    caches = MachineCaches()
    for number in range(MACHINES):
        caches.put_machine(f"vm{number}", f"10.0.1.{number}")
        caches.put_allocation(f"vm{number}", f"10.0.1.{number}")

    def list_and_count() -> tuple[object, int]:
        """Return the shown addresses, and how many machines were examined for that."""
        before = caches.allocations.read_count
        return caches.shown.list_in_network(NET), caches.allocations.read_count - before

    assert list_and_count() == ({}, MACHINES)
    assert list_and_count() == ({}, 0)
    caches.put_allocation("vm7", "10.0.1.250")
    assert list_and_count() == ({"10.0.1.7": Key("n", "vm7")}, 1)
