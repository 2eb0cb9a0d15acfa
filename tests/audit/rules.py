"""Finds violations in the records; each finding is proven, however late events came.

A violation is found if the violating version certainly existed (`certain`) at a time at which no
version that would justify it can have existed (outside of `possible`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from allocator import AddressRange
from controller.meta import Key
from tests.audit.history import History, Interval
from tests.audit.records import Addresses, Records


class Finding(NamedTuple):
    """A violation.

    Args:
        during: the interval for which it is proven, by the recorder's clock.
        kind: a sentence.
    """

    during: Interval
    kind: str

    @property
    def text(self) -> str:
        """Return the sentence, with the time for which the violation lasted at least."""
        milliseconds = 1000 * (self.during.end - self.during.begin)
        return f"for at least {milliseconds:.0f} ms: {self.kind}"


class _Use(NamedTuple):
    """A range that was certainly held, promised or shown during an interval.

    `owner` is compared, and `holder` is for messages.
    """

    owner: str
    holder: str
    span: AddressRange
    during: Interval


def list_findings(records: Records) -> list[str]:
    """Return all violations as sentences, in the order of time."""
    findings = [*find_shown_but_free(records), *find_assignable_but_free(records)]
    findings += [*find_held_twice(records), *find_shown_twice(records)]
    return [finding.text for finding in sorted(findings)]


def find_shown_but_free(records: Records) -> Iterator[Finding]:
    """Find each address that a Service showed while no allocation of its tenant held it.

    The address was free in the management cluster, or held by another tenant.
    """
    for tenant, kept in records.tenants.items():
        yield from _find_unheld(records, tenant, history=kept.services, verb="is shown by Service")


def find_assignable_but_free(records: Records) -> Iterator[Finding]:
    """Find each address in a pool of a tenant's load balancer that no allocation of it held."""
    for tenant, kept in records.tenants.items():
        yield from _find_unheld(records, tenant, history=kept.pools, verb="is in pool")


def _find_unheld(
    records: Records, tenant: Key, history: History[Addresses], verb: str
) -> Iterator[Finding]:
    """Find addresses in a history of a tenant while no allocation of the tenant held them."""
    blocks = _list_blocks(records)
    justified = [
        (version.value.span, version.possible)
        for version in records.allocations.list_versions()
        if version.value.tenant == tenant and version.value.for_services and version.value.span
    ]
    for version in history.list_versions():
        if version.certain is None:
            continue
        for span in version.value:
            if not any(block.overlaps(span) for block in blocks):
                continue  # no pool of ours has this address
            held_intervals = [
                during for held_range, during in justified if held_range.contains(span)
            ]
            for remaining in _subtract(version.certain, held_intervals):
                owners = (
                    ", ".join(sorted(_list_holders_of(records, span, remaining)))
                    or "no allocation"
                )
                case = f"{span.text} {verb} {version.key} of {tenant} while held by {owners}"
                yield Finding(remaining, case)


def _list_blocks(records: Records) -> set[AddressRange]:
    """Return the CIDRs of all NetworkPools."""
    return {version.value.block for version in records.pools.list_versions()}


def _list_holders_of(records: Records, span: AddressRange, during: Interval) -> Iterator[str]:
    """Yield the holders that certainly held a part of a range during an interval."""
    for holder in _list_certain_holders(records):
        if holder.span.overlaps(span) and holder.during.overlap(during):
            yield holder.holder


def find_held_twice(records: Records) -> Iterator[Finding]:
    """Find each address that two allocations held, or were promised, at the same time."""
    yield from _find_shared(list(_list_certain_holders(records)), "is held by")


def find_shown_twice(records: Records) -> Iterator[Finding]:
    """Find each address that Services of two tenants showed at the same time."""
    uses = [
        _Use(str(tenant), f"Service {version.key} of {tenant}", span=span, during=version.certain)
        for tenant, kept in records.tenants.items()
        for version in kept.services.list_versions()
        for span in version.value
        if version.certain is not None
    ]
    yield from _find_shared(uses, "is shown by")


def _list_certain_holders(records: Records) -> Iterator[_Use]:
    """Yield the ranges that allocations certainly held or were promised, and when."""
    for version in records.allocations.list_versions():
        if version.certain is not None and version.value.span is not None:
            holder = f"{version.key.name} of {version.value.tenant}"
            yield _Use(version.uid, holder, span=version.value.span, during=version.certain)
    for pool in records.pools.list_versions():
        if pool.certain is not None:
            for promise in pool.value.open:
                holder = f"a promise of {pool.key.name} to {promise.uid}"
                yield _Use(promise.uid, holder, span=promise.span, during=pool.certain)


def _find_shared(uses: Sequence[_Use], verb: str) -> Iterator[Finding]:
    """Find ranges of two owners that overlap at the same time."""
    for first, other in combinations(uses, 2):
        if first.owner == other.owner or not first.span.overlaps(other.span):
            continue
        during = first.during.overlap(other.during)
        if during is not None:
            both = f"{first.span.text} {verb} {first.holder}, {other.span.text} by {other.holder}"
            yield Finding(during, both)


def _subtract(interval: Interval, others: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the parts of an interval that lie in none of the other intervals."""
    begin = interval.begin
    for other in sorted(others):
        if other.end <= begin:
            continue
        if other.begin >= interval.end:
            break
        if other.begin > begin:
            yield Interval(begin, other.begin)
        begin = other.end
    if begin < interval.end:
        yield Interval(begin, interval.end)
