"""What is out of use is given back, and what did not help is not grown again."""

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
from tests.reconcilers.balancer import Balancer, address_of, pool_entries, service
from tests.reconcilers.server import Json
from tests.reconcilers.tenantcluster.elastic.facts import (
    KIND,
    load_balancer,
    range_facts,
    size_facts,
)
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    annotations_of,
    balancer_ranges,
    become_ready,
    demand_condition,
    elastic_platform,
)


async def test_quota_reached_is_reported_and_stops_neither_shrink_nor_sync() -> None:
    platform, tenant = elastic_platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(10)
        assert len(balancer_ranges(platform)) == 2
        service(tenant, "four", spec={"ipFamilies": ["IPv4"]})
        await platform.clock.advance(60)
        assert len(balancer_ranges(platform)) == 2
        assert demand_condition(platform) == ("False", "QuotaExceeded")
        edited = {"spec": {"addresses": ["10.99.0.0/24"]}}
        tenant.edit("ipaddresspools", "default-pool", edited, namespace="metallb-system")
        await platform.clock.advance(301)
        assert len(pool_entries(tenant)) == 2
        for name in ("one", "two", "three", "four"):
            tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(700)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]


async def test_shrink_ends_where_the_balancer_cannot_show_what_it_hands_out() -> None:
    platform, tenant = elastic_platform(metallb_wait=10.0)
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        assert list(balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(700)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]


async def test_shrink_is_logged_as_the_documentation_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(700)
    assert "shrinking unused allocation" in capsys.readouterr().out


@pytest.mark.slow
async def test_shrink_takes_ten_minutes_of_disuse_and_goes_tenant_first() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(590)
        assert list(balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert names.ANNOTATION_IDLE_SINCE in annotations_of(platform, "team-a-lb-1")
        begun = len(tenant.history), len(platform.server.history)
        await platform.clock.advance(15)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        assert pool_entries(tenant) == ["10.40.0.0-10.40.0.1"]
    story = [h for h in platform.server.history[begun[1] :] if h.plural == "ipallocations"]
    marks = [h for h in story if names.ANNOTATION_RELEASING in h.object["metadata"]["annotations"]]
    assert "deletionTimestamp" not in marks[0].object["metadata"], "marked first"
    assert tenant.history[begun[0]].plural == "ipaddresspools"


@pytest.mark.slow
async def test_disuse_begins_anew_when_a_service_takes_an_address() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(400)
        service(tenant, "four")
        await platform.clock.advance(5)
        assert names.ANNOTATION_IDLE_SINCE not in annotations_of(platform, "team-a-lb-1")
        tenant.vanish("services", "four", namespace="default")
        await platform.clock.advance(400)
        assert len(balancer_ranges(platform)) == 2
        await platform.clock.advance(220)
        assert len(balancer_ranges(platform)) == 1


@pytest.mark.slow
async def test_disuse_is_remembered_through_a_restart() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(400)
    await platform.clock.advance(190)
    async with platform.running():
        await platform.clock.advance(5)
        assert len(balancer_ranges(platform)) == 2
        await platform.clock.advance(10)
        assert len(balancer_ranges(platform)) == 1


@pytest.mark.slow
async def test_first_and_pinned_ranges_are_never_shrunk() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    pin = ("10.40.0.200", "10.40.0.201")
    pinned = make.allocation("team-a-lb-7", pin=pin, labels={names.LABEL_ROLE: "growth"})
    async with platform.running():
        await become_ready(platform, tenant)
        platform.server.add("ipallocations", pinned)
        await platform.clock.advance(3600)
        assert list(balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-7"]


@pytest.mark.slow
async def test_a_growth_range_that_served_no_service_is_not_grown_again_for_the_same_one() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant, "odd")
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "odd")
        assert len(balancer_ranges(platform)) == 2
        await platform.clock.advance(700)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        assert demand_condition(platform) == ("False", "GrownInVain")
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes, "at rest"


async def test_growth_is_tried_again_when_a_service_changes_what_it_asks_for() -> None:
    platform, tenant = elastic_platform()
    balancer = Balancer(tenant, "odd")
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "odd")
        await platform.clock.advance(700)
        balancer.refuses = ()
        marks = {"metadata": {"annotations": {"metallb.io/address-pool": "default-pool"}}}
        tenant.edit("services", "odd", marks, namespace="default")
        await platform.clock.advance(35)
        assert address_of(tenant, "odd") is not None


async def test_growth_is_tried_again_once_metallb_hands_out_more_addresses() -> None:
    platform, tenant = elastic_platform(sizing={"initialPoolSize": 2})
    balancer = Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one")
        balancer.paused = True
        for name in ("two", "three"):
            service(tenant, name)
        await platform.clock.advance(1500)
        assert list(balancer_ranges(platform)) == ["team-a-lb"]
        balancer.resume()
        await platform.clock.advance(60)
        assert all(address_of(tenant, name) for name in ("two", "three"))


async def test_a_mark_of_shrink_is_withdrawn_where_a_service_took_an_address() -> None:
    platform, tenant = elastic_platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        balancer.paused = True
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(5)
        assert names.ANNOTATION_RELEASING not in annotations_of(platform, "team-a-lb-1")
        assert len(pool_entries(tenant)) == 2
        assert address_of(tenant, "three") is not None


async def test_a_range_that_a_service_uses_does_not_leave_the_pool_for_a_mark() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three")
        entries, begun = pool_entries(tenant), len(tenant.history)
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(5)
        assert names.ANNOTATION_RELEASING not in annotations_of(platform, "team-a-lb-1")
        assert len(entries) == 2
        pools = [h.object for h in tenant.history[begun:] if h.plural == "ipaddresspools"]
        assert [pool["spec"]["addresses"] for pool in pools] == [entries] * len(pools)


async def test_a_mark_of_shrink_is_withdrawn_where_addresses_are_wanted_again() -> None:
    platform, tenant = elastic_platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    held_range = ("10.40.0.64", "10.40.0.64")
    async with platform.running():
        await become_ready(platform, tenant, "one", "two")
        mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
        labels = {names.LABEL_ROLE: "growth"}
        tenant.fail(NoAnswer("timed out"), times=10_000)  # so that no check sees that it let go
        leaving = make.allocation(
            "team-a-lb-1", held_range=held_range, annotations=mark, labels=labels
        )
        platform.server.add("ipallocations", leaving)
        service(tenant, "three")
        await platform.clock.advance(20)
        assert names.ANNOTATION_RELEASING in annotations_of(platform, "team-a-lb-1")
        await platform.clock.advance(20)
        assert names.ANNOTATION_RELEASING not in annotations_of(platform, "team-a-lb-1")
        assert len(balancer_ranges(platform)) == 2


async def test_a_tenant_that_becomes_static_keeps_what_it_has_and_ends_what_was_begun() -> None:
    platform, tenant = elastic_platform()
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "one", "two", "three", "four")
        static: Json = {"spec": {"network": {"loadBalancer": {"allocationMode": "static"}}}}
        first = balancer_ranges(platform)["team-a-lb-1"]
        name = next(n for n in ("three", "four") if address_of(tenant, n) == first)
        tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(5)
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("providerconfigs", "default", static)
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(1200)
        assert list(balancer_ranges(platform)) == ["team-a-lb", "team-a-lb-2"]
        conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
        [met] = [
            condition for condition in conditions if condition["type"] == "LoadBalancerDemandMet"
        ]
        assert (met["status"], met["reason"]) == ("True", "Ready")


@pytest.mark.slow
async def test_with_all_addresses_in_use_nothing_oscillates() -> None:
    """The arithmetic trigger of old grew and shrank for ever at exactly this point."""
    platform, tenant = elastic_platform(sizing={"initialPoolSize": 2, "growthIncrement": 1})
    Balancer(tenant)
    async with platform.running():
        await become_ready(platform, tenant, "traefik", "web")
        # Until its status names the Services of its ranges.
        await platform.clock.advance(NAMING_SECONDS + 120)
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes


def test_a_range_that_does_not_stand_in_the_tenants_pool_is_not_out_of_use() -> None:
    created = datetime(2026, 1, 1, tzinfo=UTC)
    grown = make.allocation("team-a-lb-1", size=2, creationTimestamp=created.isoformat())
    holder = make.allocation(
        "team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), creationTimestamp=created.isoformat()
    )
    later = created + timedelta(hours=1)

    def measure(allocation: IPAllocation, in_pool: float | None) -> Disuse:
        part = range_facts(allocation, in_pool=in_pool)
        return measure_disuse(size_facts([part], now=later), part)

    assert measure(holder, None) == Disuse(None, 30)
    assert measure(holder, 10) == Disuse(None, 20)
    assert measure(holder, 30) == Disuse(later.isoformat(), 600)
    assert measure(grown, None) == Disuse(later.isoformat(), 600)


def test_a_request_that_services_wait_for_is_not_withdrawn_however_long_it_waits() -> None:
    idle = {names.ANNOTATION_IDLE_SINCE: (make.EPOCH - timedelta(hours=1)).isoformat()}
    request = make.allocation("team-a-lb-1", size=1, age=3_600, annotations=idle)
    facts = size_facts([range_facts(request, in_pool=None)], [load_balancer("waits")])
    change = decide_size(facts)
    assert (change.growth_number, change.new_marks) == (0, ())
    unwanted = decide_size(replace(facts, demand=compute_demand((), KIND.view_service, {4})))
    assert [mark.allocation for mark in unwanted.new_marks] == [request]
