"""What is wrong or doubtful in the spec of a NetworkPool, each with the field it is about.

The CRD refuses these faults too, but for those that CEL cannot tell.
"""

from collections.abc import Iterator, Sequence

from allocator import (
    AddressRange,
    InvalidPool,
    Layout,
    PoolTooLarge,
    name_edge_addresses,
    pool_faults,
)
from reconcilers.addressing import addresstexts, poolgeometry
from reconcilers.api.fields import IS_ADDRESS
from reconcilers.api.networkpool import NetworkPoolSpec
from reconcilers.api.poolrules import GATEWAY_FAMILY, TOGETHER
from reconcilers.specrules.verdict import Path, Remark

SPEC: Path = ("spec",)
SECONDARY: Path = ("spec", "secondary")
TENANT: Path = ("spec", "tenantAllocation")


def list_blocks(spec: NetworkPoolSpec) -> list[tuple[Path, NetworkPoolSpec]]:
    """Return the blocks of a spec, one or one of each family, with where they are written."""
    return list(zip((SPEC, SECONDARY), spec.blocks, strict=False))


def find_pool_faults(spec: NetworkPoolSpec, max_addresses: int) -> list[Remark]:
    """Return every fault of a spec; the exceptions of docs/design/validation.md stop no pool.

    Args:
        max_addresses: the largest pool, in addresses.
    """
    tenant = spec.tenantAllocation
    if tenant is not None and (tenant.start is None) != (tenant.end is None):
        return [Remark(TENANT, TOGETHER.message)]
    faults = [
        remark
        for at, block in list_blocks(spec)
        for remark in _find_block_faults(at, block, max_addresses)
    ]
    if spec.gateway and addresstexts.parse_ends(spec.gateway, spec.gateway) is None:
        faults.append(Remark((*SPEC, "gateway"), IS_ADDRESS.message))
    elif spec.gateway and (":" in spec.gateway) != (":" in spec.cidr):
        faults.append(Remark((*SPEC, "gateway"), GATEWAY_FAMILY.message))
    if faults:
        return faults
    try:
        poolgeometry.parse_layouts(spec, max_addresses)
    except InvalidPool as same:
        return [Remark((*SECONDARY, "cidr"), str(same))]
    return []


def _find_block_faults(at: Path, block: NetworkPoolSpec, max_addresses: int) -> Iterator[Remark]:
    reserved = [reservation.cidr for reservation in block.reserved]
    faults = pool_faults(block.cidr, reserved, block.spans())
    yield from (Remark(_locate_in_spec(at, block, fault.path), fault.message) for fault in faults)
    if faults:
        return
    try:
        poolgeometry.parse_layout(block, max_addresses)
    except PoolTooLarge as large:
        yield Remark((*at, "cidr"), str(large))


def _locate_in_spec(at: Path, block: NetworkPoolSpec, path: Path) -> Path:
    """Return where in a pool's spec the allocator's path leads."""
    if path[0] != "ranges":
        return (*at, *path)
    tenant = block.tenantAllocation
    if tenant is not None and tenant.ranges:
        return (*at, "tenantAllocation", *path)
    return (*at, "tenantAllocation", *path[2:])  # the one range is start and end themselves


def list_pool_warnings(spec: NetworkPoolSpec, layouts: Sequence[Layout]) -> Iterator[Remark]:
    """Yield warnings about values that are allowed and likely to be mistakes.

    Args:
        layouts: its geometry.
    """
    for (at, block), layout in zip(list_blocks(spec), layouts, strict=True):
        yield from _list_block_warnings(at, block, layout)


def _list_block_warnings(at: Path, block: NetworkPoolSpec, layout: Layout) -> Iterator[Remark]:
    """Yield the warnings about one block: overlaps, host bits, no room, edges handed out."""
    written: list[tuple[Path, str, AddressRange]] = [((*at, "cidr"), block.cidr, layout.cidr)]
    listed = layout.reserved[: len(block.reserved)]
    for number, (reservation, parsed) in enumerate(zip(block.reserved, listed, strict=True)):
        path = (*at, "reserved", number)
        written.append(((*path, "cidr"), reservation.cidr, parsed))
        for earlier, other in enumerate(listed[:number]):
            if parsed.overlaps(other):
                sentence = f"{parsed.text} overlaps reserved[{earlier}] ({other.text})"
                yield Remark(path, sentence)
    for field, cidr, parsed in written:
        if warning := addresstexts.describe_host_bits(cidr, parsed):
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
