"""The rules by which the stand-in for MetalLB assigns addresses, without a server."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from allocator import AddressRange
from controller.meta import ObjectMeta
from reconcilers.api.services import (
    Ingress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from reconcilers.cli.standin.controller import ServiceAssignment, assign_addresses
from reconcilers.cli.standin.pools import (
    AddressPool,
    InvalidConfig,
    Pool,
    StandInPoolSpec,
    build_configuration,
)

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


def make_pool(
    *addresses: str, name: str = "default-pool", namespace: str = "metallb-system"
) -> AddressPool:
    meta = ObjectMeta(name=name, namespace=namespace, uid=name, resourceVersion="1")
    return AddressPool(meta, StandInPoolSpec(addresses))


def make_service(
    name: str,
    *addresses: str,
    spec: ServiceSpec | None = None,
    annotations: dict[str, str] | None = None,
) -> Service:
    """Return Service default/NAME, which shows these addresses.

    Args:
        addresses: the addresses in its status.
        spec: None for type LoadBalancer.
        annotations: None for none.
    """
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=name,
        resourceVersion="1",
        creationTimestamp=CREATED,
        annotations=annotations or {},
    )
    status = ServiceStatus(LoadBalancerStatus(tuple(Ingress(address) for address in addresses)))
    return Service(meta, spec or ServiceSpec(type="LoadBalancer"), status)


def assign_by_name(
    services: list[Service], pools: tuple[Pool, ...]
) -> dict[str, ServiceAssignment]:
    """Return the assignment of the stand-in for each Service, by name."""
    return {
        assignment.service.metadata.name: assignment
        for assignment in assign_addresses(services, pools)
    }


@pytest.mark.parametrize(
    ("addresses", "complaint"),
    [
        ([], "pool has no prefixes defined"),
        (["10.0.0.5"], 'entry "10.0.0.5": invalid'),
        (["10.0.0.0/33"], 'entry "10.0.0.0/33": invalid'),
        (["100.200.300.400/24"], 'entry "100.200.300.400/24": invalid'),
        ([" 10.0.0.0/24"], 'entry " 10.0.0.0/24": invalid'),
        (["1.2.3.10-1.2.3.1"], 'entry "1.2.3.10-1.2.3.1": invalid'),
        (["x-1.2.3.1"], 'entry "x-1.2.3.1": invalid'),
        (["1.2.3.1-"], 'entry "1.2.3.1-": invalid'),
        (["fc00::1-10.0.0.1"], "use one family"),
        (["10.0.0.0/24", "10.0.0.200-10.0.1.3"], "overlaps with already defined CIDR"),
    ],
)
def test_a_pool_that_metallb_rejects_is_rejected_and_the_entry_is_named(
    addresses: list[str], complaint: str
) -> None:
    with pytest.raises(InvalidConfig, match="default-pool") as refused:
        build_configuration([make_pool(*addresses)])
    assert complaint in str(refused.value)


def test_pools_that_overlap_are_rejected() -> None:
    with pytest.raises(InvalidConfig, match='in pool "b" overlaps'):
        build_configuration(
            [make_pool("10.0.0.0/8", name="a"), make_pool("10.0.0.0/16", name="b")]
        )


def test_a_pool_outside_of_metallbs_namespace_is_rejected() -> None:
    with pytest.raises(InvalidConfig, match="must be created in metallb-system"):
        build_configuration([make_pool("10.0.0.0/24", namespace="default")])


def test_an_entry_may_be_a_cidr_with_host_bits_or_a_range_with_spaces() -> None:
    (pool,) = build_configuration([make_pool("10.0.0.9/30", "10.0.1.1 - 10.0.1.2")])
    assert [address.start_text for address in pool.list_addresses("IPv4")] == [
        "10.0.0.8",
        "10.0.0.9",
        "10.0.0.10",
        "10.0.0.11",
        "10.0.1.1",
        "10.0.1.2",
    ]


def test_the_first_free_address_goes_to_the_oldest_service() -> None:
    pools = build_configuration([make_pool("10.0.0.5-10.0.0.6", "10.0.0.1-10.0.0.1")])
    young = make_service("a")
    metadata = replace(young.metadata, creationTimestamp=datetime.now(UTC))
    young = structs.replace(young, metadata=metadata)
    assignments = assign_by_name([young, make_service("b"), make_service("c")], pools)
    assert {name: assignment.addresses for name, assignment in assignments.items()} == {
        "b": ("10.0.0.5",),
        "c": ("10.0.0.6",),
        "a": ("10.0.0.1",),
    }


def test_a_service_keeps_its_address_even_if_a_lower_address_is_free() -> None:
    pools = build_configuration([make_pool("10.0.0.1-10.0.0.9")])
    assignments = assign_by_name([make_service("new"), make_service("old", "10.0.0.7")], pools)
    assert assignments["old"].addresses == ("10.0.0.7",)
    assert assignments["new"].addresses == ("10.0.0.1",)


def test_an_address_that_left_the_pools_is_replaced() -> None:
    pools = build_configuration([make_pool("10.0.0.1-10.0.0.9")])
    assert assign_by_name([make_service("a", "10.9.9.9")], pools)["a"].addresses == ("10.0.0.1",)


def test_without_pools_every_service_loses_its_address() -> None:
    assignment = assign_by_name([make_service("a", "10.0.0.1")], ())["a"]
    assert assignment.addresses == ()
    assert "no available IPs" in assignment.problem


def test_the_problem_of_a_service_that_requests_a_full_pool_names_the_pool() -> None:
    pools = build_configuration([make_pool("10.0.0.1-10.0.0.1", name="lab")])
    requesting = make_service("b", annotations={"metallb.io/address-pool": "lab"})
    assignment = assign_by_name([make_service("a", "10.0.0.1"), requesting], pools)["b"]
    assert assignment.problem.endswith("no available IPs in pool lab")


def test_services_of_other_classes_and_types_are_ignored() -> None:
    pools = build_configuration([make_pool("10.0.0.0/24")])
    other = make_service(
        "a", spec=ServiceSpec(type="LoadBalancer", loadBalancerClass="cilium.io/lb")
    )
    internal = make_service("b", spec=ServiceSpec(type="ClusterIP"))
    assert assign_addresses([other, internal], pools) == []


def test_a_pool_without_auto_assign_serves_only_services_that_request_it() -> None:
    reserved = replace(
        make_pool("10.0.0.1-10.0.0.1"),
        spec=StandInPoolSpec(("10.0.0.1-10.0.0.1",), autoAssign=False),
    )
    pools = build_configuration([reserved])
    requesting = make_service("a", annotations={"metallb.io/address-pool": "default-pool"})
    assignments = assign_by_name([requesting, make_service("b")], pools)
    assert assignments["a"].addresses == ("10.0.0.1",)
    assert assignments["b"].addresses == ()


def test_a_service_that_requests_a_taken_address_gets_none() -> None:
    pools = build_configuration([make_pool("10.0.0.1-10.0.0.9")])
    annotations = {"metallb.io/loadBalancerIPs": "10.0.0.4"}
    assignments = assign_by_name(
        [make_service("a", annotations=annotations), make_service("b", annotations=annotations)],
        pools,
    )
    assert assignments["a"].addresses == ("10.0.0.4",)
    assert assignments["b"].addresses == ()
    assert "10.0.0.4" in assignments["b"].problem


def test_the_problem_of_a_service_that_requests_a_missing_pool_names_the_pool() -> None:
    annotations = {"metallb.universe.tf/address-pool": "nope"}
    assignments = assign_by_name(
        [make_service("a", annotations=annotations)],
        build_configuration([make_pool("10.0.0.0/24")]),
    )
    assert 'unknown pool "nope"' in assignments["a"].problem


def test_both_families_of_a_service_come_from_one_pool() -> None:
    pools = build_configuration(
        [
            make_pool("10.0.0.0/30", name="a"),
            make_pool("10.1.0.0/30", "fc00::/126", name="b"),
        ]
    )
    both = ServiceSpec(
        type="LoadBalancer", ipFamilies=("IPv4", "IPv6"), ipFamilyPolicy="RequireDualStack"
    )
    assignment = assign_by_name([make_service("a", spec=both)], pools)["a"]
    assert (assignment.pool, assignment.addresses) == ("b", ("10.1.0.0", "fc00::"))


@given(
    st.lists(st.sampled_from([f"10.0.0.{n}" for n in range(12)]), max_size=10),
    st.integers(1, 10),
)
def test_no_address_is_assigned_twice(shown_addresses: list[str], size: int) -> None:
    pools = build_configuration([make_pool(f"10.0.0.1-10.0.0.{size}")])
    services = [make_service(f"s{n}", address) for n, address in enumerate(shown_addresses)]
    all_assignments = assign_addresses([*services, make_service("fresh")], pools)
    assigned_addresses = [
        address for assignment in all_assignments for address in assignment.addresses
    ]
    assert len(assigned_addresses) == len(set(assigned_addresses)) == min(size, len(services) + 1)
    assert all(AddressRange.parse(address, address) in pools[0] for address in assigned_addresses)
