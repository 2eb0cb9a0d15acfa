"""Claims of Clusters that come, go and pause, and released addresses that rest for a while."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import ClassVar

from typing_extensions import override

from tests.reconcilers.simulation.adapter import Address, Event
from tests.reconcilers.simulation.claims import ClaimReplica, Claims, refers
from tests.reconcilers.simulation.model import CLAIMS, CLUSTERS, Json, ModelServer
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.replica import Process, World

GRACE_SECONDS = 8
TENANTS = ("north", "south")


class ClusterReplica(ClaimReplica):
    """A replica where Clusters are served."""

    clusters = True


class ClusterClaims(Claims):
    """In-cluster pools with a grace period, and claims of Clusters.

    An address rests before another claim gets it. Of pool q only: that one is not deleted, and a
    deleted pool forgets what rests.
    """

    pool_spec: ClassVar[Json] = {"addressReuseGracePeriodSeconds": GRACE_SECONDS}

    def __init__(self, model: ModelServer, rnd: Random, plan: Plan) -> None:
        super().__init__(model, rnd, plan)
        self.released: dict[Address, datetime] = {}
        """When addresses of pool q were released last."""

    @override
    def make_replica(self, world: World) -> Process:
        return ClusterReplica(world)

    @override
    def _further_spec(self) -> Json:
        tenant = self.random.choice(("", *TENANTS))
        return {"clusterName": tenant} if tenant else {}

    @override
    def events(self) -> Mapping[str, Sequence[Event]]:
        events = super().events()
        of_clusters = (self._cycle_cluster, self._pause_cluster, self._pause_cluster)
        return {**events, "touches": (*events["touches"], *of_clusters)}

    def _cycle_cluster(self) -> None:
        """Have a Cluster come, or go with its claims left behind."""
        name = self.random.choice(TENANTS)
        if self.model.get(CLUSTERS, name):
            self.model.delete(CLUSTERS, name)
        else:
            self._make_cluster(name)

    def _make_cluster(self, name: str) -> None:
        paused = self.random.random() < 0.3
        self.model.create(CLUSTERS, {"metadata": {"name": name}, "spec": {"paused": paused}})

    def _pause_cluster(self) -> None:
        """Pause a Cluster, or go on with it."""
        name = self.random.choice(TENANTS)
        cluster = self.model.get(CLUSTERS, name)
        if cluster is None:
            self._make_cluster(name)
            return
        spec = {"spec": {"paused": not cluster["spec"]["paused"]}}
        self.model.patch(CLUSTERS, name, spec, guarded=False)

    @override
    def prepare_calm(self) -> None:
        """Go on with every Cluster; one that is not there may come, or never."""
        super().prepare_calm()
        for name in TENANTS:
            if self.model.get(CLUSTERS, name) is None and self.random.random() < 0.5:
                self._make_cluster(name)
            if self.model.get(CLUSTERS, name) is not None:
                self.model.patch(CLUSTERS, name, {"spec": {"paused": False}}, guarded=False)

    @override
    def is_served(self, claim: Json) -> bool:
        cluster = claim["spec"].get("clusterName")
        is_stopped = cluster is not None and self.model.get(CLUSTERS, cluster) is None
        return super().is_served(claim) and not is_stopped

    @override
    def note_change(self, plural: str, old: Json | None, new: Json | None) -> None:
        if plural != CLAIMS or new is not None or old is None:
            return
        if old["spec"]["poolRef"]["name"] == "q":
            since = old["metadata"].get("deletionTimestamp")
            at = datetime.fromisoformat(since) if since else self.model.now()
            self.released |= dict.fromkeys(self.addresses(old), at)

    @override
    def crimes(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        yield from super().crimes(plural, old, new)
        if plural != CLAIMS or old is None or new is None or refers(old) or not refers(new):
            return
        for address in self.addresses(new):
            since = self.released.get(address)
            grace = timedelta(seconds=GRACE_SECONDS)
            if since is not None and self.model.now() - since < grace:
                yield f"{self.full_name(new)} got {address[1]}, which was to rest"
