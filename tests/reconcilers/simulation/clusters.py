"""Claims of Clusters that come, go and pause, and released addresses that rest for a while."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from random import Random
from typing import ClassVar

from typing_extensions import override

from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.simulation.adapter import Address, Event
from tests.reconcilers.simulation.claims import ClaimReplica, Claims, refers
from tests.reconcilers.simulation.model import ADDRESSES, CLAIMS, CLUSTERS, Json, ModelServer
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
        self._forced_away: set[str] = set()
        """The uids of claims whose released IPAddress was removed by force."""
        self._left_behind: set[str] = set()
        """The uids of IPAddresses whose claim was removed by force."""

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
        self.model.edit(CLUSTERS, name, spec)

    @override
    def prepare_calm(self) -> None:
        """Go on with every Cluster; one that is not there may come, or never."""
        super().prepare_calm()
        for name in TENANTS:
            if self.model.get(CLUSTERS, name) is None and self.random.random() < 0.5:
                self._make_cluster(name)
            if self.model.get(CLUSTERS, name) is not None:
                self.model.edit(CLUSTERS, name, {"spec": {"paused": False}})

    @override
    def is_served(self, claim: Json) -> bool:
        cluster = claim["spec"].get("clusterName")
        is_stopped = cluster is not None and self.model.get(CLUSTERS, cluster) is None
        return super().is_served(claim) and not is_stopped

    @override
    def note_change(self, plural: str, old: Json | None, new: Json | None) -> None:
        if plural not in (ADDRESSES, CLAIMS) or new is not None or old is None:
            return
        if old["spec"]["poolRef"]["name"] != "q":
            return
        if plural == ADDRESSES:
            self._note_address_gone(old)
        else:
            self._note_claim_gone(old)

    def _note_address_gone(self, address: Json) -> None:
        """Forget the release of an address whose IPAddress is removed by force.

        The IPAddress alone records that an address rests, and for a missing claim, that it was
        used at all. A claim that is not terminating still records its address.
        """
        meta, claim = address["metadata"], self.model.get(CLAIMS, address["metadata"]["name"])
        if meta["uid"] not in self.model.vanished:
            return
        shown_address = ("", ip_address(address["spec"]["address"]))
        was_released = RELEASED_AT in meta.get("annotations", {})
        if was_released and claim is not None:
            self._forced_away.add(claim["metadata"]["uid"])
        if was_released or claim is None or shown_address not in self.addresses(claim):
            self.released.pop(shown_address, None)

    def _note_claim_gone(self, claim: Json) -> None:
        """Note when the address of a claim was released, if an object is left to record it."""
        meta, address = claim["metadata"], self.model.get(ADDRESSES, claim["metadata"]["name"])
        is_removed_by_force = meta["uid"] in self.model.vanished
        if is_removed_by_force and address is not None:
            self._left_behind.add(address["metadata"]["uid"])
        if (is_removed_by_force and address is None) or meta["uid"] in self._forced_away:
            return
        since = meta.get("deletionTimestamp")
        at = datetime.fromisoformat(since) if since else self.model.now()
        self.released |= dict.fromkeys(self.addresses(claim), at)

    @override
    def crimes(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        yield from super().crimes(plural, old, new)
        if plural != CLAIMS or old is None or new is None or refers(old) or not refers(new):
            return
        if self._is_inherited(new):
            return
        for address in self.addresses(new):
            since = self.released.get(address)
            grace = timedelta(seconds=GRACE_SECONDS)
            if since is not None and self.model.now() - since < grace:
                yield f"{self.full_name(new)} got {address[1]}, which was to rest"

    def _is_inherited(self, claim: Json) -> bool:
        """Return whether a claim got the unreleased IPAddress of an earlier claim of its name.

        A claim that was restored from a backup keeps its address in this way. Only a claim that
        was removed by force leaves an unreleased IPAddress.
        """
        address = self.model.get(ADDRESSES, claim["metadata"]["name"])
        if address is None or RELEASED_AT in address["metadata"].get("annotations", {}):
            return False
        return address["metadata"]["uid"] in self._left_behind
