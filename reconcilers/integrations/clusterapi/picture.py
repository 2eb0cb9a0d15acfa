"""The picture of a pool of claims, and what claims hold of a NetworkPool.

A *picture* is what commands and pages draw: the CIDR of a pool with the holder of each address.
The addresses are computed in blocks: a block is what the pool hands out to one claim.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from allocator import Capacity, Family, Space
from controller.conditions import find_condition
from controller.meta import Key
from reconcilers.addressing import addresstexts
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi.addresses import (
    compute_smallest_cidr,
    compute_subnet,
    to_addresses,
)
from reconcilers.integrations.clusterapi.api import ADDRESSES, IPAddressClaim
from reconcilers.integrations.clusterapi.contents import ADDRESS, CLAIM, PoolContents
from reconcilers.integrations.clusterapi.statuses import read_record
from reconcilers.integrations.core.heldparts import compute_capacity_with
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.views import Views
from reconcilers.pictures.extents import AddressHolder, HeldAddresses, Reserved
from reconcilers.pictures.poolpicture import (
    PoolFamily,
    PoolHolders,
    PoolPicture,
    PoolRequest,
    order_requests,
)
from reconcilers.promises.holdings import Holdings
from reconcilers.reporting.conditions import READY
from reconcilers.spaces.offers import PoolName

PURPOSE = "claim"
"""The use of the addresses of claims, as people read it."""


def make_picture(contents: PoolContents, not_read: Sequence[NotRead] = ()) -> PoolPicture:
    """Return the picture of a pool that is not a NetworkPool.

    Args:
        contents: the pool with its contents.
        not_read: the kinds that the user may not read. A claim that names an IPAddress of such a
            kind is not shown as waiting.
    """
    pool = contents.pool
    assert not isinstance(pool, NetworkPool), "the picture of a NetworkPool has IPAllocations"
    family = _make_family(contents, ", ".join(pool.spec.entries))
    status, reason = "Unknown", "its definition has no conditions, or it was not reconciled"
    if ready := find_condition(pool.status.conditions, READY):
        status, reason = ready.status, ready.message
    if contents.space is None:
        status, reason = "False", contents.fault
    return PoolPicture(
        PoolName(contents.kind.kind, pool.metadata.key),
        contents.kind.group,
        families=[family],
        waiting=order_requests(_list_waiting(contents, not_read)),
        ready=status,
        reason=reason,
        # The caller adds the kinds that the user may not read (`with_not_read`).
        not_read=[str(unreadable) for unreadable in contents.unreadable],
    )


def make_pool_holders(contents: PoolContents, not_read: Sequence[NotRead] = ()) -> PoolHolders:
    """Return the addresses that claims and IPAddresses hold of a pool, and waiting claims."""
    return PoolHolders(list(_list_held(contents)), list(_list_waiting(contents, not_read)))


def make_views(contents: Sequence[PoolContents], not_read: Sequence[NotRead] = ()) -> Views:
    """Return the pictures of pools, and the addresses that claims hold of NetworkPools.

    NetworkPools get no picture here, because their picture also contains IPAllocations.

    Args:
        contents: the contents of each pool.
        not_read: the kinds that the user may not read.
    """
    of_network_pools = [of_pool for of_pool in contents if of_pool.kind == NETWORK_POOL]
    return Views(
        [make_picture(of_pool, not_read) for of_pool in contents if of_pool.kind != NETWORK_POOL],
        holders={
            of_pool.pool.metadata.key: make_pool_holders(of_pool, not_read)
            for of_pool in of_network_pools
        },
        unreadable={
            of_pool.pool.metadata.key: of_pool.unreadable
            for of_pool in of_network_pools
            if of_pool.unreadable
        },
    )


def _make_family(contents: PoolContents, offers: str) -> PoolFamily:
    """Return the addresses of a pool for its picture: the usable, reserved and held addresses.

    The pool has no CIDR in its spec. The picture shows the smallest CIDR that contains all usable
    addresses and, if the gateway is in the pool's subnet, the gateway.

    Args:
        offers: the addresses or prefixes of the spec, as text.
    """
    space, holdings = contents.space, contents.holdings
    if space is None or holdings is None:
        return PoolFamily(offers, offers, fault=contents.fault)
    usable = [to_addresses(space, blocks) for blocks in Space(space.layout).free_extents()]
    if not usable:
        return PoolFamily(offers, offers, fault="nothing in this pool may be handed out")
    gateway = addresstexts.parse_ends(space.gateway, space.gateway) if space.gateway else None
    ends = [usable[0].first, usable[-1].last]
    reserved: list[Reserved] = []
    if gateway is not None and compute_subnet(ends[0], space.prefix, gateway.family).contains(
        gateway
    ):
        ends.append(gateway.first)
        reserved.append(Reserved(gateway, "gateway"))
    cidr = compute_smallest_cidr(min(ends), max(ends), space.family)
    return PoolFamily(
        offers,
        cidr.text,
        cidr=cidr,
        usable=usable,
        reserved=reserved,
        held_addresses=list(_list_held(contents)),
        compute_capacity=partial(_compute_capacity, contents, holdings),
        prefix_length=space.prefix if space.has_prefix_blocks else None,
        owns_cidr=False,
        all_known=not contents.unreadable,
    )


def _compute_capacity(contents: PoolContents, holdings: Holdings) -> Capacity:
    """Return the capacity of a pool, in blocks; promised blocks count as held."""
    states = contents.holder_states.items()
    promised = [
        block_range for block_range, by_holder in states if "promised" in by_holder.values()
    ]
    return compute_capacity_with(holdings.get_space(), promised)


def _list_held(contents: PoolContents) -> Iterator[HeldAddresses]:
    """Yield the addresses that claims and IPAddresses hold, of either family.

    Yield nothing for a pool with an invalid spec, because its blocks are unknown.
    """
    if contents.space is None:
        return
    for blocks, states in contents.holder_states.items():
        addresses = to_addresses(contents.space, blocks)
        for key in sorted(states):
            yield HeldAddresses(_make_holder(contents, key, states[key]), addresses)
    for key, ranges in contents.other_family_ranges.items():
        yield from (HeldAddresses(_make_holder(contents, key, "held"), part) for part in ranges)


def _make_holder(contents: PoolContents, key: Key, state: str) -> AddressHolder:
    """Return the holder of an address, as a picture shows it.

    Args:
        key: the key of the claim, or of an IPAddress without a claim.
        state: "held", "promised" or "resting".
    """
    claim, source = contents.claims.get(key), contents.find_holder(key)
    return AddressHolder(
        CLAIM if claim is not None else ADDRESS,
        key,
        tenant=_find_tenant(claim, key),
        purpose=PURPOSE,
        promised=state == "promised",
        releasing=state == "resting" or source.metadata.is_terminating,
        since=source.metadata.creationTimestamp,
    )


def _find_tenant(claim: IPAddressClaim | None, key: Key) -> str:
    """Return the Cluster of a claim; without claim or Cluster, the key of the holder."""
    return str((claim.cluster if claim is not None else None) or key)


def _list_waiting(contents: PoolContents, not_read: Sequence[NotRead]) -> Iterator[PoolRequest]:
    """Yield the claims that wait for an address, with the reason why they wait."""
    holders = {key for states in contents.holder_states.values() for key in states}
    holders.update(contents.other_family_ranges)
    families: tuple[Family, ...] = (contents.space.family,) if contents.space is not None else ()
    for key, claim in contents.claims.items():
        # The claim has its address, or is being deleted and gets no address any more.
        if key in holders or read_record(claim) is not None or claim.metadata.is_terminating:
            continue
        address_key = Key(key.namespace, claim.address_name)
        # The claim may have its address: the user may not read the IPAddress that it names.
        if claim.address_name and is_left_out(ADDRESSES, address_key, not_read):
            continue
        ready = find_condition(claim.status.conditions, READY)
        yield PoolRequest(
            CLAIM,
            key,
            tenant=_find_tenant(claim, key),
            purpose=PURPOSE,
            since=claim.metadata.creationTimestamp,
            reason=ready.message if ready is not None else "not looked at yet",
            families=families,
        )
