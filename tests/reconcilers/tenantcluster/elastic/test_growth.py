"""When an elastic tenant grows and what is out of use, as functions of what was seen."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocator import AddressRange
from reconcilers.api import names
from reconcilers.configuration.settings import TenantSettings
from reconcilers.tenantcluster.allocations import membership
from reconcilers.tenantcluster.elastic import demand
from reconcilers.tenantcluster.elastic.decisions import (
    MOST_UNSERVED,
    Supply,
    UnservedGrowth,
    decide_growth,
    measure_disuse,
    measure_supply,
)
from reconcilers.tenantcluster.elastic.demand import WaitingTimes
from tests.reconcilers import make
from tests.reconcilers.lab import Lab
from tests.reconcilers.tenantcluster.elastic.facts import (
    KIND,
    digests,
    load_balancer,
    range_facts,
    size_facts,
)

NUMBERS = st.integers(0, 20)


def _grows(
    expected: int,
    *sizes: int,
    increment: int = 1,
    quota: int | None = None,
    in_flight: int = 8,
    held_count: int = 0,
) -> tuple[int, bool]:
    """Return how many allocations a tenant adds, and whether the quota forbids more.

    Args:
        expected: addresses that Services wait for.
        sizes: addresses in each growth request.
        increment: addresses in one growth allocation.
        quota: the most load-balancer addresses.
        in_flight: the most growth allocations that no Service uses.
        held_count: addresses in the first range, which Services use.
    """
    last = held_count - 1
    first = (
        make.allocation("team-a-lb", held_range=("10.40.0.0", f"10.40.0.{last}"))
        if held_count
        else None
    )
    parts = [range_facts(first, is_growth=False)] if first is not None else []
    parts += [
        range_facts(make.allocation(f"team-a-lb-{number}", size=size))
        for number, size in enumerate(sizes, 1)
    ]
    using = [load_balancer(f"used{number}", f"10.40.0.{number}") for number in range(held_count)]
    waiting = [load_balancer(f"waits{number}") for number in range(expected)]
    settings = TenantSettings(growth_in_flight=in_flight)
    growth = decide_growth(
        size_facts(parts, [*using, *waiting], settings=settings, increment=increment, quota=quota)
    )
    assert growth.obstacle is None
    return growth.growth_number, growth.is_over_quota


@pytest.mark.parametrize(
    ("wanted_count", "sizes", "held_count", "increment", "quota", "in_flight", "expected"),
    [
        (1, (), 2, 1, None, 8, (1, False)),
        (3, (), 2, 2, None, 8, (2, False)),
        (3, (1,), 2, 1, None, 8, (2, False)),
        (3, (1, 2), 0, 1, None, 8, (0, False)),
        (1, (5,), 0, 1, None, 8, (0, False)),
        (5, (), 2, 1, None, 3, (3, False)),
        (5, (1, 1), 0, 1, None, 3, (1, False)),
        (3, (), 2, 2, 4, 8, (1, True)),
        (1, (), 7, 2, 8, 8, (0, True)),
        (1, (), 9, 1, 8, 8, (0, True)),
        (1, (), 7, 1, 8, 8, (1, False)),
    ],
)
def test_how_many_allocations_are_added(
    wanted_count: int,
    sizes: tuple[int, ...],
    held_count: int,
    increment: int,
    quota: int | None,
    in_flight: int,
    expected: tuple[int, bool],
) -> None:
    options = {
        "increment": increment,
        "quota": quota,
        "in_flight": in_flight,
        "held_count": held_count,
    }
    assert _grows(wanted_count, *sizes, **options) == expected  # type: ignore[arg-type]


@given(
    st.integers(1, 20),
    st.lists(st.integers(1, 9), max_size=6),
    NUMBERS,
    st.integers(1, 9),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_growth_covers_what_is_missing_and_never_more_than_is_allowed(
    wanted_count: int,
    sizes: list[int],
    held_count: int,
    increment: int,
    quota: int,
    in_flight: int,
) -> None:
    number, is_over_quota = _grows(
        wanted_count,
        *sizes,
        increment=increment,
        quota=quota,
        in_flight=in_flight,
        held_count=held_count,
    )
    assert number == 0 or held_count + sum(sizes) + number * increment <= quota
    assert number == 0 or len(sizes) + number <= in_flight
    missing = max(0, wanted_count - sum(sizes))
    assert (number - 1) * increment < missing or number == 0, "not one too many"
    if not is_over_quota and len(sizes) + number < in_flight:
        assert number * increment >= missing


def test_supply_counts_growth_in_flight_and_the_quota_counts_all_that_is_not_gone() -> None:
    role = {names.LABEL_ROLE: "growth"}
    using = [load_balancer("a", "10.40.0.8")]
    members = [
        make.allocation("team-a-lb", held_range=("10.40.0.0", "10.40.0.1")),
        make.allocation("team-a-lb-1", held_range=("10.40.0.8", "10.40.0.9"), labels=role),
        make.allocation("team-a-lb-2", size=2, labels=role),
        make.allocation("team-a-lb-3", held_range=("10.40.0.16", "10.40.0.17"), labels=role),
        make.allocation(
            "team-a-lb-4",
            held_range=("10.40.0.20", "10.40.0.21"),
            labels=role,
            annotations={names.ANNOTATION_RELEASING: "x"},
        ),
        make.allocation(
            "team-a-lb-5",
            held_range=("10.40.0.24", "10.40.0.25"),
            labels=role,
            deletionTimestamp="2026-01-01T00:00:00Z",
        ),
    ]

    parts = [
        range_facts(allocation, is_growth=allocation.metadata.name != "team-a-lb")
        for allocation in members
    ]
    in_place = size_facts(parts, using)
    assert measure_supply(in_place) == Supply(addresses=7, allocations=3), (
        "the mark can be withdrawn"
    )
    assert in_place.held_until_gone == 12
    not_installed_yet = size_facts(parts, using, settling=1.0)
    assert measure_supply(not_installed_yet) == Supply(addresses=9, allocations=3)


def test_growth_names_use_the_lowest_free_index_and_avoid_others() -> None:
    lab = Lab()
    cache = lab.caches["ipallocations"]
    tenant = make.tenant()

    def name() -> str:
        return membership.find_free_growth_name(tenant, cache, make.NAMESPACE)

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
    name = membership.find_free_growth_name(tenant, lab.caches["ipallocations"], make.NAMESPACE)
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
    grown = make.allocation(
        "team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), age=-created, annotations=notes
    )
    services = [load_balancer("a", "10.40.0.1")] if used else []
    part = range_facts(grown, in_pool=-created)
    disuse = measure_disuse(size_facts([part], services), part)
    assert (disuse.is_over, disuse.due_in) == (over, due)


def test_a_range_that_is_not_in_the_pool_is_not_out_of_use() -> None:
    grown = make.allocation("team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), age=3_600)
    part = range_facts(grown, in_pool=None)
    disuse = measure_disuse(size_facts([part]), part)
    assert (disuse.since, disuse.due_in) == (None, 30)


def test_a_range_that_is_used_again_is_no_longer_idle() -> None:
    notes = {names.ANNOTATION_IDLE_SINCE: "2025-12-31T23:00:00+00:00"}
    part = range_facts(
        make.allocation("team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), annotations=notes)
    )
    services = [load_balancer("a", "10.40.0.0")]
    assert measure_disuse(size_facts([part], services), part).since is None


def test_a_pool_is_exhausted_when_statuses_show_every_address_of_it() -> None:
    held_ranges = [AddressRange.parse("10.40.0.0", "10.40.0.1")]
    services = [load_balancer("a", "10.40.0.0"), load_balancer("b", "10.9.9.9")]
    assert not demand.compute_demand(services, KIND.view_service, {4}).exhausts(held_ranges)
    services.append(load_balancer("c", "10.40.0.1", cls="other"))
    assert not demand.compute_demand(services, KIND.view_service, {4}).exhausts(held_ranges), (
        "another class proves nothing"
    )
    services.append(load_balancer("d", "10.40.0.0", "10.40.0.1"))
    assert demand.compute_demand(services, KIND.view_service, {4}).exhausts(held_ranges)
    assert demand.compute_demand([], KIND.view_service, {4}).exhausts([]), (
        "a pool without addresses has none left"
    )


def test_waiting_counts_from_creation_unless_the_service_was_seen_not_to_wait() -> None:
    waiting = WaitingTimes()
    old, new = load_balancer("old", seconds=-100), load_balancer("new", seconds=5)
    assert waiting.update([old], make.EPOCH) == {"uid-old": 100.0}
    later = make.EPOCH + timedelta(seconds=10)
    lost = load_balancer("lost", seconds=-500)
    assert waiting.update([old, new, lost], later) == {
        "uid-old": 110.0,
        "uid-new": 5.0,
        "uid-lost": 0.0,
    }


def test_a_tenants_clock_that_is_ahead_makes_no_service_wait_longer() -> None:
    waiting = WaitingTimes()
    ahead = load_balancer("ahead", seconds=3600)
    assert waiting.update([ahead], make.EPOCH) == {"uid-ahead": 0.0}
    assert waiting.update([ahead], make.EPOCH + timedelta(seconds=30)) == {"uid-ahead": 30.0}


def test_growth_that_helped_no_service_is_remembered_until_more_is_in_use() -> None:
    odd, other = digests([load_balancer("odd"), load_balancer("other")])
    reported = UnservedGrowth().make_after_release([odd], used=2)
    assert reported.annotation is not None
    read = UnservedGrowth.from_tenant(
        make.tenant(annotations={names.ANNOTATION_GROWN_IN_VAIN: reported.annotation})
    )
    assert read == reported
    assert read.covers(odd, 2)
    assert read.covers(odd, 1)
    assert not read.covers(odd, 3)
    assert not read.covers(other, 2)


@pytest.mark.parametrize("content", ["", "x", "x:y", ":", "²:a"])
def test_an_annotation_that_cannot_be_parsed_counts_as_empty(content: str) -> None:
    growth = UnservedGrowth.from_tenant(
        make.tenant(annotations={names.ANNOTATION_GROWN_IN_VAIN: content})
    )
    assert growth == UnservedGrowth()


def test_the_annotation_of_growth_that_did_not_help_is_bounded() -> None:
    reported = UnservedGrowth().make_after_release(
        digests([load_balancer(f"s{n}") for n in range(MOST_UNSERVED + 50)]), used=1
    )
    assert len(reported.annotation or "") < 10 * MOST_UNSERVED + 20
