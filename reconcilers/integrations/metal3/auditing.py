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
from reconcilers.integrations.metal3.caches import IPPoolClaimCaches, Metal3Caches
from reconcilers.integrations.metal3.claimformats import AddressT, ClaimT, EitherClaim
from reconcilers.integrations.metal3.contents import IPPoolContents
from reconcilers.integrations.metal3.picture import NOTHING, make_picture
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
        for claim_caches in caches.claim_caches_by_kind.values():
            yield from claim_caches.visit(partial(_audit_statuses, content, not_read))
    for claim_caches in caches.claim_caches_by_kind.values():
        yield from claim_caches.visit(partial(_audit_missing_pools, caches, not_read))


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
    """Return the claim that holds an address; None if it does not exist any more."""
    caches_of_kind = (
        claim_caches
        for claim_caches in caches.claim_caches_by_kind.values()
        if claim_caches.claim_format.claims.kind == holder.kind
    )
    return next((claim_caches.claims.get(holder.key) for claim_caches in caches_of_kind), None)


def _audit_statuses(
    content: IPPoolContents,
    not_read: Sequence[NotRead],
    claim_caches: IPPoolClaimCaches[ClaimT, AddressT],
    /,
) -> Iterator[Trouble]:
    """Yield a trouble for each claim whose status names an IPAddress that does not name the claim.

    The IPAddress names another claim, or no claim, or it is missing and its name contains no
    address of the pool. A missing IPAddress whose name contains an address is no trouble, because
    the controller recreates it. An IPAddress that cannot be read is no trouble either.

    Args:
        content: the pool.
        not_read: the lists that the user may not read.
        claim_caches: the caches of one kind of claims and of its IPAddresses.
    """
    pool, claim_format = content.pool.metadata.key, claim_caches.claim_format
    kind = claim_format.claims.kind
    for claim in claim_caches.claims.list_by_index(SPACE_INDEX, str(pool)):
        name, key = claim_format.get_address_name(claim), claim.metadata.key
        if not name or not claim_format.has_address(claim):
            continue  # the claim has no address
        address_key = Key(key.namespace, name)
        address = claim_caches.addresses.get(address_key)
        if address is None:
            may_exist = address_key in claim_caches.addresses.unreadable or is_left_out(
                claim_format.addresses, address_key, not_read
            )
            if not may_exist and not content.space.find_named_addresses(name):
                sentence = (
                    f"its status names IPAddress {name}, which does not exist and whose name tells"
                    " no address; delete the claim, or create the IPAddress"
                )
                yield _make_trouble("Dangling", claim, kind=kind, sentence=sentence)
            continue
        owner = claim_format.find_claim_of_address(address)
        if owner is None:
            sentence = (
                f"its status names IPAddress {name}, which names no claim; name the claim in the"
                " IPAddress, or delete the claim"
            )
            yield _make_trouble("Dangling", claim, kind=kind, sentence=sentence)
        elif owner != key:
            sentence = f"its status names IPAddress {name}, which is of {owner}; {_DELETE_ONE}"
            yield _make_trouble(OVERLAP, claim, kind=kind, sentence=sentence)


def _make_trouble(trouble: str, claim: EitherClaim, *, kind: str, sentence: str) -> Trouble:
    """Return a trouble of a claim whose deletion ends it."""
    key = claim.metadata.key
    return Trouble(
        trouble, "error", subject=kind, key=key, sentence=sentence, seen=claim, removable=True
    )


def _audit_missing_pools(
    caches: Metal3Caches,
    not_read: Sequence[NotRead],
    claim_caches: IPPoolClaimCaches[ClaimT, AddressT],
    /,
) -> Iterator[Trouble]:
    """Yield the claims whose pool does not exist."""
    for claim in sorted(claim_caches.claims, key=lambda claim: claim.metadata.key):
        pool, key = claim_caches.claim_format.find_pool_of_claim(claim), claim.metadata.key
        if pool is None or pool in caches.pools or pool in caches.pools.unreadable:
            continue
        if not is_left_out(POOLS, pool, not_read):
            yield build_unknown_pool_trouble(
                claim_caches.claim_format.claims.kind, key, PoolName(POOLS.kind, pool)
            )
