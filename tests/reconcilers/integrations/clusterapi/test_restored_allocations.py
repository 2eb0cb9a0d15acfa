"""etcd is restored from a backup: a pool hands out nothing before all kinds are listed anew."""

from functools import partial
from typing import Any, cast

import pytest

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.outcome import Again
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.api.ipallocation import (
    POOL_INDEX,
    TENANT_INDEX,
    pool_index,
    tenant_index,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi import reading as clusterapi_reading
from reconcilers.integrations.clusterapi.caches import (
    ClaimCaches,
    list_cluster_names,
    list_spaces,
)
from reconcilers.integrations.clusterapi.claimkind import ClaimParts
from reconcilers.integrations.clusterapi.clusterpauses import CLUSTER_INDEX
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.networkpoolclaims import (
    DiscoveredClaims,
    NetworkPoolClaims,
)
from reconcilers.integrations.clusterapi.statuses import waits
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.networkpool.reading import PoolReader, keep_holdings
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.journal import Journal
from reconcilers.promises.reading import Behind
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Recorded

CLAIMS, ADDRESSES = api.claims("v1beta2"), api.addresses("v1beta2")
HELD = ("10.40.0.0", "10.40.0.7")


class Site:
    """A NetworkPool whose passes serve claims and allocations, and one claim that waits."""

    def __init__(self, pool: NetworkPool) -> None:
        clock = VirtualClock()
        self.server = FakeApi(clock)
        for kind in (NETWORK_POOL, IP_ALLOCATION, CLAIMS, ADDRESSES):
            self.server.serve(kind)
        client, recorder = Client(self.server), cast("Recorder", Recorded())
        indexes: dict[str, Any] = {SPACE_INDEX: list_spaces, CLUSTER_INDEX: list_cluster_names}
        pools = Cache(NETWORK_POOL)
        claims, addresses = Cache(CLAIMS, indexes=indexes), Cache(ADDRESSES, indexes=indexes)
        caches = ClaimCaches(
            claims,
            addresses,
            clusters=None,
            pools={"NetworkPool": pools},
            claim_kind=CLAIMS,
            address_kind=ADDRESSES,
        )
        parts = ClaimParts(
            client,
            caches,
            reader=clusterapi_reading.make_reader(client, caches, clock=clock, patience=0),
            recorder=recorder,
            leftovers=Leftovers(client, caches, clock),
            restored=RestoredRequests(claims, clock, waits=waits, spaces=list_spaces),
            clock=clock,
            settings=Settings().pool,
        )
        discovered = DiscoveredClaims(clock)
        discovered.known, discovered.pool_claims = True, NetworkPoolClaims(parts)
        allocation_indexes = {POOL_INDEX: pool_index, TENANT_INDEX: tenant_index}
        self.allocations = Cache(IP_ALLOCATION, indexes=allocation_indexes)
        self.claims, self.pool = claims, pool
        for cache in (self.allocations, claims, addresses):
            cache.replace([], 5, {})
        keep = partial(keep_holdings, self.allocations, "", clock, 0.0, lambda *_: None)
        self.reader = PoolReader(
            self.allocations, client, clock=clock, wait_seconds=0.0, keep=keep, claims=discovered
        )

    async def read(self) -> AllocationsView:
        """Read as far as a journal says that has read nothing yet."""
        kinds = (IP_ALLOCATION.full_name, CLAIMS.full_name, ADDRESSES.full_name)
        return await self.reader.read_up_to(self.pool, Journal(dict.fromkeys(kinds, 0)))


async def test_a_pool_waits_while_the_cache_of_allocations_may_be_of_another_history() -> None:
    site = Site(make.pool(memory=1))
    assert (await site.read()).holdings.holder_count == 0, "the allocation was gone"
    site.allocations.unconfirm_history()
    with pytest.raises(Behind, match="have not been relisted"):
        await site.read()
    site.allocations.replace([make.allocation("a", held_range=HELD)], 5, {}, replaced=True)
    view = await site.read()
    [held_range] = view.holdings.held_ranges("IPv4")
    assert (held_range.start_text, held_range.end_text) == HELD


async def test_a_pool_waits_while_the_cache_of_claims_may_be_of_another_history() -> None:
    site = Site(make.pool(memory=1))
    site.claims.unconfirm_history()
    with pytest.raises(Behind, match="have not been relisted"):
        await site.read()


async def test_a_pool_waits_while_its_journal_names_a_kind_that_is_not_known() -> None:
    """Requests of that kind may hold addresses, and nothing here reads them."""
    lab = Lab()
    status = {"revisions": {IP_ALLOCATION.full_name: "1", "things.example": "1"}}
    lab.server.add("networkpools", make.pool(status=status))
    for _ in range(2):
        assert isinstance(await lab.pool(), Again)
        await lab.clock.advance(11)
    message = str(lab.condition("networkpools", "lab", "Ready")["message"])
    assert "names things.example" in message
