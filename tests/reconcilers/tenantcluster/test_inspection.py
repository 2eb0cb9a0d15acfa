"""Problems that `check --tenants` finds in what it has read from a tenant."""

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
OUR_ALLOCATIONS = [make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.7"))]
OUR_RANGE = "10.40.0.0-10.40.0.7"


def _make_pool(*entries: str, counted: int | None = None) -> IPAddressPool:
    """Return an IPAddressPool in which MetalLB has counted addresses; None if it counts none."""
    status = AddressPoolStatus(availableIPv4=counted) if counted is not None else None
    return IPAddressPool(TracedMeta(), AddressPoolSpec(entries), status)


def _make_service(name: str, ip: str) -> Service:
    """Return Service default/NAME, which shows an address."""
    status = ServiceStatus(LoadBalancerStatus((Ingress(ip),)))
    return Service(ObjectMeta(name, "default"), status=status)


def _make_reading(
    pools: Mapping[str, IPAddressPool],
    *,
    reported: str = "",
    services: Sequence[Service] = (),
    management: str = "",
) -> TenantReading:
    """Return a reading of a tenant with MetalLB.

    Args:
        pools: its IPAddressPools by name; `default-pool` is the one that we write.
        reported: the configuration error that MetalLB reports; empty for none.
        management: the identity of the management cluster that reads; empty if it is unknown.
    """
    return TenantReading(
        kind=KIND,
        offers=(make_offer(pools["default-pool"]),),
        stale=describe_stale_configuration(pools, reported),
        services=services,
        management=management,
    )


def _list_kinds(tenant_reading: TenantReading) -> list[tuple[str, str]]:
    """Return kind and severity of each problem of a tenant that holds OUR_ALLOCATIONS."""
    return [
        (kind, severity)
        for kind, severity, _ in find_problems(tenant_reading, OUR_ALLOCATIONS, SPACES)
    ]


def test_a_tenant_whose_pool_has_its_range_and_no_other_has_no_problem() -> None:
    pools = {
        "default-pool": _make_pool(OUR_RANGE, counted=8),
        "theirs": _make_pool("10.99.0.0/24"),
    }
    services = (_make_service("ours", "10.40.0.3"), _make_service("theirs", "10.99.0.3"))
    assert _list_kinds(_make_reading(pools, services=services)) == []


def test_a_metallb_before_0_15_that_counts_nothing_is_no_finding() -> None:
    assert _list_kinds(_make_reading({"default-pool": _make_pool(OUR_RANGE)})) == []


def test_addresses_that_metallb_skips_for_buggy_devices_are_no_finding() -> None:
    assert _list_kinds(_make_reading({"default-pool": _make_pool(OUR_RANGE, counted=7)})) == []


def test_a_large_ipv6_pool_whose_count_is_above_its_size_is_no_finding() -> None:
    largest = 2**63 - 1
    assert (
        describe_stale_configuration(
            {"default-pool": _make_pool("fd00::/66", counted=largest)}, ""
        )
        is None
    )


def test_a_pool_with_other_addresses_is_found() -> None:
    assert _list_kinds(_make_reading({"default-pool": _make_pool("10.40.0.0/32")})) == [
        ("TenantDrift", "warning")
    ]


def test_a_pool_of_another_cluster_is_found_and_not_called_drift() -> None:
    meta = TracedMeta(annotations={names.ANNOTATION_PROJECTION_OWNER: "team/b"})
    pool = IPAddressPool(meta, AddressPoolSpec(("10.40.0.8-10.40.0.15",)))
    ((kind, severity, sentence),) = find_problems(
        _make_reading({"default-pool": pool}), OUR_ALLOCATIONS, SPACES
    )
    assert (kind, severity) == ("TenantShared", "error")
    assert "TenantCluster team/b leads to the same cluster" in sentence


def test_a_pool_of_another_management_cluster_is_found_and_not_called_drift() -> None:
    notes = {
        names.ANNOTATION_PROJECTION_OWNER: "team/a",
        names.ANNOTATION_PROJECTION_MANAGEMENT: "uid-1",
    }
    meta = TracedMeta(annotations=notes)
    pools = {"default-pool": IPAddressPool(meta, AddressPoolSpec(("10.40.0.8-10.40.0.15",)))}
    ((kind, severity, sentence),) = find_problems(
        _make_reading(pools, management="uid-2"), OUR_ALLOCATIONS, SPACES
    )
    assert (kind, severity) == ("TenantShared", "error")
    assert "management cluster uid-1 writes IPAddressPool" in sentence
    assert {k for k, _ in _list_kinds(_make_reading(pools, management="uid-1"))} == {"TenantDrift"}


@pytest.mark.parametrize(
    ("entry", "annotations", "expected_ending"),
    [
        ("10.99.0.0/24", {}, "another tool created it, so it stays"),
        ("10.99.0.0/24", {names.ANNOTATION_PROJECTION_BASIS: "7"}, "corrects it"),
        ("10.40.0.0/30", {}, "corrects it"),
    ],
    ids=[
        "created by another tool, with foreign addresses",
        "created by us, with foreign addresses",
        "created by another tool, with a part of our range",
    ],
)
def test_a_drifted_pool_is_reported_with_whether_a_controller_will_correct_it(
    entry: str, annotations: dict[str, str], expected_ending: str
) -> None:
    pool = IPAddressPool(TracedMeta(annotations=annotations), AddressPoolSpec((entry,)))
    ((kind, _, sentence),) = find_problems(
        _make_reading({"default-pool": pool}), OUR_ALLOCATIONS, SPACES
    )
    assert kind == "TenantDrift"
    assert sentence.endswith(expected_ending)


def test_a_metallb_that_counts_more_addresses_than_its_pool_has_is_found() -> None:
    pools = {"default-pool": _make_pool(OUR_RANGE, counted=16)}
    assert _list_kinds(_make_reading(pools)) == [("TenantConfigurationNotRead", "error")]


def test_pools_that_metallb_cannot_use_are_found_and_named() -> None:
    pools = {"default-pool": _make_pool(OUR_RANGE), "theirs": _make_pool("10.40.0.7/32")}
    [(kind, _, finding)] = find_problems(_make_reading(pools), OUR_ALLOCATIONS, SPACES)
    assert kind == "TenantConfigurationNotRead"
    assert finding.endswith("IPAddressPools default-pool and theirs overlap")


def test_fields_of_our_pool_that_others_set_are_found_and_named() -> None:
    edited = AddressPoolSpec((OUR_RANGE,), autoAssign=False, serviceAllocation={"priority": 1})
    pools = {"default-pool": IPAddressPool(TracedMeta(), edited)}
    [(kind, severity, finding)] = find_problems(_make_reading(pools), OUR_ALLOCATIONS, SPACES)
    assert (kind, severity) == ("TenantDrift", "warning")
    assert "autoAssign, serviceAllocation" in finding


def test_services_that_wait_for_a_foreign_address_or_class_are_found_and_named() -> None:
    pinned = ServiceSpec(type="LoadBalancer", loadBalancerIP="10.99.0.1")
    other = ServiceSpec(type="LoadBalancer", loadBalancerClass="x.io/y")
    waiting = [
        Service(ObjectMeta(name, "default"), spec)
        for name, spec in {"pinned": pinned, "other": other}.items()
    ]
    tenant_reading = _make_reading({"default-pool": _make_pool(OUR_RANGE)}, services=waiting)
    [(kind, severity, finding)] = find_problems(tenant_reading, OUR_ALLOCATIONS, SPACES)
    assert (kind, severity) == ("TenantServiceWaits", "warning")
    assert "default/pinned has no address: it asks for the address 10.99.0.1" in finding


def test_a_configuration_error_that_metallb_reports_is_quoted() -> None:
    tenant_reading = _make_reading(
        {"default-pool": _make_pool(OUR_RANGE)}, reported="no such community"
    )
    [(_, _, finding)] = find_problems(tenant_reading, OUR_ALLOCATIONS, SPACES)
    assert finding.endswith(": no such community")


def test_the_first_five_services_with_free_addresses_of_a_pool_are_named() -> None:
    services = [_make_service(f"s{number}", f"10.40.0.{8 + number}") for number in range(7)]
    tenant_reading = _make_reading({"default-pool": _make_pool(OUR_RANGE)}, services=services)
    [(kind, severity, finding)] = find_problems(tenant_reading, OUR_ALLOCATIONS, SPACES)
    assert (kind, severity) == ("TenantUsesFreeAddress", "error")
    assert "10.40.0.8 (default/s0), 10.40.0.9 (default/s1)" in finding
    assert "10.40.0.12 (default/s4), and 2 more;" in finding
