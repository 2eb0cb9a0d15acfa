"""What is refused of NetworkPools.

    created   a spec that contradicts itself
    updated   that; a CIDR without all of the old one; ranges that leave out, or reservations that
              take, addresses that allocations hold or were promised
    deleted   a pool of which allocations hold addresses

An allocation that names the pool in spec.poolRef counts, labelled or not. Promises count because
their ranges are written to the allocations soon after: judging by allocations alone would allow an
edit in between. They are those of the object that the write replaces. The API
server judges again if that changes before the write is stored, so no promise is made unseen.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from allocator import AddressRange, InvalidCIDR, InvalidPool, Layout
from allocator.addresses import Span, address_text, minus, quoted
from controller.errors import Cause
from reconcilers import poolspec, ranges
from reconcilers.api.ipallocation import ALLOCATED, RELEASED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.protocol import settle
from reconcilers.networkpool.view import View
from reconcilers.poolspec import CIDR, TENANT, Path
from reconcilers.webhooks.verdict import Verdict, about, bounded, forbidden, invalid

MOST_NAMED = 5
"""So many pools that share addresses with one are named."""


def created(new: NetworkPool, others: Iterable[NetworkPool], max_addresses: int) -> Verdict:
    """Validate a new pool.

    Args:
        new: the pool.
        others: all pools there are.
        max_addresses: the largest pool, in addresses.
    """
    faults = poolspec.faults(new.spec, max_addresses)
    causes = [invalid(fault.path, fault.message) for fault in faults]
    warnings = [*_deprecated(new)]
    if not faults:
        geometry = ranges.layout(new.spec, max_addresses)
        warnings += [about(one) for one in poolspec.spec_warnings(new.spec, geometry)]
        warnings += _overlap_warnings(new, geometry, others)
    return Verdict.from_causes(causes, warnings)


def updated(
    new: NetworkPool,
    old: NetworkPool | None,
    view: View | None,
    others: Iterable[NetworkPool],
    max_addresses: int,
) -> Verdict:
    """Validate an edit of a pool's spec.

    Args:
        new: the pool as it would be.
        old: the pool as it is; None if it cannot be read.
        view: its allocations; None only if no address is given up (`gives_up_addresses`).
        others: all pools there are.
        max_addresses: the largest pool, in addresses.
    """
    moved = old is None or new.spec.cidr != old.spec.cidr
    verdict = created(new, others if moved else (), max_addresses)
    causes = list(verdict.causes)
    if old is not None:
        causes += _shrunk(new, old)
    if verdict.allowed and view is not None:
        named = _left_out(new, old, view, max_addresses)
        causes += bounded(named, _field_of_ranges(new), "allocations would be left out")
    return Verdict.from_causes(causes, verdict.warnings)


def gives_up_addresses(new: NetworkPool, old: NetworkPool | None, max_addresses: int) -> bool:
    """Return whether the new spec lacks an address that the old one could hand out."""
    try:
        after = ranges.layout(new.spec, max_addresses)
    except InvalidPool:
        return False  # refused for that reason alone
    before = _geometry(old, max_addresses)
    return before is None or next(_lost(before, after), None) is not None


def deleted(old: NetworkPool, view: View) -> Verdict:
    """Validate the deletion of a pool.

    Pending and Failed requests hold nothing, and Released ranges are about to be free: the pool's
    finalizer waits for those.

    Args:
        old: the pool.
        view: its allocations.
    """
    opening = f"cannot delete NetworkPool {quoted(old.metadata.name)}: IPAllocation"
    namespace = quoted(old.metadata.namespace)
    causes, named = [], set()
    for one in sorted(view.of_pool, key=lambda one: one.metadata.name):
        if _keeps(one):
            named.add(one.metadata.uid)
            phase = one.status.phase or "(none), yet holds a range"
            what = f"{opening} {quoted(one.metadata.name)} in namespace {namespace}"
            causes.append(forbidden((), f"{what} is still in phase {phase}"))
    for promise in settle(old, view).open:
        if promise.uid not in named:
            what = f"{opening} {quoted(promise.name)} in namespace {namespace}"
            causes.append(forbidden((), f"{what} was promised {promise.startAddress}"))
    return Verdict.from_causes(bounded(causes, (), "allocations hold addresses"))


def _keeps(allocation: IPAllocation) -> bool:
    phase = allocation.status.phase
    return phase == ALLOCATED or (phase != RELEASED and ranges.held(allocation) is not None)


def _deprecated(pool: NetworkPool) -> Iterator[str]:
    """Warn of start and end, the older way to give one range."""
    tenant = pool.spec.tenantAllocation
    if tenant is None or not (tenant.start or tenant.end):
        return
    if tenant.ranges:
        yield ("spec.tenantAllocation: Start/End are ignored when Ranges is present; remove them")
    else:
        yield (
            "spec.tenantAllocation: start and end are deprecated; write"
            f" ranges: [{{start: {quoted(tenant.start or '')}, end: {quoted(tenant.end or '')}}}]"
        )


def _overlap_warnings(
    pool: NetworkPool, geometry: Layout, others: Iterable[NetworkPool]
) -> Iterator[str]:
    """Warn of pools that share addresses: allowed for separate sites and NAT, else a mistake."""
    sharing = sorted(_sharing(pool, geometry.cidr, others))
    yield from islice(sharing, MOST_NAMED)
    if len(sharing) > MOST_NAMED:
        yield f"spec.cidr: shares addresses with {len(sharing) - MOST_NAMED} more NetworkPools"


def _sharing(
    pool: NetworkPool, cidr: AddressRange, others: Iterable[NetworkPool]
) -> Iterator[str]:
    """Yield a warning for each other pool whose CIDR overlaps `cidr`."""
    for other in others:
        if other.metadata.key == pool.metadata.key:
            continue
        theirs = ranges.parsed_entry(other.spec.cidr)
        if theirs is not None and theirs.overlaps(cidr):
            key = other.metadata.key
            yield f"spec.cidr: shares addresses with NetworkPool {key} ({theirs.text})"


def _shrunk(new: NetworkPool, old: NetworkPool) -> Iterator[Cause]:
    """Yield a cause if the new CIDR does not contain the old one."""
    try:
        after = AddressRange.parse_cidr(new.spec.cidr)
        before = AddressRange.parse_cidr(old.spec.cidr)
    except InvalidCIDR:
        return  # the new one is refused for that; an old one that was none holds nothing
    if not after.contains(before):
        what = (
            f"new CIDR {quoted(new.spec.cidr)} does not contain the previous CIDR"
            f" {quoted(old.spec.cidr)}; shrinking a pool may orphan existing allocations"
        )
        yield invalid(CIDR, what)


def _geometry(pool: NetworkPool | None, max_addresses: int) -> Layout | None:
    """Return the layout of a pool; None if it is unknown, and so may hand out any address."""
    try:
        return None if pool is None else ranges.layout(pool.spec, max_addresses)
    except InvalidPool:
        return None


def _lost(before: Layout, after: Layout) -> Iterator[Span]:
    """Yield what `before` could hand out and `after` cannot."""
    if before.family != after.family:
        yield from _spans(before.blocks)
        return
    yield from minus(_spans(before.blocks), _spans(after.blocks))


def _spans(blocks: Iterable[AddressRange]) -> list[Span]:
    return [(block.first, block.last) for block in blocks]


@dataclass(frozen=True, slots=True)
class _Holder:
    """An allocation that holds a range of the pool, or was promised one."""

    name: str
    range: AddressRange


def _holders(old: NetworkPool | None, view: View) -> Iterator[_Holder]:
    """Yield the allocations that hold or were promised a range, by name.

    The promises of a pool that cannot be read are unknown: no new ones can be made either, and the
    OutOfRange condition reports one that was kept after the edit.
    """
    found = {
        _Holder(one.metadata.name, held)
        for one in view.of_pool
        if (held := ranges.held(one)) is not None
    }
    for promise in settle(old, view).open if old is not None else ():
        promised = ranges.promised(promise)
        if promised is not None:
            found.add(_Holder(promise.name, promised))
    yield from sorted(found, key=lambda one: (one.name, one.range.first, one.range.last))


def _left_out(
    new: NetworkPool, old: NetworkPool | None, view: View, max_addresses: int
) -> Iterator[Cause]:
    """Name every allocation that holds an address which the new spec lacks.

    Addresses that the old spec did not cover either are no fault of this edit: a pool with an
    allocation outside, as edits without webhooks leave behind, can still be edited.
    """
    before, after = _geometry(old, max_addresses), ranges.layout(new.spec, max_addresses)
    for holder in _holders(old, view):
        span = after.span_of(holder.range)
        if span is None:  # of the other family
            known = before.span_of(holder.range) if before is not None else None
            if before is None or (known is not None and before.clip(known)):
                yield _outside(new, holder.name, holder.range.start_text)
            continue
        covered = [span] if before is None else before.clip(span)
        lost = list(minus(covered, _spans(after.blocks)))
        outside = list(minus(lost, _spans(after.ranges)))
        if outside:
            yield _outside(new, holder.name, address_text(outside[0][0], after.family))
        for first, _ in islice(minus(lost, outside), 1):
            yield _reserved(new, after, holder.name, first)


def _field_of_ranges(pool: NetworkPool) -> Path:
    return TENANT if pool.spec.spans() else CIDR


def _outside(new: NetworkPool, name: str, address: str) -> Cause:
    what = (
        f"cannot narrow tenant allocation ranges: IPAllocation {quoted(name)} has address"
        f" {address} outside the proposed ranges. Migrate or delete affected allocations first"
    )
    return forbidden(_field_of_ranges(new), what)


def _reserved(new: NetworkPool, after: Layout, name: str, address: int) -> Cause:
    """Return the cause for a reserved CIDR that covers an allocation's address."""
    at = next(i for i, held in enumerate(after.reserved) if held.contains(address))
    what = (
        f"cannot reserve {quoted(new.spec.reserved[at].cidr)}: IPAllocation {quoted(name)} has"
        f" address {address_text(address, after.family)} in it. Migrate or delete affected"
        " allocations first"
    )
    return forbidden(("spec", "reserved", at), what)
