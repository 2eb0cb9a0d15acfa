"""Rules for writes of NetworkPools.

    created   refused: a spec that contradicts itself (reconcilers/specrules/poolspecs.py)
    updated   refused: the same; a CIDR that does not contain the old CIDR; ranges or reservations
              that leave out addresses that allocations or claims hold or were promised.
              Warning: ranges or reservations that leave out addresses that another platform
              allocates by itself; with such an edit, a person keeps the pool clear of them
    deleted   refused: a pool of which allocations or claims hold addresses

An allocation that names the pool in spec.poolRef counts, with or without labels. A *promise* is a
range that a pool's status assigns to an allocation or a claim, which gets it by a later write. So
promises count, too: an edit between the two writes must not leave the range out. The promises are
read from the stored pool that the write replaces. If that pool changes before the write is stored,
the API server calls the webhook again, so no promise is missed.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from allocator import AddressRange, InvalidCIDR, InvalidPool, Layout
from allocator.addresses import Span, format_address, quote_value, subtract_spans
from controller.errors import Cause
from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.addressing.poolgeometry import Reservation
from reconcilers.api.ipallocation import ALLOCATED, RELEASED, IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.networkpool.offers import make_layout_offers
from reconcilers.networkpool.otherholders import HeldRange
from reconcilers.networkpool.statusjournal import get_shown_kind, settle_pool_journal
from reconcilers.networkpool.view import AllocationsView
from reconcilers.reporting.wording import count_noun
from reconcilers.spaces.index import SpaceIndex
from reconcilers.specrules import poolspecs
from reconcilers.specrules.poolspecs import SECONDARY, SPEC
from reconcilers.specrules.verdict import (
    Path,
    Verdict,
    build_forbidden_cause,
    build_invalid_cause,
    describe_remark,
    format_path,
    limit_causes,
)

MOST_NAMED = 5
"""The most objects of another platform that the warnings about one edit name."""


def review_creation(new: NetworkPool, spaces: SpaceIndex, max_addresses: int) -> Verdict:
    """Return the verdict on a new pool.

    Each fault of the spec is a cause to refuse the pool. Without faults, there are warnings about
    likely mistakes in the spec, and about pools that share addresses with it.

    Args:
        spaces: what pools of all kinds hand out.
        max_addresses: the largest pool, in addresses.
    """
    faults = poolspecs.find_pool_faults(new.spec, max_addresses)
    causes = [build_invalid_cause(fault.path, fault.message) for fault in faults]
    warnings = [*_warn_about_start_and_end(new)]
    if not faults:
        geometry = poolgeometry.parse_layouts(new.spec, max_addresses)
        warnings += [
            describe_remark(remark) for remark in poolspecs.list_pool_warnings(new.spec, geometry)
        ]
        warnings += _list_overlap_warnings(new, geometry, spaces)
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
    """Return the verdict on an edit of a pool's spec.

    Args:
        new: the pool as it would be.
        old: the stored pool; None if it cannot be read.
        view: the pool's allocations; None if the edit gives up no address (`gives_up_addresses`).
        spaces: what pools of all kinds hand out.
        max_addresses: the largest IPv4 pool, in addresses.
        claimed: the ranges of the pool that other objects than IPAllocations hold.
        claimed_kinds: the kinds of requests, by full name, whose promises are in `claimed`.
    """
    is_moved = _parse_layouts(new, max_addresses) != _parse_layouts(old, max_addresses)
    # Without a change of addresses, the warnings about overlaps are not repeated.
    verdict = review_creation(new, spaces if is_moved else SpaceIndex(), max_addresses)
    causes, warnings = list(verdict.causes), list(verdict.warnings)
    if old is not None:
        causes += _review_shrunk_cidrs(new, old)
    if verdict.allowed and view is not None:
        ours = [
            *_list_holders(old, view, claimed_kinds),
            *(holding for holding in claimed if not holding.foreign),
        ]
        lost_addresses = _list_lost_addresses(new, old, holders=ours, max_addresses=max_addresses)
        ranges_path = _locate_ranges(SPEC, new.spec)
        causes += limit_causes(
            (address.build_cause() for address in lost_addresses),
            ranges_path,
            single="allocation would be left out",
            several="allocations would be left out",
        )
        # Another platform keeps these addresses without the pool, so they only give warnings.
        foreign = [holding for holding in claimed if holding.foreign]
        foreign_warnings = [
            address.describe_warning()
            for address in _list_lost_addresses(
                new, old, holders=foreign, max_addresses=max_addresses
            )
        ]
        warnings += foreign_warnings[:MOST_NAMED]
        if len(foreign_warnings) > MOST_NAMED:
            more = len(foreign_warnings) - MOST_NAMED
            objects = count_noun(more, "more object holds", "more objects hold")
            warnings.append(f"{format_path(ranges_path)}: {objects} such addresses")
    return Verdict.from_causes(causes, warnings)


def gives_up_addresses(new: NetworkPool, old: NetworkPool | None, max_addresses: int) -> bool:
    """Return whether an edited pool lacks an address that the stored pool could hand out.

    True, too, if the stored pool cannot be parsed, because then it may have handed out any
    address.
    """
    try:
        new_layouts = poolgeometry.parse_layouts(new.spec, max_addresses)
    except InvalidPool:
        return False  # the edit is refused because its spec is invalid, whatever is held
    old_layouts = _parse_layouts(old, max_addresses)
    if old_layouts is None:
        return True
    return next(_list_lost_spans(old_layouts, new_layouts), None) is not None


def review_deletion(
    old: NetworkPool,
    view: AllocationsView,
    claimed: Sequence[HeldRange] = (),
    unknown: str = "",
    *,
    claimed_kinds: Container[str] = (),
) -> Verdict:
    """Return the verdict on the deletion of a pool.

    It is refused while an allocation or a claim holds or was promised an address of the pool.

    Args:
        view: the pool's allocations.
        claimed: the ranges of the pool that other objects than IPAllocations hold.
        unknown: the objects that cannot be read and may hold addresses; empty if there are none.
            They alone refuse nothing, because the pool's finalizer waits for them: the verdict
            has a warning then. If the deletion is refused, a further cause names them.
        claimed_kinds: the kinds of requests, by full name, whose promises are in `claimed`.
    """
    refusal = f"cannot delete NetworkPool {quote_value(old.metadata.name)}:"
    opening = f"{refusal} IPAllocation"
    namespace = quote_value(old.metadata.namespace)
    causes, holder_uids = [], set()
    for allocation in sorted(view.of_pool, key=lambda allocation: allocation.metadata.name):
        if _blocks_deletion(allocation):
            holder_uids.add(allocation.metadata.uid)
            phase = allocation.status.phase or "(none)"
            phase += "" if phase == ALLOCATED else ", yet holds a range"
            message = f"{opening} {quote_value(allocation.metadata.name)} in namespace {namespace}"
            causes.append(build_forbidden_cause((), f"{message} is still in phase {phase}"))
    for promise in settle_pool_journal(old, view).promises:
        if promise.uid not in holder_uids and promise.kind not in claimed_kinds:
            holder = f"{get_shown_kind(promise)} {quote_value(promise.key.name)}"
            message = f"{refusal} {holder} in namespace {namespace}"
            promised = promise.ranges[0].range.start_text
            causes.append(build_forbidden_cause((), f"{message} was promised {promised}"))
    for holding in claimed:
        if holding.foreign:
            continue  # another platform allocated it by itself, and keeps it without the pool
        message = f"{refusal} {holding.holder} holds {holding.range.start_text}"
        causes.append(build_forbidden_cause((), f"{message}. Delete the claim first"))
    causes = limit_causes(
        causes, (), single="allocation holds addresses", several="allocations hold addresses"
    )
    if not unknown:
        return Verdict.from_causes(causes)
    if not causes:
        message = (
            "it is unknown what these objects hold of it, and the pool may stay until they are"
            f" repaired or deleted: {unknown}"
        )
        return Verdict.from_causes(warnings=[message])
    message = f"it is unknown what these objects hold of it: {unknown}"
    return Verdict.from_causes([*causes, build_forbidden_cause((), message)])


def _blocks_deletion(allocation: IPAllocation) -> bool:
    """Return whether an allocation prevents the deletion of its pool.

    1. An allocation in phase Allocated does.
    2. An allocation in phase Released that is being deleted does not: its range is about to be
       free.
    3. An allocation in any other phase does if it holds a range. A person may have written the
       phase, which frees nothing, so the pool's finalizer would wait for ever.
    """
    phase = allocation.status.phase
    is_leaving = phase == RELEASED and allocation.metadata.is_terminating
    if phase == ALLOCATED:
        return True
    return not is_leaving and bool(statusranges.list_held_ranges(allocation))


def _warn_about_start_and_end(pool: NetworkPool) -> Iterator[str]:
    """Yield a warning if a pool has start or end: deprecated, and ignored beside ranges."""
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


def _list_overlap_warnings(
    pool: NetworkPool, geometry: Sequence[Layout], spaces: SpaceIndex
) -> Iterator[str]:
    """Yield a warning for each block of a pool that shares addresses with other pools.

    Sharing is not refused: it is right for separate sites and behind NAT, and else a mistake.
    """
    for (block_path, _), layout in zip(poolspecs.list_blocks(pool.spec), geometry, strict=True):
        sentence = spaces.find_sharing(make_layout_offers(pool, [layout])).sentence
        if sentence:
            yield f"{format_path((*block_path, 'cidr'))}: {sentence}"


def _review_shrunk_cidrs(new: NetworkPool, old: NetworkPool) -> Iterator[Cause]:
    """Yield a cause for each block whose new CIDR does not contain its old CIDR."""
    old_blocks = dict(poolspecs.list_blocks(old.spec))
    for block_path, block in poolspecs.list_blocks(new.spec):
        if block_path in old_blocks:
            cidr_path = (*block_path, "cidr")
            yield from _review_shrunk_cidr(cidr_path, block.cidr, old_blocks[block_path].cidr)


def _review_shrunk_cidr(cidr_path: Path, new: str, old: str) -> Iterator[Cause]:
    """Yield a cause if a new CIDR does not contain the old CIDR of its block."""
    try:
        new_cidr, old_cidr = AddressRange.parse_cidr(new), AddressRange.parse_cidr(old)
    except InvalidCIDR:
        # An invalid new CIDR has a cause already. Nothing was handed out of an invalid old CIDR.
        return
    if not new_cidr.contains(old_cidr):
        message = (
            f"new CIDR {quote_value(new)} does not contain the previous CIDR"
            f" {quote_value(old)}; shrinking a pool may orphan existing allocations"
        )
        yield build_invalid_cause(cidr_path, message)


def _parse_layouts(pool: NetworkPool | None, max_addresses: int) -> tuple[Layout, ...] | None:
    """Return the layouts of a pool; None if there is no readable pool or its spec is invalid.

    Callers take None for a pool that may have handed out any address.
    """
    try:
        return None if pool is None else poolgeometry.parse_layouts(pool.spec, max_addresses)
    except InvalidPool:
        return None


def _list_lost_spans(before: Iterable[Layout], after: Iterable[Layout]) -> Iterator[Span]:
    """Yield the address spans that layouts could hand out `before`, but not `after`."""
    after_by_family = {layout.family: layout for layout in after}
    for layout in before:
        remaining = after_by_family.get(layout.family)
        remaining_blocks = remaining.blocks if remaining is not None else ()
        yield from subtract_spans(_list_spans(layout.blocks), _list_spans(remaining_blocks))


def _list_spans(blocks: Iterable[AddressRange]) -> list[Span]:
    """Return first and last address of each block, as the allocator's arithmetic takes them."""
    return [(block.first, block.last) for block in blocks]


def _list_holders(
    old: NetworkPool | None, view: AllocationsView, claimed_kinds: Container[str] = ()
) -> Iterator[HeldRange]:
    """Yield each held or promised range of a pool with its holder, in the order of holders.

    If the stored pool cannot be read, its promises are not known, and left out. Nobody makes new
    promises in such a pool. An older promise may be written after the edit; then the condition
    OutOfRange reports its range.

    Args:
        claimed_kinds: the kinds of requests whose promises the caller adds itself.
    """
    holdings = {
        HeldRange(_name_allocation(allocation.metadata.name), held_range)
        for allocation in view.of_pool
        for held_range in statusranges.list_held_ranges(allocation)
    }
    for promise in settle_pool_journal(old, view).promises if old is not None else ():
        if promise.kind in claimed_kinds:
            continue
        holder = f"{get_shown_kind(promise)} {quote_value(promise.key.name)}"
        holdings |= {HeldRange(holder, promised.range) for promised in promise.ranges}
    yield from sorted(
        holdings, key=lambda holding: (holding.holder, holding.range.first, holding.range.last)
    )


def _name_allocation(name: str) -> str:
    """Return an IPAllocation as messages name it."""
    return f"IPAllocation {quote_value(name)}"


@dataclass(frozen=True, slots=True)
class _LostAddress:
    """An address that an object holds, and that the edited spec no longer hands out.

    Args:
        path: the field of the new spec that leaves the address out.
        holder: kind and name of the object that holds the address.
        address: the first such address of the holder.
        reserved: the reservation that covers the address; None if it is outside the ranges.
    """

    path: Path
    holder: str
    address: str
    reserved: Reservation | None = None

    def build_cause(self) -> Cause:
        """Return the cause to refuse the edit."""
        if self.reserved is not None:
            reserved = quote_value(self.reserved.label)
            if self.reserved.field == (poolgeometry.EXCLUDE_EDGES,):
                # The label of an edge is its address; the note says which edge it is.
                reserved = f"{self.reserved.note} {reserved}"
            message = f"cannot reserve {reserved}: {self.holder} has address {self.address} in it"
        else:
            message = (
                f"cannot narrow tenant allocation ranges: {self.holder} has address"
                f" {self.address} outside the proposed ranges"
            )
        return build_forbidden_cause(
            self.path, f"{message}. Migrate or delete affected allocations first"
        )

    def describe_warning(self) -> str:
        """Return the warning about the edit, for a holder that does not depend on the pool."""
        where = "outside the proposed ranges"
        if self.reserved is not None:
            where = f"in {self.reserved.label}"
        return (
            f"{format_path(self.path)}: {self.holder} has address {self.address} {where}; it"
            " keeps it, and the pool no longer counts it as in use"
        )


def _list_lost_addresses(
    new: NetworkPool, old: NetworkPool | None, holders: Iterable[HeldRange], max_addresses: int
) -> Iterator[_LostAddress]:
    """Yield the held addresses that the edit takes out of the pool.

    Each held range yields up to two: its first address outside the new ranges, and its first
    address in a reservation.

    Addresses that the old spec did not cover either are not yielded: an earlier edit, without
    webhooks, may have left an allocation outside the pool, and the pool can still be edited.

    Args:
        old: the stored pool; None if it cannot be read, so that it may have covered any address.
        holders: ranges that are held or promised, with their holders.
    """
    old_layouts = _parse_layouts(old, max_addresses)
    new_layouts = poolgeometry.parse_layouts(new.spec, max_addresses)
    block_paths = [block_path for block_path, _ in poolspecs.list_blocks(new.spec)]
    for holding in holders:
        covered = (
            [holding.range]
            if old_layouts is None
            else _list_covered_parts(old_layouts, holding.range)
        )
        if not covered:
            continue  # the old spec did not hand out the range either
        match = _find_layout(new_layouts, holding.range)
        if match is None:  # the pool loses the family of the range
            yield _build_outside_finding(
                new, SECONDARY, holder=holding.holder, address=holding.range.start_text
            )
            continue
        layout, span = match
        covered_spans = [span] if old_layouts is None else _list_spans(covered)
        lost = list(subtract_spans(covered_spans, _list_spans(layout.blocks)))
        # An address in none of the new ranges is outside; another lost address is reserved.
        outside = list(subtract_spans(lost, _list_spans(layout.ranges)))
        block_path = block_paths[new_layouts.index(layout)]
        if outside:
            first = format_address(outside[0][0], layout.family)
            yield _build_outside_finding(new, block_path, holder=holding.holder, address=first)
        reserved = list(subtract_spans(lost, outside))
        if reserved:
            yield _build_reserved_finding(
                new, block_path, after=layout, holder=holding.holder, address=reserved[0][0]
            )


def _find_layout(
    layouts: Iterable[Layout], held_range: AddressRange
) -> tuple[Layout, Span] | None:
    """Return the layout of a range's family, and the range as a span of it.

    None if no layout has that family.
    """
    spans = ((layout, layout.get_span(held_range)) for layout in layouts)
    return next(((layout, span) for layout, span in spans if span is not None), None)


def _list_covered_parts(before: Iterable[Layout], held_range: AddressRange) -> list[AddressRange]:
    """Return the parts of a range that the old layouts could hand out."""
    match = _find_layout(before, held_range)
    if match is None:
        return []  # the old spec had no block of that family
    layout, span = match
    return [AddressRange(*part, layout.family) for part in layout.clip(span)]


def _locate_ranges(block_path: Path, block: NetworkPoolSpec) -> Path:
    """Return the field that says which addresses a block hands out: its ranges, else its CIDR."""
    return (
        (*block_path, "tenantAllocation") if block.list_declared_spans() else (*block_path, "cidr")
    )


def _build_outside_finding(
    new: NetworkPool, block_path: Path, holder: str, address: str
) -> _LostAddress:
    """Return the finding about a held address that is outside the ranges of the new spec.

    The finding names the field with the ranges of a block. If the new spec does not have the
    block, the finding names the block itself.

    Args:
        block_path: the block for the family of the address.
        holder: kind and name of the object that holds the address.
    """
    block = dict(poolspecs.list_blocks(new.spec)).get(block_path)
    path = block_path if block is None else _locate_ranges(block_path, block)
    return _LostAddress(path, holder, address)


def _build_reserved_finding(
    new: NetworkPool, block_path: Path, after: Layout, holder: str, address: int
) -> _LostAddress:
    """Return the finding about a held address that a reservation of the new spec covers.

    Args:
        after: the parsed block at `block_path`.
    """
    block = dict(poolspecs.list_blocks(new.spec))[block_path]
    pairs = zip(poolgeometry.list_reservations(block), after.reserved, strict=True)
    reservation = next(reservation for reservation, parsed in pairs if parsed.contains(address))
    # Gateway and edges are reserved by fields that stand in `spec`, for all its blocks.
    owner_path = block_path if reservation.field[0] == "reserved" else SPEC
    return _LostAddress(
        (*owner_path, *reservation.field),
        holder,
        address=format_address(address, after.family),
        reserved=reservation,
    )
