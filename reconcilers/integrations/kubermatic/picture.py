"""Build a picture for each datacenter of an IPAMPool: each hands out addresses of its own."""

from collections.abc import Iterator
from functools import partial

from allocator import AddressRange, Capacity, Space
from controller.meta import Key
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, POOLS
from reconcilers.integrations.kubermatic.contents import DatacenterContents
from reconcilers.integrations.kubermatic.spaces import DatacenterSpace
from reconcilers.pictures.extents import AddressHolder, HeldAddresses
from reconcilers.pictures.poolpicture import (
    PoolFamily,
    PoolPicture,
    PoolRequest,
    order_requests,
)
from reconcilers.reporting.wording import count_addresses
from reconcilers.spaces.offers import PoolName

PURPOSE = "cluster"
"""The use of the addresses of an IPAMPool, as people read it."""


def make_picture(contents: DatacenterContents) -> PoolPicture:
    """Return the picture of a datacenter of a pool."""
    return PoolPicture(
        PoolName(POOLS.kind, contents.pool.metadata.key),
        POOLS.group,
        families=[_build_family(contents)],
        waiting=order_requests(_list_requests(contents)),
        ready="False" if contents.fault else "True",
        reason=contents.fault,
        part=contents.name,
        not_read=[str(unreadable) for unreadable in contents.unreadable],
    )


def _build_family(contents: DatacenterContents) -> PoolFamily:
    """Return the addresses that a datacenter offers, with their holders, or why it has none."""
    offers, space = _describe_offers(contents), contents.space
    if space is None:
        return PoolFamily(offers, offers, fault=contents.fault)
    usable = [space.get_addresses(blocks) for blocks in space.layout.blocks]
    if not usable:
        fault = "nothing in this datacenter may be handed out"
        return PoolFamily(offers, offers, fault=fault)
    cidr = space.get_addresses(space.layout.cidr)
    settings = contents.pool.spec.datacenters[contents.name]
    return PoolFamily(
        offers,
        cidr.text,
        cidr=cidr,
        usable=usable,
        held_addresses=list(_list_held_addresses(contents, space)),
        compute_capacity=partial(_compute_capacity, contents, space),
        prefix_length=settings.allocationPrefix if space.prefixes else None,
        all_known=not contents.unreadable,
    )


def _describe_offers(contents: DatacenterContents) -> str:
    """Describe the offer of a datacenter by its spec."""
    settings = contents.pool.spec.datacenters[contents.name]
    size = f"/{settings.allocationPrefix}" if settings.allocationPrefix else ""
    return f"{settings.poolCidr}, {size or count_addresses(settings.allocationRange)} each"


def _compute_capacity(contents: DatacenterContents, space: DatacenterSpace) -> Capacity:
    """Return how many blocks are free and used; promised blocks count as used."""
    return Space(space.layout, contents.list_blocks()).compute_capacity()


def _list_held_addresses(
    contents: DatacenterContents, space: DatacenterSpace
) -> Iterator[HeldAddresses]:
    """Yield the addresses that allocations hold or were promised."""
    allocations = {allocation.metadata.key: allocation for allocation in contents.allocations}
    for part in contents.list_held_parts():
        allocation = allocations.get(part.key)
        holder = AddressHolder(
            ALLOCATIONS.kind,
            part.key,
            tenant=contents.clusters.get(part.key.namespace, part.key.namespace),
            purpose=PURPOSE,
            promised=part.state == "promised",
            releasing=allocation is not None and allocation.metadata.is_terminating,
            since=allocation.metadata.creationTimestamp if allocation is not None else None,
        )
        # An address written as ::ffff:a.b.c.d is IPv4. The other family is shown, too.
        addresses: AddressRange = part.range.convert_to_family(space.family) or part.range
        yield HeldAddresses(holder, addresses)


def _list_requests(contents: DatacenterContents) -> Iterator[PoolRequest]:
    """Yield a request for each cluster that waits: it has fewer addresses than it should get."""
    families = (contents.space.family,) if contents.space is not None else ()
    for cluster in contents.waiting:
        yield PoolRequest(
            CLUSTERS.kind,
            Key("", cluster.metadata.name),
            tenant=cluster.metadata.name,
            purpose=PURPOSE,
            since=cluster.metadata.creationTimestamp,
            families=families,
        )
