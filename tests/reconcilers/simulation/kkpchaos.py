"""KKP's pools under the same chaos: replicas, lost requests, lags, deaths, edits."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from reconcilers.integrations.kubermatic import api
from reconcilers.integrations.kubermatic.clusters import ClusterReconciler
from reconcilers.integrations.kubermatic.offers import offers_of
from reconcilers.integrations.kubermatic.pools import PoolReconciler
from reconcilers.integrations.kubermatic.reading import (
    ALLOCATION_INDEXES,
    CLUSTER_INDEXES,
    POOL_INDEXES,
    KubermaticCaches,
    Reader,
)
from reconcilers.integrations.kubermatic.reports import Reports
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.simulation.chaos import NAMES
from tests.reconcilers.simulation.journalchaos import (
    Harm,
    JournalReplica,
    JournalRun,
    Working,
)
from tests.reconcilers.simulation.kkplaws import DATACENTERS, KkpJudge, both_have, left_undone
from tests.reconcilers.simulation.laws import Judge
from tests.reconcilers.simulation.model import (
    KKP_ALLOCATIONS,
    KKP_CLUSTERS,
    KKP_POOLS,
    Json,
    ModelServer,
)

FINALIZER = "kubermatic.k8c.io/cleanup"
"""On a Cluster until its namespace is gone."""


class KkpReplica(JournalReplica):
    """A process that believes it leads, and serves KKP's pools."""

    @override
    def _set_up(self) -> Working:
        pools = Cache(api.POOLS, indexes=POOL_INDEXES)
        allocations = Cache(api.ALLOCATIONS, indexes=ALLOCATION_INDEXES)
        clusters = Cache(api.CLUSTERS, indexes=CLUSTER_INDEXES)
        self.pools = self._feed(KKP_POOLS, pools)
        self.allocations = self._feed(KKP_ALLOCATIONS, allocations)
        self.clusters = self._feed(KKP_CLUSTERS, clusters)
        client, caches = self._client(), KubermaticCaches(pools, allocations, clusters)
        reports, clock = Reports(self.recorder), self.clock
        reader = Reader(client, allocations, clock, self.settings.cache_patience)
        spaces = SpaceIndex()
        feed(spaces, pools, offers_of)
        of_pools = PoolReconciler(
            client, caches, reader, reports, clock, self.settings, spaces=spaces
        )
        of_clusters = ClusterReconciler(client, caches, reports, clock)
        return (of_pools.reconcile, (self.pools,)), (of_clusters.reconcile, (self.clusters,))


@dataclass
class KkpRun(JournalRun):
    """One seed of the simulation of KKP's pools, played."""

    pools = KKP_POOLS
    asking = KKP_ALLOCATIONS
    results: ClassVar[Sequence[str]] = ("addresses", "cidr")
    replica: ClassVar[type[JournalReplica]] = KkpReplica

    @override
    def _make_judge(self) -> Judge:
        return KkpJudge(self.model)

    @override
    def _overlap(self) -> str | None:
        return both_have(self.model)

    @override
    def _unserved(self) -> str | None:
        return left_undone(self.model)

    @override
    def _user(self) -> None:
        name = self.random.choice(NAMES)
        if self.model.get(KKP_CLUSTERS, name):
            self.model.delete(KKP_CLUSTERS, name)
            if self.random.random() < 0.5:
                self._collect()
            return
        make_cluster(self.model, name, "y" if self.random.random() < self.plan.others else "x")

    @override
    def _harms(self) -> dict[str, list[Harm]]:
        found = super()._harms()
        found["resets"] += [self._delete_allocation]
        found["touches"] += [self._collect, self._pause, self._make_by_hand]
        found["pool_cycles"] += [self._resize, self._move_cluster]
        return {**found, "force": [self._vanish, self._drop_datacenter]}

    @override
    def _reset(self) -> None:
        """Take its addresses out of an allocation."""
        if name := self._some(KKP_ALLOCATIONS):
            nothing = {"spec": dict.fromkeys(self.results)}
            self.model.patch(KKP_ALLOCATIONS, name, nothing, guarded=False)

    def _delete_allocation(self) -> None:
        if name := self._some(KKP_ALLOCATIONS):
            self.model.vanish(KKP_ALLOCATIONS, name)

    def _make_by_hand(self) -> None:
        """Make an allocation without addresses and without an owner."""
        namespace = f"cluster-{self.random.choice(NAMES)}"
        metadata = {"name": "p", "namespace": namespace}
        body = {"metadata": metadata, "spec": {"type": "range", "dc": "x"}}
        self.model.create(KKP_ALLOCATIONS, body)

    def _pause(self) -> None:
        if name := self._some(KKP_CLUSTERS):
            cluster = self.model.get(KKP_CLUSTERS, name) or {}
            paused = {"spec": {"pause": not cluster["spec"]["pause"]}}
            self.model.patch(KKP_CLUSTERS, name, paused, guarded=False)

    def _move_cluster(self) -> None:
        """Move a cluster to another datacenter."""
        if name := self._some(KKP_CLUSTERS):
            there = {"spec": {"cloud": {"dc": self.random.choice("xy")}}}
            self.model.patch(KKP_CLUSTERS, name, there, guarded=False)

    def _resize(self) -> None:
        """Have each cluster get one address, or two."""
        self._edit_datacenters({"x": {"allocationRange": self.random.choice((1, 2))}})

    def _drop_datacenter(self) -> None:
        """Take a datacenter out of the pool, or put it back."""
        pool = self.model.get(KKP_POOLS, "p")
        gone = pool is not None and "x" not in pool["spec"]["datacenters"]
        self._edit_datacenters({"x": copy.deepcopy(DATACENTERS["p"]["x"]) if gone else None})

    def _edit_datacenters(self, change: Json) -> None:
        pool = self.model.get(KKP_POOLS, "p")
        there = pool is not None and "x" in pool["spec"]["datacenters"]
        if there or (change["x"] or {}).get("type"):
            change = {"spec": {"datacenters": change}}
            self.model.patch(KKP_POOLS, "p", change, guarded=False)

    def _collect(self) -> None:
        """Do what the garbage collector and KKP do about what was deleted."""
        there = {one["metadata"]["uid"] for one in self.model.of(KKP_POOLS)}
        gone = {
            f"cluster-{name}"
            for name in NAMES
            if "deletionTimestamp" in ((self.model.get(KKP_CLUSTERS, name) or _GONE)["metadata"])
        }
        for one in self.model.of(KKP_ALLOCATIONS):
            meta = one["metadata"]
            owners = {owner["uid"] for owner in meta.get("ownerReferences", ())}
            if meta["namespace"] in gone or (owners and not owners & there):
                name = f"{meta['namespace']}/{meta['name']}"
                self.model.vanish(KKP_ALLOCATIONS, name)
        for namespace in gone:
            self.model.vanish(KKP_CLUSTERS, namespace.removeprefix("cluster-"))

    def _vanish(self) -> None:
        """Remove a Cluster by force, its namespace later."""
        if name := self._some(KKP_CLUSTERS):
            self.model.vanish(KKP_CLUSTERS, name)

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        make_pool(self.model, name)

    @override
    def _prepare_calm(self) -> None:
        """Have all pools there with all datacenters, and what was deleted gone."""
        self.judge.paused = True
        for name, datacenters in DATACENTERS.items():
            make_pool(self.model, name)
            pool = self.model.get(KKP_POOLS, name) or {}
            lost = datacenters.keys() - pool["spec"]["datacenters"].keys()
            whole = {"spec": {"datacenters": {one: datacenters[one] for one in lost}}}
            self.model.patch(KKP_POOLS, name, copy.deepcopy(whole), guarded=False)
        self._collect()
        self.judge.paused = False


def make_pool(model: ModelServer, name: str) -> None:
    """Make a pool, if it is not there."""
    spec = {"datacenters": DATACENTERS[name]}
    model.create(KKP_POOLS, {"metadata": {"name": name}, "spec": spec})


def make_cluster(model: ModelServer, name: str, datacenter: str) -> None:
    """Make a cluster that has its namespace."""
    model.create(
        KKP_CLUSTERS,
        {
            "metadata": {"name": name, "finalizers": [FINALIZER]},
            "spec": {"cloud": {"dc": datacenter}, "pause": False},
            "status": {"namespaceName": f"cluster-{name}"},
        },
    )


_GONE: Json = {"metadata": {"deletionTimestamp": "gone"}}
