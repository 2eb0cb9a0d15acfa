"""The picture of a NetworkPool, from its IPAllocations and what requests of other kinds hold.

A *picture* shows people what a pool hands out, who holds it, and who waits. A pool has a *block*
of addresses for each family; its *layout* is what the block may hand out.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from allocator import AddressRange, Capacity, InvalidPool, Layout, Space
from controller.conditions import find_condition
from reconcilers.addressing import poolgeometry, statusranges
from reconcilers.addressing.poolneeds import list_needed_families
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.networkpool.facts import KIND
from reconcilers.networkpool.statusjournal import settle_pool_journal
from reconcilers.networkpool.view import AllocationsView
from reconcilers.pictures.extents import AddressHolder, HeldAddresses, Reserved
from reconcilers.pictures.poolpicture import (
    NO_HOLDERS,
    PoolFamily,
    PoolHolders,
    PoolPicture,
    PoolRequest,
    order_requests,
)
from reconcilers.reporting.conditions import READY
from reconcilers.spaces.offers import PoolName

ALL_SIZES = 1 << 130
"""Pictures show pools of any size: the limit is the controllers' affair."""


def make_picture(
    pool: NetworkPool,
    allocations: Sequence[IPAllocation],
    others: PoolHolders = NO_HOLDERS,
    not_read: Sequence[str] = (),
) -> PoolPicture:
    """Return the picture of a NetworkPool.

    If a block is invalid, the picture shows that instead of condition Ready.

    Args:
        allocations: the IPAllocations that name it.
        others: what requests of other kinds hold of it, and which of them wait.
        not_read: what else may hold some of it and was not read.
    """
    held_addresses = list(list_held(pool, allocations))
    holding_keys = {entry.holder.key for entry in held_addresses}
    waiting = [
        _make_request(allocation, pool)
        for allocation in allocations
        if allocation.metadata.key not in holding_keys and not allocation.metadata.is_terminating
    ]
    held_addresses += others.held_addresses
    families = _list_families(pool, held_addresses, all_known=not not_read)
    ready = find_condition(pool.status.conditions, READY)
    status, reason = (ready.status, ready.message) if ready else ("Unknown", "not reconciled")
    fault = "; ".join(family.fault for family in families if family.fault)
    if fault:
        status, reason = "False", fault
    return PoolPicture(
        PoolName(NETWORK_POOL.kind, pool.metadata.key),
        names.GROUP,
        families=families,
        waiting=order_requests([*waiting, *others.waiting]),
        ready=status,
        reason=reason,
        not_read=not_read,
    )


def list_held(pool: NetworkPool, allocations: Sequence[IPAllocation]) -> Iterator[HeldAddresses]:
    """Yield the addresses that IPAllocations have of a pool, by status or by an open promise."""
    for allocation in allocations:
        for held_range in statusranges.list_held_ranges(allocation):
            yield HeldAddresses(_make_holder(allocation), held_range)
    if not pool.status.assignments:
        return
    view = AllocationsView.from_allocations(0, tuple(allocations))
    for promise in settle_pool_journal(pool, view).promises:
        if promise.kind != KIND:
            continue  # held by an object of another kind, which has its own holder
        promised_to = view.find_current(promise.key, promise.uid)
        if promised_to is None or statusranges.find_held_range(promised_to) is not None:
            continue  # it is gone, or its status has shown its range above
        holder = _make_holder(promised_to, promised=True)
        yield from (HeldAddresses(holder, promised.range) for promised in promise.ranges)


def _make_holder(allocation: IPAllocation, *, promised: bool = False) -> AddressHolder:
    """Return an allocation as a holder in the picture."""
    return AddressHolder(
        IP_ALLOCATION.kind,
        allocation.metadata.key,
        tenant=str(allocation.spec.tenantClusterRef.key),
        purpose=allocation.spec.type,
        promised=promised,
        releasing=allocation.releasing,
        phase=allocation.status.phase or "",
        since=allocation.status.allocatedAt or allocation.metadata.creationTimestamp,
    )


def _make_request(allocation: IPAllocation, pool: NetworkPool) -> PoolRequest:
    """Return an allocation that waits as a request in the picture, with the reason of its wait."""
    ready = find_condition(allocation.status.conditions, READY)
    created = allocation.metadata.creationTimestamp
    return PoolRequest(
        IP_ALLOCATION.kind,
        allocation.metadata.key,
        tenant=str(allocation.spec.tenantClusterRef.key),
        purpose=allocation.spec.type,
        since=allocation.requested_at if created is not None else None,
        reason=ready.message if ready else "not looked at yet",
        families=list_needed_families(allocation, pool),
    )


def _list_families(
    pool: NetworkPool, held_addresses: Sequence[HeldAddresses], *, all_known: bool
) -> list[PoolFamily]:
    """Return the blocks of a pool, each with the addresses that are held of it.

    Held addresses outside of all blocks are shown with the first valid block.
    """
    layouts = [_parse_layout(block) for block in pool.blocks]
    sound_layouts = [layout for layout in layouts if isinstance(layout, Layout)]
    strays = [
        entry
        for entry in held_addresses
        if all(layout.get_span(entry.range) is None for layout in sound_layouts)
    ]
    families = []
    for block, layout in zip(pool.blocks, layouts, strict=True):
        if not isinstance(layout, Layout):
            families.append(PoolFamily(block.spec.cidr, block.spec.cidr, fault=layout))
            continue
        is_first = layout is sound_layouts[0]
        families.append(
            _make_family(
                block,
                layout,
                held_addresses=held_addresses,
                strays=strays if is_first else (),
                all_known=all_known,
            )
        )
    return families


def _parse_layout(block: NetworkPool) -> Layout | str:
    """Return the layout of a block; if the block is invalid, a message that says why."""
    try:
        return poolgeometry.parse_layout(block.spec, ALL_SIZES)
    except InvalidPool as invalid:
        return "; ".join(invalid.messages)


def _make_family(
    block: NetworkPool,
    layout: Layout,
    held_addresses: Sequence[HeldAddresses],
    strays: Sequence[HeldAddresses],
    *,
    all_known: bool,
) -> PoolFamily:
    """Return one block of a pool with what is held of it.

    Args:
        layout: what it may hand out.
        held_addresses: what is held of the pool.
        strays: held addresses outside of all blocks, to be shown with this block.
        all_known: whether all kinds of holders were read.
    """
    cidr_text = block.spec.cidr
    reservations = poolgeometry.list_reservations(block.spec)
    of_family = [
        HeldAddresses(entry.holder, AddressRange(*span, layout.family))
        for entry in held_addresses
        if (span := layout.get_span(entry.range)) is not None
    ]
    return PoolFamily(
        offers=cidr_text,
        label=cidr_text,
        cidr=layout.cidr,
        usable=tuple(layout.blocks),
        reserved=[
            Reserved(parsed, reservation.note)
            for reservation, parsed in zip(reservations, layout.reserved, strict=True)
        ],
        held_addresses=[*of_family, *strays],
        compute_capacity=partial(_compute_capacity, layout, of_family),
        all_known=all_known,
    )


def _compute_capacity(layout: Layout, held_addresses: Sequence[HeldAddresses]) -> Capacity:
    """Return how full a block is with these addresses."""
    return Space(layout, (entry.range for entry in held_addresses)).compute_capacity()
