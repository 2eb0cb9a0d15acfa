"""What a tenant asks for, before anybody sends it: which allocations, from which pool, how large.

Decisions only, from caches: asking.py carries them out on the management cluster, and the command
line shows them without one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from controller.cache import Cache
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster import membership, sizing
from reconcilers.tenantcluster.poolchoice import PoolChoice


@dataclass(frozen=True, slots=True)
class Wanted:
    """One of the allocations that a tenant should have.

    Args:
        kind: nodes or loadbalancer.
        count: how many addresses, given the pool.
        existing: the allocation that serves the purpose, if there is one.
    """

    kind: str
    count: Callable[[NetworkPool], int]
    existing: IPAllocation | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How an allocation stands after asking.

    Args:
        kind: nodes or loadbalancer.
        allocation: it, once it is known.
        exhausted: whether no pool has room for it.
    """

    kind: str
    allocation: IPAllocation | None
    exhausted: bool = False

    @property
    def served(self) -> bool:
        """Whether it holds its range."""
        return (
            self.allocation is not None
            and self.allocation.status.phase == ALLOCATED
            and not self.allocation.releasing
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """An allocation that is not created yet.

    Args:
        namespace: where it will live: with its pool.
        pool: the pool it was found room in.
        body: what to create.
    """

    namespace: str
    pool: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])


class Drafts:
    """Decides what tenants ask for."""

    def __init__(self, allocations: Cache[IPAllocation], choice: PoolChoice) -> None:
        self._allocations = allocations
        self._choice = choice

    def wanted(
        self, tenant: TenantCluster, provider: ProviderConfig, backfill_nodes: bool
    ) -> list[Wanted]:
        """Return the allocations that `tenant` should have.

        A cluster that was Ready without node addresses gets none unless `backfill_nodes`: adopting
        a running installation must not take addresses by surprise.
        """
        network = provider.spec.networking
        found = membership.members(self._allocations, tenant)
        nodes = membership.initial(found, tenant, names.TYPE_NODES)
        balancer = membership.initial(found, tenant, names.TYPE_LOADBALANCER)
        wanted = []
        lb_count = sizing.load_balancer_count(tenant, network)
        if lb_count or balancer is not None:
            wanted.append(Wanted(names.TYPE_LOADBALANCER, lambda _: lb_count, balancer))
        if nodes is not None or backfill_nodes or not tenant.is_ready:
            wanted.append(Wanted(names.TYPE_NODES, lambda p: sizing.node_count(p, network), nodes))
        return wanted

    def draft(
        self, tenant: TenantCluster, provider: ProviderConfig, wanted: Wanted
    ) -> Draft | None:
        """Return the allocation to create, in the first pool that fits; None if none does."""
        pool = self._choice.first_fit(provider, wanted.count)
        if pool is None:
            return None
        namespace = provider.metadata.namespace
        name = membership.free_name(tenant, wanted.kind, self._allocations, namespace)
        body = membership.request(
            tenant, wanted.kind, name, pool.metadata.name, wanted.count(pool)
        )
        return Draft(namespace, pool.metadata.name, body)

    def moves_on(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        wanted: Wanted,
        failed: IPAllocation,
    ) -> bool:
        """Return whether a failed request is better deleted and asked again of another pool.

        Only one that we made, that is not pinned and holds nothing; and only if another pool
        fits it now. Otherwise it stays and keeps its place in the queue.
        """
        ours = failed.metadata.annotations.get(names.ANNOTATION_TENANT_UID) == tenant.metadata.uid
        if not ours or failed.spec.pinnedRange is not None or ranges.held(failed) is not None:
            return False
        pool = self._choice.first_fit(provider, wanted.count)
        return pool is not None and pool.metadata.name != failed.spec.poolRef.name
