"""A claim whose IPAddress exists takes its address over, unless another holder has it."""

import pytest

from allocator import AddressRange
from controller.cache import Cache
from controller.meta import ObjectMeta
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.caches import ClaimCaches, compute_claim_holdings
from reconcilers.integrations.clusterapi.claimtaking import ClaimTaker
from reconcilers.integrations.clusterapi.networkpoolspace import parse_network_pool_space
from reconcilers.integrations.core.claimreading import ClaimSpaceView
from reconcilers.promises.choosing import Refused
from reconcilers.promises.identities import find_by_key
from reconcilers.promises.journal import Journal
from tests.reconcilers import make


def make_taker(pool: NetworkPool, claim: api.IPAddressClaim, observed: AddressRange) -> ClaimTaker:
    """Return a ClaimTaker for a claim whose IPAddress exists with 10.40.0.9.

    Args:
        pool: the pool that the claim names.
        claim: it has the IPAddress of its own name.
        observed: a range that an object of another kind holds, such as an IPAMAllocation of KKP.
    """
    kinds = api.get_claim_kind("v1beta2"), api.get_address_kind("v1beta2")
    spec = api.AddressSpec(
        api.NameRef("a"), claim.spec.poolRef, address="10.40.0.9", prefix=24, gateway=""
    )
    claims = {claim.metadata.key: claim}
    addresses = {claim.metadata.key: api.IPAddress(claim.metadata, spec)}
    space = parse_network_pool_space(pool, 1 << 20)
    find = find_by_key(api.JOURNALS.kind, claims.get)
    holdings = compute_claim_holdings(claims, addresses, space)
    view = ClaimSpaceView(
        0, holdings, find=find, list_addresses_of_claim=lambda key: [addresses[key]]
    )
    caches = ClaimCaches(Cache(kinds[0]), Cache(kinds[1]), None, {}, *kinds)
    return ClaimTaker(
        caches,
        NETWORK_POOL,
        pool=pool,
        settled=Journal(),
        space=space,
        view=view,
        observed=[observed],
    )


def test_a_claim_is_refused_if_an_ipamallocation_has_the_address_of_its_ipaddress() -> None:
    """NetworkPools never hand out addresses that KKP has allocated; the message names the kind."""
    claim = api.IPAddressClaim(
        ObjectMeta("a", make.NAMESPACE, uid="a"),
        api.ClaimSpec(api.PoolRef("NetworkPool", "lab", "butler.butlerlabs.dev")),
    )
    observed = AddressRange.parse("10.40.0.8", "10.40.0.15")
    with pytest.raises(Refused, match=r"but an IPAMAllocation has 10\.40\.0\.9"):
        make_taker(make.pool(), claim, observed).take(claim)
