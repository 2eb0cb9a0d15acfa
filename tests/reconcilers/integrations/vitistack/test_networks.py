"""What a pass over a network hands out follows what machines show on the server."""

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


class Site:
    """A network, the server, and a replica whose caches are read when a test says so."""

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

    async def read(self, *caches: Cache[Any]) -> None:
        """Bring caches up to date."""
        for cache in caches:
            page = await self.client.list(cache.resource)
            cache.replace(page.items, page.revision)

    async def look(self) -> None:
        """Pass over the network with a cache of machines as it was read last."""
        await self.read(self.caches.networks, self.caches.allocations)
        await self.reconciler.reconcile(NET)

    async def ask(self, machine: str) -> None:
        """Create the IPAllocation of a machine."""
        spec = {
            "networkNamespaceName": "net",
            "networkConfigurationName": machine,
            "interfaceName": "eth0",
        }
        body = {"metadata": {"name": f"{machine}-eth0"}, "spec": spec}
        await self.client.create(ALLOCATIONS, "n", body)

    async def address_of(self, machine: str) -> str:
        """Return the address that the IPAllocation of a machine holds."""
        allocation = await self.client.get(ALLOCATIONS, Key("n", f"{machine}-eth0"))
        return allocation.status.address

    def lists(self) -> int:
        """Return how often NetworkConfigurations were listed so far."""
        kind = CONFIGURATIONS.full_name
        return sum(
            (request.method, request.resource) == ("LIST", kind) for request in self.api.requests
        )


async def site_with_machine() -> Site:
    site = Site()
    how = {"type": "static", "static": STATIC}
    network = {"metadata": {"name": "net"}, "spec": {"ipAllocation": how}}
    created = await site.client.create(NETWORKS, "n", network)
    await site.client.patch_status(NETWORKS, created, {"provisioningPhase": PROVISIONED})
    machine = {"networkNamespaceName": "net", "networkInterfaces": [{"name": "eth0"}]}
    await site.client.create(CONFIGURATIONS, "n", {"metadata": {"name": "vm"}, "spec": machine})
    await site.read(site.caches.networks, site.caches.allocations, site.caches.configurations)
    return site


async def test_an_address_that_another_operator_gave_a_machine_a_moment_ago_goes_to_no_other() -> (
    None
):
    site = await site_with_machine()
    await site.ask("first")
    for _ in range(3):
        await site.look()
    assert await site.address_of("first") == "10.0.2.2"
    machine = await site.client.get(CONFIGURATIONS, Key("n", "vm"))
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": ["10.0.2.3"]}]}
    await site.client.patch_status(CONFIGURATIONS, machine, status)
    await site.ask("second")
    for _ in range(3):
        await site.look()
    assert await site.address_of("second") == "10.0.2.4"


async def test_machines_are_listed_once_for_a_pass_that_gives_addresses_and_for_no_other() -> None:
    site = await site_with_machine()
    for name in ("first", "second", "third"):
        await site.ask(name)
    before = site.lists()
    for _ in range(5):
        await site.look()
    assert {await site.address_of(name) for name in ("first", "second", "third")} == {
        "10.0.2.2",
        "10.0.2.3",
        "10.0.2.4",
    }
    assert site.lists() - before == 1
