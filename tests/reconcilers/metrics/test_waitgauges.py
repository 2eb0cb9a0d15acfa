"""Clusters that find no pool make no IPAllocation, and are counted and told all the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

from controller.errors import NoAnswer
from controller.manager import Manager
from reconcilers.metrics.waitgauges import make_waiting_metrics
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer
from tests.reconcilers.platform import Platform

LAB = {"pool": "lab", "namespace": make.NAMESPACE}


def _value(manager: Manager, name: str, **labels: str) -> float | None:
    return manager.metrics.registry.get_sample_value(name, labels)


def _make_platform(clusters: int, cidr: str) -> Platform:
    platform = Platform()
    platform.server.add("networkpools", make.pool(cidr=cidr))
    platform.server.add("providerconfigs", make.provider("lab"))
    for number in range(clusters):
        name = f"c{number:02}"
        Balancer(platform.tenant(name))
        platform.server.add("tenantclusters", make.tenant(name))
    return platform


def _make_network(platform: Platform, name: str) -> dict[str, Any]:
    status = platform.server.see("tenantclusters", name, namespace="team")["status"]
    network: dict[str, Any] = status["network"]
    return network


async def test_clusters_without_an_allocation_are_counted_in_the_pool_that_they_wait_for() -> None:
    platform = _make_platform(20, "10.40.0.0/26")
    async with platform.running() as manager:
        await platform.clock.advance(120)
        waiting = [
            cluster["metadata"]["name"]
            for cluster in platform.server.all("tenantclusters")
            if cluster["status"]["network"].get("waiting")
        ]
        assert 10 < len(waiting) < 20
        total = _value(manager, "butler_tenant_clusters_waiting", reason="PoolExhausted")
        assert total == len(waiting)
        in_pool = _value(
            manager,
            "butler_network_pool_waiting_tenant_clusters",
            reason="PoolExhausted",
            **LAB,
        )
        assert in_pool == len(waiting)
        assert _value(manager, "butler_network_pool_largest_waiting_request", **LAB) == 13
        age = _value(manager, "butler_network_pool_oldest_waiting_tenant_cluster_seconds", **LAB)
        assert age is not None
        assert age >= 100
        refusal = _make_network(platform, waiting[0])["lastRefusal"]
        assert refusal["reason"] == "PoolExhausted"
        assert "addresses in a row" in refusal["message"]
        assert "lab: largest free block" in refusal["message"]
        events = [
            event["regarding"]["name"]
            for event in platform.server.all("events")
            if event["reason"] == "PoolExhausted" and event["type"] == "Warning"
        ]
        assert sorted(set(events)) == sorted(waiting)


def test_the_oldest_of_several_requests_of_a_cluster_tells_how_long_it_waits() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    waiting = [
        {
            "type": purpose,
            "role": "initial",
            "reason": "PoolExhausted",
            "addresses": 5,
            "namespace": make.NAMESPACE,
            "pools": ["lab"],
            "since": (now - timedelta(seconds=seconds)).isoformat(),
        }
        for purpose, seconds in (("nodes", 90), ("loadbalancer", 10))
    ]
    cluster = make.tenant("a", status={"network": {"waiting": waiting}})
    metrics = make_waiting_metrics([cluster], [make.pool()], waiting_allocations=[], now=now)
    [age] = [
        sample.value
        for metric in metrics
        for sample in metric.samples
        if sample.name == "butler_network_pool_oldest_waiting_tenant_cluster_seconds"
    ]
    assert age == 90


async def test_what_waits_for_a_pool_of_two_families_is_counted_for_the_family_that_it_needs() -> (
    None
):
    platform = Platform()
    secondary = {"cidr": "2001:db8:40::/64"}
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/28", secondary=secondary))
    platform.server.add("providerconfigs", make.provider("lab"))
    networking = {"ipFamilyPolicy": "PreferDualStack", "lbPoolSize": 20}
    platform.server.add("tenantclusters", make.tenant("a", spec={"networking": networking}))
    async with platform.running() as manager:
        await platform.clock.advance(60)
        need = "butler_network_pool_largest_waiting_request"
        assert _value(manager, need, family="IPv4", **LAB) == 25
        assert _value(manager, need, family="IPv6", **LAB) == 0


async def test_once_there_is_room_nothing_waits_and_the_last_refusal_stays() -> None:
    platform = _make_platform(3, "10.40.0.0/27")
    async with platform.running() as manager:
        await platform.clock.advance(60)
        assert _value(manager, "butler_tenant_clusters_waiting", reason="PoolExhausted") == 1
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(60)
        assert _value(manager, "butler_tenant_clusters_waiting", reason="PoolExhausted") == 0
        assert _value(manager, "butler_network_pool_largest_waiting_request", **LAB) == 0
        [refused] = [
            network
            for cluster in platform.server.all("tenantclusters")
            if (network := cluster["status"]["network"]).get("lastRefusal")
        ]
        assert refused["nodes"]["addresses"] == 5
        assert refused["loadBalancer"]["addresses"] == 8


async def test_a_tenant_that_does_not_answer_is_counted_and_has_an_event() -> None:
    platform = _make_platform(1, "10.40.0.0/24")
    tenant = {"tenant_cluster": "c00", "namespace": "team"}
    async with platform.running() as manager:
        await platform.clock.advance(60)
        assert _value(manager, "butler_tenant_cluster_unreachable", **tenant) == 0
        platform.tenants["c00"].fail(NoAnswer("timed out"), times=1000)
        await platform.clock.advance(1200)
        assert _value(manager, "butler_tenant_cluster_unreachable", **tenant) == 1
        reasons = [event["reason"] for event in platform.server.all("events")]
        assert "TenantUnreachable" in reasons


async def test_a_cluster_that_is_being_built_is_not_out_of_step() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.server.add("providerconfigs", make.provider("lab"))
    platform.server.add("tenantclusters", make.tenant("a"))
    tenant = {"tenant_cluster": "a", "namespace": "team"}
    async with platform.running() as manager:
        await platform.clock.advance(600)
        assert platform.phase("tenantclusters", "a", "team") == "Provisioning"
        assert _value(manager, "butler_tenant_cluster_synced", **tenant) is None
        building = _value(manager, "butler_tenant_cluster_building_seconds", **tenant)
        assert building is not None
        assert building >= 600


async def test_a_cluster_that_can_no_longer_ask_is_not_counted_as_waiting() -> None:
    platform = _make_platform(3, "10.40.0.0/27")
    async with platform.running() as manager:
        await platform.clock.advance(60)
        [waiting] = [n for n in ("c00", "c01", "c02") if _make_network(platform, n).get("waiting")]
        absent = {"spec": {"providerConfigRef": {"name": "absent"}}}
        platform.server.edit("tenantclusters", waiting, absent, namespace="team")
        await platform.clock.advance(60)
        assert platform.phase("tenantclusters", waiting, "team") == "Failed"
        assert _make_network(platform, waiting)["waiting"] == []
        assert _value(manager, "butler_tenant_clusters_waiting", reason="PoolExhausted") == 0


async def test_a_cluster_that_is_being_deleted_waits_for_nothing_and_shows_what_it_holds() -> None:
    platform = _make_platform(1, "10.40.0.0/24")
    async with platform.running():
        await platform.clock.advance(60)
        wider = {"spec": {"networking": {"lbPoolSize": 400}}}
        platform.server.edit("tenantclusters", "c00", wider, namespace="team")
        await platform.clock.advance(60)
        assert _make_network(platform, "c00")["waiting"]
        platform.tenants["c00"].fail(NoAnswer("timed out"), times=1000)
        platform.server.delete("tenantclusters", "c00", namespace="team")
        await platform.clock.advance(60)
        network = _make_network(platform, "c00")
        assert network["waiting"] == []
        assert "servicesWaiting" not in network["loadBalancer"]
        assert network["loadBalancer"]["addresses"] == 8
