"""The offers of Cluster API's pools: the addresses that each pool hands out.

Offers of pools of all kinds have one form, so that overlaps between pools are found.
"""

from collections.abc import Iterator

from allocator import AddressRange, InvalidPool
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.clusterapi.addresses import PoolSpace, to_addresses
from reconcilers.integrations.clusterapi.api import Pool
from reconcilers.integrations.clusterapi.caches import parse_geometry
from reconcilers.spaces.offers import PoolName, PoolOffer, build_offers


def make_offers(kind: Resource[Object], pool: Pool) -> tuple[PoolOffer, ...]:
    """Return the offers of a pool; empty if its spec is invalid.

    Args:
        kind: of the pool; not NetworkPool, which has its own rules.
    """
    try:
        space = parse_geometry(pool)
    except InvalidPool:
        return ()  # its Ready condition says why
    return build_offers(PoolName(kind.kind, pool.metadata.key), _list_addresses(space))


def _list_addresses(space: PoolSpace) -> Iterator[AddressRange]:
    """Yield the addresses of the blocks that a pool hands out."""
    for blocks in space.layout.blocks:
        yield to_addresses(space, blocks)
