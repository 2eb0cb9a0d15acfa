"""What is wrong among IPPools, claims and IPAddresses, as findings for people.

metal3's controller may leave two claims with one address behind, and claims whose status names an
IPAddress that does not exist. Such an address is given to nobody until a person decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from controller.meta import Key
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.scopedlists import NotRead, is_left_out
from reconcilers.integrations.core.views import Trouble, unreadable_troubles
from reconcilers.integrations.metal3.api import POOL, POOLS
from reconcilers.integrations.metal3.caches import Metal3Caches, SideCaches
from reconcilers.integrations.metal3.contents import IPPoolContents
from reconcilers.integrations.metal3.picture import NOTHING, picture_of
from reconcilers.integrations.metal3.sides import AddressT, ClaimT
from reconcilers.pictures.extents import AddressState


def audit(
    caches: Metal3Caches,
    contents: Iterable[IPPoolContents],
    unreadable: Mapping[tuple[str, Key], str],
    not_read: Sequence[NotRead] = (),
) -> Iterator[Trouble]:
    """Yield everything that is wrong.

    Args:
        caches: the objects.
        contents: the pools with their contents.
        unreadable: objects that could not be decoded, by kind and key, with the reason.
        not_read: what the user may not read; an object that may be among it is not missing.
    """
    yield from unreadable_troubles(unreadable)
    for content in contents:
        yield from _of_pool(content)
        for side in caches.sides.values():
            yield from _of_statuses(content, side, not_read)
    for side in caches.sides.values():
        yield from _of_missing_pools(caches, side, not_read)


def _of_pool(content: IPPoolContents) -> Iterator[Trouble]:
    """Yield addresses that several claims hold, and addresses outside of the entries."""
    key = content.pool.metadata.key
    if not content.space.entries:
        yield Trouble(
            "InvalidPool",
            "error",
            subject=POOLS.kind,
            key=key,
            sentence=f"hands out nothing: {NOTHING}",
        )
        return
    for family in picture_of(content).families:
        for extent in family.extents:
            if not extent.holders:
                continue
            *others, last = extent.holders
            address = extent.range.start_text
            if extent.state is AddressState.OVERLAP:
                holder_names = ", ".join(other.text for other in others)
                sentence = (
                    f"holds {address} of {POOL} {key}, which {holder_names} has, too; delete the"
                    " claim whose machine does not use the address"
                )
                yield Trouble(
                    "Overlap", "error", subject=last.kind, key=last.key, sentence=sentence
                )
            elif extent.state is AddressState.STRAY:
                sentence = f"holds {address}, which {POOL} {key} does not hand out"
                yield Trouble(
                    "OutOfRange", "warning", subject=last.kind, key=last.key, sentence=sentence
                )


def _of_statuses(
    content: IPPoolContents, side: SideCaches[ClaimT, AddressT], not_read: Sequence[NotRead]
) -> Iterator[Trouble]:
    """Yield claims whose status names an IPAddress that is missing, or another claim's."""
    pool = content.pool.metadata.key
    for claim in side.claims.by_index(SPACE_INDEX, str(pool)):
        name, key = side.side.address_name(claim), claim.metadata.key
        if not name or not side.side.holds(claim):
            continue
        kind, address_key = side.side.claims.kind, Key(key.namespace, name)
        address = side.addresses.get(address_key)
        is_unknown = address_key in side.addresses.unreadable or is_left_out(
            side.side.addresses, address_key, not_read
        )
        if address is None and not is_unknown:
            if not content.space.addresses_named(name):
                sentence = (
                    f"its status names IPAddress {name}, which does not exist and whose name tells"
                    " no address; delete the claim, or create the IPAddress"
                )
                yield Trouble("Dangling", "error", subject=kind, key=key, sentence=sentence)
        elif address is not None and side.side.claim_of_address(address) != key:
            sentence = (
                f"its status names IPAddress {name}, which is of"
                f" {side.side.claim_of_address(address)}; delete the claim whose machine does not"
                " use the address"
            )
            yield Trouble("Overlap", "error", subject=kind, key=key, sentence=sentence)


def _of_missing_pools(
    caches: Metal3Caches, side: SideCaches[ClaimT, AddressT], not_read: Sequence[NotRead]
) -> Iterator[Trouble]:
    """Yield the claims whose pool does not exist."""
    for claim in sorted(side.claims, key=lambda claim: claim.metadata.key):
        pool, key = side.side.pool_of_claim(claim), claim.metadata.key
        if pool is None or pool in caches.pools or pool in caches.pools.unreadable:
            continue
        if not is_left_out(POOLS, pool, not_read):
            sentence = f"names {POOL} {pool}, which does not exist; it waits"
            yield Trouble(
                "UnknownPool", "error", subject=side.side.claims.kind, key=key, sentence=sentence
            )
