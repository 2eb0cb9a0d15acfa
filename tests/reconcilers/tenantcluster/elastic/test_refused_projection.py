"""A growth range that the tenant refuses is not released, nor remembered as growth in vain."""

import pytest

from controller.errors import Conflict, Forbidden, ServerFailure
from reconcilers.api import names
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.server import Server
from tests.reconcilers.tenantcluster.elastic.site import (
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_annotations,
)

REFUSED = Forbidden(403, "Forbidden", "admission webhook denied the request")


def _refuse_pool_writes(tenant: Server) -> None:
    """Have the tenant's API server refuse every patch of IPAddressPools from now on."""
    tenant.fail(REFUSED, verb="patch", plural="ipaddresspools", times=10**6)


@pytest.mark.slow
async def test_a_range_is_kept_while_the_tenant_refuses_it_and_serves_services_afterwards() -> (
    None
):
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        _refuse_pool_writes(tenant)
        add_service(tenant, "three")
        add_service(tenant, "four")
        await platform.clock.advance(3_600)
        grown = sorted(set(list_balancer_ranges(platform)) - {"team-a-lb"})
        assert grown == ["team-a-lb-1", "team-a-lb-2"], "they are kept for the waiting Services"
        assert names.ANNOTATION_IDLE_SINCE not in read_annotations(platform, "team-a-lb-1")
        cluster = platform.server.see("tenantclusters", "a", namespace="team")
        assert names.ANNOTATION_GROWN_IN_VAIN not in cluster["metadata"].get("annotations", {})

        tenant.recover()
        await platform.clock.advance(90)
        assert None not in {find_address(tenant, name) for name in ("three", "four")}
        assert len(list_pool_entries(tenant)) == 3


async def test_growth_that_did_not_help_is_forgotten_when_the_tenant_accepts_ranges_again() -> (
    None
):
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    balancer = Balancer(tenant, refused_services=("odd",))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "odd")
        await platform.clock.advance(1_000)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"], "growing was in vain"
        meta = {"annotations": {"butler.butlerlabs.dev/projection-basis": None}}
        _refuse_pool_writes(tenant)
        tenant.edit(
            "ipaddresspools", "default-pool", {"metadata": meta}, namespace="metallb-system"
        )
        await platform.clock.advance(400)
        balancer.refused_services = ()
        tenant.recover()
        await platform.clock.advance(400)
        assert find_address(tenant, "odd") is not None


async def test_growth_that_did_not_help_is_forgotten_even_if_the_first_write_conflicts() -> None:
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    balancer = Balancer(tenant, refused_services=("odd",))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "odd")
        await platform.clock.advance(1_000)
        meta = {"annotations": {"butler.butlerlabs.dev/projection-basis": None}}
        _refuse_pool_writes(tenant)
        tenant.edit(
            "ipaddresspools", "default-pool", {"metadata": meta}, namespace="metallb-system"
        )
        await platform.clock.advance(400)
        cluster = platform.server.see("tenantclusters", "a", namespace="team")
        assert names.ANNOTATION_GROWN_IN_VAIN in cluster["metadata"]["annotations"], (
            "growing was in vain"
        )
        balancer.refused_services = ()
        conflict = Conflict(409, "Conflict", "the object has been modified")
        platform.server.fail(conflict, verb="patch", plural="tenantclusters")
        tenant.recover()
        await platform.clock.advance(400)
        cluster = platform.server.see("tenantclusters", "a", namespace="team")
        assert names.ANNOTATION_GROWN_IN_VAIN not in cluster["metadata"]["annotations"]
        assert find_address(tenant, "odd") is not None


@pytest.mark.slow
async def test_a_tenant_that_often_does_not_answer_does_not_get_a_useless_range_each_time() -> (
    None
):
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    Balancer(tenant, refused_services=("odd",))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "odd")
        await platform.clock.advance(1_000)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"], "growing was in vain"
        seen = len(platform.server.history)
        for _ in range(3):
            tenant.fail(ServerFailure(503, "ServiceUnavailable", "starting"), times=3)
            await platform.clock.advance(1_200)
        history = [event for event in platform.server.history[seen:] if event.type == "ADDED"]
        assert "ipallocations" not in {event.plural for event in history}


@pytest.mark.slow
async def test_disuse_of_a_range_counts_from_its_arrival_in_the_tenants_pool() -> None:
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        _refuse_pool_writes(tenant)
        add_service(tenant, "three")
        await platform.clock.advance(1_000)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(10)
        tenant.recover()
        await platform.clock.advance(400)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        await platform.clock.advance(600)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
