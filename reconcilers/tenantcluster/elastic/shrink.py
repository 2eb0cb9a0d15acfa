"""Growth allocations that are out of use are marked, and given back once the tenant released them.

The disuse is remembered on the allocation, so that it survives a restart, and begins anew when a
Service takes an address. Initial allocations and pinned ones are left alone.

The mark is the annotation `releasing`: every projection leaves the range out. Then the tenant is
checked, as before any range is given back. If a Service took an address of it meanwhile, the mark
is withdrawn; else the allocation is deleted, at the version that the check was about.
"""

from dataclasses import dataclass
from datetime import datetime

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
from reconcilers.ipallocation.release import InUse, ReleaseCheck
from reconcilers.metrics import IpamMetrics
from reconcilers.releaselog import release_fields
from reconcilers.tenantcluster.allocations.membership import members
from reconcilers.tenantcluster.elastic.demand import Demand


@dataclass(frozen=True, slots=True)
class Disuse:
    """Whether a growth allocation is out of use.

    Args:
        remember: what the annotation should say; None that it should not be there.
        due_in: seconds until it may go; None while it is in use.
    """

    remember: str | None
    due_in: float | None

    @property
    def over(self) -> bool:
        """Whether it may go now."""
        return self.due_in is not None and self.due_in <= 0


def disuse(
    allocation: IPAllocation,
    demand: Demand,
    now: datetime,
    grace: float,
    settling: float,
    in_pool: float | None,
) -> Disuse:
    """Return how long a growth allocation is out of use.

    A range that does not stand in the tenant's pool is neither in use nor out of it.

    Args:
        allocation: one that growth made; without a range yet it is out of use.
        demand: what the tenant's Services show.
        now: the time.
        grace: for how many seconds it must be out of use, and how old it must be.
        settling: for how many seconds it is not checked from when it stands in the tenant's pool:
            MetalLB is about to use it, and the disuse would be written only to be removed again.
        in_pool: for how many seconds its range has stood there; None if it does not.
    """
    held = ranges.all_held(allocation)
    if any(map(demand.in_use, held)):
        return Disuse(None, None)
    created = allocation.metadata.creationTimestamp or now
    age = (now - created).total_seconds()
    since = idle_since(allocation, now)
    if since is None:
        offered = in_pool if held else age
        if offered is None or offered < settling:
            return Disuse(None, settling - (offered or 0.0))
        return Disuse(now.isoformat(), grace)
    idle = (now - since).total_seconds()
    return Disuse(remembered(allocation), grace - min(idle, age))


def remembered(allocation: IPAllocation) -> str | None:
    """Return since when the allocation is out of use, as its annotation has it."""
    return allocation.metadata.annotations.get(names.ANNOTATION_IDLE_SINCE)


def idle_since(allocation: IPAllocation, now: datetime) -> datetime | None:
    """Return since when it is out of use; None if it is not noted, or unreadable."""
    try:
        since = datetime.fromisoformat(remembered(allocation) or "")
    except ValueError:
        return None
    return since if since.tzinfo is not None and since <= now else None


_log = structlog.get_logger(__name__)


class MarkedReleaser:
    """Deletes what shrink has marked once the tenant has released it, in every mode."""

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

        A Service may have taken an address since its watch was read. MetalLB would take it away
        as soon as the range leaves the pool.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        for allocation in self._marked(tenant):
            if ranges.held(allocation) is None:
                continue
            answer = await self._release_check.check(allocation, allocation.metadata.revision)
            if isinstance(answer, InUse) and answer.by_service:
                await self._withdraw(allocation, answer)

    async def release(self, tenant: TenantCluster) -> int:
        """Delete what the tenant has released, withdraw the mark of what it uses.

        Returns:
            How many marked allocations are left.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        left = 0
        for allocation in self._marked(tenant):
            left += not await self._release_one(allocation)
        return left

    def _marked(self, tenant: TenantCluster) -> list[IPAllocation]:
        return [
            allocation
            for allocation in members(self._allocations, tenant)
            if allocation.releasing and not allocation.metadata.terminating
        ]

    async def _release_one(self, allocation: IPAllocation) -> bool:
        """Delete a marked allocation that the tenant no longer uses; unmark it if a Service does.

        Returns:
            Whether it needs no further pass; False while MetalLB's pool still has the range.
        """
        if ranges.held(allocation) is None:
            await self._delete(allocation, "it holds no range")
            return True
        answer = await self._release_check.check(allocation, allocation.metadata.revision)
        if not isinstance(answer, InUse):
            await self._delete(allocation, answer.reason)
            return True
        if not answer.by_service:
            return False
        await self._withdraw(allocation, answer)
        return True

    async def _withdraw(self, allocation: IPAllocation, answer: InUse) -> None:
        """Take the mark off an allocation that a Service uses."""
        _log.info("elastic IPAM: shrink withdrawn", **release_fields(allocation, answer.why))
        marks = {names.ANNOTATION_RELEASING: None, names.ANNOTATION_IDLE_SINCE: None}
        await self._client.patch(
            IP_ALLOCATION, Version.from_object(allocation), {"metadata": {"annotations": marks}}
        )

    async def _delete(self, allocation: IPAllocation, why: str) -> None:
        _log.info(
            "elastic IPAM: deleting the unused allocation", **release_fields(allocation, why)
        )
        try:
            await self._client.delete(IP_ALLOCATION, Version.from_object(allocation))
        except NotFound:
            return
        self._metrics.shrunk(allocation.pool_key)
