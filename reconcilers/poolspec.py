"""What is wrong or doubtful in a pool's spec, each with the field it is about.

Used by the webhooks and the command line, before a pool is used.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from allocator import (
    AddressRange,
    AllocatorError,
    InvalidPool,
    InvalidRequest,
    Layout,
    MalformedText,
    PoolTooLarge,
    RequestRefused,
    name_edge_addresses,
    pool_faults,
)
from reconcilers.addressing import addresstexts, familychoice, poolgeometry, requestedranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool, NetworkPoolSpec
from reconcilers.api.poolrules import GATEWAY_FAMILY

Path = tuple[str | int, ...]
"""Where something is in an object: `("spec", "reserved", 0, "cidr")`."""

SPEC: Path = ("spec",)
SECONDARY: Path = ("spec", "secondary")
CIDR: Path = ("spec", "cidr")
TENANT: Path = ("spec", "tenantAllocation")
PINNED: Path = ("spec", "pinnedRange")
PINNED_BOTH: Path = ("spec", "pinnedRanges")


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence about a field."""

    path: Path
    message: str


def blocks(spec: NetworkPoolSpec) -> list[tuple[Path, NetworkPoolSpec]]:
    """Return the blocks of a spec, one or one of each family, with where they are written."""
    return list(zip((SPEC, SECONDARY), spec.blocks, strict=False))


def faults(spec: NetworkPoolSpec, max_addresses: int) -> list[Remark]:
    """Return every fault for which the pool's controller would refuse the spec.

    Args:
        spec: the spec.
        max_addresses: the largest pool, in addresses.
    """
    found = [remark for at, block in blocks(spec) for remark in _faults(at, block, max_addresses)]
    if spec.gateway and (":" in spec.gateway) != (":" in spec.cidr):
        found.append(Remark((*SPEC, "gateway"), GATEWAY_FAMILY.message))
    if found:
        return found
    try:
        poolgeometry.parse_layouts(spec, max_addresses)
    except InvalidPool as same:
        return [Remark((*SECONDARY, "cidr"), str(same))]
    return []


def _faults(at: Path, block: NetworkPoolSpec, max_addresses: int) -> Iterator[Remark]:
    found = pool_faults(block.cidr, [one.cidr for one in block.reserved], block.spans())
    yield from (Remark(_in_spec(at, block, fault.path), fault.message) for fault in found)
    if found:
        return
    try:
        poolgeometry.parse_layout(block, max_addresses)
    except PoolTooLarge as large:
        yield Remark((*at, "cidr"), str(large))


def _in_spec(at: Path, block: NetworkPoolSpec, path: Path) -> Path:
    """Return where in a pool's spec the allocator's path leads."""
    if path[0] != "ranges":
        return (*at, *path)
    tenant = block.tenantAllocation
    if tenant is not None and tenant.ranges:
        return (*at, "tenantAllocation", *path)
    return (*at, "tenantAllocation", *path[2:])  # the one range is start and end themselves


def spec_warnings(spec: NetworkPoolSpec, layouts: Sequence[Layout]) -> Iterator[Remark]:
    """Yield what is allowed in a pool and yet likely to be a slip.

    Args:
        spec: the spec.
        layouts: its geometry.
    """
    for (at, block), layout in zip(blocks(spec), layouts, strict=True):
        yield from _block_warnings(at, block, layout)


def _block_warnings(at: Path, block: NetworkPoolSpec, layout: Layout) -> Iterator[Remark]:
    """Yield the warnings about one block: overlaps, host bits, none left, edges handed out."""
    written: list[tuple[Path, str, AddressRange]] = [((*at, "cidr"), block.cidr, layout.cidr)]
    listed = layout.reserved[: len(block.reserved)]
    for number, (reservation, parsed) in enumerate(zip(block.reserved, listed, strict=True)):
        path = (*at, "reserved", number)
        written.append(((*path, "cidr"), reservation.cidr, parsed))
        for earlier, other in enumerate(listed[:number]):
            if parsed.overlaps(other):
                sentence = f"{parsed.text} overlaps reserved[{earlier}] ({other.text})"
                yield Remark(path, sentence)
    for field, text, parsed in written:
        if warning := addresstexts.describe_host_bits(text, parsed):
            yield Remark(field, warning)
    if layout.total == 0:
        sentence = "everything that tenants may draw from is reserved: nothing can be handed out"
        yield Remark(at, sentence)
    offered = [
        f"{address.start_text} ({name})"
        for name, address in name_edge_addresses(layout.cidr).items()
        if any(part.contains(address) for part in layout.blocks)
    ]
    if offered and block.excludeNetworkAndBroadcast is None:
        sentence = (
            f"the pool hands out {' and '.join(offered)}; set spec.{poolgeometry.EXCLUDE_EDGES} to"
            " true to leave such addresses out, or to false to confirm them"
        )
        yield Remark((*at, "cidr"), sentence)


class _Pin(NamedTuple):
    """A range that is asked for, and where."""

    path: Path
    range: AddressRange


def pinned_path(allocation: IPAllocation, number: int | None = None) -> Path:
    """Return where a request pins its ranges.

    Args:
        allocation: the request.
        number: of a range in `requestedranges.parse_pins`; None for all.
    """
    if allocation.spec.pinnedRange is not None or not allocation.spec.pinnedRanges:
        return PINNED
    return PINNED_BOTH if number is None else (*PINNED_BOTH, number)


def never(
    allocation: IPAllocation, count: int, pool: NetworkPool, layouts: Sequence[Layout]
) -> Remark | None:
    """Return why a pool could not serve a request even if it were empty; None if it could.

    A family that the pool lacks is no such reason, as the pool may be given it.

    Args:
        allocation: the request.
        count: how many addresses it asks for, where it pins none.
        pool: the pool.
        layouts: its geometry.
    """
    by_family = {layout.family: layout for layout in layouts}
    try:
        pins = {
            one.family: _Pin(pinned_path(allocation, number), one)
            for number, one in enumerate(requestedranges.parse_pins(allocation))
        }
        if len(layouts) == 1 and not allocation.spec.names_families:
            pinned = next(iter(pins.values()), None)
            return _never_of(allocation, count, pool, layouts[0], pinned)
        asked = familychoice.choose_families(allocation, pool, tuple(by_family))
    except InvalidRequest as impossible:
        return Remark(SPEC, str(impossible))
    except MalformedText as impossible:
        return Remark(pinned_path(allocation), str(impossible))
    except RequestRefused:
        return None
    sure = asked.families if asked.second_required else asked.families[:1]
    found = (_never_of(allocation, count, pool, by_family[one], pins.get(one)) for one in sure)
    return next(filter(None, found), None)


def _never_of(
    allocation: IPAllocation,
    count: int,
    pool: NetworkPool,
    layout: Layout,
    wanted: _Pin | None,
) -> Remark | None:
    """Return why one family of a pool could not serve a request even if it were empty."""
    if wanted is None:
        return _never_so_many(allocation, count, pool, layout)
    try:
        layout.pinned_span(wanted.range)
    except AllocatorError as impossible:
        return Remark(wanted.path, str(impossible))
    if layout.could_ever_pin(wanted.range):
        return None
    what = f"{wanted.range.text} holds reserved addresses of NetworkPool {pool.metadata.key}"
    return Remark(wanted.path, what)


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
