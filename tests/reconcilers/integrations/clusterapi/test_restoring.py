"""A restore creates claims and their IPAddresses in any order, some seconds apart."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from controller.meta import Key
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.core.discovery import DEFINITIONS
from tests.reconcilers.test_sharing import NAMESPACE, Cluster

CLAIMS = api.get_claim_kind("v1beta2")
ADDRESSES = api.get_address_kind("v1beta2")
ADDRESS_BY_CLAIM = {"m1": "10.0.0.13", "m2": "10.0.0.10", "m3": "10.0.0.14", "m4": "10.0.0.12"}
"""The addresses that the claims had when they were saved."""
POOL_REF = {"apiGroup": NETWORK_POOL.group, "kind": NETWORK_POOL.kind, "name": "p"}


@asynccontextmanager
async def serve_pool() -> AsyncIterator[Cluster]:
    """Yield a cluster with pool p, whose claims one replica serves."""
    async with anyio.create_task_group() as group:
        cluster = Cluster(group, Settings(integration=(CLUSTER_API,)), 0)
        for kind in (DEFINITIONS, CLAIMS, ADDRESSES):
            cluster.api.serve(kind)
        await cluster.create_pool("p", 0)
        cluster.start_replicas("a")
        await cluster.pass_by(20)
        yield cluster
        group.cancel_scope.cancel()


async def restore_claims(cluster: Cluster) -> None:
    """Create the claims as a restore does: with our finalizer, without status."""
    for name in ADDRESS_BY_CLAIM:
        metadata = {"name": name, "finalizers": [api.CLAIM_FINALIZER]}
        await cluster.client.create(
            CLAIMS, NAMESPACE, {"metadata": metadata, "spec": {"poolRef": POOL_REF}}
        )


async def restore_addresses(cluster: Cluster) -> None:
    """Create the IPAddresses as a restore does; only their pool owns them, not their claims."""
    pool = await cluster.client.get(NETWORK_POOL, Key(NAMESPACE, "p"))
    owner = {
        "apiVersion": NETWORK_POOL.api_version,
        "kind": NETWORK_POOL.kind,
        "name": "p",
        "uid": pool.metadata.uid,
    }
    for name, address in ADDRESS_BY_CLAIM.items():
        metadata = {
            "name": name,
            "finalizers": [api.ADDRESS_FINALIZER],
            "ownerReferences": [owner],
        }
        spec = {"claimRef": {"name": name}, "poolRef": POOL_REF, "address": address, "prefix": 24}
        await cluster.client.create(ADDRESSES, NAMESPACE, {"metadata": metadata, "spec": spec})


async def read_addresses(cluster: Cluster) -> Mapping[str, Any]:
    """Return the address of each claim that is served."""
    claims = {
        obj.metadata.name for obj in (await cluster.client.list(CLAIMS)).items if obj.address_name
    }
    items = (await cluster.client.list(ADDRESSES)).items
    return {obj.metadata.name: obj.spec.address for obj in items if obj.metadata.name in claims}


async def test_claims_that_are_restored_before_their_addresses_keep_them() -> None:
    async with serve_pool() as cluster:
        await restore_claims(cluster)
        await cluster.pass_by(20)
        assert await read_addresses(cluster) == {}
        await restore_addresses(cluster)
        await cluster.pass_by(2)
        assert await read_addresses(cluster) == ADDRESS_BY_CLAIM


async def test_claims_that_are_restored_after_their_addresses_keep_them() -> None:
    async with serve_pool() as cluster:
        await restore_addresses(cluster)
        await cluster.pass_by(20)
        await restore_claims(cluster)
        await cluster.pass_by(2)
        assert await read_addresses(cluster) == ADDRESS_BY_CLAIM


async def test_restored_claims_without_addresses_are_served_after_half_a_minute() -> None:
    async with serve_pool() as cluster:
        await restore_claims(cluster)
        await cluster.pass_by(29)
        assert await read_addresses(cluster) == {}
        await cluster.pass_by(3)
        assert len(set((await read_addresses(cluster)).values())) == len(ADDRESS_BY_CLAIM)


async def test_a_claim_without_our_finalizer_is_served_at_once() -> None:
    """It is not restored from a backup: a claim gets our finalizer before it is served."""
    async with serve_pool() as cluster:
        claim = {"metadata": {"name": "new"}, "spec": {"poolRef": POOL_REF}}
        await cluster.client.create(CLAIMS, NAMESPACE, claim)
        await cluster.pass_by(1)
        assert "new" in await read_addresses(cluster)
