"""A tenant's allocations exist, each in a pool that fits; or why they do not yet."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.errors import AlreadyExists
from controller.meta import Version
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.metrics import IpamMetrics
from reconcilers.tenantcluster.drafts import Draft, Drafts, Standing, Wanted, groups
from reconcilers.tenantcluster.moving import moving, remember, tidy
from reconcilers.tenantcluster.poolchoice import PoolChoice

_log = structlog.get_logger(__name__)


class Asking:
    """Creates the allocations of tenants.

    Args:
        client: the management cluster.
        allocations: what is there already.
        choice: chooses pools.
        metrics: counts growth.
    """

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        choice: PoolChoice,
        metrics: IpamMetrics,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._choice = choice
        self._metrics = metrics
        self._drafts = Drafts(allocations, choice)

    def wanted(
        self, tenant: TenantCluster, provider: ProviderConfig, backfill_nodes: bool
    ) -> list[Wanted]:
        """Return the allocations that `tenant` should have; see Drafts."""
        return self._drafts.wanted(tenant, provider, backfill_nodes)

    async def ask(
        self, tenant: TenantCluster, provider: ProviderConfig, wanted: Sequence[Wanted]
    ) -> list[Standing]:
        """Make sure that the allocations exist, or will; return how each stands.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: a create or delete failed.
        """
        for one in wanted:
            if one.existing is not None:
                tenant = await self._move_on(tenant, provider, one.count, one.existing)
        missing = [one for one in wanted if one.existing is None]
        created = [
            standing
            for group in groups(tenant, missing)
            for standing in await self._create_all(tenant, provider, group)
        ]
        await tidy(self._client, tenant, self._allocations, provider.metadata.namespace)
        found = {standing.kind: standing for standing in created}
        return [found.get(one.kind) or Standing(one.kind, one.existing) for one in wanted]

    async def grow(self, tenant: TenantCluster, provider: ProviderConfig, number: int) -> int:
        """Create up to `number` growth allocations; return how many pools had room for.

        Raises:
            Conflict: the cache is behind; the pass ends, and begins again once it has caught up.
            ControllerError: a create failed.
        """
        for made in range(number):
            draft = self._drafts.growth(tenant, provider)
            if draft is None:
                return made
            with self._choice.reserved(draft.pool, draft.count):
                created = await self._create(tenant, draft)
            self._metrics.grown(created.pool_key)
            _log.info(
                "elastic IPAM: created growth allocation",
                allocation=created.metadata.name,
                pool=created.spec.poolRef.name,
                count=draft.count,
            )
        return number

    async def move_growth(
        self, tenant: TenantCluster, provider: ProviderConfig, grown: Iterable[IPAllocation]
    ) -> None:
        """Delete growth requests that are stuck where another pool fits them: grow again there.

        Raises:
            Conflict: one changed, or the cluster did.
            ControllerError: a write failed.
        """
        increment = provider.spec.networking.sizing.growthIncrement
        for allocation in grown:
            tenant = await self._move_on(tenant, provider, lambda _: increment, allocation)

    def is_stuck(self, request: IPAllocation) -> bool:
        """Return whether the pool that a request asks refused it, or serves nobody."""
        if request.metadata.terminating or ranges.held(request) is not None:
            return False
        return request.status.phase == FAILED or not self._choice.serves(request.pool_key)

    async def _create_all(
        self, tenant: TenantCluster, provider: ProviderConfig, group: Sequence[Wanted]
    ) -> list[Standing]:
        """Create the allocations of a group if there is room for every one of them.

        What is chosen is kept from other choices until the cache shows it.
        """
        with ExitStack() as kept:
            drafts = self._drafts.together(tenant, provider, group, kept)
            if isinstance(drafts, Wanted):
                return [Standing(one.kind, None, exhausted=one is drafts) for one in group]
            return [
                Standing(wanted.kind, await self._create(tenant, draft))
                for wanted, draft in zip(group, drafts, strict=True)
            ]

    async def _create(self, tenant: TenantCluster, draft: Draft) -> IPAllocation:
        moved = moving(tenant).get(draft.name)
        if moved is not None:
            draft = draft.asked_since(moved.since)
        try:
            created = await self._client.create(IP_ALLOCATION, draft.namespace, draft.body)
        except AlreadyExists:
            _log.info("allocation exists, waiting for the cache to show it", allocation=draft.name)
            raise
        what = "LB" if created.spec.type == names.TYPE_LOADBALANCER else "node"
        pool = draft.pool.metadata.name
        _log.info(f"created {what} IPAllocation", allocation=draft.name, pool=pool)
        return created

    async def _move_on(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        count: Callable[[NetworkPool], int],
        existing: IPAllocation,
    ) -> TenantCluster:
        """Delete a request of ours that is stuck if another pool fits it now: ask again there."""
        if not self.is_stuck(existing):
            return tenant
        if not self._drafts.moves_on(tenant, provider, count, existing):
            return tenant
        _log.info("LB allocation failed, cleaning up", allocation=existing.metadata.name)
        tenant = await remember(self._client, tenant, existing)
        await self._client.delete(IP_ALLOCATION, Version.from_object(existing))
        return tenant
