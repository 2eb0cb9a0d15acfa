"""etcd is restored from a backup: claims get nothing before IPAllocations are listed anew."""

from typing import Any, cast

import pytest

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.api.ipallocation import (
    POOL_INDEX,
    TENANT_INDEX,
    IPAllocation,
    pool_index,
    tenant_index,
)
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.caches import (
    CLUSTER_INDEX,
    ClaimCaches,
    cluster_index,
    space_of,
)
from reconcilers.integrations.clusterapi.claimkind import ClaimParts
from reconcilers.integrations.clusterapi.granting import Granting
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.networkpools import NetworkPoolClaims
from reconcilers.integrations.clusterapi.reading import Reader
from reconcilers.integrations.clusterapi.restoredclaims import RestoredClaims
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.networkpool.view import OtherHolders
from reconcilers.promises.reading import Behind
from tests.reconcilers import make
from tests.reconcilers.lab import Recorded

CLAIMS, ADDRESSES = api.claims("v1beta2"), api.addresses("v1beta2")
HELD = ("10.40.0.0", "10.40.0.7")


def claims_beside(allocations: Cache[IPAllocation]) -> NetworkPoolClaims:
    """Return what serves claims from NetworkPools, beside these IPAllocations."""
    clock = VirtualClock()
    server = FakeApi(clock)
    for kind in (NETWORK_POOL, IP_ALLOCATION, CLAIMS, ADDRESSES):
        server.serve(kind)
    client, recorder = Client(server), cast("Recorder", Recorded())
    indexes: dict[str, Any] = {SPACE_INDEX: space_of, CLUSTER_INDEX: cluster_index}
    pools = Cache(NETWORK_POOL)
    claims, addresses = Cache(CLAIMS, indexes=indexes), Cache(ADDRESSES, indexes=indexes)
    caches = ClaimCaches(claims, addresses, None, {"NetworkPool": pools}, CLAIMS, ADDRESSES)
    parts = ClaimParts(
        client,
        caches,
        Reader(client, caches, clock, 0),
        Granting(client, caches, recorder, clock, Settings().pool),
        Leftovers(client, caches, clock),
        RestoredClaims(claims, clock),
        clock,
        Settings().pool,
    )
    return NetworkPoolClaims(parts, allocations, OtherHolders())


def no_allocations() -> Cache[IPAllocation]:
    indexes = {POOL_INDEX: pool_index, TENANT_INDEX: tenant_index}
    return Cache(IP_ALLOCATION, indexes=indexes)


async def test_claims_wait_while_the_cache_of_allocations_may_be_of_another_history() -> None:
    allocations = no_allocations()
    reconciler = claims_beside(allocations)
    pool = make.pool(memory=1)
    allocations.replace([], 5, {})
    held = await reconciler.also_held(pool, reconciler.geometry(pool))
    assert list(held) == [], "the allocation was gone before the backup was restored"
    allocations.unconfirm_history()
    with pytest.raises(Behind, match="listed anew"):
        await reconciler.also_held(pool, reconciler.geometry(pool))
    allocations.replace([make.allocation("a", held=HELD)], 5, {}, replaced=True)
    [again] = await reconciler.also_held(pool, reconciler.geometry(pool))
    assert (again.start_text, again.end_text) == HELD


async def test_claims_wait_while_the_journal_names_a_kind_that_is_not_served() -> None:
    """Requests of that kind may hold addresses, and nothing here reads them."""
    allocations = no_allocations()
    allocations.replace([], 5, {})
    reconciler = claims_beside(allocations)
    pool = make.pool(status={"revisions": {IP_ALLOCATION.full_name: "1", "things.example": "1"}})
    with pytest.raises(Behind, match=r"names things\.example"):
        await reconciler.also_held(pool, reconciler.geometry(pool))
