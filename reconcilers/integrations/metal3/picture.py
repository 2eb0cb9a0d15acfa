"""The picture of an IPPool, from claims of both kinds and their IPAddresses."""

from collections.abc import Iterator, Sequence
from functools import partial

from allocator import AddressRange, Capacity, Family
from allocator.addresses import union
from reconcilers.integrations.clusterapi.addresses import smallest_cidr
from reconcilers.integrations.clusterapi.api import CLUSTER_LABEL, is_paused
from reconcilers.integrations.metal3.api import POOLS, Metal3PoolSpec
from reconcilers.integrations.metal3.contents import IPPoolContents
from reconcilers.integrations.metal3.entries import parse_single, reserved_of
from reconcilers.integrations.metal3.sides import EitherClaim
from reconcilers.pictures.extents import AddressHolder, HeldAddresses, Reserved
from reconcilers.pictures.poolpicture import (
    PoolFamily,
    PoolPicture,
    PoolRequest,
    order_requests,
)
from reconcilers.promises.identities import Holder
from reconcilers.spaces.offers import PoolName

PURPOSE = "claim"
"""The use of the addresses of a pool, as people read it."""
NOTHING = "no entry of its spec has an address"


def picture_of(contents: IPPoolContents) -> PoolPicture:
    """Return the picture of a pool."""
    pool, families = contents.pool, _families(contents)
    why = "it is paused by its annotation" if is_paused(pool.metadata.annotations) else ""
    why = "it is being deleted" if pool.metadata.terminating else why
    if not families:
        offers = describe_entries(pool.spec)
        families, why = [PoolFamily(offers, offers, fault=NOTHING)], NOTHING
    return PoolPicture(
        PoolName(POOLS.kind, pool.metadata.key),
        POOLS.group,
        families=families,
        waiting=order_requests(_waiting(contents)),
        ready="False" if why else "True",
        reason=why,
        not_read=[str(unreadable) for unreadable in contents.unreadable],
    )


def describe_entries(spec: Metal3PoolSpec) -> str:
    """Return the entries of a pool for people."""
    return ", ".join(
        entry.subnet if not (entry.start or entry.end) else f"{entry.start}-{entry.end}"
        for entry in spec.pools
    )


def list_held(contents: IPPoolContents) -> Iterator[HeldAddresses]:
    """Yield the addresses that claims hold or were promised."""
    for held_address in contents.list_held():
        holder = _holder(contents, held_address.holder, is_promised=held_address.is_promised)
        yield HeldAddresses(holder, held_address.address)


def capacity_of(contents: IPPoolContents, family: Family) -> Capacity:
    """Return the capacity of a pool in one family; promised addresses count as held."""
    holdings, held_addresses = contents.holdings, list(contents.list_held())
    promised = [entry.address for entry in held_addresses if entry.is_promised]
    total = free = largest = 0
    with holdings.trial():
        for address in promised:
            part = contents.space.part_of(address)
            if part.space in holdings.layouts:
                holdings.space(part.space).hold(address)
        for name, layout in holdings.layouts.items():
            if layout.family == family:
                space = holdings.space(name)
                total, free = total + space.total, free + space.free
                largest = max(largest, space.largest_free)
    # A claim that asks for a hole gets it, and then it counts.
    total += len(_granted_holes(contents, family))
    fragmentation = 100 - 100 * largest // free if free else 0
    return Capacity(
        total,
        total - free,
        available=free,
        largest_free=largest,
        fragmentation_percent=fragmentation,
    )


def _granted_holes(contents: IPPoolContents, family: Family) -> set[AddressRange]:
    """Return the addresses of entries that claims hold, and that no other claim would get."""
    return {
        address
        for address in {held_address.address for held_address in contents.list_held()}
        if address.family == family
        and (entry := contents.space.entry_of(address)) is not None
        and not contents.space.layouts[entry.space].clip((address.first, address.last))
    }


def _families(contents: IPPoolContents) -> list[PoolFamily]:
    families: dict[Family, None] = {}
    for layout in contents.space.layouts.values():
        families[layout.family] = None
    return [_family(contents, family) for family in sorted(families)]


def _family(contents: IPPoolContents, family: Family) -> PoolFamily:
    """Return the addresses of one family that a pool offers, with what is held of them."""
    blocks = [
        (block.first, block.last)
        for layout in contents.space.layouts.values()
        if layout.family == family
        for block in layout.blocks
    ]
    holes = [(hole.first, hole.last) for hole in _granted_holes(contents, family)]
    usable = [AddressRange(*span, family) for span in union(sorted([*blocks, *holes]))]
    spans = [
        entry.addresses for entry in contents.space.entries if entry.addresses.family == family
    ]
    cidr = smallest_cidr(
        min(span.first for span in spans), max(span.last for span in spans), family
    )
    held_addresses = [
        held_address for held_address in list_held(contents) if held_address.range.family == family
    ]
    return PoolFamily(
        describe_entries(contents.pool.spec),
        cidr.text,
        cidr=cidr,
        usable=usable,
        reserved=list(_list_holes(contents, family, cidr)),
        held_addresses=held_addresses,
        capacity_of=partial(capacity_of, contents, family),
        owns_cidr=False,
        all_known=not contents.unreadable,
    )


def _list_holes(
    contents: IPPoolContents, family: Family, cidr: AddressRange
) -> Iterator[Reserved]:
    """Yield the addresses that only a claim gets that asks for them."""
    holes = dict.fromkeys(reserved_of(contents.pool.spec), "gateway or broadcast")
    for claim, written in contents.pool.spec.preAllocations.items():
        address = parse_single(written)
        if address is not None:
            holes[address] = f"pre-allocated to {claim}"
    granted = _granted_holes(contents, family)
    for hole, note in sorted(holes.items(), key=lambda item: (item[0].family, item[0].first)):
        if hole.family == family and cidr.contains(hole) and hole not in granted:
            yield Reserved(hole, note)


def _holder(contents: IPPoolContents, holder: Holder, *, is_promised: bool) -> AddressHolder:
    claim = contents.find_claim(holder)
    meta = None if claim is None else claim.metadata
    return AddressHolder(
        _kind(contents, holder),
        holder.key,
        tenant=str(holder.key) if claim is None else _tenant(claim),
        purpose=PURPOSE,
        promised=is_promised,
        releasing=meta is not None and meta.terminating,
        since=None if meta is None else meta.creationTimestamp,
    )


def _kind(contents: IPPoolContents, holder: Holder) -> str:
    """Return the kind of a holder as people read it."""
    side = contents.caches.sides.get(holder.kind)
    return holder.kind if side is None else side.side.claims.kind


def _tenant(claim: EitherClaim) -> str:
    """Return the cluster of a claim by its label, or else the claim itself."""
    meta = claim.metadata
    name = meta.labels.get(CLUSTER_LABEL)
    return f"{meta.namespace}/{name}" if name else str(meta.key)


def _waiting(contents: IPPoolContents) -> Iterator[PoolRequest]:
    """Yield the claims without an address."""
    families: Sequence[Family] = sorted(
        {layout.family for layout in contents.space.layouts.values()}
    )
    for waiting in contents.list_waiting():
        meta = waiting.claim.metadata
        yield PoolRequest(
            waiting.kind,
            meta.key,
            tenant=_tenant(waiting.claim),
            purpose=PURPOSE,
            since=meta.creationTimestamp,
            reason=waiting.error or "not looked at yet",
            families=tuple(families),
        )
