"""Offers for tests."""

from allocator import AddressRange
from controller.meta import Key
from reconcilers.spaces.offers import ANYWHERE, PoolName, PoolOffer, Site


def offer(
    pool: str, *texts: str, part: str = "", site: Site = ANYWHERE, kind: str = "NetworkPool"
) -> PoolOffer:
    """Return an offer of a pool.

    Args:
        pool: `namespace/name`, or the name alone of a pool of the whole cluster.
        texts: first and last addresses, with a dash between them.
        part: the part of the pool.
        site: where the addresses are used.
        kind: of the pool.
    """
    namespace, _, name = pool.rpartition("/")
    ranges = tuple(AddressRange.parse(*span.split("-")) for span in texts)
    return PoolOffer(PoolName(kind, Key(namespace, name)), ranges, part=part, site=site)
