"""A TenantCluster that is being deleted gives everything back.

1. its allocations are deleted: that is the mark which every projection leaves out
2. the tenant's MetalLB loses what we put there
3. each allocation goes once the tenant let go of it (gate.py)
4. our finalizer goes when a live LIST shows none left

One that went without all this, because a deletion overtook its finalizer, is made up for.
"""

from collections.abc import Iterable

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.errors import ControllerError, NotFound
from controller.finalizers import remove_finalizer
from controller.meta import Version
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.networkpool.owners import LiveOwners
from reconcilers.tenantcluster.membership import is_foreign, members

_log = structlog.get_logger(__name__)


class Teardown:
    """Deletes what a tenant had."""

    def __init__(self, client: Client, allocations: Cache[IPAllocation]) -> None:
        self._client = client
        self._allocations = allocations

    async def mark(self, tenant: TenantCluster) -> int:
        """Delete the tenant's allocations; return how many are still there.

        Raises:
            Conflict: one changed since it was read; begin again.
            ControllerError: a delete failed; the others were tried all the same.
        """
        found = members(self._allocations, tenant)
        await self._delete(found)
        return len(found)

    async def make_up(self, departed: TenantCluster, left: Iterable[IPAllocation]) -> None:
        """Delete what a cluster left if a live read shows that it is gone.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the read or a delete failed.
        """
        meta = departed.metadata
        going = [one for one in left if not one.metadata.terminating]
        if going and await LiveOwners(self._client).is_gone(meta.key, meta.uid):
            _log.info("cluster vanished in spite of its finalizer", uid=meta.uid)
            await self._delete(going)

    async def _delete(self, found: Iterable[IPAllocation]) -> None:
        failures = []
        for allocation in found:
            if allocation.metadata.terminating:
                continue
            _log.info("deleted IPAllocation during cleanup", allocation=allocation.metadata.name)
            try:
                await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
            except NotFound:
                continue
            except ControllerError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def finish(self, tenant: TenantCluster) -> bool:
        """Take our finalizer off if nothing is left; return whether that is so.

        Raises:
            Conflict: the cluster changed since it was read; begin again.
            ControllerError: the LIST or the write failed.
        """
        page = await self._client.list(IP_ALLOCATION)
        key = tenant.metadata.key
        if any(
            a.spec.tenantClusterRef.key == key and not is_foreign(a, tenant) for a in page.items
        ):
            return False
        await remove_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        return True
