"""Before an IPAllocation is created for a machine, the machine is read from the API server."""

from typing import Any

from controller.cache import Cache
from controller.client import Client
from controller.clock import SystemClock
from controller.finalizers import remove_finalizer
from controller.meta import Key, Version
from controller.testing.api import FakeApi
from reconcilers.integrations.vitistack.api import ALLOCATIONS, CONFIGURATIONS, FINALIZER, NETWORKS
from reconcilers.integrations.vitistack.caches import (
    ALLOCATION_INDEXES,
    NAMESPACE_INDEX,
    VitistackCaches,
    list_namespaces_of,
)
from reconcilers.integrations.vitistack.configurations import ConfigurationReconciler

MACHINE = Key("n", "vm")


async def make_stale_reconciler() -> tuple[Client, ConfigurationReconciler]:
    """Return a client of a server with a machine, and a reconciler whose caches are not updated.

    The caches show the machine without an address, whatever is written to the server later.
    """
    api, clock = FakeApi(SystemClock()), SystemClock()
    for kind in (NETWORKS, CONFIGURATIONS, ALLOCATIONS):
        api.serve(kind)
    client = Client(api, field_manager="butler-ipam")
    static = {"ipv4CIDR": "10.0.2.0/24", "ipv4Gateway": "10.0.2.1"}
    spec = {"ipAllocation": {"type": "static", "static": static}}
    await client.create(NETWORKS, "n", {"metadata": {"name": "net"}, "spec": spec})
    machine = {"networkNamespaceName": "net", "networkInterfaces": [{"name": "eth0"}]}
    # The other operator has a finalizer of this name too.
    body = {"metadata": {"name": "vm", "finalizers": [FINALIZER]}, "spec": machine}
    await client.create(CONFIGURATIONS, "n", body)
    by_namespace = {NAMESPACE_INDEX: list_namespaces_of}
    caches = VitistackCaches(
        Cache(NETWORKS, indexes=by_namespace),
        Cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES),
        configurations=Cache(CONFIGURATIONS, indexes=by_namespace),
        provider="butler-ipam",
    )
    all_caches: tuple[Cache[Any], ...] = (
        caches.networks,
        caches.allocations,
        caches.configurations,
    )
    for cache in all_caches:
        page = await client.list(cache.resource)
        cache.replace(list(page.items), page.revision)
    return client, ConfigurationReconciler(client, caches, clock)


async def test_an_address_of_a_machine_that_the_cache_does_not_show_yet_is_requested() -> None:
    client, reconciler = await make_stale_reconciler()
    machine = await client.get(CONFIGURATIONS, MACHINE)
    status = {"networkInterfaces": [{"name": "eth0", "ipv4Addresses": ["10.0.2.50"]}]}
    await client.patch_status(CONFIGURATIONS, machine, status)
    await reconciler.reconcile(MACHINE)
    (allocation,) = (await client.list(ALLOCATIONS)).items
    assert allocation.spec.requestedAddress == "10.0.2.50"


async def test_no_allocation_is_created_for_a_deleted_machine_that_the_cache_still_shows() -> None:
    client, reconciler = await make_stale_reconciler()
    machine = await client.get(CONFIGURATIONS, MACHINE)
    machine = await remove_finalizer(client, CONFIGURATIONS, machine, FINALIZER)
    await client.delete(CONFIGURATIONS, Version.from_object(machine))
    await reconciler.reconcile(MACHINE)
    assert (await client.list(ALLOCATIONS)).items == ()
