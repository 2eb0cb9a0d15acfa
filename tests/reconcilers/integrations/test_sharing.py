"""Replicas that share NetworkPools by --shards know what claims and KKP hold of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import anyio

from controller.meta import Key
from controller.resource import Resource
from controller.shards import shard_of
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, METAL3
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.core.discovery import DEFINITIONS
from reconcilers.integrations.kubermatic.api import ALLOCATIONS
from reconcilers.integrations.metal3 import api as metal3
from tests.reconcilers.test_sharing import NAMESPACE, POOLS, Cluster, Replica

SHARDS = 8
CLAIMS = clusterapi.claims("v1beta2")
ADDRESSES = clusterapi.addresses("v1beta2")
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
WITH_BOTH = Settings(integration=(CLUSTER_API, METAL3))
WITH_OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


@asynccontextmanager
async def cluster(settings: Settings, *kinds: Any) -> AsyncIterator[Cluster]:
    """Return a cluster with twelve pools and kinds of an integration."""
    async with anyio.create_task_group() as group:
        home = Cluster(group, settings, SHARDS)
        for kind in (DEFINITIONS, *kinds):
            home.api.serve(kind)
        for number, name in enumerate(POOLS):
            await home.pool(name, number)
        yield home
        for replica in home.replicas:
            replica.link.cut = False
        group.cancel_scope.cancel()


async def claim(home: Cluster, name: str, pool: str) -> None:
    """Create a claim of a NetworkPool."""
    ref = {"apiGroup": NETWORK_POOL.group, "kind": NETWORK_POOL.kind, "name": pool}
    body = {"metadata": {"name": name}, "spec": {"poolRef": ref}}
    await home.client.create(CLAIMS, NAMESPACE, body)


async def list_claimed(home: Cluster) -> dict[str, int]:
    """Return the address of each claim that is served."""
    page = await home.client.list(ADDRESSES)
    served_claims = {
        obj.metadata.name for obj in (await home.client.list(CLAIMS)).items if obj.address_name
    }
    return {
        obj.metadata.name: int(ip_address(obj.spec.address))
        for obj in page.items
        if obj.metadata.name in served_claims
    }


async def check_claims_and_ranges(home: Cluster, claims: int, allocations: int) -> None:
    """Assert that so many are served, and that no claim's address lies in a range."""
    await home.check_apart(allocations)
    addresses = await list_claimed(home)
    assert len(addresses) == claims
    assert len(set(addresses.values())) == claims
    held_ranges = [(first, last) for _, first, last in (await home.ranges()).values()]
    assert not [
        a for a in addresses.values() if any(first <= a <= last for first, last in held_ranges)
    ]


def with_shard_0(home: Cluster) -> Replica:
    [holder] = [replica for replica in home.replicas if 0 in replica.held_shards]
    return holder


async def test_every_replica_serves_its_pools_beside_claims() -> None:
    async with cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as home:
        for pool in POOLS:
            await claim(home, f"first-{pool}", pool)
        home.start(*"abc")
        await home.pass_by(20)
        assert all(replica.held_shards for replica in home.replicas)
        for pool in POOLS:
            await home.ask(f"one-{pool}", pool)
        await home.pass_by(10)
        await check_claims_and_ranges(home, 12, 12)


async def test_claims_are_written_by_the_replica_that_holds_their_pools_shard() -> None:
    async with cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as home:
        home.start(*"abc")
        await home.pass_by(20)
        for replica in home.replicas:
            replica.link.sent.clear()
        for pool in POOLS:
            await claim(home, f"one-{pool}", pool)
        await home.pass_by(10)
        await check_claims_and_ranges(home, 12, 0)
        for replica in home.replicas:
            written = {
                path.partition("/ipaddressclaims/")[2].removesuffix("/status")
                for method, path in replica.link.sent
                if method == "PATCH"
            } - {""}
            pools = {
                p for p in POOLS if shard_of(Key(NAMESPACE, p), SHARDS) in replica.held_shards
            }
            assert written == {f"one-{pool}" for pool in pools}


async def test_pools_are_served_beside_claims_after_shard_0_has_moved() -> None:
    async with cluster(WITH_CLAIMS, CLAIMS, ADDRESSES) as home:
        home.start(*"abc")
        await home.pass_by(20)
        for turn in range(3):
            holder = with_shard_0(home)
            holder.link.cut = True  # it loses its leases, and gets them back later
            await home.pass_by(40)
            assert with_shard_0(home) is not holder
            for pool in POOLS:
                await claim(home, f"claim-{turn}-{pool}", pool)
            await home.pass_by(10)
            for pool in POOLS:
                await home.ask(f"ask-{turn}-{pool}", pool)
            await home.pass_by(10)
            await check_claims_and_ranges(home, 12 * (turn + 1), 12 * (turn + 1))
            holder.link.cut = False
            await home.pass_by(40)


async def test_every_replica_keeps_clear_of_what_kkp_allocated() -> None:
    async with cluster(WITH_OBSERVED, ALLOCATIONS) as home:
        for number, pool in enumerate(POOLS):
            spec = {"type": "range", "dc": "dc", "addresses": [f"10.0.{number}.0-10.0.{number}.7"]}
            await home.client.create(
                ALLOCATIONS, NAMESPACE, {"metadata": {"name": pool}, "spec": spec}
            )
        home.start(*"abc")
        await home.pass_by(20)
        for pool in POOLS:
            await home.ask(f"one-{pool}", pool)
        await home.pass_by(10)
        await home.check_apart(12)
        assert all(first % 256 >= 8 for _, first, _ in (await home.ranges()).values())


async def test_claims_of_ippools_are_written_by_the_replica_with_shard_0_alone() -> None:
    async with cluster(WITH_BOTH, CLAIMS, ADDRESSES, *metal3.KINDS) as home:
        spec = {"namePrefix": "m", "pools": [{"subnet": "10.9.0.0/24"}]}
        body: Any = {"metadata": {"name": "m"}, "spec": spec}
        await home.client.create(metal3.POOLS, NAMESPACE, body)
        home.start(*"abc")
        await home.pass_by(20)
        for replica in home.replicas:
            replica.link.sent.clear()
        ref = {"apiGroup": metal3.GROUP, "kind": metal3.POOL, "name": "m"}
        for number, pool in enumerate(POOLS):
            await claim(home, f"of-{pool}", pool)
            metadata = {"name": f"m-{number}"}
            body = {"metadata": metadata, "spec": {"pool": {"name": "m"}}}
            await home.client.create(metal3.CLAIMS, NAMESPACE, body)
            body = {"metadata": metadata, "spec": {"poolRef": ref}}
            await home.client.create(CLAIMS, NAMESPACE, body)
        await home.pass_by(10)
        kinds: Sequence[Resource[Any]] = (ADDRESSES, metal3.ADDRESSES)
        addresses = [
            address.spec.address
            for kind in kinds
            for address in (await home.client.list(kind)).items
        ]
        assert len(addresses) == len(set(addresses)) == 3 * len(POOLS)
        first = with_shard_0(home)
        for replica in home.replicas:
            written = {
                path.rpartition("claims/")[2].removesuffix("/status")
                for method, path in replica.link.sent
                if method == "PATCH" and "claims/" in path
            }
            pools = {
                p for p in POOLS if shard_of(Key(NAMESPACE, p), SHARDS) in replica.held_shards
            }
            of_ippool = {f"m-{number}" for number in range(len(POOLS))}
            own = {f"of-{pool}" for pool in pools} | (of_ippool if replica is first else set())
            assert written == own
