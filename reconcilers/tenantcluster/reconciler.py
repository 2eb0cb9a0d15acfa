"""One pass over one TenantCluster.

gone?               take back what it left; close the way into it
being deleted?      teardown.py
no finalizer?       add it
cloud mode?         Ready; the tenant is never touched
otherwise           ask for addresses, grow and shrink, project, say where the cluster stands
"""

from datetime import datetime

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import Conflict, NotFound
from controller.events import EventType, Recorder
from controller.finalizers import add_finalizer, has_finalizer
from controller.meta import Key
from controller.outcome import SETTLED, Again, Blocked, Outcome
from reconcilers.api import names
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.tenantcluster import (
    DELETING,
    FAILED,
    INSTALLING,
    PROVISIONING,
    READY,
    TenantCluster,
)
from reconcilers.conditions import Finding
from reconcilers.settings import TenantSettings
from reconcilers.tenantcluster import network
from reconcilers.tenantcluster.asking import Asking
from reconcilers.tenantcluster.departed import Departed
from reconcilers.tenantcluster.install.installing import INSTALLING as BEING_INSTALLED
from reconcilers.tenantcluster.install.installing import Installer
from reconcilers.tenantcluster.metallb import BEHIND, NOT_INSTALLED
from reconcilers.tenantcluster.projecting import Projector
from reconcilers.tenantcluster.provider import Providers
from reconcilers.tenantcluster.resizing import Sizing
from reconcilers.tenantcluster.status import (
    Verdict,
    degraded,
    load_balancer,
    not_ready,
    patch,
    ready,
)
from reconcilers.tenantcluster.status import network as network_condition
from reconcilers.tenantcluster.teardown import Teardown
from reconcilers.tenantcluster.tenants import Tenants

_log = structlog.get_logger(__name__)

SOON = 1.0
HOUR = 3600.0
DAY = 24 * HOUR


class TenantClusterReconciler:
    """Gives tenants their addresses and takes them back."""

    def __init__(  # noqa: PLR0913 - the collaborators, each small; the wiring is the one caller
        self,
        client: Client,
        clusters: Cache[TenantCluster],
        *,
        providers: Providers,
        asking: Asking,
        projector: Projector,
        sizing: Sizing,
        installer: Installer,
        teardown: Teardown,
        departed: Departed,
        tenants: Tenants,
        recorder: Recorder,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._providers = providers
        self._asking = asking
        self._projector = projector
        self._sizing = sizing
        self._installer = installer
        self._teardown = teardown
        self._departed = departed
        self._tenants = tenants
        self._recorder = recorder
        self._clock = clock
        self._settings = settings

    async def reconcile(self, key: Key) -> Outcome:
        """Bring one cluster up to date."""
        tenant = self._clusters.get(key)
        try:
            going = await self._take_back(key, tenant)
            if tenant is None:
                return await self._miss(key, going=going)
            if tenant.metadata.terminating:
                return await self._leave(tenant)
            return await self._pass(tenant)
        except NotFound as gone:
            if gone.reason != "NotFound":
                raise  # a path that is not served says nothing about objects
        except Conflict:
            pass
        # The cache is behind what happened; it will show it, and that wakes us.
        return Again(SOON)

    async def _take_back(self, key: Key, present: TenantCluster | None) -> bool:
        """Take back what clusters of this name left that are gone; return whether any is going.

        What was made for one that went as soon as it was begun goes at once: we know that nobody
        else asked for it. Whatever others left, the collector of orphans has to judge, who sees
        how many there are; then it has to leave the tenant.
        """
        left_by = self._departed.left_by(key)
        for departed, left in left_by:
            if self._departed.was_overtaken(departed):
                await self._teardown.make_up(departed, left)
        going = any(one.metadata.terminating for _, left in left_by for one in left)
        if going:
            # One that has the name by now looks after the tenant as soon as it has begun to.
            begun = present and names.ANNOTATION_PROJECTION_BEGUN in present.metadata.annotations
            await self._projector.project(present if present and begun else left_by[-1][0])
        return going

    async def _miss(self, key: Key, *, going: bool) -> Outcome:
        """Forget a cluster that is gone, once nothing of it is left in its tenant."""
        self._sizing.forget(key)
        if going:
            return Blocked("Deleting", self._settings.requeue_deleting)
        await self._tenants.leave(key)
        return SETTLED

    async def _pass(self, tenant: TenantCluster) -> Outcome:
        tenant = await self._adopt(tenant)
        provider = await self._providers.of(tenant)
        problem = network.misconfigured(provider) or network.denied(tenant, provider)
        if problem is not None or provider is None:
            return await self._tell_problem(tenant, problem)
        if provider.spec.networking.mode != IPAM:
            return await self._bypass(tenant)
        return await self._serve(tenant, provider)

    async def _adopt(self, tenant: TenantCluster) -> TenantCluster:
        adopted = await add_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        if adopted is not tenant and adopted.status.phase is None:
            self._departed.begun(adopted)
        return adopted

    async def _tell_problem(self, tenant: TenantCluster, problem: Finding | None) -> Outcome:
        """Say what is wrong; a cluster that was Ready stays so, or it would be begun anew."""
        assert problem is not None, "a missing ProviderConfig is a problem"
        if tenant.is_ready:
            verdict = Verdict(READY, (problem, degraded(problem.message)))
        else:
            verdict = Verdict(FAILED, (problem, not_ready(problem.reason, problem.message)))
        await self._tell(tenant, verdict)
        return Blocked(problem.reason, self._settings.requeue_not_ready)

    async def _bypass(self, tenant: TenantCluster) -> Outcome:
        self._sizing.forget(tenant.metadata.key)
        findings = (network_condition(True, "Ready", "cloud networking mode"), ready())
        await self._tell(tenant, Verdict(READY, findings))
        return SETTLED

    async def _serve(self, tenant: TenantCluster, provider: ProviderConfig) -> Outcome:
        wanted = self._asking.wanted(tenant, provider, self._settings.backfill_nodes)
        standings = await self._asking.ask(tenant, provider, wanted)
        tenant = self._clusters.get(tenant.metadata.key) or tenant
        addresses = network.finding(standings)
        refs = network.refs(standings)
        if not addresses.status and not tenant.is_ready:
            verdict = Verdict(
                PROVISIONING, (addresses, not_ready(addresses.reason, addresses.message)), refs
            )
            await self._tell(tenant, verdict)
            return Blocked(addresses.reason, self._settings.requeue_waiting)
        return await self._install(tenant, provider, addresses, refs)

    async def _install(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        addresses: Finding,
        refs: dict[str, str | None],
    ) -> Outcome:
        """Project the addresses; a cluster that was Ready stays so through a tenant's troubles.

        Growth and shrink go first, so that what they change is in what is projected.
        """
        care = await self._sizing.care(tenant, provider)
        tenant = self._clusters.get(tenant.metadata.key) or tenant
        if self._projector.wanted(tenant).entries:
            tenant = await self._projector.begin(tenant, self._clock.now())
        if care.shut is None:
            projected, *installed = await self._project(tenant)
        else:
            projected, installed = load_balancer(False, care.shut.reason, care.shut.message), []
        tenant = self._clusters.get(tenant.metadata.key) or tenant
        self._sizing.projected(tenant, projected.status)
        left = await self._sizing.conclude(tenant)
        if projected.status or tenant.is_ready:
            phase, overall = READY, ready()
        else:
            absent = projected.reason == "KubeconfigMissing"
            phase = PROVISIONING if absent else INSTALLING
            overall = not_ready(projected.reason, projected.message)
        findings = (addresses, projected, *installed, *care.findings, overall)
        tenant = await self._tell(tenant, Verdict(phase, findings, refs, care.obsolete))
        if projected.reason == BEHIND or self._projector.lags(tenant):
            return Again(SOON)
        if projected.reason == BEING_INSTALLED:
            return Again(self._installer.due_in(tenant) or SOON)
        for finding in (projected, addresses):
            if not finding.status:
                return Blocked(finding.reason, self._settings.requeue_not_ready)
        tier = self._tier(tenant, self._clock.now())
        if left:
            tier = min(tier, self._settings.requeue_deleting)
        return Again(tier if care.due_in is None else min(tier, max(care.due_in, SOON)))

    async def _project(self, tenant: TenantCluster) -> tuple[Finding, ...]:
        """Bring MetalLB in line, installed if it is to be; return LoadBalancerReady first."""
        projected = await self._projector.project(tenant)
        if projected.reason == BEHIND:
            await self._projector.recover(tenant)
        missing = projected.reason == NOT_INSTALLED
        if not missing and not projected.status:
            return (projected,)
        found = await self._installer.install(tenant, missing=missing)
        if found is None:
            return (projected,)
        if missing:
            projected = load_balancer(False, found.reason, found.message)
        return (projected, found)

    def _tier(self, tenant: TenantCluster, now: datetime) -> float:
        """Return seconds until the next look, longer the longer the cluster has been Ready."""
        since = tenant.status.lastTransitionTime
        age = (now - since).total_seconds() if since and tenant.is_ready else 0.0
        if age < HOUR:
            return self._settings.requeue_young
        return self._settings.requeue_grown if age < DAY else self._settings.requeue_old

    async def _tell(self, tenant: TenantCluster, verdict: Verdict) -> TenantCluster:
        change = patch(tenant, verdict, self._clock.now())
        if not change:
            return tenant
        answer = await self._client.patch_status(TENANT_CLUSTER, tenant, change)
        if "phase" in change:
            self._announce(answer, verdict)
        return answer

    def _announce(self, tenant: TenantCluster, verdict: Verdict) -> None:
        if verdict.phase not in _EVENTS:
            return
        kind, reason = _EVENTS[verdict.phase]
        message = next((f.message for f in verdict.findings if f.type == "Ready"), verdict.phase)
        self._recorder.record(TENANT_CLUSTER, tenant, kind, reason, message, action="Reconcile")

    async def _leave(self, tenant: TenantCluster) -> Outcome:
        if not has_finalizer(tenant, names.FINALIZER_TENANT):
            return SETTLED
        left = await self._teardown.mark(tenant)
        if left == 0 and await self._teardown.finish(tenant):
            self._sizing.forget(tenant.metadata.key)
            self._installer.forget(tenant.metadata.uid)
            await self._tenants.leave(tenant.metadata.key)
            return SETTLED
        message = f"waiting for {left} IP allocations to be released"
        tenant = await self._tell(tenant, Verdict(DELETING, (not_ready("Deleting", message),)))
        if names.ANNOTATION_PROJECTION_BEGUN in tenant.metadata.annotations:
            projected = await self._projector.project(tenant)
            await self._tell(tenant, Verdict(DELETING, (projected,)))
        return Blocked("Deleting", self._settings.requeue_deleting)


_EVENTS: dict[str, tuple[EventType, str]] = {
    PROVISIONING: ("Normal", "ClusterProvisioning"),
    READY: ("Normal", "ClusterReady"),
    DELETING: ("Normal", "ClusterDeleting"),
    FAILED: ("Warning", "ClusterFailed"),
}
