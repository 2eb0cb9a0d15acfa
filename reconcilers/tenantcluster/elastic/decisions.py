"""Decides how many load-balancer addresses a tenant should have: from facts, without I/O.

decide_size           what to change now
  decide_growth         when an elastic tenant grows, and by how much
  find_growth_obstacle  why it does not grow though Services wait
  decide_shrink         which ranges of an elastic tenant are out of use
  decide_fixed_size     what brings a static tenant to the size that its spec asks for
describe_size         the conditions, once the change is carried out

The rules that the rest relies on:

- A Service is a reason to grow after it has waited for `growth_after` seconds. Unused addresses
  are subtracted from the addresses that Services wait for, so no Service makes a tenant grow
  twice.
- The quota counts every load-balancer allocation until it is gone, also while it is released.
- A *mark* is an annotation on an allocation whose range is to be released. A mark can be withdrawn
  while the allocation holds the range; then the range counts as supply in the same decision.
- Only ranges that growth added are released. *Disuse* is the time without a Service that uses a
  range. It is noted on the allocation, so a restart neither resets nor hastens it. A range that is
  not in the tenant's pool is neither in use nor out of use.
- A growth range may be released because no Service used it, while Services waited all the time.
  More such ranges would not serve these Services either. So they are remembered on the
  TenantCluster (`UnservedGrowth`), which does not grow for them again.
- A range cannot be divided or enlarged. A larger fixed size adds one range of the difference. A
  smaller one releases the youngest added ranges that no Service uses and whose removal leaves at
  least the size. The first range stays while the cluster lives, and so does a pinned range.

`part` is the name of one RangeFacts in this module: one allocation of the tenant.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from allocator import AddressRange, AllocatorError
from reconcilers.addressing import requestedranges, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.services import Service
from reconcilers.api.tenantcluster import LOAD_BALANCER_SIZED, TenantCluster
from reconcilers.configuration.settings import TenantSettings
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.reporting.wording import count_addresses, count_noun
from reconcilers.tenantcluster.allocations import membership
from reconcilers.tenantcluster.elastic.demand import (
    MOST_SERVICES,
    Demand,
    UnservableService,
    could_be_served,
)
from reconcilers.tenantcluster.networkstatus import RefusedGrowth
from reconcilers.tenantcluster.status import make_demand_met

SIZE_FIELD = "spec.networking.lbPoolSize"
QUOTA_EXCEEDED = "QuotaExceeded"
"""The reason when growth would exceed the quota."""
GROWING = "Growing"
"""The reason while a range is being added."""
POOL_EXHAUSTED = "PoolExhausted"
"""The reason when no pool has room for growth."""
MOST_NAMED = 3
"""Services that are named in one condition."""
MOST_UNSERVED = 1_000
"""How many Services are remembered that growth did not help; each takes nine bytes."""
_MOST_DIGITS = 10


# The facts ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RangeFacts:
    """One load-balancer allocation of a tenant.

    Args:
        size: how many addresses of each family it holds or asks for.
        is_growth: whether it was added by growth, and may be released again.
        is_stuck: whether it is a request that its pool refused, or whose pool is gone.
        in_pool: for how many seconds its range has been in the tenant's pool; None if it is not
            there, as far as this process knows.
    """

    allocation: IPAllocation
    size: int
    is_growth: bool = False
    is_stuck: bool = False
    in_pool: float | None = None

    @property
    def uid(self) -> str:
        """The uid of the allocation."""
        return self.allocation.metadata.uid

    @property
    def spans(self) -> tuple[AddressRange, ...]:
        """The ranges that it holds, one of each family; empty for a request."""
        return statusranges.list_held_ranges(self.allocation)

    @property
    def has_range(self) -> bool:
        """Whether it holds a range; without one it is a request."""
        return statusranges.find_held_range(self.allocation) is not None

    @property
    def is_releasing(self) -> bool:
        """Whether it is deleted, or marked to be released."""
        return self.allocation.releasing

    @property
    def can_stay(self) -> bool:
        """Whether it is marked, and its mark can be withdrawn so that the range stays."""
        return self.allocation.is_marked and self.has_range


@dataclass(frozen=True, slots=True)
class TargetSize:
    """How many load-balancer addresses a static tenant should hold of each family.

    Args:
        addresses: how many, the quota applied.
        asked: how many its spec asks for.
    """

    addresses: int
    asked: int

    @property
    def is_cut(self) -> bool:
        """Whether the quota allows fewer than the spec asks for."""
        return self.addresses < self.asked

    @property
    def description(self) -> str:
        """What the spec asks for, and what the quota allows of it."""
        asked = f"{SIZE_FIELD} asks for {count_addresses(self.asked)}"
        return f"{asked}, maxLoadBalancerIPs allows {self.addresses}" if self.is_cut else asked


@dataclass(frozen=True, slots=True)
class UnservedGrowth:
    """The Services that growth did not help, so that the tenant does not grow for them again.

    Without this memory, a Service that the load balancer never serves from our ranges would make
    its tenant grow and shrink every ten minutes. A Service is forgotten when it asks for something
    else. All Services are forgotten when more addresses are in use than at the time of writing:
    then the load balancer hands out addresses again. `used` only rises, so the tenant cannot
    forget and grow without end.

    Args:
        used: how many addresses were in use when the memory was written.
        digests: the digests of the Services, as `Demand.make_digest` has them.
    """

    used: int = 0
    digests: frozenset[str] = frozenset()

    @classmethod
    def from_tenant(cls, tenant: TenantCluster) -> "UnservedGrowth":
        """Read the annotation of a TenantCluster; one that cannot be parsed counts as empty."""
        value = tenant.metadata.annotations.get(names.ANNOTATION_GROWN_IN_VAIN, "")
        used, _, digests = value.partition(":")
        # The length is limited because `int` is slow for, or rejects, very long texts.
        if not used.isdecimal() or len(used) > _MOST_DIGITS:
            return cls()
        return cls(int(used), frozenset(digests.split(",")) - {""})

    @property
    def annotation(self) -> str | None:
        """The value of the annotation; None if there is nothing to remember."""
        return f"{self.used}:{','.join(sorted(self.digests))}" if self.digests else None

    def covers(self, digest: str, used: int) -> bool:
        """Return whether growth is known not to help a Service.

        False for all Services if more addresses are in use now than when the memory was written.

        Args:
            digest: the digest of the Service.
            used: how many addresses are in use now.
        """
        return used <= self.used and digest in self.digests

    def make_after_release(self, waiting: Iterable[str], used: int) -> "UnservedGrowth":
        """Return the memory after a growth range was released unused while Services waited.

        It covers these Services alone; others of the earlier memory no longer wait.

        Args:
            waiting: the digests of the Services.
            used: how many addresses are in use now.
        """
        digests = sorted(waiting)
        return UnservedGrowth(max(self.used, used), frozenset(digests[:MOST_UNSERVED]))


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """All that the size of one tenant is decided from.

    Args:
        ranges: its load-balancer allocations, oldest first, also those being released.
        demand: what its Services show.
        waited: for how many seconds each Service without an address has waited, by uid.
        now: the time.
        settings: the thresholds.
        balancer: the load balancer's name, for messages.
        is_elastic: whether the tenant grows and shrinks with its Services; else it is static.
        increment: addresses in one growth allocation.
        quota: the most load-balancer addresses that it may hold; None for no limit.
        target: the size that a static tenant asks for; None if it asks for none, or is not Ready.
        pools: the pools that may serve it, in the order in which they are tried.
        unserved: the Services that growth did not help.
        settling: for how many seconds unused addresses may still help waiting Services, because
            the load balancer has had them only for a short time; 0 or less if they no longer may.
        unconfirmed: why the load balancer is not known to have the tenant's ranges; empty if it
            has them, or if it is absent.
        is_balancer_absent: whether the load balancer was not there at the last projection. Then
            nothing is assigned yet, and growth is the difference of waiting Services and
            addresses.
    """

    ranges: tuple[RangeFacts, ...]
    demand: Demand
    waited: Mapping[str, float]
    now: datetime
    settings: TenantSettings
    balancer: str
    is_elastic: bool = True
    increment: int = 1
    quota: int | None = None
    target: TargetSize | None = None
    pools: tuple[str, ...] = ()
    unserved: UnservedGrowth = UnservedGrowth()
    settling: float = 0.0
    unconfirmed: str = ""
    is_balancer_absent: bool = False

    @property
    def staying_ranges(self) -> list[RangeFacts]:
        """The allocations that are not being released."""
        return [part for part in self.ranges if not part.is_releasing]

    @property
    def held(self) -> int:
        """Addresses of each family in ranges that are not being released."""
        return sum(part.size for part in self.staying_ranges if part.has_range)

    @property
    def held_until_gone(self) -> int:
        """Addresses of each family in all allocations that are not gone, as the quota counts."""
        return sum(part.size for part in self.ranges)

    def is_used(self, part: RangeFacts) -> bool:
        """Return whether a Service shows an address of an allocation."""
        return any(map(self.demand.count_used, part.spans))

    def list_long_waiting(self, seconds: float, services: Iterable[Service]) -> list[Service]:
        """Return the Services that have waited for at least `seconds`."""
        return [service for service in services if self._seconds_waited(service) >= seconds]

    def list_remaining_waits(self, seconds: float, services: Iterable[Service]) -> list[float]:
        """Return in how many seconds each Service will have waited for `seconds`.

        Services that have already waited so long are left out.
        """
        waited_seconds = map(self._seconds_waited, services)
        return [seconds - waited for waited in waited_seconds if waited < seconds]

    @property
    def waiting_long(self) -> list[Service]:
        """The Services that have waited long enough to be counted in the status."""
        return self.list_long_waiting(self.settings.growth_after, self.demand.waiting)

    @property
    def unservable(self) -> list[UnservableService]:
        """The Services that have long waited for an address that no growth can provide."""
        after = self.settings.growth_after
        return [
            unmet
            for unmet in self.demand.unservable
            if self._seconds_waited(unmet.service) >= after
        ]

    def _seconds_waited(self, service: Service) -> float:
        """Return for how many seconds a Service without an address has waited."""
        return self.waited[service.metadata.uid]


def measure_size(allocation: IPAllocation, default_count: int) -> int:
    """Return how many addresses of a family an allocation holds; for a request, how many it asks.

    Args:
        default_count: the number for a request that neither pins a range nor has a count.
    """
    spans = statusranges.list_held_ranges(allocation)
    if spans:
        return max(span.size for span in spans)
    try:
        pin = requestedranges.parse_first_pin(allocation)
    except AllocatorError:
        pin = None  # its condition reports the invalid pin; its pool gives it nothing
    return pin.size if pin is not None else allocation.spec.count or default_count


def is_growth(allocation: IPAllocation, tenant: TenantCluster) -> bool:
    """Return whether growth added an allocation, so that it may be released; never if pinned."""
    return (
        allocation.spec.type == names.TYPE_LOADBALANCER
        and not allocation.spec.is_pinned
        and membership.find_role(allocation, tenant) == names.ROLE_GROWTH
    )


# What is decided ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Growth:
    """Whether an elastic tenant grows.

    Args:
        needed_addresses: addresses that Services have waited for long enough; 0 if more addresses
            would help none of the waiting Services.
        growth_number: how many allocations to create.
        marks_to_withdraw: the allocations whose marks are withdrawn.
        is_over_quota: whether the quota forbids allocations that are needed.
        obstacle: why the tenant does not grow though Services wait; None if it may grow.
        unserved_number: how many Services wait that growth is known not to help.
        are_requests_needed: whether Services wait for the requests that hold no range yet.
        due_in: for each Service that has not waited long enough, seconds until it has.
    """

    needed_addresses: int = 0
    growth_number: int = 0
    marks_to_withdraw: tuple[IPAllocation, ...] = ()
    is_over_quota: bool = False
    obstacle: ConditionFinding | None = None
    unserved_number: int = 0
    are_requests_needed: bool = False
    due_in: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Disuse:
    """Whether a growth allocation is out of use.

    Args:
        since: the value that its annotation of disuse should have; None to have no annotation.
        due_in: seconds until it may be released, or until its disuse may be noted; None while it
            is in use.
    """

    since: str | None
    due_in: float | None

    @property
    def is_over(self) -> bool:
        """Whether it may be released now."""
        return self.due_in is not None and self.due_in <= 0


@dataclass(frozen=True, slots=True)
class NewMark:
    """An allocation to be released.

    Args:
        reason: why, for the log.
    """

    allocation: IPAllocation
    reason: str


@dataclass(frozen=True, slots=True)
class NewDisuse:
    """What an allocation's annotation should say of its disuse.

    Args:
        since: since when it is out of use; None to remove the annotation.
    """

    allocation: IPAllocation
    since: str | None


@dataclass(frozen=True, slots=True)
class Shrink:
    """Which growth allocations of an elastic tenant are out of use.

    Args:
        disuse_notes: the annotations of disuse to write or to remove.
        new_marks: allocations to be released.
        new_unserved: the new memory of Services that growth did not help; None to leave it.
        due_in: for each allocation that is out of use, seconds until it may be released.
    """

    disuse_notes: tuple[NewDisuse, ...] = ()
    new_marks: tuple[NewMark, ...] = ()
    new_unserved: UnservedGrowth | None = None
    due_in: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class FixedSize:
    """What brings a static tenant to the size that its spec asks for.

    Args:
        held_addresses: number of addresses in all its allocations that are not being released.
        added_addresses: addresses to request as one more range; 0 for none.
        marks_to_withdraw: marked ranges that stay, instead of a new one.
        is_release_awaited: whether a range is added once deleted ones are released.
        allocations_to_release: growth allocations that neither the size needs nor a Service uses.
        surplus: addresses above the size that cannot be released now.
        is_surplus_used: whether Services use or wait for all that could otherwise be released.
        missing: addresses that are requested, and that no pool gives; 0 for none.
    """

    target: TargetSize
    held_addresses: int
    added_addresses: int = 0
    marks_to_withdraw: tuple[IPAllocation, ...] = ()
    is_release_awaited: bool = False
    allocations_to_release: tuple[IPAllocation, ...] = ()
    surplus: int = 0
    is_surplus_used: bool = False
    missing: int = 0


@dataclass(frozen=True, slots=True)
class SizeChange:
    """What to change of the size of a tenant; `carry_out` in changes.py does it in this order.

    Args:
        time: of the decision.
        marks_to_withdraw: marked ranges that stay.
        growth_number: how many growth allocations to create.
        addresses: addresses in each created allocation, and in a request that no pool serves.
        should_move: whether growth requests that are stuck are moved to a pool that fits.
        disuse_notes: the annotations of disuse to write or to remove.
        new_unserved: the new memory of Services that growth did not help; None to leave it.
        new_marks: allocations to be released.
        growth: the decision for an elastic tenant.
        fixed: the decision for a static tenant that asks for a size.
        due_in: seconds until something may be due without anything changing.
    """

    time: datetime
    marks_to_withdraw: tuple[IPAllocation, ...] = ()
    growth_number: int = 0
    addresses: int = 0
    should_move: bool = False
    disuse_notes: tuple[NewDisuse, ...] = ()
    new_unserved: UnservedGrowth | None = None
    new_marks: tuple[NewMark, ...] = ()
    growth: Growth | None = None
    fixed: FixedSize | None = None
    due_in: tuple[float, ...] = ()


def decide_size(facts: SizeFacts) -> SizeChange:
    """Decide what to change of a tenant's load-balancer addresses, without changing anything.

    An elastic tenant follows its Services. A static tenant follows the size in its spec; nothing
    changes if its spec has none.
    """
    after = facts.settings.growth_after
    unservable = (unmet.service for unmet in facts.demand.unservable)
    # After this time status.network counts a Service, even if growth cannot help it.
    due_in = tuple(facts.list_remaining_waits(after, chain(facts.demand.waiting, unservable)))
    if facts.is_elastic:
        growth = decide_growth(facts)
        shrink = decide_shrink(facts, growth)
        return SizeChange(
            facts.now,
            marks_to_withdraw=growth.marks_to_withdraw,
            growth_number=growth.growth_number,
            addresses=facts.increment,
            should_move=growth.needed_addresses > 0,
            disuse_notes=shrink.disuse_notes,
            new_unserved=shrink.new_unserved,
            new_marks=shrink.new_marks,
            growth=growth,
            due_in=(*due_in, *growth.due_in, *shrink.due_in),
        )
    if facts.target is None:
        return SizeChange(facts.now, due_in=due_in)
    fixed = decide_fixed_size(facts, facts.target)
    reason = f"the tenant asks for {fixed.target.addresses}"
    return SizeChange(
        facts.now,
        marks_to_withdraw=fixed.marks_to_withdraw,
        growth_number=1 if fixed.added_addresses else 0,
        # If no range is added, these are the addresses that are requested and that no pool gives.
        addresses=fixed.added_addresses or fixed.missing,
        should_move=fixed.missing > 0,
        new_marks=tuple(
            NewMark(allocation, reason) for allocation in fixed.allocations_to_release
        ),
        fixed=fixed,
        due_in=due_in,
    )


def decide_growth(facts: SizeFacts) -> Growth:
    """Return by how many allocations an elastic tenant grows now, or why it does not grow.

    That is ceil((needed addresses - unused supply) / increment), at most as many as may be in
    flight, within the quota. *In flight* are growth allocations that no Service uses yet.
    """
    used_number = len(facts.demand.used)
    # The Services that growth may help; it is known not to help those in `facts.unserved`.
    waiting = [
        service
        for service in facts.demand.waiting
        if not facts.unserved.covers(facts.demand.make_digest(service), used_number)
    ]
    threshold = _choose_growth_threshold(facts)
    due = facts.list_long_waiting(threshold, waiting)
    no_growth = Growth(
        unserved_number=len(facts.demand.waiting) - len(waiting),
        due_in=tuple(facts.list_remaining_waits(threshold, waiting)),
    )
    if not due:
        return no_growth
    marked = tuple(part.allocation for part in facts.ranges if part.can_stay)
    obstacle = find_growth_obstacle(facts, due)
    if obstacle is not None:
        # If the load balancer has not confirmed the ranges, Services may still need the marked
        # ranges, so the marks are withdrawn.
        marks_to_withdraw = marked if facts.unconfirmed else ()
        # Growth is in progress, so Services wait for the requests that hold no range yet.
        are_needed = obstacle.reason == GROWING
        return replace(
            no_growth,
            obstacle=obstacle,
            marks_to_withdraw=marks_to_withdraw,
            are_requests_needed=are_needed,
        )
    needed_addresses = facts.demand.count_needed_addresses(
        _find_services_beyond_free_addresses(facts, due)
    )
    supply = measure_supply(facts)
    missing = max(0, needed_addresses - supply.addresses)
    more_in_flight = max(0, facts.settings.growth_in_flight - supply.allocations)
    rounded_up = -(-missing // facts.increment)
    needed_allocations = min(rounded_up, more_in_flight)
    quota_room = needed_allocations
    if facts.quota is not None:
        quota_room = max(0, (facts.quota - facts.held_until_gone) // facts.increment)
    return replace(
        no_growth,
        needed_addresses=needed_addresses,
        growth_number=min(needed_allocations, quota_room),
        # The supply counts the marked ranges, so they have to stay.
        marks_to_withdraw=marked,
        is_over_quota=quota_room < needed_allocations,
        are_requests_needed=True,
    )


def find_growth_obstacle(facts: SizeFacts, due: Sequence[Service]) -> ConditionFinding | None:
    """Return condition DemandMet if more addresses would not be handed out either; else None.

    The first case that applies decides:

    1. The load balancer is not known to have the tenant's ranges: an obstacle.
    2. Free addresses do not suffice for a Service, or the load balancer is absent: None.
    3. An elastic tenant has had free addresses only for a moment: growth is in progress.
    4. Otherwise the load balancer could hand out free addresses, and does not: an obstacle.

    Args:
        facts: what is known of the tenant.
        due: the Services that have waited long enough.
    """
    count = count_noun(len(due), "Service")
    if facts.unconfirmed:
        # It would not hand out further ranges either.
        return make_demand_met(
            False,
            "NotProjected",
            f"{count} without an address; no growth until {facts.balancer} in the tenant has"
            f" its ranges: {facts.unconfirmed}",
        )
    if _find_services_beyond_free_addresses(facts, due):
        return None
    if facts.is_elastic and _has_fresh_addresses(facts):
        return make_demand_met(False, GROWING, f"{count} without an address; growing")
    free = sum(_count_free(facts, facts.staying_ranges).values())
    return make_demand_met(
        False,
        "AddressesUnused",
        f"{count} without an address, and {free} of the tenant's are free; {facts.balancer}"
        " does not assign them, see the events of the Service in the tenant",
    )


def decide_shrink(facts: SizeFacts, growth: Growth) -> Shrink:
    """Return the notes of disuse to write or remove, and the growth allocations to release now.

    A range that is released although Services wait has helped none of them. The memory of Services
    that growth did not help then holds these Services alone. It applies until more addresses are
    in use than now, and more than the earlier memory recorded.
    """
    if facts.unconfirmed:
        # Services may not have their addresses yet, so an unused range says nothing.
        return Shrink()
    disuse_notes: list[NewDisuse] = []
    new_marks: list[NewMark] = []
    due_in: list[float] = []
    new_unserved: UnservedGrowth | None = None
    for part in facts.staying_ranges:
        if not part.is_growth:
            continue  # only ranges that growth added are released
        if growth.are_requests_needed and not part.has_range:
            # Services wait for this request, so it is not out of use.
            part_disuse = Disuse(since=None, due_in=None)
        else:
            part_disuse = measure_disuse(facts, part)
        since = read_disuse(part.allocation)
        if part_disuse.is_over:
            new_marks.append(NewMark(part.allocation, f"no Service has used it since {since}"))
            if facts.waiting_long and part.has_range:
                # The range helped none of the Services that wait.
                digests = map(facts.demand.make_digest, facts.waiting_long)
                updated = facts.unserved.make_after_release(digests, used=len(facts.demand.used))
                new_unserved = updated if updated != facts.unserved else None
            continue
        if part_disuse.since != since:
            disuse_notes.append(NewDisuse(part.allocation, part_disuse.since))
        if part_disuse.due_in is not None:
            due_in.append(part_disuse.due_in)
    return Shrink(
        tuple(disuse_notes), tuple(new_marks), new_unserved=new_unserved, due_in=tuple(due_in)
    )


def measure_disuse(facts: SizeFacts, part: RangeFacts) -> Disuse:
    """Return since when a growth allocation is out of use, and when it may be released.

    It may be released after `shrink_after` seconds without use, and never before the allocation
    itself is that old.
    """
    now, settings = facts.now, facts.settings
    # Disuse is noted once a Service may have waited long, but never after the release is due.
    settling = min(settings.growth_after, settings.shrink_after)
    if facts.is_used(part):
        return Disuse(since=None, due_in=None)
    created = part.allocation.metadata.creationTimestamp or now
    age = (now - created).total_seconds()
    since = _parse_disuse(part.allocation, now)
    if since is None:
        # A request has no range that could be in the pool, so its age counts instead.
        seconds_offered = part.in_pool if part.spans else age
        if seconds_offered is None or seconds_offered < settling:
            # The range is not in the tenant's pool, or only for a moment: the load balancer is
            # about to use it, and a note would have to be removed again.
            return Disuse(since=None, due_in=settling - (seconds_offered or 0.0))
        return Disuse(since=now.isoformat(), due_in=settings.shrink_after)
    unused_seconds = (now - since).total_seconds()
    # A person may have written an earlier time than the allocation's creation.
    return Disuse(read_disuse(part.allocation), settings.shrink_after - min(unused_seconds, age))


def read_disuse(allocation: IPAllocation) -> str | None:
    """Return the value of the annotation of disuse; None if the allocation has none."""
    return allocation.metadata.annotations.get(names.ANNOTATION_IDLE_SINCE)


def _parse_disuse(allocation: IPAllocation, now: datetime) -> datetime | None:
    """Return the noted start of disuse; None if it is absent, unreadable or in the future."""
    try:
        since = datetime.fromisoformat(read_disuse(allocation) or "")
    except ValueError:
        return None
    return since if since.tzinfo is not None and since <= now else None


def decide_fixed_size(facts: SizeFacts, target: TargetSize) -> FixedSize:
    """Return the changes that bring a static tenant to its size.

    To shrink, requests without a range are withdrawn first, then ranges are released; of each the
    youngest first. If a withdrawn request was larger than the surplus, a later pass requests the
    difference again.
    """
    size, staying = target.addresses, facts.staying_ranges
    total = sum(part.size for part in staying)
    if total < size:
        return _add_fixed_range(facts, FixedSize(target, total, added_addresses=size - total))
    surplus = total - size
    allocations_to_release: list[IPAllocation] = []
    is_surplus_used = False
    requests = [part for part in staying if not part.has_range]
    with_range = [part for part in staying if part.has_range]
    for part in (*reversed(requests), *reversed(with_range)):
        is_too_large = part.has_range and part.size > surplus
        if not surplus or not part.is_growth or is_too_large:
            continue  # the first range stays, and a range cannot be divided
        if facts.is_used(part) or _may_be_needed(facts, part):
            is_surplus_used = True
            continue
        allocations_to_release.append(part.allocation)
        surplus = max(0, surplus - part.size)
    # A stuck request counts in `total`, but its addresses are missing.
    is_stuck = any(part.is_stuck for part in facts.ranges if part.is_growth)
    is_settled = not allocations_to_release and not surplus
    return FixedSize(
        target,
        total,
        allocations_to_release=tuple(allocations_to_release),
        surplus=surplus,
        is_surplus_used=is_surplus_used,
        missing=max(0, size - facts.held) if is_settled and is_stuck else 0,
    )


def _may_be_needed(facts: SizeFacts, part: RangeFacts) -> bool:
    """Return whether a Service that has just begun to wait needs an address of an allocation.

    The load balancer is about to assign an address of it. If the range left the tenant now, the
    Service would lose that address.
    """
    long_waiting_uids = {service.metadata.uid for service in facts.waiting_long}
    other_parts = [other for other in facts.staying_ranges if other.uid != part.uid]
    free = _count_free(facts, other_parts)
    return part.has_range and any(
        service.metadata.uid not in long_waiting_uids and not could_be_served(service, free)
        for service in facts.demand.waiting
    )


def _add_fixed_range(facts: SizeFacts, fixed: FixedSize) -> FixedSize:
    """Return how a missing range is added: a marked one stays, or a new one is requested.

    Args:
        fixed: the decision so far, with the number of addresses to add.
    """
    marked = tuple(part.allocation for part in facts.ranges if part.can_stay)
    if marked:
        return replace(fixed, added_addresses=0, marks_to_withdraw=marked)
    has_first = any(
        not part.allocation.metadata.is_terminating and not part.is_growth for part in facts.ranges
    )
    if not has_first:
        # The first range is deleted. It is requested again, in the whole size, once it is gone.
        return replace(fixed, added_addresses=0, is_release_awaited=True)
    total = facts.held_until_gone + fixed.added_addresses
    if facts.quota is not None and total > facts.quota:
        # The quota counts ranges that are being released, until they are gone.
        return replace(fixed, added_addresses=0, is_release_awaited=True)
    return fixed


@dataclass(frozen=True, slots=True)
class Supply:
    """The addresses that a tenant has for waiting Services.

    Args:
        addresses: unused addresses, and addresses in growth allocations that wait for a range.
        allocations: growth allocations that no Service uses yet.
    """

    addresses: int = 0
    allocations: int = 0


def measure_supply(facts: SizeFacts) -> Supply:
    """Return the supply for waiting Services; it includes marked ranges that can stay."""
    is_settled = facts.settling <= 0
    addresses = allocations = 0
    for part in facts.ranges:
        if part.is_releasing and not part.can_stay:
            continue  # its range leaves the tenant for good
        if is_settled and not part.is_growth:
            # The load balancer has had the first range for long enough: its unused addresses do
            # not help the Services that still wait.
            continue
        # Of two families, the one with fewer unused addresses counts: a Service may need it.
        unused = (span.size - facts.demand.count_used(span) for span in part.spans)
        addresses += min(unused, default=part.size)
        if part.is_growth and not facts.is_used(part):
            allocations += 1
    return Supply(addresses, allocations)


def _choose_growth_threshold(facts: SizeFacts) -> float:
    """Return for how many seconds a Service waits before it is a reason to grow.

    The shorter threshold holds if all addresses of a family are in use: then waiting longer cannot
    help.
    """
    growth_after = facts.settings.growth_after
    when_exhausted = facts.settings.growth_when_exhausted
    if not when_exhausted or when_exhausted >= growth_after:
        return growth_after  # the shorter threshold is switched off, or is not shorter
    spans = chain.from_iterable(part.spans for part in facts.staying_ranges)
    return when_exhausted if facts.demand.exhausts(spans) else growth_after


def _has_fresh_addresses(facts: SizeFacts) -> bool:
    """Return whether a range with free addresses is in the tenant's pool for a short time only.

    A short time is less than `growth_after`. A range that is not known to be in the pool counts as
    new: the load balancer may still assign it.
    """
    return any(
        (part.in_pool or 0.0) < facts.settings.growth_after
        and any(facts.demand.count_unassigned(part.spans).values())
        for part in facts.staying_ranges
    )


def _count_free(facts: SizeFacts, parts: Iterable[RangeFacts]) -> dict[int, int]:
    """Return how many addresses of some allocations no Service shows, by family."""
    return facts.demand.count_unassigned(chain.from_iterable(part.spans for part in parts))


def _find_services_beyond_free_addresses(
    facts: SizeFacts, due: Sequence[Service]
) -> list[Service]:
    """Return the Services for which the free addresses of the tenant do not suffice.

    Args:
        facts: what is known of the tenant.
        due: the Services that have waited long enough.
    """
    if facts.is_balancer_absent:
        # Nothing is assigned yet, so all addresses are free. `decide_growth` subtracts them.
        return list(due)
    free = _count_free(facts, facts.staying_ranges)
    return [service for service in due if not could_be_served(service, free)]


# The report -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Created:
    """The result of carrying out a change.

    Args:
        number: how many growth allocations were created.
        is_stuck: whether a growth request is stuck that no other pool has room for.
        refusal: the addresses that are needed, and the obstacle in each pool; empty if nothing is
            refused.
    """

    number: int = 0
    is_stuck: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class SizeReport:
    """The report of a pass on the size of a tenant.

    Args:
        demand: the condition that says whether its Services have their addresses.
        size: the condition that says whether a static tenant has the size that it asks for; None
            if it asks for none.
        refused: the growth that is refused; None if nothing is refused.
        due_in: seconds until something may be due without anything changing; None for never.
    """

    demand: ConditionFinding
    size: ConditionFinding | None = None
    refused: RefusedGrowth | None = None
    due_in: float | None = None

    @property
    def findings(self) -> tuple[ConditionFinding, ...]:
        """The conditions to write."""
        return (self.demand,) if self.size is None else (self.demand, self.size)

    @property
    def obsolete(self) -> tuple[str, ...]:
        """Types of conditions that do not apply."""
        return () if self.size is not None else (LOAD_BALANCER_SIZED,)


def describe_size(facts: SizeFacts, change: SizeChange, created: Created) -> SizeReport:
    """Return the conditions of a tenant's size, after the change was carried out."""
    size = refused = None
    if change.growth is not None:
        demand = _describe_growth(facts, change.growth, created)
        refused = _find_refused_growth(facts, demand, facts.increment)
    else:
        demand = _describe_static_demand(facts, change, created)
        if change.fixed is not None:
            size = _describe_fixed_size(facts, change.fixed, created)
            missing = max(0, change.fixed.target.addresses - facts.held)
            refused = _find_refused_growth(facts, size, missing)
    due_in = [*change.due_in]
    if not demand.status and facts.settling > 0:
        # Unused addresses count as supply until then, so the decision changes at that time.
        due_in.append(facts.settling)
    demand = _mention_unexamined(demand, facts.demand.unexamined)
    return SizeReport(demand, size, refused=refused, due_in=min(due_in, default=None))


def _describe_growth(facts: SizeFacts, growth: Growth, created: Created) -> ConditionFinding:
    """Return the condition LoadBalancerDemandMet of an elastic tenant."""
    if growth.obstacle is not None:
        return growth.obstacle
    if not growth.needed_addresses:
        return _describe_demand_without_growth(growth.unserved_number, facts.unservable)
    # Services that share an address count as one.
    waiting = f"{count_noun(growth.needed_addresses, 'Service')} without an address"
    if created.refusal:
        return make_demand_met(False, POOL_EXHAUSTED, f"{waiting}; cannot grow: {created.refusal}")
    if growth.is_over_quota:
        total = facts.held_until_gone + created.number * facts.increment
        message = (
            f"{waiting}; growing by {facts.increment}: quota would be exceeded, {total} of"
            f" {facts.quota} are held"
        )
        return make_demand_met(False, QUOTA_EXCEEDED, message)
    return make_demand_met(False, GROWING, f"{waiting}; growing")


def _describe_demand_without_growth(
    unserved_number: int, unservable: Sequence[UnservableService]
) -> ConditionFinding:
    """Return the condition LoadBalancerDemandMet of a tenant that has no reason to grow.

    Services that have just begun to wait do not count: most wait for a second, and each would cost
    two writes on the management cluster. Services that our pool cannot serve are named, but the
    condition stays True: their owners have to change them.

    Args:
        unserved_number: how many Services still wait although the tenant grew for them.
        unservable: the Services that ask for an address that no growth can provide.
    """
    if unserved_number:
        return make_demand_met(
            False,
            "GrownInVain",
            f"{count_noun(unserved_number, 'Service')} without an address; growing did not help,"
            " see the events of the Service in the tenant",
        )
    met = "no Service has been without an address for long"
    if not unservable:
        return make_demand_met(True, "Ready", met)
    ordered = sorted(unservable, key=lambda unmet: unmet.service.metadata.key)
    sentences = [f"{unmet.service.metadata.key} asks for {unmet.asks}" for unmet in ordered]
    more = len(sentences) - MOST_NAMED
    return make_demand_met(
        True,
        ordered[0].reason,
        f"{met}, except for Services that no range of ours can serve: "
        f"{'; '.join(sentences[:MOST_NAMED])}"
        + (f"; {count_noun(more, 'more is', 'more are')} like that" if more > 0 else ""),
    )


def _describe_static_demand(
    facts: SizeFacts, change: SizeChange, created: Created
) -> ConditionFinding:
    """Return the condition LoadBalancerDemandMet of a static tenant.

    The first of these applies: no Service has waited long; addresses are not handed out; no pool
    has room; a range is being added; the quota is reached; the size is reached.
    """
    due = facts.waiting_long
    if not due:
        # A static tenant does not grow for Services, so no growth was in vain.
        return _describe_demand_without_growth(unserved_number=0, unservable=facts.unservable)
    # The ranges that this change has marked are leaving the tenant, so they do not count.
    marked_uids = {mark.allocation.metadata.uid for mark in change.new_marks}
    remaining_facts = replace(
        facts, ranges=tuple(part for part in facts.ranges if part.uid not in marked_uids)
    )
    obstacle = find_growth_obstacle(remaining_facts, due)
    if obstacle is not None:
        return obstacle
    waiting = f"{count_noun(len(due), 'Service')} without an address"
    if created.refusal:
        return make_demand_met(False, POOL_EXHAUSTED, f"{waiting}; cannot grow: {created.refusal}")
    if change.fixed is not None and remaining_facts.held < change.fixed.target.addresses:
        # Also in the pass that withdraws a mark: its range is not back in the tenant yet.
        missing = change.fixed.target.addresses - remaining_facts.held
        return make_demand_met(False, GROWING, f"{waiting}; a range of {missing} is added")
    if facts.quota is not None and facts.held_until_gone >= facts.quota:
        message = (
            f"{waiting}, and the tenant holds all that maxLoadBalancerIPs of its ProviderConfig"
            f" allows, {facts.quota}: raise that, or delete Services"
        )
        return make_demand_met(False, QUOTA_EXCEEDED, message)
    return make_demand_met(
        False,
        "SizeReached",
        f"{waiting}, and every address of the tenant"
        f" is in use; the tenant is static: raise {SIZE_FIELD}, or delete Services",
    )


def _mention_unexamined(finding: ConditionFinding, services: int) -> ConditionFinding:
    """Return a condition that also reports the Services that this pass did not examine.

    Args:
        finding: the condition, from the Services that were examined.
        services: how many further Services have no address.
    """
    if not services:
        return finding
    others = count_noun(services, "more has no address and was", "more have no address and were")
    return replace(
        finding,
        message=f"{finding.message}; {others} not examined: of one"
        f" tenant {MOST_SERVICES} are at a time",
    )


def _describe_fixed_size(facts: SizeFacts, fixed: FixedSize, created: Created) -> ConditionFinding:
    """Return the condition LoadBalancerSized of a static tenant that asks for a size.

    The first of these applies: no pool has room; a range is being added; ranges are being
    released; a surplus stays; the size is reached; the quota allows fewer than the spec asks for.
    """
    target, size = fixed.target, fixed.target.addresses
    is_changing = bool(
        fixed.added_addresses or fixed.marks_to_withdraw or fixed.is_release_awaited
    )
    # During a change, requests count as held. At rest, only ranges do.
    total = (
        fixed.held_addresses
        if is_changing or fixed.allocations_to_release or fixed.surplus
        else facts.held
    )
    asked = f"{target.description}, {count_noun(total, 'is held', 'are held')}"
    if created.refusal:
        return _make_sized(False, POOL_EXHAUSTED, f"{asked}; cannot grow: {created.refusal}")
    if total < size:
        message = f"{asked}; a range of {size - total} is added"
        if fixed.is_release_awaited:
            message += " once the tenant has released those that are deleted"
        return _make_sized(False, GROWING, message)
    if fixed.allocations_to_release:
        listed = ", ".join(allocation.metadata.name for allocation in fixed.allocations_to_release)
        return _make_sized(False, "Shrinking", f"{asked}; released: {listed}")
    if fixed.surplus:
        return _describe_surplus(fixed, message_start=asked)
    if not target.is_cut:
        return _make_sized(True, "Ready", f"{count_addresses(size)}, as {SIZE_FIELD} asks")
    remedy = f"raise maxLoadBalancerIPs of its ProviderConfig, or set {SIZE_FIELD} to {size}"
    return _make_sized(False, QUOTA_EXCEEDED, f"{asked}; {remedy}")


def _describe_surplus(fixed: FixedSize, message_start: str) -> ConditionFinding:
    """Return the condition of a static tenant that holds more than its size.

    Args:
        fixed: the decision for the tenant.
        message_start: the size in the spec, and the addresses held.
    """
    if fixed.is_surplus_used:
        message = (
            f"{message_start}; Services use or wait for addresses of every range that could be"
            " released"
        )
        return _make_sized(False, "AddressesInUse", message)
    remedy = "raise maxLoadBalancerIPs" if fixed.target.is_cut else f"set {SIZE_FIELD}"
    message = (
        f"{message_start}; no added range has {count_addresses(fixed.surplus)} or fewer, and a"
        " range cannot be divided: the cluster keeps its addresses until it is deleted, or"
        f" {remedy} to {fixed.held_addresses}"
    )
    return _make_sized(False, "RangeNotDivisible", message)


def _make_sized(status: bool, reason: str, message: str) -> ConditionFinding:
    """Return the condition LoadBalancerSized."""
    return ConditionFinding(LOAD_BALANCER_SIZED, status, reason=reason, message=message)


def _find_refused_growth(
    facts: SizeFacts, finding: ConditionFinding, addresses: int
) -> RefusedGrowth | None:
    """Return the growth that a pool or the quota refuses by a condition; None for other reasons.

    Args:
        facts: what is known of the tenant.
        finding: the condition LoadBalancerDemandMet or LoadBalancerSized.
        addresses: how many addresses in a row are needed.
    """
    if finding.reason not in {POOL_EXHAUSTED, QUOTA_EXCEEDED} or not addresses:
        return None
    # If the quota refuses, no pool is named: more room in a pool would not help.
    pools = facts.pools if finding.reason == POOL_EXHAUSTED else ()
    return RefusedGrowth(finding, addresses, pools)
