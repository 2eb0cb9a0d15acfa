"""Giving back what shrink has marked, once the tenant let go of it.

The mark is the annotation `releasing`: every projection leaves the range out. Then the tenant is
asked, as before any range is given back. If a Service took an address of it meanwhile, the mark is
withdrawn; else the allocation is deleted, at the version that the question was about.
"""

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.errors import NotFound
from controller.meta import Version
from reconcilers import ranges
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.ipallocation.gate import Gate, Holding
from reconcilers.metrics import IpamMetrics
from reconcilers.tenantcluster.membership import members

_log = structlog.get_logger(__name__)


class Returning:
    """Brings to an end what shrink has begun, in whatever mode the tenant is by now."""

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        gate: Gate,
        metrics: IpamMetrics,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._gate = gate
        self._metrics = metrics

    async def conclude(self, tenant: TenantCluster) -> int:
        """Delete what the tenant let go of, withdraw what it uses; return how many are left.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        left = 0
        for allocation in members(self._allocations, tenant):
            if allocation.metadata.terminating or not allocation.releasing:
                continue
            left += not await self._conclude(allocation)
        return left

    async def _conclude(self, allocation: IPAllocation) -> bool:
        if ranges.held(allocation) is None:
            await self._delete(allocation, "it holds no range")
            return True
        answer = await self._gate.ask(allocation, allocation.metadata.revision)
        if not isinstance(answer, Holding):
            await self._delete(allocation, answer.how)
            return True
        if not answer.in_use:
            return False
        _log.info(
            "elastic IPAM: shrink withdrawn", allocation=allocation.metadata.name, why=answer.why
        )
        marks = {names.ANNOTATION_RELEASING: None, names.ANNOTATION_IDLE_SINCE: None}
        await self._client.patch(
            IP_ALLOCATION, Version.from_object(allocation), {"metadata": {"annotations": marks}}
        )
        return True

    async def _delete(self, allocation: IPAllocation, how: str) -> None:
        _log.info(
            "elastic IPAM: shrink gives the range back",
            allocation=allocation.metadata.name,
            why=how,
        )
        try:
            await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
        except NotFound:
            return
        self._metrics.shrunk(allocation.pool_key)
