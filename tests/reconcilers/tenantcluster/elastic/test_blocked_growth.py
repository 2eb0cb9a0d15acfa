"""No growth while more addresses would not be handed out; Ready waits for a MetalLB that runs."""

import pytest

from reconcilers.api import names
from tests.reconcilers.balancer import Balancer, address_of, service
from tests.reconcilers.lab import TENANT_KINDS
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    balancer_ranges,
    become_ready,
    demand_condition,
    elastic_platform,
)

COUNTING = (*TENANT_KINDS, "servicebgpstatuses")


def _counting() -> tuple[Platform, Server, Balancer]:
    """Return a platform whose tenant has a MetalLB that shows what it has read."""
    platform, tenant = elastic_platform(sizing={"initialPoolSize": 2})
    tenant.served = COUNTING
    return platform, tenant, Balancer(tenant, counts=True)


def _ready(platform: Platform) -> tuple[str, str]:
    conditions: list[Json] = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
    condition = next(
        candidate for candidate in conditions if candidate["type"] == "LoadBalancerReady"
    )
    return condition["status"], condition["reason"]


async def test_a_cluster_is_not_ready_before_metallb_runs_and_does_not_grow_meanwhile() -> None:
    platform, tenant, metallb = _counting()
    metallb.paused = True
    async with platform.running():
        service(tenant, "web")
        await platform.clock.advance(600)
        assert platform.phase("tenantclusters", "a", "team") == "Installing"
        assert _ready(platform) == ("False", "MetalLBNotRunning")
        assert demand_condition(platform) == ("False", "NotProjected")
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        metallb.resume()
        await platform.clock.advance(3)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        assert address_of(tenant, "web") is not None
        await platform.clock.advance(120)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        assert demand_condition(platform) == ("True", "Ready")


async def test_many_services_make_nothing_grow_while_metallb_is_down() -> None:
    platform, tenant, metallb = _counting()
    async with platform.running():
        await become_ready(platform, tenant)
        metallb.paused = True
        for number in range(21):
            service(tenant, f"web-{number}")
        await platform.clock.advance(600)
        assert list(balancer_ranges(platform)) == ["team-a-lb"], "two addresses lie unused"
        assert demand_condition(platform) == ("False", "AddressesUnused")
        metallb.resume()
        await platform.clock.advance(300)
        assert None not in {address_of(tenant, f"web-{number}") for number in range(21)}


@pytest.mark.slow
async def test_a_range_that_stands_in_the_pool_of_a_metallb_that_is_down_is_kept() -> None:
    platform, tenant, metallb = _counting()
    async with platform.running():
        await become_ready(platform, tenant, "one", "two")
        metallb.paused = True
        service(tenant, "three")
        await platform.clock.advance(45)
        assert len(balancer_ranges(platform)) == 2, "the pool was full, and MetalLB seemed to run"
        await platform.clock.advance(3600)
        assert len(balancer_ranges(platform)) == 2, "neither more nor less"
        assert _ready(platform) == ("False", "MetalLBNotRunning")
        cluster = platform.server.see(*TENANT, namespace="team")
        assert names.ANNOTATION_GROWN_IN_VAIN not in cluster["metadata"]["annotations"]
        metallb.resume()
        await platform.clock.advance(5)
        assert address_of(tenant, "three") is not None
        assert _ready(platform) == ("True", "Ready")


async def test_what_metallb_reads_within_a_moment_changes_no_condition() -> None:
    platform, tenant, metallb = _counting()
    async with platform.running():
        await become_ready(platform, tenant, "one", "two")
        seen = len(platform.server.history)
        metallb.paused = True
        service(tenant, "three")
        await platform.clock.advance(33)
        metallb.resume()
        await platform.clock.advance(60)
        status = {
            condition["status"]
            for happening in platform.server.history[seen:]
            if happening.plural == "tenantclusters"
            for condition in happening.object["status"]["conditions"]
            if condition["type"] == "LoadBalancerReady"
        }
        assert status == {"True"}
        assert address_of(tenant, "three") is not None


async def test_where_metallb_is_missing_a_tenant_grows_by_what_it_does_not_hold() -> None:
    platform, tenant = elastic_platform(sizing={"initialPoolSize": 2})
    tenant.served = ("services",)
    async with platform.running():
        for number in range(2):
            service(tenant, f"web-{number}")
        await platform.clock.advance(120)
        assert list(balancer_ranges(platform)) == ["team-a-lb"], "two addresses for two Services"
        service(tenant, "more")
        await platform.clock.advance(120)
        assert list(balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert platform.phase("tenantclusters", "a", "team") == "Installing"
