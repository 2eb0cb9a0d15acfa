"""Replicas compare NetworkPools with pools of all kinds once they have read all kinds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from controller.conditions import Condition, find_condition
from controller.errors import ControllerError, Forbidden, NoAnswer
from controller.meta import Key, Untyped, Version
from controller.resource import Resource
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API, KUBERMATIC, VITISTACK
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.clusterapi import api as clusterapi
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS
from reconcilers.integrations.kubermatic.api import POOLS as IPAM_POOLS
from reconcilers.integrations.vitistack.api import KINDS as VITISTACK_KINDS
from reconcilers.integrations.vitistack.api import NETWORKS
from tests.reconcilers.integrations.test_sharing import open_sharing_cluster
from tests.reconcilers.test_sharing import NAMESPACE, POOLS, Cluster

CLAIM_KINDS = (clusterapi.get_claim_kind("v1beta2"), clusterapi.get_address_kind("v1beta2"))
KINDS = (*CLAIM_KINDS, *clusterapi.POOLS, IPAM_POOLS, ALLOCATIONS, CLUSTERS, *VITISTACK_KINDS)
ALL = Settings(integration=(CLUSTER_API, KUBERMATIC, VITISTACK))
OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


async def create_object(
    cluster: Cluster, kind: Resource[Any], name: str, spec: Mapping[str, Any]
) -> None:
    """Create an object, in NAMESPACE if its kind has namespaces."""
    body = {"metadata": {"name": name}, "spec": spec}
    await cluster.client.create(kind, NAMESPACE if kind.namespaced else "", body)


async def create_ipam_pool(cluster: Cluster, name: str, cidr: str) -> None:
    """Create an IPAMPool that hands out a CIDR in datacenter dc-1."""
    settings = {"type": "range", "poolCidr": cidr, "allocationRange": 4}
    await create_object(cluster, IPAM_POOLS, name=name, spec={"datacenters": {"dc-1": settings}})


async def create_overlapping_pools(cluster: Cluster, number: int) -> None:
    """Create a pool of each kind that shares addresses with NetworkPool `number`."""
    subnet = f"10.0.{number}"
    addresses = {"addresses": [f"{subnet}.8-{subnet}.15"], "prefix": 24, "gateway": f"{subnet}.1"}
    await create_object(
        cluster, clusterapi.IN_CLUSTER_IP_POOL, name=f"ip-{number}", spec=addresses
    )
    await create_ipam_pool(cluster, f"kkp-{number}", f"{subnet}.0/28")
    static = {"ipv4CIDR": f"{subnet}.0/26", "ipv4Gateway": f"{subnet}.1"}
    network = {
        "datacenterIdentifier": "dc-1",
        "ipAllocation": {"type": "static", "static": static},
    }
    await create_object(cluster, NETWORKS, name=f"network-{number}", spec=network)


async def read_overlap(cluster: Cluster, name: str) -> Condition | None:
    """Return the condition Overlapping of a NetworkPool; None if it has none."""
    pool = await cluster.client.get(NETWORK_POOL, Key(NAMESPACE, name))
    return find_condition(pool.status.conditions, "Overlapping")


async def read_overlap_message(cluster: Cluster, name: str) -> str:
    """Return the message of the condition Overlapping of a NetworkPool; empty if it has none."""
    condition = await read_overlap(cluster, name)
    return condition.message if condition is not None else ""


async def test_each_replica_compares_its_networkpools_with_the_pools_of_all_kinds() -> None:
    async with open_sharing_cluster(ALL, *KINDS) as cluster:
        cluster.start_replicas(*"abc")
        await cluster.pass_by(20)
        assert all(replica.held_shards for replica in cluster.replicas)
        for number in range(len(POOLS)):
            await create_overlapping_pools(cluster, number)
        await cluster.pass_by(20)
        for number, pool in enumerate(POOLS):
            message = await read_overlap_message(cluster, pool)
            assert f"InClusterIPPool {NAMESPACE}/ip-{number} (8 addresses)" in message
            assert f"IPAMPool kkp-{number} in datacenter dc-1 (16 addresses)" in message
            assert f"NetworkNamespace {NAMESPACE}/network-{number} (61 addresses)" in message


async def test_a_replica_that_joins_writes_no_condition_again() -> None:
    async with open_sharing_cluster(ALL, *KINDS) as cluster:
        for number in range(len(POOLS)):
            await create_overlapping_pools(cluster, number)
        cluster.start_replicas(*"ab")
        await cluster.pass_by(30)
        assert "IPAMPool kkp-0" in await read_overlap_message(cluster, POOLS[0])
        before = await read_versions(cluster)
        cluster.start_replicas("c")
        await cluster.pass_by(60)
        assert cluster.replicas[-1].held_shards
        assert await read_versions(cluster) == before


async def read_versions(cluster: Cluster) -> dict[str, str]:
    """Return the resourceVersions of pools of all kinds whose status has conditions."""
    kinds: tuple[Resource[Any], ...] = (NETWORK_POOL, clusterapi.IN_CLUSTER_IP_POOL, NETWORKS)
    return {
        f"{kind.kind} {pool.metadata.name}": pool.metadata.resourceVersion
        for kind in kinds
        for pool in (await cluster.client.list(kind)).items
    }


async def test_a_networkpool_reports_overlaps_with_an_ipampool_that_is_only_observed() -> None:
    async with open_sharing_cluster(OBSERVED, IPAM_POOLS, ALLOCATIONS) as cluster:
        cluster.start_replicas("a")
        await cluster.pass_by(20)
        assert await read_overlap_message(cluster, POOLS[0]) == (
            "no other NetworkPool or IPAMPool hands out these addresses"
        )
        await create_ipam_pool(cluster, "kkp", "10.0.0.0/28")
        await cluster.pass_by(10)
        assert await read_overlap_message(cluster, POOLS[0]) == (
            "addresses are also handed out by IPAMPool kkp in datacenter dc-1 (16 addresses)"
        )
        pool = await cluster.client.get(IPAM_POOLS, Key("", "kkp"))
        await cluster.client.delete(IPAM_POOLS, Version.from_object(pool))
        await cluster.pass_by(10)
        assert (await read_overlap_message(cluster, POOLS[0])).startswith("no other")


def fail_requests(plural: str, error: ControllerError) -> Callable[[str], ControllerError | None]:
    """Return a function for `Link.failing` that makes requests for one kind fail."""
    return lambda path: error if f"/{plural}" in path else None


async def test_an_overlap_condition_is_kept_until_the_pools_of_all_kinds_have_been_read() -> None:
    """The second replica takes over while it cannot list IPAMPools, and still serves the pool."""
    async with open_sharing_cluster(ALL, *KINDS) as cluster:
        await create_overlapping_pools(cluster, 0)
        [first] = cluster.start_replicas("a")
        await cluster.pass_by(20)
        condition = await read_overlap(cluster, POOLS[0])
        assert condition is not None
        assert condition.status == "True"
        first.link.cut = True
        [second] = cluster.start_replicas("b")
        second.link.find_error = fail_requests("ipampools", NoAnswer("away"))
        await cluster.pass_by(60)
        assert len(second.held_shards) == 8
        await cluster.create_allocation("more", POOLS[0])
        await cluster.pass_by(10)
        assert len(await cluster.list_ranges()) == 1, "the pool is served meanwhile"
        assert await read_overlap(cluster, POOLS[0]) == condition
        second.link.find_error = lambda _: None
        await cluster.pass_by(60)
        assert await read_overlap(cluster, POOLS[0]) == condition


async def test_overlaps_are_unknown_while_an_ipampool_cannot_be_decoded() -> None:
    async with open_sharing_cluster(OBSERVED, IPAM_POOLS, ALLOCATIONS) as cluster:
        untyped: Resource[Any] = replace(cast("Resource[Any]", IPAM_POOLS), type=Untyped)
        body = {"metadata": {"name": "kkp"}, "spec": {"datacenters": 7}}
        unreadable = await cluster.client.create(untyped, "", body)
        cluster.start_replicas("a")
        await cluster.pass_by(20)
        condition = await read_overlap(cluster, POOLS[0])
        assert condition is not None
        assert (condition.status, condition.reason) == ("Unknown", "PoolsUnreadable")
        assert "cannot be read: IPAMPool kkp; correct or delete" in condition.message
        settings = {"type": "range", "poolCidr": "10.0.0.0/28", "allocationRange": 4}
        repaired = {"spec": {"datacenters": {"dc-1": settings}}}
        await cluster.client.patch(untyped, Version.from_object(unreadable), repaired)
        await cluster.pass_by(10)
        condition = await read_overlap(cluster, POOLS[0])
        assert condition is not None
        assert condition.status == "True"


async def test_ipampools_are_compared_only_once_the_replica_may_list_them() -> None:
    async with open_sharing_cluster(OBSERVED, IPAM_POOLS, ALLOCATIONS) as cluster:
        await create_ipam_pool(cluster, "kkp", "10.0.0.0/28")
        [replica] = cluster.start_replicas("a")
        replica.link.find_error = fail_requests("ipampools", Forbidden(403, "Forbidden", "no"))
        await cluster.pass_by(20)
        assert await read_overlap_message(cluster, POOLS[0]) == (
            "no other NetworkPool hands out these addresses"
        )
        replica.link.find_error = lambda _: None
        await cluster.pass_by(120)
        assert "IPAMPool kkp" in await read_overlap_message(cluster, POOLS[0])


async def test_a_kind_of_pools_that_is_served_later_is_discovered_without_its_definition() -> None:
    """As behind an aggregated API server: no CustomResourceDefinition changes."""
    settings = Settings(integration=(CLUSTER_API,))
    async with open_sharing_cluster(
        settings, *CLAIM_KINDS, clusterapi.IN_CLUSTER_IP_POOL
    ) as cluster:
        cluster.start_replicas("a")
        await cluster.pass_by(60)
        assert (await read_overlap_message(cluster, POOLS[0])).startswith("no other")

        cluster.api.serve(clusterapi.GLOBAL_IP_POOL)
        spec = {"addresses": ["10.0.0.8-10.0.0.15"], "prefix": 24, "gateway": "10.0.0.1"}
        await create_object(cluster, clusterapi.GLOBAL_IP_POOL, name="global", spec=spec)
        await cluster.pass_by(60)
        assert "GlobalInClusterIPPool global (8 addresses)" in await read_overlap_message(
            cluster, POOLS[0]
        )
