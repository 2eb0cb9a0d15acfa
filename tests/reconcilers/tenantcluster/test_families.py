"""Tenants with addresses of both families: they are requested, projected and released together."""

from typing import Any

import pytest

from allocator import AddressRange
from reconcilers.addressing import statusranges
from reconcilers.ipallocation.release import InUse, Released
from reconcilers.tenantcluster.elastic.decisions import Disuse, measure_disuse, measure_supply
from reconcilers.tenantcluster.elastic.demand import Demand
from reconcilers.tenantcluster.projections import make_projection
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.platform import Platform
from tests.reconcilers.server import Server
from tests.reconcilers.tenantcluster.elastic.facts import make_range_facts, make_size_facts

SECONDARY: dict[str, Any] = {"cidr": "fd00::/120"}
PREFER_BOTH = {"ipFamilyPolicy": "PreferDualStack"}
REQUIRE_BOTH = {"ipFamilyPolicy": "RequireDualStack"}
ONLY_IPV6 = {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}
FOUR_RANGE, SIX_RANGE = ("10.40.0.0", "10.40.0.1"), ("fd00::", "fd00::1")
METALLB = "metallb-system"


def _make_dual_allocation(name: str = "team-a-lb", **more: Any) -> Any:
    """Return an allocation that holds two addresses of each family."""
    families = [
        {"family": "IPv4", "startAddress": FOUR_RANGE[0], "endAddress": FOUR_RANGE[1]},
        {"family": "IPv6", "startAddress": SIX_RANGE[0], "endAddress": SIX_RANGE[1]},
    ]
    return make.allocation(
        name, held_range=FOUR_RANGE, asks=REQUIRE_BOTH, status={"families": families}, **more
    )


def _make_demand(*addresses: str) -> Demand:
    """Return the demand of Services that show these addresses, and none of which waits."""
    return Demand(frozenset(AddressRange.parse(address, address) for address in addresses), ())


def _make_platform(*pools: Any) -> tuple[Platform, Server]:
    """Return a platform with these pools that is not running yet, and the tenant's API server."""
    platform = Platform()
    for pool in pools:
        platform.server.add("networkpools", pool)
    names = [pool.metadata.name for pool in pools]
    platform.server.add("providerconfigs", make.provider(*names))
    return platform, platform.tenant("a")


def _make_pool(name: str = "lab", cidr: str = "10.40.0.0/24", **more: Any) -> Any:
    """Return a new pool, which has no journal yet."""
    return make.pool(name, cidr=cidr, memory=None, **more)


async def _create_ready_cluster(platform: Platform, **networking: Any) -> None:
    """Create a TenantCluster with this spec.networking, and let it become Ready."""
    spec = {"networking": networking} if networking else {}
    platform.server.add("tenantclusters", make.tenant(spec=spec))
    await platform.clock.advance(1.0)
    assert platform.phase("tenantclusters", "a", "team") == "Ready"


async def test_a_cluster_that_requires_both_gets_them_and_gives_them_back() -> None:
    platform, tenant = _make_platform(_make_pool(secondary=SECONDARY))
    async with platform.running():
        await _create_ready_cluster(platform, **REQUIRE_BOTH)
        families = {
            kind: platform.server.see("ipallocations", f"team-a-{kind}")["status"]["families"]
            for kind in ("lb", "nodes")
        }
        balancer_pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
        assert balancer_pool["spec"]["addresses"] == ["10.40.0.0-10.40.0.7", "fd00::-fd00::7"]
        assert [held_range["cidr"] for held_range in families["lb"]] == [
            "10.40.0.0/29",
            "fd00::/125",
        ]
        assert [node["cidr"] for node in families["nodes"]] == [
            "10.40.0.8-10.40.0.12",
            "fd00::8-fd00::c",
        ]
        platform.server.delete("tenantclusters", "a", namespace="team")
        await platform.clock.advance(30.0)
        status = platform.server.see("networkpools", "lab")["status"]
    assert (status["allocatedIPs"], status["secondary"]["allocatedIPs"]) == (0, 0)


async def test_ranges_are_projected_in_the_order_of_the_clusters_families() -> None:
    platform, tenant = _make_platform(_make_pool(secondary=SECONDARY))
    async with platform.running():
        await _create_ready_cluster(platform, **PREFER_BOTH, ipFamilies=["IPv6"])
        balancer_pool = tenant.see("ipaddresspools", "default-pool", namespace=METALLB)
    assert balancer_pool["spec"]["addresses"] == ["fd00::-fd00::7", "10.40.0.0-10.40.0.7"]


async def test_a_cluster_without_ip_families_requests_addresses_without_naming_families() -> None:
    platform, _ = _make_platform(_make_pool(secondary=SECONDARY))
    async with platform.running():
        await _create_ready_cluster(platform)
        allocation = platform.server.see("ipallocations", "team-a-lb")
    assert allocation["spec"].keys() == {"poolRef", "tenantClusterRef", "type", "count"}
    assert "families" not in allocation["status"]


@pytest.mark.parametrize(
    ("networking", "chosen"),
    [
        ({}, "four"),
        (PREFER_BOTH, "dual"),
        (REQUIRE_BOTH, "dual"),
        (ONLY_IPV6, "dual"),
        (PREFER_BOTH | {"ipFamilies": ["IPv6"]}, "dual"),
    ],
)
async def test_the_chosen_pool_is_the_first_that_has_the_requested_families(
    networking: dict[str, Any], chosen: str
) -> None:
    dual = _make_pool("dual", cidr="10.41.0.0/24", secondary=SECONDARY)
    platform, _ = _make_platform(_make_pool("four"), dual)
    async with platform.running():
        await _create_ready_cluster(platform, **networking)
        allocation = platform.server.see("ipallocations", "team-a-lb")
    assert allocation["spec"]["poolRef"]["name"] == chosen


async def test_a_cluster_that_prefers_both_gets_its_first_family_where_no_pool_has_both() -> None:
    full = _make_pool("full", cidr="10.41.0.0/24", secondary={"cidr": "fd00::/126"})
    platform, _ = _make_platform(_make_pool("four"), full)
    async with platform.running():
        await _create_ready_cluster(platform, **PREFER_BOTH)
        allocation = platform.server.see("ipallocations", "team-a-lb")
    assert allocation["spec"]["poolRef"]["name"] == "four"
    [dual] = [
        condition
        for condition in allocation["status"]["conditions"]
        if condition["type"] == "DualStack"
    ]
    assert (dual["status"], dual["reason"]) == ("False", "PoolSingleStack")


async def test_a_cluster_that_requires_both_waits_for_a_pool_that_has_both() -> None:
    platform, _ = _make_platform(_make_pool())
    async with platform.running():
        platform.server.add("tenantclusters", make.tenant(spec={"networking": REQUIRE_BOTH}))
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Provisioning"
        assert platform.phase("ipallocations", "team-a-lb") is None
        status = platform.server.see("tenantclusters", "a", namespace="team")["status"]
        [condition] = [
            condition for condition in status["conditions"] if condition["type"] == "NetworkReady"
        ]
        assert condition["reason"] == "PoolExhausted"
        assert "addresses in a row (RequireDualStack); lab: lacks a family" in condition["message"]
        platform.server.edit("networkpools", "lab", {"spec": {"secondary": SECONDARY}})
        await platform.clock.advance(1.0)
        assert platform.phase("tenantclusters", "a", "team") == "Ready"


@pytest.mark.parametrize(
    ("pool_entries", "shown_address", "is_released"),
    [
        ([], "10.40.9.9", True),
        (["fd00::1-fd00::9"], "10.40.9.9", False),
        ([], "fd00::1", False),
        ([], "10.40.0.1", False),
    ],
    ids=[
        "no address of the range",
        "IPv6 range in the pool",
        "IPv6 address of a Service",
        "IPv4 address of a Service",
    ],
)
async def test_a_dual_stack_range_is_in_use_while_the_tenant_has_an_address_of_either_family(
    pool_entries: list[str], shown_address: str, is_released: bool
) -> None:
    lab = Lab()
    begun = {"butler.butlerlabs.dev/projection-begun": "2026-01-01T00:00:00Z"}
    lab.server.add("tenantclusters", make.tenant(annotations=begun))
    tenant = lab.start_tenant_server("a")
    basis = {"butler.butlerlabs.dev/projection-basis": "500"}
    meta = {"name": "default-pool", "namespace": METALLB, "annotations": basis}
    spec = {"addresses": pool_entries or ["10.40.9.0/24"]}
    tenant.add("ipaddresspools", {"metadata": meta, "spec": spec})
    status = {"loadBalancer": {"ingress": [{"ip": shown_address}]}}
    meta = {"name": "web", "namespace": "default"}
    service = {"metadata": meta, "spec": {"type": "LoadBalancer"}, "status": status}
    tenant.add("services", service)
    answer = await lab.tenant_gate.check(_make_dual_allocation(), 500)
    assert isinstance(answer, Released if is_released else InUse)


def test_both_ranges_are_projected_and_left_out_together() -> None:
    entries = make_projection([_make_dual_allocation()], 1).entries
    assert entries == ("10.40.0.0-10.40.0.1", "fd00::-fd00::1")
    releasing = {"butler.butlerlabs.dev/releasing": "2026-01-01T00:00:00Z"}
    assert make_projection([_make_dual_allocation(annotations=releasing)], 1).entries == ()


def test_a_tenant_is_exhausted_when_one_of_its_families_is() -> None:
    held_ranges = statusranges.list_held_ranges(_make_dual_allocation())
    assert _make_demand().exhausts([])
    assert not _make_demand("10.40.0.0", "fd00::").exhausts(held_ranges)
    assert _make_demand("fd00::", "fd00::1").exhausts(held_ranges)
    assert _make_demand("10.40.0.0", "10.40.0.1").exhausts(held_ranges)


def test_a_dual_stack_range_supplies_as_many_addresses_as_the_scarcer_family_has_left() -> None:
    for used, supplied, in_flight in (
        ((), 2, 1),
        (("fd00::",), 1, 0),
        (("fd00::", "fd00::1"), 0, 0),
        (("10.40.0.0", "fd00::"), 1, 0),
    ):
        facts = make_size_facts(
            [make_range_facts(_make_dual_allocation("team-a-lb-1"))], demand=_make_demand(*used)
        )
        supply = measure_supply(facts)
        assert (supply.addresses, supply.allocations) == (supplied, in_flight)
        assert facts.held_until_gone == 2


@pytest.mark.parametrize("address", ["10.40.0.1", "fd00::1"])
def test_a_used_address_of_either_family_keeps_the_dual_stack_range_in_use(address: str) -> None:
    part = make_range_facts(_make_dual_allocation("team-a-lb-1"))
    assert measure_disuse(make_size_facts([part], demand=_make_demand(address)), part) == Disuse(
        None, None
    )
