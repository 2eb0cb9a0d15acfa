"""Problems of a pool, as conditions.

Of one that can be served there are always

    Overlapping     another pool, of whatever kind, may hand out the same addresses
    RangesOverlap   allocations or claims hold the same addresses: others made that so, we never do
    OutOfRange      they hold, or were promised, what the spec does not hand out any more
    Degraded        the free space would do for a default request, but no free block does

and once another controller wrote our statuses, which keeps a pool from being served,

    ForeignManager  Butler's own, say, was not scaled to zero

Ranges are only reported, never revoked. Pools may overlap, for sites behind NAT say; both pools
report it. What counts is what two pools may hand out: pools that share a CIDR and divide it among
them, by their ranges or by reservations, do not overlap.

Another controller hands out ranges without reading the pool's assignments, and its writes of a
pool's status wipe them. No precondition makes two allocators over one pool safe, so ours hands out
nothing until the other one has written nothing for a while. Who wrote what is in managedFields.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from allocator import AddressRange, Capacity, Layout
from controller.cache import Cache, Change
from controller.conditions import Condition, find, is_true
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
    """What pools' specs mean, worked out once for each spec.

    Specs are compared, not their generations: after a restore from a backup the same generation
    may be another spec.

    Args:
        pools: all pools.
        max_addresses: the largest pool, in addresses.
    """

    def __init__(self, pools: Cache[NetworkPool], max_addresses: int) -> None:
        self._max_addresses = max_addresses
        self._layouts: dict[Key, tuple[NetworkPoolSpec, tuple[Layout, ...]]] = {}
        pools.subscribe(self._note)

    def layouts(self, pool: NetworkPool) -> tuple[Layout, ...]:
        """Return the geometry that a pool's spec declares, of each family.

        Raises:
            InvalidPool: the spec contradicts itself, or is of too large a pool.
        """
        key, spec = pool.metadata.key, pool.spec
        known = self._layouts.get(key)
        if known is None or known[0] != spec:
            known = spec, poolgeometry.parse_layouts(spec, self._max_addresses)
            self._layouts[key] = known
        return known[1]

    def _note(self, change: Change[NetworkPool]) -> None:
        old, new = change.old, change.new
        if old is not None and new is None:
            self._layouts.pop(old.metadata.key, None)


def findings(
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
    held_ranges = () if is_sound(view, decision) else tuple(holdings(view, decision))
    return [
        *([overlapping] if overlapping is not None else []),
        ranges_overlap_condition((*held_ranges, *observed)),
        out_of_range_condition(held_ranges, decision.layouts),
        degraded_condition(pool, decision.capacities),
    ]


def is_sound(view: AllocationsView, decision: PassDecision) -> bool:
    """Return whether every range lies in the pool and no two overlap: by sums, so it is quick.

    The capacity counts an address once however many hold it, and not at all if it is none of the
    pool's. So the sizes of all ranges add up to what it counts only if nothing is wrong. False may
    also mean that a request holds what it is promised again, which is no problem: the caller then
    compares range by range. A claim that adopts its IPAddress gets nothing that is not counted.
    """
    granted = sum(
        part.range.size
        for grant in decision.choice.grants
        for part in grant.ranges
        if part not in view.holdings.facts(grant.holder).ranges
    )
    counted = sum(capacity.allocated for capacity in decision.capacities)
    return decision.claimed + granted == counted


def holdings(view: AllocationsView, decision: PassDecision) -> Iterator[HeldRange]:
    """Yield every range that a request holds or was promised, each request's once.

    An allocation that holds a range was promised the same; of a claim, whose IPAddress may be of
    an earlier claim, each address is compared.
    """
    known_holdings = view.holdings
    for holder in known_holdings.holders:
        yield from (
            HeldRange(describe_holder(holder), part.range)
            for part in known_holdings.facts(holder).ranges
        )
    for promise in decision.journal.promises:
        facts = known_holdings.facts(promise.holder)
        if facts.ranges and facts.uid == promise.uid:
            continue
        for part in promise.ranges:
            if facts.uid or part not in facts.ranges:
                yield HeldRange(describe_holder(promise.holder), part.range)


def list_claimed(view: AllocationsView) -> Iterator[HeldRange]:
    """Yield every range that a claim or its IPAddress holds, each range of a claim once."""
    for holder, facts in view.holdings.facts_of_kind(names.KIND_CLAIMS):
        yield from (HeldRange(describe_holder(holder), part.range) for part in facts.ranges)


def ranges_overlap_condition(held_ranges: Iterable[HeldRange]) -> ConditionFinding:
    """Return whether allocations or claims hold the same addresses."""
    overlaps = (
        pair
        for pair in _overlaps(held_ranges)
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


def _overlaps(held_ranges: Iterable[HeldRange]) -> Iterator[tuple[HeldRange, HeldRange]]:
    """Yield each range that begins inside an earlier one, with the one that reaches furthest."""
    furthest: HeldRange | None = None
    for held_range in sorted(held_ranges, key=_sort_key):
        if (
            furthest is not None
            and furthest.range.family == held_range.range.family
            and held_range.range.first <= furthest.range.last
        ):
            yield furthest, held_range
            if held_range.range.last <= furthest.range.last:
                continue
        furthest = held_range


def _sort_key(holding: HeldRange) -> tuple[int, int, int, str]:
    held_range = holding.range
    return held_range.family, held_range.first, held_range.last, holding.holder


def out_of_range_condition(
    held_ranges: Iterable[HeldRange], layouts: Sequence[Layout]
) -> ConditionFinding:
    """Return whether allocations or claims hold what the pool does not hand out."""
    outside = sorted(
        (
            held_range
            for held_range in held_ranges
            if not any(_inside(held_range.range, layout) for layout in layouts)
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


def _inside(held_range: AddressRange, layout: Layout) -> bool:
    """Return whether the pool hands out every address of a range."""
    span = layout.span_of(held_range)
    return span is not None and layout.clip(span) == [span]


def degraded_condition(pool: NetworkPool, capacities: Sequence[Capacity]) -> ConditionFinding:
    """Return whether the free space is in pieces too small for a request of default size.

    Of two families the one that is in such pieces counts, else the first.
    """
    usual = max(
        pool.spec.default_count(kind) for kind in (names.TYPE_NODES, names.TYPE_LOADBALANCER)
    )
    degraded = [capacity for capacity in capacities if _is_degraded(capacity, usual)]
    capacity = (*degraded, capacities[0])[0]
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
    """Another controller: what a pool says of it, and when it last wrote."""

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

    def stopped_in(self, now: datetime, silence: float) -> float:
        """Return in how many seconds it will have written nothing for `silence` seconds."""
        return silence - (now - self.at).total_seconds()

    def findings(self, pool: NetworkPool) -> list[ConditionFinding]:
        """Return the pool's conditions while it writes.

        Ready is set once and then left alone, as the other controller may write it too: two
        controllers that correct each other at every write would never stop writing.
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

    Their writes are remembered for as long as they have to be silent. What the objects show does
    not suffice: an entry of managedFields vanishes once others have written all of its fields, and
    our own Ready condition may be the only field that the other controller had written. A process
    that finds the condition on a pool and has seen no write begins with the whole time.

    Replicas remember different writes, and must not correct each other's condition. So its message
    follows from the objects alone. It stays until it was there for the whole time, whoever set it.
    Once it is False only a write that was seen sets it again, not what a process assumed.

    Args:
        ours: our field manager; if that is not known, no manager counts as foreign.
        silence: seconds after which a controller counts as stopped.
    """

    def __init__(self, ours: str, silence: float) -> None:
        self._ours = ours
        self._silence = silence
        self._seen: dict[Key, ForeignManager] = {}
        # When this process found the condition on a pool without having seen a write.
        self._assumed: dict[Key, datetime] = {}

    def of_pool(
        self, pool: NetworkPool, of_allocations: StatusWrite | None, now: datetime
    ) -> ForeignManager | None:
        """Return the controller that wrote last, if it did within the time to be silent.

        Args:
            pool: whose status it may have written.
            of_allocations: the last write of the status of one of its allocations by another.
            now: the time.
        """
        key = pool.metadata.key
        condition = find(pool.status.conditions, FOREIGN_MANAGER)
        if condition is None or condition.status != "True":
            condition = None
            self._assumed.pop(key, None)
        elif key not in self._seen:
            self._assumed.setdefault(key, now)
        last_write = self._last_shown(pool, of_allocations, now)
        seen = self._seen.get(key)
        if last_write is not None and (seen is None or last_write.at >= seen.at):
            seen = self._seen[key] = last_write
        since = [self._assumed.get(key), seen.at if seen is not None else None]
        messages = [last_write.message if last_write is not None else ""]
        if condition is not None:
            since.append(_time_of(condition, now))
            messages.append(condition.message)
        messages.append(seen.message if seen is not None else "")
        at = max((time for time in since if time is not None), default=None)
        if at is None:
            return None
        latest = ForeignManager(next(filter(None, messages), ""), at)
        return latest if latest.stopped_in(now, self._silence) > 0 else None

    def _last_shown(
        self, pool: NetworkPool, of_allocations: StatusWrite | None, now: datetime
    ) -> ForeignManager | None:
        """Return the last write that the objects show, if it is within the time to be silent."""
        writes = (
            ("the status of this NetworkPool", last_foreign_write(pool.metadata, self._ours)),
            ("the status of its IPAllocations", of_allocations),
        )
        managers = [
            ForeignManager.from_write(write, written_status)
            for written_status, write in writes
            if write
        ]
        recent = [manager for manager in managers if manager.stopped_in(now, self._silence) > 0]
        return max(recent, key=lambda manager: manager.at, default=None)

    def forget(self, key: Key) -> None:
        """Forget a pool that is gone."""
        self._seen.pop(key, None)
        self._assumed.pop(key, None)


def _time_of(condition: Condition, now: datetime) -> datetime | None:
    """Return when a condition got its status; None if that is not known."""
    since = condition.lastTransitionTime
    return min(since, now) if since is not None else None


def none_foreign() -> ConditionFinding:
    """Return the ForeignManager condition once the other controller has stopped writing."""
    return ConditionFinding(
        FOREIGN_MANAGER,
        False,
        reason="NoForeignManager",
        message="no other controller writes these statuses",
    )
