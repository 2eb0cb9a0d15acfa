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
