"""What must never be, found in the records: each finding is proven, whatever was late.

A finding needs a time at which something was so without doubt (`certain`), and at which what would
excuse it cannot have been (outside of `possible`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from allocator import AddressRange
from controller.meta import Key
from tests.audit.history import History, Interval
from tests.audit.records import Addresses, Records


class Finding(NamedTuple):
    """Something that must not be.

    Args:
        during: when it was so without doubt, by the recorder's clock.
        kind: a sentence.
    """

    during: Interval
    kind: str

    @property
    def text(self) -> str:
        """Return it with how long it was so at least."""
        milliseconds = 1000 * (self.during.end - self.during.begin)
        return f"for at least {milliseconds:.0f} ms: {self.kind}"


class _Taken(NamedTuple):
    """A range that was certainly held, promised or shown for a time."""

    owner: str
    holder: str
    span: AddressRange
    during: Interval


def findings(records: Records) -> list[str]:
    """Return everything that must not be, in the order of time; empty if all was well."""
    findings = [*shown_but_free(records), *assignable_but_free(records)]
    findings += [*held_twice(records), *shown_twice(records)]
    return [finding.text for finding in sorted(findings)]


def shown_but_free(records: Records) -> Iterator[Finding]:
    """Find each address that a Service showed when no allocation of its tenant held it.

    Then it was free in the management cluster, or another's.
    """
    for tenant, kept in records.tenants.items():
        yield from _unheld(records, tenant, history=kept.services, verb="is shown by Service")


def assignable_but_free(records: Records) -> Iterator[Finding]:
    """Find each address in a tenant's pool when no allocation of the tenant held it."""
    for tenant, kept in records.tenants.items():
        yield from _unheld(records, tenant, history=kept.pools, verb="is in pool")


def _unheld(
    records: Records, tenant: Key, history: History[Addresses], verb: str
) -> Iterator[Finding]:
    blocks = _blocks(records)
    excuses = [
        (stay.value.span, stay.possible)
        for stay in records.allocations.stays()
        if stay.value.tenant == tenant and stay.value.for_services and stay.value.span
    ]
    for stay in history.stays():
        if stay.certain is None:
            continue
        for span in stay.value:
            if not any(block.overlaps(span) for block in blocks):
                continue  # no pool of ours has this address
            excused_periods = [during for excuse, during in excuses if excuse.contains(span)]
            for remaining in _without(stay.certain, excused_periods):
                owners = ", ".join(sorted(_others(records, span, remaining))) or "no allocation"
                case = f"{span.text} {verb} {stay.key} of {tenant} while held by {owners}"
                yield Finding(remaining, case)


def _blocks(records: Records) -> set[AddressRange]:
    return {stay.value.block for stay in records.pools.stays()}


def _others(records: Records, span: AddressRange, during: Interval) -> Iterator[str]:
    """Yield the holders that certainly had a part of a range at a time."""
    for holder in _holders(records):
        if holder.span.overlaps(span) and holder.during.overlap(during):
            yield holder.holder


def held_twice(records: Records) -> Iterator[Finding]:
    """Find each address that two allocations held, or were promised, at one time."""
    yield from _clashes(list(_holders(records)), "is held by")


def shown_twice(records: Records) -> Iterator[Finding]:
    """Find each address that Services of two tenants showed at one time."""
    uses = [
        _Taken(str(tenant), f"Service {stay.key} of {tenant}", span=span, during=stay.certain)
        for tenant, kept in records.tenants.items()
        for stay in kept.services.stays()
        for span in stay.value
        if stay.certain is not None
    ]
    yield from _clashes(uses, "is shown by")


def _holders(records: Records) -> Iterator[_Taken]:
    """Yield the ranges that allocations held and were promised, for as long as that is certain."""
    for stay in records.allocations.stays():
        if stay.certain is not None and stay.value.span is not None:
            holder = f"{stay.key.name} of {stay.value.tenant}"
            yield _Taken(stay.uid, holder, span=stay.value.span, during=stay.certain)
    for pool in records.pools.stays():
        if pool.certain is not None:
            for promise in pool.value.open:
                holder = f"a promise of {pool.key.name} to {promise.uid}"
                yield _Taken(promise.uid, holder, span=promise.span, during=pool.certain)


def _clashes(uses: Sequence[_Taken], verb: str) -> Iterator[Finding]:
    for first, other in combinations(uses, 2):
        if first.owner == other.owner or not first.span.overlaps(other.span):
            continue
        during = first.during.overlap(other.during)
        if during is not None:
            both = f"{first.span.text} {verb} {first.holder}, {other.span.text} by {other.holder}"
            yield Finding(during, both)


def _without(whole: Interval, covers: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the parts of an interval that none of `covers` reaches."""
    begin = whole.begin
    for cover in sorted(covers):
        if cover.end <= begin:
            continue
        if cover.begin >= whole.end:
            break
        if cover.begin > begin:
            yield Interval(begin, cover.begin)
        begin = cover.end
    if begin < whole.end:
        yield Interval(begin, whole.end)
