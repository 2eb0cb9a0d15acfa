"""An elastic tenant whose pool is of IPv6 grows and shrinks for Services of IPv6."""

from typing import Any

import pytest

from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.tenantcluster.elastic.site import (
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
)

IPV6: Any = {"spec": {"ipFamilies": ["IPv6"]}}


async def test_an_ipv6_tenant_grows_for_a_service_and_releases_the_range_after_its_deletion() -> (
    None
):
    platform, tenant = make_elastic_platform(
        make.pool(cidr="fd00::/64"), sizing={"initialPoolSize": 1}
    )
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        for name in ("one", "two"):
            add_service(tenant, name, **IPV6)
        await platform.clock.advance(60)
        grown = list_balancer_ranges(platform)
        assert list(grown) == ["team-a-lb", "team-a-lb-1"]
        entries = [f"{start}-{start}" for start in grown.values()]
        assert list_pool_entries(tenant) == entries
        assert {find_address(tenant, name) for name in ("one", "two")} == set(grown.values())
        tenant.delete("services", "two", namespace="default")
        await platform.clock.advance(1200)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert list_pool_entries(tenant) == entries[:1]


@pytest.mark.parametrize(
    "service_parts",
    [{}, {"spec": {"ipFamilies": ["IPv4"]}}],
    ids=["no family", "IPv4"],
)
async def test_an_ipv4_service_makes_nothing_grow_where_the_addresses_are_ipv6(
    service_parts: Any,
) -> None:
    platform, tenant = make_elastic_platform(make.pool(cidr="fd00::/64"))
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        for name in ("one", "two"):
            add_service(tenant, name, **IPV6)
        add_service(tenant, "odd", **service_parts)
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert read_demand_condition(platform) == ("True", "OtherFamily")


IPV4: Any = {"spec": {"ipFamilies": ["IPv4"]}}
BOTH: Any = {"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}}
SECONDARY = {"cidr": "fd00::/124"}


@pytest.mark.parametrize(
    ("pool", "networking", "service_parts", "held_range"),
    [
        (make.pool(cidr="fd00::/64"), {}, IPV6, ["fd00::5"]),
        (make.pool(secondary=SECONDARY), {"ipFamilies": ["IPv6"]}, IPV6, ["fd00::5"]),
        (
            make.pool(secondary=SECONDARY),
            {"ipFamilyPolicy": "RequireDualStack"},
            BOTH,
            ["10.40.0.5"],
        ),
        (make.pool(cidr="fd00::/64"), {}, IPV4, []),
    ],
    ids=[
        "IPv6 from an IPv6 pool",
        "IPv6 from a dual-stack pool",
        "both families from a dual-stack pool",
        "IPv4 from an IPv6 pool",
    ],
)
async def test_a_tenant_without_addresses_grows_for_a_service_only_in_families_it_can_get(
    pool: Any, networking: Any, service_parts: Any, held_range: list[str]
) -> None:
    platform, tenant = make_elastic_platform(pool)
    without = {"networking": networking, "addons": {"ingress": {"enabled": False}}}
    platform.server.edit("tenantclusters", "a", {"spec": without}, namespace="team")
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        assert list_balancer_ranges(platform) == {}, (
            "without an ingress nothing asks for an address"
        )
        add_service(tenant, "one", **service_parts)
        await platform.clock.advance(60)
        assert list(list_balancer_ranges(platform).values()) == held_range
        assert read_demand_condition(platform)[1] == ("Ready" if held_range else "OtherFamily")


async def test_a_tenant_that_prefers_both_families_grows_in_ipv6_once_the_pool_has_room() -> None:
    full = make.allocation(
        "full", tenant="team/other", kind="nodes", size=16, asks={"ipFamilies": ["IPv6"]}, age=60
    )
    platform, tenant = make_elastic_platform(
        make.pool(secondary=SECONDARY), sizing={"initialPoolSize": 1, "growthIncrement": 1}
    )
    platform.server.add("ipallocations", full)
    prefers = {"networking": {"ipFamilyPolicy": "PreferDualStack"}}
    platform.server.edit("tenantclusters", "a", {"spec": prefers}, namespace="team")
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        add_service(tenant, "six", **IPV6)
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert read_demand_condition(platform) == ("True", "OtherFamily")
        platform.server.delete("ipallocations", "full")
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert (find_address(tenant, "six") or "").startswith("fd00:")
