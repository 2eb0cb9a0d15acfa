"""An elastic tenant grows and shrinks with its Services, and at rest does nothing."""

from dataclasses import replace
from typing import Any

import pytest

from controller.errors import NoAnswer, Unauthorized
from reconcilers.api import names
from reconcilers.settings import Settings, TenantSettings
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, address_of, pool_entries, service
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Json, Server

ELASTIC = {"allocationMode": "elastic", "growthIncrement": 1}
TENANT = ("tenantclusters", "a")


def _platform(
    *pools: Any, sizing: Any = None, quota: Any = None, **settings: Any
) -> tuple[Platform, Server]:
    platform = Platform(Settings(tenant=replace(TenantSettings(), **settings)))
    for pool in pools or (make.pool(),):
        platform.server.add("networkpools", pool)
    named = [pool["metadata"]["name"] for pool in platform.server.all("networkpools")]
    provider = make.provider(*named, load_balancer=ELASTIC | (sizing or {}), quota=quota)
    platform.server.add("providerconfigs", provider)
    platform.server.add("tenantclusters", make.tenant())
    return platform, platform.tenant("a")


def _balancers(platform: Platform) -> dict[str, str]:
    """Return the ranges of the tenant's load-balancer allocations, by name."""
    return {
        one["metadata"]["name"]: (one.get("status") or {}).get("startAddress", "")
        for one in platform.server.all("ipallocations")
        if one["spec"]["type"] == "loadbalancer"
    }


def _demand(platform: Platform) -> tuple[str, str]:
    conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
    found: Json = next(c for c in conditions if c["type"] == "LoadBalancerDemandMet")
    return found["status"], found["reason"]


def _annotations(platform: Platform, name: str) -> dict[str, str]:
    meta = platform.server.see("ipallocations", name)["metadata"]
    found: dict[str, str] = meta.get("annotations") or {}
    return found


async def _ready(platform: Platform, tenant: Server, *services: str) -> None:
    """Let the cluster become Ready, with Services that use its addresses."""
    await platform.clock.advance(2)
    for name in services:
        service(tenant, name)
    await platform.clock.advance(60)


async def test_growth_comes_within_two_seconds_of_the_age_threshold() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        assert list(_balancers(platform)) == ["team-a-lb"]
        await platform.clock.advance(3 * 3600)  # old enough to be looked at every 15 minutes only
        service(tenant, "three")
        await platform.clock.advance(29)
        assert list(_balancers(platform)) == ["team-a-lb"]
        await platform.clock.advance(3)
        assert address_of(tenant, "three") == "10.40.0.7"
        assert pool_entries(tenant) == ["10.40.0.0-10.40.0.1", "10.40.0.7-10.40.0.7"]
        grown = platform.server.see("ipallocations", "team-a-lb-1")
        assert grown["metadata"]["labels"][names.LABEL_ROLE] == "growth"
        assert grown["spec"]["count"] == 1
        await platform.clock.advance(5)
        assert _demand(platform) == ("True", "Ready")


async def test_a_service_that_gets_a_free_address_makes_nothing_grow() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one")
        service(tenant, "two")
        await platform.clock.advance(300)
        assert list(_balancers(platform)) == ["team-a-lb"]


async def test_a_batch_is_counted_in_addresses_and_what_is_in_flight_is_subtracted() -> None:
    platform, tenant = _platform(sizing={"growthIncrement": 2})
    balancer = Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        balancer.paused = True
        for number in range(3):
            service(tenant, f"more{number}")
        await platform.clock.advance(31)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-1", "team-a-lb-2"]
        await platform.clock.advance(120)
        assert len(_balancers(platform)) == 3, "four addresses for three Services are enough"
        service(tenant, "more3")
        await platform.clock.advance(60)
        assert len(_balancers(platform)) == 3
        service(tenant, "more4")
        await platform.clock.advance(60)
        assert len(_balancers(platform)) == 4
        balancer.resume()
        await platform.clock.advance(5)
        assert all(address_of(tenant, f"more{number}") for number in range(5))


async def test_growth_that_waits_for_a_range_is_in_flight_too() -> None:
    platform, tenant = _platform(make.pool(cidr="10.40.0.0/28"))
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "junk"}})
        await platform.clock.advance(2)
        service(tenant, "three")
        await platform.clock.advance(300)
        assert len(_balancers(platform)) <= 2


async def test_at_most_so_many_growth_allocations_are_in_flight() -> None:
    platform, tenant = _platform(growth_in_flight=2)
    balancer = Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        balancer.paused = True
        for number in range(5):
            service(tenant, f"more{number}")
        await platform.clock.advance(200)
        assert len(_balancers(platform)) == 3
        balancer.resume()
        await platform.clock.advance(10)
        assert len(_balancers(platform)) >= 5, "those in use make room for others"
        await platform.clock.advance(10)
        assert all(address_of(tenant, f"more{number}") for number in range(5))


async def test_the_quota_counts_what_leaves_until_it_is_gone() -> None:
    platform, tenant = _platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    held = ("10.40.0.64", "10.40.0.64")
    leaving = make.allocation("team-a-lb-9", held=held, finalizers=["somebody/else"])
    platform.server.add("ipallocations", leaving)
    async with platform.running():
        await platform.clock.advance(2)
        platform.server.delete("ipallocations", "team-a-lb-9")
        for name in ("one", "two", "three"):
            service(tenant, name)
        await platform.clock.advance(60)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-9"]
        assert _demand(platform) == ("False", "QuotaExceeded")
        platform.server.vanish("ipallocations", "team-a-lb-9")
        await platform.clock.advance(5)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-1"]


async def test_quota_reached_is_logged_as_the_documentation_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform, tenant = _platform(quota={"maxLoadBalancerIPs": 2})
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
    assert "quota would be exceeded" in capsys.readouterr().out


async def test_shrink_is_logged_as_the_documentation_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(700)
    assert "shrinking unused allocation" in capsys.readouterr().out


async def test_quota_reached_is_told_and_stops_neither_shrink_nor_sync() -> None:
    platform, tenant = _platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(10)
        assert len(_balancers(platform)) == 2
        service(tenant, "four", spec={"ipFamilies": ["IPv4"]})
        await platform.clock.advance(60)
        assert len(_balancers(platform)) == 2
        assert _demand(platform) == ("False", "QuotaExceeded")
        edited = {"spec": {"addresses": ["10.99.0.0/24"]}}
        tenant.edit("ipaddresspools", "default-pool", edited, namespace="metallb-system")
        await platform.clock.advance(301)
        assert len(pool_entries(tenant)) == 2
        for name in ("one", "two", "three", "four"):
            tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(700)
        assert list(_balancers(platform)) == ["team-a-lb"]


async def test_shrink_takes_ten_minutes_of_disuse_and_goes_tenant_first() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(590)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-1"]
        assert names.ANNOTATION_IDLE_SINCE in _annotations(platform, "team-a-lb-1")
        begun = len(tenant.history), len(platform.server.history)
        await platform.clock.advance(15)
        assert list(_balancers(platform)) == ["team-a-lb"]
        assert pool_entries(tenant) == ["10.40.0.0-10.40.0.1"]
    story = [h for h in platform.server.history[begun[1] :] if h.plural == "ipallocations"]
    marks = [h for h in story if names.ANNOTATION_RELEASING in h.object["metadata"]["annotations"]]
    assert "deletionTimestamp" not in marks[0].object["metadata"], "marked first"
    assert tenant.history[begun[0]].plural == "ipaddresspools"


async def test_disuse_begins_anew_when_a_service_takes_an_address() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(400)
        service(tenant, "four")
        await platform.clock.advance(5)
        assert names.ANNOTATION_IDLE_SINCE not in _annotations(platform, "team-a-lb-1")
        tenant.vanish("services", "four", namespace="default")
        await platform.clock.advance(400)
        assert len(_balancers(platform)) == 2
        await platform.clock.advance(220)
        assert len(_balancers(platform)) == 1


async def test_disuse_is_remembered_through_a_restart() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(3600)
        tenant.vanish("services", "three", namespace="default")
        await platform.clock.advance(400)
    await platform.clock.advance(190)
    async with platform.running():
        await platform.clock.advance(5)
        assert len(_balancers(platform)) == 2
        await platform.clock.advance(10)
        assert len(_balancers(platform)) == 1


async def test_first_and_pinned_ranges_are_never_shrunk() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    pin = ("10.40.0.200", "10.40.0.201")
    pinned = make.allocation("team-a-lb-7", pin=pin, labels={names.LABEL_ROLE: "growth"})
    platform.server.add("ipallocations", pinned)
    async with platform.running():
        await _ready(platform, tenant)
        await platform.clock.advance(3600)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-7"]


async def test_a_growth_range_that_served_nobody_is_not_grown_again_for_the_same_service() -> None:
    platform, tenant = _platform()
    Balancer(tenant, "odd")
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "odd")
        assert len(_balancers(platform)) == 2
        await platform.clock.advance(700)
        assert list(_balancers(platform)) == ["team-a-lb"]
        assert _demand(platform) == ("False", "GrownInVain")
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes, "at rest"


async def test_a_service_that_changes_what_it_asks_for_is_a_new_question() -> None:
    platform, tenant = _platform()
    balancer = Balancer(tenant, "odd")
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "odd")
        await platform.clock.advance(700)
        balancer.refuses = ()
        marks = {"metadata": {"annotations": {"metallb.io/address-pool": "default-pool"}}}
        tenant.edit("services", "odd", marks, namespace="default")
        await platform.clock.advance(35)
        assert address_of(tenant, "odd") is not None


async def test_once_metallb_hands_out_more_than_then_it_is_tried_again() -> None:
    platform, tenant = _platform(sizing={"initialPoolSize": 2})
    balancer = Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one")
        balancer.paused = True
        for name in ("two", "three"):
            service(tenant, name)
        await platform.clock.advance(1500)
        assert list(_balancers(platform)) == ["team-a-lb"]
        balancer.resume()
        await platform.clock.advance(60)
        assert all(address_of(tenant, name) for name in ("two", "three"))


@pytest.mark.parametrize(
    "asks",
    [
        {"annotations": {"metallb.io/address-pool": "another"}},
        {"annotations": {"metallb.universe.tf/address-pool": "another"}},
        {"annotations": {"metallb.io/loadBalancerIPs": "10.9.9.9"}},
        {"annotations": {"metallb.universe.tf/loadBalancerIPs": "10.9.9.9"}},
        {"spec": {"loadBalancerIP": "10.9.9.9"}},
        {"spec": {"loadBalancerClass": "example.com/other"}},
        {"spec": {"ipFamilies": ["IPv6"]}},
        {"spec": {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}},
        {"spec": {"type": "ExternalName"}},
        {"spec": {"type": "ClusterIP"}},
        {"finalizers": ["keep"], "deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=str,
)
async def test_what_growth_cannot_help_is_no_demand(asks: Json) -> None:
    platform, tenant = _platform()
    async with platform.running():
        await _ready(platform, tenant)
        service(tenant, "web", **asks)
        await platform.clock.advance(120)
        assert list(_balancers(platform)) == ["team-a-lb"]
        assert _demand(platform) == ("True", "Ready")


@pytest.mark.parametrize(
    "asks",
    [
        {"annotations": {"metallb.io/address-pool": "default-pool"}},
        {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}},
        {"spec": {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "PreferDualStack"}},
        {"spec": {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}},
    ],
    ids=str,
)
async def test_what_growth_can_help_is_demand(asks: Json) -> None:
    platform, tenant = _platform()
    async with platform.running():
        await _ready(platform, tenant)
        service(tenant, "web", **asks)
        await platform.clock.advance(35)
        assert len(_balancers(platform)) == 2


async def test_services_that_may_share_an_address_count_once() -> None:
    platform, tenant = _platform()
    async with platform.running():
        await _ready(platform, tenant)
        for name in ("http", "https"):
            service(tenant, name, annotations={"metallb.io/allow-shared-ip": "web"})
        await platform.clock.advance(35)
        assert len(_balancers(platform)) == 2


async def test_an_address_lost_does_not_make_growth_due_at_once() -> None:
    platform, tenant = _platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        await platform.clock.advance(3600)
        balancer.paused = True
        tenant.edit("services", "one", {"status": {"loadBalancer": None}}, namespace="default")
        await platform.clock.advance(25)
        assert len(_balancers(platform)) == 1
        await platform.clock.advance(10)
        assert len(_balancers(platform)) == 2


async def test_with_the_fast_path_an_exhausted_pool_grows_after_the_debounce() -> None:
    platform, tenant = _platform(growth_when_exhausted=2.0)
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        service(tenant, "three")
        await platform.clock.advance(1.5)
        assert len(_balancers(platform)) == 1
        await platform.clock.advance(2.5)
        assert address_of(tenant, "three") is not None


async def test_the_fast_path_waits_where_an_address_is_free() -> None:
    platform, tenant = _platform(growth_when_exhausted=2.0)
    Balancer(tenant, "odd")
    async with platform.running():
        await _ready(platform, tenant, "one")
        service(tenant, "odd")
        await platform.clock.advance(20)
        assert len(_balancers(platform)) == 1
        await platform.clock.advance(15)
        assert len(_balancers(platform)) == 2


async def test_an_elastic_tenant_without_ingress_starts_with_nothing_and_grows() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    spec = {"addons": {"ingress": {"enabled": False}}}
    platform.server.add("tenantclusters", make.tenant(spec=spec))
    async with platform.running():
        await _ready(platform, tenant)
        assert _balancers(platform) == {}
        assert platform.phase(*TENANT, "team") == "Ready"
        service(tenant, "web")
        await platform.clock.advance(32)
        assert list(_balancers(platform)) == ["team-a-lb-1"]
        assert address_of(tenant, "web") is not None
        tenant.vanish("services", "web", namespace="default")
        await platform.clock.advance(700)
        assert _balancers(platform) == {}
        assert tenant.all("ipaddresspools") == []


async def test_the_lowest_free_index_is_taken_and_a_gap_does_not_stop_growth() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three", "four")
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-1", "team-a-lb-2"]
        first = _balancers(platform)["team-a-lb-1"]
        name = next(n for n in ("three", "four") if address_of(tenant, n) == first)
        tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(700)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-2"]
        service(tenant, "five")
        await platform.clock.advance(35)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-1", "team-a-lb-2"]


async def test_a_growth_name_that_is_anothers_gets_a_hash() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    platform.server.add("ipallocations", make.allocation("team-a-lb-1", tenant="x/y", size=1))
    platform.server.add("tenantclusters", make.tenant("y", "x"))
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        assert f"team-a-lb-{names.short_hash('team/a')}-1" in _balancers(platform)
        assert address_of(tenant, "three") is not None


async def test_growth_without_room_is_told_and_comes_when_there_is_room() -> None:
    platform, tenant = _platform(make.pool(cidr="10.40.0.0/29"), sizing={"initialPoolSize": 2})
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three", "four")
        assert len(_balancers(platform)) == 2
        assert _demand(platform) == ("False", "PoolExhausted")
        await platform.clock.advance(3650)  # looked at every five minutes by now
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(3)
        assert address_of(tenant, "four") is not None


async def test_unlabelled_allocations_of_older_controllers_are_given_their_role_once() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    for name, held in (
        ("team-a-lb", ("10.40.0.0", "10.40.0.1")),
        ("team-a-lb-1", ("10.40.0.2", "10.40.0.2")),
        ("odd", ("10.40.0.3", "10.40.0.3")),
    ):
        platform.server.add("ipallocations", make.allocation(name, held=held))
    async with platform.running():
        await platform.clock.advance(5)
        roles = {
            one["metadata"]["name"]: one["metadata"]["labels"].get(names.LABEL_ROLE)
            for one in platform.server.all("ipallocations")
            if one["spec"]["type"] == "loadbalancer"
        }
        assert roles == {"team-a-lb": "initial", "team-a-lb-1": "growth", "odd": "initial"}
        patches = platform.server.count(verb="patch", plural="ipallocations", name="odd")
        await platform.clock.advance(300)
        assert platform.server.count(verb="patch", plural="ipallocations", name="odd") == patches


async def test_the_platforms_load_balancer_is_labelled() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant)
        meta = {"name": "traefik", "namespace": "traefik"}
        tenant.add("services", {"metadata": meta, "spec": {"type": "ClusterIP"}})
        await platform.clock.advance(61)
        labels = tenant.see("services", "traefik", namespace="traefik")["metadata"].get("labels")
        assert labels == {names.LABEL_PLATFORM_LB: "true"}


async def test_without_metallb_growth_still_runs_beyond_what_waits_to_be_installed() -> None:
    platform, tenant = _platform()
    tenant.served = ("services",)
    async with platform.running():
        await platform.clock.advance(2)
        for number in range(4):
            service(tenant, f"web{number}")
        await platform.clock.advance(100)
        assert platform.phase(*TENANT, "team") == "Installing"
        assert len(_balancers(platform)) == 3, "two of the four could have the first two"


async def test_at_rest_an_elastic_tenant_is_read_once_per_tier_and_nothing_is_written() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        await platform.clock.advance(120)
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
    platform, tenant = _platform(service_watches=1)
    other = platform.tenant("b")
    platform.server.add("tenantclusters", make.tenant("b"))
    for one in (tenant, other):
        Balancer(one)
    async with platform.running():
        await platform.clock.advance(2)
        for one in (tenant, other):
            for name in ("one", "two", "three"):
                service(one, name)
        await platform.clock.advance(125)
        assert address_of(tenant, "three") is not None
        assert address_of(other, "three") is not None
        watching = [one for one in (tenant, other) if one.count(verb="watch")]
        assert len(watching) == 1


async def test_a_tenant_that_does_not_answer_does_not_keep_others_from_growing() -> None:
    platform, tenant = _platform()
    silent = platform.tenant("b")
    platform.server.add("tenantclusters", make.tenant("b"))
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        silent.fail(NoAnswer("timed out"), times=100_000)
        service(tenant, "three")
        await platform.clock.advance(32)
        assert address_of(tenant, "three") is not None


async def test_a_service_that_is_served_at_once_costs_the_management_cluster_nothing() -> None:
    platform, tenant = _platform(sizing={"initialPoolSize": 8})
    balancer = Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one")
        balancer.paused = True
        before = len(platform.server.history)
        for number in range(5):
            service(tenant, f"web{number}")
            await platform.clock.advance(2)
        balancer.resume()
        await platform.clock.advance(60)
        assert len(platform.server.history) == before


async def test_a_mark_of_shrink_is_withdrawn_where_a_service_took_an_address() -> None:
    platform, tenant = _platform()
    balancer = Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        balancer.paused = True
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(5)
        assert names.ANNOTATION_RELEASING not in _annotations(platform, "team-a-lb-1")
        assert len(pool_entries(tenant)) == 2
        assert address_of(tenant, "three") is not None


async def test_a_mark_of_shrink_is_withdrawn_where_addresses_are_wanted_again() -> None:
    platform, tenant = _platform(quota={"maxLoadBalancerIPs": 3})
    Balancer(tenant)
    held = ("10.40.0.64", "10.40.0.64")
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        mark = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}
        labels = {names.LABEL_ROLE: "growth"}
        tenant.fail(NoAnswer("timed out"), times=10_000)  # so that nobody learns that it let go
        leaving = make.allocation("team-a-lb-1", held=held, annotations=mark, labels=labels)
        platform.server.add("ipallocations", leaving)
        service(tenant, "three")
        await platform.clock.advance(20)
        assert names.ANNOTATION_RELEASING in _annotations(platform, "team-a-lb-1")
        await platform.clock.advance(20)
        assert names.ANNOTATION_RELEASING not in _annotations(platform, "team-a-lb-1")
        assert len(_balancers(platform)) == 2


async def test_a_tenant_that_becomes_static_keeps_what_it_has_and_ends_what_was_begun() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three", "four")
        static: Json = {"spec": {"network": {"loadBalancer": {"allocationMode": "static"}}}}
        first = _balancers(platform)["team-a-lb-1"]
        name = next(n for n in ("three", "four") if address_of(tenant, n) == first)
        tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(5)
        mark = {"metadata": {"annotations": {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"}}}
        platform.server.edit("providerconfigs", "default", static)
        platform.server.edit("ipallocations", "team-a-lb-1", mark)
        await platform.clock.advance(1200)
        assert list(_balancers(platform)) == ["team-a-lb", "team-a-lb-2"]
        conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
        assert "LoadBalancerDemandMet" not in [one["type"] for one in conditions]


async def test_growth_that_fails_moves_on_to_a_pool_that_fits_and_keeps_its_age() -> None:
    one, two = make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/24")
    platform, tenant = _platform(one, two, backfill_nodes=False)
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        platform.server.add("ipallocations", make.allocation("x", of="one", tenant="x/y", size=1))
        await platform.clock.advance(1)
        stamp = {names.ANNOTATION_TENANT_UID: "uid-team-a"}
        labels = {names.LABEL_ROLE: "growth"}
        stuck = make.allocation(
            "team-a-lb-1", of="one", size=1, age=50, annotations=stamp, labels=labels
        )
        platform.server.add("ipallocations", stuck)
        await platform.clock.advance(2)
        assert platform.phase("ipallocations", "team-a-lb-1") == "Failed"
        service(tenant, "three")
        await platform.clock.advance(65)
        moved = platform.server.see("ipallocations", "team-a-lb-1")
        assert moved["spec"]["poolRef"] == {"name": "two"}
        asked = moved["metadata"]["annotations"][names.ANNOTATION_REQUESTED_AT]
        assert asked == "2025-12-31T23:59:10+00:00"
        assert address_of(tenant, "three") is not None


async def test_growth_that_failed_moves_on_as_soon_as_another_pool_has_room() -> None:
    one, two = make.pool("one", "10.40.0.0/29"), make.pool("two", "10.41.0.0/30")
    platform, tenant = _platform(one, two)
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "one", "two")
        for pool, size in (("one", 1), ("two", 4)):
            name = f"fills-{pool}"
            filler = make.allocation(name, of=pool, tenant="x/y", size=size)
            platform.server.add("ipallocations", filler)
        await platform.clock.advance(1)
        stamp, labels = {names.ANNOTATION_TENANT_UID: "uid-team-a"}, {names.LABEL_ROLE: "growth"}
        stuck = make.allocation("team-a-lb-1", of="one", size=1, annotations=stamp, labels=labels)
        platform.server.add("ipallocations", stuck)
        service(tenant, "three")
        await platform.clock.advance(95)
        assert platform.phase("ipallocations", "team-a-lb-1") == "Failed"
        assert _demand(platform) == ("False", "PoolExhausted")
        platform.server.delete("ipallocations", "fills-two")
        await platform.clock.advance(2)
        assert _balancers(platform)["team-a-lb-1"].startswith("10.41.0.")
        assert address_of(tenant, "three") is not None


async def test_in_observe_mode_an_elastic_tenant_grows_and_its_phase_stays_anothers() -> None:
    platform, tenant = _platform()
    Balancer(tenant)
    observed = {"managementPolicy": {"mode": "Observe"}}
    platform.server.add("tenantclusters", make.tenant(spec=observed, status={"phase": "Updating"}))
    async with platform.running():
        await _ready(platform, tenant, "one", "two", "three")
        assert address_of(tenant, "three") is not None
        assert platform.phase(*TENANT, "team") == "Updating"
        assert _demand(platform) == ("True", "Ready")


async def test_a_rotated_kubeconfig_costs_no_growth() -> None:
    platform, tenant = _platform(service_watches=1)
    platform.server.add("tenantclusters", make.tenant("b"))
    other = platform.tenant("b")
    Balancer(tenant)
    Balancer(other)
    async with platform.running():
        await _ready(platform, tenant)
        for name in ("one", "two", "three"):
            service(other, name)
            service(tenant, name)
        for one in (tenant, other):
            one.fail(Unauthorized(401, "Unauthorized", "rotated"), times=1)
        await platform.clock.advance(130)
        assert address_of(tenant, "three") is not None
        assert address_of(other, "three") is not None


async def test_the_platforms_own_load_balancer_is_demand_as_any_other() -> None:
    platform, tenant = _platform()
    labels = {names.LABEL_PLATFORM_LB: "true"}
    async with platform.running():
        await _ready(platform, tenant)
        meta = {"name": "traefik", "namespace": "traefik", "labels": labels}
        tenant.add("services", {"metadata": meta, "spec": {"type": "LoadBalancer"}})
        await platform.clock.advance(35)
        assert len(_balancers(platform)) == 2


async def test_with_all_addresses_in_use_nothing_oscillates() -> None:
    """The arithmetic trigger of old grew and shrank for ever at exactly this point."""
    platform, tenant = _platform(sizing={"initialPoolSize": 2, "growthIncrement": 1})
    Balancer(tenant)
    async with platform.running():
        await _ready(platform, tenant, "traefik", "web")
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes
