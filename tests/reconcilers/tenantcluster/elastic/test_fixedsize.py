"""A static tenant follows spec.networking.lbPoolSize while it runs."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcilers.api import names
from reconcilers.tenantcluster.elastic.decisions import (
    SIZE_FIELD,
    Created,
    RangeFacts,
    SizeFacts,
    TargetSize,
    decide_fixed_size,
    decide_size,
    describe_size,
)
from reconcilers.tenantcluster.reconciler import NAMING_SECONDS
from tests.reconcilers import make
from tests.reconcilers.balancer import Balancer
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Server
from tests.reconcilers.tenantcluster.elastic.facts import (
    LONG,
    make_range_facts,
    make_service,
    make_size_facts,
)
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    list_balancer_ranges,
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
)

STATIC = {"allocationMode": "static", "defaultPoolSize": 4}


def _make_static_platform(*pools: Any, quota: Any = None) -> tuple[Platform, Server]:
    """Return a platform and its static tenant, which has four addresses and runs MetalLB."""
    platform, tenant = make_elastic_platform(*pools, sizing=STATIC, quota=quota)
    Balancer(tenant)
    return platform, tenant


def _set_size(platform: Platform, size: int) -> None:
    """Set spec.networking.lbPoolSize of the TenantCluster."""
    spec = {"spec": {"networking": {"lbPoolSize": size}}}
    platform.server.edit("tenantclusters", "a", spec, namespace="team")


def _read_status(platform: Platform) -> dict[str, Any]:
    """Return the status of the TenantCluster."""
    status: dict[str, Any] = platform.server.see(*TENANT, namespace="team")["status"]
    return status


def _read_size_condition(platform: Platform) -> tuple[str, str, str]:
    """Return status, reason and message of the condition LoadBalancerSized."""
    [sized] = [c for c in _read_status(platform)["conditions"] if c["type"] == "LoadBalancerSized"]
    return sized["status"], sized["reason"], sized["message"]


def _list_pool_entries(tenant: Server) -> list[str]:
    """Return the ranges in the tenant's IPAddressPool."""
    balancer_pool = tenant.see("ipaddresspools", "default-pool", namespace="metallb-system")
    addresses: list[str] = balancer_pool["spec"]["addresses"]
    return addresses


def _count_requested_addresses(platform: Platform) -> int:
    """Return the sum of spec.count of all load-balancer allocations."""
    return sum(
        allocation["spec"]["count"]
        for allocation in platform.server.all("ipallocations")
        if allocation["spec"]["type"] == "loadbalancer"
    )


async def test_a_larger_size_adds_one_range_of_the_difference() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 10)
        await platform.clock.advance(60)
        assert _list_pool_entries(tenant) == ["10.40.0.0-10.40.0.3", "10.40.0.9-10.40.0.14"]
        assert _read_size_condition(platform)[:2] == ("True", "Ready")
        assert _read_status(platform)["network"]["loadBalancer"]["addresses"] == 10


async def test_a_smaller_size_releases_the_added_range_that_no_service_uses() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 10)
        await platform.clock.advance(60)
        _set_size(platform, 4)
        await platform.clock.advance(60)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert _list_pool_entries(tenant) == ["10.40.0.0-10.40.0.3"]
        assert _read_size_condition(platform)[:2] == ("True", "Ready")


async def test_a_range_that_a_service_uses_stays_and_the_condition_says_so() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 6)
        await platform.clock.advance(60)
        await make_ready_with_services(platform, tenant, "a", "b", "c", "d", "e")
        _set_size(platform, 4)
        await platform.clock.advance(120)
        assert len(list_balancer_ranges(platform)) == 2
        assert _read_size_condition(platform)[:2] == ("False", "AddressesInUse")


async def test_a_size_below_the_first_range_is_reported_as_not_divisible() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 2)
        await platform.clock.advance(60)
        status, reason, message = _read_size_condition(platform)
        assert (status, reason) == ("False", "RangeNotDivisible")
        assert "spec.networking.lbPoolSize asks for 2 addresses, 4 are held" in message
        assert _list_pool_entries(tenant) == ["10.40.0.0-10.40.0.3"]


async def test_a_size_above_the_quota_is_cut_and_says_so() -> None:
    platform, tenant = _make_static_platform(quota={"maxLoadBalancerIPs": 6})
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 50)
        await platform.clock.advance(120)
        assert _read_status(platform)["network"]["loadBalancer"] == {
            "addresses": 6,
            "quota": 6,
            "servicesWaiting": 0,
        }
        assert _read_size_condition(platform) == (
            "False",
            "QuotaExceeded",
            (
                "spec.networking.lbPoolSize asks for 50 addresses, maxLoadBalancerIPs allows 6,"
                " 6 are held; raise maxLoadBalancerIPs of its ProviderConfig, or set"
                " spec.networking.lbPoolSize to 6"
            ),
        )
        events = [event["reason"] for event in platform.server.all("events")]
        assert events.count("QuotaExceeded") == 1


async def test_a_size_that_no_pool_has_room_for_says_what_each_pool_has() -> None:
    platform, tenant = _make_static_platform(make.pool(cidr="10.40.0.0/27"))
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 40)
        await platform.clock.advance(60)
        status, reason, message = _read_size_condition(platform)
        assert (status, reason) == ("False", "PoolExhausted")
        assert "needs 36 load-balancer addresses in a row; lab: largest free block 23" in message
        [waiting] = _read_status(platform)["network"]["waiting"]
        assert (waiting["type"], waiting["role"], waiting["addresses"], waiting["pools"]) == (
            "loadbalancer",
            "growth",
            36,
            ["lab"],
        )
        assert _read_status(platform)["network"]["lastRefusal"]["reason"] == "PoolExhausted"
        platform.server.edit("networkpools", "lab", {"spec": {"cidr": "10.40.0.0/24"}})
        await platform.clock.advance(60)
        assert _read_size_condition(platform)[1] == "Ready"
        assert _read_status(platform)["network"].get("waiting", []) == []
        assert _read_status(platform)["network"]["lastRefusal"]["reason"] == "PoolExhausted"


async def test_services_that_wait_in_a_static_tenant_are_counted_in_its_status() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "a", "b", "c", "d", "e", "f")
        await platform.clock.advance(60)
        assert read_demand_condition(platform) == ("False", "SizeReached")
        assert _read_status(platform)["network"]["loadBalancer"]["servicesWaiting"] == 2
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        _set_size(platform, 8)
        await platform.clock.advance(120)
        assert read_demand_condition(platform) == ("True", "Ready")
        assert _read_status(platform)["network"]["loadBalancer"]["servicesWaiting"] == 0


async def test_events_name_the_ranges_that_a_cluster_gets_and_releases() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 6)
        await platform.clock.advance(60)
        _set_size(platform, 4)
        await platform.clock.advance(60)
        notes = [
            (event["reason"], event["note"])
            for event in platform.server.all("events")
            if event["reason"].startswith("Range")
        ]
        first, growth = "10.40.0.0-10.40.0.3", "10.40.0.9-10.40.0.10"
        assert (
            "RangeAllocated",
            f"loadbalancer range {first} of NetworkPool lab (initial)",
        ) in notes
        added = f"loadbalancer range {growth} of NetworkPool lab (growth)"
        assert [note for note in notes if growth in note[1]] == [
            ("RangeAllocated", added),
            ("RangeReleased", added),
        ]


async def test_at_rest_a_static_tenant_writes_nothing() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "a", "b", "c", "d", "e")
        _set_size(platform, 2)
        # By then its status names the Services of its ranges, which is a write.
        await platform.clock.advance(NAMING_SECONDS + 300)
        writes = len(platform.server.history), len(tenant.history)
        await platform.clock.advance(2 * 3600)
        assert (len(platform.server.history), len(tenant.history)) == writes


@given(
    size=st.integers(1, 40),
    drawn_ranges=st.lists(
        st.tuples(st.integers(1, 16), st.booleans(), st.booleans(), st.booleans()), max_size=6
    ),
)
def test_a_change_never_leaves_fewer_addresses_than_the_size_nor_releases_a_range_in_use(
    size: int, drawn_ranges: list[tuple[int, bool, bool, bool]]
) -> None:
    parts, using = [], []
    for number, (count, is_growth, is_used, has_range) in enumerate(drawn_ranges):
        ends = (f"10.40.{number}.0", f"10.40.{number}.{count - 1}")
        allocation = make.allocation(
            f"a-{number}", size=count, held_range=ends if has_range else None
        )
        parts.append(make_range_facts(allocation, is_growth=is_growth))
        if has_range and is_used:
            using.append(make_service(f"web-{number}", ends[0]))
    target = TargetSize(size, size)
    # The first range is there, unless the tenant waits for a deleted one.
    has_first = any(not part.is_growth for part in parts)
    change = decide_fixed_size(make_size_facts(parts, using), target)
    released = [part for part in parts if part.allocation in change.allocations_to_release]
    kept = [part for part in parts if part not in released]
    after = sum(part.size for part in kept) + change.added_addresses
    is_below = after < size and not any(not part.has_range for part in released)
    assert not is_below or (change.is_release_awaited and not has_first)
    assert all(part.is_growth for part in released)
    assert not any(map(make_size_facts(parts, using).is_used, released))
    assert not (change.added_addresses and change.allocations_to_release)
    request = make.allocation("a-99", size=change.added_addresses)
    added = [make_range_facts(request)] if change.added_addresses else []
    settled = decide_fixed_size(make_size_facts([*kept, *added], using), target)
    assert settled.allocations_to_release == (), "the next pass releases nothing more"
    assert settled.added_addresses in {0, max(0, size - after)}


async def test_a_request_that_no_pool_serves_is_withdrawn_once_the_size_is_smaller() -> None:
    platform, tenant = _make_static_platform(make.pool(cidr="10.40.0.0/27"))
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        platform.server.add("ipallocations", make.allocation("team-a-lb-1", size=36))
        _set_size(platform, 40)
        await platform.clock.advance(60)
        status, reason, message = _read_size_condition(platform)
        assert (status, reason) == ("False", "PoolExhausted")
        assert "needs 36 load-balancer addresses in a row" in message
        _set_size(platform, 4)
        await platform.clock.advance(60)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]
        assert _read_size_condition(platform)[:2] == ("True", "Ready")


async def test_a_request_that_no_pool_serves_is_replaced_once_a_smaller_size_fits() -> None:
    platform, tenant = _make_static_platform(make.pool(cidr="10.40.0.0/27"))
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        platform.server.add("ipallocations", make.allocation("team-a-lb-1", size=36))
        _set_size(platform, 40)
        await platform.clock.advance(60)
        _set_size(platform, 10)
        await platform.clock.advance(60)
        assert _read_status(platform)["network"]["loadBalancer"]["addresses"] == 10
        assert _read_size_condition(platform)[:2] == ("True", "Ready")


async def test_a_larger_size_waits_for_a_deleted_range_that_the_quota_still_counts() -> None:
    platform, tenant = make_elastic_platform(sizing=STATIC, quota={"maxLoadBalancerIPs": 10})
    balancer = Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 10)
        await platform.clock.advance(60)
        await make_ready_with_services(platform, tenant, *(f"s{number}" for number in range(10)))
        balancer.paused = True
        platform.server.delete("ipallocations", "team-a-lb-1")
        await platform.clock.advance(60)
        assert _count_requested_addresses(platform) == 10
        assert _read_size_condition(platform)[1] == "Growing"
        balancer.resume()
        await platform.clock.advance(120)
        assert len(list_balancer_ranges(platform)) == 2
        assert _count_requested_addresses(platform) == 10
        assert _read_size_condition(platform)[:2] == ("True", "Ready")


async def test_a_deleted_first_range_is_not_replaced_by_an_added_one() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 4)
        await platform.clock.advance(60)
        await make_ready_with_services(platform, tenant, "a")
        platform.server.delete("ipallocations", "team-a-lb")
        await platform.clock.advance(120)
        assert list(list_balancer_ranges(platform)) == ["team-a-lb"]


async def test_a_condition_names_the_quota_that_reduces_the_size() -> None:
    platform, tenant = _make_static_platform(quota={"maxLoadBalancerIPs": 10})
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        _set_size(platform, 10)
        await platform.clock.advance(60)
        quota = {"spec": {"network": {"quotaPerTenant": {"maxLoadBalancerIPs": 6}}}}
        platform.server.edit("providerconfigs", "default", quota)
        await platform.clock.advance(60)
        status, reason, message = _read_size_condition(platform)
        assert (status, reason) == ("False", "RangeNotDivisible")
        assert "maxLoadBalancerIPs" in message
        assert f"set {SIZE_FIELD}" not in message


async def test_in_cloud_mode_no_service_waits_for_our_addresses() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant, "a", "b", "c", "d", "e", "f")
        await platform.clock.advance(60)
        assert _read_status(platform)["network"]["loadBalancer"]["servicesWaiting"] == 2
        cloud = {"spec": {"network": {"mode": "cloud"}}}
        platform.server.edit("providerconfigs", "default", cloud)
        await platform.clock.advance(120)
        assert "servicesWaiting" not in _read_status(platform)["network"]["loadBalancer"]


async def test_ranges_that_are_missing_in_status_network_are_added_without_an_event() -> None:
    platform, tenant = _make_static_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        recorded = platform.server.count(verb="post", plural="events")
        platform.server.edit(*TENANT, {"status": {"network": None}}, namespace="team")
        await platform.clock.advance(60)
        assert len(_read_status(platform)["network"]["ranges"]) == 2
        await platform.clock.advance(1200)
        assert platform.server.count(verb="post", plural="events") == recorded
        assert platform.server.count(verb="patch", plural="events") == 0


async def test_services_that_wait_because_of_the_quota_are_counted_in_the_status() -> None:
    platform, tenant = make_elastic_platform(
        sizing={"initialPoolSize": 2},
        quota={"maxLoadBalancerIPs": 2},
        growth_after=30.0,
        growth_when_exhausted=5.0,
        requeue_young=600.0,
    )
    Balancer(tenant)
    async with platform.running():
        await make_ready_with_services(platform, tenant, "a", "b", "c", "d")
        assert read_demand_condition(platform) == ("False", "QuotaExceeded")
        assert _read_status(platform)["network"]["loadBalancer"]["servicesWaiting"] == 2


def _describe_demand(facts: SizeFacts, created: Created | None = None) -> tuple[str, str]:
    """Return reason and message of the condition LoadBalancerDemandMet for a decision."""
    change = decide_size(facts)
    finding = describe_size(facts, change, created or Created()).demand
    return finding.reason, finding.message


def _make_static_facts(
    *parts: RangeFacts, size: int, waits: bool = True, waited: float = LONG
) -> SizeFacts:
    """Return facts of a static tenant whose first range of one address is in use.

    Args:
        parts: its further ranges and requests.
        size: the size that it should have.
        waits: whether one more Service waits for an address.
        waited: for how many seconds that Service has waited.
    """
    first = make.allocation("team-a-lb", size=1, held_range=("10.40.0.0", "10.40.0.0"))
    services = [make_service("served", "10.40.0.0")]
    services += [make_service("waits")] if waits else []
    return make_size_facts(
        [make_range_facts(first, is_growth=False), *parts],
        services,
        waited={"uid-waits": waited},
        is_elastic=False,
        target=TargetSize(size, size),
    )


def _make_added_range(*, is_marked: bool = False) -> RangeFacts:
    """Return an unused growth range of one address, marked for release or not."""
    annotations = {names.ANNOTATION_RELEASING: "2026-01-01T00:00:00Z"} if is_marked else {}
    ends = ("10.40.0.8", "10.40.0.8")
    allocation = make.allocation("team-a-lb-1", size=1, held_range=ends, annotations=annotations)
    return make_range_facts(allocation)


def test_the_demand_condition_does_not_ask_to_raise_a_size_whose_range_is_being_added() -> None:
    reason, message = _describe_demand(_make_static_facts(size=2))
    assert reason == "Growing"
    assert "a range of 1 is added" in message
    request = make_range_facts(make.allocation("team-a-lb-1", size=1), in_pool=None)
    assert _describe_demand(_make_static_facts(request, size=2))[0] == "Growing"
    assert _describe_demand(_make_static_facts(size=1))[0] == "SizeReached"


def test_the_demand_condition_does_not_ask_to_raise_a_size_when_a_mark_is_withdrawn() -> None:
    facts = _make_static_facts(_make_added_range(is_marked=True), size=2)
    assert decide_size(facts).marks_to_withdraw
    assert _describe_demand(facts)[0] == "Growing"


@pytest.mark.parametrize("asked", [1, 9])
def test_the_demand_condition_does_not_ask_to_raise_a_size_that_the_quota_limits(
    asked: int,
) -> None:
    facts = replace(_make_static_facts(size=1), target=TargetSize(1, asked), quota=1)
    reason, message = _describe_demand(facts)
    assert reason == "QuotaExceeded"
    assert "maxLoadBalancerIPs of its ProviderConfig allows, 1" in message
    assert "lbPoolSize" not in message


def test_where_no_pool_has_room_for_the_size_the_demand_condition_says_so() -> None:
    reason, message = _describe_demand(_make_static_facts(size=2), Created(refusal="lab is full"))
    assert reason == "PoolExhausted"
    assert "lab is full" in message


def test_an_added_range_is_not_released_while_a_service_has_just_begun_to_wait() -> None:
    facts = _make_static_facts(_make_added_range(), size=1, waited=2.0)
    assert decide_size(facts).new_marks == ()
    assert decide_size(_make_static_facts(_make_added_range(), size=1, waits=False)).new_marks
    assert decide_size(_make_static_facts(_make_added_range(), size=1)).new_marks, (
        "no range helps it"
    )
