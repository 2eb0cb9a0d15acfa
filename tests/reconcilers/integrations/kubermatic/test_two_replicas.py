"""Replicas that report different failures of a Cluster do not overwrite each other for ever."""

import pytest

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.meta import Key, Version
from controller.testing.api import FakeApi
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    CONDITION,
    POOLS,
    ClusterCondition,
)
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


async def _create_cluster(client: Client) -> None:
    """Create Cluster `a` of KKP with its namespace."""
    body = {"metadata": {"name": "a"}, "spec": {"cloud": {"dc": "dc"}}}
    cluster = await client.create(CLUSTERS, "", body)
    await client.patch_status(CLUSTERS, cluster, {"namespaceName": "cluster-a"})


async def _read_condition(client: Client) -> ClusterCondition:
    """Return the condition of Cluster `a` that the replicas write."""
    return (await client.get(CLUSTERS, KEY)).status.conditions[CONDITION]


class ClusterReplica:
    """A replica with the reconciler that writes conditions of Clusters, and no pass over pools."""

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

    async def report(self, problem: AllocationProblem | None) -> str:
        """Reconcile the Cluster after a pass over pool `p` found a problem, or None.

        Returns:
            The resourceVersion of the Cluster afterwards.
        """
        page = await self.client.list(CLUSTERS)
        self.caches.clusters.replace(page.items, page.revision)
        self.reports.note("p", {KEY: problem})
        await self._reconciler.reconcile(KEY)
        return (await self.client.get(CLUSTERS, KEY)).metadata.resourceVersion


async def test_a_recreated_cluster_shows_the_same_failure_again() -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    for kind in (POOLS, ALLOCATIONS, CLUSTERS):
        api.serve(kind)
    client, replica = Client(api), ClusterReplica(api, clock)
    for _ in range(2):
        await _create_cluster(client)
        await replica.report(FAILURE)
        cluster = await client.get(CLUSTERS, KEY)
        assert cluster.status.conditions[CONDITION].reason == RECONCILING_ERROR
        await client.delete(CLUSTERS, Version.from_object(cluster))


@pytest.mark.parametrize(
    "other_problem",
    [None, AllocationProblem(RECONCILING_ERROR, "create ipamallocations: no answer")],
    ids=["no failure", "another failure"],
)
async def test_a_failure_is_written_once_while_another_replica_finds_a_different_problem(
    other_problem: AllocationProblem | None,
) -> None:
    clock = VirtualClock()
    api = FakeApi(clock)
    for kind in (POOLS, ALLOCATIONS, CLUSTERS):
        api.serve(kind)
    client = Client(api)
    await _create_cluster(client)
    first, second = ClusterReplica(api, clock), ClusterReplica(api, clock)
    for _ in range(2):
        await first.report(FAILURE)
        await second.report(other_problem)
    settled_version = await first.report(FAILURE)
    for _ in range(3):
        assert await second.report(other_problem) == settled_version
        assert await first.report(FAILURE) == settled_version
    await second.report(None)
    await first.report(None)
    assert (await _read_condition(client)).status == "True"
    await first.report(FAILURE)
    condition = await _read_condition(client)
    assert condition.reason == RECONCILING_ERROR, "a later failure is written again"
