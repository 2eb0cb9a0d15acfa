"""IPPools, kept current by watches, to be shown."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

from controller.meta import Key, Object
from controller.resource import Resource
from reconcilers.integrations.clusterapi.api import CONTRACT_VERSIONS, addresses, claims
from reconcilers.integrations.core.live import (
    Live,
    PlatformSource,
    WatchedResource,
    either,
    names_of,
)
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.integrations.metal3.api import KINDS, POOLS, Metal3Pool
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    EitherCaches,
    SideCaches,
    address_indexes,
    claim_indexes,
)
from reconcilers.integrations.metal3.contents import contents_of, make_caches
from reconcilers.integrations.metal3.picture import picture_of
from reconcilers.integrations.metal3.sides import ContractSide, EitherSide, Metal3Side
from reconcilers.spaces.offers import PoolName

T = TypeVar("T", bound=Object)
_CONTRACT = tuple((claims(version), addresses(version)) for version in CONTRACT_VERSIONS)


def make_live(served_kinds: Collection[Resource[Any]], source: PlatformSource) -> Live | None:
    """Return the pools; None where a kind of metal3 is not served."""
    metal3_kinds: Sequence[Resource[Any]] = KINDS
    if not set(metal3_kinds) <= set(served_kinds):
        return None
    sides: list[EitherSide] = [Metal3Side()]
    for claim_kind, address_kind in _CONTRACT:
        if claim_kind in served_kinds and address_kind in served_kinds:
            sides.append(ContractSide(claim_kind, address_kind))
            break
    pools = source.informer(POOLS, POOL_INDEXES)
    watched = [WatchedResource(pools, either(_name_itself))]
    side_caches: list[EitherCaches] = []
    for side in sides:
        of_claims = source.informer(side.claims, claim_indexes(side))
        of_addresses = source.informer(side.addresses, address_indexes(side))
        watched.append(WatchedResource(of_claims, either(_naming(side.pool_of_claim))))
        watched.append(WatchedResource(of_addresses, either(_naming(side.pool_of_address))))
        side_caches.append(
            SideCaches(side, of_claims.cache, addresses=of_addresses.cache, pools=pools.cache)
        )
    caches = make_caches(pools.cache, *side_caches)

    def names() -> list[PoolName]:
        return names_of(POOLS.kind, pools.cache)

    def make_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        del not_read  # a claim says itself whether it waits
        return Views([picture_of(contents) for contents in contents_of(caches, is_wanted)])

    return Live(watched, names, make_views)


def _name_itself(pool: Metal3Pool) -> Iterable[PoolName]:
    return (PoolName(POOLS.kind, pool.metadata.key),)


def _naming(pool_of: Callable[[T], Key | None]) -> Callable[[T], Iterable[PoolName]]:
    """Return a function from an object to the pool that it names."""

    def names_of_object(obj: T) -> Iterable[PoolName]:
        pool = pool_of(obj)
        return () if pool is None else (PoolName(POOLS.kind, pool),)

    return names_of_object
