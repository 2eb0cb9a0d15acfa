"""Claims and IPAddresses that cannot be decoded: nobody else gets what they may hold."""

from typing import Any

import pytest

from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.integrationnames import CLUSTER_API
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api
from tests.reconcilers.integrations.unreadable import Json, PlatformCluster, open_platform_cluster
from tests.reconcilers.test_sharing import NAMESPACE

CLAIMS, ADDRESSES, CLUSTERS = (
    api.get_claim_kind("v1beta2"),
    api.get_address_kind("v1beta2"),
    api.get_cluster_kind("v1beta2"),
)
POOLS, GLOBAL_POOLS = api.IN_CLUSTER_IP_POOL, api.GLOBAL_IP_POOL
SERVED = (CLAIMS, ADDRESSES, CLUSTERS, POOLS, GLOBAL_POOLS)
WITH_CLAIMS = Settings(integration=(CLUSTER_API,))
UNKNOWN_POOL = {"poolRef": 7}
"""The fields of a spec from which the pool cannot be decoded."""
ODD: dict[str, tuple[Any, Json, Json]] = {
    "IPAddress": (ADDRESSES, {"prefix": "many"}, {"prefix": 24}),
    "IPAddressClaim": (CLAIMS, {"clusterName": 7}, {"clusterName": None}),
}
"""For each kind: the kind, fields that make a spec unreadable, and fields that repair it."""


async def create_ip_pool(
    cluster: PlatformCluster, name: str, third_octet: int, kind: Any = POOLS
) -> None:
    """Create a pool with the five addresses from 10.0.`third_octet`.10 on."""
    subnet = f"10.0.{third_octet}"
    spec = {"addresses": [f"{subnet}.10-{subnet}.14"], "prefix": 24}
    await cluster.create_object(kind, name, spec)


def make_pool_ref(name: str, kind: Any = POOLS) -> Json:
    """Return the reference by which claims and IPAddresses name a pool."""
    return {"apiGroup": kind.group, "kind": kind.kind, "name": name}


async def create_claim(
    cluster: PlatformCluster,
    name: str,
    pool: str,
    kind: Any = POOLS,
    namespace: str = NAMESPACE,
    **spec: Any,
) -> None:
    """Create an IPAddressClaim of a pool of some kind, with further fields of its spec."""
    await cluster.create_object(
        CLAIMS, name, {"poolRef": make_pool_ref(pool, kind), **spec}, namespace=namespace
    )


def read_address(cluster: PlatformCluster, name: str, namespace: str = NAMESPACE) -> str:
    """Return the address of a claim that is served; empty if it is not."""
    if not cluster.get_stored(CLAIMS, name, namespace).get("status", {}).get("addressRef"):
        return ""
    return str(cluster.get_stored(ADDRESSES, name, namespace)["spec"]["address"])


async def test_gauges_show_no_free_addresses_while_an_ipaddress_is_unreadable() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_claim(cluster, "a", "p")
        await cluster.pass_by(5)
        assert cluster.read_metric("butler_claim_pool_free") == [4]
        await cluster.edit(ADDRESSES, "a", {"spec": {"prefix": "many"}})
        await cluster.pass_by(5)
        for name in ("free", "used"):
            assert cluster.read_metric(f"butler_claim_pool_{name}") == []
        assert cluster.read_metric("butler_claim_pool_total") == [5]


async def make_unreadable(cluster: PlatformCluster, kind: str, *, pool_known: bool) -> None:
    """Leave an unreadable object alone to show what claim `a` of pool `p` holds.

    Args:
        cluster: where claim `a` is served.
        kind: IPAddress or IPAddressClaim: the kind of the object; that of the other is deleted.
        pool_known: the pool can still be decoded from the object.
    """
    resource, odd, _ = ODD[kind]
    if kind == "IPAddressClaim":
        await cluster.edit(
            resource, "a", {"spec": {**odd, **({} if pool_known else UNKNOWN_POOL)}}
        )
        await cluster.remove_by_force(ADDRESSES, "a")
    else:
        await cluster.edit(
            resource, "a", {"spec": {**odd, **({} if pool_known else UNKNOWN_POOL)}}
        )
        await cluster.remove_by_force(CLAIMS, "a")


@pytest.mark.parametrize("pool_known", [True, False], ids=["pool known", "pool unknown"])
@pytest.mark.parametrize("kind", ODD)
async def test_no_pool_hands_out_what_an_unreadable_object_may_hold(
    kind: str, pool_known: bool
) -> None:
    """Pool `p` hands out nothing; if the object may be of any pool, no pool does."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_ip_pool(cluster, "q", 1)
        await create_ip_pool(cluster, "wide", third_octet=2, kind=GLOBAL_POOLS)
        await create_claim(cluster, "a", "p")
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == "10.0.0.10"
        cluster.stop_replicas()
        await make_unreadable(cluster, kind, pool_known=pool_known)
        await cluster.restart_replica()
        await create_claim(cluster, "b", "p")
        await create_claim(cluster, "c", "q")
        await create_claim(cluster, "d", pool="wide", kind=GLOBAL_POOLS)
        await create_claim(cluster, "far", pool="wide", kind=GLOBAL_POOLS, namespace="far")
        await cluster.pass_by(30)
        assert read_address(cluster, "b") == ""
        ready = cluster.get_ready_condition(POOLS, "p")
        assert (ready["status"], ready["reason"]) == ("False", "HoldersUnknown")
        todo = f"{kind} {NAMESPACE}/a cannot be read; correct or delete it"
        assert todo in ready["message"]
        assert todo in cluster.get_ready_condition(CLAIMS, "b")["message"]
        assert [bool(read_address(cluster, name)) for name in ("c", "d")] == [pool_known] * 2
        assert bool(read_address(cluster, "far", "far")) == pool_known

        resource, _, repaired = ODD[kind]
        await cluster.edit(resource, "a", {"spec": {**repaired, "poolRef": make_pool_ref("p")}})
        await cluster.pass_by(3)
        assert cluster.get_ready_condition(POOLS, "p")["reason"] == "Ready"
        assert read_address(cluster, "b") == "10.0.0.11"
        assert read_address(cluster, "c") == "10.0.1.10"


async def test_an_ipaddress_that_becomes_unreadable_with_another_address_blocks_both() -> None:
    """Claim `a` has 10.0.0.10; then its IPAddress shows 10.0.0.11, and cannot be decoded."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_claim(cluster, "a", "p")
        await cluster.pass_by(5)
        await cluster.edit(ADDRESSES, "a", {"spec": {"address": "10.0.0.11", "prefix": "many"}})
        await cluster.pass_by(1)
        await create_claim(cluster, "b", "p")
        await cluster.pass_by(30)
        assert read_address(cluster, "b") == ""
        assert cluster.get_ready_condition(POOLS, "p")["reason"] == "HoldersUnknown"
        await cluster.remove_by_force(ADDRESSES, "a")
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == "10.0.0.10", "recreated from the claim's status"
        assert read_address(cluster, "b") == "10.0.0.11"


@pytest.mark.parametrize("kind", ODD)
async def test_a_networkpool_hands_out_no_range_while_an_object_of_its_claims_is_unreadable(
    kind: str,
) -> None:
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.create_pool("other", 1)
        await create_claim(cluster, "a", pool="lab", kind=NETWORK_POOL)
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == "10.0.0.0"
        cluster.stop_replicas()
        await make_unreadable(cluster, kind, pool_known=True)
        await cluster.restart_replica()
        await cluster.create_allocation("x", "lab")
        await cluster.create_allocation("y", "other")
        await cluster.pass_by(30)
        assert set(await cluster.list_ranges()) == {"y"}
        ready = cluster.get_ready_condition(NETWORK_POOL, "lab")
        assert ready["reason"] == "HoldersUnknown"
        assert f"{kind} {NAMESPACE}/a cannot be read; correct or delete it" in ready["message"]
        resource, _, repaired = ODD[kind]
        await cluster.edit(resource, "a", {"spec": repaired})
        await cluster.pass_by(3)
        ranges = await cluster.list_ranges()
        assert set(ranges) == {"x", "y"}
        assert ranges["x"][1] > 10 << 24


async def test_claims_of_a_networkpool_wait_while_an_ipallocation_of_it_is_unreadable() -> None:
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await cluster.create_pool("lab", 0)
        await cluster.create_allocation("x", "lab")
        await cluster.pass_by(5)
        await cluster.edit(IP_ALLOCATION, "x", {"spec": {"count": "many"}})
        await create_claim(cluster, "a", pool="lab", kind=NETWORK_POOL)
        await cluster.pass_by(15)
        assert read_address(cluster, "a") == ""
        ready = cluster.get_ready_condition(CLAIMS, "a")
        assert ready["reason"] == "PoolNotReady"
        assert "IPAllocations that cannot be read: x" in ready["message"]
        await cluster.edit(IP_ALLOCATION, "x", {"spec": {"count": 8}})
        await cluster.pass_by(3)
        assert read_address(cluster, "a") == "10.0.0.8"


@pytest.mark.parametrize("kind", ODD)
async def test_a_deleted_pool_keeps_its_finalizer_while_a_claim_or_ipaddress_is_unreadable(
    kind: str,
) -> None:
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_claim(cluster, "a", "p")
        await cluster.pass_by(5)
        cluster.stop_replicas()
        await make_unreadable(cluster, kind, pool_known=True)
        await cluster.restart_replica()
        await cluster.delete(POOLS, "p")
        await cluster.pass_by(30)
        ready = cluster.get_ready_condition(POOLS, "p")
        assert ready["reason"] == "HoldersUnknown"
        assert "it is not deleted until it is known what these objects hold" in ready["message"]
        await cluster.remove_by_force(ODD[kind][0], "a")
        await cluster.pass_by(5)
        assert cluster.get_stored(POOLS, "p") == {}


async def test_a_deleted_claim_keeps_its_address_while_its_ipaddress_or_pool_is_unreadable() -> (
    None
):
    """The IPAddress of claim `of-p` is unreadable, and the pool of claim `of-q`."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        for number, name in enumerate("pq"):
            await create_ip_pool(cluster, name, number)
            await create_claim(cluster, f"of-{name}", name)
        await cluster.pass_by(5)
        await cluster.edit(ADDRESSES, "of-p", {"spec": {"prefix": "many"}})
        await cluster.edit(POOLS, "q", {"spec": {"prefix": "many"}})
        await cluster.restart_replica()
        for name in "pq":
            await cluster.delete(CLAIMS, f"of-{name}")
        await cluster.pass_by(90)
        assert all(cluster.get_stored(ADDRESSES, f"of-{name}") for name in "pq")
        assert all(cluster.get_stored(CLAIMS, f"of-{name}") for name in "pq")
        await create_claim(cluster, "more", "q")
        await cluster.pass_by(5)
        message = "InClusterIPPool q cannot be read; correct or delete it"
        await cluster.pass_by(5)
        assert cluster.get_ready_condition(CLAIMS, "more").get("message") == message
        await cluster.edit(ADDRESSES, "of-p", {"spec": {"prefix": 24}})
        await cluster.edit(POOLS, "q", {"spec": {"prefix": 24}})
        await cluster.pass_by(5)
        assert not any(cluster.get_stored(CLAIMS, f"of-{name}") for name in "pq")
        assert read_address(cluster, "more")


async def test_claims_of_an_unreadable_cluster_are_neither_served_nor_released() -> None:
    """The Cluster may be paused."""
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await cluster.create_object(CLUSTERS, "tenant", {"paused": True})
        await create_claim(cluster, "a", "p", clusterName="tenant")
        await cluster.edit(CLUSTERS, "tenant", {"spec": {"paused": "yes"}})
        await cluster.restart_replica()
        await cluster.pass_by(5)
        assert read_address(cluster, "a") == ""
        await cluster.edit(CLUSTERS, "tenant", {"spec": {"paused": False}})
        await cluster.pass_by(3)
        assert read_address(cluster, "a") == "10.0.0.10"
        await cluster.edit(CLUSTERS, "tenant", {"spec": {"paused": "yes"}})
        await cluster.restart_replica()
        await cluster.delete(CLAIMS, "a")
        await cluster.pass_by(90)
        assert cluster.get_stored(CLAIMS, "a")
        assert cluster.get_stored(ADDRESSES, "a")
        await cluster.edit(CLUSTERS, "tenant", {"spec": {"paused": False}})
        await cluster.pass_by(3)
        assert not cluster.get_stored(CLAIMS, "a")
        assert not cluster.get_stored(ADDRESSES, "a")


async def test_a_claim_reports_an_unreadable_ipaddress_of_its_name_that_names_another_pool() -> (
    None
):
    async with open_platform_cluster(WITH_CLAIMS, *SERVED) as cluster:
        await create_ip_pool(cluster, "p", 0)
        await create_ip_pool(cluster, "q", 1)
        spec = {"claimRef": {"name": "a"}, "poolRef": make_pool_ref("q"), "address": "10.0.1.10"}
        await cluster.create_object(ADDRESSES, "a", {**spec, "prefix": "many"})
        await cluster.restart_replica()
        await create_claim(cluster, "a", "p")
        await create_claim(cluster, "b", "p")
        await cluster.pass_by(10)
        ready = cluster.get_ready_condition(CLAIMS, "a")
        assert ready["reason"] == "AllocationFailed"
        assert f"IPAddress {NAMESPACE}/a cannot be read" in ready["message"]
        assert read_address(cluster, "b") == "10.0.0.10"
