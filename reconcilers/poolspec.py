"""What is wrong or doubtful in a pool's spec, each with the field it is about.

Used by the webhooks and the command line, before a pool is used.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from allocator import (
    AddressRange,
    AllocatorError,
    InvalidRequest,
    Layout,
    PoolTooLarge,
    pool_faults,
)
from reconcilers import ranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec

Path = tuple[str | int, ...]
"""Where something is in an object: `("spec", "reserved", 0, "cidr")`."""

CIDR: Path = ("spec", "cidr")
TENANT: Path = ("spec", "tenantAllocation")


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about a field."""

    path: Path
    message: str


def faults(spec: NetworkPoolSpec, max_addresses: int) -> list[Remark]:
    """Return every fault for which the pool's controller would refuse the spec.

    Args:
        spec: the spec.
        max_addresses: the largest pool, in addresses.
    """
    found = pool_faults(spec.cidr, [one.cidr for one in spec.reserved], spec.spans())
    if found:
        return [Remark(_in_spec(spec, fault.path), fault.message) for fault in found]
    try:
        ranges.layout(spec, max_addresses)
    except PoolTooLarge as large:
        return [Remark(CIDR, str(large))]
    return []


def _in_spec(spec: NetworkPoolSpec, path: Path) -> Path:
    """Return where in a pool's spec the allocator's path leads."""
    if path[0] != "ranges":
        return ("spec", *path)
    tenant = spec.tenantAllocation
    if tenant is not None and tenant.ranges:
        return (*TENANT, *path)
    return (*TENANT, *path[2:])  # the one range is start and end themselves


def spec_warnings(spec: NetworkPoolSpec, layout: Layout) -> Iterator[Remark]:
    """Yield what is allowed in a pool and yet likely to be a slip.

    Args:
        spec: the spec.
        layout: its geometry.
    """
    written: list[tuple[Path, str, AddressRange]] = [(CIDR, spec.cidr, layout.cidr)]
    for at, (one, parsed) in enumerate(zip(spec.reserved, layout.reserved, strict=True)):
        path = ("spec", "reserved", at)
        written.append(((*path, "cidr"), one.cidr, parsed))
        for earlier, other in enumerate(layout.reserved[:at]):
            if parsed.overlaps(other):
                what = f"{parsed.text} overlaps reserved[{earlier}] ({other.text})"
                yield Remark(path, what)
    for field, text, parsed in written:
        if not _begins(text.partition("/")[0], parsed):
            yield Remark(field, f"{text!r} has host bits set; it is taken for {parsed.text}")
    if layout.total == 0:
        what = "everything that tenants may draw from is reserved: nothing can be handed out"
        yield Remark(("spec",), what)


def _begins(address: str, found: AddressRange) -> bool:
    """Return whether a range begins at an address, however that is written."""
    written = ranges.parsed(address, address)
    same = written.in_family(found.family) if written is not None else None
    return same is not None and same.first == found.first


def never(
    allocation: IPAllocation, count: int, pool: NetworkPool, layout: Layout
) -> Remark | None:
    """Return why a pool could not serve a request even if it were empty; None if it could.

    Args:
        allocation: the request.
        count: how many addresses it asks for, where it pins none.
        pool: the pool.
        layout: its geometry.
    """
    try:
        wanted = ranges.pinned(allocation)
        if wanted is not None:
            layout.pinned_span(wanted)
    except AllocatorError as impossible:
        return Remark(("spec", "pinnedRange"), str(impossible))
    if wanted is not None and not layout.could_ever_pin(wanted):
        what = f"{wanted.text} holds reserved addresses of NetworkPool {pool.metadata.key}"
        return Remark(("spec", "pinnedRange"), what)
    return None if wanted is not None else _never_so_many(allocation, count, pool, layout)


def _never_so_many(
    allocation: IPAllocation, count: int, pool: NetworkPool, layout: Layout
) -> Remark | None:
    prefix, largest, what = allocation.spec.prefixLength, layout.longest, "addresses in a row"
    if prefix is not None:
        try:
            count = layout.block_size(prefix)
        except InvalidRequest as impossible:
            return Remark(("spec", "prefixLength"), str(impossible))
        largest, what = layout.largest_aligned, f"addresses as one CIDR, a /{prefix}"
    if count <= largest:
        return None
    return Remark(
        ("spec", "count" if prefix is None else "prefixLength"),
        f"asks for {count} {what}; NetworkPool {pool.metadata.key} has {largest} at most, even"
        " empty",
    )
