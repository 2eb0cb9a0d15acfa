"""Which claims hold which addresses of a NetworkPool, by name: for refusals and conditions.

A claim holds up to three addresses, which are usually the same:

    its record       the address in its status; while its IPAddress is recreated, in an annotation
    its IPAddress    the address of the IPAddress that names the claim
    its promise      the address that the pool's journal reserves for the claim
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from allocator import AddressRange, AllocatorError
from controller.client import Client
from controller.codec import Page
from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import (
    CLAIM_KIND,
    CONTRACT_VERSIONS,
    IPAddress,
    IPAddressClaim,
)
from reconcilers.integrations.clusterapi.caches import (
    CONTRACT_FIELDS,
    ClaimPool,
    find_pool_name,
    get_promised_address,
)
from reconcilers.integrations.clusterapi.statuses import read_record, read_restored_record
from reconcilers.integrations.core.claimreading import check_readable
from reconcilers.integrations.core.discovery import ServedKindsLook
from reconcilers.networkpool.otherholders import HeldRange, OtherHoldings
from reconcilers.networkpool.statusjournal import STATUS_JOURNALS
from reconcilers.promises.identities import Holder
from reconcilers.promises.settling import settle
from reconcilers.promises.unreadable import find_unreadable

R = TypeVar("R", bound=Object)


@dataclass(frozen=True, slots=True)
class _ListedClaims:
    """The claims of a pool, as the function `settle` reads them.

    Args:
        position: the revision up to which the claims were read.
        claims: the claims that name the pool, by key.
        unreadable: the claims that exist and cannot be decoded.
    """

    position: int
    claims: dict[Key, IPAddressClaim]
    unreadable: Container[Key]

    def find(self, holder: Holder) -> IPAddressClaim | None:
        """Return the claim of a holder; None if it was not read."""
        return self.claims.get(holder.key)


def list_held_ranges(
    pool: NetworkPool,
    claims: Iterable[IPAddressClaim],
    addresses: Iterable[IPAddress],
    position: int,
    *,
    unreadable: Container[Key] = frozenset(),
) -> list[HeldRange]:
    """Return the ranges that claims hold of a pool or were promised, with the names of the claims.

    Args:
        pool: the pool, with its journal.
        claims: the claims that name the pool.
        addresses: the IPAddresses that name the pool.
        position: the revision up to which the claims were read.
        unreadable: the claims that cannot be decoded.
    """
    by_key = {claim.metadata.key: claim for claim in claims}
    holdings: set[HeldRange] = set()

    def add(holder: str, address_text: str) -> None:
        """Add the address of a holder to the holdings."""
        try:
            holdings.add(HeldRange(holder, AddressRange.parse(address_text, address_text)))
        except AllocatorError:
            return  # a person wrote a text that is no address, so it holds none

    for key, claim in by_key.items():
        record = read_record(claim) or read_restored_record(claim)
        if record is not None:
            add(_name_claim(key), record.address)
    for address in addresses:
        key, claim_name = address.metadata.key, address.spec.claimRef.name
        holder = _name_claim(Key(key.namespace, claim_name)) if claim_name else f"IPAddress {key}"
        add(holder, address.spec.address)
    # A promise that is over is dropped: the record of its claim has the address, or it is void.
    journal = STATUS_JOURNALS.read(pool)
    listed_claims = _ListedClaims(position, by_key, unreadable)
    for promise in settle(journal, CLAIM_KIND, listed_claims).promises:
        if promise.kind == CLAIM_KIND:
            add(_name_claim(promise.key), get_promised_address(promise).start_text)
    return sorted(holdings, key=_make_sort_key)


async def list_holdings(client: Client, pool: NetworkPool) -> OtherHoldings:
    """Return the holdings of claims in a pool, with promises, by lists that begin now.

    Args:
        client: for the lists.
        pool: the pool, with its journal.

    Raises:
        DiscoveryIncomplete: it is not known whether claims or IPAddresses are served.
        ControllerError: a list failed.
    """
    key, namespace = pool.metadata.key, pool.metadata.namespace
    look = ServedKindsLook(client)
    claim_kind = await look.find_first_served(map(api.get_claim_kind, CONTRACT_VERSIONS))
    address_kind = await look.find_first_served(map(api.get_address_kind, CONTRACT_VERSIONS))
    # A kind that only seems absent may have objects that hold addresses.
    if claim_kind is None or address_kind is None:
        look.check_complete()
    if claim_kind is None and address_kind is None:
        # No promise is settled, so all of them count.
        ranges = list_held_ranges(pool, (), addresses=(), position=0)
        return OtherHoldings(tuple(ranges), kinds=frozenset({CLAIM_KIND}))
    # Even if only one of the two kinds is served, its objects hold addresses.
    claims = await _list_served(client, claim_kind, namespace)
    addresses = await _list_served(client, address_kind, namespace)
    name = ClaimPool(NETWORK_POOL, key)
    ranges = list_held_ranges(
        pool,
        [claim for claim in claims.items if find_pool_name(claim) == name],
        addresses=[address for address in addresses.items if find_pool_name(address) == name],
        position=claims.revision,
        unreadable=claims.unreadable.keys(),
    )
    unreadable = find_unreadable(
        partial(
            check_readable,
            CONTRACT_FIELDS,
            name,
            claims.unreadable,
            addresses.unreadable,
        )
    )
    return OtherHoldings(tuple(ranges), unreadable, frozenset({CLAIM_KIND}))


async def _list_served(client: Client, kind: Resource[R] | None, namespace: str) -> Page[R]:
    """Return the objects of a kind; none if the kind is not served."""
    if kind is None:
        return Page((), 0, {})
    return await client.list(kind, namespace=namespace)


def _name_claim(key: Key) -> str:
    """Return the name of a claim as a holder, for refusals and conditions."""
    return f"IPAddressClaim {key}"


def _make_sort_key(holding: HeldRange) -> tuple[int, int, str]:
    """Return a sort key: by family, first address and name of the holder."""
    return holding.range.family, holding.range.first, holding.holder
