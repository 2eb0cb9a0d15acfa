"""A tenant with very many Services: the work is linear and limited, and other tasks still run."""

from datetime import timedelta
from ipaddress import ip_address

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from allocator import AddressRange
from controller.meta import ObjectMeta
from reconcilers.api.services import (
    Ingress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from reconcilers.tenantcluster.elastic import demand
from reconcilers.tenantcluster.elastic.demand import (
    ADDRESSES_PER_TURN,
    MOST_SERVICES,
    SERVICES_PER_TURN,
    AddressCounter,
    compute_demand,
    read_demand,
)
from tests.reconcilers import make
from tests.reconcilers.balancer import add_service
from tests.reconcilers.tenantcluster.elastic.facts import KIND
from tests.reconcilers.tenantcluster.elastic.site import (
    TENANT,
    make_elastic_platform,
    make_ready_with_services,
    read_demand_condition,
)

FIRST = int.from_bytes(bytes((10, 40, 0, 0)), "big")


def make_balancer_service(number: int, *, ip: str = "") -> Service:
    """Return a Service of type LoadBalancer; it has no address if `ip` is empty."""
    ingresses = (Ingress(ip=ip),) if ip else ()
    created = make.EPOCH + timedelta(seconds=number)
    return Service(
        ObjectMeta(
            name=f"s{number}", namespace="web", uid=f"uid-{number}", creationTimestamp=created
        ),
        ServiceSpec(type="LoadBalancer"),
        ServiceStatus(LoadBalancerStatus(ingresses)),
    )


async def test_services_without_address_are_listed_without_comparing_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A sort or a look-up by equality would compare each Service with many others."""
    comparisons = 0

    def count_comparison(first: Service, other: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return first is other

    platform, tenant = make_elastic_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        for number in range(100):
            add_service(tenant, f"old{number}")
        await platform.clock.advance(29)  # a pass sees the old Services
        for number in range(100):
            add_service(tenant, f"new{number}")
        monkeypatch.setattr(Service, "__eq__", count_comparison)
        await platform.clock.advance(20)  # the next pass sees all of them
        assert read_demand_condition(platform)[0] == "False"
    assert comparisons == 0


def make_service_with_addresses(number: int, count: int) -> Service:
    """Return the Service with this number, which shows the first `count` addresses."""
    ips = (str(ip_address(FIRST + place)) for place in range(count))
    load_balancer_status = LoadBalancerStatus(tuple(Ingress(ip=ip) for ip in ips))
    return replace(make_balancer_service(number), status=ServiceStatus(load_balancer_status))


@pytest.mark.parametrize(
    "services",
    [
        [make_balancer_service(number) for number in range(20 * SERVICES_PER_TURN)],
        [make_service_with_addresses(number, ADDRESSES_PER_TURN) for number in range(20)],
        [make_service_with_addresses(0, 20 * ADDRESSES_PER_TURN)],
    ],
    ids=["many Services", "many addresses each", "one Service of many addresses"],
)
async def test_other_tasks_run_while_the_services_of_a_tenant_are_read(
    services: list[Service],
) -> None:
    turns = 0

    async def run_beside() -> None:
        nonlocal turns
        while True:
            await checkpoint()
            turns += 1

    async with anyio.create_task_group() as group:
        group.start_soon(run_beside)
        demand = await read_demand(services, KIND.view_service, {4})
        group.cancel_scope.cancel()
    assert turns >= 19
    assert demand == compute_demand(services, KIND.view_service, {4})


@pytest.mark.parametrize("count", [4, 5])
def test_every_range_counts_as_in_use_if_services_show_more_addresses_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(demand, "MOST_ADDRESSES", 4)
    current_demand = compute_demand(
        [make_service_with_addresses(0, 3), make_service_with_addresses(1, count - 3)],
        KIND.view_service,
        {4},
    )
    other_range = AddressRange.parse_cidr("192.0.2.0/28")
    assert len(current_demand.users) == 4
    assert current_demand.is_cut == (count > 4)
    assert current_demand.count_used(other_range) == (16 if count > 4 else 0)
    assert current_demand.count_unassigned([other_range])[4] == (0 if count > 4 else 16)


def test_services_without_an_address_beyond_the_limit_are_counted_and_not_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demand, "MOST_SERVICES", 3)
    waiting = [make_balancer_service(number) for number in range(5)]
    served_services = [make_balancer_service(9, ip="10.40.0.9")]
    current_demand = compute_demand([*waiting, *served_services], KIND.view_service, {4})
    assert [service.metadata.name for service in current_demand.waiting] == ["s0", "s1", "s2"]
    assert current_demand.unexamined == 2
    assert current_demand.count_used(AddressRange.parse("10.40.0.9", "10.40.0.9")) == 1, (
        "otherwise the tenant would shrink"
    )


def test_services_that_growth_cannot_help_do_not_use_up_the_limit_of_examined_services(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demand, "MOST_SERVICES", 3)
    of_another_class = [
        replace(service, spec=replace(service.spec, loadBalancerClass="other"))
        for service in map(make_balancer_service, range(5))
    ]
    current_demand = compute_demand(
        [*of_another_class, *map(make_balancer_service, range(5, 7))], KIND.view_service, {4}
    )
    assert [service.metadata.name for service in current_demand.waiting] == ["s5", "s6"]
    assert (len(current_demand.unservable), current_demand.unexamined) == (3, 2)


async def test_the_condition_reports_how_many_services_were_not_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demand, "MOST_SERVICES", 3)
    platform, tenant = make_elastic_platform()
    async with platform.running():
        await make_ready_with_services(platform, tenant)
        for number in range(5):
            add_service(tenant, f"web{number}")
        await platform.clock.advance(60)
        conditions = platform.server.see(*TENANT, namespace="team")["status"]["conditions"]
        condition = next(
            condition for condition in conditions if condition["type"] == "LoadBalancerDemandMet"
        )
        assert condition["message"].endswith(
            f"; 2 more have no address and were not examined: of one tenant {MOST_SERVICES} are"
            " at a time"
        )


@given(
    st.frozensets(st.integers(0, 60)),
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair))),
)
def test_the_address_counter_counts_the_same_as_a_comparison_with_each_address(
    numbers: frozenset[int], ends: tuple[int, int]
) -> None:
    addresses = [AddressRange(FIRST + number, FIRST + number, 4) for number in numbers]
    span = AddressRange(FIRST + ends[0], FIRST + ends[1], 4)
    expected = sum(span.contains(address) for address in addresses)
    assert AddressCounter(addresses).count_in(span) == expected
