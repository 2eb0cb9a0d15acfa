"""Build the picture of an IPPool, from claims of both kinds and their IPAddresses.

A hole is an address of an entry that is handed out only to a claim that asks for it: a gateway, a
broadcast address, or a pre-allocated address.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from allocator import AddressRange, Capacity, Family
from allocator.addresses import union
from reconcilers.integrations.clusterapi.addresses import compute_smallest_cidr
from reconcilers.integrations.clusterapi.api import CLUSTER_LABEL, is_paused
from reconcilers.integrations.metal3.api import POOLS, Metal3PoolSpec
from reconcilers.integrations.metal3.claimformats import EitherClaim
from reconcilers.integrations.metal3.contents import IPPoolContents
from reconcilers.integrations.metal3.entries import list_reserved, parse_single
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


def make_picture(contents: IPPoolContents) -> PoolPicture:
    """Return the picture of a pool."""
    pool = contents.pool
    families = _build_families(contents)
    why_not_ready = ""
    if pool.metadata.is_terminating:
        why_not_ready = "it is being deleted"
    elif is_paused(pool.metadata.annotations):
        why_not_ready = "it is paused by its annotation"
    if not families:  # a picture has at least one family, here one that says what is wrong
        offers = describe_entries(pool.spec)
        families = [PoolFamily(offers, offers, fault=NOTHING)]
        why_not_ready = NOTHING
    return PoolPicture(
        PoolName(POOLS.kind, pool.metadata.key),
        POOLS.group,
        families=families,
        waiting=order_requests(_list_requests(contents)),
        ready="False" if why_not_ready else "True",
        reason=why_not_ready,
        not_read=[str(unreadable) for unreadable in contents.unreadable],
    )


def describe_entries(spec: Metal3PoolSpec) -> str:
    """Return the entries of a pool as text: their subnets, or first and last addresses.

    The fields are shown as a person wrote them, because they may not be parsable.
    """
    return ", ".join(
        entry.subnet if not (entry.start or entry.end) else f"{entry.start}-{entry.end}"
        for entry in spec.pools
    )


def list_held(contents: IPPoolContents) -> Iterator[HeldAddresses]:
    """Yield the addresses that claims hold or were promised."""
    for held_address in contents.list_held():
        holder = _build_holder(contents, held_address.holder, is_promised=held_address.is_promised)
        yield HeldAddresses(holder, held_address.address)


def compute_capacity(contents: IPPoolContents, family: Family) -> Capacity:
    """Return the capacity of a pool in one family; promised addresses count as held."""
    holdings, held_addresses = contents.holdings, list(contents.list_held())
    promised = [entry.address for entry in held_addresses if entry.is_promised]
    total = free = largest = 0
    # The trial ends with the block, so that promised addresses stay out of the holdings.
    with holdings.roll_back_at_exit():
        for address in promised:
            part = contents.space.make_promised_range(address)
            if part.space in holdings.layouts:
                holdings.get_space(part.space).hold(address)
        for name, layout in holdings.layouts.items():
            if layout.family == family:
                space = holdings.get_space(name)
                total, free = total + space.total, free + space.free
                largest = max(largest, space.largest_free)
    # A hole that a claim has got counts as an address in use; other holes do not count.
    total += len(_find_granted_holes(contents, family))
    # The free addresses outside of the longest free block, in percent, rounded up.
    fragmentation = 100 - 100 * largest // free if free else 0
    return Capacity(
        total,
        total - free,
        available=free,
        largest_free=largest,
        fragmentation_percent=fragmentation,
    )


def _find_granted_holes(contents: IPPoolContents, family: Family) -> set[AddressRange]:
    """Return the holes that claims have got, because they asked for them."""
    return {
        address
        for address in {held_address.address for held_address in contents.list_held()}
        if address.family == family
        and (entry := contents.space.find_entry(address)) is not None
        and not contents.space.layouts[entry.space].clip((address.first, address.last))
    }


def _build_families(contents: IPPoolContents) -> list[PoolFamily]:
    """Return the offer of a pool by address family, IPv4 first; empty without a valid entry."""
    families: dict[Family, None] = {}
    for layout in contents.space.layouts.values():
        families[layout.family] = None
    return [_build_family(contents, family) for family in sorted(families)]


def _build_family(contents: IPPoolContents, family: Family) -> PoolFamily:
    """Return the addresses of one family that a pool offers, with what is held of them."""
    blocks = [
        (block.first, block.last)
        for layout in contents.space.layouts.values()
        if layout.family == family
        for block in layout.blocks
    ]
    holes = [(hole.first, hole.last) for hole in _find_granted_holes(contents, family)]
    usable = [AddressRange(*span, family) for span in union(sorted([*blocks, *holes]))]
    spans = [
        entry.addresses for entry in contents.space.entries if entry.addresses.family == family
    ]
    cidr = compute_smallest_cidr(
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
        compute_capacity=partial(compute_capacity, contents, family),
        owns_cidr=False,
        all_known=not contents.unreadable,
    )


def _list_holes(
    contents: IPPoolContents, family: Family, cidr: AddressRange
) -> Iterator[Reserved]:
    """Yield the holes that no claim has got, with the reason why each is a hole."""
    holes = dict.fromkeys(list_reserved(contents.pool.spec), "gateway or broadcast")
    for claim, written in contents.pool.spec.preAllocations.items():
        address = parse_single(written)
        if address is not None:
            holes[address] = f"pre-allocated to {claim}"
    granted = _find_granted_holes(contents, family)
    for hole, note in sorted(holes.items(), key=lambda item: (item[0].family, item[0].first)):
        if hole.family == family and cidr.contains(hole) and hole not in granted:
            yield Reserved(hole, note)


def _build_holder(contents: IPPoolContents, holder: Holder, *, is_promised: bool) -> AddressHolder:
    """Return a holder as a view shows it; a missing claim is shown by its key alone."""
    claim = contents.find_claim(holder)
    meta = None if claim is None else claim.metadata
    return AddressHolder(
        _describe_kind(contents, holder),
        holder.key,
        tenant=str(holder.key) if claim is None else _find_tenant(claim),
        purpose=PURPOSE,
        promised=is_promised,
        releasing=meta is not None and meta.is_terminating,
        since=None if meta is None else meta.creationTimestamp,
    )


def _describe_kind(contents: IPPoolContents, holder: Holder) -> str:
    """Return the kind of a holder, as text for users."""
    caches = contents.caches.claim_caches_by_kind.get(holder.kind)
    # A journal may name a kind that is not served here; its full name is shown.
    return holder.kind if caches is None else caches.claim_format.claims.kind


def _find_tenant(claim: EitherClaim) -> str:
    """Return the Cluster that the label of a claim names; without label, the key of the claim."""
    meta = claim.metadata
    name = meta.labels.get(CLUSTER_LABEL)
    return f"{meta.namespace}/{name}" if name else str(meta.key)


def _list_requests(contents: IPPoolContents) -> Iterator[PoolRequest]:
    """Yield the request of each claim that waits for an address."""
    families: Sequence[Family] = sorted(
        {layout.family for layout in contents.space.layouts.values()}
    )
    for waiting in contents.list_waiting_claims():
        meta = waiting.claim.metadata
        yield PoolRequest(
            waiting.kind,
            meta.key,
            tenant=_find_tenant(waiting.claim),
            purpose=PURPOSE,
            since=meta.creationTimestamp,
            reason=waiting.error or "not looked at yet",
            families=tuple(families),
        )
