"""The rules for metal3's objects, with the messages of metal3's webhooks. Pure functions.

A *fault* is a reason to reject a write. An address in use that lay outside of the entries before
an edit is no fault of the edit. The caller reads the addresses in use from the API server, because
`status.indexes` may be stale.
"""

from collections.abc import Iterable, Iterator

from allocator import AddressRange, Family
from allocator.addresses import BITS, Span, subtract_spans, union
from controller.errors import Cause
from reconcilers.integrations.metal3.api import (
    RANDOM,
    REQUESTED_ADDRESS,
    Metal3Address,
    Metal3Claim,
    Metal3PoolSpec,
    PoolEntry,
)
from reconcilers.integrations.metal3.entries import parse_single, parse_space, parse_span
from reconcilers.specrules.verdict import build_value_cause

MOST_RANDOM = 2**63
"""An entry of a pool with random addresses must have fewer addresses than this."""
EMPTY = "cannot be empty"
NO_ADDRESS = "is not a valid IP address"
UNCHANGEABLE = "cannot be modified"


def find_pool_faults(spec: Metal3PoolSpec, *, is_new: bool) -> Iterator[Cause]:
    """Yield the faults of a pool's spec.

    Args:
        is_new: whether the pool is created; metal3's webhook misspells one message then.
    """
    for index, entry in enumerate(spec.pools):
        field = f"spec.pools[{index}]"
        yield from _find_entry_faults(field, entry, is_random=spec.allocationStrategy == RANDOM)
    yield from _find_preallocation_faults(spec, is_new=is_new)


def find_pool_changes(new: Metal3PoolSpec, old: Metal3PoolSpec) -> Iterator[Cause]:
    """Yield a fault for each immutable field that an edit of a pool changes."""
    if new.namePrefix != old.namePrefix:
        yield build_value_cause("spec.namePrefix", new.namePrefix, UNCHANGEABLE)
    if (new.allocationStrategy == RANDOM) != (old.allocationStrategy == RANDOM):
        message = "cannot be modified after creation"
        yield build_value_cause("spec.allocationStrategy", new.allocationStrategy, message)


def find_pool_warnings(spec: Metal3PoolSpec) -> Iterator[str]:
    """Yield a warning for each entry of a pool that is allowed and hands out nothing."""
    for index, entry in enumerate(spec.pools):
        has_fault = any(_find_entry_faults("", entry, is_random=False))
        if not has_fault and parse_span(entry) is None:
            yield f"spec.pools[{index}]: the entry has no address, so it hands out nothing"


def can_lose_addresses(new: Metal3PoolSpec, old: Metal3PoolSpec | None) -> bool:
    """Return whether a new spec lacks an address that an entry of the old one had.

    Args:
        old: the spec before; None if it cannot be decoded, so that any address may be lost.
    """
    if old is None:
        return True
    return any(
        any(subtract_spans(_list_spans(old, family), _list_spans(new, family))) for family in BITS
    )


def _list_spans(spec: Metal3PoolSpec, family: Family) -> list[Span]:
    """Return the addresses of one family in the entries of a spec, ascending."""
    ranges = filter(None, map(parse_span, spec.pools))
    return union(sorted((part.first, part.last) for part in ranges if part.family == family))


def find_lost_addresses(
    new: Metal3PoolSpec, old: Metal3PoolSpec | None, in_use: Iterable[str]
) -> Iterator[Cause]:
    """Yield a fault for each address in use that an edit of a pool leaves out.

    Args:
        old: the spec before; None if it cannot be decoded.
        in_use: the addresses of all IPAddresses that name the pool.
    """
    after, before = parse_space(new), None if old is None else parse_space(old)
    for used in sorted(set(in_use)):
        address = parse_single(used)
        if address is None or after.find_entry(address) is not None:
            continue  # no address, or one that the new spec has
        if before is None or before.find_entry(address) is not None:
            yield build_value_cause(
                "spec.pools", used, "is in use but out of bounds of the pools given"
            )


def find_claim_faults(claim: Metal3Claim) -> Iterator[Cause]:
    """Yield the faults of an IPClaim."""
    if not claim.spec.pool.name:
        yield build_value_cause("spec.pool.name", "", EMPTY)
    requested = str(claim.metadata.annotations.get(REQUESTED_ADDRESS, "")).strip()
    if requested and parse_single(requested) is None:
        field = f"metadata.annotations[{REQUESTED_ADDRESS}]"
        yield build_value_cause(field, requested, NO_ADDRESS)


def find_claim_changes(new: Metal3Claim, old: Metal3Claim) -> Iterator[Cause]:
    """Yield a fault for each immutable field that an edit of an IPClaim changes."""
    after, before = new.spec.pool, old.spec.pool
    if (after.name, after.namespace, after.kind) != (before.name, before.namespace, before.kind):
        yield build_value_cause("spec.pool", after.name, UNCHANGEABLE)


def find_address_faults(address: Metal3Address) -> Iterator[Cause]:
    """Yield the faults of an IPAddress."""
    spec = address.spec
    if not spec.address:
        yield build_value_cause("spec.address", "", EMPTY)
    elif parse_single(spec.address) is None:
        yield build_value_cause("spec.address", spec.address, NO_ADDRESS)
    if not spec.pool.name:
        yield build_value_cause("spec.pool.name", "", EMPTY)
    if not spec.claim.name:
        yield build_value_cause("spec.claim.name", "", EMPTY)


def find_address_changes(new: Metal3Address, old: Metal3Address) -> Iterator[Cause]:
    """Yield a fault for each immutable field that an edit of an IPAddress changes."""
    after, before = new.spec, old.spec
    if after.address != before.address:
        yield build_value_cause("spec.address", after.address, UNCHANGEABLE)
    if after.pool != before.pool:
        yield build_value_cause("spec.pool", after.pool.name, UNCHANGEABLE)
    if after.claim != before.claim:
        yield build_value_cause("spec.claim", after.claim.name, UNCHANGEABLE)


def _find_entry_faults(field: str, entry: PoolEntry, *, is_random: bool) -> Iterator[Cause]:
    """Yield the faults of an entry of a pool.

    Args:
        field: its path, for the messages.
        is_random: whether the pool hands out random addresses, so that an entry needs bounds.
    """
    if not (entry.start or entry.end or entry.subnet):
        message = "pool entry must specify at least one of start, end, or subnet"
        yield build_value_cause(field, "", message)
        return
    start, end = parse_single(entry.start), parse_single(entry.end)
    if start is not None and end is not None and _is_after(start, end):
        message = f"end IP {entry.end} is before start IP {entry.start}"
        yield build_value_cause(f"{field}.end", entry.end, message)
    if not is_random:
        return
    span = parse_span(entry)
    if not (entry.end or entry.subnet):
        yield _build_random_cause(
            f"{field}.start", entry.start, "an entry needs an end or a subnet"
        )
    elif span is not None and span.size >= MOST_RANDOM:
        yield _build_random_cause(field, entry.subnet, "an entry has too many addresses")


def _is_after(start: AddressRange, end: AddressRange) -> bool:
    """Return whether a start lies after an end; False if their families differ."""
    return start.family == end.family and start.first > end.first


def _find_preallocation_faults(spec: Metal3PoolSpec, *, is_new: bool) -> Iterator[Cause]:
    """Yield the pre-allocations outside of the entries, and those of one address to two claims."""
    space = parse_space(spec)
    claims = dict[AddressRange, str]()
    word = "bonds" if is_new else "bounds"  # metal3's webhook writes "bonds" for a new pool
    for claim, written in spec.preAllocations.items():
        field, address = f"spec.preAllocations[{claim}]", space.preallocations[claim]
        if address is None or space.find_entry(address) is None:
            yield build_value_cause(field, written, f"is out of {word} of the pools given")
            continue
        other = claims.setdefault(address, claim)  # the first claim with this address
        if other != claim:
            message = f'IP address is already pre-allocated to claim "{other}"'
            yield build_value_cause(field, written, message)


def _build_random_cause(field: str, value: str, why: str) -> Cause:
    """Return the fault of a field's value that a pool with random addresses cannot have."""
    message = f'cannot be used with allocationStrategy "random": {why}'
    return build_value_cause(field, value, message)
