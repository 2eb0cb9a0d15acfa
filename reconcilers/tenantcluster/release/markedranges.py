"""Deletes allocations that shrink has marked, once the tenant has released their ranges.

Shrink takes back ranges that Services no longer use. The *mark* is the annotation `releasing`:
every projection, that is, write to the tenant's load balancer, leaves the range out. Then the
tenant is checked, as before any release of a range. If a Service took an address of the range
meanwhile, the mark is withdrawn. Else the allocation is deleted, at the version that was checked.
"""

from controller.cache import Cache
from controller.client import Client
from controller.errors import NotFound
from controller.loggers import get_logger
from controller.meta import Version
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.ipallocation.release import InUse, ReleaseCheck
from reconcilers.metrics.counters import IpamMetrics
from reconcilers.reporting.releaselog import release_fields
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.allocations.membership import list_members

_log = get_logger(__name__)


class MarkedReleaser:
    """Deletes marked allocations that the tenant has released, or withdraws their marks."""

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        release: ReleaseCheck,
        metrics: IpamMetrics,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._release_check = release
        self._metrics = metrics

    async def withdraw_used(self, tenant: TenantCluster) -> None:
        """Withdraw the mark of each range that a Service uses, before the range leaves the tenant.

        A Service may have taken an address since its watch was read. It would lose the address
        as soon as the range leaves the pool.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        for allocation in self._list_marked(tenant):
            if statusranges.find_held_range(allocation) is None:
                continue  # no Service can use it
            # This version has the mark, so no later projection has the range.
            answer = await self._release_check.check(allocation, mark=allocation.metadata.revision)
            if isinstance(answer, InUse) and answer.by_service:
                await self._withdraw(allocation, answer)

    async def release(self, tenant: TenantCluster) -> int:
        """Delete marked allocations that the tenant has released; unmark those that are in use.

        Returns:
            How many marked allocations need a further pass.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        number_left = 0
        for allocation in self._list_marked(tenant):
            if not await self._delete_or_unmark(allocation):
                number_left += 1
        return number_left

    def _list_marked(self, tenant: TenantCluster) -> list[IPAllocation]:
        """Return the allocations of a cluster that shrink has marked."""
        return [
            allocation
            for allocation in list_members(self._allocations, tenant)
            if allocation.is_marked
        ]

    async def _delete_or_unmark(self, allocation: IPAllocation) -> bool:
        """Delete a marked allocation that the tenant has released; unmark it if a Service uses it.

        Returns:
            True if either was done; False while the load balancer may still hand out the range,
            so that a later pass has to check again.
        """
        if statusranges.find_held_range(allocation) is None:
            await self._delete(allocation, "it holds no range")
            return True
        # This version has the mark, so no later projection has the range.
        answer = await self._release_check.check(allocation, mark=allocation.metadata.revision)
        if not isinstance(answer, InUse):
            await self._delete(allocation, answer.reason)
            return True
        if not answer.by_service:
            return False
        await self._withdraw(allocation, answer)
        return True

    async def _withdraw(self, allocation: IPAllocation, answer: InUse) -> None:
        """Remove the mark of an allocation that a Service uses, and the noted time of disuse."""
        _log.info("elastic IPAM: shrink withdrawn", **release_fields(allocation, answer.why))
        marks = {names.ANNOTATION_RELEASING: None, names.ANNOTATION_IDLE_SINCE: None}
        await annotate(self._client, allocation, marks)

    async def _delete(self, allocation: IPAllocation, why: str) -> None:
        """Delete a marked allocation at the version that was checked, and count it as shrunk."""
        _log.info(
            "elastic IPAM: deleting the unused allocation", **release_fields(allocation, why)
        )
        try:
            await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
        except NotFound:
            return  # someone else deleted it, so it does not count as shrunk
        self._metrics.count_shrunk(allocation.pool_key)
