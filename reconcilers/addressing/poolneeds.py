"""What the requests that wait need of the NetworkPools, by family.

A cluster that finds no pool with room creates no IPAllocation, so its requests are read from its
status.network. It takes the first pool that gets room, so it counts in each pool that it tries.
Its node and load-balancer addresses are one request, because it gets both or none. A pool has
room for it once a free block is as large as both together.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from allocator import AllocatorError, Family
from controller.meta import Key
from reconcilers.addressing import familychoice, requestedranges
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster

POOL_EXHAUSTED = "PoolExhausted"
"""The reason of requests that would be served if a pool had more room."""


@dataclass(frozen=True, slots=True)
class PoolNeed:
    """What the requests that wait need of one family of a pool.

    Args:
        requests: how many wait.
        largest: how many addresses the largest of them needs.
    """

    requests: int = 0
    largest: int = 0

    def with_request(self, addresses: int) -> "PoolNeed":
        """Return the need with a request for that many addresses."""
        return PoolNeed(self.requests + 1, max(self.largest, addresses))


def list_pool_families(pool: NetworkPool) -> tuple[Family, ...]:
    """Return the families of a pool, in its order."""
    return tuple(block.family for block in pool.spec.blocks)


def list_needed_families(
    request: IPAllocation | TenantCluster, pool: NetworkPool
) -> tuple[Family, ...]:
    """Return the families without which a pool does not serve a request.

    Empty if more room would not help, because the pool lacks a family of the request.
    """
    available = list_pool_families(pool)
    try:
        if isinstance(request, TenantCluster):
            choice = familychoice.choose_cluster_families(request.networking, pool, available)
        else:
            choice = familychoice.choose_families(request, pool, available)
    except AllocatorError:
        return ()
    # A request that only prefers the second family is served by the first alone.
    return choice.families if choice.second_required else choice.families[:1]


def sum_pool_needs(
    clusters: Iterable[TenantCluster],
    pools: Mapping[Key, NetworkPool],
    waiting_allocations: Iterable[IPAllocation],
) -> dict[tuple[Key, Family], PoolNeed]:
    """Return the needs of the allocations and clusters that wait, by pool and family.

    A family for which none waits is left out, and so is a pool that is not in `pools`.

    Args:
        clusters: the TenantClusters that are not being deleted.
        waiting_allocations: the IPAllocations that wait for a range.
    """
    needs: dict[tuple[Key, Family], PoolNeed] = defaultdict(PoolNeed)
    for allocation in waiting_allocations:
        pool = pools.get(allocation.pool_key)
        if pool is None:
            continue
        count = requestedranges.count_requested(allocation, pool)
        for family in list_needed_families(allocation, pool):
            pool_family = allocation.pool_key, family
            needs[pool_family] = needs[pool_family].with_request(count)
    for cluster in clusters:
        for key, count in sum_waiting_addresses(cluster).items():
            if key not in pools:
                continue
            for family in list_needed_families(cluster, pools[key]):
                needs[key, family] = needs[key, family].with_request(count)
    return dict(needs)


def sum_waiting_addresses(cluster: TenantCluster) -> dict[Key, int]:
    """Return how many addresses a cluster waits for by NetworkPool; empty if it does not wait.

    Node and load-balancer addresses are added up, because the cluster gets both or none.

    Two sorts of requests are left out:

    1. A request with an IPAllocation, because that allocation is counted as waiting itself.
    2. A request that waits for another reason than a full pool, because room would not help it.
    """
    network = cluster.status.network
    counts: dict[Key, int] = defaultdict(int)
    for request in network.waiting if network is not None else ():
        if request.allocation or request.reason != POOL_EXHAUSTED:
            continue
        for name in request.pools:
            counts[Key(request.namespace, name)] += request.addresses
    return dict(counts)
