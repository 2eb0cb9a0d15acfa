"""KKP's objects that cannot be decoded: nobody else gets what they may hold."""

from ipaddress import IPv4Address
from typing import Any

import pytest

from reconcilers.api.resources import NETWORK_POOL
from reconcilers.configuration.integrationnames import KUBERMATIC
from reconcilers.configuration.settings import KubermaticSettings, Settings
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, CONDITION, KINDS, POOLS
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster

SERVING = Settings(integration=(KUBERMATIC,))
OBSERVING = Settings(integration=(KUBERMATIC,), kubermatic=KubermaticSettings(observe=True))
TODO = "IPAMAllocation cluster-a/p cannot be read; correct or delete it"


async def create_ipam_pool(cluster: PlatformCluster, name: str, third_octet: int) -> None:
    """Create an IPAMPool that hands out two of 16 addresses to each cluster of datacenter dc."""
    datacenter = {
        "type": "range",
        "poolCidr": f"10.0.{third_octet}.0/28",
        "allocationRange": 2,
    }
    await cluster.create_object(POOLS, name, {"datacenters": {"dc": datacenter}})


async def create_user_cluster(cluster: PlatformCluster, name: str) -> None:
    """Create a Cluster of KKP in datacenter dc, with the namespace cluster-`name`."""
    status = {"namespaceName": f"cluster-{name}"}
    await cluster.create_object(CLUSTERS, name, {"cloud": {"dc": "dc"}}, status=status)


def list_addresses(cluster: PlatformCluster, user_cluster: str, pool: str) -> list[str]:
    """Return the addresses that a Cluster of KKP has of a pool."""
    spec = cluster.get_stored(ALLOCATIONS, pool, f"cluster-{user_cluster}").get("spec", {})
    return list(spec.get("addresses", []))


def read_condition(cluster: PlatformCluster, user_cluster: str) -> Json:
    """Return the condition by which butler-ipam reports to a Cluster of KKP; empty if none."""
    conditions = cluster.get_stored(CLUSTERS, user_cluster).get("status", {}).get("conditions", {})
    return dict(conditions.get(CONDITION, {}))


async def test_gauges_show_no_free_addresses_while_an_allocation_is_unreadable() -> None:
    async with open_platform_cluster(SERVING, *KINDS) as cluster:
        await create_ipam_pool(cluster, "p", 0)
        await create_user_cluster(cluster, "a")
        await cluster.pass_by(5)
        assert cluster.read_metric("butler_kkp_pool_free") == [14]
        await cluster.edit(ALLOCATIONS, "p", patch={"spec": {"type": 7}}, namespace="cluster-a")
        await cluster.pass_by(5)
        for name in ("free", "used"):
            assert cluster.read_metric(f"butler_kkp_pool_{name}") == []
        assert cluster.read_metric("butler_kkp_pool_total") == [16]


async def test_a_cluster_does_not_count_as_waiting_while_it_cannot_be_decoded() -> None:
    async with open_platform_cluster(SERVING, *KINDS) as cluster:
        await create_ipam_pool(cluster, "p", 0)
        for number in range(9):
            await create_user_cluster(cluster, f"c{number}")
            await cluster.pass_by(5)
        assert cluster.read_metric("butler_kkp_pool_waiting") == [1], (
            "the pool has addresses for eight"
        )
        await cluster.edit(CLUSTERS, "c8", {"spec": {"cloud": {"dc": 7}}})
        await cluster.pass_by(5)
        assert cluster.read_metric("butler_kkp_pool_waiting") == [0]


async def test_a_pool_hands_out_nothing_while_an_allocation_of_it_is_unreadable() -> None:
    async with open_platform_cluster(SERVING, *KINDS) as cluster:
        await create_ipam_pool(cluster, "p", 0)
        await create_ipam_pool(cluster, "q", 1)
        await create_user_cluster(cluster, "a")
        await cluster.pass_by(5)
        assert list_addresses(cluster, "a", "p") == ["10.0.0.0-10.0.0.1"]
        # Were the cluster not paused, its addresses would be set aside for it all the same.
        await cluster.edit(CLUSTERS, "a", {"spec": {"pause": True}})
        await cluster.edit(ALLOCATIONS, "p", patch={"spec": {"type": 7}}, namespace="cluster-a")
        await cluster.restart_replica()
        await create_user_cluster(cluster, "b")
        await cluster.pass_by(30)
        assert list_addresses(cluster, "b", "p") == []
        assert list_addresses(cluster, "b", "q") == ["10.0.1.2-10.0.1.3"]
        reconciled = read_condition(cluster, "b")
        assert (reconciled["status"], reconciled["reason"]) == ("False", "HoldersUnknown")
        assert TODO in reconciled["message"]
        assert read_condition(cluster, "a")["status"] == "True", "it has its addresses"
        await cluster.edit(
            ALLOCATIONS, "p", patch={"spec": {"type": "range"}}, namespace="cluster-a"
        )
        await cluster.pass_by(3)
        assert list_addresses(cluster, "b", "p") == ["10.0.0.2-10.0.0.3"]
        assert read_condition(cluster, "b")["status"] == "True"


async def test_an_allocation_that_becomes_unreadable_with_other_addresses_blocks_its_pool() -> (
    None
):
    """Cluster `a` has 10.0.0.0-1; then its allocation shows 10.0.0.2-3, and cannot be decoded."""
    async with open_platform_cluster(SERVING, *KINDS) as cluster:
        await create_ipam_pool(cluster, "p", 0)
        await create_user_cluster(cluster, "a")
        await cluster.pass_by(5)
        patch = {"spec": {"type": 7, "addresses": ["10.0.0.2-10.0.0.3"]}}
        await cluster.edit(ALLOCATIONS, "p", patch=patch, namespace="cluster-a")
        await cluster.pass_by(1)
        await create_user_cluster(cluster, "b")
        await cluster.pass_by(30)
        assert list_addresses(cluster, "b", "p") == []
        await cluster.remove_by_force(ALLOCATIONS, "p", "cluster-a")
        await cluster.pass_by(5)
        assert len({*list_addresses(cluster, "a", "p"), *list_addresses(cluster, "b", "p")}) == 2


@pytest.mark.parametrize("restarted", [True, False])
async def test_an_unreadable_cluster_keeps_its_addresses_and_others_are_served(
    restarted: bool,
) -> None:
    async with open_platform_cluster(SERVING, *KINDS) as cluster:
        await create_ipam_pool(cluster, "p", 0)
        await create_user_cluster(cluster, "a")
        await cluster.pass_by(5)
        await cluster.edit(
            CLUSTERS, "a", {"spec": {"pause": "perhaps", "cloud": {"dc": "elsewhere"}}}
        )
        if restarted:
            await cluster.restart_replica()
        await create_user_cluster(cluster, "b")
        await cluster.pass_by(30)
        assert list_addresses(cluster, "a", "p") == ["10.0.0.0-10.0.0.1"]
        assert list_addresses(cluster, "b", "p") == ["10.0.0.2-10.0.0.3"]


async def test_an_unreadable_pool_hands_out_nothing_and_takes_nothing_back() -> None:
    async with open_platform_cluster(SERVING, *KINDS) as cluster:
        await create_ipam_pool(cluster, "p", 0)
        await create_user_cluster(cluster, "a")
        await cluster.pass_by(5)
        before = read_condition(cluster, "a")
        odd = {"spec": {"datacenters": {"dc": {"allocationRange": "two"}}}}
        await cluster.edit(POOLS, "p", odd)
        await cluster.restart_replica()
        await create_user_cluster(cluster, "b")
        await cluster.pass_by(30)
        assert list_addresses(cluster, "a", "p") == ["10.0.0.0-10.0.0.1"]
        assert list_addresses(cluster, "b", "p") == []
        assert read_condition(cluster, "a") == before
        assert read_condition(cluster, "b") == {}, "no pool is known to name its datacenter"
        await cluster.edit(POOLS, "p", {"spec": {"datacenters": {"dc": {"allocationRange": 2}}}})
        await cluster.pass_by(3)
        assert list_addresses(cluster, "b", "p") == ["10.0.0.2-10.0.0.3"]


IN_LAB = ["10.0.0.0-10.0.0.7"]
"""Addresses of NetworkPool `lab`."""
UNKNOWN = {"addresses": [7]}
UNREADABLE_SPECS: list[tuple[Json, set[str]]] = [
    # Only the type cannot be decoded: the pool with the addresses stops.
    ({"type": 7, "addresses": IN_LAB}, {"other"}),
    ({"type": 7, "addresses": IN_LAB[0]}, {"other"}),
    ({"type": 7, "cidr": "10.0.0.0/29"}, {"other"}),
    # There are no addresses: no pool stops.
    ({"type": 7}, {"lab", "other"}),
    # The addresses cannot be decoded: each pool might have them, so all stop.
    (UNKNOWN, set()),
    ({"addresses": {"first": "10.0.0.0"}}, set()),
    ({"addresses": "10.0.0.0 and more"}, set()),
    ({"addresses": IN_LAB, "cidr": 7}, set()),
]
"""Specs of an IPAMAllocation that cannot be decoded, and which NetworkPools serve nevertheless."""


@pytest.mark.parametrize("restarted", [True, False], ids=["in the list", "in the watch"])
@pytest.mark.parametrize(("spec", "served_pools"), UNREADABLE_SPECS)
async def test_networkpools_that_may_share_addresses_with_an_unreadable_allocation_are_blocked(
    spec: Json, served_pools: set[str], restarted: bool
) -> None:
    """KKP is only observed; `served_pools` are the NetworkPools that still hand out ranges."""
    async with open_platform_cluster(OBSERVING, ALLOCATIONS) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.create_pool("other", 1)
        await cluster.pass_by(5)
        await cluster.create_object(ALLOCATIONS, "p", spec, namespace="cluster-a")
        if restarted:
            await cluster.restart_replica()
        await cluster.pass_by(1)
        for name in ("lab", "other"):
            await cluster.create_allocation(name, name)
        await cluster.pass_by(20)
        assert set(await cluster.list_ranges()) == served_pools
        for name in {"lab", "other"} - served_pools:
            ready = cluster.get_ready_condition(NETWORK_POOL, name)
            assert ready["reason"] == "HoldersUnknown"
            assert TODO in ready["message"]
        repaired: dict[str, Any] = {"type": "range", "cidr": None, "addresses": IN_LAB}
        await cluster.edit(ALLOCATIONS, "p", patch={"spec": repaired}, namespace="cluster-a")
        await cluster.pass_by(3)
        ranges = await cluster.list_ranges()
        assert set(ranges) == {"lab", "other"}
        if "lab" not in served_pools:
            assert ranges["lab"].first == int(IPv4Address("10.0.0.8")), "after IN_LAB"
