"""A pass over an elastic tenant: what it reads and writes, in which mode, and what it costs."""

from controller.errors import NoAnswer, Unauthorized
from reconcilers.api import names
from reconcilers.tenantcluster.reconciler import NAMING_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, address_of, service
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    annotations_of,
    balancer_ranges,
    become_ready,
    demand_condition,
    elastic_platform,
)


async def test_unlabelled_allocations_of_older_controllers_are_given_their_role_once() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    for name, held_range in (
        ("team-a-lb", ("10.40.0.0", "10.40.0.1")),
        ("team-a-lb-1", ("10.40.0.2", "10.40.0.2")),
        ("odd", ("10.40.0.3", "10.40.0.3")),
    ):
        platform.server.add("ipallocations", make.allocation(name, held_range=held_range))
    async with platform.running():
        await platform.clock.advance(5)
        roles = {
            allocation["metadata"]["name"]: allocation["metadata"]["labels"].get(names.LABEL_ROLE)
            for allocation in platform.server.all("ipallocations")
            if allocation["spec"]["type"] == "loadbalancer"
        }
        assert roles == {"team-a-lb": "initial", "team-a-lb-1": "growth", "odd": "initial"}
        patches = platform.server.count(verb="patch", plural="ipallocations", name="odd")
        await platform.clock.advance(300)
        assert platform.server.count(verb="patch", plural="ipallocations", name="odd") == patches


async def test_an_allocation_for_the_next_cluster_of_a_name_is_not_given_the_uid_of_the_last() -> (
    None
):
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant)
        # The cluster was made anew, and the watch has not shown it yet.
        platform.server.objects["tenantclusters", "team", "a"]["metadata"]["uid"] = "the next"
        pinned = make.allocation("pinned", held_range=("10.40.0.40", "10.40.0.41"))
        platform.server.add("ipallocations", pinned)
        await platform.clock.advance(30)
        noted = annotations_of(platform, "pinned").get(names.ANNOTATION_TENANT_UID)
        assert noted in {None, "the next"}
        platform.server.edit("tenantclusters", "a", {"metadata": {"labels": {}}}, namespace="team")
        await platform.clock.advance(300)
        assert annotations_of(platform, "pinned")[names.ANNOTATION_TENANT_UID] == "the next"


async def test_the_platforms_load_balancer_is_labelled() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant)
        meta = {"name": "traefik", "namespace": "traefik"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "ClusterIP"}})
        await platform.clock.advance(61)
        labels = tenant.see("services", "traefik", namespace="traefik")["metadata"].get("labels")
        assert labels == {names.LABEL_PLATFORM_LB: "true"}


async def test_without_metallb_growth_still_runs_beyond_what_waits_to_be_installed() -> None:
    platform, tenant = elastic_platform()
    tenant.served = ("services",)
    async with platform.running():
        await platform.clock.advance(2)
        for number in range(4):
            service(tenant, f"web{number}")
        await platform.clock.advance(100)
        assert platform.phase(*TENANT, "team") == "Installing"
        assert len(balancer_ranges(platform)) == 3, "two of the four could have the first two"


async def test_at_rest_an_elastic_tenant_is_read_once_per_tier_and_nothing_is_written() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        # Until its status names the Services of its ranges.
        await platform.clock.advance(NAMING_SECONDS + 120)
        platform.server.requests.clear()
        tenant.requests.clear()
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(600)
        assert (len(platform.server.history), len(tenant.history)) == writes
        quiet = [r for r in platform.server.requests if r.verb not in {"watch", "list"}]
        assert quiet == []
        assert tenant.count(verb="list", plural="services") == 0, "they are watched"
        assert tenant.count(verb="get") <= 20


async def test_more_tenants_than_watches_are_polled_and_grow_all_the_same() -> None:
    platform, tenant = elastic_platform(service_watches=1)
    other = platform.tenant("b")
    platform.server.add("tenantclusters", make.tenant("b"))
    for tenant_server in (tenant, other):
        Balancer(tenant_server)
    async with platform.running():
        await platform.clock.advance(2)
        for tenant_server in (tenant, other):
            for name in ("one", "two", "three"):
                service(tenant_server, name)
        await platform.clock.advance(125)
        assert address_of(tenant, "three") is not None
        assert address_of(other, "three") is not None
        watching = [
            tenant_server for tenant_server in (tenant, other) if tenant_server.count(verb="watch")
        ]
        assert len(watching) == 1


async def test_a_tenant_that_does_not_answer_does_not_keep_others_from_growing() -> None:
    platform, tenant = elastic_platform()
    silent = platform.tenant("b")
    platform.server.add("tenantclusters", make.tenant("b"))
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two")
        silent.fail(NoAnswer("timed out"), times=100_000)
        service(tenant, "three")
        await platform.clock.advance(32)
        assert address_of(tenant, "three") is not None


async def test_a_service_that_is_served_at_once_costs_the_management_cluster_nothing() -> None:
    platform, tenant = elastic_platform(sizing={"initialPoolSize": 8})
    balancer = Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one")
        balancer.paused = True
        before = len(platform.server.history)
        for number in range(5):
            service(tenant, f"web{number}")
            await platform.clock.advance(2)
        balancer.resume()
        await platform.clock.advance(60)
        assert len(platform.server.history) == before


async def test_in_observe_mode_an_elastic_tenant_grows_and_its_phase_stays_anothers() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    observed = {"managementPolicy": {"mode": "Observe"}}
    platform.server.add("tenantclusters", make.tenant(spec=observed, status={"phase": "Updating"}))
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        assert address_of(tenant, "three") is not None
        assert platform.phase(*TENANT, "team") == "Updating"
        assert demand_condition(platform) == ("True", "Ready")


async def test_a_rotated_kubeconfig_costs_no_growth() -> None:
    platform, tenant = elastic_platform(service_watches=1)
    platform.server.add("tenantclusters", make.tenant("b"))
    other = platform.tenant("b")
    Balancer(tenant)
    Balancer(other)
    async with platform.running():
        await become_ready(platform, tenant)
        for name in ("one", "two", "three"):
            service(other, name)
            service(tenant, name)
        for tenant_server in (tenant, other):
            tenant_server.fail(Unauthorized(401, "Unauthorized", "rotated"), times=1)
        await platform.clock.advance(130)
        assert address_of(tenant, "three") is not None
        assert address_of(other, "three") is not None


async def test_the_platforms_own_load_balancer_is_demand_as_any_other() -> None:
    platform, tenant = elastic_platform()
    balancer = Balancer(tenant)
    labels = {names.LABEL_PLATFORM_LB: "true"}
    async with platform.running():
        await become_ready(platform, tenant, "one", "two")
        balancer.paused = True
        meta = {"name": "traefik", "namespace": "traefik", "labels": labels}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
        await platform.clock.advance(35)
        assert len(balancer_ranges(platform)) == 2
