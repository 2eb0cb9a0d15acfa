"""Replicas that share NetworkPools by --shards know what claims and KKP hold of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import anyio

from controller.meta import Key
from controller.resource import Resource
from controller.shards import compute_shard
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, METAL3
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.discovery import DEFINITIONS
from reconcilers.integrations.kubermatic.api import ALLOCATIONS
from reconcilers.integrations.metal3 import api as metal3
from tests.reconcilers.test_sharing import NAMESPACE, POOLS, Cluster, Replica

SHARDS = 8
CLAIMS = clusterapi.get_claim_kind("v1beta2")
ADDRESSES = clusterapi.get_address_kind("v1beta2")
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
WITH_BOTH = Settings(integration=(CLUSTER_API, METAL3))
WITH_OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


@asynccontextmanager
async def open_sharing_cluster(settings: Settings, *kinds: Any) -> AsyncIterator[Cluster]:
    """Yield a cluster that serves the kinds of integrations, with twelve NetworkPools.

    Its replicas divide the pools into SHARDS parts.
    """
    async with anyio.create_task_group() as group:
        cluster = Cluster(group, settings, SHARDS)
        for kind in (DEFINITIONS, *kinds):
            cluster.api.serve(kind)
        for number, name in enumerate(POOLS):
            await cluster.create_pool(name, number)
        yield cluster
        for replica in cluster.replicas:
            replica.link.cut = False
        group.cancel_scope.cancel()


async def create_claim(cluster: Cluster, name: str, pool: str) -> None:
    """Create a claim of a NetworkPool."""
    ref = {"apiGroup": NETWORK_POOL.group, "kind": NETWORK_POOL.kind, "name": pool}
    body = {"metadata": {"name": name}, "spec": {"poolRef": ref}}
    await cluster.client.create(CLAIMS, NAMESPACE, body)


async def read_claimed_addresses(cluster: Cluster) -> dict[str, int]:
    """Return the address, as a number, of each claim that is served, by name of the claim."""
    page = await cluster.client.list(ADDRESSES)
    served_claims = {
        obj.metadata.name for obj in (await cluster.client.list(CLAIMS)).items if obj.address_name
    }
    return {
        obj.metadata.name: int(ip_address(obj.spec.address))
        for obj in page.items
        if obj.metadata.name in served_claims
    }


async def assert_claims_and_ranges_apart(cluster: Cluster, claims: int, allocations: int) -> None:
    """Assert that no address of a claim is held twice or lies in the range of an allocation.

    Args:
        cluster: the cluster to read.
        claims: how many claims are served.
        allocations: how many allocations hold a range.
    """
    await cluster.assert_ranges_apart(allocations)
    addresses = (await read_claimed_addresses(cluster)).values()
    assert len(addresses) == claims
    assert len(set(addresses)) == claims
    ranges = (await cluster.list_ranges()).values()
    assert not [
        address
        for address in addresses
        if any(held_range.first <= address <= held_range.last for held_range in ranges)
    ]


def list_pools_of(replica: Replica) -> list[str]:
    """Return the names of the NetworkPools in the shards of a replica."""
    return [
        pool
        for pool in POOLS
        if compute_shard(Key(NAMESPACE, pool), SHARDS) in replica.held_shards
    ]


def find_holder_of_shard_0(cluster: Cluster) -> Replica:
    """Return the replica that holds shard 0, which does the work that is not divided."""
    [holder] = [replica for replica in cluster.replicas if 0 in replica.held_shards]
    return holder


async def test_every_replica_serves_its_pools_beside_claims() -> None:
    async with open_sharing_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as cluster:
        for pool in POOLS:
            await create_claim(cluster, f"first-{pool}", pool)
        cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        assert all(replica.held_shards for replica in cluster.replicas)
        for pool in POOLS:
            await cluster.create_allocation(f"one-{pool}", pool)
        await cluster.pass_by(10)
        await assert_claims_and_ranges_apart(cluster, claims=12, allocations=12)


async def test_claims_are_written_by_the_replica_that_holds_their_pools_shard() -> None:
    async with open_sharing_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as cluster:
        cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        for replica in cluster.replicas:
            replica.link.sent.clear()
        for pool in POOLS:
            await create_claim(cluster, f"one-{pool}", pool)
        await cluster.pass_by(10)
        await assert_claims_and_ranges_apart(cluster, claims=12, allocations=0)
        for replica in cluster.replicas:
            written = {
                path.partition("/ipaddressclaims/")[2].removesuffix("/status")
                for method, path in replica.link.sent
                if method == "PATCH"
            } - {""}
            assert written == {f"one-{pool}" for pool in list_pools_of(replica)}


async def test_pools_are_served_beside_claims_after_shard_0_has_moved() -> None:
    async with open_sharing_cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as cluster:
        cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        for turn in range(3):
            holder = find_holder_of_shard_0(cluster)
            holder.link.cut = True  # it loses its leases, and gets them back later
            await cluster.pass_by(40)
            assert find_holder_of_shard_0(cluster) is not holder
            for pool in POOLS:
                await create_claim(cluster, f"claim-{turn}-{pool}", pool)
            await cluster.pass_by(10)
            for pool in POOLS:
                await cluster.create_allocation(f"ask-{turn}-{pool}", pool)
            await cluster.pass_by(10)
            await assert_claims_and_ranges_apart(
                cluster, claims=len(POOLS) * (turn + 1), allocations=len(POOLS) * (turn + 1)
            )
            holder.link.cut = False
            await cluster.pass_by(40)


async def test_no_replica_hands_out_addresses_that_kkp_has_allocated() -> None:
    async with open_sharing_cluster(WITH_OBSERVED, ALLOCATIONS) as cluster:
        for number, pool in enumerate(POOLS):
            spec = {"type": "range", "dc": "dc", "addresses": [f"10.0.{number}.0-10.0.{number}.7"]}
            await cluster.client.create(
                ALLOCATIONS, NAMESPACE, {"metadata": {"name": pool}, "spec": spec}
            )
        cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        for pool in POOLS:
            await cluster.create_allocation(f"one-{pool}", pool)
        await cluster.pass_by(10)
        await cluster.assert_ranges_apart(12)
        ranges = (await cluster.list_ranges()).values()
        assert all(held_range.first % 256 >= 8 for held_range in ranges), "KKP has the first eight"


async def test_claims_of_an_ippool_are_written_only_by_the_replica_with_shard_0() -> None:
    async with open_sharing_cluster(WITH_BOTH, CLAIMS, ADDRESSES, *metal3.KINDS) as cluster:
        spec = {"namePrefix": "m", "pools": [{"subnet": "10.9.0.0/24"}]}
        body: Any = {"metadata": {"name": "m"}, "spec": spec}
        await cluster.client.create(metal3.POOLS, NAMESPACE, body)
        cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        for replica in cluster.replicas:
            replica.link.sent.clear()
        ref = {"apiGroup": metal3.GROUP, "kind": metal3.POOL, "name": "m"}
        for number, pool in enumerate(POOLS):
            await create_claim(cluster, f"of-{pool}", pool)
            metadata = {"name": f"m-{number}"}
            body = {"metadata": metadata, "spec": {"pool": {"name": "m"}}}
            await cluster.client.create(metal3.CLAIMS, NAMESPACE, body)
            body = {"metadata": metadata, "spec": {"poolRef": ref}}
            await cluster.client.create(CLAIMS, NAMESPACE, body)
        await cluster.pass_by(10)
        kinds: Sequence[Resource[Any]] = (ADDRESSES, metal3.ADDRESSES)
        addresses = [
            address.spec.address
            for kind in kinds
            for address in (await cluster.client.list(kind)).items
        ]
        assert len(addresses) == len(set(addresses)) == 3 * len(POOLS)
        holder = find_holder_of_shard_0(cluster)
        for replica in cluster.replicas:
            written = {
                path.rpartition("claims/")[2].removesuffix("/status")
                for method, path in replica.link.sent
                if method == "PATCH" and "claims/" in path
            }
            expected = {f"of-{pool}" for pool in list_pools_of(replica)}
            if replica is holder:
                expected |= {f"m-{number}" for number in range(len(POOLS))}
            assert written == expected
