"""Errors and warnings in the spec of a NetworkPool, each with its field path.

The CRD rejects most of these faults too; CEL cannot express the others. A *block* is the part of a
spec for one address family: `spec` itself, or `spec.secondary`.
"""

from collections.abc import Iterator, Sequence

from allocator import (
    AddressRange,
    InvalidPool,
    Layout,
    PoolTooLarge,
    list_layout_faults,
    name_edge_addresses,
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
    """Return the path and the fields of each block of a spec: one block per address family.

    A pool with one family has only the block `spec`; the other family is in `spec.secondary`.
    """
    return list(zip((SPEC, SECONDARY), spec.blocks, strict=False))


def find_pool_faults(spec: NetworkPoolSpec, max_addresses: int) -> list[Remark]:
    """Return the faults of a spec, each with its field.

    A fault stops the pool. A mistake with which the pool can go on is therefore no fault: see
    docs/design/validation.md. Most of these mistakes get a warning from `list_pool_warnings`.

    Args:
        max_addresses: the largest IPv4 pool, in addresses.
    """
    tenant = spec.tenantAllocation
    if tenant is not None and (tenant.start is None) != (tenant.end is None):
        # The checks below would report the missing half as an address that cannot be parsed.
        return [Remark(TENANT, TOGETHER.message)]
    faults = [
        remark
        for block_path, block in list_blocks(spec)
        for remark in _find_block_faults(block_path, block, max_addresses)
    ]
    if spec.gateway and addresstexts.parse_ends(spec.gateway, spec.gateway) is None:
        faults.append(Remark((*SPEC, "gateway"), IS_ADDRESS.message))
    elif spec.gateway and (":" in spec.gateway) != (":" in spec.cidr):
        faults.append(Remark((*SPEC, "gateway"), GATEWAY_FAMILY.message))
    if faults:
        return faults
    # Each block is valid by itself. One fault is still possible: both have the same family.
    try:
        poolgeometry.parse_layouts(spec, max_addresses)
    except InvalidPool as same_family:
        return [Remark((*SECONDARY, "cidr"), str(same_family))]
    return []


def _find_block_faults(
    block_path: Path, block: NetworkPoolSpec, max_addresses: int
) -> Iterator[Remark]:
    """Yield the faults of one block; its size is checked only if there is no other fault.

    Args:
        block_path: the field that holds the block: `spec` or `spec.secondary`.
        max_addresses: the largest IPv4 pool, in addresses.
    """
    reserved = [reservation.cidr for reservation in block.reserved]
    faults = list_layout_faults(block.cidr, reserved, block.list_declared_spans())
    for fault in faults:
        yield Remark(_locate_in_spec(block_path, block, fault.path), fault.message)
    if faults:
        return  # the size of a block that cannot be parsed is unknown
    try:
        poolgeometry.parse_layout(block, max_addresses)
    except PoolTooLarge as too_large:
        yield Remark((*block_path, "cidr"), str(too_large))


def _locate_in_spec(block_path: Path, block: NetworkPoolSpec, path: Path) -> Path:
    """Return the field of the API for a field in a fault of the allocator.

    The allocator knows `ranges[0].start` only. In the API, ranges are in `tenantAllocation`, and
    a single range may be written as `tenantAllocation.start` and `.end`.
    """
    if path[0] != "ranges":
        return (*block_path, *path)
    tenant = block.tenantAllocation
    if tenant is not None and tenant.ranges:
        return (*block_path, "tenantAllocation", *path)
    return (*block_path, "tenantAllocation", *path[2:])  # without `ranges[0]`


def list_pool_warnings(spec: NetworkPoolSpec, layouts: Sequence[Layout]) -> Iterator[Remark]:
    """Yield warnings about values that are allowed and likely to be mistakes.

    Args:
        layouts: the parsed blocks of the spec, in their order.
    """
    for (block_path, block), layout in zip(list_blocks(spec), layouts, strict=True):
        yield from _list_block_warnings(block_path, block, layout)


def _list_block_warnings(
    block_path: Path, block: NetworkPoolSpec, layout: Layout
) -> Iterator[Remark]:
    """Yield the warnings about one block.

    1. Two reservations overlap.
    2. A CIDR has bits set behind its prefix.
    3. No address is left to hand out.
    4. The pool hands out its network or broadcast address, and the spec does not confirm that.
    """
    cidr_path: Path = (*block_path, "cidr")
    cidrs: list[tuple[Path, str, AddressRange]] = [(cidr_path, block.cidr, layout.cidr)]
    # `layout.reserved` begins with the reservations of the spec; gateway and edges follow.
    listed = layout.reserved[: len(block.reserved)]
    for number, (reservation, parsed) in enumerate(zip(block.reserved, listed, strict=True)):
        path = (*block_path, "reserved", number)
        cidrs.append(((*path, "cidr"), reservation.cidr, parsed))
        for earlier_number, earlier in enumerate(listed[:number]):
            if parsed.overlaps(earlier):
                sentence = f"{parsed.text} overlaps reserved[{earlier_number}] ({earlier.text})"
                yield Remark(path, sentence)
    for path, cidr, parsed in cidrs:
        if warning := addresstexts.describe_host_bits(cidr, parsed):
            yield Remark(path, warning)
    if layout.total == 0:
        sentence = "everything that tenants may draw from is reserved: nothing can be handed out"
        yield Remark(block_path, sentence)
    edge_labels = [
        f"{address.start_text} ({name})"
        for name, address in name_edge_addresses(layout.cidr).items()
        if any(part.contains(address) for part in layout.blocks)
    ]
    if edge_labels and block.excludeNetworkAndBroadcast is None:
        sentence = (
            f"the pool hands out {' and '.join(edge_labels)}; set"
            f" spec.{poolgeometry.EXCLUDE_EDGES} to true to leave such addresses out, or to false"
            " to confirm them"
        )
        yield Remark(cidr_path, sentence)
