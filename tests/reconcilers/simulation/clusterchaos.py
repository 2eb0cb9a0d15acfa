"""Random runs with claims of Clusters and a reuse delay for released addresses."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from typing_extensions import override

from tests.reconcilers.simulation.chaos import Plan
from tests.reconcilers.simulation.claimchaos import ClaimReplica, ClaimRun
from tests.reconcilers.simulation.claimlaws import ClaimJudge, address_of, left_undone, refers
from tests.reconcilers.simulation.journalchaos import Harm, JournalReplica
from tests.reconcilers.simulation.laws import Judge
from tests.reconcilers.simulation.model import CLAIMS, CLUSTERS, Json

GRACE_SECONDS = 8
TENANTS = ("north", "south")
RESTING = Plan(others=0.6, pool_cycles=False)
"""Most claims are of the smaller pool, whose addresses come and go the fastest."""


class RestJudge(ClaimJudge):
    """Also sees that an address rests before another claim gets it.

    Of pool q only: that one is not deleted, and a deleted pool forgets what rests.
    """

    released: dict[str, datetime]

    @override
    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        super()._look(plural, old, new)
        if plural != CLAIMS or old is None or old["spec"]["poolRef"]["name"] != "q":
            return
        now, meta = self.model.now(), old["metadata"]
        if new is None:
            address = address_of(self.model, old)
            since = meta.get("deletionTimestamp")
            if address is not None:
                self._at()[address] = datetime.fromisoformat(since) if since else now
            return
        address = address_of(self.model, new) if refers(new) and not refers(old) else None
        since = self._at().get(address or "")
        if since is not None and now - since < timedelta(seconds=GRACE_SECONDS):
            name = new["metadata"]["name"]
            self.problem = self.problem or f"{name} got {address}, which was to rest"

    def _at(self) -> dict[str, datetime]:
        """Return when addresses were released last."""
        if not hasattr(self, "released"):
            self.released = {}
        return self.released


class ClusterReplica(ClaimReplica):
    """A replica where Clusters are served."""

    clusters = True


@dataclass
class ClusterRun(ClaimRun):
    """One seed with Clusters and a grace period, played."""

    replica: ClassVar[type[JournalReplica]] = ClusterReplica
    pool_spec: ClassVar[Json] = {"addressReuseGracePeriodSeconds": GRACE_SECONDS}

    @override
    def _make_judge(self) -> Judge:
        return RestJudge(self.model)

    @override
    def _more(self) -> Json:
        tenant = self.random.choice(("", *TENANTS))
        return {"clusterName": tenant} if tenant else {}

    @override
    def _harms(self) -> dict[str, list[Harm]]:
        harms = super()._harms()
        harms["touches"] += [self._cycle_cluster, self._pause_cluster, self._pause_cluster]
        return harms

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
        found = self.model.get(CLUSTERS, name)
        if found is None:
            self._make_cluster(name)
            return
        spec = {"spec": {"paused": not found["spec"]["paused"]}}
        self.model.patch(CLUSTERS, name, spec, guarded=False)

    @override
    def _prepare_calm(self) -> None:
        """Go on with every Cluster; one that is not there may come, or never."""
        super()._prepare_calm()
        for name in TENANTS:
            if self.model.get(CLUSTERS, name) is None and self.random.random() < 0.5:
                self._make_cluster(name)
            if self.model.get(CLUSTERS, name) is not None:
                self.model.patch(CLUSTERS, name, {"spec": {"paused": False}}, guarded=False)

    @override
    def _unserved(self) -> str | None:
        stopped = {
            claim["metadata"]["name"]
            for claim in self.model.of(CLAIMS)
            if (of := claim["spec"].get("clusterName")) and not self.model.get(CLUSTERS, of)
        }
        return left_undone(self.model, stopped=stopped)
