"""Keep the views of pools of claims current by watches.

Clusters are not watched: views show only their names, which claims have.
"""

from collections.abc import Collection, Iterable, Sequence

from controller.cache import Cache
from controller.meta import Object
from controller.resource import Resource
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.api import IPAddress, IPAddressClaim
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    PoolCache,
    find_pool_kind,
    get_pool_key,
    list_spaces,
)
from reconcilers.integrations.clusterapi.contents import list_contents
from reconcilers.integrations.clusterapi.contractkinds import pick_contract_kinds
from reconcilers.integrations.clusterapi.picture import make_views
from reconcilers.integrations.core.live import (
    LivePlatform,
    PlatformSource,
    list_pool_names,
    make_pool_lister,
    watch_pools,
    watch_resource,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.spaces.offers import PoolName

_BY_POOL = {SPACE_INDEX: list_spaces}


def make_live_platform(
    served_kinds: Collection[Resource[Object]], source: PlatformSource
) -> LivePlatform | None:
    """Return the live views of pools of claims; None if claims or IPAddresses are not served."""
    contract = pick_contract_kinds(served_kinds)
    claim_kind, address_kind = contract.claims, contract.addresses
    if claim_kind is None or address_kind is None:
        return None
    claims = source.make_informer(claim_kind, _BY_POOL)
    addresses = source.make_informer(address_kind, _BY_POOL)
    pools = {
        kind.kind: source.make_informer(kind, {}) for kind in api.POOLS if kind in served_kinds
    }
    # A kind of pools that is not served has an empty cache: it has no pools.
    by_kind: dict[str, PoolCache] = {kind.kind: Cache(kind) for kind in api.POOLS}
    by_kind |= {kind: informer.cache for kind, informer in pools.items()}
    by_kind[NETWORK_POOL.kind] = source.networkpools
    caches = ClaimCaches(
        claims.cache,
        addresses.cache,
        clusters=None,
        pools=by_kind,
        claim_kind=claim_kind,
        address_kind=address_kind,
    )

    def list_names() -> list[PoolName]:
        """Return the pools of the in-cluster provider's kinds, in order."""
        return [
            name for kind in api.POOLS for name in list_pool_names(kind.kind, by_kind[kind.kind])
        ]

    def make_wanted_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        """Return the views of the wanted pools, with what claims hold of NetworkPools."""
        return make_views(list(list_contents(caches, is_wanted)), not_read)

    return LivePlatform(
        [
            watch_resource(claims, make_pool_lister(_name_pool)),
            watch_resource(addresses, make_pool_lister(_name_pool)),
            *map(watch_pools, pools.values()),
        ],
        list_names,
        make_wanted_views,
    )


def _name_pool(obj: IPAddressClaim | IPAddress) -> Iterable[PoolName]:
    """Return the pool that a claim or an IPAddress names; empty for a kind not served here."""
    kind = find_pool_kind(obj.spec.poolRef)
    return () if kind is None else (PoolName(kind.kind, get_pool_key(kind, obj)),)
