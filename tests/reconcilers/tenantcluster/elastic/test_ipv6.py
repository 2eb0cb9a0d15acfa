"""An elastic tenant whose pool is of IPv6 grows and shrinks for Services of IPv6."""

from typing import Any

import pytest

from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, address_of, pool_entries, service
from tests.reconcilers.tenantcluster.elastic.site import (
    balancer_ranges,
    become_ready,
    demand_condition,
    elastic_platform,
)

IPV6: Any = {"spec": {"ipFamilies": ["IPv6"]}}


async def test_a_tenant_of_ipv6_grows_by_the_service_and_gives_back_what_is_unused() -> None:
    platform, tenant = elastic_platform(make.pool(cidr="fd00::/64"), sizing={"initialPoolSize": 1})
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant)
        for name in ("one", "two"):
            service(tenant, name, **IPV6)
        await platform.clock.advance(60)
        grown = balancer_ranges(platform)
        assert list(grown) == ["team-a-lb", "team-a-lb-1"]
        entries = [f"{start}-{start}" for start in grown.values()]
        assert pool_entries(tenant) == entries
        assert {address_of(tenant, name) for name in ("one", "two")} == set(grown.values())
        tenant.delete("services", "two", namespace="default")
        await platform.clock.advance(1200)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        assert pool_entries(tenant) == entries[:1]


@pytest.mark.parametrize(
    ("parts", "asks"),
    [({}, "IPv4"), ({"spec": {"ipFamilies": ["IPv4"]}}, "IPv4")],
    ids=["no family", "IPv4"],
)
async def test_a_service_of_ipv4_is_no_demand_where_the_addresses_are_ipv6(
    parts: Any, asks: str
) -> None:
    platform, tenant = elastic_platform(make.pool(cidr="fd00::/64"))
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant)
        for name in ("one", "two"):
            service(tenant, name, **IPV6)
        service(tenant, "odd", **parts)
        await platform.clock.advance(120)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        assert demand_condition(platform) == ("True", "OtherFamily")


FOUR: Any = {"spec": {"ipFamilies": ["IPv4"]}}
BOTH: Any = {"spec": {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}}
SECOND = {"cidr": "fd00::/124"}


@pytest.mark.parametrize(
    ("pool", "networking", "asks", "held_range"),
    [
        (make.pool(cidr="fd00::/64"), {}, IPV6, ["fd00::5"]),
        (make.pool(secondary=SECOND), {"ipFamilies": ["IPv6"]}, IPV6, ["fd00::5"]),
        (
            make.pool(secondary=SECOND),
            {"ipFamilyPolicy": "RequireDualStack"},
            BOTH,
            ["10.40.0.5"],
        ),
        (make.pool(cidr="fd00::/64"), {}, FOUR, []),
    ],
    ids=["a pool of IPv6", "IPv6 of both", "both", "what no growth brings"],
)
async def test_a_tenant_that_has_nothing_yet_grows_for_what_growth_would_bring(
    pool: Any, networking: Any, asks: Any, held_range: list[str]
) -> None:
    platform, tenant = elastic_platform(pool)
    without = {"networking": networking, "addons": {"ingress": {"enabled": False}}}
    platform.server.edit("tenantclusters", "a", {"spec": without}, namespace="team")
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant)
        assert balancer_ranges(platform) == {}, "without an ingress nothing asks for an address"
        service(tenant, "one", **asks)
        await platform.clock.advance(60)
        assert list(balancer_ranges(platform).values()) == held_range
        assert demand_condition(platform)[1] == ("Ready" if held_range else "OtherFamily")


async def test_a_tenant_that_prefers_both_grows_for_the_second_once_it_has_room() -> None:
    full = make.allocation(
        "full", tenant="team/other", kind="nodes", size=16, asks={"ipFamilies": ["IPv6"]}, age=60
    )
    platform, tenant = elastic_platform(
        make.pool(secondary=SECOND), sizing={"initialPoolSize": 1, "growthIncrement": 1}
    )
    platform.server.add("ipallocations", full)
    prefers = {"networking": {"ipFamilyPolicy": "PreferDualStack"}}
    platform.server.edit("tenantclusters", "a", {"spec": prefers}, namespace="team")
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant)
        service(tenant, "six", **IPV6)
        await platform.clock.advance(120)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        assert demand_condition(platform) == ("True", "OtherFamily")
        platform.server.delete("ipallocations", "full")
        await platform.clock.advance(120)
        assert list(balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert (address_of(tenant, "six") or "").startswith("fd00:")
