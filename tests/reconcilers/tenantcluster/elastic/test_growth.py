"""The arithmetic of growth and the memory of what was in vain, as functions of what was seen."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange
from controller.meta import ObjectMeta
from reconcilers.api import names
from reconcilers.api.resources import (
    Ingress,
    LoadBalancerStatus,
    Service,
    ServiceSpec,
    ServiceStatus,
)
from reconcilers.tenantcluster.allocations import membership
from reconcilers.tenantcluster.elastic import demand, growth, shrink
from reconcilers.tenantcluster.elastic.demand import Demand, WaitingTimes
from reconcilers.tenantcluster.elastic.growth import Growth, Supply
from reconcilers.tenantcluster.elastic.unserved_growth import LIMIT, UnservedGrowth
from tests.reconcilers import make
from tests.reconcilers.lab import Lab

NUMBERS = st.integers(0, 40)


def _service(
    name: str = "web", *ips: str, seconds: float = 0.0, cls: str | None = None
) -> Service:
    created = make.EPOCH + timedelta(seconds=seconds)
    shown = tuple(Ingress(ip=ip) for ip in ips)
    return Service(
        ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", creationTimestamp=created),
        ServiceSpec(type="LoadBalancer", loadBalancerClass=cls),
        ServiceStatus(LoadBalancerStatus(shown)),
    )


@pytest.mark.parametrize(
    ("wanted", "have", "increment", "quota", "in_flight", "expected"),
    [
        (1, Supply(0, 0, 2), 1, None, 8, Growth(1)),
        (3, Supply(0, 0, 2), 2, None, 8, Growth(2)),
        (3, Supply(1, 1, 3), 1, None, 8, Growth(2)),
        (3, Supply(3, 2, 3), 1, None, 8, Growth(0)),
        (1, Supply(5, 1, 3), 1, None, 8, Growth(0)),
        (5, Supply(0, 0, 2), 1, None, 3, Growth(3)),
        (5, Supply(2, 2, 2), 1, None, 3, Growth(1)),
        (3, Supply(0, 0, 2), 2, 4, 8, Growth(1, over_quota=True)),
        (1, Supply(0, 0, 7), 2, 8, 8, Growth(0, over_quota=True)),
        (1, Supply(0, 0, 9), 1, 8, 8, Growth(0, over_quota=True)),
        (1, Supply(0, 0, 7), 1, 8, 8, Growth(1)),
    ],
)
def test_how_many_allocations_are_added(
    wanted: int, have: Supply, increment: int, quota: int | None, in_flight: int, expected: Growth
) -> None:
    assert growth.decide(wanted, have, increment, quota, in_flight) == expected


@given(
    NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.integers(1, 9), st.integers(1, 60), st.integers(1, 9)
)
def test_growth_covers_what_is_missing_and_never_more_than_is_allowed(
    wanted: int, unused: int, flying: int, held: int, increment: int, quota: int, in_flight: int
) -> None:
    plan = growth.decide(wanted, Supply(unused, flying, held), increment, quota, in_flight)
    assert plan.number == 0 or held + plan.number * increment <= quota
    assert plan.number == 0 or flying + plan.number <= in_flight
    missing = max(0, wanted - unused)
    assert (plan.number - 1) * increment < missing or plan.number == 0, "not one too many"
    if not plan.over_quota and flying + plan.number < in_flight:
        assert plan.number * increment >= missing


def test_supply_counts_growth_in_flight_and_the_quota_counts_all_that_is_not_gone() -> None:
    role = {names.LABEL_ROLE: "growth"}
    found = Demand(frozenset(demand.addresses(_service("a", "10.40.0.8"))), ())
    members = [
        make.allocation("team-a-lb", held=("10.40.0.0", "10.40.0.1")),
        make.allocation("team-a-lb-1", held=("10.40.0.8", "10.40.0.9"), labels=role),
        make.allocation("team-a-lb-2", size=2, labels=role),
        make.allocation("team-a-lb-3", held=("10.40.0.16", "10.40.0.17"), labels=role),
        make.allocation(
            "team-a-lb-4",
            held=("10.40.0.20", "10.40.0.21"),
            labels=role,
            annotations={names.ANNOTATION_RELEASING: "x"},
        ),
        make.allocation(
            "team-a-lb-5",
            held=("10.40.0.24", "10.40.0.25"),
            labels=role,
            deletionTimestamp="2026-01-01T00:00:00Z",
        ),
        make.allocation("nodes", kind="nodes", size=5),
    ]

    def supply(in_place: bool) -> Supply:
        return growth.supply(
            members,
            make.tenant(),
            found,
            in_place=in_place,
            size=lambda one: growth.size_of(one, 8),
        )

    assert supply(True) == Supply(addresses=5, allocations=2, held=12)
    assert supply(False) == Supply(addresses=7, allocations=2, held=12), "not installed yet"


def test_growth_names_use_the_lowest_free_index_and_avoid_others() -> None:
    lab = Lab()
    cache = lab.caches["ipallocations"]
    tenant = make.tenant()

    def name() -> str:
        return membership.free_growth_name(tenant, cache, make.NAMESPACE)

    assert name() == "team-a-lb-1"
    lab.server.add("ipallocations", make.allocation("team-a-lb-1"))
    lab.server.add("ipallocations", make.allocation("team-a-lb-3"))
    assert name() == "team-a-lb-2"
    lab.server.add("ipallocations", make.allocation("team-a-lb-2", tenant="x/y"))
    hashed = f"team-a-lb-{names.short_hash('team/a')}-2"
    assert name() == hashed
    lab.server.add("ipallocations", make.allocation(hashed))
    assert name() == "team-a-lb-4"


def test_growth_names_of_long_tenants_stay_within_the_limits() -> None:
    lab = Lab()
    tenant = make.tenant("n" * 253, "s" * 63)
    name = membership.free_growth_name(tenant, lab.caches["ipallocations"], make.NAMESPACE)
    assert len(name) <= 253
    assert name.endswith("-1")


@pytest.mark.parametrize(
    ("created", "idle", "used", "over", "due"),
    [
        (-3600, None, False, False, 600),
        (-3600, -599, False, False, 1),
        (-3600, -600, False, True, 0),
        (-300, -600, False, False, 300),  # never under ten minutes from creation
        (-3600, -600, True, False, None),
        (-10, None, False, False, 20),  # MetalLB is about to use it
    ],
)
def test_disuse_takes_ten_minutes_and_an_age_of_ten_minutes(
    created: float, idle: float | None, used: bool, over: bool, due: float | None
) -> None:
    now = make.EPOCH
    notes = {}
    if idle is not None:
        notes[names.ANNOTATION_IDLE_SINCE] = (now + timedelta(seconds=idle)).isoformat()
    one = make.allocation(
        "team-a-lb-1", held=("10.40.0.0", "10.40.0.1"), age=-created, annotations=notes
    )
    shown = demand.addresses(_service("a", "10.40.0.1")) if used else ()
    disuse = shrink.disuse(one, Demand(frozenset(shown), ()), now, 600, 30, -created)
    assert (disuse.over, disuse.due_in) == (over, due)


def test_a_range_that_is_not_in_the_pool_is_not_out_of_use() -> None:
    one = make.allocation("team-a-lb-1", held=("10.40.0.0", "10.40.0.1"), age=3_600)
    disuse = shrink.disuse(one, Demand(frozenset(), ()), make.EPOCH, 600, 30, None)
    assert (disuse.remember, disuse.due_in) == (None, 30)


def test_a_range_that_is_used_again_is_no_longer_idle() -> None:
    notes = {names.ANNOTATION_IDLE_SINCE: "2025-12-31T23:00:00+00:00"}
    one = make.allocation("team-a-lb-1", held=("10.40.0.0", "10.40.0.1"), annotations=notes)
    found = Demand(frozenset(demand.addresses(_service("a", "10.40.0.0"))), ())
    assert shrink.disuse(one, found, make.EPOCH, 600, 30, 60).remember is None


def test_a_pool_is_exhausted_when_statuses_show_every_address_of_it() -> None:
    held = [AddressRange.parse("10.40.0.0", "10.40.0.1")]
    services = [_service("a", "10.40.0.0"), _service("b", "10.9.9.9")]
    assert not demand.demand_of(services, "", {4}).exhausts(held)
    services.append(_service("c", "10.40.0.1", cls="other"))
    assert not demand.demand_of(services, "", {4}).exhausts(held), "another class proves nothing"
    services.append(_service("d", "10.40.0.0", "10.40.0.1"))
    assert demand.demand_of(services, "", {4}).exhausts(held)
    assert demand.demand_of([], "", {4}).exhausts([]), "a pool without addresses has none left"


def test_waiting_counts_from_creation_unless_the_service_was_seen_not_to_wait() -> None:
    waiting = WaitingTimes()
    old, new = _service("old", seconds=-100), _service("new", seconds=5)
    assert waiting.update([old], make.EPOCH) == {"uid-old": 100.0}
    later = make.EPOCH + timedelta(seconds=10)
    lost = _service("lost", seconds=-500)
    assert waiting.update([old, new, lost], later) == {
        "uid-old": 110.0,
        "uid-new": 5.0,
        "uid-lost": 0.0,
    }


def test_a_tenants_clock_that_is_ahead_makes_no_service_wait_longer() -> None:
    waiting = WaitingTimes()
    ahead = _service("ahead", seconds=3600)
    assert waiting.update([ahead], make.EPOCH) == {"uid-ahead": 0.0}
    assert waiting.update([ahead], make.EPOCH + timedelta(seconds=30)) == {"uid-ahead": 30.0}


def test_growth_that_helped_no_service_is_remembered_until_more_is_in_use() -> None:
    odd = _service("odd")
    reported = UnservedGrowth(0, frozenset()).updated([odd], 2)
    assert reported.text is not None
    read = UnservedGrowth.from_tenant(
        make.tenant(annotations={names.ANNOTATION_GROWN_IN_VAIN: reported.text})
    )
    assert read == reported
    assert read.covers(odd, 2)
    assert read.covers(odd, 1)
    assert not read.covers(odd, 3)
    assert not read.covers(_service("other"), 2)


@pytest.mark.parametrize("text", ["", "x", "x:y", ":", "²:a"])
def test_an_annotation_that_cannot_be_parsed_counts_as_empty(text: str) -> None:
    found = UnservedGrowth.from_tenant(
        make.tenant(annotations={names.ANNOTATION_GROWN_IN_VAIN: text})
    )
    assert found == UnservedGrowth(0, frozenset())


def test_the_annotation_of_growth_that_did_not_help_is_bounded() -> None:
    reported = UnservedGrowth(0, frozenset()).updated(
        [_service(f"s{n}") for n in range(LIMIT + 50)], 1
    )
    assert len(reported.text or "") < 10 * LIMIT + 20
