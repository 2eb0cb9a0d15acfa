"""A pass over a network hands out no address that a machine shows on the API server."""

from typing import Any

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.meta import Key
from controller.testing.api import FakeApi
from reconcilers.configuration.settings import PoolSettings
from reconcilers.integrations.vitistack.api import (
    ALLOCATIONS,
    CONFIGURATIONS,
    NETWORKS,
    PROVISIONED,
)
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    list_namespaces_of,
)
from reconcilers.integrations.vitistack.networks import Networks
from reconcilers.integrations.vitistack.reading import VitistackReader
from reconcilers.integrations.vitistack.writing import VitistackWriter
from reconcilers.promises.passes import PoolPasses
from reconcilers.spaces.index import SpaceIndex
from tests.clock import VirtualClock

NET = Key("n", "net")
STATIC = {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}


class NetworkReplica:
    """A replica that passes over network `net`; a test updates its cache of machines.

    Attributes:
        api: the API server.
        reconciler: the pass over a network.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.api = FakeApi(self.clock)
        for kind in (NETWORKS, CONFIGURATIONS, ALLOCATIONS):
            self.api.serve(kind)
        self.client = Client(self.api, field_manager="butler-ipam")
        by_namespace = {NAMESPACE_INDEX: list_namespaces_of}
        of_allocations = ALLOCATION_INDEXES
        self.caches = VitistackCaches(
            Cache(NETWORKS, indexes=by_namespace),
            Cache(ALLOCATIONS, indexes=of_allocations),
            configurations=Cache(CONFIGURATIONS, indexes=by_namespace),
            provider="butler-ipam",
        )
        settings, recorder = PoolSettings(), Recorder(self.client, self.clock, "test/test")
        networks = Networks(
            self.client,
            self.caches,
            reader=VitistackReader(
                self.client, self.caches, clock=self.clock, patience=settings.cache_patience
            ),
            writer=VitistackWriter(self.client, recorder, clock=self.clock, settings=settings),
            recorder=recorder,
            clock=self.clock,
            settings=settings,
            spaces=SpaceIndex(),
        )
        self.reconciler = PoolPasses(networks, self.client, clock=self.clock, settings=settings)

    async def update(self, *caches: Cache[Any]) -> None:
        """Fill caches with the objects on the server."""
        for cache in caches:
            page = await self.client.list(cache.resource)
            cache.replace(page.items, page.revision)

    async def pass_over_network(self) -> None:
        """Pass over the network with current caches, except that of machines."""
        await self.update(self.caches.networks, self.caches.allocations)
        await self.reconciler.reconcile(NET)

    async def create_allocation(self, machine: str) -> None:
        """Create the IPAllocation for interface eth0 of a machine."""
        spec = {
            "networkNamespaceName": "net",
            "networkConfigurationName": machine,
            "interfaceName": "eth0",
        }
        body = {"metadata": {"name": f"{machine}-eth0"}, "spec": spec}
        await self.client.create(ALLOCATIONS, "n", body)

    async def read_address(self, machine: str) -> str:
        """Return the address that the IPAllocation of a machine holds."""
        allocation = await self.client.get(ALLOCATIONS, Key("n", f"{machine}-eth0"))
        return allocation.status.address

    def count_machine_lists(self) -> int:
        """Return how often NetworkConfigurations were listed so far."""
        kind = CONFIGURATIONS.full_name
        return sum(
            (request.method, request.resource) == ("LIST", kind) for request in self.api.requests
        )


async def make_replica() -> NetworkReplica:
    """Return a replica at a server with network `net`, and machine `vm` without an address."""
    replica = NetworkReplica()
    allocation = {"type": "static", "static": STATIC}
    network = {"metadata": {"name": "net"}, "spec": {"ipAllocation": allocation}}
    created = await replica.client.create(NETWORKS, "n", network)
    await replica.client.patch_status(NETWORKS, created, {"provisioningPhase": PROVISIONED})
    machine = {"networkNamespaceName": "net", "networkInterfaces": [{"name": "eth0"}]}
    await replica.client.create(CONFIGURATIONS, "n", {"metadata": {"name": "vm"}, "spec": machine})
    await replica.update(
        replica.caches.networks, replica.caches.allocations, replica.caches.configurations
    )
    return replica


async def test_an_address_that_another_operator_just_gave_to_a_machine_is_not_handed_out() -> None:
    """The cache of machines does not show the address 10.0.2.3 yet."""
    replica = await make_replica()
    await replica.create_allocation("first")
    for _ in range(3):
        await replica.pass_over_network()
    assert await replica.read_address("first") == "10.0.2.2"
    machine = await replica.client.get(CONFIGURATIONS, Key("n", "vm"))
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": ["10.0.2.3"]}]}
    await replica.client.patch_status(CONFIGURATIONS, machine, status)
    await replica.create_allocation("second")
    for _ in range(3):
        await replica.pass_over_network()
    assert await replica.read_address("second") == "10.0.2.4"


async def test_machines_are_listed_only_in_the_pass_that_hands_out_addresses() -> None:
    replica = await make_replica()
    for name in ("first", "second", "third"):
        await replica.create_allocation(name)
    before = replica.count_machine_lists()
    for _ in range(5):
        await replica.pass_over_network()
    assert {await replica.read_address(name) for name in ("first", "second", "third")} == {
        "10.0.2.2",
        "10.0.2.3",
        "10.0.2.4",
    }
    assert replica.count_machine_lists() - before == 1
