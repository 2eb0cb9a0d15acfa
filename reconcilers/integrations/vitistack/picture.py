"""Build the picture of a NetworkNamespace, from its IPAllocations."""

from collections.abc import Iterator
from functools import partial

from allocator import Capacity
from reconcilers.integrations.core.heldparts import compute_capacity_with
from reconcilers.integrations.vitistack.api import ALLOCATIONS, NETWORKS
from reconcilers.integrations.vitistack.caches import find_static
from reconcilers.integrations.vitistack.contents import NetworkContents
from reconcilers.integrations.vitistack.ranges import FAMILY
from reconcilers.pictures.extents import AddressHolder, HeldAddresses, Reserved
from reconcilers.pictures.poolpicture import (
    PoolFamily,
    PoolPicture,
    PoolRequest,
    order_requests,
)
from reconcilers.promises.holdings import Holdings
from reconcilers.spaces.offers import PoolName

PURPOSE = "interface"
"""The use of the addresses of a network, as people read it."""


def make_picture(contents: NetworkContents) -> PoolPicture:
    """Return the picture of a network."""
    return PoolPicture(
        PoolName(NETWORKS.kind, contents.network.metadata.key),
        NETWORKS.group,
        families=[_build_family(contents)],
        waiting=order_requests(_list_requests(contents)),
        ready="False" if contents.fault else "True",
        reason=contents.fault,
        not_read=[str(unreadable) for unreadable in contents.unreadable],
    )


def _build_family(contents: NetworkContents) -> PoolFamily:
    """Return the addresses that a network offers, with what is held of them."""
    static, space, holdings = find_static(contents.network), contents.space, contents.holdings
    if space is None or static is None or holdings is None:
        offers = static.ipv4CIDR if static is not None else ""
        return PoolFamily(offers, offers, fault=contents.fault)
    gateway = space.address(static.ipv4Gateway) if static.ipv4Gateway else None
    return PoolFamily(
        space.text,
        space.layout.cidr.text,
        cidr=space.layout.cidr,
        usable=space.layout.blocks,
        reserved=[Reserved(gateway, "gateway")] if gateway is not None else [],
        held_addresses=list(list_held(contents)),
        compute_capacity=partial(_compute_capacity, contents, holdings),
        all_known=not contents.unreadable,
    )


def _compute_capacity(contents: NetworkContents, holdings: Holdings) -> Capacity:
    """Return the capacity of a network; promised addresses count as held."""
    return compute_capacity_with(holdings.get_space(), contents.list_promised_ranges())


def list_held(contents: NetworkContents) -> Iterator[HeldAddresses]:
    """Yield the addresses that IPAllocations hold or were promised."""
    for part in contents.list_held_parts():
        allocation = contents.allocations[part.key]
        holder = AddressHolder(
            ALLOCATIONS.full_name,
            part.key,
            tenant=str(allocation.configuration),
            purpose=PURPOSE,
            promised=part.state == "promised",
            releasing=allocation.metadata.is_terminating,
            phase=allocation.status.phase,
            since=allocation.metadata.creationTimestamp,
        )
        yield HeldAddresses(holder, part.range)


def _list_requests(contents: NetworkContents) -> Iterator[PoolRequest]:
    """Yield the IPAllocations that wait for an address."""
    for key, allocation in contents.allocations.items():
        if allocation.waits:
            yield PoolRequest(
                ALLOCATIONS.full_name,
                key,
                tenant=str(allocation.configuration),
                purpose=PURPOSE,
                since=allocation.metadata.creationTimestamp,
                families=(FAMILY,),
            )
