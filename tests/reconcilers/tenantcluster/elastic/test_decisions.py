"""Properties of every decision on the size of a tenant, for random ranges and Services."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from allocator import AddressRange
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import Service
from reconcilers.configuration.settings import TenantSettings
from reconcilers.tenantcluster.elastic.decisions import (
    RangeFacts,
    SizeFacts,
    TargetSize,
    UnservedGrowth,
    decide_size,
)
from tests.reconcilers import make
from tests.reconcilers.tenantcluster.elastic.facts import (
    LONG,
    apply_change,
    compute_digests,
    is_empty_change,
    make_range_facts,
    make_service,
    make_size_facts,
)

SETTINGS = TenantSettings()


def _make_range_ends(number: int, size: int) -> tuple[str, str]:
    """Return the first and the last address of the range with this number."""
    return f"10.40.{number}.0", f"10.40.{number}.{size - 1}"


@dataclass(frozen=True)
class _DrawnRange:
    """A drawn allocation of a tenant.

    Args:
        size: the number of its addresses.
        used: how many of its addresses Services show.
        state: "held", "request" (without a range), "marked" (for release) or "deleted".
        idle: seconds for which its annotation says that it is out of use; None without it.
        in_pool: seconds for which it has been in the tenant's pool; None if it is not in it.
        age: seconds since it was created.
    """

    size: int
    used: int
    state: str
    idle: float | None
    in_pool: float | None
    age: float

    def make_allocation(self, number: int) -> IPAllocation:
        """Return the allocation with this number."""
        annotations = {}
        if self.idle is not None:
            since = make.EPOCH - timedelta(seconds=self.idle)
            annotations[names.ANNOTATION_IDLE_SINCE] = since.isoformat()
        if self.state == "marked":
            annotations[names.ANNOTATION_RELEASING] = make.EPOCH.isoformat()
        deleted: dict[str, Any] = {}
        if self.state == "deleted":
            deleted["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return make.allocation(
            f"team-a-lb-{number}",
            size=self.size,
            held_range=None if self.state == "request" else _make_range_ends(number, self.size),
            age=self.age,
            annotations=annotations,
            **deleted,
        )

    def make_services(self, number: int) -> list[Service]:
        """Return the Services that show addresses of the range with this number."""
        if self.state == "request":
            return []
        return [
            make_service(f"used-{number}-{index}", f"10.40.{number}.{index}")
            for index in range(min(self.used, self.size))
        ]


_SECONDS = st.sampled_from([0.0, 10.0, 29.0, 30.0, 599.0, 600.0, LONG])
_RANGES = st.lists(
    st.builds(
        _DrawnRange,
        st.integers(1, 4),
        st.sampled_from([0, 0, 1, 4]),
        st.sampled_from(["held", "held", "request", "marked", "deleted"]),
        st.none() | _SECONDS,
        st.none() | _SECONDS,
        _SECONDS,
    ),
    max_size=6,
)


@st.composite
def draw_size_facts(draw: st.DrawFn) -> SizeFacts:
    """Draw the facts of an elastic or static tenant; its first range is not growth."""
    parts: list[RangeFacts] = []
    services: list[Service] = []
    for number, drawn in enumerate(draw(_RANGES)):
        stuck = drawn.state == "request" and draw(st.booleans())
        parts.append(
            make_range_facts(
                drawn.make_allocation(number),
                is_growth=number > 0,
                is_stuck=stuck,
                in_pool=drawn.in_pool if drawn.state == "held" else None,
            )
        )
        services += drawn.make_services(number)
    waiting = [make_service(f"waits-{number}") for number in range(draw(st.integers(0, 6)))]
    waited = {service.metadata.uid: draw(_SECONDS) for service in waiting}
    digests_without_help = compute_digests(waiting[: draw(st.integers(0, 6))])
    unserved_growth = UnservedGrowth().make_after_release(digests_without_help, used=len(services))
    is_static = draw(st.booleans())
    size = draw(st.integers(0, 12))
    return make_size_facts(
        parts,
        [*services, *waiting],
        waited=waited or None,
        is_elastic=not is_static,
        increment=draw(st.integers(1, 3)),
        quota=draw(st.none() | st.integers(1, 12)),
        target=TargetSize(size, size) if is_static and draw(st.booleans()) else None,
        unserved=draw(st.sampled_from([UnservedGrowth(), unserved_growth])),
        settling=draw(st.sampled_from([-1.0, 10.0])),
        unconfirmed=draw(st.sampled_from(["", "", "MetalLBNotRunning"])),
        is_balancer_absent=draw(st.sampled_from([False, False, True])),
        settings=replace(SETTINGS, growth_in_flight=draw(st.integers(1, 8))),
    )


@given(draw_size_facts())
def test_a_decision_that_was_carried_out_is_not_taken_again(facts: SizeFacts) -> None:
    assert decide_size(facts) == decide_size(facts)
    facts = replace(facts, is_elastic=True, target=None)
    after = apply_change(facts, decide_size(facts))
    second = decide_size(after)
    assert (second.marks_to_withdraw, second.growth_number, second.new_marks) == ((), 0, ())
    # Services that growth did not help need no requests, which are out of use from then on.
    assert is_empty_change(decide_size(apply_change(after, second)))


@given(draw_size_facts())
def test_a_static_tenant_comes_to_rest(facts: SizeFacts) -> None:
    facts = replace(facts, is_elastic=False)
    # Marked ranges stay if any is needed; what is too much then is marked again.
    for _ in range(2 * len(facts.ranges) + 1):
        facts = apply_change(facts, decide_size(facts))
    assert is_empty_change(decide_size(facts))


@given(draw_size_facts())
def test_growth_never_exceeds_what_services_wait_for_nor_the_quota(facts: SizeFacts) -> None:
    change = decide_size(facts)
    created = change.growth_number * change.addresses
    if facts.quota is not None and created:
        assert facts.held_until_gone + created <= facts.quota
    if facts.is_elastic:
        waited = facts.list_long_waiting(SETTINGS.growth_after, facts.demand.waiting)
        expected = facts.demand.count_needed_addresses(waited)
        assert created <= -(-expected // facts.increment) * facts.increment
    elif created:
        assert facts.target is not None
        held_count = sum(part.size for part in facts.staying_ranges)
        assert held_count + created == facts.target.addresses


@given(draw_size_facts())
def test_a_range_that_a_service_shows_is_never_marked(facts: SizeFacts) -> None:
    marked = {mark.allocation.metadata.uid for mark in decide_size(facts).new_marks}
    used = {part.uid for part in facts.ranges if facts.is_used(part)}
    assert not marked & used


@given(draw_size_facts())
def test_only_growth_ranges_are_marked_and_only_marks_that_can_be_withdrawn_are(
    facts: SizeFacts,
) -> None:
    change = decide_size(facts)
    added = {part.uid for part in facts.staying_ranges if part.is_growth}
    assert {mark.allocation.metadata.uid for mark in change.new_marks} <= added
    can_stay = {part.uid for part in facts.ranges if part.can_stay}
    assert {allocation.metadata.uid for allocation in change.marks_to_withdraw} <= can_stay


@given(draw_size_facts())
def test_nothing_is_created_or_marked_while_the_balancer_has_not_confirmed_its_ranges(
    facts: SizeFacts,
) -> None:
    change = decide_size(replace(facts, is_elastic=True, target=None, unconfirmed="Refused"))
    assert not change.growth_number
    assert not change.new_marks


class _PartlyServingTenant:
    """A tenant whose load balancer serves some Services, and never serves others.

    Args:
        servable: how many Services it serves, as far as there are addresses.
        refused: how many Services it never serves.
        increment: addresses of one growth range.
        quota: the most load-balancer addresses; None for no limit.
    """

    def __init__(self, servable: int, refused: int, increment: int, quota: int | None) -> None:
        self._servable = [f"web-{number}" for number in range(servable)]
        self._refused = [make_service(f"odd-{number}") for number in range(refused)]
        self._since = make.EPOCH
        first = make.allocation("team-a-lb", held_range=_make_range_ends(0, 2), age=LONG)
        self.facts = make_size_facts(
            [make_range_facts(first, is_growth=False)],
            increment=increment,
            quota=quota,
            settling=-1.0,
        )

    def _serve(self, parts: Sequence[RangeFacts]) -> list[Service]:
        """Return all Services, the servable ones with the addresses of the ranges in order."""
        free = [
            span.first + offset
            for part in parts
            for span in part.spans
            for offset in range(span.size)
        ]
        addresses = [AddressRange(number, number, 4).start_text for number in free]
        balancers = [
            make_service(name, ip) for name, ip in zip(self._servable, addresses, strict=False)
        ]
        waiting = [make_service(name) for name in self._servable[len(balancers) :]]
        return [*balancers, *waiting, *self._refused]

    def run_pass(self, seconds: float) -> bool:
        """Let time pass, then decide and carry out; return whether that writes anything."""
        now = self.facts.now + timedelta(seconds=seconds)
        parts = [
            self.age_or_allocate(number, part, elapsed_seconds=seconds)
            for number, part in enumerate(self.facts.ranges)
            if not part.is_releasing
        ]
        waited = (now - self._since).total_seconds()
        services = self._serve(parts)
        demand = make_size_facts([], services).demand
        self.facts = replace(
            self.facts,
            ranges=tuple(parts),
            demand=demand,
            waited={service.metadata.uid: waited for service in demand.waiting},
            now=now,
        )
        change = decide_size(self.facts)
        self.facts = apply_change(self.facts, change)
        return not is_empty_change(change)

    @staticmethod
    def age_or_allocate(number: int, part: RangeFacts, elapsed_seconds: float) -> RangeFacts:
        """Return an allocation in the next pass: a request has its range, a range has aged."""
        if part.has_range:
            return replace(part, in_pool=(part.in_pool or 0.0) + elapsed_seconds)
        start, end = _make_range_ends(number, part.size)
        status = structs.replace(
            part.allocation.status, phase="Allocated", startAddress=start, endAddress=end
        )
        return replace(
            part, allocation=structs.replace(part.allocation, status=status), in_pool=0.0
        )


@given(
    servable=st.integers(0, 6),
    refused=st.integers(1, 4),
    increment=st.integers(1, 3),
    quota=st.none() | st.integers(2, 10),
)
def test_a_tenant_with_services_that_are_never_served_stops_growing(
    servable: int, refused: int, increment: int, quota: int | None
) -> None:
    tenant = _PartlyServingTenant(servable, refused, increment=increment, quota=quota)
    has_written = [tenant.run_pass(seconds=60.0) for _ in range(180)]
    assert not any(has_written[-60:]), "it still grows or shrinks after two hours"
    growth_ranges = [part for part in tenant.facts.ranges if part.is_growth]
    assert all(tenant.facts.is_used(part) for part in growth_ranges)
