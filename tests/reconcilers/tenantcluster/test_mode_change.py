"""The ProviderConfig of a tenant changes its network mode from ipam to cloud, and back."""

from reconcilers.api import names
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
)

CONDITIONS = {"NetworkReady", "LoadBalancerReady", "LoadBalancerDemandMet", "Ready"}
"""Types of conditions that a tenant has in ipam mode."""


def _set_mode(platform: Platform, mode: str) -> None:
    """Set spec.network.mode of the ProviderConfig."""
    platform.server.edit("providerconfigs", "default", {"spec": {"network": {"mode": mode}}})


def _read_conditions(platform: Platform) -> dict[str, Json]:
    """Return the conditions of the TenantCluster that are among CONDITIONS, by type."""
    status = platform.server.see(*TENANT, namespace="team")["status"]
    conditions: list[Json] = status["conditions"]
    return {
        condition["type"]: condition for condition in conditions if condition["type"] in CONDITIONS
    }


def _make_platform() -> tuple[Platform, Server]:
    """Return a platform that is not running yet, and its elastic tenant, which runs MetalLB."""
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    return platform, tenant


async def test_in_cloud_mode_ranges_stay_and_the_tenants_pool_is_still_corrected() -> None:
    platform, tenant = _make_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        held_ranges, entries = list_balancer_ranges(platform), list_pool_entries(tenant)
        _set_mode(platform, "cloud")
        await platform.clock.advance(5)
        conditions = _read_conditions(platform)
        assert set(conditions) == {"NetworkReady", "LoadBalancerReady", "Ready"}
        assert "team-a-lb, team-a-lb-1" in conditions["NetworkReady"]["message"]
        assert conditions["LoadBalancerReady"]["status"] == "True"
        tenant.edit(
            "ipaddresspools",
            "default-pool",
            {"spec": {"autoAssign": False}},
            namespace="metallb-system",
        )
        add_service(tenant, "four")
        await platform.clock.advance(1_000)
        assert list_balancer_ranges(platform) == held_ranges, "it neither grows nor shrinks"
        assert list_pool_entries(tenant) == entries
        pool = tenant.see("ipaddresspools", "default-pool", namespace="metallb-system")
        assert "autoAssign" not in pool["spec"]

        _set_mode(platform, "ipam")
        await platform.clock.advance(40)
        assert set(_read_conditions(platform)) == CONDITIONS
        assert list_balancer_ranges(platform).items() >= held_ranges.items()
        assert find_address(tenant, "four") is not None, "it grows again"


async def test_an_allocation_that_is_deleted_in_cloud_mode_is_removed_from_the_tenant_too() -> (
    None
):
    platform, tenant = _make_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one")
        _set_mode(platform, "cloud")
        await platform.clock.advance(5)
        platform.server.delete("ipallocations", "team-a-lb")
        await platform.clock.advance(30)
        assert list_balancer_ranges(platform) == {}
        assert tenant.all("ipaddresspools") == []
        assert tenant.all("l2advertisements") == []
        assert set(_read_conditions(platform)) == {"NetworkReady", "Ready"}
        assert _read_conditions(platform)["NetworkReady"]["message"] == "cloud networking mode"
        status = platform.server.see(*TENANT, namespace="team")["status"]
        assert status.get("lbAllocationRef") is None
        tenant.requests.clear()
        await platform.clock.advance(1_000)
        written = [request for request in tenant.requests if request.verb not in {"list", "watch"}]
        assert written == [], "the tenant is not touched any more"

        _set_mode(platform, "ipam")
        await platform.clock.advance(10)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert len(list_pool_entries(tenant)) == 1


async def test_a_range_that_is_marked_for_release_is_released_in_cloud_mode() -> None:
    platform, tenant = _make_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        _set_mode(platform, "cloud")
        await platform.clock.advance(5)
        grown = list_balancer_ranges(platform)["team-a-lb-1"]
        name = next(n for n in ("one", "two", "three") if find_address(tenant, n) == grown)
        tenant.vanish("services", name, namespace="default")
        mark: Json = {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}
        platform.server.edit("ipallocations", "team-a-lb-1", {"metadata": mark})
        await platform.clock.advance(30)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert len(list_pool_entries(tenant)) == 1


async def test_a_marked_range_that_a_service_uses_stays_in_cloud_mode() -> None:
    platform, tenant = _make_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        _set_mode(platform, "cloud")
        await platform.clock.advance(5)
        entries, events_before = list_pool_entries(tenant), len(tenant.history)
        mark: Json = {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}
        platform.server.edit("ipallocations", "team-a-lb-1", {"metadata": mark})
        await platform.clock.advance(5)
        assert len(entries) == 2
        pools = [h.object for h in tenant.history[events_before:] if h.plural == "ipaddresspools"]
        assert [pool["spec"]["addresses"] for pool in pools] == [entries] * len(pools)
        allocation = platform.server.see("ipallocations", "team-a-lb-1")
        assert names.ANNOTATION_RELEASING not in allocation["metadata"]["annotations"]


async def test_requests_without_a_range_are_deleted_in_cloud_mode() -> None:
    platform, tenant = make_elastic_platform(make.pool(cidr="10.40.0.0/30"))
    async with platform.running():
        stamp = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
        stuck = make.allocation("team-a-lb", size=99, annotations=stamp)
        platform.server.add("ipallocations", stuck)
        await platform.clock.advance(5)
        assert platform.phase("ipallocations", "team-a-lb") == "Failed"
        _set_mode(platform, "cloud")
        await platform.clock.advance(10)
        assert platform.server.all("ipallocations") == []
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        assert tenant.all("ipaddresspools") == []


async def test_an_allocation_made_by_hand_in_cloud_mode_is_not_written_to_the_tenant() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    _set_mode(platform, "cloud")
    allocation = make.allocation("mine", pin=("10.40.0.0", "10.40.0.3"))
    async with platform.running():
        platform.server.add("ipallocations", allocation)
        add_service(tenant, "web")
        await platform.clock.advance(60)
        assert list(list_balancer_ranges(platform)) == ["mine"]
        assert platform.phase("tenantclusters", "a", "team") == "Ready"
        platform.server.delete("tenantclusters", "a", namespace="team")
        await platform.clock.advance(60)
        assert not platform.server.has(*TENANT, namespace="team")
        assert list_balancer_ranges(platform) == {}
        assert find_address(tenant, "web") is None, "otherwise it would show a free address"
        assert tenant.requests == []
