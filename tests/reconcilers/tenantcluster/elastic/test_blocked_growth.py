"""A tenant does not grow while its MetalLB does not run, and is Ready only once it runs."""

import pytest

from reconcilers.api import names
from tests.reconcilers.balancer import Balancer, add_service, find_address
from tests.reconcilers.lab import TENANT_KINDS
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
)

COUNTING = (*TENANT_KINDS, "servicebgpstatuses")


def _make_counting_tenant() -> tuple[Platform, Server, Balancer]:
    """Return a platform, its tenant, and the tenant's MetalLB, which counts addresses of pools."""
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    tenant.served = COUNTING
    return platform, tenant, Balancer(tenant, counts_addresses=True)


def _read_ready_condition(platform: Platform) -> tuple[str, str]:
    """Return status and reason of the tenant's condition LoadBalancerReady."""
    conditions: list[Json] = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
    condition = next(
        candidate for candidate in conditions if candidate["type"] == "LoadBalancerReady"
    )
    return condition["status"], condition["reason"]


async def test_a_cluster_is_not_ready_before_metallb_runs_and_does_not_grow_meanwhile() -> None:
    platform, tenant, metallb = _make_counting_tenant()
    metallb.paused = True
    async with platform.running():
        add_service(tenant, "web")
        await platform.clock.advance(600)
        assert platform.phase("tenantclusters", "a", "team") == "Installing"
        assert _read_ready_condition(platform) == ("False", "MetalLBNotRunning")
        assert read_demand_condition(platform) == ("False", "NotProjected")
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        metallb.resume()
        await platform.clock.advance(3)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        assert find_address(tenant, "web") is not None
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert read_demand_condition(platform) == ("True", "Ready")


async def test_many_services_make_nothing_grow_while_metallb_is_down() -> None:
    platform, tenant, metallb = _make_counting_tenant()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        metallb.paused = True
        for number in range(21):
            add_service(tenant, f"web-{number}")
        await platform.clock.advance(600)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"], "two addresses lie unused"
        assert read_demand_condition(platform) == ("False", "AddressesUnused")
        metallb.resume()
        await platform.clock.advance(300)
        assert None not in {find_address(tenant, f"web-{number}") for number in range(21)}


@pytest.mark.slow
async def test_a_range_in_the_pool_of_a_metallb_that_is_down_is_kept() -> None:
    platform, tenant, metallb = _make_counting_tenant()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        metallb.paused = True
        add_service(tenant, "three")
        await platform.clock.advance(45)
        assert len(list_balancer_ranges(platform)) == 2, (
            "the pool was full, and MetalLB seemed to run"
        )
        await platform.clock.advance(3600)
        assert len(list_balancer_ranges(platform)) == 2, "neither more nor less"
        assert _read_ready_condition(platform) == ("False", "MetalLBNotRunning")
        cluster = platform.server.see(*TENANT, namespace="team")
        assert names.ANNOTATION_GROWN_IN_VAIN not in cluster["metadata"]["annotations"]
        metallb.resume()
        await platform.clock.advance(5)
        assert find_address(tenant, "three") is not None
        assert _read_ready_condition(platform) == ("True", "Ready")


async def test_a_metallb_that_reads_a_range_half_a_minute_late_changes_no_condition() -> None:
    platform, tenant, metallb = _make_counting_tenant()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        seen = len(platform.server.history)
        metallb.paused = True
        add_service(tenant, "three")
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
        assert find_address(tenant, "three") is not None


async def test_where_metallb_is_not_installed_a_tenant_grows_once_services_outnumber_addresses() -> (  # noqa: E501
    None
):
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    tenant.served = ("services",)
    async with platform.running():
        for number in range(2):
            add_service(tenant, f"web-{number}")
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"], (
            "two addresses for two Services"
        )
        add_service(tenant, "more")
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert platform.phase("tenantclusters", "a", "team") == "Installing"
