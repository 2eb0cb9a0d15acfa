"""The offers of IPPools: the addresses that each pool hands out, to find overlaps of pools."""

from reconcilers.integrations.metal3.api import POOLS, Metal3Pool
from reconcilers.integrations.metal3.entries import parse_space
from reconcilers.spaces.offers import PoolName, PoolOffer, build_offers


def make_offers(pool: Metal3Pool) -> tuple[PoolOffer, ...]:
    """Return the offers of a pool, without its entries that cannot be parsed."""
    layouts = parse_space(pool.spec).layouts.values()
    blocks = [block for layout in layouts for block in layout.blocks]
    return build_offers(PoolName(POOLS.kind, pool.metadata.key), blocks)
