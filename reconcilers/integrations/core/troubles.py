"""What is wrong with pools and requests, in the same words for all integrations."""

from collections.abc import Callable, Iterable, Iterator

from controller.meta import Key, Object
from reconcilers.integrations.core.views import Trouble
from reconcilers.pictures.extents import AddressHolder, AddressState, Extent
from reconcilers.spaces.offers import PoolName

OVERLAP = "Overlap"
"""Kind of the trouble that two objects hold one address."""


def build_invalid_pool_trouble(pool: PoolName, fault: str, seen: Object | None = None) -> Trouble:
    """Return the trouble that a pool has an invalid spec.

    Args:
        fault: what is wrong with the spec.
        seen: the pool as it was read, so that the finding can show its version.
    """
    sentence = f"hands out nothing: {fault}"
    return Trouble(
        "InvalidPool", "error", subject=pool.kind, key=pool.key, sentence=sentence, seen=seen
    )


def build_unknown_pool_trouble(
    subject: str, key: Key, pool: PoolName, seen: Object | None = None
) -> Trouble:
    """Return the trouble that a request names a pool that does not exist.

    Args:
        subject: the kind of the request.
        key: of the request.
        seen: the request as it was read, so that the finding can show its version.
    """
    sentence = f"names {pool.kind} {pool.key}, which does not exist; it waits"
    return Trouble("UnknownPool", "error", subject=subject, key=key, sentence=sentence, seen=seen)


def list_extent_troubles(
    pool: PoolName,
    extents: Iterable[Extent],
    find_removable: Callable[[AddressHolder], Object | None],
    *,
    advice: str = "",
) -> Iterator[Trouble]:
    """Yield a trouble for each range of a pool that several objects hold, or that is outside.

    The trouble is one of the last holder; its sentence names the first address of the range.

    Args:
        extents: the ranges of the pool, with their states and holders.
        find_removable: returns the object of a holder whose deletion ends an overlap; None if
            there is no such object.
        advice: appended to the sentence about an address with several holders; it begins with a
            semicolon.
    """
    for extent in extents:
        # A free or reserved range.
        if not extent.holders:
            continue
        *other_holders, last_holder = extent.holders
        address = extent.range.start_text
        if extent.state is AddressState.OVERLAP:
            names = ", ".join(holder.text for holder in other_holders)
            sentence = f"holds {address} of {pool.kind} {pool.key}, which {names} has, too{advice}"
            removable = find_removable(last_holder)
            yield Trouble(
                OVERLAP,
                "error",
                subject=last_holder.kind,
                key=last_holder.key,
                sentence=sentence,
                seen=removable,
                removable=removable is not None,
            )
        elif extent.state is AddressState.STRAY:
            sentence = f"holds {address}, which {pool.kind} {pool.key} does not hand out"
            yield Trouble(
                "OutOfRange",
                "warning",
                subject=last_holder.kind,
                key=last_holder.key,
                sentence=sentence,
            )
