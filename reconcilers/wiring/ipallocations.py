"""The controller of IPAllocations: who waits, and who is given back."""

from collections.abc import Iterable

from controller.meta import Key
from controller.triggers import Watch, to_self
from reconcilers.api.ipallocation import ALLOCATED
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.ipallocation.gate import Gate
from reconcilers.ipallocation.reconciler import IPAllocationReconciler
from reconcilers.networkpool.view import POOL_INDEX
from reconcilers.tenantcluster.membership import TENANT_INDEX
from reconcilers.waking import serves_differently
from reconcilers.wiring.shared import Shared


def add(shared: Shared, gate: Gate) -> None:
    """Add it to the manager.

    Args:
        shared: what every part is handed.
        gate: says whether a tenant let go of a range.
    """
    informers, settings = shared.informers, shared.settings
    allocations = informers.allocations.cache
    reconciler = IPAllocationReconciler(
        shared.client,
        allocations,
        informers.pools.cache,
        gate,
        shared.clock,
        settings.allocation,
    )

    def unserved(pool: NetworkPool) -> Iterable[Key]:
        found = allocations.by_index(POOL_INDEX, str(pool.metadata.key))
        return [a.metadata.key for a in found if a.status.phase != ALLOCATED]

    def given_back(cluster: TenantCluster) -> Iterable[Key]:
        found = allocations.by_index(TENANT_INDEX, str(cluster.metadata.key))
        return [a.metadata.key for a in found if a.metadata.terminating]

    def tenant(key: Key) -> Key:
        found = allocations.get(key)
        return key if found is None else found.spec.tenantClusterRef.key

    shared.manager.controller(
        "ipallocation",
        reconciler.reconcile,
        watches=[
            Watch(informers.allocations, to_self),
            Watch(informers.pools, unserved, serves_differently),
            Watch(informers.clusters, given_back),
        ],
        concurrency=settings.concurrency,
        # All allocations live in one namespace; a tenant with hundreds must not delay the others.
        group=tenant,
    )
