"""Claims of Cluster API under the same chaos: replicas, lost requests, lags, deaths, edits."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import msgspec
from typing_extensions import override

from controller.cache import Cache
from controller.client import Client
from controller.events import Recorder
from controller.meta import Object, ObjectMeta, Version
from controller.resource import Resource
from reconcilers.api import names
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
from reconcilers.integrations.core.journal import ANNOTATION, Journal, journal_patch
from reconcilers.settings import PoolSettings
from tests.clock import VirtualClock
from tests.reconcilers.simulation.chaos import NAMES, Run
from tests.reconcilers.simulation.claimlaws import ClaimJudge, given_twice, left_undone
from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge
from tests.reconcilers.simulation.replica import Feed, Passes, Silent
from tests.reconcilers.simulation.wire import Flight, Wire
from tests.reconcilers.simulation.world import ADDRESSES, CLAIM_POOLS, CLAIMS, KINDS, Json
from tests.reconcilers.simulation.world import World as Server

PLURALS = (CLAIM_POOLS, CLAIMS, ADDRESSES)


class ClaimReplica(Passes):
    """A process that believes it leads, and serves claims."""

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
        caches: dict[str, Cache[Any]] = dict(
            zip((KINDS[plural] for plural in PLURALS), (pools, claims, addresses), strict=True)
        )

        def answered(resource: Resource[Any], obj: Object) -> None:
            caches[resource.kind].apply_own_write(obj)

        def deleted(resource: Resource[Any], version: Version) -> None:
            caches[resource.kind].mark_deleted(version)

        client = Client(
            Wire(flights),
            on_object=answered,
            on_deleted=deleted,
            field_manager=names.FIELD_MANAGER,
        )
        world = World(
            claims, addresses, None, {"InClusterIPPool": pools}, claim_kind, address_kind
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
            Feed(caches[KINDS[plural]], server.history[plural], server) for plural in PLURALS
        )
        super().__init__(
            rnd,
            (self.pools, self.claims, self.addresses),
            (
                (PoolReconciler(api.IN_CLUSTER_IP_POOL, parts).reconcile, (self.pools,)),
                (
                    ClaimReconciler(client, world, recorder, clock).reconcile,
                    (self.claims, self.addresses),
                ),
            ),
        )


@dataclass
class ClaimRun(Run):
    """One seed of the claims' simulation, played."""

    @override
    def _make_judge(self) -> Judge:
        return ClaimJudge(self.world)

    @override
    def _replica(self, *, stale: bool) -> Passes:
        patience = self.plan.patience
        made = ClaimReplica(self.world, self.flights, self.clock, self.random, patience=patience)
        made.boot(stale=stale)
        return made

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
        self.world.create(CLAIMS, {"metadata": {"name": name}, "spec": {"poolRef": ref(pool)}})

    @override
    def _harm(self) -> None:
        plan = self.plan
        kinds: tuple[tuple[bool, tuple[Callable[[], object], ...]], ...] = (
            (plan.resets, (self._reset,)),
            (plan.touches, (self._touch, self._make_by_hand)),
            (plan.pool_cycles, (self._cycle_pool, self._force_pool)),
            (plan.wipes, (self._wipe,)),
            (plan.restores, (self._restore,)),
            (plan.force, (self._take_address,)),
        )
        options = [harm for wanted, harms in kinds if wanted for harm in harms]
        if options:
            self.random.choice(options)()

    def _some(self, plural: str) -> str | None:
        found = [obj["metadata"]["name"] for obj in self.world.of(plural)]
        return self.random.choice(found) if found else None

    @override
    def _reset(self) -> None:
        if name := self._some(CLAIMS):
            nothing = {"status": dict.fromkeys(("addressRef", "conditions"))}
            self.world.patch(CLAIMS, name, nothing, status=True, guarded=False)

    @override
    def _touch(self) -> None:
        if name := self._some(CLAIMS):
            label = {"metadata": {"labels": {"touched": str(self.world.revision)}}}
            self.world.patch(CLAIMS, name, label, guarded=False)

    def _make_by_hand(self) -> None:
        """Make an IPAddress of a claim's name, whoever has the address."""
        first, last = SPANS["p"]
        address = f"{FIRST}{self.random.randint(first, last)}"
        name = self.random.choice(NAMES)
        spec = {"claimRef": {"name": name}, "poolRef": ref("p"), "address": address, "prefix": 24}
        self.world.create(ADDRESSES, {"metadata": {"name": name}, "spec": spec})

    def _take_address(self) -> None:
        """Remove an IPAddress by force."""
        if name := self._some(ADDRESSES):
            self.world.vanish(ADDRESSES, name)

    @override
    def _cycle_pool(self) -> None:
        if self.world.get(CLAIM_POOLS, "p"):
            self.world.delete(CLAIM_POOLS, "p")
        else:
            self._make_pool("p")

    @override
    def _force_pool(self) -> None:
        journal = self._journal()
        self.world.vanish(CLAIM_POOLS, "p")
        self._make_pool("p")
        if journal and self.random.random() < 0.5:  # as a backup brings it back
            kept = {"metadata": {"annotations": {ANNOTATION: journal}}}
            self.world.patch(CLAIM_POOLS, "p", kept, guarded=False)

    def _journal(self) -> str:
        pool = self.world.get(CLAIM_POOLS, "p")
        meta: Json = pool["metadata"] if pool else {}
        return str((meta.get("annotations") or {}).get(ANNOTATION, ""))

    @override
    def _restore(self) -> None:
        """Give the pool the memory of a history that is not ours."""
        pool = self.world.get(CLAIM_POOLS, "p")
        if pool is not None:
            meta = msgspec.convert(pool["metadata"], ObjectMeta)
            patch = journal_patch(meta, Journal(self.world.revision + 100_000))
            self.world.patch(CLAIM_POOLS, "p", dict(patch), guarded=False)

    @override
    def _wipe(self) -> None:
        if self.world.get(CLAIM_POOLS, "p"):
            nothing = {"metadata": {"annotations": {ANNOTATION: None}}}
            self.world.patch(CLAIM_POOLS, "p", nothing, guarded=False)

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        first, last = SPANS[name]
        spec = {
            "addresses": [f"{FIRST}{first}-{FIRST}{last}"],
            "prefix": 24,
            "allocateReservedIPAddresses": True,
        }
        self.world.create(CLAIM_POOLS, {"metadata": {"name": name}, "spec": spec})

    @override
    def _prepare_calm(self) -> None:
        """Make the pools that are missing; take away what people made and nobody adopted."""
        for name in SPANS:
            if self.world.get(CLAIM_POOLS, name) is None:
                self._make_pool(name)
        self.judge.paused = True
        for address in self.world.of(ADDRESSES):
            if not address["metadata"].get("ownerReferences"):
                self.world.vanish(ADDRESSES, address["metadata"]["name"])
        self.judge.paused = False


def ref(pool: str) -> Json:
    """Return the reference to a pool."""
    return {"apiGroup": api.GROUP, "kind": "InClusterIPPool", "name": pool}
