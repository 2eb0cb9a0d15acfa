"""What is amiss in a pool that can be served, as conditions that are always present.

    Overlapping     another pool may hand out the same addresses
    RangesOverlap   allocations hold the same addresses: others made that so, we never do
    OutOfRange      allocations hold, or were promised, what the spec does not hand out any more
    Degraded        the free space would do for a default request, but no free block does

None of them takes anything from anybody: ranges are reported, never revoked.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from allocator import AddressRange, Capacity, Layout
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.networkpool import NetworkPool
from reconcilers.conditions import Finding
from reconcilers.networkpool.neighbours import Neighbour
from reconcilers.networkpool.protocol import Decision
from reconcilers.networkpool.view import View

OVERLAPPING = "Overlapping"
RANGES_OVERLAP = "RangesOverlap"
OUT_OF_RANGE = "OutOfRange"
DEGRADED = "Degraded"

FRAGMENTED_PERCENT = 50
"""From this fragmentation on a pool without a block for a default request counts as degraded."""
NAMED = 5
"""So many offenders are named in a message; the others are counted."""


@dataclass(frozen=True, slots=True)
class Holding:
    """A range, and the allocation that holds it or was promised it."""

    name: str
    range: AddressRange

    @property
    def text(self) -> str:
        """Name and range, for messages."""
        return f"{self.name} ({self.range.start_text}-{self.range.end_text})"


def findings(
    pool: NetworkPool, view: View, decision: Decision, others: Sequence[Neighbour]
) -> list[Finding]:
    """Return the four conditions."""
    held = () if tidy(decision) else tuple(holdings(view, decision))
    return [
        overlapping(others),
        ranges_overlap(held),
        out_of_range(held, decision.space.layout),
        degraded(pool, decision.space.capacity()),
    ]


def tidy(decision: Decision) -> bool:
    """Return whether every range lies in the pool, and none in another: by sums, so it is quick.

    The space counts an address once however many hold it, and not at all if it is none of the
    pool's. So the sizes of all ranges add up to what it counts only if nothing is amiss. (They do
    not either where an allocation holds what it is promised again, which is not amiss: then the
    thorough look says so.)
    """
    granted = sum(
        grant.range.size
        for grant in decision.choice.grants
        if ranges.held(grant.allocation) is None
    )
    return decision.claimed + granted == decision.space.used


def holdings(view: View, decision: Decision) -> Iterator[Holding]:
    """Yield every range that an allocation holds or was promised, each allocation's once."""
    holders = set()
    for allocation in view.of_pool:
        held = ranges.held(allocation)
        if held is not None:
            holders.add(allocation.metadata.uid)
            yield Holding(allocation.metadata.name, held)
    for promise in decision.promises:
        promised = None if promise.uid in holders else ranges.promised(promise)
        if promised is not None:
            yield Holding(promise.name, promised)


def overlapping(others: Sequence[Neighbour]) -> Finding:
    """Return whether other pools may hand out the same addresses."""
    if not others:
        return Finding(OVERLAPPING, False, "NoOverlap", "no other pool hands out these addresses")
    told = [f"NetworkPool {one.key} ({one.shared} addresses)" for one in others]
    return Finding(
        OVERLAPPING, True, "PoolsOverlap", f"addresses are also handed out by {_named(told)}"
    )


def ranges_overlap(held: Iterable[Holding]) -> Finding:
    """Return whether allocations hold the same addresses."""
    pairs = [f"{one.text} and {other.text}" for one, other in _clashes(held)]
    if not pairs:
        return Finding(RANGES_OVERLAP, False, "NoOverlap", "no address is held twice")
    return Finding(
        RANGES_OVERLAP,
        True,
        "AllocationsOverlap",
        f"IPAllocations hold the same addresses: {_named(pairs)}",
    )


def _clashes(held: Iterable[Holding]) -> Iterator[tuple[Holding, Holding]]:
    """Yield each range that begins inside an earlier one, with the one that reaches furthest."""
    furthest: Holding | None = None
    for one in sorted(held, key=_place):
        if (
            furthest is not None
            and furthest.range.family == one.range.family
            and one.range.first <= furthest.range.last
        ):
            yield furthest, one
            if one.range.last <= furthest.range.last:
                continue
        furthest = one


def _place(holding: Holding) -> tuple[int, int, int, str]:
    found = holding.range
    return found.family, found.first, found.last, holding.name


def out_of_range(held: Iterable[Holding], layout: Layout) -> Finding:
    """Return whether allocations hold what the pool does not hand out."""
    outside = sorted(
        (one for one in held if not _inside(one.range, layout)), key=lambda one: one.name
    )
    if not outside:
        message = "every range lies in what the pool hands out"
        return Finding(OUT_OF_RANGE, False, "InRange", message)
    return Finding(
        OUT_OF_RANGE,
        True,
        "AllocationsOutOfRange",
        f"IPAllocations hold addresses that the pool does not hand out:"
        f" {_named([one.text for one in outside])}",
    )


def _inside(held: AddressRange, layout: Layout) -> bool:
    span = layout.span_of(held)
    return span is not None and layout.clip(span) == [span]


def degraded(pool: NetworkPool, capacity: Capacity) -> Finding:
    """Return whether the free space is in pieces too small for a request of default size."""
    usual = max(
        pool.spec.default_count(kind) for kind in (names.TYPE_NODES, names.TYPE_LOADBALANCER)
    )
    told = (
        f"{capacity.available} IPs are free, the largest free block has {capacity.largest_free}"
        f" (fragmentation {capacity.fragmentation_percent}%)"
    )
    if (
        capacity.fragmentation_percent >= FRAGMENTED_PERCENT
        and capacity.largest_free < usual <= capacity.available
    ):
        return Finding(
            DEGRADED, True, "HighFragmentation", f"{told}; a request of default size needs {usual}"
        )
    return Finding(DEGRADED, False, "NotDegraded", told)


def _named(items: Sequence[str]) -> str:
    more = len(items) - NAMED
    return ", ".join([*items[:NAMED], *([f"and {more} more"] if more > 0 else [])])
