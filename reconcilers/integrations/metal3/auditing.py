"""What is wrong among IPPools, claims and IPAddresses, as findings for people.

metal3's controller may have given one address to two claims. It may also have left claims whose
status names an IPAddress that does not exist. No claim gets such an address until a person has
corrected that.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.troubles import (
    OVERLAP,
    build_invalid_pool_trouble,
    build_unknown_pool_trouble,
    list_extent_troubles,
)
from reconcilers.integrations.core.views import Trouble
from reconcilers.integrations.metal3.api import POOLS
from reconcilers.integrations.metal3.caches import Metal3Caches, SideCaches
from reconcilers.integrations.metal3.contents import IPPoolContents
from reconcilers.integrations.metal3.picture import NOTHING, make_picture
from reconcilers.integrations.metal3.sides import AddressT, ClaimT, EitherClaim
from reconcilers.pictures.extents import AddressHolder
from reconcilers.spaces.offers import PoolName

_DELETE_ONE = "delete the claim whose machine does not use the address"


def audit(
    caches: Metal3Caches,
    contents: Iterable[IPPoolContents],
    not_read: Sequence[NotRead] = (),
) -> Iterator[Trouble]:
    """Yield the troubles of all pools and claims.

    Args:
        caches: the objects.
        contents: the pools with their contents.
        not_read: the objects that the user may not read; they do not count as missing.
    """
    for content in contents:
        yield from _audit_pool(content)
        for side in caches.sides.values():
            yield from side.visit(partial(_audit_statuses, content, not_read))
    for side in caches.sides.values():
        yield from side.visit(partial(_audit_missing_pools, caches, not_read))


def _audit_pool(content: IPPoolContents) -> Iterator[Trouble]:
    """Yield the troubles of a pool: addresses that several claims hold or that are outside of it.

    A pool without any valid entry has only the trouble that it is invalid. The deletion of a claim
    ends an overlap, once its machine is gone.
    """
    pool = PoolName(POOLS.kind, content.pool.metadata.key)
    if not content.space.entries:
        yield build_invalid_pool_trouble(pool, NOTHING)
        return
    for family in make_picture(content).families:
        yield from list_extent_troubles(
            pool,
            family.extents,
            partial(_find_claim, content.caches),
            advice=f"; {_DELETE_ONE}",
        )


def _find_claim(caches: Metal3Caches, holder: AddressHolder) -> EitherClaim | None:
    """Return the claim that a holder is; None if only IPAddresses name it."""
    kinds = (side for side in caches.sides.values() if side.side.claims.kind == holder.kind)
    return next((side.claims.get(holder.key) for side in kinds), None)


def _audit_statuses(
    content: IPPoolContents,
    not_read: Sequence[NotRead],
    side_caches: SideCaches[ClaimT, AddressT],
    /,
) -> Iterator[Trouble]:
    """Yield the troubles of claims whose status names an IPAddress that is not theirs.

    The IPAddress is another claim's, or no claim's, or it is missing and its name tells no
    address. If the name tells the address, the controller recreates the IPAddress, so that is no
    trouble. An IPAddress that cannot be read is not judged.

    Args:
        content: the pool.
        not_read: the lists that the user may not read.
        side_caches: the caches of one kind of claims and of its IPAddresses.
    """
    pool = content.pool.metadata.key
    for claim in side_caches.claims.by_index(SPACE_INDEX, str(pool)):
        name, key = side_caches.side.address_name(claim), claim.metadata.key
        if not name or not side_caches.side.holds(claim):
            continue  # it has no address
        kind, address_key = side_caches.side.claims.kind, Key(key.namespace, name)
        address = side_caches.addresses.get(address_key)
        is_unknown = address_key in side_caches.addresses.unreadable or is_left_out(
            side_caches.side.addresses, address_key, not_read
        )
        if address is None and not is_unknown:
            if not content.space.find_named_addresses(name):
                sentence = (
                    f"its status names IPAddress {name}, which does not exist and whose name tells"
                    " no address; delete the claim, or create the IPAddress"
                )
                yield _make_trouble("Dangling", claim, kind=kind, sentence=sentence)
        elif address is not None and (owner := side_caches.side.claim_of_address(address)) != key:
            if owner is not None:
                sentence = f"its status names IPAddress {name}, which is of {owner}; {_DELETE_ONE}"
                yield _make_trouble(OVERLAP, claim, kind=kind, sentence=sentence)
                continue
            sentence = (
                f"its status names IPAddress {name}, which names no claim; name the claim in the"
                " IPAddress, or delete the claim"
            )
            yield _make_trouble("Dangling", claim, kind=kind, sentence=sentence)


def _make_trouble(trouble: str, claim: EitherClaim, *, kind: str, sentence: str) -> Trouble:
    """Return a trouble of a claim whose deletion ends it."""
    key = claim.metadata.key
    return Trouble(
        trouble, "error", subject=kind, key=key, sentence=sentence, seen=claim, removable=True
    )


def _audit_missing_pools(
    caches: Metal3Caches, not_read: Sequence[NotRead], side_caches: SideCaches[ClaimT, AddressT], /
) -> Iterator[Trouble]:
    """Yield the claims whose pool does not exist."""
    for claim in sorted(side_caches.claims, key=lambda claim: claim.metadata.key):
        pool, key = side_caches.side.pool_of_claim(claim), claim.metadata.key
        if pool is None or pool in caches.pools or pool in caches.pools.unreadable:
            continue
        if not is_left_out(POOLS, pool, not_read):
            yield build_unknown_pool_trouble(
                side_caches.side.claims.kind, key, PoolName(POOLS.kind, pool)
            )
