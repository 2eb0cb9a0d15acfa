"""A reader that has listed objects does not read from its cache until the cache has caught up."""

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
from reconcilers.api.ipallocation import POOL_INDEX, index_by_pool
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
"""Seconds after which a reader lists the objects instead of waiting for its cache."""
POOL = Key("team", "p")
Read = Callable[[], Awaitable[Any]]


@dataclass
class PoolReading:
    """The reader of the requests of pool `p`.

    Args:
        cache: the cache of requests that the reader uses.
        namespace: the namespace of the request that the test creates.
        body: the object of that request.
        list_requests: reads the requests by a LIST.
        read: reads the requests from the cache, or by a LIST once PATIENCE is over; raises Behind
            before that if the cache lags. It requires no revision.
    """

    cache: Cache[Any]
    namespace: str
    body: Any
    list_requests: Read
    read: Read


def read_ipam_pool(client: Client, clock: VirtualClock) -> PoolReading:
    """Return the reader of the IPAMAllocations of an IPAMPool."""
    cache = Cache(kubermatic.ALLOCATIONS, indexes=kubermatic_reading.ALLOCATION_INDEXES)
    reader = kubermatic_reading.KkpReader(client, cache, clock=clock, patience=PATIENCE)
    body = {"metadata": {"name": "p"}, "spec": {"dc": "dc", "type": "range"}}
    return PoolReading(
        cache,
        "cluster-a",
        body=body,
        list_requests=lambda: reader.list_live("p"),
        read=lambda: reader.read_up_to("p", 0),
    )


def read_network_namespace(client: Client, clock: VirtualClock) -> PoolReading:
    """Return the reader of the IPAllocations of a NetworkNamespace of vitistack."""
    cache = Cache(vitistack.ALLOCATIONS, indexes=vitistack_caches.ALLOCATION_INDEXES)
    caches = vitistack_caches.VitistackCaches(
        Cache(vitistack.NETWORKS),
        cache,
        configurations=Cache(vitistack.CONFIGURATIONS),
        provider="butler",
    )
    reader = vitistack_reading.VitistackReader(client, caches, clock=clock, patience=PATIENCE)
    space = NetworkSpace(Layout.parse("10.0.0.0/24"))
    body = {"metadata": {"name": "a"}, "spec": {"networkNamespaceName": POOL.name}}
    return PoolReading(
        cache,
        POOL.namespace,
        body=body,
        list_requests=lambda: reader.list_live(POOL),
        read=lambda: reader.read_up_to(POOL, space, 0),
    )


def read_network_pool(client: Client, clock: VirtualClock) -> PoolReading:
    """Return the reader of the IPAllocations of a NetworkPool."""
    cache = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
    reader = PoolReader(cache, client, clock=clock, wait_seconds=PATIENCE)
    pool = make.pool("p", namespace=POOL.namespace)
    spec = {
        "poolRef": {"name": POOL.name},
        "tenantClusterRef": {"name": "a", "namespace": POOL.namespace},
        "type": "nodes",
        "count": 1,
    }
    return PoolReading(
        cache,
        POOL.namespace,
        body={"metadata": {"name": "a"}, "spec": spec},
        list_requests=lambda: reader.read_live(POOL),
        read=lambda: reader.read_up_to(pool, Journal({IP_ALLOCATION.full_name: 0})),
    )


@pytest.mark.parametrize(
    "make_reading", [read_ipam_pool, read_network_namespace, read_network_pool]
)
async def test_a_cache_is_used_again_once_it_shows_a_request_that_a_list_showed(
    make_reading: Callable[[Client, VirtualClock], PoolReading],
) -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    client = Client(api)
    reading = make_reading(client, clock)
    kind: Resource[Any] = reading.cache.resource
    api.serve(kind)
    reading.cache.replace([], (await client.list(kind)).revision, {})
    created = await client.create(kind, reading.namespace, reading.body)
    await reading.list_requests()
    with pytest.raises(Behind):
        await reading.read()
    await clock.advance(PATIENCE)
    listed = await reading.read()  # by a LIST
    assert listed.position >= created.metadata.revision
    holder = Holder(kind.full_name, created.metadata.key)
    assert listed.find(holder) is not None
    page = await client.list(kind)
    reading.cache.replace(page.items, page.revision, {})
    assert (await reading.read()).find(holder) is reading.cache.get(holder.key)
