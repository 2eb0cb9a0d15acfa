"""What `check --tenants` finds wrong in a tenant, from what was read there."""

from collections.abc import Mapping, Sequence

import pytest

from allocator import AddressRange
from controller.meta import ObjectMeta, TracedMeta
from reconcilers.api import names
from reconcilers.api.services import (
    Ingress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from reconcilers.loadbalancers.metallb.adapter import describe_stale_configuration
from reconcilers.loadbalancers.metallb.kinds import (
    AddressPoolSpec,
    AddressPoolStatus,
    IPAddressPool,
)
from reconcilers.loadbalancers.metallb.projection import make_offer
from reconcilers.tenantcluster.inspection import TenantReading, find_problems
from tests.reconcilers import make
from tests.reconcilers.tenantcluster.elastic.facts import KIND

SPACES = [AddressRange.parse("10.40.0.0", "10.40.0.255")]
OURS = [make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))]
RIGHT = "10.40.0.0-10.40.0.7"


def _pool(*entries: str, counted: int | None = None) -> IPAddressPool:
    status = AddressPoolStatus(availableIPv4=counted) if counted is not None else None
    return IPAddressPool(TracedMeta(), AddressPoolSpec(entries), status)


def _service(name: str, ip: str) -> Service:
    status = ServiceStatus(LoadBalancerStatus((Ingress(ip),)))
    return Service(ObjectMeta(name, "default"), status=status)


def _tenant_reading(
    pools: Mapping[str, IPAddressPool],
    *,
    reported: str = "",
    services: Sequence[Service] = (),
    management: str = "",
) -> TenantReading:
    return TenantReading(
        kind=KIND,
        offers=(make_offer(pools["default-pool"]),),
        stale=describe_stale_configuration(pools, reported),
        services=services,
        management=management,
    )


def _kinds(tenant_reading: TenantReading) -> list[tuple[str, str]]:
    return [(kind, grave) for kind, grave, _ in find_problems(tenant_reading, OURS, SPACES)]


def test_nothing_is_wrong_where_all_is_as_it_should_be() -> None:
    pools = {"default-pool": _pool(RIGHT, counted=8), "theirs": _pool("10.99.0.0/24")}
    services = (_service("ours", "10.40.0.3"), _service("theirs", "10.99.0.3"))
    assert _kinds(_tenant_reading(pools, services=services)) == []


def test_a_metallb_before_0_15_that_counts_nothing_is_no_finding() -> None:
    assert _kinds(_tenant_reading({"default-pool": _pool(RIGHT)})) == []


def test_addresses_that_metallb_skips_for_buggy_devices_are_no_finding() -> None:
    assert _kinds(_tenant_reading({"default-pool": _pool(RIGHT, counted=7)})) == []


def test_a_large_ipv6_pool_whose_count_is_above_its_size_is_no_finding() -> None:
    largest = 2**63 - 1
    assert (
        describe_stale_configuration({"default-pool": _pool("fd00::/66", counted=largest)}, "")
        is None
    )


def test_a_pool_with_other_addresses_is_found() -> None:
    assert _kinds(_tenant_reading({"default-pool": _pool("10.40.0.0/32")})) == [
        ("TenantDrift", "warning")
    ]


def test_a_pool_of_another_cluster_is_found_and_not_called_drift() -> None:
    noted = TracedMeta(annotations={names.ANNOTATION_PROJECTION_OWNER: "team/b"})
    theirs = IPAddressPool(noted, AddressPoolSpec(("10.40.0.8-10.40.0.15",)))
    ((kind, grave, sentence),) = find_problems(
        _tenant_reading({"default-pool": theirs}), OURS, SPACES
    )
    assert (kind, grave) == ("TenantShared", "error")
    assert "TenantCluster team/b leads to the same cluster" in sentence


def test_a_pool_of_another_management_cluster_is_found_and_not_called_drift() -> None:
    notes = {
        names.ANNOTATION_PROJECTION_OWNER: "team/a",
        names.ANNOTATION_PROJECTION_MANAGEMENT: "uid-1",
    }
    noted = TracedMeta(annotations=notes)
    pools = {"default-pool": IPAddressPool(noted, AddressPoolSpec(("10.40.0.8-10.40.0.15",)))}
    ((kind, grave, sentence),) = find_problems(
        _tenant_reading(pools, management="uid-2"), OURS, SPACES
    )
    assert (kind, grave) == ("TenantShared", "error")
    assert "management cluster uid-1 writes IPAddressPool" in sentence
    assert {k for k, _ in _kinds(_tenant_reading(pools, management="uid-1"))} == {"TenantDrift"}


@pytest.mark.parametrize(
    ("entry", "basis", "becomes"),
    [
        ("10.99.0.0/24", {}, "another tool created it, so it stays"),
        ("10.99.0.0/24", {names.ANNOTATION_PROJECTION_BASIS: "7"}, "corrects it"),
        ("10.40.0.0/30", {}, "corrects it"),
    ],
    ids=["made by others", "ours, edited", "of others, and holds nothing else"],
)
def test_drift_that_no_controller_corrects_is_reported_as_such(
    entry: str, basis: dict[str, str], becomes: str
) -> None:
    pool = IPAddressPool(TracedMeta(annotations=basis), AddressPoolSpec((entry,)))
    ((kind, _, sentence),) = find_problems(_tenant_reading({"default-pool": pool}), OURS, SPACES)
    assert kind == "TenantDrift"
    assert sentence.endswith(becomes)


def test_a_metallb_that_goes_by_a_larger_pool_is_found() -> None:
    pools = {"default-pool": _pool(RIGHT, counted=16)}
    assert _kinds(_tenant_reading(pools)) == [("TenantConfigurationNotRead", "error")]


def test_pools_that_metallb_cannot_use_are_found_and_named() -> None:
    pools = {"default-pool": _pool(RIGHT), "theirs": _pool("10.40.0.7/32")}
    [(kind, _, finding)] = find_problems(_tenant_reading(pools), OURS, SPACES)
    assert kind == "TenantConfigurationNotRead"
    assert finding.endswith("IPAddressPools default-pool and theirs overlap")


def test_what_others_set_in_our_pool_is_found() -> None:
    edited = AddressPoolSpec((RIGHT,), autoAssign=False, serviceAllocation={"priority": 1})
    pools = {"default-pool": IPAddressPool(TracedMeta(), edited)}
    [(kind, grave, finding)] = find_problems(_tenant_reading(pools), OURS, SPACES)
    assert (kind, grave) == ("TenantDrift", "warning")
    assert "autoAssign, serviceAllocation" in finding


def test_services_that_wait_for_what_is_not_ours_are_found_and_named() -> None:
    pinned = ServiceSpec(type="LoadBalancer", loadBalancerIP="10.99.0.1")
    other = ServiceSpec(type="LoadBalancer", loadBalancerClass="x.io/y")
    waiting = [
        Service(ObjectMeta(name, "default"), spec)
        for name, spec in {"pinned": pinned, "other": other}.items()
    ]
    tenant_reading = _tenant_reading({"default-pool": _pool(RIGHT)}, services=waiting)
    [(kind, grave, finding)] = find_problems(tenant_reading, OURS, SPACES)
    assert (kind, grave) == ("TenantServiceWaits", "warning")
    assert "default/pinned has no address: it asks for the address 10.99.0.1" in finding


def test_metallbs_own_complaint_is_passed_on() -> None:
    tenant_reading = _tenant_reading({"default-pool": _pool(RIGHT)}, reported="no such community")
    [(_, _, finding)] = find_problems(tenant_reading, OURS, SPACES)
    assert finding.endswith(": no such community")


def test_services_with_addresses_that_are_not_the_tenants_are_found_and_named() -> None:
    services = [_service(f"s{number}", f"10.40.0.{8 + number}") for number in range(7)]
    tenant_reading = _tenant_reading({"default-pool": _pool(RIGHT)}, services=services)
    [(kind, grave, finding)] = find_problems(tenant_reading, OURS, SPACES)
    assert (kind, grave) == ("TenantUsesFreeAddress", "error")
    assert "10.40.0.8 (default/s0), 10.40.0.9 (default/s1)" in finding
    assert "10.40.0.12 (default/s4), and 2 more;" in finding
