"""The metrics at a scrape: current states, counts of events, and no stale series."""

from functools import partial
from importlib.metadata import version
from platform import python_version

import pytest

from controller.errors import Invalid, NoAnswer
from controller.manager import Manager
from reconcilers.api import names
from reconcilers.metrics.objectgauges import Gauges
from reconcilers.networkpool.statusjournal import count_promises
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer, add_service
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Server

LAB = {"pool": "lab", "namespace": make.NAMESPACE}


def _read_value(manager: Manager, name: str, **labels: str) -> float | None:
    """Return the value of a series; None if no series has this name and exactly these labels."""
    return manager.metrics.registry.get_sample_value(name, labels)


def _list_samples_of(manager: Manager, pool: str) -> set[str]:
    """Return the names of all samples with this value of the label `pool`."""
    return {
        sample.name
        for family in manager.metrics.registry.collect()
        for sample in family.samples
        if sample.labels.get("pool") == pool
    }


def _parse_series(exposition: bytes) -> set[str]:
    """Return the series of an exposition, with their labels and without their values."""
    lines = exposition.decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


def _make_platform() -> Platform:
    """Return a platform with the pool `lab` (10.40.0.0/24)."""
    platform = Platform()
    platform.server.add("networkpools", make.pool())
    return platform


async def test_the_gauges_of_a_pool_are_its_status() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        platform.server.add("ipallocations", make.allocation("a", size=56))
        await platform.clock.advance(1)
        samples = {
            name: _read_value(manager, f"butler_network_pool_{name}", **LAB)
            for name in (
                "total_ips",
                "allocated_ips",
                "available_ips",
                "allocation_count",
                "fragmentation_percent",
                "largest_free_block",
            )
        }
    assert samples == {
        "total_ips": 256,
        "allocated_ips": 56,
        "available_ips": 200,
        "allocation_count": 1,
        "fragmentation_percent": 0,
        "largest_free_block": 200,
    }


async def test_successes_and_failures_are_counted_once_each() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        await platform.clock.advance(1)
        counter = "butler_ip_allocation_processed_total"
        assert _read_value(manager, counter, result="failed", **LAB) == 0, "there from the start"
        platform.server.add("ipallocations", make.allocation("a"))
        platform.server.add("ipallocations", make.allocation("too-big", size=999))
        await platform.clock.advance(120)
        assert _read_value(manager, counter, result="success", **LAB) == 1
        assert _read_value(manager, counter, result="failed", **LAB) == 1


async def test_a_write_refused_for_good_is_counted() -> None:
    platform = _make_platform()
    refused = Invalid(422, "Invalid", "odd")
    platform.server.fail(refused, verb="patch", name="a", subresource="status")
    async with platform.running() as manager:
        platform.server.add("ipallocations", make.allocation("a"))
        await platform.clock.advance(1)
        assert _read_value(manager, "butler_ip_allocation_refused_writes_total", **LAB) == 1


async def test_the_time_from_request_to_range_is_measured() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        platform.server.add("ipallocations", make.allocation("a", age=40))
        await platform.clock.advance(1)
        family = "butler_ip_allocation_seconds"
        assert _read_value(manager, f"{family}_count", type="loadbalancer") == 1
        total = _read_value(manager, f"{family}_sum", type="loadbalancer")
        assert total is not None
        assert 40 <= total < 41
        assert _read_value(manager, f"{family}_count", type="nodes") == 0


async def test_waiting_allocations_are_counted_with_the_age_of_the_oldest() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        for name, age in (("old", 100), ("new", 10)):
            platform.server.add("ipallocations", make.allocation(name, size=999, age=age))
        await platform.clock.advance(5)
        assert _read_value(manager, "butler_network_pool_waiting_allocations", **LAB) == 2
        oldest = _read_value(manager, "butler_network_pool_oldest_waiting_seconds", **LAB)
        assert oldest is not None
        assert 105 <= oldest < 106
        for name in ("old", "new"):
            platform.server.vanish("ipallocations", name)
        await platform.clock.advance(1)
        assert _read_value(manager, "butler_network_pool_waiting_allocations", **LAB) == 0
        assert _read_value(manager, "butler_network_pool_oldest_waiting_seconds", **LAB) == 0


async def test_releasing_allocations_are_counted_with_the_age_of_the_oldest() -> None:
    """One is deleted while a Service shows its address, one was marked before the start.

    The mark is a minute older than the lab's clock, which runs 30 seconds: 90 seconds.
    """
    platform = _make_platform()
    tenant = platform.tenant("a")
    platform.server.add("tenantclusters", make.tenant())
    platform.server.add(
        "ipallocations", make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))
    )
    release_mark = {names.ANNOTATION_RELEASING: "2025-12-31T23:59:00+00:00"}
    held_range = ("10.40.0.8", "10.40.0.9")
    platform.server.add(
        "ipallocations",
        make.allocation(
            "shrinking", tenant="x/y", held_range=held_range, annotations=release_mark
        ),
    )
    status = {"loadBalancer": {"ingress": [{"ip": "10.40.0.3"}]}}
    service = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "LoadBalancer"},
    }
    tenant.add("services", service | {"status": status})
    async with platform.running() as manager:
        platform.server.delete("ipallocations", "team-a-lb")
        await platform.clock.advance(30)
        assert _read_value(manager, "butler_network_pool_releasing_allocations", **LAB) == 2
        oldest = _read_value(manager, "butler_network_pool_oldest_release_seconds", **LAB)
        assert oldest is not None
        assert 90 <= oldest < 91


async def test_orphans_that_were_collected_are_counted() -> None:
    platform = _make_platform()
    stamped = {names.ANNOTATION_TENANT_UID: "gone"}
    async with platform.running() as manager:
        platform.server.add("ipallocations", make.allocation("a", annotations=stamped))
        await platform.clock.advance(62)
        assert _read_value(manager, "butler_ip_allocation_orphans_collected_total", **LAB) == 1


async def test_a_pools_series_go_with_the_pool() -> None:
    platform = _make_platform()
    platform.server.add("networkpools", make.pool("other", cidr="10.50.0.0/24"))
    async with platform.running() as manager:
        platform.server.add("ipallocations", make.allocation("a"))
        await platform.clock.advance(1)
        assert len(_list_samples_of(manager, "lab")) > 8
        for plural, name in (("ipallocations", "a"), ("networkpools", "lab")):
            platform.server.vanish(plural, name)
        await platform.clock.advance(1)
        assert _list_samples_of(manager, "lab") == set()
        assert _list_samples_of(manager, "other")


async def test_a_providers_gauges_are_its_status_and_go_with_it() -> None:
    platform = _make_platform()
    platform.server.add("providerconfigs", make.provider("lab"))
    config = {"provider_config": "default", "namespace": make.NAMESPACE}
    async with platform.running() as manager:
        await platform.clock.advance(1)
        assert _read_value(manager, "butler_provider_config_ready", **config) == 1
        assert _read_value(manager, "butler_provider_config_available_ips", **config) == 256
        assert _read_value(manager, "butler_provider_config_estimated_tenants", **config) == 19
        platform.server.vanish("providerconfigs", "default")
        await platform.clock.advance(1)
        assert _read_value(manager, "butler_provider_config_ready", **config) is None


async def test_a_providers_capacity_is_shown_of_each_family_of_its_pools() -> None:
    platform = Platform()
    second = {"cidr": "fd00::/64"}
    platform.server.add("networkpools", make.pool(secondary=second))
    platform.server.add("providerconfigs", make.provider("lab"))
    config = {"provider_config": "default", "namespace": make.NAMESPACE}
    async with platform.running() as manager:
        await platform.clock.advance(1)
        for family, free in (("IPv4", 256), ("IPv6", 2**64)):
            of_it = {**config, "family": family}
            assert _read_value(manager, "butler_provider_config_available_ips", **of_it) == free
        assert _read_value(manager, "butler_provider_config_available_ips", **config) is None


def _elastic() -> tuple[Platform, Server]:
    platform = _make_platform()
    sizing = {"allocationMode": "elastic", "growthIncrement": 1}
    platform.server.add("providerconfigs", make.provider("lab", load_balancer=sizing))
    platform.server.add("tenantclusters", make.tenant())
    return platform, platform.tenant("a")


async def test_growth_and_shrink_are_counted_when_they_are_done() -> None:
    platform, tenant = _elastic()
    Balancer(tenant)
    growth, shrink = (f"butler_ip_allocation_{name}_total" for name in ("growth", "shrink"))
    async with platform.running() as manager:
        await platform.clock.advance(30)
        assert _read_value(manager, growth, **LAB) == 0, "there from the start"
        assert _read_value(manager, shrink, **LAB) == 0
        for name in ("one", "two", "three", "four"):
            add_service(tenant, name)
        await platform.clock.advance(90)
        assert _read_value(manager, growth, **LAB) == 2
        for name in ("three", "four"):
            tenant.vanish("services", name, namespace="default")
        await platform.clock.advance(590)
        assert _read_value(manager, shrink, **LAB) == 0, "out of use, and not for long enough"
        await platform.clock.advance(120)
        assert _read_value(manager, shrink, **LAB) == 2
        assert _read_value(manager, growth, **LAB) == 2


@pytest.mark.slow
async def test_the_synced_series_follows_the_tenant_and_goes_with_it() -> None:
    platform, tenant = _elastic()
    labels = {"tenant_cluster": "a", "namespace": "team"}
    synced, met = (f"butler_tenant_cluster_{name}" for name in ("synced", "demand_met"))
    async with platform.running() as manager:
        await platform.clock.advance(30)
        assert _read_value(manager, synced, **labels) == 1
        assert _read_value(manager, met, **labels) == 1
        assert _read_value(manager, "butler_tenant_clusters", phase="Ready") == 1
        assert _read_value(manager, "butler_tenant_clusters", phase="Failed") == 0
        for name in ("one", "two", "three"):
            add_service(tenant, name)
        tenant.fail(NoAnswer("connection refused"), times=100_000)
        await platform.clock.advance(3600)
        assert _read_value(manager, synced, **labels) == 0
        platform.server.vanish("tenantclusters", "a", namespace="team")
        await platform.clock.advance(5)
        assert _read_value(manager, synced, **labels) is None
        assert _read_value(manager, met, **labels) is None
        assert _read_value(manager, "butler_tenant_clusters", phase="Ready") == 0


async def test_a_tenant_in_cloud_mode_is_neither_in_line_nor_out_of_it() -> None:
    platform = _make_platform()
    platform.server.add("providerconfigs", make.provider(spec={"network": {"mode": "cloud"}}))
    platform.server.add("tenantclusters", make.tenant())
    async with platform.running() as manager:
        await platform.clock.advance(30)
        assert _read_value(manager, "butler_tenant_clusters", phase="Ready") == 1
        tenant = {"tenant_cluster": "a", "namespace": "team"}
        assert _read_value(manager, "butler_tenant_cluster_synced", **tenant) is None


async def test_the_version_that_runs_is_a_metric_of_every_replica() -> None:
    async with _make_platform().running() as manager:
        labels = {"version": version("butler-ipam"), "python": python_version()}
        assert _read_value(manager, "butler_ipam_build_info", **labels) == 1


async def test_all_metrics_are_shown_in_openmetrics_to_those_who_ask_for_it() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        await platform.clock.advance(5)
        exposition, _ = manager.metrics.render_exposition()
        newer, _ = manager.metrics.render_exposition("application/openmetrics-text;version=1.0.0")
    assert b"\n# TYPE butler_ip_allocation_processed counter\n" in newer
    assert newer.endswith(b"\n# EOF\n")
    assert _parse_series(newer) == _parse_series(exposition) != set()


async def test_a_scrape_costs_no_request() -> None:
    platform = _make_platform()
    async with platform.running() as manager:
        await platform.clock.advance(5)
        platform.server.requests.clear()
        assert b"butler_network_pool_total_ips{" in manager.metrics.render_exposition()[0]
        assert platform.server.requests == []


def test_a_replica_that_does_not_lead_shows_no_gauges() -> None:
    lab = Lab()
    lab.server.add("networkpools", make.pool())
    for leads in (False, True):
        gauges = Gauges(
            lab.caches["networkpools"],
            lab.caches["ipallocations"],
            providers=lab.caches["providerconfigs"],
            clusters=lab.caches["tenantclusters"],
            clock=lab.clock,
            is_leading=partial(bool, leads),
            count_promises=count_promises,
        )
        assert bool(list(gauges.collect())) == leads
