"""Keep the views of IPPools current by watches."""

from collections.abc import Collection, Sequence
from functools import partial

from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.clusterapi.contractkinds import pick_contract_kinds
from reconcilers.integrations.core.live import (
    LivePlatform,
    PlatformSource,
    list_pool_names,
    watch_holders,
    watch_pools,
)
from reconcilers.integrations.core.scopedlists import NotRead
from reconcilers.integrations.core.views import Views, Wanted
from reconcilers.integrations.metal3.api import KINDS, POOLS
from reconcilers.integrations.metal3.caches import (
    POOL_INDEXES,
    EitherCaches,
    IPPoolClaimCaches,
    make_address_indexes,
    make_claim_indexes,
)
from reconcilers.integrations.metal3.claimformats import (
    AddressT,
    ClaimFormat,
    ClaimT,
    IPClaimFormat,
    find_contract_format,
)
from reconcilers.integrations.metal3.contents import list_contents, make_caches
from reconcilers.integrations.metal3.picture import make_picture


def make_live_platform(
    served_kinds: Collection[Resource[Object]], source: PlatformSource
) -> LivePlatform | None:
    """Return the live views of IPPools.

    Returns:
        None if one of metal3's kinds is not served.
    """
    metal3_kinds: Sequence[Resource[Object]] = KINDS
    if not set(metal3_kinds) <= set(served_kinds):
        return None
    pools = source.make_informer(POOLS, POOL_INDEXES)
    watched = [watch_pools(pools)]

    def watch_claims(
        claim_format: ClaimFormat[ClaimT, AddressT],
    ) -> IPPoolClaimCaches[ClaimT, AddressT]:
        """Add the watches of one kind of claims and its IPAddresses; return their caches."""
        claims = source.make_informer(claim_format.claims, make_claim_indexes(claim_format))
        addresses = source.make_informer(
            claim_format.addresses, make_address_indexes(claim_format)
        )
        watched.append(watch_holders(claims, POOLS.kind, claim_format.find_pool_of_claim))
        watched.append(watch_holders(addresses, POOLS.kind, claim_format.find_pool_of_address))
        return IPPoolClaimCaches(
            claim_format,
            claims.cache,
            addresses=addresses.cache,
            pools=pools.cache,
            clusters=None,  # a picture shows what is held, which a paused Cluster does not change
        )

    claim_caches: list[EitherCaches] = [watch_claims(IPClaimFormat())]
    if (contract := find_contract_format(pick_contract_kinds(served_kinds))) is not None:
        claim_caches.append(watch_claims(contract))
    caches = make_caches(pools.cache, *claim_caches)

    def make_views(is_wanted: Wanted, not_read: Sequence[NotRead]) -> Views:
        """Return the pictures of the wanted pools."""
        # Other platforms leave out requests whose address may be in an object that the user may
        # not read. Here the status of a claim tells whether it has an address.
        del not_read
        return Views([make_picture(contents) for contents in list_contents(caches, is_wanted)])

    return LivePlatform(watched, partial(list_pool_names, POOLS.kind, pools.cache), make_views)
