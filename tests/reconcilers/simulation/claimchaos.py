"""Claims of Cluster API under the same chaos: replicas, lost requests, lags, deaths, edits."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, cast

from typing_extensions import override

from controller.cache import Cache
from controller.events import Recorder
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.granting import Granting
from reconcilers.integrations.clusterapi.leftovers import Leftovers
from reconcilers.integrations.clusterapi.overlaps import Offers
from reconcilers.integrations.clusterapi.pools import PoolParts, PoolReconciler
from reconcilers.integrations.clusterapi.poolstatus import PoolStatuses
from reconcilers.integrations.clusterapi.reading import Reader
from reconcilers.integrations.clusterapi.world import (
    CLUSTER_INDEX,
    World,
    cluster_index,
    geometry_of,
    space_of,
)
from reconcilers.integrations.core.contents import SPACE_INDEX
from reconcilers.settings import PoolSettings
from tests.clock import VirtualClock
from tests.reconcilers.simulation.chaos import NAMES
from tests.reconcilers.simulation.claimlaws import ClaimJudge, given_twice, left_undone
from tests.reconcilers.simulation.journalchaos import (
    Harm,
    JournalRun,
    MakesReplica,
    integration_client,
)
from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge
from tests.reconcilers.simulation.replica import Feed, Passes, Silent
from tests.reconcilers.simulation.wire import Flight
from tests.reconcilers.simulation.world import ADDRESSES, CLAIM_POOLS, CLAIMS, CLUSTERS, Json
from tests.reconcilers.simulation.world import World as Server

PLURALS = (CLAIM_POOLS, CLAIMS, ADDRESSES)


class ClaimReplica(Passes):
    """A process that believes it leads, and serves claims."""

    clusters: ClassVar[bool] = False
    """Whether Clusters are served."""

    def __init__(
        self,
        server: Server,
        flights: list[Flight],
        clock: VirtualClock,
        rnd: Random,
        *,
        patience: float,
    ) -> None:
        version = api.CONTRACT_VERSIONS[0]
        claim_kind, address_kind = api.claims(version), api.addresses(version)
        indexes = {SPACE_INDEX: space_of, CLUSTER_INDEX: cluster_index}
        pools: Cache[Any] = Cache(api.IN_CLUSTER_IP_POOL)
        claims = Cache(claim_kind, indexes=indexes)
        addresses = Cache(address_kind, indexes=indexes)
        clusters = Cache(api.clusters(version)) if self.clusters else None
        caches: tuple[Cache[Any], ...] = (pools, claims, addresses)
        client = integration_client(flights, *caches)
        world = World(
            claims, addresses, clusters, {"InClusterIPPool": pools}, claim_kind, address_kind
        )
        settings, recorder = PoolSettings(foreign_patience=patience), cast("Recorder", Silent())
        offers = Offers(world.pools, lambda _, pool: geometry_of(pool))
        parts = PoolParts(
            client,
            world,
            Reader(client, world, clock, settings.cache_patience),
            Granting(client, world, recorder, clock, settings.width),
            Leftovers(client, world, clock),
            PoolStatuses(client, recorder, clock, offers),
            clock,
            settings,
        )
        self.pools, self.claims, self.addresses = (
            Feed(cache, server.history[plural], server)
            for plural, cache in zip(PLURALS, caches, strict=True)
        )
        feeds = [self.pools, self.claims, self.addresses]
        if clusters is not None:
            feeds.append(Feed(clusters, server.history[CLUSTERS], server))
        super().__init__(
            rnd,
            feeds,
            (
                (PoolReconciler(api.IN_CLUSTER_IP_POOL, parts).reconcile, (self.pools,)),
                (
                    ClaimReconciler(client, world, recorder, clock).reconcile,
                    (self.claims, self.addresses),
                ),
            ),
        )


@dataclass
class ClaimRun(JournalRun):
    """One seed of the claims' simulation, played."""

    pools = CLAIM_POOLS
    asking = CLAIMS
    results: ClassVar[Sequence[str]] = ("addressRef", "conditions")
    replica: ClassVar[MakesReplica] = ClaimReplica
    pool_spec: ClassVar[Json] = {}
    """What else the pools say."""

    @override
    def _make_judge(self) -> Judge:
        return ClaimJudge(self.world)

    @override
    def _overlap(self) -> str | None:
        return given_twice(self.world)

    @override
    def _unserved(self) -> str | None:
        return left_undone(self.world)

    @override
    def _user(self) -> None:
        name = self.random.choice(NAMES)
        if self.world.get(CLAIMS, name):
            if self.plan.force and self.random.random() < 0.5:
                self.world.vanish(CLAIMS, name)
            else:
                self.world.delete(CLAIMS, name)
            return
        pool = "q" if self.random.random() < self.plan.others else "p"
        spec = {"poolRef": self.ref(pool), **self._more()}
        self.world.create(CLAIMS, {"metadata": {"name": name}, "spec": spec})

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
        """Make an IPAddress of a claim's name, whoever has the address."""
        first, last = SPANS["p"]
        address = f"{FIRST}{self.random.randint(first, last)}"
        name = self.random.choice(NAMES)
        spec: Json = {"claimRef": {"name": name}, "poolRef": self.ref("p")}
        spec |= {"address": address, "prefix": 24}
        self.world.create(ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    def _take_address(self) -> None:
        """Remove an IPAddress by force."""
        if name := self._some(ADDRESSES):
            self.world.vanish(ADDRESSES, name)

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        first, last = SPANS[name]
        spec = {
            "addresses": [f"{FIRST}{first}-{FIRST}{last}"],
            "prefix": 24,
            "allocateReservedIPAddresses": True,
            **self.pool_spec,
        }
        self.world.create(CLAIM_POOLS, {"metadata": {"name": name}, "spec": spec})

    @override
    def _prepare_calm(self) -> None:
        """Make the pools that are missing; take away what people made and nobody adopted."""
        for name in SPANS:
            if self.world.get(self.pools, name) is None:
                self._make_pool(name)
        self.judge.paused = True
        for address in self.world.of(ADDRESSES):
            if not address["metadata"].get("ownerReferences"):
                self.world.vanish(ADDRESSES, address["metadata"]["name"])
        self.judge.paused = False


def ref(pool: str) -> Json:
    """Return the reference to a pool."""
    return {"apiGroup": api.GROUP, "kind": "InClusterIPPool", "name": pool}
