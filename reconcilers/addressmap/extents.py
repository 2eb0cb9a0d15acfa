"""A pool's whole space as one ordered list: what is held, by whom, and the gaps between.

One sweep over the ends of all ranges. Neighbouring ranges that say the same are
one, unless the CIDR ends between them. What lies outside it and is held is listed too. How full a
pool is, is worked out from the same objects, and not from what its status says.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Any, NamedTuple

from allocator import AddressRange, Capacity, InvalidPool, Space
from controller.conditions import find
from controller.meta import Key
from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Drawing
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.statusjournal import settle_pool
from reconcilers.networkpool.view import View
from reconcilers.promises.unreadable import UnreadableObject
from reconcilers.reporting.conditions import READY

ALL_SIZES = 1 << 130
"""A picture shows pools of any size: the limit is the controllers' affair."""


class State(Enum):
    """What can be said of an address. The first that holds is shown."""

    OVERLAP = "overlap"
    """Several allocations hold it."""
    STRAY = "stray"
    """Held, though the pool may not hand it out."""
    RELEASING = "releasing"
    """Held, and being given back."""
    ALLOCATED = "allocated"
    """Held by one allocation."""
    PROMISED = "promised"
    """Chosen for an allocation, and not yet written to it."""
    RESERVED = "reserved"
    """Never handed out: the spec says so."""
    UNKNOWN = "unknown"
    """Not held by what was read; the user may not read all that may hold it."""
    FREE = "free"
    """Can be handed out now."""
    OUTSIDE = "outside"
    """In the CIDR, and in none of the ranges that tenants draw from."""


BY_TENANT = frozenset({State.ALLOCATED, State.RELEASING, State.PROMISED})
"""The states that pictures show in the colour of the tenant."""


@dataclass(frozen=True, slots=True)
class Holder:
    """An IPAllocation that holds a range; if `promised`, it is not written to it yet."""

    allocation: Key
    tenant: Key
    type: str
    promised: bool = False
    releasing: bool = False


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of addresses in one state.

    Several hold it if ranges overlap. The note is the description of a reserved range.
    """

    range: AddressRange
    state: State
    holders: tuple[Holder, ...] = ()
    note: str = ""

    @property
    def tenant_text(self) -> str:
        """The tenant that holds it; empty if none does, or several."""
        found = {str(one.tenant) for one in self.holders}
        return found.pop() if len(found) == 1 else ""

    def document(self) -> dict[str, Any]:
        """Return the extent as JSON for programs."""
        return {
            "start": self.range.start_text,
            "end": self.range.end_text,
            "size": self.range.size,
            "state": self.state.value,
            "note": self.note,
            "holders": [
                {"allocation": str(who.allocation), "tenant": str(who.tenant), "type": who.type}
                for who in self.holders
            ],
        }


@dataclass(frozen=True, slots=True)
class Picture:
    """A pool's space.

    Args:
        pool: whose.
        extents: ascending, without gaps inside the CIDR.
        fault: why the spec makes no sense, if it does not; then there are no extents.
        cidr: the pool's; None if the spec makes no sense.
        label: what people call the pool; a NetworkPool has its namespace and name.
    """

    pool: NetworkPool
    extents: tuple[Extent, ...]
    fault: str = ""
    cidr: AddressRange | None = None
    label: str = ""

    @property
    def name(self) -> str:
        """What people call the pool."""
        return self.label or str(self.pool.metadata.key)

    @property
    def inside(self) -> tuple[Extent, ...]:
        """The extents in the CIDR: what is held far outside would make a dot of the pool."""
        cidr = self.cidr
        return tuple(one for one in self.extents if cidr and cidr.contains(one.range))

    def addresses(self) -> Counter[State]:
        """Return how many addresses are in each state."""
        found: Counter[State] = Counter()
        for extent in self.extents:
            found[extent.state] += extent.range.size
        return found

    def at(self, address: str) -> Extent | None:
        """Return the range that holds an address."""
        return next((one for one in self.extents if one.range.contains(address)), None)

    @property
    def first_and_size(self) -> tuple[int, int]:
        """The number of the CIDR's first address, and how many addresses it has."""
        first = self.inside[0].range.first
        return first, self.inside[-1].range.last - first + 1

    def address(self, number: int) -> str:
        """Return the address of a number."""
        return AddressRange(number, number, self.extents[0].range.family).start_text


def power_of_two(size: int, most: int) -> int:
    """Return the least power of two of which `most` are enough for `size`."""
    return 1 << max(0, -(-size // most) - 1).bit_length()


class _Layer(NamedTuple):
    """What is said of a range: a holder, `range` for what tenants draw from, or `reserved:...`."""

    first: int
    last: int
    content: Holder | str


def picture(
    pool: NetworkPool, allocations: Sequence[IPAllocation], *, all_read: bool = True
) -> Picture:
    """Return a pool's space, given the allocations that name it.

    Args:
        pool: the pool.
        allocations: those that name it.
        all_read: whether these are all holders; else nothing is known to be free.
    """
    try:
        layout = poolgeometry.parse_layout(pool.spec, ALL_SIZES)
    except InvalidPool as invalid:
        return Picture(pool, (), "; ".join(invalid.messages))
    layers = [_Layer(one.first, one.last, "range") for one in layout.ranges]
    layers += [
        _Layer(parsed.first, parsed.last, f"reserved:{reservation.note}")
        for reservation, parsed in zip(
            poolgeometry.list_reservations(pool.spec), layout.reserved, strict=True
        )
    ]
    layers += [
        _Layer(*span, holder)
        for holder, held in holders(pool, allocations)
        if (span := layout.span_of(held)) is not None
    ]
    extents = _sweep(layers, layout.cidr)
    if not all_read:
        extents = map(_without_free, extents)
    return Picture(pool, tuple(extents), cidr=layout.cidr)


def _without_free(extent: Extent) -> Extent:
    return replace(extent, state=State.UNKNOWN) if extent.state is State.FREE else extent


def drawn(one: Drawing) -> Picture:
    """Return the space of a pool of another platform's kind."""
    if one.fault:
        return Picture(one.pool, (), one.fault, label=one.view.name)
    all_read = not one.view.unreadable
    return replace(picture(one.pool, one.allocations, all_read=all_read), label=one.view.name)


def holders(
    pool: NetworkPool, allocations: Sequence[IPAllocation]
) -> Iterator[tuple[Holder, AddressRange]]:
    """Yield who holds what of a pool: by status, and by promises that are still open."""
    for one in allocations:
        yield from ((_holder(one), held) for held in statusranges.list_held_ranges(one))
    view = View.from_allocations(0, tuple(allocations))
    for promise in settle_pool(pool, view).promises:
        if promise.kind != KIND:
            continue  # drawn with the holders of that kind
        allocation = view.current(promise.key, promise.uid)
        if allocation is None or statusranges.find_held_range(allocation) is not None:
            continue
        holder = _holder(allocation, promised=True)
        yield from ((holder, promised.range) for promised in promise.ranges)


def _holder(allocation: IPAllocation, *, promised: bool = False) -> Holder:
    return Holder(
        allocation.metadata.key,
        allocation.spec.tenantClusterRef.key,
        allocation.spec.type,
        promised,
        allocation.releasing,
    )


def _sweep(layers: Iterable[_Layer], cidr: AddressRange) -> Iterator[Extent]:
    """Yield the ranges between the ends of all layers, equal neighbours joined."""
    starts: dict[int, list[_Layer]] = {}
    ends: dict[int, list[_Layer]] = {}
    cuts = {cidr.first, cidr.last + 1}
    for layer in layers:
        starts.setdefault(layer.first, []).append(layer)
        ends.setdefault(layer.last + 1, []).append(layer)
        cuts |= {layer.first, layer.last + 1}
    active: dict[int, _Layer] = {}
    pending: Extent | None = None
    for first, beyond in pairwise(sorted(cuts)):
        for layer in ends.get(first, ()):
            del active[id(layer)]
        for layer in starts.get(first, ()):
            active[id(layer)] = layer
        if not active and not cidr.first <= first <= cidr.last:
            continue
        extent = _extent_of(AddressRange(first, beyond - 1, cidr.family), active.values())
        edge = first in {cidr.first, cidr.last + 1}
        if pending is not None and not edge and _joins(pending, extent):
            whole = AddressRange(pending.range.first, extent.range.last, cidr.family)
            pending = replace(pending, range=whole)
            continue
        if pending is not None:
            yield pending
        pending = extent
    if pending is not None:
        yield pending


def _extent_of(where: AddressRange, layers: Iterable[_Layer]) -> Extent:
    """Return what is to be said of a range."""
    held = {
        one.content.allocation: one.content for one in layers if isinstance(one.content, Holder)
    }
    said = [one.content for one in layers if isinstance(one.content, str)]
    reserved = [text.removeprefix("reserved:") for text in said if text != "range"]
    who = tuple(held[key] for key in sorted(held))
    if len(who) > 1:
        state = State.OVERLAP
    elif who and (reserved or "range" not in said):
        state = State.STRAY
    elif who and who[0].releasing:
        state = State.RELEASING
    elif who:
        state = State.PROMISED if who[0].promised else State.ALLOCATED
    elif reserved:
        state = State.RESERVED
    else:
        state = State.FREE if "range" in said else State.OUTSIDE
    return Extent(where, state, who, "; ".join(filter(None, reserved)))


def _joins(one: Extent, other: Extent) -> bool:
    same = (one.state, one.holders, one.note) == (other.state, other.holders, other.note)
    return same and one.range.last + 1 == other.range.first


_NOTHING = Capacity(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Usage:
    """The figures of a pool, or of one block of a pool of two families, in addresses.

    Args:
        pool: the pool.
        capacity: of what tenants may draw from.
        allocations: how many hold a range.
        requests: those that want a range and have none of either family.
        tenants: how many clusters hold something of it.
        ready: True, False or Unknown: the pool's Ready condition.
        reason: why.
        not_read: what may hold addresses of the pool and was not read; if there is any,
            all figures but the total are too low, or too high, and not shown.
    """

    pool: NetworkPool
    capacity: Capacity
    allocations: int
    requests: tuple[IPAllocation, ...]
    tenants: int
    ready: str
    reason: str
    not_read: Sequence[NotRead | UnreadableObject] = ()

    @property
    def waiting(self) -> int:
        """How many requests there are."""
        return len(self.requests)

    @property
    def percent(self) -> int:
        """Allocated of total, rounded down."""
        return self.capacity.utilization_percent

    def document(self) -> dict[str, Any]:
        """Return the usage as JSON for programs; figures that are not known are None."""
        numbers: dict[str, int | None] = {
            **figures(self.capacity),
            "utilizationPercent": self.percent,
            "allocations": self.allocations,
            "waiting": self.waiting,
            "tenants": self.tenants,
        }
        if self.not_read:
            numbers = {**dict.fromkeys(numbers), "total": self.capacity.total}
        body: dict[str, Any] = {
            "namespace": self.pool.metadata.namespace,
            "name": self.pool.metadata.name,
            "cidr": self.pool.spec.cidr,
            **numbers,
            "ready": self.ready,
            "reason": self.reason,
        }
        return body | (
            {"notRead": [str(limit) for limit in self.not_read]} if self.not_read else {}
        )


def figures(capacity: Capacity) -> dict[str, int]:
    """Return how much of a pool is held and free, for programs, in addresses."""
    return {
        "total": capacity.total,
        "allocated": capacity.allocated,
        "available": capacity.available,
        "largestFreeBlock": capacity.largest_free,
        "fragmentationPercent": capacity.fragmentation_percent,
    }


def usage(
    pool: NetworkPool,
    allocations: Sequence[IPAllocation],
    not_read: Sequence[NotRead | UnreadableObject] = (),
) -> Usage:
    """Return the figures of a pool or of one of its blocks.

    Args:
        pool: the pool, or the block.
        allocations: those that name the pool.
        not_read: what else may hold addresses of it and may not be read.
    """
    held = list(holders(pool, allocations))
    serving = {holder.allocation for holder, _ in held}
    requests = tuple(
        one
        for one in allocations
        if one.metadata.key not in serving and not one.metadata.terminating
    )
    ready = find(pool.status.conditions, READY)
    status, reason = (ready.status, ready.message) if ready else ("Unknown", "not reconciled")
    try:
        layout = poolgeometry.parse_layout(pool.spec, ALL_SIZES)
        held = [one for one in held if layout.span_of(one[1]) is not None]
        capacity = Space(layout, (where for _, where in held)).capacity()
    except InvalidPool as invalid:
        capacity, status, reason = _NOTHING, "False", "; ".join(invalid.messages)
    holding = {holder.allocation for holder, _ in held}
    tenants = {holder.tenant for holder, _ in held}
    return Usage(pool, capacity, len(holding), requests, len(tenants), status, reason, not_read)
