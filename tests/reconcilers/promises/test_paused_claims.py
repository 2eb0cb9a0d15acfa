"""Paused claims cost a pass nothing, and are served once the pause ends: counted, not timed."""

import sys
from functools import partial
from typing import ClassVar

import pytest
from typing_extensions import override

from reconcilers.integrations.clusterapi.api import CLAIM_FINALIZER, PAUSED
from reconcilers.integrations.metal3.api import CONTRACT_CLAIM_FINALIZER, GROUP
from reconcilers.promises.holdings import KeptHoldings
from tests.calls import calls_of
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.claims import Claims, refers
from tests.reconcilers.simulation.clusters import ClusterReplica
from tests.reconcilers.simulation.ippools import IPPoolReplica, IPPools
from tests.reconcilers.simulation.model import CLAIMS, CLUSTERS, Json
from tests.reconcilers.simulation.replica import Process, World
from tests.reconcilers.simulation.sharedpools import SharedPools, SharedReplica
from tests.reconcilers.simulation.stage import Stage, play_scene

FEW, MANY = 10, 1_000
LEEWAY = 10
"""So many calls more a pass may need among many paused claims than among few."""
SPAN = 3
"""How many addresses pool p has."""


class SharedClusterReplica(SharedReplica):
    clusters = True


class MetalClusterReplica(IPPoolReplica):
    clusters = True


class InClusterPools(Claims):
    @override
    def make_replica(self, world: World) -> Process:
        return ClusterReplica(world)


class NetworkPoolsOfClusters(SharedPools):
    @override
    def make_replica(self, world: World) -> Process:
        return SharedClusterReplica(world)


class IPPoolsOfClusters(IPPools):
    @override
    def make_replica(self, world: World) -> Process:
        return MetalClusterReplica(world)


class PauseStage(Stage):
    """A model with pool p of three addresses, and claims of Cluster north."""

    pool_ref: ClassVar[Json] = {}
    finalizer: ClassVar[str] = CLAIM_FINALIZER

    def make_cluster(self, *, paused: bool) -> None:
        """Create Cluster north."""
        self.model.create(CLUSTERS, {"metadata": {"name": "north"}, "spec": {"paused": paused}})

    def claim(self, number: int, **annotations: str) -> None:
        """Create a claim of Cluster north that waits for pool p."""
        name = f"c{number:04}"
        metadata = {"name": name, "annotations": annotations}
        spec = {"poolRef": self.pool_ref, "clusterName": "north"}
        self.model.create(CLAIMS, {"metadata": metadata, "spec": spec})
        self.edit(CLAIMS, name, {"metadata": {"finalizers": [self.finalizer]}})

    def count_served(self) -> int:
        """Return how many claims have an address."""
        return sum(map(refers, self.model.of(CLAIMS)))


class InClusterStage(PauseStage):
    kind: ClassVar[type[Adapter]] = InClusterPools
    pool_ref: ClassVar[Json] = {
        "apiGroup": "ipam.cluster.x-k8s.io",
        "kind": "InClusterIPPool",
        "name": "p",
    }


class NetworkPoolStage(PauseStage):
    kind: ClassVar[type[Adapter]] = NetworkPoolsOfClusters
    pool_ref: ClassVar[Json] = {
        "apiGroup": "butler.butlerlabs.dev",
        "kind": "NetworkPool",
        "name": "p",
    }


class IPPoolStage(PauseStage):
    kind: ClassVar[type[Adapter]] = IPPoolsOfClusters
    pool_ref: ClassVar[Json] = {"apiGroup": GROUP, "kind": "IPPool", "name": "p"}
    finalizer: ClassVar[str] = CONTRACT_CLAIM_FINALIZER


of_each_kind = pytest.mark.parametrize("stage", [InClusterStage, NetworkPoolStage, IPPoolStage])


@pytest.fixture(autouse=True)
def skip_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no pass check what is kept: that costs as much as there is, and corrects what is stale.

    All other tests have each pass do so.
    """
    monkeypatch.setattr(KeptHoldings, "_check_kept", lambda _self, _pool, kept: kept)


@of_each_kind
@pytest.mark.parametrize("is_cluster_paused", [True, False])
def test_a_pass_calls_as_much_among_many_paused_claims_as_among_few(
    stage: type[PauseStage], is_cluster_paused: bool
) -> None:
    calls = {}

    async def count(stage: PauseStage, claims: int) -> None:
        stage.make_cluster(paused=is_cluster_paused)
        for number in range(claims):
            stage.claim(number, **({} if is_cluster_paused else {PAUSED: ""}))
        replica = stage.replica()
        await stage.serve(replica)
        calls[claims] = await calls_of(lambda: stage.pool(replica))
        assert stage.count_served() == 0

    for claims in (FEW, MANY):
        play_scene(partial(count, claims=claims), stage)
    sys.stdout.write(f"{calls}\n")
    assert calls[MANY] <= calls[FEW] + LEEWAY, calls


@of_each_kind
def test_claims_are_served_once_their_cluster_is_no_longer_paused(stage: type[PauseStage]) -> None:
    async def unpause(stage: PauseStage) -> None:
        stage.make_cluster(paused=True)
        for number in range(SPAN):
            stage.claim(number)
        replica = stage.replica()
        await stage.serve(replica)
        assert stage.count_served() == 0
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve(replica)
        assert stage.count_served() == SPAN

    play_scene(unpause, stage)


@of_each_kind
def test_claims_wait_while_their_cluster_cannot_be_decoded(stage: type[PauseStage]) -> None:
    async def correct(stage: PauseStage) -> None:
        stage.make_cluster(paused=False)
        replica = stage.replica()
        stage.claim(0)
        await stage.serve(replica)
        assert stage.count_served() == 1
        stage.edit(CLUSTERS, "north", {"spec": {"paused": "maybe"}})
        await stage.serve(replica)
        stage.claim(1)
        await stage.serve(replica)
        assert stage.count_served() == 1
        stage.edit(CLUSTERS, "north", {"spec": {"paused": False}})
        await stage.serve(replica)
        assert stage.count_served() == 2

    play_scene(correct, stage)
