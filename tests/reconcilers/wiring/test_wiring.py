"""The four controllers together, under the real manager, on a virtual clock: who wakes whom."""

from typing import Any

import pytest

from controller.errors import NoAnswer
from controller.meta import Key
from reconcilers.api import names
from reconcilers.configuration.settings import Settings
from tests.reconcilers import make
from tests.reconcilers.platform import Platform
from tests.reconcilers.served import METALLB
from tests.reconcilers.server import Json

NODES = ("ipallocations", "team-a-nodes")
BALANCER = ("ipallocations", "team-a-lb")


def _make_platform(*pools: Any) -> Platform:
    platform = Platform()
    for pool in pools or (make.pool(finalizers=[], memory=None),):
        platform.server.add("networkpools", pool)
    platform.server.add("providerconfigs", make.provider(*_names(platform)))
    return platform


def _names(platform: Platform) -> list[str]:
    return [pool["metadata"]["name"] for pool in platform.server.all("networkpools")]


async def test_a_tenant_is_ready_within_a_second_of_its_creation() -> None:
    platform = _make_platform()
    platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant(finalizers=[]))
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        assert platform.phase(*NODES) == platform.phase(*BALANCER) == "Allocated"


async def test_an_allocation_served_at_once_never_shows_pending() -> None:
    platform = _make_platform()
    async with platform.running():
        for number in range(50):
            platform.server.add("ipallocations", make.allocation(f"a{number}", size=1))
        await platform.clock.advance(1.0)
    phases = {
        (h.object.get("status") or {}).get("phase")
        for h in platform.server.history
        if h.plural == "ipallocations"
    }
    assert phases == {None, "Allocated"}


async def test_at_the_start_no_pass_is_made_over_allocations_that_need_nothing() -> None:
    platform = _make_platform(make.pool())
    ends = [f"10.40.0.{number}" for number in range(20)]
    for end in ends[:18]:
        allocation = make.allocation(f"held-{end}", tenant="x/y", held_range=(end, end))
        platform.server.add("ipallocations", allocation)
    bare = make.allocation("bare", tenant="x/y", held_range=(ends[18],) * 2, finalizers=[])
    going = make.allocation("going", tenant="x/y", held_range=(ends[19],) * 2)
    for replica in (bare, going):
        platform.server.add("ipallocations", replica)
    platform.server.delete("ipallocations", "going")
    platform.server.add("ipallocations", make.allocation("asks", tenant="x/y", size=1))
    async with platform.running() as manager:
        await platform.clock.advance(1.0)
        looked_at, clusters = (
            manager.metrics.registry.get_sample_value(
                "workqueue_adds_total", {"controller": name, "name": name}
            )
            for name in ("ipallocation", "tenantcluster")
        )
        assert platform.phase("ipallocations", "asks") == "Allocated"
        [stored] = [
            o for o in platform.server.all("ipallocations") if o["metadata"]["name"] == "bare"
        ]
        assert names.FINALIZER_ALLOCATION in stored["metadata"]["finalizers"]
        assert not platform.server.has("ipallocations", "going")
    assert looked_at is not None
    assert clusters == 0, "the cluster that they name never was"
    assert 3 <= looked_at < 12, "those three, as they change; not the eighteen"


async def test_at_rest_the_management_cluster_gets_no_requests() -> None:
    platform = _make_platform()
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        platform.server.add("ipallocations", make.allocation("too-big", tenant="x/y", size=999))
        await platform.clock.advance(200)
        platform.server.requests.clear()
        tenant.requests.clear()
        await platform.clock.advance(250)
        quiet = [r for r in platform.server.requests if r.verb not in {"watch", "list"}]
        assert quiet == []
        reads = [r for r in tenant.requests if r.verb not in {"watch", "list"}]
        assert {r.verb for r in reads} == {"get"}
        assert len(reads) <= 10


async def test_a_deleted_tenant_gives_everything_back() -> None:
    platform = _make_platform()
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(1.0)
        assert tenant.all("ipaddresspools")
        platform.server.delete("tenantclusters", "a", namespace="team")
        await platform.clock.advance(2.0)
        assert platform.server.all("tenantclusters") == []
        assert platform.server.all("ipallocations") == []
        assert tenant.all("ipaddresspools") == []
        pool = platform.server.see("networkpools", "lab")
        assert pool["status"]["availableIPs"] == 256


async def test_freed_space_wakes_a_failed_request_at_once() -> None:
    platform = _make_platform(make.pool(cidr="10.40.0.0/29"))
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("first", tenant="x/y"))
        await platform.clock.advance(1.0)
        platform.server.add("ipallocations", make.allocation("second", tenant="x/y"))
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "second") == "Failed"
        platform.server.delete("ipallocations", "first")
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "second") == "Allocated"


async def test_a_pool_that_appears_wakes_those_who_wait_for_it() -> None:
    platform = Platform()
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a"))
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "a") == "Pending"
        platform.server.add("networkpools", make.pool(memory=None))
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "a") == "Allocated"


async def test_a_pool_with_more_room_enqueues_clusters_that_wait() -> None:
    platform = _make_platform(make.pool(cidr="10.40.0.0/30"))
    platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(3.0)
        assert platform.phase("tenantclusters", "a", "team") == "Provisioning"
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"


async def test_a_ready_cluster_that_lost_its_addresses_gets_others_when_there_is_room() -> None:
    platform = _make_platform(make.pool(cidr="10.40.0.0/28"))
    platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(1.0)
        blocker = make.allocation("blocker", tenant="x/y", held_range=("10.40.0.0", "10.40.0.15"))
        platform.server.add("ipallocations", blocker)
        platform.server.vanish("ipallocations", "team-a-lb")
        await platform.clock.advance(60.0)
        assert not platform.server.has("ipallocations", "team-a-lb")
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "team-a-lb") == "Allocated"


async def test_a_provider_that_appears_wakes_its_clusters() -> None:
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Failed"
        platform.server.add("providerconfigs", make.provider("lab"))
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"


async def test_capacity_in_a_providers_status_follows_its_pools() -> None:
    platform = _make_platform()
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a", size=56))
        await platform.clock.advance(1.0)
        status = platform.server.see("providerconfigs", "default")["status"]
        assert status["capacity"] == {"availableIPs": 200, "estimatedTenants": 15}


async def test_ranges_of_one_tenant_enqueue_no_other_tenant() -> None:
    platform = _make_platform()
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(5.0)
        tenant.requests.clear()
        platform.server.add("ipallocations", make.allocation("other", tenant="x/y"))
        await platform.clock.advance(5.0)
        assert platform.phase("ipallocations", "other") == "Allocated"
        assert tenant.requests == []


async def test_one_unreachable_tenant_costs_the_others_nothing() -> None:
    platform = _make_platform()
    platform.tenant("a").fail(NoAnswer("timed out"), times=10_000)
    platform.tenant("b")
    async with platform.running():
        for name in "ab":
            platform.server.add("tenantclusters", make.tenant(name))
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "b", "team") == "Ready"
        assert platform.phase("tenantclusters", "a", "team") == "Installing"


async def test_a_service_that_keeps_its_address_causes_no_hot_loop() -> None:
    platform = _make_platform()
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(1.0)
        second = make.allocation("team-a-lb-1", held_range=("10.40.0.64", "10.40.0.65"))
        platform.server.add("ipallocations", second)
        await platform.clock.advance(1.0)
        ingress: Json = {"loadBalancer": {"ingress": [{"ip": "10.40.0.3"}]}}
        meta = {"name": "web", "namespace": "default"}
        spec = {"type": "LoadBalancer"}
        tenant.add("services", {"metadata": meta, "spec": spec, "status": ingress})
        platform.server.delete("ipallocations", "team-a-lb")
        await platform.clock.advance(30.0)
        writes = len(platform.server.history) + len(tenant.history)
        await platform.clock.advance(120.0)
        assert len(platform.server.history) + len(tenant.history) - writes <= 3
        conditions = platform.server.see(*BALANCER)["status"]["conditions"]
        waits = "Service default/web still shows an address of the range"
        assert conditions[0]["message"] == waits
        tenant.vanish("services", "web", namespace="default")
        await platform.clock.advance(10.0)
        assert platform.server.see(*BALANCER)["status"]["phase"] == "Allocated", "a new one"


@pytest.mark.slow
async def test_two_managers_that_both_lead_never_overlap() -> None:
    platform = _make_platform()
    async with platform.running(), platform.running():
        for number in range(100):
            platform.server.add("ipallocations", make.allocation(f"a{number:03}", size=2))
            await platform.clock.advance(0.01)
        await platform.clock.advance(20.0)
    allocations = [
        address
        for allocation in platform.server.all("ipallocations")
        for address in allocation["status"]["addresses"]
    ]
    assert len(allocations) == len(set(allocations)) == 200


async def test_a_tenant_with_a_hundred_allocations_delays_another_by_no_more_than_its_turn() -> (
    None
):
    platform = Platform(Settings(concurrency=1))
    async with platform.running():
        for number in range(100):
            name = f"greedy-{number:03}"
            platform.server.add("ipallocations", make.allocation(name, tenant="greedy/one"))
        platform.server.add("ipallocations", make.allocation("modest", tenant="modest/two"))
        await platform.clock.advance(1.0)
    looked_at = [
        h.object["metadata"]["name"]
        for h in platform.server.history
        if (h.object.get("status") or {}).get("phase") == "Pending"
    ]
    assert len(looked_at) == 101
    assert looked_at.index("modest") <= 2


async def test_a_namespace_with_many_clusters_delays_another_by_no_more_than_its_turn() -> None:
    platform = Platform(Settings(concurrency=1))
    async with platform.running():
        for number in range(50):
            platform.server.add("tenantclusters", make.tenant(f"c{number:02}", "greedy"))
        platform.server.add("tenantclusters", make.tenant("c", "modest"))
        await platform.clock.advance(1.0)
    looked_at = [
        h.object["metadata"]["namespace"]
        for h in platform.server.history
        if h.plural == "tenantclusters" and (h.object.get("status") or {}).get("phase")
    ]
    assert looked_at.index("modest") <= 2


async def test_an_allocation_in_another_namespace_than_its_pool_finds_none() -> None:
    platform = _make_platform()
    async with platform.running():
        platform.server.add("ipallocations", make.allocation("a", namespace="elsewhere"))
        await platform.clock.advance(1.0)
        assert platform.phase("ipallocations", "a", "elsewhere") == "Pending"


async def test_the_names_in_the_tenant_are_metallbs() -> None:
    platform = _make_platform()
    tenant = platform.tenant("a")
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant())
        await platform.clock.advance(1.0)
    key = Key("metallb-system", "default-pool")
    assert tenant.see("ipaddresspools", key.name, namespace=key.namespace)["apiVersion"] == METALLB


async def test_freed_space_goes_to_those_who_wait_longest_at_once() -> None:
    platform = _make_platform(make.pool(cidr="10.40.0.0/28"))
    async with platform.running():
        allocation = make.allocation(
            "holder", tenant="x/y", held_range=("10.40.0.0", "10.40.0.15")
        )
        platform.server.add("ipallocations", allocation)
        await platform.clock.advance(1.0)
        for name, age in (("third", 1), ("first", 3), ("second", 2)):
            waiting = make.allocation(name, tenant="x/y", size=8, age=age)
            platform.server.add("ipallocations", waiting)
        await platform.clock.advance(1.0)
        platform.server.delete("ipallocations", "holder")
        await platform.clock.advance(1.0)
        phase = {n: platform.phase("ipallocations", n) for n in ("first", "second", "third")}
    assert phase == {"first": "Allocated", "second": "Allocated", "third": "Failed"}


async def test_added_space_goes_to_those_who_wait_longest_at_once() -> None:
    platform = _make_platform(make.pool(cidr="10.40.0.0/29"))
    async with platform.running():
        for name, age in (("third", 1), ("first", 3), ("second", 2)):
            waiting = make.allocation(name, tenant="x/y", size=16, age=age)
            platform.server.add("ipallocations", waiting)
        await platform.clock.advance(1.0)
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/27"}})
        await platform.clock.advance(1.0)
        phase = {n: platform.phase("ipallocations", n) for n in ("first", "second", "third")}
    assert phase == {"first": "Allocated", "second": "Allocated", "third": "Failed"}
