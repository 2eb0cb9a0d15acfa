"""An elastic tenant grows with its Services."""

import pytest

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.server import Json
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
)


@pytest.mark.slow
async def test_growth_comes_within_two_seconds_of_the_age_threshold() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        await platform.clock.advance(3 * 3600)  # old enough to be looked at every 15 minutes only
        add_service(tenant, "three")
        await platform.clock.advance(29)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        await platform.clock.advance(3)
        assert find_address(tenant, "three") == "10.40.0.7"
        assert list_pool_entries(tenant) == ["10.40.0.0-10.40.0.1", "10.40.0.7-10.40.0.7"]
        grown = platform.server.see("ipallocations", "team-a-lb-1")
        assert grown["metadata"]["labels"][names.LABEL_ROLE] == "growth"
        assert grown["spec"]["count"] == 1
        await platform.clock.advance(5)
        assert read_demand_condition(platform) == ("True", "Ready")


async def test_a_service_that_gets_a_free_address_makes_nothing_grow() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one")
        add_service(tenant, "two")
        await platform.clock.advance(300)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]


async def test_growth_counts_addresses_and_subtracts_those_that_are_being_added() -> None:
    platform, tenant = make_elastic_platform(sizing={"growthIncrement": 2})
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        balancer.paused = True
        for number in range(3):
            add_service(tenant, f"more{number}")
        await platform.clock.advance(31)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1", "team-a-lb-2"]
        await platform.clock.advance(120)
        assert len(list_balancer_ranges(platform)) == 3, (
            "four addresses for three Services are enough"
        )
        add_service(tenant, "more3")
        await platform.clock.advance(60)
        assert len(list_balancer_ranges(platform)) == 3
        add_service(tenant, "more4")
        await platform.clock.advance(60)
        assert len(list_balancer_ranges(platform)) == 3, "MetalLB has addresses and assigns none"
        balancer.resume()
        await platform.clock.advance(35)
        assert len(list_balancer_ranges(platform)) == 4
        assert all(find_address(tenant, f"more{number}") for number in range(5))


async def test_a_growth_request_without_a_range_counts_as_in_flight() -> None:
    platform, tenant = make_elastic_platform(make.pool(cidr="10.40.0.0/28"))
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        # The pool serves no requests while its spec is invalid.
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "junk"}})
        await platform.clock.advance(2)
        add_service(tenant, "three")
        await platform.clock.advance(300)
        assert len(list_balancer_ranges(platform)) <= 2


async def test_no_more_growth_allocations_are_in_flight_than_the_setting_allows() -> None:
    platform, tenant = make_elastic_platform(growth_in_flight=2)
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        balancer.paused = True
        for number in range(5):
            add_service(tenant, f"more{number}")
        await platform.clock.advance(200)
        assert len(list_balancer_ranges(platform)) == 3
        balancer.resume()
        await platform.clock.advance(10)
        assert len(list_balancer_ranges(platform)) >= 5, (
            "growth allocations in use are not in flight"
        )
        await platform.clock.advance(10)
        assert all(find_address(tenant, f"more{number}") for number in range(5))


async def test_the_quota_counts_a_deleted_allocation_until_it_is_gone() -> None:
    platform, tenant = make_elastic_platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    held_range = ("10.40.0.64", "10.40.0.64")
    deleted = make.allocation(
        "team-a-lb-9", held_range=held_range, finalizers=["example.com/other"]
    )
    platform.server.add("ipallocations", deleted)
    async with platform.running():
        await platform.clock.advance(2)
        platform.server.delete("ipallocations", "team-a-lb-9")
        for name in ("one", "two", "three"):
            add_service(tenant, name)
        await platform.clock.advance(60)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-9"]
        assert read_demand_condition(platform) == ("False", "QuotaExceeded")
        platform.server.vanish("ipallocations", "team-a-lb-9")
        await platform.clock.advance(5)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]


async def test_quota_reached_is_logged_as_the_documentation_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform, tenant = make_elastic_platform(quota={"maxLoadBalancerIPs": 2})
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
    assert "quota would be exceeded" in capsys.readouterr().out


@pytest.mark.parametrize(
    "service_parts",
    [
        {"annotations": {"metallb.io/address-pool": "another"}},
        {"annotations": {"metallb.universe.tf/address-pool": "another"}},
        {"annotations": {"metallb.io/loadBalancerIPs": "10.9.9.9"}},
        {"annotations": {"metallb.universe.tf/loadBalancerIPs": "10.9.9.9"}},
        {"spec": {"loadBalancerIP": "10.9.9.9"}},
        {"spec": {"loadBalancerClass": "example.com/other"}},
        {"spec": {"ipFamilies": ["IPv6"]}},
        {"spec": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}},
        {"spec": {"type": "ExternalName"}},
        {"spec": {"type": "ClusterIP"}},
        {"finalizers": ["keep"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=str,
)
async def test_a_service_that_growth_cannot_help_makes_nothing_grow(service_parts: Json) -> None:
    platform, tenant = make_elastic_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        add_service(tenant, "web", **service_parts)
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert read_demand_condition(platform)[0] == "True"


@pytest.mark.parametrize(
    "service_parts",
    [
        {"annotations": {"metallb.io/address-pool": "default-pool"}},
        {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}},
        {"spec": {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack"}},
        {"spec": {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}},
    ],
    ids=str,
)
async def test_a_service_that_growth_can_help_makes_the_tenant_grow(service_parts: Json) -> None:
    platform, tenant = make_elastic_platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        balancer.paused = True
        add_service(tenant, "web", **service_parts)
        await platform.clock.advance(35)
        assert len(list_balancer_ranges(platform)) == 2


async def test_services_that_may_share_an_address_count_once() -> None:
    platform, tenant = make_elastic_platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        balancer.paused = True
        for name in ("http", "https"):
            add_service(tenant, name, annotations={"metallb.io/allow-shared-ip": "web"})
        await platform.clock.advance(35)
        assert len(list_balancer_ranges(platform)) == 2


@pytest.mark.slow
async def test_a_service_that_lost_its_address_waits_as_long_as_a_new_one_before_growth() -> None:
    platform, tenant = make_elastic_platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        await platform.clock.advance(3600)
        balancer.paused = True
        status: Json = {"loadBalancer": {"ingress": [{"ip": find_address(tenant, "one")}]}}
        tenant.edit("services", "one", {"status": {"loadBalancer": None}}, namespace="default")
        add_service(tenant, "three", status=status)
        await platform.clock.advance(25)
        assert len(list_balancer_ranges(platform)) == 1
        await platform.clock.advance(10)
        assert len(list_balancer_ranges(platform)) == 2


async def test_a_tenant_without_free_addresses_grows_after_growth_when_exhausted() -> None:
    platform, tenant = make_elastic_platform(growth_when_exhausted=2.0)
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        add_service(tenant, "three")
        await platform.clock.advance(1.5)
        assert len(list_balancer_ranges(platform)) == 1
        await platform.clock.advance(2.5)
        assert find_address(tenant, "three") is not None


async def test_a_tenant_with_a_free_address_does_not_grow() -> None:
    platform, tenant = make_elastic_platform(growth_when_exhausted=2.0)
    Balancer(tenant, refused_services=("odd",))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one")
        add_service(tenant, "odd")
        await platform.clock.advance(20)
        assert len(list_balancer_ranges(platform)) == 1
        await platform.clock.advance(115)
        assert len(list_balancer_ranges(platform)) == 1
        assert read_demand_condition(platform) == ("False", "AddressesUnused")


async def test_an_elastic_tenant_without_ingress_starts_with_nothing_and_grows() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    spec = {"addons": {"ingress": {"enabled": False}}}
    platform.server.add("tenantclusters", make.tenant(spec=spec))
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        assert list_balancer_ranges(platform) == {}
        assert platform.phase(*TENANT, "team") == "Ready"
        add_service(tenant, "web")
        await platform.clock.advance(32)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb-1"]
        assert find_address(tenant, "web") is not None
        tenant.vanish("services", "web", namespace="default")
        await platform.clock.advance(700)
        assert list_balancer_ranges(platform) == {}
        assert tenant.all("ipaddresspools") == []


async def test_the_lowest_free_index_is_taken_and_a_gap_does_not_stop_growth() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three", "four")
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1", "team-a-lb-2"]
        first = list_balancer_ranges(platform)["team-a-lb-1"]
        name = next(n for n in ("three", "four") if find_address(tenant, n) == first)
        tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(700)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-2"]
        add_service(tenant, "five")
        await platform.clock.advance(35)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1", "team-a-lb-2"]


async def test_a_growth_name_that_another_tenant_uses_gets_a_hash() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    platform.server.add("ipallocations", make.allocation("team-a-lb-1", tenant="x/y", size=1))
    platform.server.add("tenantclusters", make.tenant("y", "x"))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        assert f"team-a-lb-{names.compute_short_hash('team/a')}-1" in list_balancer_ranges(
            platform
        )
        assert find_address(tenant, "three") is not None


@pytest.mark.slow
async def test_growth_that_no_pool_has_room_for_is_reported_and_done_once_there_is_room() -> None:
    platform, tenant = make_elastic_platform(
        make.pool(cidr="10.40.0.0/29"), sizing={"initialPoolSize": 2}
    )
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three", "four")
        assert len(list_balancer_ranges(platform)) == 2
        assert read_demand_condition(platform) == ("False", "PoolExhausted")
        await platform.clock.advance(3650)  # looked at every five minutes by now
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(3)
        assert find_address(tenant, "four") is not None


async def test_a_failed_growth_request_moves_to_a_pool_with_room_and_keeps_its_age() -> None:
    pool, two = make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24")
    platform, tenant = make_elastic_platform(pool, two, backfill_nodes=False)
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        platform.server.add("ipallocations", make.allocation("x", of="one", tenant="x/y", size=1))
        await platform.clock.advance(1)
        stamp = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
        labels = {names.LABEL_ROLE: "growth"}
        stuck = make.allocation(
            "team-a-lb-1", of="one", size=1, age=50, annotations=stamp, labels=labels
        )
        platform.server.add("ipallocations", stuck)
        await platform.clock.advance(2)
        assert platform.phase("ipallocations", "team-a-lb-1") == "Failed"
        add_service(tenant, "three")
        await platform.clock.advance(65)
        moved = platform.server.see("ipallocations", "team-a-lb-1")
        assert moved["spec"]["poolRef"] == {"name": "two"}
        asked = moved["metadata"]["annotations"][names.ANNOTATION_REQUESTED_AT]
        assert asked == "2025-12-31T23:59:10+00:00"
        assert find_address(tenant, "three") is not None


async def test_a_failed_growth_request_moves_as_soon_as_another_pool_has_room() -> None:
    first, two = make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/30")
    platform, tenant = make_elastic_platform(first, two)
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        for pool, size in (("one", 1), ("two", 4)):
            name = f"fills-{pool}"
            filler = make.allocation(name, of=pool, tenant="x/y", size=size)
            platform.server.add("ipallocations", filler)
        await platform.clock.advance(1)
        stamp, labels = {names.ANNOTATION_TENANT_UID: "uid-team-a"}, {names.LABEL_ROLE: "growth"}
        stuck = make.allocation("team-a-lb-1", of="one", size=1, annotations=stamp, labels=labels)
        platform.server.add("ipallocations", stuck)
        add_service(tenant, "three")
        await platform.clock.advance(95)
        assert platform.phase("ipallocations", "team-a-lb-1") == "Failed"
        assert read_demand_condition(platform) == ("False", "PoolExhausted")
        platform.server.delete("ipallocations", "fills-two")
        await platform.clock.advance(2)
        assert list_balancer_ranges(platform)["team-a-lb-1"].startswith("10.41.0.")
        assert find_address(tenant, "three") is not None
