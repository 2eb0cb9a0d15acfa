"""A scene with pool p and claims of Cluster `north`, for each kind of pools that serves claims."""

from typing import ClassVar

import pytest
from typing_extensions import override

from reconcilers.integrations.clusterapi.api import CLAIM_FINALIZER
from reconcilers.integrations.metal3.api import CONTRACT_CLAIM_FINALIZER, GROUP
from tests.reconcilers.simulation.adapter import Adapter
from tests.reconcilers.simulation.claims import Claims, has_address_ref
from tests.reconcilers.simulation.clusters import ClusterReplica
from tests.reconcilers.simulation.ippools import IPPoolReplica, IPPools
from tests.reconcilers.simulation.model import CLAIMS, CLUSTERS, Json
from tests.reconcilers.simulation.replica import Process, World
from tests.reconcilers.simulation.sharedpools import SharedPools, SharedReplica
from tests.reconcilers.simulation.stage import Stage

POOL_SIZE = 3
"""How many addresses pool p has."""


class SharedClusterReplica(SharedReplica):
    """A replica that serves claims on NetworkPools, and knows which Clusters are paused."""

    clusters = True


class MetalClusterReplica(IPPoolReplica):
    """A replica that serves claims on IPPools of Metal3, and knows which Clusters are paused."""

    clusters = True


class InClusterPools(Claims):
    """In-cluster pools, whose replicas know which Clusters are paused."""

    @override
    def make_replica(self, world: World) -> Process:
        return ClusterReplica(world)


class NetworkPoolsOfClusters(SharedPools):
    """NetworkPools, whose replicas know which Clusters are paused."""

    @override
    def make_replica(self, world: World) -> Process:
        return SharedClusterReplica(world)


class IPPoolsOfClusters(IPPools):
    """IPPools of Metal3, whose replicas know which Clusters are paused."""

    @override
    def make_replica(self, world: World) -> Process:
        return MetalClusterReplica(world)


class ClusterStage(Stage):
    """A model of a cluster with pool p of three addresses, and claims of Clusters.

    Attributes:
        pool_ref: how claims refer to pool p.
        finalizer: the finalizer that a controller adds to claims.
    """

    pool_ref: ClassVar[Json] = {}
    finalizer: ClassVar[str] = CLAIM_FINALIZER

    def make_cluster(self, name: str = "north", *, paused: bool) -> None:
        """Create a Cluster of Cluster API, whose claims are not served while it is paused."""
        self.model.create(CLUSTERS, {"metadata": {"name": name}, "spec": {"paused": paused}})

    def create_claim(self, number: int, cluster: str = "north", **annotations: str) -> None:
        """Create a claim `c` plus `number` of a Cluster, which waits for an address of pool p."""
        name = f"c{number:04}"
        metadata = {"name": name, "annotations": annotations}
        spec = {"poolRef": self.pool_ref, "clusterName": cluster}
        self.model.create(CLAIMS, {"metadata": metadata, "spec": spec})
        self.edit(CLAIMS, name, {"metadata": {"finalizers": [self.finalizer]}})

    def list_served(self) -> list[str]:
        """Return the names of the claims that have an address, sorted."""
        return sorted(
            claim["metadata"]["name"]
            for claim in self.model.list_objects(CLAIMS)
            if has_address_ref(claim)
        )

    def count_served(self) -> int:
        """Return how many claims have an address."""
        return len(self.list_served())


class InClusterStage(ClusterStage):
    """A stage whose pool p is an in-cluster pool."""

    kind: ClassVar[type[Adapter]] = InClusterPools
    pool_ref: ClassVar[Json] = {
        "apiGroup": "ipam.cluster.x-k8s.io",
        "kind": "InClusterIPPool",
        "name": "p",
    }


class NetworkPoolStage(ClusterStage):
    """A stage whose pool p is a NetworkPool."""

    kind: ClassVar[type[Adapter]] = NetworkPoolsOfClusters
    pool_ref: ClassVar[Json] = {
        "apiGroup": "butler.butlerlabs.dev",
        "kind": "NetworkPool",
        "name": "p",
    }


class IPPoolStage(ClusterStage):
    """A stage whose pool p is an IPPool of Metal3."""

    kind: ClassVar[type[Adapter]] = IPPoolsOfClusters
    pool_ref: ClassVar[Json] = {"apiGroup": GROUP, "kind": "IPPool", "name": "p"}
    finalizer: ClassVar[str] = CONTRACT_CLAIM_FINALIZER


of_each_kind = pytest.mark.parametrize("stage", [InClusterStage, NetworkPoolStage, IPPoolStage])
"""Run a test with the stage of each kind of pools."""
