"""A tenant grows and shrinks with its Services, if its provider says so; one pass of it.

repair     labels are put right, in every mode
look       the tenant's Services, from a watch or read now
care       elastic/caring.py
conclude   what shrink has begun comes to its end, in every mode
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.meta import Key, Version
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.providerconfig import ELASTIC, ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import Finding
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster.elastic import platform
from reconcilers.tenantcluster.elastic.caring import Elastic
from reconcilers.tenantcluster.elastic.returning import Returning
from reconcilers.tenantcluster.kubeconfigs import NoWayIn
from reconcilers.tenantcluster.membership import members, repairs
from reconcilers.tenantcluster.services import TenantServices
from reconcilers.tenantcluster.status import DEMAND_MET
from reconcilers.tenantcluster.tenants import Tenants

_log = structlog.get_logger(__name__)


_SHUT = {"KubeconfigMissing", "KubeconfigRefused"}


@dataclass(frozen=True, slots=True)
class Resized:
    """What came of a look at a tenant's size.

    Args:
        findings: the conditions to write.
        obsolete: types of conditions that do not apply.
        due_in: seconds until something may be due without anything changing; None for never.
        shut: why nobody can enter the tenant, where trying again at once is of no use.
    """

    findings: tuple[Finding, ...] = ()
    obsolete: tuple[str, ...] = ()
    due_in: float | None = None
    shut: NoWayIn | None = None


class Sizing:
    """Looks after how many addresses tenants have."""

    def __init__(  # noqa: PLR0913 - the collaborators, each small; the wiring is the one caller
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        *,
        tenants: Tenants,
        services: TenantServices,
        elastic: Elastic,
        returning: Returning,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._tenants = tenants
        self._services = services
        self._elastic = elastic
        self._returning = returning
        self._clock = clock
        self._settings = settings
        # Since when MetalLB in a tenant has what it should have, as far as we know, and its uid.
        self._in_place: dict[Key, tuple[str, float]] = {}

    def forget(self, key: Key) -> None:
        """Forget a tenant that is gone."""
        self._in_place.pop(key, None)
        self._elastic.forget(key)
        self._services.close(key)

    async def care(self, tenant: TenantCluster, provider: ProviderConfig) -> Resized:
        """Put labels right; grow and shrink an elastic tenant.

        Raises:
            Conflict: something changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        await self._repair(tenant)
        if provider.spec.networking.sizing.allocationMode != ELASTIC:
            self._services.close(tenant.metadata.key)
            await self._returning.conclude(tenant)
            return Resized(obsolete=(DEMAND_MET,))
        try:
            services = await self._services.of(tenant, watched=tenant.is_ready)
        except NoWayIn as none:
            _log.debug("cannot get tenant client for elastic IPAM, skipping", error=none.message)
            return Resized(shut=none if none.reason in _SHUT else None)
        settling = self._settling(tenant)
        care = await self._elastic.care(tenant, provider, services, in_place=settling <= 0)
        await self._label_platform(tenant, services)
        await self._returning.conclude(tenant)
        due = [due for due in (care.due_in,) if due is not None]
        if not care.finding.status and settling > 0:
            due.append(settling)
        return Resized((care.finding,), due_in=min(due, default=None))

    def _settling(self, tenant: TenantCluster) -> float:
        """Return seconds until what MetalLB has had long enough is of no use to who waits."""
        after = self._settings.growth_after
        uid, since = self._in_place.get(tenant.metadata.key, ("", 0.0))
        return after if uid != tenant.metadata.uid else after - (self._clock.monotonic() - since)

    def projected(self, tenant: TenantCluster, done: bool) -> None:
        """Note whether MetalLB in the tenant has what it should have."""
        key, uid = tenant.metadata.key, tenant.metadata.uid
        if not done:
            self._in_place.pop(key, None)
        elif self._in_place.get(key, ("", 0.0))[0] != uid:
            self._in_place[key] = (uid, self._clock.monotonic())

    async def conclude(self, tenant: TenantCluster) -> int:
        """Give back what shrink has marked and the tenant let go of; return how many are left.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        return await self._returning.conclude(tenant)

    async def _label_platform(self, tenant: TenantCluster, services: Sequence[Service]) -> None:
        service = platform.unlabelled(services, self._settings.platform_service)
        if service is None:
            return
        try:
            async with self._tenants.inside(tenant) as client:
                await platform.label(client, service)
        except NoWayIn as none:
            _log.info("cannot label the platform's Service", error=none.message)

    async def _repair(self, tenant: TenantCluster) -> None:
        """Put right what the tenant's allocations say of it.

        Those that wait for a range are left alone: a new version of one voids what it is promised.
        """
        for allocation in members(self._allocations, tenant):
            if allocation.metadata.terminating or allocation.status.phase != ALLOCATED:
                continue
            patch = repairs(allocation, tenant)
            if not patch:
                continue
            await self._client.patch(IP_ALLOCATION, Version.from_object(allocation), patch)
            if names.LABEL_ROLE in patch["metadata"].get("labels", {}):
                _log.info("migrated allocation-role label", allocation=allocation.metadata.name)
