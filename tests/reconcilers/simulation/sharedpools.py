"""NetworkPools that serve IPAllocations and claims of Cluster API: one pass, one journal.

The replicas have the reconcilers of both, and the chaos and the laws are those of both.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from controller.meta import Key
from reconcilers.api.ipallocation import POOL_INDEX, pool_index
from reconcilers.api.resources import IP_ALLOCATION, NETWORK_POOL
from reconcilers.configuration.settings import AllocationSettings
from reconcilers.integrations.clusterapi.claims import ClaimReconciler
from reconcilers.integrations.clusterapi.networkpoolclaims import (
    DiscoveredClaims,
    NetworkPoolClaims,
)
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.networkpool.events import PoolEvents
from reconcilers.networkpool.poolkind import make_networkpool_passes
from tests.reconcilers.simulation.adapter import (
    Address,
    Event,
    Memory,
    Need,
    StatusMemory,
)
from tests.reconcilers.simulation.claims import ClaimReplica, Claims
from tests.reconcilers.simulation.model import ADDRESSES, ALLOCATIONS, CLAIMS, POOLS, Json
from tests.reconcilers.simulation.networkpools import (
    NetworkPoolReplica,
    NetworkPools,
    OpenGate,
)
from tests.reconcilers.simulation.replica import Process, Worker, World


class SharedReplica(ClaimReplica):
    """A process that serves allocations and claims."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        pools = Cache(NETWORK_POOL)
        allocations = Cache(IP_ALLOCATION, indexes={POOL_INDEX: pool_index})
        self.pools = self._feed(POOLS, pools)
        self.allocations = self._feed(ALLOCATIONS, allocations)
        caches = self._feed_claims({"NetworkPool": pools})
        client, clock = self._client(), self.clock
        settings, recorder = self.settings, self.recorder
        self.discovered = discovered = DiscoveredClaims(clock)
        self.of_claims = NetworkPoolClaims(self._parts(client, caches))
        discovered.known, discovered.pool_claims = True, self.of_claims
        events = PoolEvents(recorder, clock, settings.event_interval)
        of_pools = make_networkpool_passes(
            client,
            pools,
            allocations=allocations,
            events=events,
            clock=clock,
            settings=settings,
            claims=discovered,
        )
        of_allocations = IPAllocationReconciler(
            client,
            allocations,
            pools=pools,
            release=OpenGate(),
            clock=clock,
            settings=AllocationSettings(),
        )
        of_claims = ClaimReconciler(client, caches, recorder=recorder, clock=clock)

        def pool_of(key: Key) -> Key | None:
            allocation = allocations.get(key)
            return None if allocation is None else allocation.pool_key

        return (
            Worker(of_pools.reconcile, (self.pools,), pool_of=None, forget=of_pools.forget),
            Worker(
                of_allocations.reconcile,
                (self.allocations,),
                pool_of=pool_of,
                forget=of_allocations.forget,
            ),
            Worker(of_claims.reconcile, (self.claims, self.addresses), caches.find_shard_key),
        )


class SharedPools(NetworkPools, Claims):
    """NetworkPools that serve both."""

    requests: ClassVar[tuple[str, ...]] = (CLAIMS, ALLOCATIONS)
    holders: ClassVar[tuple[str, ...]] = (ADDRESSES, ALLOCATIONS)
    """An IPAddress counts for the pool that it names, whichever one its claim names."""
    memories: ClassVar[tuple[Memory, ...]] = (StatusMemory(),)
    finalizers: ClassVar[Mapping[str, str]] = {**Claims.finalizers, **NetworkPools.finalizers}
    resets: ClassVar[Mapping[str, Json]] = {**Claims.resets, **NetworkPools.resets}
    pool_kind = NETWORK_POOL
    claims_free_addresses: ClassVar[bool] = True

    @override
    def make_replica(self, world: World) -> Process:
        return SharedReplica(world)

    @override
    def make_replica_without_integration(self, world: World) -> Process:
        return NetworkPoolReplica(world)

    @override
    def use(self) -> None:
        (NetworkPools if self.random.random() < 0.5 else Claims).use(self)

    def claim(self, name: str) -> None:
        """Create a claim that may be served."""
        Claims.ask(self, name)

    @override
    def events(self) -> Mapping[str, Sequence[Event]]:
        return {**NetworkPools.events(self), **Claims.events(self)}

    @override
    def prepare_calm(self) -> None:
        Claims.prepare_calm(self)

    @override
    def addresses(self, request: Json) -> frozenset[Address]:
        if request["kind"] == "IPAddress":
            return frozenset({("", ip_address(request["spec"]["address"]))})
        return _kind_of(request).addresses(self, request)

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        return _kind_of(request).list_offered(self, request)

    @override
    def full_name(self, request: Json) -> str:
        word = "allocation" if _kind_of(request) is NetworkPools else "claim"
        return f"{word} {request['metadata']['name']}"

    @override
    def waiting(self) -> Iterator[tuple[str, list[Need]]]:
        yield from NetworkPools.waiting(self)
        yield from Claims.waiting(self)

    @override
    def crimes(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        yield from NetworkPools.crimes(self, plural, old=old, new=new)
        yield from Claims.crimes(self, plural, old=old, new=new)

    @override
    def undone(self) -> str | None:
        return NetworkPools.undone(self) or Claims.undone(self)


def _kind_of(request: Json) -> type[NetworkPools] | type[Claims]:
    return NetworkPools if request["kind"] == "IPAllocation" else Claims
