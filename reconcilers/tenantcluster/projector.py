"""The ranges of a tenant's allocations are written to its MetalLB; the result is a condition."""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import rfc3339
from controller.errors import Conflict, ControllerError, NotFound
from controller.meta import Version
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, TENANT_CLUSTER
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import Finding
from reconcilers.settings import TenantSettings
from reconcilers.tenantclients import LONGEST_PAUSE, UNAUTHORIZED, TenantClients, TenantUnavailable
from reconcilers.tenantcluster.membership import is_foreign, members
from reconcilers.tenantcluster.metallb import (
    BEHIND,
    NOT_INSTALLED,
    MetalLB,
    Projection,
    ProjectionBlocked,
    basis_of,
    latest_mark,
    projection,
)
from reconcilers.tenantcluster.status import load_balancer_ready
from reconcilers.tenantcluster.uptake import remove_marker

_log = structlog.get_logger(__name__)


HISTORY_SECONDS = 5.0
"""After how many seconds that a tenant's pool is ahead of us it is found out why."""


class _ManagementError(Exception):
    """Wraps a failure of the management cluster, so that it does not count as the tenant's."""

    def __init__(self, error: ControllerError) -> None:
        super().__init__(str(error))
        self.error = error


class Projector:
    """Writes the ranges of allocations to the tenants' MetalLB."""

    def __init__(
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        tenants: TenantClients,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._clock = clock
        self._allocations = allocations
        self._tenants = tenants
        self._settings = settings
        # Tenants whose pool is ahead of us, by uid: when that is checked, and the pause before.
        self._behind: dict[str, tuple[float, float]] = {}

    def wanted(self, tenant: TenantCluster) -> Projection:
        """Return what the tenant's pool should hold, as the cache shows it.

        Its `needed` covers what earlier clusters of that name left in it, too.
        """
        found = self._allocations.by_index(TENANT_INDEX, str(tenant.metadata.key))
        wanted = projection(members(self._allocations, tenant), self._allocations.position)
        return replace(wanted, needed=latest_mark(found))

    def lags(self, tenant: TenantCluster) -> bool:
        """Return whether the cache has yet to read of a mark that is to be projected.

        Then what was written just now gives the range back, but cannot say so: it has to be
        written again on a later basis.
        """
        wanted = self.wanted(tenant)
        return wanted.basis < wanted.needed

    async def record_begun(self, tenant: TenantCluster, now: datetime) -> TenantCluster:
        """Record durably that something will be projected, before the first time it is.

        A cluster that is deleted without this record never had an address in it.

        Raises:
            Conflict: the cluster changed since it was read.
        """
        if names.ANNOTATION_PROJECTION_BEGUN in tenant.metadata.annotations:
            return tenant
        mark = {names.ANNOTATION_PROJECTION_BEGUN: rfc3339(now)}
        return await self._client.patch(
            TENANT_CLUSTER, Version.from_object(tenant), {"metadata": {"annotations": mark}}
        )

    async def project(self, tenant: TenantCluster) -> Finding:
        """Bring the tenant's MetalLB in line; return the LoadBalancerReady condition.

        Only what the management cluster fails to answer is raised: a tenant that does not answer
        is the tenant's own problem, reported by its condition.
        """
        wanted, uid = self.wanted(tenant), tenant.metadata.uid
        try:
            await self._write(tenant, wanted)
            self._behind.pop(uid, None)
        except TenantUnavailable as error:
            log = _log.debug if error.absent else _log.warning
            log("cannot get tenant client, skipping", error=error.message)
            return load_balancer_ready(False, error.reason, error.message)
        except ProjectionBlocked as blocked:
            return load_balancer_ready(False, blocked.reason, blocked.message)
        except Conflict:
            return load_balancer_ready(False, BEHIND, "the tenant's MetalLB pool just changed")
        except _ManagementError as failed:
            raise failed.error from failed
        if not wanted.entries:
            return load_balancer_ready(True, "Ready", "the tenant has no load-balancer IPs")
        return load_balancer_ready(True, "Ready", f"MetalLB holds {', '.join(wanted.entries)}")

    async def overwrite_lost_history(self, tenant: TenantCluster) -> None:
        """Write over a tenant's pool whose basis is of a history that the cluster has lost.

        A management cluster that was restored from a backup counts from where the backup was made,
        and would wait for ever to reach what was written to its tenants later. That it is another
        history is believed of a LIST alone that is below the basis; it is asked for after the pool
        has been ahead of us for a while, ever less often. What is written is what that LIST says.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        uid, now = tenant.metadata.uid, self._clock.monotonic()
        due, pause = self._behind.setdefault(uid, (now + HISTORY_SECONDS, HISTORY_SECONDS))
        if now < due:
            return
        pause = min(2 * pause, LONGEST_PAUSE)
        self._behind[uid] = (now + pause, pause)
        page = await self._client.list(IP_ALLOCATION)
        key = tenant.metadata.key
        mine = [
            one
            for one in page.items
            if one.spec.tenantClusterRef.key == key and not is_foreign(one, tenant)
        ]
        wanted = self.wanted(tenant)
        confirmed = projection(mine, wanted.basis)
        if page.unreadable or confirmed.entries != wanted.entries:
            return
        try:
            async with self._tenants.client(tenant) as client:
                metallb = MetalLB(client, self._settings.metallb_namespace)
                live = await metallb.pool()
                if live is None or basis_of(live) <= page.revision:
                    return
                _log.warning(
                    "the tenant's MetalLB pool is of a history that is lost; writing it anew",
                    tenant=str(key),
                    basis=basis_of(live),
                    revision=page.revision,
                    before=list(live.spec.addresses),
                    after=list(wanted.entries),
                )
                await metallb.overwrite(live, wanted)
        except (TenantUnavailable, ProjectionBlocked, Conflict) as error:
            _log.info("cannot write the tenant's MetalLB pool anew", error=str(error))

    async def remove_marker(self, tenant: TenantCluster) -> None:
        """Remove what told of given-back ranges from a tenant that has given back all of them.

        What fails is logged: nothing hangs on it, and the cluster is about to go.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        if names.ANNOTATION_PROJECTION_BEGUN not in tenant.metadata.annotations:
            return
        try:
            async with self._tenants.client(tenant) as client:
                with suppress(NotFound):
                    await remove_marker(client, self._settings.metallb_namespace)
        except (TenantUnavailable, Conflict) as error:
            _log.info("cannot delete the marker in the tenant", error=str(error))

    async def _write(self, tenant: TenantCluster, wanted: Projection) -> None:
        """Write; with rotated credentials once more, with the Secret read again."""
        try:
            await self._write_once(tenant, wanted)
        except TenantUnavailable as error:
            if error.reason != UNAUTHORIZED:
                raise
            await self._write_once(tenant, wanted)

    async def _write_once(self, tenant: TenantCluster, wanted: Projection) -> None:
        async with self._tenants.client(tenant) as client:
            metallb = MetalLB(client, self._settings.metallb_namespace)
            await metallb.project(wanted, lambda: self._confirmed(tenant))

    async def _confirmed(self, tenant: TenantCluster) -> Projection:
        """Return what the tenant should hold, each of its allocations read live, now.

        One by one, as they are few: a LIST would return those of all tenants.
        """
        found = []
        for known in members(self._allocations, tenant):
            if known.spec.type != names.TYPE_LOADBALANCER:
                continue
            try:
                found.append(await self._client.get(IP_ALLOCATION, known.metadata.key))
            except NotFound:
                continue
            except ControllerError as error:
                raise _ManagementError(error) from error
        mine = [a for a in found if not is_foreign(a, tenant)]
        return projection(mine, self._allocations.position)


def is_behind(projected: Finding) -> bool:
    """Return whether another replica has written a newer state of the tenant's pool."""
    return projected.reason == BEHIND


def lacks_metallb(projected: Finding) -> bool:
    """Return whether the tenant does not serve MetalLB's kinds."""
    return projected.reason == NOT_INSTALLED
