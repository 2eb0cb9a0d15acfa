"""Growth ranges out of use are released, and growth that did not help is not repeated."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from controller.errors import NoAnswer
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.tenantcluster.elastic.decisions import Disuse, decide_size, measure_disuse
from reconcilers.tenantcluster.elastic.demand import compute_demand
from reconcilers.tenantcluster.reconciler import NAMING_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service, find_address, list_pool_entries
from tests.reconcilers.server import Json
from tests.reconcilers.tenantcluster.elastic.facts import (
    KIND,
    make_range_facts,
    make_service,
    make_size_facts,
)
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_annotations,
    read_demand_condition,
)


async def test_quota_reached_is_reported_and_stops_neither_shrink_nor_sync() -> None:
    platform, tenant = make_elastic_platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        await platform.clock.advance(10)
        assert len(list_balancer_ranges(platform)) == 2
        add_service(tenant, "four", spec={"ipFamilies": ["IPv4"]})
        await platform.clock.advance(60)
        assert len(list_balancer_ranges(platform)) == 2
        assert read_demand_condition(platform) == ("False", "QuotaExceeded")
        edited = {"spec": {"addresses": ["10.99.0.0/24"]}}
        tenant.edit("ipaddresspools", "default-pool", edited, namespace="metallb-system")
        await platform.clock.advance(301)
        assert len(list_pool_entries(tenant)) == 2
        for name in ("one", "two", "three", "four"):
            tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(700)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]


async def test_a_range_is_released_even_if_its_metallb_does_not_count_addresses() -> None:
    platform, tenant = make_elastic_platform(metallb_wait=10.0)
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(700)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]


async def test_shrink_is_logged_as_the_documentation_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(700)
    assert "shrinking unused allocation" in capsys.readouterr().out


@pytest.mark.slow
async def test_shrink_takes_ten_minutes_of_disuse_and_removes_the_range_from_the_tenant_first() -> (  # noqa: E501
    None
):
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(590)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert names.ANNOTATION_IDLE_SINCE in read_annotations(platform, "team-a-lb-1")
        events_before = len(tenant.history), len(platform.server.history)
        await platform.clock.advance(15)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert list_pool_entries(tenant) == ["10.40.0.0-10.40.0.1"]
    writes = [
        h for h in platform.server.history[events_before[1] :] if h.plural == "ipallocations"
    ]
    marked = [
        h for h in writes if names.ANNOTATION_RELEASING in h.object["metadata"]["annotations"]
    ]
    assert "deletionTimestamp" not in marked[0].object["metadata"], "it is marked, then deleted"
    assert tenant.history[events_before[0]].plural == "ipaddresspools"


@pytest.mark.slow
async def test_the_ten_minutes_of_disuse_start_again_after_a_service_used_an_address() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(400)
        add_service(tenant, "four")
        await platform.clock.advance(5)
        assert names.ANNOTATION_IDLE_SINCE not in read_annotations(platform, "team-a-lb-1")
        tenant.vanish("services", "four", namespace="default")
        await platform.clock.advance(400)
        assert len(list_balancer_ranges(platform)) == 2
        await platform.clock.advance(220)
        assert len(list_balancer_ranges(platform)) == 1


@pytest.mark.slow
async def test_disuse_is_remembered_through_a_restart() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(400)
    await platform.clock.advance(190)
    async with platform.running():
        await platform.clock.advance(5)
        assert len(list_balancer_ranges(platform)) == 2
        await platform.clock.advance(10)
        assert len(list_balancer_ranges(platform)) == 1


@pytest.mark.slow
async def test_first_and_pinned_ranges_are_never_released_for_disuse() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    pin = ("10.40.0.200", "10.40.0.201")
    pinned = make.allocation("team-a-lb-7", pin=pin, labels={names.LABEL_ROLE: "growth"})
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        platform.server.add("ipallocations", pinned)
        await platform.clock.advance(3600)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-7"]


@pytest.mark.slow
async def test_growth_that_did_not_serve_a_service_is_not_repeated_for_that_service() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant, refused_services=("odd",))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "odd")
        assert len(list_balancer_ranges(platform)) == 2
        await platform.clock.advance(700)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert read_demand_condition(platform) == ("False", "GrownInVain")
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes, "at rest"


async def test_growth_is_tried_again_when_a_service_changes_what_it_asks_for() -> None:
    platform, tenant = make_elastic_platform()
    balancer = Balancer(tenant, refused_services=("odd",))
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "odd")
        await platform.clock.advance(700)
        balancer.refused_services = ()
        marks = {"metadata": {"annotations": {"metallb.io/address-pool": "default-pool"}}}
        tenant.edit("services", "odd", marks, namespace="default")
        await platform.clock.advance(35)
        assert find_address(tenant, "odd") is not None


async def test_growth_is_tried_again_once_metallb_hands_out_more_addresses() -> None:
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2})
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one")
        balancer.paused = True
        for name in ("two", "three"):
            add_service(tenant, name)
        await platform.clock.advance(1500)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        balancer.resume()
        await platform.clock.advance(60)
        assert all(find_address(tenant, name) for name in ("two", "three"))


async def test_a_mark_for_release_is_withdrawn_if_a_service_took_an_address() -> None:
    platform, tenant = make_elastic_platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        balancer.paused = True
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(5)
        assert names.ANNOTATION_RELEASING not in read_annotations(platform, "team-a-lb-1")
        assert len(list_pool_entries(tenant)) == 2
        assert find_address(tenant, "three") is not None


async def test_a_marked_range_that_a_service_uses_is_not_removed_from_the_pool() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three")
        entries, events_before = list_pool_entries(tenant), len(tenant.history)
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(5)
        assert names.ANNOTATION_RELEASING not in read_annotations(platform, "team-a-lb-1")
        assert len(entries) == 2
        pools = [h.object for h in tenant.history[events_before:] if h.plural == "ipaddresspools"]
        assert [pool["spec"]["addresses"] for pool in pools] == [entries] * len(pools)


async def test_a_mark_for_release_is_withdrawn_if_a_service_waits_for_an_address() -> None:
    platform, tenant = make_elastic_platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    held_range = ("10.40.0.64", "10.40.0.64")
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two")
        mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
        labels = {names.LABEL_ROLE: "growth"}
        tenant.fail(NoAnswer("timed out"), times=10_000)  # so that no check confirms the release
        marked = make.allocation(
            "team-a-lb-1", held_range=held_range, annotations=mark, labels=labels
        )
        platform.server.add("ipallocations", marked)
        add_service(tenant, "three")
        await platform.clock.advance(20)
        assert names.ANNOTATION_RELEASING in read_annotations(platform, "team-a-lb-1")
        await platform.clock.advance(20)
        assert names.ANNOTATION_RELEASING not in read_annotations(platform, "team-a-lb-1")
        assert len(list_balancer_ranges(platform)) == 2


async def test_a_tenant_that_becomes_static_keeps_its_ranges_and_releases_a_marked_one() -> None:
    platform, tenant = make_elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "one", "two", "three", "four")
        static: Json = {"spec": {"network": {"loadBalancer": {"allocationMode": "static"}}}}
        first = list_balancer_ranges(platform)["team-a-lb-1"]
        name = next(n for n in ("three", "four") if find_address(tenant, n) == first)
        tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(5)
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("providerconfigs", "default", static)
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(1200)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-2"]
        conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
        [met] = [
            condition for condition in conditions if condition["type"] == "LoadBalancerDemandMet"
        ]
        assert (met["status"], met["reason"]) == ("True", "Ready")


@pytest.mark.slow
async def test_a_tenant_whose_addresses_are_all_in_use_neither_grows_nor_shrinks() -> None:
    """Growth by a threshold of free addresses would grow and shrink in turn here."""
    platform, tenant = make_elastic_platform(sizing={"initialPoolSize": 2, "growthIncrement": 1})
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "traefik", "web")
        # By then its status names the Services of its ranges, which is a write.
        await platform.clock.advance(NAMING_SECONDS + 120)
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes


def test_a_range_is_out_of_use_only_after_half_a_minute_in_the_tenants_pool() -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    grown = make.allocation("team-a-lb-1", size=2, creationTimestamp=created.isoformat())
    holder = make.allocation(
        "team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), creationTimestamp=created.isoformat()
    )
    later = created + timedelta(hours=1)

    def measure(allocation: IPAllocation, in_pool: float | None) -> Disuse:
        part = make_range_facts(allocation, in_pool=in_pool)
        return measure_disuse(make_size_facts([part], now=later), part)

    assert measure(holder, None) == Disuse(None, 30)
    assert measure(holder, 10) == Disuse(None, 20)
    assert measure(holder, 30) == Disuse(later.isoformat(), 600)
    assert measure(grown, None) == Disuse(later.isoformat(), 600)


def test_a_growth_request_is_withdrawn_only_if_no_service_waits() -> None:
    idle = {names.ANNOTATION_IDLE_SINCE: (make.EPOCH - timedelta(hours=1)).isoformat()}
    request = make.allocation("team-a-lb-1", size=1, age=3_600, annotations=idle)
    facts = make_size_facts([make_range_facts(request, in_pool=None)], [make_service("waits")])
    change = decide_size(facts)
    assert (change.growth_number, change.new_marks) == (0, ())
    unwanted = decide_size(replace(facts, demand=compute_demand((), KIND.view_service, {4})))
    assert [mark.allocation for mark in unwanted.new_marks] == [request]
