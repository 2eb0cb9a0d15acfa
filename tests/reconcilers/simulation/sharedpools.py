"""NetworkPools that serve IPAllocations and claims of Cluster API: one pass, one journal.

The replicas have the reconcilers of both, and the chaos and the laws are those of both.
"""

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import ClassVar

from typing_extensions import override

from controller.cache import Cache
from controller.meta import Key
from reconcilers.api.ipallocation import POOL_INDEX, index_by_pool
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
    Disturbance,
    Memory,
    Need,
    StatusMemory,
)
from tests.reconcilers.simulation.claims import ClaimReplica, Claims
from tests.reconcilers.simulation.model import ADDRESSES, ALLOCATIONS, CLAIMS, POOLS, Json
from tests.reconcilers.simulation.networkpools import (
    NetworkPoolReplica,
    NetworkPools,
    OpenReleaseCheck,
)
from tests.reconcilers.simulation.replica import Process, Worker, World


class SharedReplica(ClaimReplica):
    """A process that serves allocations and claims."""

    @override
    def _set_up(self) -> Sequence[Worker]:
        pools = Cache(NETWORK_POOL)
        allocations = Cache(IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool})
        self.pools = self._create_feed(POOLS, pools)
        self.allocations = self._create_feed(ALLOCATIONS, allocations)
        caches = self._create_claim_caches({"NetworkPool": pools})
        client, clock = self._create_client(), self.clock
        settings, recorder = self.settings, self.recorder
        self.discovered = discovered = DiscoveredClaims(clock)
        self.of_claims = NetworkPoolClaims(self._create_parts(client, caches))
        discovered.is_known, discovered.pool_claims = True, self.of_claims
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
            release=OpenReleaseCheck(),
            clock=clock,
            settings=AllocationSettings(),
        )
        of_claims = ClaimReconciler(client, caches, recorder=recorder, clock=clock)

        def find_pool(key: Key) -> Key | None:
            allocation = allocations.get(key)
            return None if allocation is None else allocation.pool_key

        return (
            Worker(of_pools.reconcile, (self.pools,), find_pool=None, forget=of_pools.forget),
            Worker(
                of_allocations.reconcile,
                (self.allocations,),
                find_pool=find_pool,
                forget=of_allocations.forget,
            ),
            Worker(of_claims.reconcile, (self.claims, self.addresses), caches.find_shard_key),
        )


class SharedPools(NetworkPools, Claims):
    """NetworkPools that serve IPAllocations and claims."""

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
    def act_as_user(self) -> None:
        (NetworkPools if self.random.random() < 0.5 else Claims).act_as_user(self)

    def create_claim(self, name: str) -> None:
        """Create a claim that may be served."""
        Claims.create_request(self, name)

    @override
    def list_disturbances(self) -> Mapping[str, Sequence[Disturbance]]:
        return {**NetworkPools.list_disturbances(self), **Claims.list_disturbances(self)}

    @override
    def prepare_calm(self) -> None:
        Claims.prepare_calm(self)

    @override
    def list_shown(self, request: Json) -> frozenset[Address]:
        if request["kind"] == "IPAddress":
            return frozenset({("", ip_address(request["spec"]["address"]))})
        return _find_adapter(request).list_shown(self, request)

    @override
    def list_offered(self, request: Json) -> frozenset[Address]:
        return _find_adapter(request).list_offered(self, request)

    @override
    def describe_request(self, request: Json) -> str:
        word = "allocation" if _find_adapter(request) is NetworkPools else "claim"
        return f"{word} {request['metadata']['name']}"

    @override
    def list_unserved(self) -> Iterator[tuple[str, list[Need]]]:
        yield from NetworkPools.list_unserved(self)
        yield from Claims.list_unserved(self)

    @override
    def find_violations(self, plural: str, old: Json | None, new: Json | None) -> Iterator[str]:
        yield from NetworkPools.find_violations(self, plural, old=old, new=new)
        yield from Claims.find_violations(self, plural, old=old, new=new)

    @override
    def find_unfinished_work(self) -> str | None:
        return NetworkPools.find_unfinished_work(self) or Claims.find_unfinished_work(self)


def _find_adapter(request: Json) -> type[NetworkPools] | type[Claims]:
    """Return the adapter of a request's kind."""
    return NetworkPools if request["kind"] == "IPAllocation" else Claims
