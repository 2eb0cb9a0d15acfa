"""The offers of Cluster API's pools: the addresses that each pool hands out.

Offers of pools of all kinds have one form, so that overlaps between pools are found.
"""

from collections.abc import Iterator

from allocator import AddressRange, InvalidPool
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace, addresses_of
from reconcilers.integrations.clusterapi.api import Pool
from reconcilers.integrations.clusterapi.caches import geometry_of
from reconcilers.spaces.offers import PoolName, PoolOffer, offer_of


def offers_of(kind: Resource[Object], pool: Pool) -> tuple[PoolOffer, ...]:
    """Return the offers of a pool; empty if its spec is invalid.

    Args:
        kind: of the pool; not NetworkPool, which has its own rules.
    """
    try:
        space = geometry_of(pool)
    except InvalidPool:
        return ()  # its Ready condition says why
    return offer_of(PoolName(kind.kind, pool.metadata.key), _addresses(space))


def _addresses(space: PoolSpace) -> Iterator[AddressRange]:
    """Yield the addresses of the blocks that a pool hands out."""
    for blocks in space.layout.blocks:
        yield addresses_of(space, blocks)
