"""What is refused of NetworkPools.

    created   a spec that contradicts itself (reconcilers/specrules/poolspecs.py)
    updated   that; a CIDR without all of the old one; ranges that leave out, or reservations that
              take, addresses that allocations or claims hold or were promised. Of addresses that
              another platform allocates by itself there is a warning: to leave them out is how a
              person keeps a pool clear of them
    deleted   a pool of which allocations or claims hold addresses

An allocation that names the pool in spec.poolRef counts, labelled or not. Promises count because
their ranges are written to the allocations soon after: validation by allocations alone would allow
an edit in between. They are those of the object that the write replaces. The API server asks for
validation again if that changes before the write is stored, so no promise is made unseen.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from allocator import AddressRange, InvalidCIDR, InvalidPool, Layout
from allocator.addresses import Span, address_text, minus, quote_value
from controller.errors import Cause
from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.addressing.poolgeometry import Reservation
from reconcilers.api.ipallocation import ALLOCATED, RELEASED, IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.networkpool.offers import layout_offers
from reconcilers.networkpool.otherholders import HeldRange
from reconcilers.networkpool.statusjournal import settle_pool, shown_kind
from reconcilers.networkpool.view import AllocationsView
from reconcilers.reporting.wording import count_noun
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules import poolspecs
from reconcilers.specrules.poolspecs import SECONDARY, SPEC
from reconcilers.specrules.verdict import (
    Path,
    Verdict,
    describe_remark,
    field,
    forbidden,
    invalid,
    limit_causes,
)

MOST_NAMED = 5
"""So many objects of another platform whose addresses are left out are named in warnings."""


def review_creation(new: NetworkPool, spaces: SpaceIndex, max_addresses: int) -> Verdict:
    """Validate a new pool.

    Args:
        spaces: what pools of all kinds hand out.
        max_addresses: the largest pool, in addresses.
    """
    faults = poolspecs.find_pool_faults(new.spec, max_addresses)
    causes = [invalid(fault.path, fault.message) for fault in faults]
    warnings = [*_warn_about_start_and_end(new)]
    if not faults:
        geometry = poolgeometry.parse_layouts(new.spec, max_addresses)
        warnings += [
            describe_remark(remark) for remark in poolspecs.list_pool_warnings(new.spec, geometry)
        ]
        warnings += _overlap_warnings(new, geometry, spaces)
    return Verdict.from_causes(causes, warnings)


def review_update(  # noqa: PLR0913 - the pool, and all that holds addresses of it
    new: NetworkPool,
    old: NetworkPool | None,
    view: AllocationsView | None,
    spaces: SpaceIndex,
    max_addresses: int,
    claimed: Sequence[HeldRange] = (),
    *,
    claimed_kinds: Container[str] = (),
) -> Verdict:
    """Validate an edit of a pool's spec.

    Args:
        new: the pool as it would be.
        old: the pool as it is; None if it cannot be read.
        view: its allocations; None only if no address is given up (`gives_up_addresses`).
        spaces: what pools of all kinds hand out.
        max_addresses: the largest pool, in addresses.
        claimed: what others than IPAllocations hold of it.
        claimed_kinds: the kinds of requests, by full name, whose promises `claimed` has.
    """
    moved = _geometry(new, max_addresses) != _geometry(old, max_addresses)
    verdict = review_creation(new, spaces if moved else SpaceIndex(), max_addresses)
    causes, warnings = list(verdict.causes), list(verdict.warnings)
    if old is not None:
        causes += _review_shrunk_cidrs(new, old)
    if verdict.allowed and view is not None:
        ours = [
            *_holders(old, view, claimed_kinds),
            *(holding for holding in claimed if not holding.foreign),
        ]
        left_out_addresses = _left_out(new, old, holders=ours, max_addresses=max_addresses)
        field_of_ranges = _field_of_ranges(SPEC, new.spec)
        causes += limit_causes(
            (address.cause() for address in left_out_addresses),
            field_of_ranges,
            single="allocation would be left out",
            several="allocations would be left out",
        )
        foreign = [holding for holding in claimed if holding.foreign]
        foreign_warnings = [
            address.warning()
            for address in _left_out(new, old, holders=foreign, max_addresses=max_addresses)
        ]
        warnings += foreign_warnings[:MOST_NAMED]
        if len(foreign_warnings) > MOST_NAMED:
            more = len(foreign_warnings) - MOST_NAMED
            objects = count_noun(more, "more object holds", "more objects hold")
            warnings.append(f"{field(field_of_ranges)}: {objects} such addresses")
    return Verdict.from_causes(causes, warnings)


def gives_up_addresses(new: NetworkPool, old: NetworkPool | None, max_addresses: int) -> bool:
    """Return whether the new spec lacks an address that the old one could hand out."""
    try:
        after = poolgeometry.parse_layouts(new.spec, max_addresses)
    except InvalidPool:
        return False  # refused for that reason alone
    before = _geometry(old, max_addresses)
    return before is None or next(_list_lost_spans(before, after), None) is not None


def review_deletion(
    old: NetworkPool,
    view: AllocationsView,
    claimed: Sequence[HeldRange] = (),
    unknown: str = "",
    *,
    claimed_kinds: Container[str] = (),
) -> Verdict:
    """Validate the deletion of a pool.

    Pending and Failed requests hold nothing, and ranges that are Released because their allocation
    is being deleted are about to be free: the pool's finalizer waits for those. A phase that a
    person wrote beside a range frees nothing, so the finalizer would wait for ever.

    Args:
        view: as they were read for this review.
        claimed: what others than IPAllocations hold of it.
        unknown: which objects cannot be read, so that it is unknown what they hold; empty if there
            are none. By themselves they refuse nothing.
        claimed_kinds: the kinds of requests, by full name, whose promises `claimed` has.
    """
    refusal = f"cannot delete NetworkPool {quote_value(old.metadata.name)}:"
    opening = f"{refusal} IPAllocation"
    namespace = quote_value(old.metadata.namespace)
    causes, holder_uids = [], set()
    for allocation in sorted(view.of_pool, key=lambda allocation: allocation.metadata.name):
        if _keeps(allocation):
            holder_uids.add(allocation.metadata.uid)
            phase = allocation.status.phase or "(none)"
            phase += "" if phase == ALLOCATED else ", yet holds a range"
            message = f"{opening} {quote_value(allocation.metadata.name)} in namespace {namespace}"
            causes.append(forbidden((), f"{message} is still in phase {phase}"))
    for promise in settle_pool(old, view).promises:
        if promise.uid not in holder_uids and promise.kind not in claimed_kinds:
            holder = f"{shown_kind(promise)} {quote_value(promise.key.name)}"
            message = f"{refusal} {holder} in namespace {namespace}"
            promised = promise.ranges[0].range.start_text
            causes.append(forbidden((), f"{message} was promised {promised}"))
    for holding in claimed:
        if holding.foreign:
            continue  # it does not depend on the pool
        message = f"{refusal} {holding.holder} holds {holding.range.start_text}"
        causes.append(forbidden((), f"{message}. Delete the claim first"))
    causes = limit_causes(
        causes, (), single="allocation holds addresses", several="allocations hold addresses"
    )
    if not unknown:
        return Verdict.from_causes(causes)
    if not causes:
        stays = "it is unknown what these objects hold of it, and the pool may stay until they are"
        return Verdict.from_causes(warnings=[f"{stays} repaired or deleted: {unknown}"])
    more = f"it is unknown what these objects hold of it: {unknown}"
    return Verdict.from_causes([*causes, forbidden((), more)])


def _keeps(allocation: IPAllocation) -> bool:
    phase = allocation.status.phase
    leaving = phase == RELEASED and allocation.metadata.terminating
    return phase == ALLOCATED or (not leaving and bool(statusranges.list_held_ranges(allocation)))


def _warn_about_start_and_end(pool: NetworkPool) -> Iterator[str]:
    """Warn about the deprecated fields start and end."""
    tenant = pool.spec.tenantAllocation
    if tenant is None or not (tenant.start or tenant.end):
        return
    if tenant.ranges:
        yield ("spec.tenantAllocation: Start/End are ignored when Ranges is present; remove them")
    else:
        start, end = quote_value(tenant.start or ""), quote_value(tenant.end or "")
        yield (
            "spec.tenantAllocation: start and end are deprecated; write"
            f" ranges: [{{start: {start}, end: {end}}}]"
        )


def _overlap_warnings(
    pool: NetworkPool, geometry: Sequence[Layout], spaces: SpaceIndex
) -> Iterator[str]:
    """Warn about pools that share addresses: right for separate sites and NAT, else a mistake."""
    for (at, _), layout in zip(poolspecs.list_blocks(pool.spec), geometry, strict=True):
        sentence = spaces.sharing(layout_offers(pool, [layout])).sentence
        if sentence:
            yield f"{field((*at, 'cidr'))}: {sentence}"


def _review_shrunk_cidrs(new: NetworkPool, old: NetworkPool) -> Iterator[Cause]:
    """Yield a cause for each new CIDR that does not contain the old one."""
    olds = dict(poolspecs.list_blocks(old.spec))
    for at, block in poolspecs.list_blocks(new.spec):
        if at in olds:
            yield from _shrunk_cidr((*at, "cidr"), block.cidr, olds[at].cidr)


def _shrunk_cidr(at: Path, new: str, old: str) -> Iterator[Cause]:
    try:
        after, before = AddressRange.parse_cidr(new), AddressRange.parse_cidr(old)
    except InvalidCIDR:
        return  # the new one is refused for that; an old one that was none holds nothing
    if not after.contains(before):
        message = (
            f"new CIDR {quote_value(new)} does not contain the previous CIDR"
            f" {quote_value(old)}; shrinking a pool may orphan existing allocations"
        )
        yield invalid(at, message)


def _geometry(pool: NetworkPool | None, max_addresses: int) -> tuple[Layout, ...] | None:
    """Return the layouts of a pool; None if they are unknown, and so may hand out any address."""
    try:
        return None if pool is None else poolgeometry.parse_layouts(pool.spec, max_addresses)
    except InvalidPool:
        return None


def _list_lost_spans(before: Iterable[Layout], after: Iterable[Layout]) -> Iterator[Span]:
    """Yield the address spans that `before` could hand out and `after` cannot."""
    kept = {layout.family: layout for layout in after}
    for layout in before:
        now = kept.get(layout.family)
        yield from minus(_spans(layout.blocks), _spans(now.blocks if now is not None else ()))


def _spans(blocks: Iterable[AddressRange]) -> list[Span]:
    return [(block.first, block.last) for block in blocks]


def _holders(
    old: NetworkPool | None, view: AllocationsView, claimed_kinds: Container[str] = ()
) -> Iterator[HeldRange]:
    """Yield the allocations that hold or were promised a range, by name.

    The promises of a pool that cannot be read are unknown: no new ones can be made either, and the
    OutOfRange condition reports one that was kept after the edit.
    """
    holdings = {
        HeldRange(_allocation(allocation.metadata.name), held_range)
        for allocation in view.of_pool
        for held_range in statusranges.list_held_ranges(allocation)
    }
    for promise in settle_pool(old, view).promises if old is not None else ():
        if promise.kind in claimed_kinds:
            continue
        holder = f"{shown_kind(promise)} {quote_value(promise.key.name)}"
        holdings |= {HeldRange(holder, promised.range) for promised in promise.ranges}
    yield from sorted(
        holdings, key=lambda holding: (holding.holder, holding.range.first, holding.range.last)
    )


def _allocation(name: str) -> str:
    return f"IPAllocation {quote_value(name)}"


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """An address that is held, and that the new spec does not hand out.

    Args:
        at: the field that leaves it out.
        holder: the object that holds it.
        reserved: what reserves it; None if it is outside the ranges.
    """

    at: Path
    holder: str
    address: str
    reserved: Reservation | None = None

    def cause(self) -> Cause:
        """Return the refusal of the edit."""
        if self.reserved is not None:
            reserved = quote_value(self.reserved.label)
            if self.reserved.field == (poolgeometry.EXCLUDE_EDGES,):
                reserved = f"{self.reserved.note} {reserved}"
            message = f"cannot reserve {reserved}: {self.holder} has address {self.address} in it"
        else:
            message = (
                f"cannot narrow tenant allocation ranges: {self.holder} has address"
                f" {self.address} outside the proposed ranges"
            )
        return forbidden(self.at, f"{message}. Migrate or delete affected allocations first")

    def warning(self) -> str:
        """Return the warning about the edit, where the holder does not depend on the pool."""
        where = "outside the proposed ranges"
        if self.reserved is not None:
            where = f"in {self.reserved.label}"
        return (
            f"{field(self.at)}: {self.holder} has address {self.address} {where}; it keeps it, and"
            " the pool no longer counts it as in use"
        )


def _left_out(
    new: NetworkPool, old: NetworkPool | None, holders: Iterable[HeldRange], max_addresses: int
) -> Iterator[_LeftOut]:
    """Name every allocation and claim that holds an address which the new spec lacks.

    Addresses that the old spec did not cover either are no fault of this edit: a pool with an
    allocation outside, as edits without webhooks leave behind, can still be edited.
    """
    before, after = (
        _geometry(old, max_addresses),
        poolgeometry.parse_layouts(new.spec, max_addresses),
    )
    places = [at for at, _ in poolspecs.list_blocks(new.spec)]
    for holder in holders:
        had = [holder.range] if before is None else _list_covered_parts(before, holder.range)
        if not had:
            continue
        match = _find_layout(after, holder.range)
        if match is None:  # of a family that the pool loses
            yield _outside(new, SECONDARY, holder=holder.holder, address=holder.range.start_text)
            continue
        layout, span = match
        covered = [span] if before is None else _spans(had)
        lost = list(minus(covered, _spans(layout.blocks)))
        outside = list(minus(lost, _spans(layout.ranges)))
        at = places[after.index(layout)]
        if outside:
            first = address_text(outside[0][0], layout.family)
            yield _outside(new, at, holder=holder.holder, address=first)
        for first_reserved, _ in islice(minus(lost, outside), 1):
            yield _find_reservation(
                new, at, after=layout, holder=holder.holder, address=first_reserved
            )


def _find_layout(
    layouts: Iterable[Layout], held_range: AddressRange
) -> tuple[Layout, Span] | None:
    """Return the layout of a range's family, and the span of the range in it; None without one."""
    spans = ((layout, layout.span_of(held_range)) for layout in layouts)
    return next(((layout, span) for layout, span in spans if span is not None), None)


def _list_covered_parts(before: Iterable[Layout], held_range: AddressRange) -> list[AddressRange]:
    """Return the parts of a range that the old spec covers."""
    match = _find_layout(before, held_range)
    if match is None:
        return []
    layout, span = match
    return [AddressRange(*part, layout.family) for part in layout.clip(span)]


def _field_of_ranges(at: Path, block: NetworkPoolSpec) -> Path:
    return (*at, "tenantAllocation") if block.spans() else (*at, "cidr")


def _outside(new: NetworkPool, at: Path, holder: str, address: str) -> _LeftOut:
    block = dict(poolspecs.list_blocks(new.spec)).get(at)
    return _LeftOut(at if block is None else _field_of_ranges(at, block), holder, address)


def _find_reservation(
    new: NetworkPool, at: Path, after: Layout, holder: str, address: int
) -> _LeftOut:
    """Return the finding about an address that a reservation of the new spec covers."""
    block = dict(poolspecs.list_blocks(new.spec))[at]
    pairs = zip(poolgeometry.list_reservations(block), after.reserved, strict=True)
    reservation = next(reservation for reservation, parsed in pairs if parsed.contains(address))
    address_string = address_text(address, after.family)
    if reservation.field[0] == "reserved":
        return _LeftOut(
            (*at, *reservation.field), holder, address=address_string, reserved=reservation
        )
    return _LeftOut(
        (*SPEC, *reservation.field), holder, address=address_string, reserved=reservation
    )
