"""What a LIST showed is not forgotten: a lagging cache is used again once it shows that, too."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from allocator import Layout
from controller.cache import Cache
from controller.client import Client
from controller.meta import Key
from controller.resource import Resource
from controller.testing.api import FakeApi
from reconcilers.api.ipallocation import POOL_INDEX, pool_index
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.kubermatic import reading as kubermatic_reading
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.integrations.vitistack import caches as vitistack_caches
from reconcilers.integrations.vitistack import reading as vitistack_reading
from reconcilers.integrations.vitistack.ranges import NetworkSpace
from reconcilers.networkpool.reading import PoolReader
from reconcilers.promises.identities import Holder
from reconcilers.promises.journal import Journal
from reconcilers.promises.reading import Behind
from tests.clock import VirtualClock
from tests.reconcilers import make

PATIENCE = 1.0
POOL = Key("team", "p")
Read = Callable[[], Awaitable[Any]]


@dataclass
class Reading:
    """The reader of one kind of requests.

    Args:
        cache: what it reads.
        namespace: of the request that a person makes.
        body: of that request.
        list_now: reads a LIST that begins now.
        read: returns a view that has read as far as a fresh journal says.
    """

    cache: Cache[Any]
    namespace: str
    body: Any
    list_now: Read
    read: Read


def of_kubermatic(client: Client, clock: VirtualClock) -> Reading:
    cache = Cache(kubermatic.ALLOCATIONS, indexes=kubermatic_reading.ALLOCATION_INDEXES)
    reader = kubermatic_reading.KkpReader(client, cache, clock=clock, patience=PATIENCE)
    body = {"metadata": {"name": "p"}, "spec": {"dc": "dc", "type": "range"}}
    return Reading(
        cache,
        "cluster-a",
        body=body,
        list_now=lambda: reader.list_live("p"),
        read=lambda: reader.read_up_to("p", 0),
    )


def of_vitistack(client: Client, clock: VirtualClock) -> Reading:
    cache = Cache(vitistack.ALLOCATIONS, indexes=vitistack_caches.ALLOCATION_INDEXES)
    others = Cache(vitistack.NETWORKS), Cache(vitistack.CONFIGURATIONS)
    caches = vitistack_caches.VitistackCaches(
        others[0], cache, configurations=others[1], provider="butler"
    )
    reader = vitistack_reading.VitistackReader(client, caches, clock=clock, patience=PATIENCE)
    space = NetworkSpace(Layout.parse("10.0.0.0/24"))
    body = {"metadata": {"name": "a"}, "spec": {"networkNamespaceName": POOL.name}}
    return Reading(
        cache,
        POOL.namespace,
        body=body,
        list_now=lambda: reader.list_live(POOL),
        read=lambda: reader.read_up_to(POOL, space, 0),
    )


def of_network_pools(client: Client, clock: VirtualClock) -> Reading:
    cache = Cache(IP_ALLOCATION, indexes={POOL_INDEX: pool_index})
    reader = PoolReader(cache, client, clock=clock, wait_seconds=PATIENCE)
    pool = make.pool("p", namespace=POOL.namespace)
    spec = {
        "poolRef": {"name": POOL.name},
        "tenantClusterRef": {"name": "a", "namespace": POOL.namespace},
        "type": "nodes",
        "count": 1,
    }
    return Reading(
        cache,
        POOL.namespace,
        body={"metadata": {"name": "a"}, "spec": spec},
        list_now=lambda: reader.read_live(POOL),
        read=lambda: reader.read_up_to(pool, Journal({IP_ALLOCATION.full_name: 0})),
    )


@pytest.mark.parametrize("reading_of", [of_kubermatic, of_vitistack, of_network_pools])
async def test_a_cache_is_used_again_once_it_has_read_what_a_list_showed(
    reading_of: Callable[[Client, VirtualClock], Reading],
) -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    client = Client(api)
    reading = reading_of(client, clock)
    kind: Resource[Any] = reading.cache.resource
    api.serve(kind)
    reading.cache.replace([], (await client.list(kind)).revision, {})
    created = await client.create(kind, reading.namespace, reading.body)
    await reading.list_now()
    with pytest.raises(Behind):
        await reading.read()
    await clock.advance(PATIENCE)
    listed = await reading.read()  # the cache is given up, and the server asked
    assert listed.position >= created.metadata.revision
    holder = Holder(kind.full_name, created.metadata.key)
    assert listed.find(holder) is not None
    page = await client.list(kind)
    reading.cache.replace(page.items, page.revision, {})
    assert (await reading.read()).find(holder) is reading.cache.get(holder.key)
