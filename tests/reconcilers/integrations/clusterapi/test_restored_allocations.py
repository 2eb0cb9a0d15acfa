"""etcd is restored from a backup: a pool hands out nothing before all kinds are listed again."""

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
    index_by_pool,
    index_by_tenant,
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
from reconcilers.integrations.clusterapi.statuses import is_waiting
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.integrations.core.restoredrequests import RestoredRequests
from reconcilers.networkpool.reading import PoolReader, keep_holdings
from reconcilers.networkpool.view import AllocationsView
from reconcilers.promises.journal import Journal
from reconcilers.promises.reading import Behind
from tests.reconcilers import make
from tests.reconcilers.lab import Lab, Recorded

CLAIMS, ADDRESSES = api.get_claim_kind("v1beta2"), api.get_address_kind("v1beta2")
HELD = ("10.40.0.0", "10.40.0.7")
"""The first and the last address of the range that the restored allocation holds."""
LISTED_REVISION = 5
"""The resourceVersion at which every cache was listed."""


class PoolReading:
    """Reads a NetworkPool that serves allocations and claims, from caches that are still empty.

    The caches have listed an empty cluster at LISTED_REVISION.

    Args:
        pool: the pool to read.
    """

    def __init__(self, pool: NetworkPool) -> None:
        clock = VirtualClock()
        server = FakeApi(clock)
        for kind in (NETWORK_POOL, IP_ALLOCATION, CLAIMS, ADDRESSES):
            server.serve(kind)
        client = Client(server)
        indexes: dict[str, Any] = {SPACE_INDEX: list_spaces, CLUSTER_INDEX: list_cluster_names}
        allocation_indexes = {POOL_INDEX: index_by_pool, TENANT_INDEX: index_by_tenant}
        self.pool = pool
        self.allocations = Cache(IP_ALLOCATION, indexes=allocation_indexes)
        self.claims = Cache(CLAIMS, indexes=indexes)
        addresses = Cache(ADDRESSES, indexes=indexes)
        for cache in (self.allocations, self.claims, addresses):
            cache.replace([], revision=LISTED_REVISION)
        caches = ClaimCaches(
            self.claims,
            addresses,
            clusters=None,
            pools={"NetworkPool": Cache(NETWORK_POOL)},
            claim_kind=CLAIMS,
            address_kind=ADDRESSES,
        )
        self._reader = PoolReader(
            self.allocations,
            client,
            clock=clock,
            wait_seconds=0.0,
            keep=partial(keep_holdings, self.allocations, "", clock, 0.0, lambda *_: None),
            claims=discover_claims(client, caches, clock),
        )

    async def read(self) -> AllocationsView:
        """Read the pool; its journal requires no revision of any kind."""
        kinds = (IP_ALLOCATION.full_name, CLAIMS.full_name, ADDRESSES.full_name)
        return await self._reader.read_up_to(self.pool, Journal(dict.fromkeys(kinds, 0)))


def discover_claims(client: Client, caches: ClaimCaches, clock: VirtualClock) -> DiscoveredClaims:
    """Return the service that a pass asks about claims once their kinds are discovered."""
    parts = ClaimParts(
        client,
        caches,
        reader=clusterapi_reading.make_reader(client, caches, clock=clock, patience=0),
        recorder=cast("Recorder", Recorded()),
        leftovers=Leftovers(client, caches, clock),
        restored=RestoredRequests(caches.claims, clock, is_waiting=is_waiting, spaces=list_spaces),
        clock=clock,
        settings=Settings().pool,
    )
    discovered = DiscoveredClaims(clock)
    discovered.is_known, discovered.pool_claims = True, NetworkPoolClaims(parts)
    return discovered


async def test_a_pool_waits_while_the_cache_of_allocations_may_be_of_another_history() -> None:
    reading = PoolReading(make.pool(memory=1))
    view = await reading.read()
    assert view.holdings.holder_count == 0, "the allocation was deleted after the backup"
    reading.allocations.unconfirm_history()
    with pytest.raises(Behind, match="have not been relisted"):
        await reading.read()
    restored = make.allocation("a", held_range=HELD)
    reading.allocations.replace([restored], revision=LISTED_REVISION, replaced=True)
    view = await reading.read()
    [held_range] = view.holdings.list_held_ranges("IPv4")
    assert (held_range.start_text, held_range.end_text) == HELD


async def test_a_pool_waits_while_the_cache_of_claims_may_be_of_another_history() -> None:
    reading = PoolReading(make.pool(memory=1))
    reading.claims.unconfirm_history()
    with pytest.raises(Behind, match="have not been relisted"):
        await reading.read()


async def test_a_pool_waits_while_its_journal_names_a_kind_that_is_not_known() -> None:
    """Requests of that kind may hold addresses, and the controllers do not read them."""
    lab = Lab()
    status = {"revisions": {IP_ALLOCATION.full_name: "1", "things.example": "1"}}
    lab.server.add("networkpools", make.pool(status=status))
    for _ in range(2):
        assert isinstance(await lab.run_pool_pass(), Again)
        await lab.clock.advance(11)
    message = str(lab.find_condition("networkpools", "lab", "Ready")["message"])
    assert "names things.example" in message
