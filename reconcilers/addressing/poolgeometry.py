"""The geometry of a pool: its blocks as layouts, and what they never hand out."""

from collections.abc import Iterator
from dataclasses import dataclass

from allocator import AddressRange, InvalidPool, Layout, PoolTooLarge, name_edge_addresses
from reconcilers.addressing import addresstexts
from reconcilers.api.networkpool import NetworkPoolSpec

EXCLUDE_EDGES = "excludeNetworkAndBroadcast"
"""The field of a pool's spec that keeps the addresses of `name_edge_addresses` from being used."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A part of a pool's block that is never handed out.

    Args:
        cidr: the part.
        label: the part as messages show it: as the spec writes it, or the address alone.
        field: the field of the block that reserves it: `("reserved", 0)`.
        note: why, for people.
    """

    cidr: str
    label: str
    field: tuple[str | int, ...]
    note: str


def parse_layouts(spec: NetworkPoolSpec, max_addresses: int) -> tuple[Layout, ...]:
    """Return the geometry of each block that a pool's spec declares, that of `cidr` first.

    Raises:
        InvalidPool: the spec contradicts itself; `messages` says where.
        PoolTooLarge: a block has more than `max_addresses` addresses.
    """
    first, *others = spec.blocks
    layouts = [parse_layout(first, max_addresses)]
    for second in others:
        try:
            layouts.append(parse_layout(second, max_addresses))
        except PoolTooLarge:
            raise  # an InvalidPool, too, but callers handle it by its own type
        except InvalidPool as invalid:
            raise InvalidPool(
                [f"secondary: {message}" for message in invalid.messages]
            ) from invalid
    if len({layout.family for layout in layouts}) < len(layouts):
        problem = "the secondary CIDR has the IP family of cidr; one must be IPv4, the other IPv6"
        raise InvalidPool([problem])
    return tuple(layouts)


def parse_layout(spec: NetworkPoolSpec, max_addresses: int) -> Layout:
    """Return the geometry of one block; a secondary block in `spec` has no effect.

    Args:
        spec: what is declared of the block.
        max_addresses: the largest block, in addresses.

    Raises:
        InvalidPool: the spec contradicts itself; `messages` says where.
        PoolTooLarge: it has more than `max_addresses` addresses.
    """
    reserved = [reservation.cidr for reservation in list_reservations(spec)]
    return Layout.parse(
        spec.cidr, reserved, spec.list_declared_spans(), max_addresses=max_addresses
    )


def list_reservations(spec: NetworkPoolSpec) -> Iterator[Reservation]:
    """Yield the reserved parts of a pool's first block.

    They are the entries of spec.reserved, then the gateway if it is inside the block, then the
    edges of the block if the spec excludes them. `parse_layout` gives them to `Layout.parse` in
    this order, so callers may pair them with `Layout.reserved`. Secondary blocks have none.
    """
    for number, entry in enumerate(spec.reserved):
        yield Reservation(
            entry.cidr, label=entry.cidr, field=("reserved", number), note=entry.description
        )
    block = addresstexts.parse_cidr_or_span(spec.cidr)
    # An invalid CIDR is reported by `parse_layout`.
    if block is None:
        return
    if spec.gateway:
        gateway = addresstexts.parse_ends(spec.gateway, spec.gateway)
        if gateway is not None and block.contains(gateway):
            yield Reservation(gateway.text, label=spec.gateway, field=("gateway",), note="gateway")
    if spec.excludeNetworkAndBroadcast:
        for name, address in name_edge_addresses(block).items():
            yield Reservation(
                address.text, label=address.start_text, field=(EXCLUDE_EDGES,), note=name
            )


def parse_cidrs(spec: NetworkPoolSpec) -> list[AddressRange]:
    """Return the blocks of a pool whose CIDRs can be parsed, at most one of each family."""
    texts = (spec.cidr,) if spec.secondary is None else (spec.cidr, spec.secondary.cidr)
    blocks = map(addresstexts.parse_cidr_or_span, texts)
    return [block for block in blocks if block is not None]
