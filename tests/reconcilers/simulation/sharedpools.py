"""NetworkPools that serve IPAllocations and claims of Cluster API: two journals, one space.

The replicas have the reconcilers of both, and the chaos is that of both.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from reconcilers.api import names
from reconcilers.api.ipallocation import POOL_INDEX, pool_index
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import AllocationSettings
from reconcilers.integrations.clusterapi import api
from reconcilers.integrations.clusterapi.caches import (
    CLUSTER_INDEX,
    ClaimCaches,
    cluster_index,
    space_of,
)
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.networkpools import (
    ClaimHolders,
    NetworkPoolClaims,
)
from reconcilers.integrations.core.objects import SPACE_INDEX
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.reconciler import NetworkPoolReconciler
from reconcilers.networkpool.view import OtherHolders
from tests.reconcilers.simulation.chaos import Run
from tests.reconcilers.simulation.claimchaos import ClaimReplica, ClaimRun
from tests.reconcilers.simulation.claimlaws import ClaimJudge, address_of, given_twice, left_undone
from tests.reconcilers.simulation.journalchaos import Harm, JournalReplica, Working
from tests.reconcilers.simulation.laws import FIRST, SPANS, Judge, held, overlap
from tests.reconcilers.simulation.model import (
    ADDRESSES,
    ALLOCATIONS,
    CLAIMS,
    POOLS,
    Json,
    ModelServer,
)
from tests.reconcilers.simulation.replica import OpenGate


class SharedReplica(ClaimReplica):
    """A process that believes it leads, and serves allocations and claims."""

    @override
    def _set_up(self) -> Working:
        version = api.CONTRACT_VERSIONS[0]
        claim_kind, address_kind = api.claims(version), api.addresses(version)
        indexes = {SPACE_INDEX: space_of, CLUSTER_INDEX: cluster_index}
        pools = Cache(NETWORK_POOL)
        allocations = Cache(IP_ALLOCATION, indexes={POOL_INDEX: pool_index})
        claims = Cache(claim_kind, indexes=indexes)
        addresses = Cache(address_kind, indexes=indexes)
        self.pools = self._feed(POOLS, pools)
        self.allocations = self._feed(ALLOCATIONS, allocations)
        self.claims = self._feed(CLAIMS, claims)
        self.addresses = self._feed(ADDRESSES, addresses)
        client, clock = self._client(), self.clock
        caches = ClaimCaches(
            claims, addresses, None, {"NetworkPool": pools}, claim_kind, address_kind
        )
        settings, recorder = self.settings, self.recorder
        parts = self._parts(client, caches)
        of_pools_claims = NetworkPoolClaims(parts, allocations, OtherHolders())
        self.holders = holders = ClaimHolders(clock)
        holders.known, holders.pools = True, of_pools_claims
        events = PoolEvents(recorder, clock, settings.event_interval)
        of_pools = NetworkPoolReconciler(
            client, pools, allocations, events, clock, settings, others=holders
        )
        of_allocations = IPAllocationReconciler(
            client, allocations, pools, OpenGate(), clock, AllocationSettings()
        )
        of_claims = ClaimReconciler(client, caches, recorder, clock)
        return (
            (of_pools.reconcile, (self.pools,)),
            (of_allocations.reconcile, (self.allocations,)),
            (of_pools_claims.reconcile, (self.pools,)),
            (of_claims.reconcile, (self.claims, self.addresses)),
        )


class SharedJudge(ClaimJudge):
    """Looks at every change of pools, allocations and claims."""

    @override
    def _look(self, plural: str, old: Json | None, new: Json | None) -> None:
        if plural in {POOLS, ALLOCATIONS}:
            Judge._look(self, plural, old, new)
            # A pass may refuse an allocation while a claim releases what the next pass promises:
            # it is served a pass later, and no address is lost.
            if self.problem and "was refused what its pool had promised" in self.problem:
                self.problem = None
        else:
            super()._look(plural, old, new)
        if self.problem is None and not self.paused and plural in {ALLOCATIONS, CLAIMS}:
            self.problem = next(self._shared_by_both(old, new), None)

    def _shared_by_both(self, old: Json | None, new: Json | None) -> Iterator[str]:
        if new is not None and old is not None:
            before, now = (_has(self.model, one) for one in (old, new))
            if now - before:
                yield from between(self.model, now - before)


def _has(model: ModelServer, obj: Json) -> set[str]:
    """Return the addresses of an allocation or a claim."""
    if obj["kind"] == "IPAllocation":
        return {address for one in held(obj) for address in one.addresses()}
    address = address_of(model, obj)
    return {address} if address else set()


def between(model: ModelServer, addresses: set[str] | None = None) -> Iterator[str]:
    """Yield which allocation and which claim have one address, of these if given."""
    for claim in model.of(CLAIMS):
        theirs = _has(model, claim)
        for allocation in model.of(ALLOCATIONS):
            both = theirs & _has(model, allocation)
            if addresses is not None:
                both &= addresses
            for one in sorted(both):
                names_of = claim["metadata"]["name"], allocation["metadata"]["name"]
                yield f"claim {names_of[0]} and allocation {names_of[1]} both have {one}"


@dataclass
class SharedRun(ClaimRun):
    """One seed of the simulation of allocations and claims together, played."""

    pools = POOLS
    replica: ClassVar[type[JournalReplica]] = SharedReplica

    @override
    def _make_judge(self) -> Judge:
        return SharedJudge(self.model)

    @override
    def _overlap(self) -> str | None:
        found = overlap(self.model) or given_twice(self.model)
        return found or next(between(self.model), None)

    @override
    def _unserved(self) -> str | None:
        return left_undone(self.model, POOLS, self._of_allocations) or self._waiting()

    def _of_allocations(self, pool: str) -> Iterable[str]:
        """Return the addresses of a pool that allocations hold."""
        found = (
            one for one in self.model.of(ALLOCATIONS) if one["spec"]["poolRef"]["name"] == pool
        )
        return {address for one in found for address in _has(self.model, one)}

    def _waiting(self) -> str | None:
        """Return which allocation waits although it fits, None if none does."""
        claimed = {str(one["spec"]["address"]) for one in self.model.of(ADDRESSES)}
        for one in self.model.of(ALLOCATIONS):
            name, pool = one["metadata"]["name"], one["spec"]["poolRef"]["name"]
            found = self.model.get(POOLS, pool)
            if found is None or "deletionTimestamp" in found["metadata"]:
                continue
            if "deletionTimestamp" in one["metadata"]:
                return f"allocation {name} is deleted and still there"
            taken = claimed | {*self._of_allocations(pool)}
            if not held(one) and _longest_run(pool, taken) >= one["spec"]["count"]:
                return f"allocation {name} waits although it fits: {found.get('status')}"
        return None

    @override
    def _user(self) -> None:
        if self.random.random() < 0.5:
            Run._user(self)
        else:
            super()._user()

    @override
    def ref(self, pool: str) -> Json:
        return {"apiGroup": names.GROUP, "kind": "NetworkPool", "name": pool}

    @override
    def _harms(self) -> dict[str, list[Harm]]:
        harms = super()._harms()
        harms["resets"].append(partial(Run._reset, self))
        harms["touches"].append(partial(Run._touch, self))
        harms["wipes"].append(partial(Run._wipe, self))
        harms["restores"].append(partial(Run._restore, self))
        return harms

    @override
    def _make_pool(self, name: str, status: Json | None = None) -> None:
        Run._make_pool(self, name, status)


def _longest_run(pool: str, taken: set[str]) -> int:
    """Return how many free addresses of a pool lie in a row."""
    longest = run = 0
    first, last = SPANS[pool]
    for number in range(first, last + 1):
        run = 0 if f"{FIRST}{number}" in taken else run + 1
        longest = max(longest, run)
    return longest
