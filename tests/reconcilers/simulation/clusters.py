"""Claims of Clusters that are created, deleted and paused, with a grace period for addresses."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from random import Random
from typing import ClassVar

from typing_extensions import override

from reconcilers.integrations.clusterapi.answers import RELEASED_AT
from tests.reconcilers.simulation.adapter import Address, Disturbance
from tests.reconcilers.simulation.claims import ClaimReplica, Claims, has_address_ref
from tests.reconcilers.simulation.model import ADDRESSES, CLAIMS, CLUSTERS, Json, ModelServer
from tests.reconcilers.simulation.plans import Plan
from tests.reconcilers.simulation.replica import Process, World

GRACE_SECONDS = 8
"""Seconds after its release for which no claim gets an address."""
TENANTS = ("north", "south")
"""The names of the Clusters."""


class ClusterReplica(ClaimReplica):
    """A replica where Clusters are served."""

    clusters = True


class ClusterClaims(Claims):
    """In-cluster pools with a grace period, and claims of Clusters.

    The law of this adapter: no claim gets an address that was released less than a grace period
    ago. It is judged for pool q only: q is never deleted, and a deleted pool forgets its released
    addresses.
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
    def _make_further_spec(self) -> Json:
        tenant = self.random.choice(("", *TENANTS))
        return {"clusterName": tenant} if tenant else {}

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        events = super().list_disturbances()
        of_clusters = (self._cycle_cluster, self._pause_cluster, self._pause_cluster)
        return {**events, "touches": (*events["touches"], *of_clusters)}

    def _cycle_cluster(self) -> None:
        """Create a Cluster, or delete it and leave its claims."""
        name = self.random.choice(TENANTS)
        if self.model.get(CLUSTERS, name):
            self.model.delete(CLUSTERS, name)
        else:
            self._make_cluster(name)

    def _make_cluster(self, name: str) -> None:
        """Create a Cluster, which may be paused."""
        paused = self.random.random() < 0.3
        self.model.create(CLUSTERS, {"metadata": {"name": name}, "spec": {"paused": paused}})

    def _pause_cluster(self) -> None:
        """Pause a Cluster, or end its pause."""
        name = self.random.choice(TENANTS)
        cluster = self.model.get(CLUSTERS, name)
        if cluster is None:
            self._make_cluster(name)
            return
        spec = {"spec": {"paused": not cluster["spec"]["paused"]}}
        self.model.edit(CLUSTERS, name, spec)

    @override
    def prepare_calm(self) -> None:
        """End every pause; create some of the Clusters that are missing."""
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
            self._note_removed_address(old)
        else:
            self._note_removed_claim(old)

    def _note_removed_address(self, address: Json) -> None:
        """Forget the release of an address whose IPAddress is removed by force.

        Only the IPAddress records that an address was released, and when its claim is missing,
        that it was used at all. A claim that is not terminating still records its address.
        """
        meta, claim = address["metadata"], self.model.get(CLAIMS, address["metadata"]["name"])
        if meta["uid"] not in self.model.vanished:
            return
        shown_address = ("", ip_address(address["spec"]["address"]))
        was_released = RELEASED_AT in meta.get("annotations", {})
        if was_released and claim is not None:
            self._forced_away.add(claim["metadata"]["uid"])
        if was_released or claim is None or shown_address not in self.list_shown(claim):
            self.released.pop(shown_address, None)

    def _note_removed_claim(self, claim: Json) -> None:
        """Note when the address of a removed claim was released, if an object still records it."""
        meta, address = claim["metadata"], self.model.get(ADDRESSES, claim["metadata"]["name"])
        is_removed_by_force = meta["uid"] in self.model.vanished
        if is_removed_by_force and address is not None:
            self._left_behind.add(address["metadata"]["uid"])
        if (is_removed_by_force and address is None) or meta["uid"] in self._forced_away:
            return
        since = meta.get("deletionTimestamp")
        at = datetime.fromisoformat(since) if since else self.model.now()
        self.released |= dict.fromkeys(self.list_shown(claim), at)

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        yield from super().find_violations(plural, old, new)
        if (
            plural != CLAIMS
            or old is None
            or new is None
            or has_address_ref(old)
            or not has_address_ref(new)
        ):
            return
        if self._is_inherited(new):
            return
        for address in self.list_shown(new):
            since = self.released.get(address)
            grace = timedelta(seconds=GRACE_SECONDS)
            if since is not None and self.model.now() - since < grace:
                yield f"{self.describe_request(new)} got {address[1]} in its grace period"

    def _is_inherited(self, claim: Json) -> bool:
        """Return whether a claim got the unreleased IPAddress of an earlier claim of its name.

        A claim that was restored from a backup keeps its address in this way. Only a claim that
        was removed by force leaves an unreleased IPAddress.
        """
        address = self.model.get(ADDRESSES, claim["metadata"]["name"])
        if address is None or RELEASED_AT in address["metadata"].get("annotations", {}):
            return False
        return address["metadata"]["uid"] in self._left_behind
