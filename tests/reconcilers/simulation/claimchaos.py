"""Claims of Cluster API under the same chaos: replicas, lost requests, lags, deaths, edits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from reconcilers.api.resources import NETWORK_POOL
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.caches import (
    CLUSTER_INDEX,
    ClaimCaches,
    cluster_index,
    space_of,
)
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.granting import Granting
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.offers import offers_of
from reconcilers.integrations.clusterapi.pools import PoolParts, PoolReconciler
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.integrations.clusterapi.reading import Reader
from reconcilers.integrations.clusterapi.restoredclaims import RestoredClaims
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex
from tests.reconcilers.simulation.chaos import NAMES
from tests.reconcilers.simulation.claimlaws import ClaimJudge, given_twice, left_undone
from tests.reconcilers.simulation.journalchaos import (
    Harm,
    JournalReplica,
    JournalRun,
    Working,
)
from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge
from tests.reconcilers.simulation.model import ADDRESSES, CLAIM_POOLS, CLAIMS, CLUSTERS, Json


class ClaimReplica(JournalReplica):
    """A process that believes it leads, and serves claims."""

    clusters: ClassVar[bool] = False
    """Whether Clusters are served."""

    @override
    def _set_up(self) -> Working:
        version = api.CONTRACT_VERSIONS[0]
        claim_kind, address_kind = api.claims(version), api.addresses(version)
        indexes = {SPACE_INDEX: space_of, CLUSTER_INDEX: cluster_index}
        pools: Cache[Any] = Cache(api.IN_CLUSTER_IP_POOL)
        claims = Cache(claim_kind, indexes=indexes)
        addresses = Cache(address_kind, indexes=indexes)
        clusters = Cache(api.clusters(version)) if self.clusters else None
        self.pools = self._feed(CLAIM_POOLS, pools)
        self.claims = self._feed(CLAIMS, claims)
        self.addresses = self._feed(ADDRESSES, addresses)
        client = self._client()
        if clusters is not None:
            self._feed(CLUSTERS, clusters)
        caches = ClaimCaches(
            claims, addresses, clusters, {"InClusterIPPool": pools}, claim_kind, address_kind
        )
        parts = self._parts(client, caches)
        of_pools = PoolReconciler(api.IN_CLUSTER_IP_POOL, parts)
        of_claims = ClaimReconciler(client, caches, self.recorder, self.clock)
        return (
            (of_pools.reconcile, (self.pools,)),
            (of_claims.reconcile, (self.claims, self.addresses)),
        )

    def _parts(self, client: Client, caches: ClaimCaches) -> PoolParts:
        """Return what passes over pools work with."""
        spaces = SpaceIndex()
        for pools in caches.pools.values():
            if pools.resource != NETWORK_POOL:
                feed(spaces, pools, partial(offers_of, pools.resource))
        clock, settings, recorder = self.clock, self.settings, self.recorder
        return PoolParts(
            client,
            caches,
            Reader(client, caches, clock, settings.cache_patience),
            Granting(client, caches, recorder, clock, settings),
            Leftovers(client, caches, clock),
            PoolStatuses(client, recorder, clock, spaces),
            RestoredClaims(caches.claims, clock),
            clock,
            settings,
        )


@dataclass
class ClaimRun(JournalRun):
    """One seed of the claims' simulation, played."""

    pools = CLAIM_POOLS
    asking = CLAIMS
    results: ClassVar[Sequence[str]] = ("addressRef", "conditions")
    replica: ClassVar[type[JournalReplica]] = ClaimReplica
    pool_spec: ClassVar[Json] = {}
    """What else the pools say."""

    @override
    def _make_judge(self) -> Judge:
        return ClaimJudge(self.model)

    @override
    def _overlap(self) -> str | None:
        return given_twice(self.model)

    @override
    def _unserved(self) -> str | None:
        return left_undone(self.model)

    @override
    def _user(self) -> None:
        name = self.random.choice(NAMES)
        if self.model.get(CLAIMS, name):
            if self.plan.force and self.random.random() < 0.5:
                self.model.vanish(CLAIMS, name)
            else:
                self.model.delete(CLAIMS, name)
            return
        pool = "q" if self.random.random() < self.plan.others else "p"
        spec = {"poolRef": self.ref(pool), **self._more()}
        self.model.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})

    def _more(self) -> Json:
        """Return what else the spec of a claim says."""
        return {}

    def ref(self, pool: str) -> Json:
        """Return the reference to a pool."""
        return ref(pool)

    @override
    def _harms(self) -> dict[str, list[Harm]]:
        harms = super()._harms()
        harms["touches"].append(self._make_by_hand)
        return harms | {"force": [self._take_address]}

    def _make_by_hand(self) -> None:
        """Make an IPAddress of a claim's name, even if another claim has the address."""
        first, last = SPANS["p"]
        address = f"{FIRST}{self.random.randint(first, last)}"
        name = self.random.choice(NAMES)
        spec: Json = {"claimRef": {"name": name}, "poolRef": self.ref("p")}
        spec |= {"address": address, "prefix": 24}
        self.model.create(ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    def _take_address(self) -> None:
        """Remove an IPAddress by force."""
        if name := self._some(ADDRESSES):
            self.model.vanish(ADDRESSES, name)

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        first, last = SPANS[name]
        spec = {
            "addresses": [f"{FIRST}{first}-{FIRST}{last}"],
            "prefix": 24,
            "allocateReservedIPAddresses": True,
            **self.pool_spec,
        }
        self.model.create(CLAIM_POOLS, {"metadata": {"name": name}, "spec": spec})

    @override
    def _prepare_calm(self) -> None:
        """Make the pools that are missing; take away what users made and no claim adopted."""
        for name in SPANS:
            if self.model.get(self.pools, name) is None:
                self._make_pool(name)
        self.judge.paused = True
        for address in self.model.of(ADDRESSES):
            if not address["metadata"].get("ownerReferences"):
                self.model.vanish(ADDRESSES, address["metadata"]["name"])
        self.judge.paused = False


def ref(pool: str) -> Json:
    """Return the reference to a pool."""
    return {"apiGroup": api.GROUP, "kind": "InClusterIPPool", "name": pool}
