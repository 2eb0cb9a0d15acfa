"""A tenant's two allocations exist, each in a pool that fits; or why they do not yet."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.errors import AlreadyExists
from controller.meta import Version
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster import membership, sizing
from reconcilers.tenantcluster.poolchoice import PoolChoice

_log = structlog.get_logger(__name__)


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


class Asking:
    """Creates the allocations of tenants."""

    def __init__(
        self, client: Client, allocations: Cache[IPAllocation], choice: PoolChoice
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._choice = choice
        # When a request that moves on to another pool was first made. Lost with the process, which
        # costs the request its place in the queue and nothing else.
        self._first_asked: dict[tuple[str, str], str] = {}

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

    async def ask(
        self, tenant: TenantCluster, provider: ProviderConfig, wanted: Wanted
    ) -> Standing:
        """Make sure that the allocation exists, or will; return how it stands.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: the create or delete failed.
        """
        existing = wanted.existing
        if existing is None:
            return await self._create(tenant, provider, wanted)
        if existing.status.phase == FAILED and not existing.metadata.terminating:
            await self._move_on(tenant, provider, wanted, existing)
        return Standing(wanted.kind, existing)

    async def _create(
        self, tenant: TenantCluster, provider: ProviderConfig, wanted: Wanted
    ) -> Standing:
        pool = self._choice.first_fit(provider, wanted.count)
        if pool is None:
            return Standing(wanted.kind, None, exhausted=True)
        namespace = provider.metadata.namespace
        name = membership.free_name(tenant, wanted.kind, self._allocations, namespace)
        body = membership.request(
            tenant, wanted.kind, name, pool.metadata.name, wanted.count(pool)
        )
        since = self._first_asked.pop((tenant.metadata.uid, wanted.kind), None)
        if since is not None:
            body["metadata"]["annotations"][names.ANNOTATION_REQUESTED_AT] = since
        try:
            created = await self._client.create(IP_ALLOCATION, namespace, body)
        except AlreadyExists:
            _log.info("allocation exists, waiting for the cache to show it", allocation=name)
            raise
        what = "LB" if wanted.kind == names.TYPE_LOADBALANCER else "node"
        _log.info(f"created {what} IPAllocation", allocation=name, pool=pool.metadata.name)
        return Standing(wanted.kind, created)

    async def _move_on(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        wanted: Wanted,
        failed: IPAllocation,
    ) -> None:
        """Delete a failed request of ours if another pool fits it now; it is asked again there."""
        ours = failed.metadata.annotations.get(names.ANNOTATION_TENANT_UID) == tenant.metadata.uid
        if not ours or failed.spec.pinnedRange is not None or ranges.held(failed) is not None:
            return
        pool = self._choice.first_fit(provider, wanted.count)
        if pool is None or pool.metadata.name == failed.spec.poolRef.name:
            return
        _log.info("LB allocation failed, cleaning up", allocation=failed.metadata.name)
        await self._client.delete(IP_ALLOCATION, Version.of(failed))
        self._first_asked[tenant.metadata.uid, wanted.kind] = failed.requested_at.isoformat()
