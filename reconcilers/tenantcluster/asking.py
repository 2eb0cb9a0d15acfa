"""A tenant's two allocations exist, each in a pool that fits; or why they do not yet."""

import anyio
import structlog

from controller.cache import Cache
from controller.client import Client
from controller.errors import AlreadyExists
from controller.meta import Version
from reconcilers.api import names
from reconcilers.api.ipallocation import FAILED, IPAllocation
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.tenantcluster.drafts import Drafts, Standing, Wanted
from reconcilers.tenantcluster.poolchoice import PoolChoice

_log = structlog.get_logger(__name__)


class Asking:
    """Creates the allocations of tenants."""

    def __init__(
        self, client: Client, allocations: Cache[IPAllocation], choice: PoolChoice
    ) -> None:
        self._client = client
        self._choice = choice
        self._drafts = Drafts(allocations, choice)
        # When a request that moves on to another pool was first made. Lost with the process, which
        # costs the request its place in the queue and nothing else.
        self._first_asked: dict[tuple[str, str], str] = {}
        # One choice at a time: the next one has to count what this one created.
        self._choosing = anyio.Lock()

    def wanted(
        self, tenant: TenantCluster, provider: ProviderConfig, backfill_nodes: bool
    ) -> list[Wanted]:
        """Return the allocations that `tenant` should have; see Drafts."""
        return self._drafts.wanted(tenant, provider, backfill_nodes)

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
            async with self._choosing:
                return await self._create(tenant, provider, wanted)
        stuck = existing.status.phase == FAILED or not self._choice.serves(existing.pool_key)
        if stuck and not existing.metadata.terminating:
            await self._move_on(tenant, provider, wanted, existing)
        return Standing(wanted.kind, existing)

    async def _create(
        self, tenant: TenantCluster, provider: ProviderConfig, wanted: Wanted
    ) -> Standing:
        draft = self._drafts.draft(tenant, provider, wanted)
        if draft is None:
            return Standing(wanted.kind, None, exhausted=True)
        since = self._first_asked.get((tenant.metadata.uid, wanted.kind))
        if since is not None:
            draft.body["metadata"]["annotations"][names.ANNOTATION_REQUESTED_AT] = since
        try:
            created = await self._client.create(IP_ALLOCATION, draft.namespace, draft.body)
        except AlreadyExists:
            _log.info("allocation exists, waiting for the cache to show it", allocation=draft.name)
            raise
        self._first_asked.pop((tenant.metadata.uid, wanted.kind), None)
        what = "LB" if wanted.kind == names.TYPE_LOADBALANCER else "node"
        _log.info(f"created {what} IPAllocation", allocation=draft.name, pool=draft.pool)
        return Standing(wanted.kind, created)

    async def _move_on(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        wanted: Wanted,
        failed: IPAllocation,
    ) -> None:
        """Delete a request of ours that is stuck if another pool fits it now: ask again there."""
        if not self._drafts.moves_on(tenant, provider, wanted, failed):
            return
        _log.info("LB allocation failed, cleaning up", allocation=failed.metadata.name)
        await self._client.delete(IP_ALLOCATION, Version.of(failed))
        self._first_asked[tenant.metadata.uid, wanted.kind] = failed.requested_at.isoformat()
