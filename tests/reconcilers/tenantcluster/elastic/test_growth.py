"""The functions that decide when an elastic tenant grows, and when a range is out of use."""

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
    compute_digests,
    make_range_facts,
    make_service,
    make_size_facts,
)

NUMBERS = st.integers(0, 20)


def _decide_growth(
    needed_count: int,
    *sizes: int,
    increment: int = 1,
    quota: int | None = None,
    in_flight: int = 8,
    held_count: int = 0,
) -> tuple[int, bool]:
    """Return how many allocations a tenant adds, and whether it needs more than the quota allows.

    Args:
        needed_count: how many addresses Services wait for.
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
    parts = [make_range_facts(first, is_growth=False)] if first is not None else []
    parts += [
        make_range_facts(make.allocation(f"team-a-lb-{number}", size=size))
        for number, size in enumerate(sizes, 1)
    ]
    using = [make_service(f"used{number}", f"10.40.0.{number}") for number in range(held_count)]
    waiting = [make_service(f"waits{number}") for number in range(needed_count)]
    settings = TenantSettings(growth_in_flight=in_flight)
    growth = decide_growth(
        make_size_facts(
            parts, [*using, *waiting], settings=settings, increment=increment, quota=quota
        )
    )
    assert growth.obstacle is None
    return growth.growth_number, growth.is_over_quota


@pytest.mark.parametrize(
    ("needed_count", "sizes", "held_count", "increment", "quota", "in_flight", "expected"),
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
def test_growth_adds_allocations_for_the_missing_addresses_within_the_quota(
    needed_count: int,
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
    assert _decide_growth(needed_count, *sizes, **options) == expected  # type: ignore[arg-type]


@given(
    st.integers(1, 20),
    st.lists(st.integers(1, 9), max_size=6),
    NUMBERS,
    st.integers(1, 9),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_growth_covers_the_missing_addresses_within_the_quota_and_the_growth_in_flight(
    needed_count: int,
    sizes: list[int],
    held_count: int,
    increment: int,
    quota: int,
    in_flight: int,
) -> None:
    number, is_over_quota = _decide_growth(
        needed_count,
        *sizes,
        increment=increment,
        quota=quota,
        in_flight=in_flight,
        held_count=held_count,
    )
    assert number == 0 or held_count + sum(sizes) + number * increment <= quota
    assert number == 0 or len(sizes) + number <= in_flight
    missing = max(0, needed_count - sum(sizes))
    assert (number - 1) * increment < missing or number == 0, "one allocation too many"
    if not is_over_quota and len(sizes) + number < in_flight:
        assert number * increment >= missing


def test_the_quota_counts_deleted_ranges_too_and_supply_does_not() -> None:
    role = {names.LABEL_ROLE: "growth"}
    using = [make_service("a", "10.40.0.8")]
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
        make_range_facts(allocation, is_growth=allocation.metadata.name != "team-a-lb")
        for allocation in members
    ]
    in_place = make_size_facts(parts, using)
    assert measure_supply(in_place) == Supply(addresses=7, allocations=3), (
        "the mark can be withdrawn"
    )
    assert in_place.held_until_gone == 12
    not_installed_yet = make_size_facts(parts, using, settling=1.0)
    assert measure_supply(not_installed_yet) == Supply(addresses=9, allocations=3)


def test_growth_names_use_the_lowest_free_index_and_a_hash_beside_names_of_other_tenants() -> None:
    lab = Lab()
    cache = lab.caches["ipallocations"]
    tenant = make.tenant()

    def find_name() -> str:
        return membership.find_free_growth_name(tenant, cache, make.NAMESPACE)

    assert find_name() == "team-a-lb-1"
    lab.server.add("ipallocations", make.allocation("team-a-lb-1"))
    lab.server.add("ipallocations", make.allocation("team-a-lb-3"))
    assert find_name() == "team-a-lb-2"
    lab.server.add("ipallocations", make.allocation("team-a-lb-2", tenant="x/y"))
    hashed = f"team-a-lb-{names.compute_short_hash('team/a')}-2"
    assert find_name() == hashed
    lab.server.add("ipallocations", make.allocation(hashed))
    assert find_name() == "team-a-lb-4"


def test_growth_names_of_long_tenants_stay_within_the_limits() -> None:
    lab = Lab()
    tenant = make.tenant("n" * 253, "s" * 63)
    name = membership.find_free_growth_name(tenant, lab.caches["ipallocations"], make.NAMESPACE)
    assert len(name) <= 253
    assert name.endswith("-1")


@pytest.mark.parametrize(
    ("created", "idle_since", "is_used", "is_over", "due_in"),  # times are in seconds from now
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
    created: float, idle_since: float | None, is_used: bool, is_over: bool, due_in: float | None
) -> None:
    now = make.EPOCH
    notes = {}
    if idle_since is not None:
        notes[names.ANNOTATION_IDLE_SINCE] = (now + timedelta(seconds=idle_since)).isoformat()
    grown = make.allocation(
        "team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), age=-created, annotations=notes
    )
    services = [make_service("a", "10.40.0.1")] if is_used else []
    part = make_range_facts(grown, in_pool=-created)
    disuse = measure_disuse(make_size_facts([part], services), part)
    assert (disuse.is_over, disuse.due_in) == (is_over, due_in)


def test_disuse_of_a_range_does_not_start_before_the_range_is_in_the_tenants_pool() -> None:
    grown = make.allocation("team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), age=3_600)
    part = make_range_facts(grown, in_pool=None)
    disuse = measure_disuse(make_size_facts([part]), part)
    assert (disuse.since, disuse.due_in) == (None, 30)


def test_disuse_ends_when_a_service_uses_the_range_again() -> None:
    notes = {names.ANNOTATION_IDLE_SINCE: "2025-12-31T23:00:00+00:00"}
    part = make_range_facts(
        make.allocation("team-a-lb-1", held_range=("10.40.0.0", "10.40.0.1"), annotations=notes)
    )
    services = [make_service("a", "10.40.0.0")]
    assert measure_disuse(make_size_facts([part], services), part).since is None


def test_a_pool_is_exhausted_when_statuses_show_every_address_of_it() -> None:
    held_ranges = [AddressRange.parse("10.40.0.0", "10.40.0.1")]
    services = [make_service("a", "10.40.0.0"), make_service("b", "10.9.9.9")]
    assert not demand.compute_demand(services, KIND.view_service, {4}).exhausts(held_ranges)
    services.append(make_service("c", "10.40.0.1", load_balancer_class="other"))
    assert not demand.compute_demand(services, KIND.view_service, {4}).exhausts(held_ranges), (
        "another class proves nothing"
    )
    services.append(make_service("d", "10.40.0.0", "10.40.0.1"))
    assert demand.compute_demand(services, KIND.view_service, {4}).exhausts(held_ranges)
    assert demand.compute_demand([], KIND.view_service, {4}).exhausts([]), (
        "a pool without addresses has none left"
    )


def test_an_older_service_that_starts_to_wait_later_does_not_wait_since_its_creation() -> None:
    waiting = WaitingTimes()
    old, new = make_service("old", seconds=-100), make_service("new", seconds=5)
    assert waiting.update([old], make.EPOCH) == {"uid-old": 100.0}
    later = make.EPOCH + timedelta(seconds=10)
    lost = make_service("lost", seconds=-500)  # it had an address until now
    assert waiting.update([old, new, lost], later) == {
        "uid-old": 110.0,
        "uid-new": 5.0,
        "uid-lost": 0.0,
    }


def test_a_tenants_clock_that_is_ahead_makes_no_service_wait_longer() -> None:
    waiting = WaitingTimes()
    ahead = make_service("ahead", seconds=3600)
    assert waiting.update([ahead], make.EPOCH) == {"uid-ahead": 0.0}
    assert waiting.update([ahead], make.EPOCH + timedelta(seconds=30)) == {"uid-ahead": 30.0}


def test_growth_that_helped_no_service_is_remembered_until_more_addresses_are_in_use() -> None:
    odd, other = compute_digests([make_service("odd"), make_service("other")])
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
        compute_digests([make_service(f"s{n}") for n in range(MOST_UNSERVED + 50)]), used=1
    )
    assert len(reported.annotation or "") < 10 * MOST_UNSERVED + 20
