"""Every replica knows what pools of other kinds hand out, and says nothing before it does."""

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
from tests.reconcilers.integrations.test_sharing import cluster
from tests.reconcilers.test_sharing import NAMESPACE, POOLS, Cluster

CLAIM_KINDS = (clusterapi.claims("v1beta2"), clusterapi.addresses("v1beta2"))
KINDS = (*CLAIM_KINDS, *clusterapi.POOLS, IPAM_POOLS, ALLOCATIONS, CLUSTERS, *VITISTACK_KINDS)
ALL = Settings(integration=(CLUSTER_API, KUBERMATIC, VITISTACK))
OBSERVED = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))


async def create(home: Cluster, kind: Resource[Any], name: str, spec: Mapping[str, Any]) -> None:
    body = {"metadata": {"name": name}, "spec": spec}
    await home.client.create(kind, NAMESPACE if kind.namespaced else "", body)


async def create_ipam_pool(home: Cluster, name: str, cidr: str) -> None:
    settings = {"type": "range", "poolCidr": cidr, "allocationRange": 4}
    await create(home, IPAM_POOLS, name=name, spec={"datacenters": {"dc-1": settings}})


async def create_all_kinds(home: Cluster, number: int) -> None:
    """Create a pool of each kind that shares addresses with NetworkPool `number`."""
    subnet = f"10.0.{number}"
    addresses = {"addresses": [f"{subnet}.8-{subnet}.15"], "prefix": 24, "gateway": f"{subnet}.1"}
    await create(home, clusterapi.IN_CLUSTER_IP_POOL, name=f"ip-{number}", spec=addresses)
    await create_ipam_pool(home, f"kkp-{number}", f"{subnet}.0/28")
    static = {"ipv4CIDR": f"{subnet}.0/26", "ipv4Gateway": f"{subnet}.1"}
    how = {"type": "static", "static": static}
    network = {"datacenterIdentifier": "dc-1", "ipAllocation": how}
    await create(home, NETWORKS, name=f"network-{number}", spec=network)


async def overlapping(home: Cluster, name: str) -> Condition | None:
    pool = await home.client.get(NETWORK_POOL, Key(NAMESPACE, name))
    return find_condition(pool.status.conditions, "Overlapping")


async def message(home: Cluster, name: str) -> str:
    condition = await overlapping(home, name)
    return condition.message if condition is not None else ""


async def test_each_replica_compares_its_networkpools_with_the_pools_of_all_kinds() -> None:
    async with cluster(ALL, *KINDS) as home:
        home.start(*"abc")
        await home.pass_by(20)
        assert all(replica.held_shards for replica in home.replicas)
        for number in range(len(POOLS)):
            await create_all_kinds(home, number)
        await home.pass_by(20)
        for number, pool in enumerate(POOLS):
            said = await message(home, pool)
            assert f"InClusterIPPool {NAMESPACE}/ip-{number} (8 addresses)" in said
            assert f"IPAMPool kkp-{number} in datacenter dc-1 (16 addresses)" in said
            assert f"NetworkNamespace {NAMESPACE}/network-{number} (61 addresses)" in said


async def test_replicas_that_start_anew_write_no_condition_again() -> None:
    async with cluster(ALL, *KINDS) as home:
        for number in range(len(POOLS)):
            await create_all_kinds(home, number)
        home.start(*"ab")
        await home.pass_by(30)
        assert "IPAMPool kkp-0" in await message(home, POOLS[0])
        before = await versions(home)
        home.start("c")
        await home.pass_by(60)
        assert home.replicas[-1].held_shards
        assert await versions(home) == before


async def versions(home: Cluster) -> dict[str, str]:
    """Return the resourceVersions of all pools that have a status."""
    kinds: tuple[Resource[Any], ...] = (NETWORK_POOL, clusterapi.IN_CLUSTER_IP_POOL, NETWORKS)
    return {
        f"{kind.kind} {pool.metadata.name}": pool.metadata.resourceVersion
        for kind in kinds
        for pool in (await home.client.list(kind)).items
    }


async def test_pools_of_a_kkp_that_is_only_observed_count_too() -> None:
    async with cluster(OBSERVED, IPAM_POOLS, ALLOCATIONS) as home:
        home.start("a")
        await home.pass_by(20)
        assert await message(home, POOLS[0]) == (
            "no other NetworkPool or IPAMPool hands out these addresses"
        )
        await create_ipam_pool(home, "kkp", "10.0.0.0/28")
        await home.pass_by(10)
        assert await message(home, POOLS[0]) == (
            "addresses are also handed out by IPAMPool kkp in datacenter dc-1 (16 addresses)"
        )
        pool = await home.client.get(IPAM_POOLS, Key("", "kkp"))
        await home.client.delete(IPAM_POOLS, Version.from_object(pool))
        await home.pass_by(10)
        assert (await message(home, POOLS[0])).startswith("no other")


def failing(plural: str, error: ControllerError) -> Callable[[str], ControllerError | None]:
    """Return a function that makes requests for one kind fail."""
    return lambda path: error if f"/{plural}" in path else None


async def test_a_condition_stays_as_it_is_until_the_pools_of_all_kinds_have_been_read() -> None:
    async with cluster(ALL, *KINDS) as home:
        await create_all_kinds(home, 0)
        [first] = home.start("a")
        await home.pass_by(20)
        said = await overlapping(home, POOLS[0])
        assert said is not None
        assert said.status == "True"
        first.link.cut = True
        [second] = home.start("b")
        second.link.find_error = failing("ipampools", NoAnswer("away"))
        await home.pass_by(60)
        assert len(second.held_shards) == 8
        await home.ask("more", POOLS[0])
        await home.pass_by(10)
        assert len(await home.ranges()) == 1, "the pool is served meanwhile"
        assert await overlapping(home, POOLS[0]) == said
        second.link.find_error = lambda _: None
        await home.pass_by(60)
        assert await overlapping(home, POOLS[0]) == said


async def test_it_is_unknown_who_shares_addresses_with_an_unreadable_pool() -> None:
    async with cluster(OBSERVED, IPAM_POOLS, ALLOCATIONS) as home:
        untyped: Resource[Any] = replace(cast("Resource[Any]", IPAM_POOLS), type=Untyped)
        body = {"metadata": {"name": "kkp"}, "spec": {"datacenters": 7}}
        odd = await home.client.create(untyped, "", body)
        home.start("a")
        await home.pass_by(20)
        condition = await overlapping(home, POOLS[0])
        assert condition is not None
        assert (condition.status, condition.reason) == ("Unknown", "PoolsUnreadable")
        assert "cannot be read: IPAMPool kkp; correct or delete" in condition.message
        settings = {"type": "range", "poolCidr": "10.0.0.0/28", "allocationRange": 4}
        repaired = {"spec": {"datacenters": {"dc-1": settings}}}
        await home.client.patch(untyped, Version.from_object(odd), repaired)
        await home.pass_by(10)
        condition = await overlapping(home, POOLS[0])
        assert condition is not None
        assert condition.status == "True"


async def test_pools_that_may_not_be_read_are_compared_with_none_until_they_may() -> None:
    async with cluster(OBSERVED, IPAM_POOLS, ALLOCATIONS) as home:
        await create_ipam_pool(home, "kkp", "10.0.0.0/28")
        [replica] = home.start("a")
        replica.link.find_error = failing("ipampools", Forbidden(403, "Forbidden", "no"))
        await home.pass_by(20)
        alone = "no other NetworkPool hands out these addresses"
        assert await message(home, POOLS[0]) == alone
        replica.link.find_error = lambda _: None
        await home.pass_by(120)
        assert "IPAMPool kkp" in await message(home, POOLS[0])


async def test_a_kind_that_is_served_later_is_noticed_without_a_definition() -> None:
    settings = Settings(integration=(CLUSTER_API,))
    async with cluster(settings, *CLAIM_KINDS, clusterapi.IN_CLUSTER_IP_POOL) as home:
        home.start("a")
        await home.pass_by(60)
        assert (await message(home, POOLS[0])).startswith("no other")
        # As behind an aggregated API server: no CustomResourceDefinition changes.
        home.api.serve(clusterapi.GLOBAL_IP_POOL)
        spec = {"addresses": ["10.0.0.8-10.0.0.15"], "prefix": 24, "gateway": "10.0.0.1"}
        await create(home, clusterapi.GLOBAL_IP_POOL, name="global", spec=spec)
        await home.pass_by(60)
        assert "GlobalInClusterIPPool global (8 addresses)" in await message(home, POOLS[0])
