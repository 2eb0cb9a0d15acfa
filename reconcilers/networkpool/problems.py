"""Problems of a pool, as conditions.

A pool whose spec is valid always has these conditions:

    Overlapping     another pool, of any kind, may hand out the same addresses
    RangesOverlap   allocations or claims hold the same addresses; only other writers cause that
    OutOfRange      allocations or claims have addresses that the spec does not hand out any more
    Degraded        the free addresses suffice for a default request, but no free block does

Once another controller has written statuses of pools or allocations, it also has

    ForeignManager  nothing is handed out; Butler's own controller may not be scaled to zero

Ranges are only reported, never revoked. Two pools may overlap on purpose, for sites behind NAT for
example; both pools report it. Only addresses that both pools may hand out count. Pools that divide
a CIDR among them, by their ranges or by reservations, do not overlap.

Another controller hands out ranges without reading the pool's assignments, and its writes of a
pool's status wipe them. No precondition makes two allocators over one pool safe. So ours hands out
nothing until the other controller has written nothing for a while. managedFields shows the writes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from allocator import AddressRange, Capacity, Layout
from controller.cache import Cache, Change
from controller.conditions import Condition, find_condition, is_true
from controller.meta import Key
from reconcilers.addressing import poolgeometry
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.networkpool.facts import describe_holder
from reconcilers.networkpool.otherholders import HeldRange
from reconcilers.networkpool.protocol import PassDecision
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.statuswrites import StatusWrite, last_foreign_write
from reconcilers.reporting.conditions import FOREIGN_MANAGER, READY, ConditionFinding
from reconcilers.reporting.wording import count_noun, name_with_count

RANGES_OVERLAP = "RangesOverlap"
OUT_OF_RANGE = "OutOfRange"
DEGRADED = "Degraded"

FRAGMENTED_PERCENT = 50
"""From this fragmentation on a pool without a block for a default request counts as degraded."""


class PoolSpecs:
    """The geometry that pools' specs declare, computed once for each spec.

    Specs are compared, not their generations: after a restore from a backup the same generation
    may be another spec.

    Args:
        pools: all pools.
        max_addresses: the largest pool, in addresses.
    """

    def __init__(self, pools: Cache[NetworkPool], max_addresses: int) -> None:
        self._max_addresses = max_addresses
        self._layouts: dict[Key, tuple[NetworkPoolSpec, tuple[Layout, ...]]] = {}
        pools.subscribe(self._forget_deleted)

    def get_layouts(self, pool: NetworkPool) -> tuple[Layout, ...]:
        """Return the geometry that a pool's spec declares, of each family.

        Raises:
            InvalidPool: the spec contradicts itself, or the pool has too many addresses.
        """
        key, spec = pool.metadata.key, pool.spec
        cached = self._layouts.get(key)
        if cached is None or cached[0] != spec:
            cached = spec, poolgeometry.parse_layouts(spec, self._max_addresses)
            self._layouts[key] = cached
        return cached[1]

    def _forget_deleted(self, change: Change[NetworkPool]) -> None:
        """Forget the geometry of a deleted pool."""
        old, new = change.old, change.new
        if old is not None and new is None:
            self._layouts.pop(old.metadata.key, None)


def list_findings(
    pool: NetworkPool,
    view: AllocationsView,
    decision: PassDecision,
    overlapping: ConditionFinding | None,
    observed: Sequence[HeldRange] = (),
) -> list[ConditionFinding]:
    """Return the conditions Overlapping, RangesOverlap, OutOfRange and Degraded of a pool.

    Args:
        view: its requests.
        decision: what the pass hands out.
        overlapping: whether other pools hand out the same addresses; None while that is not known,
            and then the condition stays as it is.
        observed: what another allocator gave; needed only if the decision is not sound.
    """
    held_ranges = () if is_sound(view, decision) else tuple(list_holdings(view, decision))
    return [
        *([overlapping] if overlapping is not None else []),
        make_ranges_overlap_condition((*held_ranges, *observed)),
        make_out_of_range_condition(held_ranges, decision.layouts),
        make_degraded_condition(pool, decision.capacities),
    ]


def is_sound(view: AllocationsView, decision: PassDecision) -> bool:
    """Return whether every range lies in the pool and no two ranges overlap.

    Sums of sizes show that, without a comparison of ranges. The capacity counts an address once,
    even if several requests hold it, and leaves out addresses outside the pool. So the sizes of
    all ranges add up to that count only if nothing is wrong. A claim that adopts its IPAddress
    holds the address already, so its grant is left out of the sum.

    False may also mean that a request was promised a range that it holds, which is no problem. The
    caller then compares the ranges.
    """
    granted = sum(
        part.range.size
        for grant in decision.choice.grants
        for part in grant.ranges
        if part not in view.holdings.get_facts(grant.holder).ranges
    )
    counted = sum(capacity.allocated for capacity in decision.capacities)
    return decision.claimed + granted == counted


def list_holdings(view: AllocationsView, decision: PassDecision) -> Iterator[HeldRange]:
    """Yield every range that a request holds or was promised; each range of a request once.

    An allocation that holds ranges was promised these ranges, so its promise is skipped. The facts
    of a claim have no uid, as its IPAddress may be from an earlier claim of this name. So each
    range that a claim was promised is compared with the ranges that it holds.
    """
    known_holdings = view.holdings
    for holder in known_holdings.holders:
        yield from (
            HeldRange(describe_holder(holder), part.range)
            for part in known_holdings.get_facts(holder).ranges
        )
    for promise in decision.journal.promises:
        facts = known_holdings.get_facts(promise.holder)
        if facts.ranges and facts.uid == promise.uid:
            continue
        for part in promise.ranges:
            # Facts with a uid are of an allocation, which holds nothing yet, or whose name the
            # promised one had before it.
            if facts.uid or part not in facts.ranges:
                yield HeldRange(describe_holder(promise.holder), part.range)


def list_claimed(view: AllocationsView) -> Iterator[HeldRange]:
    """Yield every range that a claim or its IPAddress holds, each range of a claim once."""
    for holder, facts in view.holdings.list_facts_of_kind(names.KIND_CLAIMS):
        yield from (HeldRange(describe_holder(holder), part.range) for part in facts.ranges)


def make_ranges_overlap_condition(held_ranges: Iterable[HeldRange]) -> ConditionFinding:
    """Return condition RangesOverlap: True if allocations or claims hold the same addresses."""
    # Two ranges of the other allocator may overlap: the pool has a part in neither.
    overlaps = (
        pair
        for pair in _find_overlaps(held_ranges)
        if not all(held_range.foreign for held_range in pair)
    )
    pairs = [f"{earlier.text} and {later.text}" for earlier, later in overlaps]
    if not pairs:
        return ConditionFinding(
            RANGES_OVERLAP, False, reason="NoOverlap", message="no address is held twice"
        )
    return ConditionFinding(
        RANGES_OVERLAP,
        True,
        reason="AllocationsOverlap",
        message=f"addresses are held twice: {name_with_count(pairs)}",
    )


def _find_overlaps(held_ranges: Iterable[HeldRange]) -> Iterator[tuple[HeldRange, HeldRange]]:
    """Yield two ranges for each range that begins inside an earlier range.

    The first of the two is the earlier range that reaches furthest.
    """
    furthest: HeldRange | None = None
    for held_range in sorted(held_ranges, key=_make_sort_key):
        if (
            furthest is not None
            and furthest.range.family == held_range.range.family
            and held_range.range.first <= furthest.range.last
        ):
            yield furthest, held_range
            if held_range.range.last <= furthest.range.last:
                continue  # later ranges are still compared with the one that reaches further
        furthest = held_range


def _make_sort_key(holding: HeldRange) -> tuple[int, int, int, str]:
    """Return family, first and last address, and the holder so that the order is stable."""
    held_range = holding.range
    return held_range.family, held_range.first, held_range.last, holding.holder


def make_out_of_range_condition(
    held_ranges: Iterable[HeldRange], layouts: Sequence[Layout]
) -> ConditionFinding:
    """Return condition OutOfRange: True if requests have addresses the pool does not offer."""
    outside = sorted(
        (
            held_range
            for held_range in held_ranges
            if not any(_is_handed_out(held_range.range, layout) for layout in layouts)
        ),
        key=lambda held_range: held_range.holder,
    )
    if not outside:
        message = "every range lies in what the pool hands out"
        return ConditionFinding(OUT_OF_RANGE, False, reason="InRange", message=message)
    return ConditionFinding(
        OUT_OF_RANGE,
        True,
        reason="AllocationsOutOfRange",
        message="addresses that the pool does not hand out are held by"
        f" {name_with_count([held_range.text for held_range in outside])}",
    )


def _is_handed_out(held_range: AddressRange, layout: Layout) -> bool:
    """Return whether the pool hands out every address of a range."""
    span = layout.get_span(held_range)
    return span is not None and layout.clip(span) == [span]


def make_degraded_condition(pool: NetworkPool, capacities: Sequence[Capacity]) -> ConditionFinding:
    """Return condition Degraded: True if free addresses suffice, but not in one free block.

    The measure is a request of default size. Fragmentation has to be FRAGMENTED_PERCENT or more.
    The message describes a family to which that applies; otherwise the first family.
    """
    usual = max(
        pool.spec.default_count(kind) for kind in (names.TYPE_NODES, names.TYPE_LOADBALANCER)
    )
    degraded = [capacity for capacity in capacities if _is_degraded(capacity, usual)]
    capacity = degraded[0] if degraded else capacities[0]
    free = (
        f"{count_noun(capacity.available, 'IP is', 'IPs are')} free, the largest free block has"
        f" {capacity.largest_free}"
        f" (fragmentation {capacity.fragmentation_percent}%)"
    )
    if degraded:
        return ConditionFinding(
            DEGRADED,
            True,
            reason="HighFragmentation",
            message=f"{free}; a request of default size needs {usual}",
        )
    return ConditionFinding(DEGRADED, False, reason="NotDegraded", message=free)


def _is_degraded(capacity: Capacity, usual: int) -> bool:
    """Return whether free space is so fragmented that no block has `usual` addresses."""
    return (
        capacity.fragmentation_percent >= FRAGMENTED_PERCENT
        and capacity.largest_free < usual <= capacity.available
    )


@dataclass(frozen=True, slots=True)
class ForeignManager:
    """Another controller: the message of the pool's condition, and the time of its last write."""

    message: str
    at: datetime

    @classmethod
    def from_write(cls, write: StatusWrite, written_status: str) -> "ForeignManager":
        """Return the controller that made a write of `written_status`."""
        message = (
            f"{write.manager} writes {written_status}: nothing is handed out while another"
            " controller does that; scale it to zero"
        )
        return cls(message, write.at)

    def seconds_until_stopped(self, now: datetime, silence: float) -> float:
        """Return in how many seconds it will have written nothing for `silence` seconds.

        0 or less if it counts as stopped.
        """
        return silence - (now - self.at).total_seconds()

    def list_findings(self, pool: NetworkPool) -> list[ConditionFinding]:
        """Return the pool's conditions while the other controller writes.

        Ready is set once and then left alone, because the other controller may write it, too. Two
        controllers that correct each other's condition would never stop writing.
        """
        findings = [
            ConditionFinding(
                FOREIGN_MANAGER, True, reason="StatusWrittenByOthers", message=self.message
            )
        ]
        if not is_true(pool.status.conditions, FOREIGN_MANAGER):
            findings.append(
                ConditionFinding(READY, False, reason="ForeignManager", message=self.message)
            )
        return findings


class ForeignManagers:
    """The other controllers that write the statuses of pools and of their allocations.

    The *silence* is the time without writes after which a controller counts as stopped. A process
    remembers each write for that time, because the objects may stop showing it: an entry of
    managedFields vanishes once others have written all of its fields. A process that finds the
    condition on a pool, and has seen no write, assumes a write at that moment.

    Replicas remember different writes, and must not correct each other's condition. So the message
    of the condition follows from the objects alone. The condition stays True for the whole time,
    whichever replica set it. Once it is False, only a write that was seen sets it again.

    Args:
        our_manager: our field manager; if that is not known, no manager counts as foreign.
        silence: seconds after which a controller counts as stopped.
    """

    def __init__(self, our_manager: str, silence: float) -> None:
        self._our_manager = our_manager
        self._silence = silence
        self._seen: dict[Key, ForeignManager] = {}
        # When this process found the condition on a pool without having seen a write.
        self._assumed: dict[Key, datetime] = {}

    def observe_writes(
        self, pool: NetworkPool, allocation_write: StatusWrite | None, now: datetime
    ) -> ForeignManager | None:
        """Note the writes that objects show; return the controller that wrote last.

        None if none wrote during the silence.

        Args:
            pool: whose status it may have written.
            allocation_write: the last write by another controller to the status of one of the
                pool's allocations; None if there was none.
            now: the time.
        """
        key = pool.metadata.key
        condition = find_condition(pool.status.conditions, FOREIGN_MANAGER)
        if condition is None or condition.status != "True":
            condition = None  # a condition that is not True reports no controller
            self._assumed.pop(key, None)
        elif key not in self._seen:
            self._assumed.setdefault(key, now)
        last_write = self._find_last_shown_write(pool, allocation_write, now)
        manager = self._seen.get(key)
        if last_write is not None and (manager is None or last_write.at >= manager.at):
            manager = self._seen[key] = last_write
        write_times = [self._assumed.get(key), manager.at if manager is not None else None]
        # The first message that is not empty counts: that of the last write that objects show,
        # then that of the condition, then that of the write which this process remembers.
        messages = [last_write.message if last_write is not None else ""]
        if condition is not None:
            write_times.append(_find_condition_start(condition, now))
            messages.append(condition.message)
        messages.append(manager.message if manager is not None else "")
        last_time = max((time for time in write_times if time is not None), default=None)
        if last_time is None:
            return None
        latest = ForeignManager(next(filter(None, messages), ""), last_time)
        return latest if latest.seconds_until_stopped(now, self._silence) > 0 else None

    def _find_last_shown_write(
        self, pool: NetworkPool, allocation_write: StatusWrite | None, now: datetime
    ) -> ForeignManager | None:
        """Return the last write that the objects show; None if none is within the silence."""
        writes = (
            (
                "the status of this NetworkPool",
                last_foreign_write(pool.metadata, self._our_manager),
            ),
            ("the status of its IPAllocations", allocation_write),
        )
        managers = [
            ForeignManager.from_write(write, written_status)
            for written_status, write in writes
            if write
        ]
        recent = [
            manager
            for manager in managers
            if manager.seconds_until_stopped(now, self._silence) > 0
        ]
        return max(recent, key=lambda manager: manager.at, default=None)

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._seen.pop(key, None)
        self._assumed.pop(key, None)


def _find_condition_start(condition: Condition, now: datetime) -> datetime | None:
    """Return when a condition got its status, at most `now`; None if that is not known."""
    since = condition.lastTransitionTime
    return min(since, now) if since is not None else None


def describe_no_foreign_manager() -> ConditionFinding:
    """Return condition ForeignManager as False: the other controller has stopped writing."""
    return ConditionFinding(
        FOREIGN_MANAGER,
        False,
        reason="NoForeignManager",
        message="no other controller writes these statuses",
    )
