"""IPAMPools that are only observed: events say which other pools hand out their addresses."""

from typing import cast

from controller.client import Client
from controller.events import Recorder
from controller.meta import Key, Version
from controller.testing.api import FakeApi
from controller.testing.clock import VirtualClock
from reconcilers.integrations.kubermatic.api import POOLS
from reconcilers.integrations.kubermatic.observing import SharedPoolReconciler
from reconcilers.integrations.kubermatic.offers import make_offers
from reconcilers.spaces.index import SpaceIndex
from reconcilers.spaces.offers import PoolName
from tests.reconcilers.lab import Recorded
from tests.reconcilers.spaces.offers import offer

KEY = Key("", "kkp")
SPEC = {"datacenters": {"dc": {"type": "range", "poolCidr": "10.0.0.0/28", "allocationRange": 4}}}


async def test_a_recreated_pool_with_the_same_overlap_gets_an_event_again() -> None:
    api = FakeApi(VirtualClock())
    api.serve(POOLS)
    client = Client(api).with_field_manager("test")
    spaces, recorded = SpaceIndex(), Recorded()
    spaces.put(PoolName("NetworkPool", Key("a", "p")), [offer("a/p", "10.0.0.0-10.0.0.3")])
    reconciler = SharedPoolReconciler(client, spaces, cast("Recorder", recorded))
    pool = await client.create(POOLS, "", {"metadata": {"name": "kkp"}, "spec": SPEC})
    spaces.put(PoolName(POOLS.kind, KEY), make_offers(pool))
    for _ in range(2):
        await reconciler.reconcile(KEY)
    assert recorded.reasons == ["Overlapping"]
    await client.delete(POOLS, Version.from_object(pool))
    await client.create(POOLS, "", {"metadata": {"name": "kkp"}, "spec": SPEC})
    await reconciler.reconcile(KEY)
    assert recorded.reasons == ["Overlapping", "Overlapping"]
