"""The offers of IPAMPools: the addresses that each datacenter of a pool hands out.

Offers of pools of all kinds have one form, so that overlaps between pools are found. Each
datacenter is a site: different datacenters may have the same addresses, and do not overlap.
"""

from collections.abc import Iterator

from allocator import InvalidPool
from reconcilers.integrations.kubermatic.api import POOLS, IPAMPool
from reconcilers.integrations.kubermatic.spaces import parse_space
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName, PoolOffer, Site, build_offers

PLATFORM = "kubermatic"


def make_offers(pool: IPAMPool) -> tuple[PoolOffer, ...]:
    """Return the offers of a pool's datacenters, without those whose settings are invalid."""
    return tuple(offer for name in pool.spec.datacenters for offer in make_offers_in(pool, name))


def make_offers_in(pool: IPAMPool, datacenter: str) -> tuple[PoolOffer, ...]:
    """Return the offers of one datacenter of a pool; empty if its settings are invalid."""
    try:
        space = parse_space(pool.spec.datacenters[datacenter])
    except InvalidPool:
        return ()  # the pass over the pool records an event that says why
    return build_offers(
        PoolName(POOLS.kind, pool.metadata.key),
        map(space.get_addresses, space.layout.blocks),
        part=datacenter,
        site=Site(PLATFORM, datacenter),
    )


def list_shared_addresses(pool: IPAMPool, spaces: SpaceIndex) -> Iterator[str]:
    """Yield a sentence for each datacenter of a pool whose addresses other pools hand out, too."""
    for datacenter in pool.spec.datacenters:
        if sentence := spaces.find_sharing(make_offers_in(pool, datacenter)).sentence:
            yield f"datacenter {datacenter}: {sentence}"
