"""Two replicas that report other failures of one Cluster do not correct each other for ever."""

import pytest

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.meta import Key, Version
from controller.testing.api import FakeApi
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, CLUSTERS, CONDITION, POOLS
from reconcilers.integrations.kubermatic.clusters import ClusterReconciler
from reconcilers.integrations.kubermatic.holdings import AllocationProblem
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEXES,
    KubermaticCaches,
)
from reconcilers.integrations.kubermatic.reports import RECONCILING_ERROR, Reports
from tests.clock import VirtualClock

KEY = Key("", "a")
FAILURE = AllocationProblem(RECONCILING_ERROR, "create ipamallocations: not allowed")


class Replica:
    """A replica that writes conditions of Clusters."""

    def __init__(self, api: FakeApi, clock: VirtualClock) -> None:
        self.client = Client(api)
        self.caches = KubermaticCaches(
            Cache(POOLS, indexes=POOL_INDEXES),
            Cache(ALLOCATIONS, indexes=ALLOCATION_INDEXES),
            Cache(CLUSTERS, indexes=CLUSTER_INDEXES),
        )
        self.reports = Reports(Recorder(self.client, clock, "test/test"))
        self._reconciler = ClusterReconciler(
            self.client, self.caches, reports=self.reports, clock=clock
        )

    async def look(self, problem: AllocationProblem | None) -> str:
        """Write the condition, given what the pass over the pool found; return its version."""
        page = await self.client.list(CLUSTERS)
        self.caches.clusters.replace(page.items, page.revision)
        self.reports.note("p", {KEY: problem})
        await self._reconciler.reconcile(KEY)
        return (await self.client.get(CLUSTERS, KEY)).metadata.resourceVersion


async def test_a_cluster_that_is_created_anew_is_told_the_same_failure_again() -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    for kind in (POOLS, ALLOCATIONS, CLUSTERS):
        api.serve(kind)
    client, replica = Client(api), Replica(api, clock)
    for _ in range(2):
        body = {"metadata": {"name": "a"}, "spec": {"cloud": {"dc": "dc"}}}
        created = await client.create(CLUSTERS, "", body)
        await client.patch_status(CLUSTERS, created, {"namespaceName": "cluster-a"})
        await replica.look(FAILURE)
        cluster = await client.get(CLUSTERS, KEY)
        assert cluster.status.conditions[CONDITION].reason == RECONCILING_ERROR
        await client.delete(CLUSTERS, Version.from_object(cluster))


@pytest.mark.parametrize(
    "other", [None, AllocationProblem(RECONCILING_ERROR, "create ipamallocations: no answer")]
)
async def test_a_failure_of_one_replica_is_written_once(other: AllocationProblem | None) -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    for kind in (POOLS, ALLOCATIONS, CLUSTERS):
        api.serve(kind)
    body = {"metadata": {"name": "a"}, "spec": {"cloud": {"dc": "dc"}}}
    client = Client(api)
    cluster = await client.create(CLUSTERS, "", body)
    await client.patch_status(CLUSTERS, cluster, {"namespaceName": "cluster-a"})
    replica, two = Replica(api, clock), Replica(api, clock)
    for _ in range(2):
        await replica.look(FAILURE)
        await two.look(other)
    settled = await replica.look(FAILURE)
    for _ in range(3):
        assert await two.look(other) == settled
        assert await replica.look(FAILURE) == settled
    await two.look(None)
    await replica.look(None)
    condition = (await client.get(CLUSTERS, KEY)).status.conditions[CONDITION]
    assert condition.status == "True"
    await replica.look(FAILURE)
    again = (await client.get(CLUSTERS, KEY)).status.conditions[CONDITION]
    assert again.reason == RECONCILING_ERROR, "a later failure is written again"
