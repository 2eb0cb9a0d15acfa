"""Tenants that wait or fail are logged when that begins, changes or ends, not in each pass."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from structlog.testing import capture_logs

from controller.errors import NoAnswer
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.platform import Platform
from tests.reconcilers.tenantcluster.elastic.site import (
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
)

SERVED, WAITING = 4, 17
"""The numbers of clusters that the pool has room for, and of those that wait."""


def _count_events(lines: Iterable[Any]) -> Counter[str]:
    """Return the numbers of log lines above the level debug, by their text."""
    return Counter(line["event"] for line in lines if line["log_level"] != "debug")


def _make_platform(clusters: int) -> Platform:
    """Return a platform with clusters and a pool that has room for SERVED of them."""
    platform = Platform()
    platform.server.add("networkpools", make.pool(cidr="10.40.0.0/26"))
    platform.server.add("providerconfigs", make.provider("lab"))
    for number in range(clusters):
        name = f"c{number:02}"
        Balancer(platform.tenant(name))
        platform.server.add("tenantclusters", make.tenant(name))
    return platform


async def test_clusters_that_wait_are_logged_once_and_a_tenant_without_an_answer_too() -> None:
    platform = _make_platform(SERVED + WAITING)
    with capture_logs() as start:
        async with platform.running():
            await platform.clock.advance(120)
            assert _count_events(start)["Blocked"] <= SERVED * 2 + WAITING
            with capture_logs() as lines:
                await platform.clock.advance(600)
            assert _count_events(lines) == {}
            with capture_logs() as lines:
                platform.tenants["c00"].fail(NoAnswer("timed out"), times=1000)
                await platform.clock.advance(600)
            assert _count_events(lines) == {"cannot get tenant client, skipping": 1, "Blocked": 1}
            with capture_logs() as lines:
                platform.tenants["c00"].recover()
                platform.tenants["c00"].fail(NoAnswer("connection refused"), times=1000)
                await platform.clock.advance(600)
            assert _count_events(lines) == {"cannot get tenant client, skipping": 1}
            with capture_logs() as lines:
                platform.tenants["c00"].recover()
                await platform.clock.advance(600)
            assert _count_events(lines) == {
                "the tenant's client works again": 1,
                "No longer blocked": 1,
            }


async def test_growth_that_the_quota_stops_is_logged_once() -> None:
    platform, tenant = make_elastic_platform(quota={"maxLoadBalancerIPs": 2})
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "first", "second")
        with capture_logs() as lines:
            add_service(tenant, "third")
            await platform.clock.advance(3600)
        assert read_demand_condition(platform) == ("False", "QuotaExceeded")
        assert _count_events(lines) == {"elastic IPAM growth blocked by quota": 1}


async def test_that_a_cluster_waits_is_logged_again_once_it_was_deleted_and_created() -> None:
    platform = _make_platform(SERVED + 1)
    async with platform.running():
        await platform.clock.advance(120)
        [waiting] = [
            cluster["metadata"]["name"]
            for cluster in platform.server.all("tenantclusters")
            if cluster["status"]["network"].get("waiting")
        ]
        platform.server.delete("tenantclusters", waiting, namespace="team")
        await platform.clock.advance(60)
        with capture_logs() as lines:
            platform.server.add("tenantclusters", make.tenant(waiting))
            await platform.clock.advance(60)
        assert _count_events(lines)["Blocked"] == 1
