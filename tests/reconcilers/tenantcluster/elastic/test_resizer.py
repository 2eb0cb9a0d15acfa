"""A pass over an elastic tenant: what it reads and writes, in which mode, and what it costs."""

from controller.errors import NoAnswer, Unauthorized
from reconcilers.api import names
from reconcilers.tenantcluster.reconciler import NAMING_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_annotations,
    read_demand_condition,
)


async def test_unlabelled_allocations_of_older_controllers_are_given_their_role_once() -> None:
    platform, tenant = make_elastic_platform()
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


async def test_an_allocation_for_a_recreated_cluster_does_not_get_the_uid_of_the_earlier_one() -> (
    None
):
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        # The cluster was recreated, and the watch has not shown it yet.
        platform.server.objects["tenantclusters", "team", "a"]["metadata"]["uid"] = "the next"
        pinned = make.allocation("pinned", held_range=("10.40.0.40", "10.40.0.41"))
        platform.server.add("ipallocations", pinned)
        await platform.clock.advance(30)
        noted = read_annotations(platform, "pinned").get(names.ANNOTATION_TENANT_UID)
        assert noted in {None, "the next"}
        platform.server.edit("tenantclusters", "a", {"metadata": {"labels": {}}}, namespace="team")
        await platform.clock.advance(300)
        assert read_annotations(platform, "pinned")[names.ANNOTATION_TENANT_UID] == "the next"


async def test_the_service_of_the_platforms_ingress_gets_a_label() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        meta = {"name": "traefik", "namespace": "traefik"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "ClusterIP"}})
        await platform.clock.advance(61)
        labels = tenant.see("services", "traefik", namespace="traefik")["metadata"].get("labels")
        assert labels == {names.LABEL_PLATFORM_LB: "true"}


async def test_without_metallb_a_tenant_grows_by_services_beyond_its_first_addresses() -> None:
    platform, tenant = make_elastic_platform()
    tenant.served = ("services",)
    async with platform.running():
        await platform.clock.advance(2)
        for number in range(4):
            add_service(tenant, f"web{number}")
        await platform.clock.advance(100)
        assert platform.phase(*TENANT, "team") == "Installing"
        assert len(list_balancer_ranges(platform)) == 3, (
            "the first range has two addresses for two of the four Services"
        )


async def test_at_rest_an_elastic_tenant_is_read_rarely_and_nothing_is_written() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        # By then its status names the Services of its ranges, which is a write.
        await platform.clock.advance(NAMING_SECONDS + 120)
        platform.server.requests.clear()
        tenant.requests.clear()
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(600)
        assert (len(platform.server.history), len(tenant.history)) == writes
        unexpected = [r for r in platform.server.requests if r.verb not in {"watch", "list"}]
        assert unexpected == []
        assert tenant.count(verb="list", plural="services") == 0, "Services are watched"
        assert tenant.count(verb="get") <= 20


async def test_more_tenants_than_watches_are_polled_and_grow_all_the_same() -> None:
    platform, tenant = make_elastic_platform(service_watches=1)
    other = platform.tenant("b")
    platform.server.add("tenantclusters", make.tenant("b"))
    for tenant_server in (tenant, other):
        Balancer(tenant_server)
    async with platform.running():
        await platform.clock.advance(2)
        for tenant_server in (tenant, other):
            for name in ("one", "two", "three"):
                add_service(tenant_server, name)
        await platform.clock.advance(125)
        assert find_address(tenant, "three") is not None
        assert find_address(other, "three") is not None
        watching = [
            tenant_server for tenant_server in (tenant, other) if tenant_server.count(verb="watch")
        ]
        assert len(watching) == 1


async def test_a_tenant_that_does_not_answer_does_not_keep_others_from_growing() -> None:
    platform, tenant = make_elastic_platform()
    silent = platform.tenant("b")
    platform.server.add("tenantclusters", make.tenant("b"))
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        silent.fail(NoAnswer("timed out"), times=100_000)
        add_service(tenant, "three")
        await platform.clock.advance(32)
        assert find_address(tenant, "three") is not None


async def test_a_service_that_is_served_at_once_costs_the_management_cluster_nothing() -> None:
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 8})
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one")
        balancer.paused = True
        before = len(platform.server.history)
        for number in range(5):
            add_service(tenant, f"web{number}")
            await platform.clock.advance(2)
        balancer.resume()
        await platform.clock.advance(60)
        assert len(platform.server.history) == before


async def test_in_observe_mode_an_elastic_tenant_grows_and_its_phase_is_not_written() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    observed = {"managementPolicy": {"mode": "Observe"}}
    platform.server.add("tenantclusters", make.tenant(spec=observed, status={"phase": "Updating"}))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        assert find_address(tenant, "three") is not None
        assert platform.phase(*TENANT, "team") == "Updating"
        assert read_demand_condition(platform) == ("True", "Ready")


async def test_tenants_grow_although_their_kubeconfigs_are_rotated_meanwhile() -> None:
    platform, tenant = make_elastic_platform(service_watches=1)
    platform.server.add("tenantclusters", make.tenant("b"))
    other = platform.tenant("b")
    Balancer(tenant)
    Balancer(other)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        for name in ("one", "two", "three"):
            add_service(other, name)
            add_service(tenant, name)
        for tenant_server in (tenant, other):
            tenant_server.fail(Unauthorized(401, "Unauthorized", "rotated"), times=1)
        await platform.clock.advance(130)
        assert find_address(tenant, "three") is not None
        assert find_address(other, "three") is not None


async def test_a_waiting_service_of_the_platform_makes_its_tenant_grow() -> None:
    platform, tenant = make_elastic_platform()
    balancer = Balancer(tenant)
    labels = {names.LABEL_PLATFORM_LB: "true"}
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        balancer.paused = True
        meta = {"name": "traefik", "namespace": "traefik", "labels": labels}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
        await platform.clock.advance(35)
        assert len(list_balancer_ranges(platform)) == 2
