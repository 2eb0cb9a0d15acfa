"""What people are shown of pools while an object that may hold addresses cannot be decoded."""

from dataclasses import replace
from typing import Any

import pytest

from allocator import AddressRange
from controller.client import Client
from controller.meta import Key, Untyped
from controller.resource import Resource
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.addressmap.audit import audit
from reconcilers.addressmap.objects import Objects, read_objects
from reconcilers.addressmap.poolpictures import draw_network_pools, draw_pools
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    OWN_KINDS,
)
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic import api as kubermatic
from reconcilers.integrations.vitistack import api as vitistack
from reconcilers.pictures.documents import build_map_document
from reconcilers.pictures.extents import AddressState
from reconcilers.pictures.poolpicture import PoolPicture

CLAIMS, ADDRESSES = clusterapi.get_claim_kind("v1beta2"), clusterapi.get_address_kind("v1beta2")
POOLS = clusterapi.IN_CLUSTER_IP_POOL
SERVED = (*OWN_KINDS.values(), CLAIMS, ADDRESSES, POOLS, *kubermatic.KINDS, *vitistack.KINDS)
NETWORK = {
    "ipAllocation": {"type": "static", "static": {"ipv4CIDR": "10.3.0.0/28"}},
}
DATACENTER = {"type": "range", "poolCidr": "10.2.0.0/28", "allocationRange": 2}
HOLDERS: dict[str, tuple[Resource[Any], dict[str, Any], str]] = {
    "IPAllocation": (IP_ALLOCATION, {"poolRef": {"name": "p"}, "count": "many"}, "10.0.0.1"),
    "IPAddress": (
        ADDRESSES,
        {"poolRef": {"apiGroup": POOLS.group, "kind": POOLS.kind, "name": "p"}, "prefix": "many"},
        "10.1.0.1",
    ),
    "IPAddress of a NetworkPool": (
        ADDRESSES,
        {
            "poolRef": {"apiGroup": NETWORK_POOL.group, "kind": NETWORK_POOL.kind, "name": "p"},
            "prefix": "many",
        },
        "10.0.0.1",
    ),
    "IPAMAllocation": (kubermatic.ALLOCATIONS, {"type": 7}, "10.2.0.1"),
    "IPAllocation of vitistack": (
        vitistack.ALLOCATIONS,
        {"networkNamespaceName": "p", "interfaceName": 7},
        "10.3.0.3",
    ),
    "NetworkConfiguration": (
        vitistack.CONFIGURATIONS,
        {"networkNamespaceName": "p", "networkInterfaces": 7},
        "10.3.0.3",
    ),
    "NetworkConfiguration of a provider": (
        vitistack.CONFIGURATIONS,
        {"networkNamespaceName": "p", "networkInterfaces": 7, "provider": "butler"},
        "10.3.0.3",
    ),
}


async def read_objects_with(kind: Resource[Any] | None, spec: Any) -> Objects:
    """Read the objects of a cluster with a pool `p` of each platform, and one further object.

    Args:
        kind: the kind of the further object, which is called `p`; None if there is none.
        spec: the spec of the further object.
    """
    fake = FakeApi(VirtualClock())
    for served_kind in SERVED:
        fake.serve(served_kind)
    client = Client(fake)

    async def create(kind: Resource[Any], spec: Any, **status: Any) -> None:
        untyped = replace(kind, type=Untyped, outline=None)
        namespace = "team" if kind.namespaced else ""
        body = {"metadata": {"name": "p"}, "spec": spec}
        created = await client.create(untyped, namespace, body)
        if status:
            await client.patch_status(untyped, created, status)

    await create(NETWORK_POOL, {"cidr": "10.0.0.0/28"})
    await create(POOLS, {"addresses": ["10.1.0.1-10.1.0.9"], "prefix": 24})
    await create(kubermatic.POOLS, {"datacenters": {"dc": DATACENTER}})
    await create(vitistack.NETWORKS, NETWORK, provisioningPhase="Ready")
    if kind is not None:
        await create(kind, spec)
    return await read_objects(client)


def draw_pool_with(objects: Objects, address: str) -> PoolPicture:
    """Return the picture of the pool that hands out an address."""
    single = AddressRange.parse(address, address)
    [pool] = [
        pool
        for pool in draw_pools(objects)
        if any(extent.range.overlaps(single) for extent in pool.families[0].extents)
    ]
    return pool


def find_state(pool: PoolPicture, address: str) -> AddressState:
    """Return the state of an address in the picture of its pool."""
    single = AddressRange.parse(address, address)
    [state] = [
        extent.state for extent in pool.families[0].extents if extent.range.overlaps(single)
    ]
    return state


@pytest.mark.parametrize("holder", HOLDERS)
async def test_no_address_of_a_pool_with_an_unreadable_holder_is_called_free(holder: str) -> None:
    kind, spec, address = HOLDERS[holder]
    objects = await read_objects_with(kind, spec)
    pool = draw_pool_with(objects, address)
    assert find_state(pool, address) is AddressState.UNKNOWN
    document = build_map_document(pool)
    assert f"{kind.kind.lower()}" in document["notRead"][0].lower()
    assert "team/p cannot be read; correct or delete it" in document["notRead"][0]
    [family] = document["families"]
    figures = (family["allocated"], family["available"], document["waiting"])
    assert figures == (None, None, None)
    assert "free" not in {extent["state"] for extent in family["extents"]}
    kinds = {finding.kind for finding in audit(objects, draw_network_pools(objects))}
    assert "Unreadable" in kinds
    assert "StatusDrift" not in kinds
    others = [
        pool_picture for pool_picture in draw_pools(objects) if pool_picture.name != pool.name
    ]
    assert not any(picture.not_read for picture in others)


async def test_addresses_are_free_where_all_objects_can_be_read() -> None:
    objects = await read_objects_with(None, None)
    for _, _, address in HOLDERS.values():
        pool = draw_pool_with(objects, address)
        assert find_state(pool, address) is AddressState.FREE
        assert not pool.not_read
    assert Key("team", "p") not in objects.integrations.unreadable
