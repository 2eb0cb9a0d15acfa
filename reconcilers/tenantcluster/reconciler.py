"""One pass over one TenantCluster.

gone?               take back what it left behind; close its client
being deleted?      teardown.py
no finalizer?       add it
cloud mode?         Ready; the tenant is touched only while it has ranges of ours, from before
otherwise           request addresses, grow and shrink, project, write phase and conditions
"""

from collections.abc import Container, Sequence
from datetime import datetime

import structlog

from controller import (
    SETTLED,
    Again,
    Blocked,
    Cache,
    Client,
    Clock,
    Conflict,
    Key,
    NotFound,
    Outcome,
    Recorder,
    add_finalizer,
    has_finalizer,
)
from controller.meta import MetadataOnly, ObjectMeta
from controller.statelog import StateLog
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.providerconfig import IPAM, ProviderConfig
from reconcilers.api.resources import ALLOCATION_METADATA, TENANT_CLUSTER
from reconcilers.api.tenantcluster import (
    DELETING,
    FAILED,
    INSTALLING,
    LOAD_BALANCER_READY,
    PROVISIONING,
    READY,
    TenantCluster,
)
from reconcilers.api.tenantnetwork import TenantNetwork
from reconcilers.conditions import Finding
from reconcilers.loadbalancers.metallb.installation.installer import (
    BEING_INSTALLED,
    METALLB_INSTALLED,
    Installer,
)
from reconcilers.networkpool.view import UnreadableObject, describe_unreadable
from reconcilers.settings import TenantSettings
from reconcilers.tenantclients import UNREACHABLE, WEBHOOK_FAILED, WEBHOOK_RETRY, TenantClients
from reconcilers.tenantcluster import status
from reconcilers.tenantcluster.allocations.membership import members
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.allocations.requests import AllocationState
from reconcilers.tenantcluster.allocations.unreadable_members import unreadable_members
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic.observation import ElasticMemory
from reconcilers.tenantcluster.elastic.resizer import Resized, Resizer
from reconcilers.tenantcluster.networkstatus import (
    added_ranges,
    network_status,
    removed_ranges,
    status_without_requests,
)
from reconcilers.tenantcluster.projector import (
    ProjectionMemory,
    Projector,
    is_behind,
)
from reconcilers.tenantcluster.provider import (
    UNKNOWN_SECONDS,
    Providers,
    ProviderUnknown,
    provider_unknown,
)
from reconcilers.tenantcluster.record.records import TenantRecord, TenantRecords
from reconcilers.tenantcluster.release.teardown import Teardown, VanishedClusters
from reconcilers.tenantcluster.status import LOAD_BALANCER_SIZED
from reconcilers.wording import count_noun

NAMING_SECONDS = 600.0
"""Between two times that the Services of a cluster's ranges are named in its status."""
SOON = 1.0
HOUR = 3600.0
DAY = 24 * HOUR

_UNREADABLE = "unreadable allocations"
"""The topic of the state that is logged."""
_log = structlog.get_logger(__name__)


class TenantClusterReconciler:
    """Gives tenants their addresses and takes them back.

    Args:
        client: the management cluster.
        clusters: its TenantClusters.
        allocations: its IPAllocations, indexed by TenantCluster.
        providers: finds a cluster's ProviderConfig.
        requester: creates the cluster's allocations.
        projector: writes their ranges to the tenant's MetalLB.
        resizer: grows and shrinks elastic tenants.
        installer: installs MetalLB in the tenant.
        teardown: deletes the cluster's allocations.
        vanished: clusters that went in spite of our finalizer.
        records: what is remembered of each cluster.
        tenants: clients of the tenants.
        recorder: takes the events.
        logged: the states of tenants that were logged.
        clock: the time.
        settings: intervals and thresholds.
    """

    def __init__(  # noqa: PLR0913 - the collaborators, each small; the wiring is the one caller
        self,
        client: Client,
        clusters: Cache[TenantCluster],
        allocations: Cache[IPAllocation],
        *,
        providers: Providers,
        requester: Requester,
        projector: Projector,
        resizer: Resizer,
        installer: Installer,
        teardown: Teardown,
        vanished: VanishedClusters,
        records: TenantRecords,
        tenants: TenantClients,
        recorder: Recorder,
        logged: StateLog,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._logged = logged
        self._records = records
        self._clusters = clusters
        self._allocations = allocations
        self._providers = providers
        self._requester = requester
        self._projector = projector
        self._resizer = resizer
        self._installer = installer
        self._teardown = teardown
        self._vanished = vanished
        self._tenants = tenants
        self._recorder = recorder
        self._clock = clock
        self._settings = settings

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one TenantCluster."""
        if key in self._clusters.unreadable:
            # Not absent: and what is written from an older version is refused.
            return Blocked("Unreadable")
        tenant = self._clusters.get(key)
        try:
            if unreadable := self._unreadable_members(key, tenant):
                return await self._block_unreadable(key, tenant, unreadable)
            self._logged.end(key, _UNREADABLE)
            await self._retain_records(key, tenant)
            leftovers = await self._release_leftovers(key, tenant)
            if tenant is None:
                return await self._reconcile_gone(key, leftovers=leftovers)
            if tenant.metadata.terminating:
                return await self._reconcile_deleted(tenant)
            return await self._reconcile(tenant)
        except NotFound as gone:
            if gone.reason != "NotFound":
                raise  # a path that is not served says nothing about objects
        except Conflict:
            pass
        # The cache is behind; the event that brings it up to date enqueues the key again.
        return Again(SOON)

    async def _retain_records(self, key: Key, present: TenantCluster | None) -> None:
        """Remove the records of a name but the present cluster's and those of leftovers.

        Not before it is known that all allocations can be read: the last state of a cluster that
        is gone is needed for those.
        """
        uids = {present.metadata.uid} if present is not None else set()
        records = self._records.of_name(key)
        uids |= {record.uid for record in records if self._vanished.is_needed(record)}
        await self._remove_records(key, uids)

    async def _remove_records(self, key: Key, kept: Container[str]) -> None:
        """Remove the records of a name but those with these uids, and close their clients."""
        for record in self._records.retain(key, kept):
            await self._tenants.forget(record.access)

    def _unreadable_members(
        self, key: Key, tenant: TenantCluster | None
    ) -> tuple[UnreadableObject, ...]:
        """Return the unreadable allocations for which nothing is changed for a cluster.

        Those of earlier clusters of that name count while a cluster's leftovers are released,
        because both are projected to one tenant.
        """
        uid = tenant.metadata.uid if tenant is not None else ""
        if tenant is None or self._vanished.leftovers(key):
            uid = ""
        return unreadable_members(self._allocations, key, uid)

    async def _block_unreadable(
        self,
        key: Key,
        tenant: TenantCluster | None,
        unreadable: tuple[UnreadableObject, ...],
    ) -> Outcome:
        """Change nothing for a cluster, and say which of its allocations cannot be read.

        The range of such an allocation is in use, and unknown: without it the tenant's pool would
        lose the range, and the cluster would get a second one.
        """
        message = describe_unreadable(unreadable)
        if self._logged.begin(key, _UNREADABLE, message):
            _log.error("nothing is changed for the cluster", cluster=str(key), reason=message)
        outcome = Blocked(status.UNREADABLE_ALLOCATION, self._settings.requeue_not_ready)
        if tenant is None or not has_finalizer(tenant, names.FINALIZER_TENANT):
            return outcome
        problem = status.allocations_unreadable(message)
        if tenant.metadata.terminating:
            not_ready = status.not_ready(problem.reason, problem.message)
            await self._write_status(tenant, status.Verdict(DELETING, (problem, not_ready)))
        else:
            await self._write_status(tenant, status.problem_verdict(tenant, problem, PROVISIONING))
        return outcome

    async def _release_leftovers(self, key: Key, present: TenantCluster | None) -> bool:
        """Release the allocations of deleted clusters of this name; return whether any goes.

        Those made for a cluster that was deleted while it was being created are deleted at once.
        Others are deleted by the orphan collector, which limits how many; their ranges then have
        to leave the tenant before they are released.
        """
        leftovers = self._vanished.leftovers(key)
        for vanished, left in leftovers:
            if self._vanished.was_overtaken(vanished):
                await self._teardown.delete_leftovers(vanished, left)
        going = any(
            one.metadata.terminating and one.spec.type == names.TYPE_LOADBALANCER
            for _, left in leftovers
            for one in left
        )
        if going:
            # A present cluster of that name writes to the tenant as soon as it has begun to.
            writes = present is not None and present.projection_begun
            tenant = present if present and writes else leftovers[-1][0]
            await self._project_again(self._current(tenant))
        return going

    async def _reconcile_gone(self, key: Key, *, leftovers: bool) -> Outcome:
        """Forget a cluster that is gone, once nothing of it is left in its tenant."""
        self._close(key)
        if leftovers:
            return Blocked("Deleting", self._settings.requeue_deleting)
        self._logged.forget(key)
        await self._tenants.close(key)
        return SETTLED

    def forget(self, key: Key) -> None:
        """Forget a cluster that is gone, or that another replica works on from now on.

        Its watches are closed. Its client is closed later, unless its allocations need it here.
        """
        self._close(key)
        self._logged.forget(key)

    def _close(self, key: Key) -> None:
        """Close a cluster's watches, and forget all but what was logged of it."""
        self._records.end_work(key)
        self._resizer.stop_watching(key)
        self._projector.stop_watching(key)

    async def _reconcile(self, tenant: TenantCluster) -> Outcome:
        """Reconcile a cluster that is not being deleted: find its provider, request addresses."""
        tenant = await self._with_finalizer(tenant)
        try:
            provider = await self._providers.for_tenant(tenant)
        except ProviderUnknown as unknown:
            reason = provider_unknown(unknown)
            await self._write_status(tenant, status.problem_verdict(tenant, reason, PROVISIONING))
            return Blocked(unknown.reason, UNKNOWN_SECONDS)
        problem = self._providers.find_obstacle(tenant, provider)
        if problem is not None or provider is None:
            return await self._block_misconfigured(tenant, problem)
        if provider.spec.networking.mode != IPAM:
            return await self._reconcile_cloud(self._current(tenant), provider)
        return await self._request(self._current(tenant), provider)

    def _current(self, tenant: TenantCluster) -> CurrentCluster:
        return CurrentCluster(self._client, self._clusters, tenant)

    async def _with_finalizer(self, tenant: TenantCluster) -> TenantCluster:
        added = await add_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        if added is not tenant and added.status.phase is None:
            self._vanished.note_new(added)
        return added

    async def _block_misconfigured(
        self, tenant: TenantCluster, problem: Finding | None
    ) -> Outcome:
        assert problem is not None, "a missing ProviderConfig is a problem"
        shown = status_without_requests(tenant, members(self._allocations, tenant))
        await self._write_status(tenant, status.problem_verdict(tenant, problem, FAILED, shown))
        return Blocked(problem.reason, self._settings.requeue_not_ready)

    async def _reconcile_cloud(self, current: CurrentCluster, provider: ProviderConfig) -> Outcome:
        """Ask for nothing; what was written into the tenant in IPAM mode stays until it is freed.

        A tenant that was never written to is never touched.
        """
        tenant = current.tenant
        self._records.of(tenant).elastic = ElasticMemory()
        self._resizer.stop_watching(tenant.metadata.key)
        await self._requester.withdraw(tenant)
        kept = self._projector.held(tenant)
        message = "cloud networking mode"
        if kept:
            message += f"; load-balancer IPs from before are kept: {', '.join(kept)}"
        network = status.network_ready(True, "Ready", message)
        obsolete = (status.DEMAND_MET, LOAD_BALANCER_SIZED, METALLB_INSTALLED)
        if not kept:
            return await self._leave_alone(current, provider, network, obsolete)
        await self._resizer.withdraw_used(tenant)
        projected = await self._project_again(current)
        marked = await self._resizer.release_marked(tenant)
        tenant = current.tenant
        findings = (network, projected, status.ready())
        shown = self._network_status(tenant, provider, (), network)
        verdict = status.Verdict(READY, findings, obsolete=obsolete, network=shown)
        tenant = await self._write_status(tenant, verdict)
        return self._next(tenant, network, projected, None, marked)

    async def _leave_alone(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        network: Finding,
        obsolete: tuple[str, ...],
    ) -> Outcome:
        """Say that the cluster needs nothing of ours; remove the record of given-back ranges."""
        tenant = current.tenant
        if any(one.type == LOAD_BALANCER_READY for one in tenant.status.conditions):
            await self._project_again(current)
            await self._projector.remove(tenant)
        self._records.of(tenant).projection = ProjectionMemory()
        self._projector.stop_watching(tenant.metadata.key)
        refs: dict[str, str | None] = {status.REF_FIELDS[names.TYPE_LOADBALANCER]: None}
        obsolete = (*obsolete, LOAD_BALANCER_READY)
        shown = self._network_status(tenant, provider, (), network)
        verdict = status.Verdict(READY, (network, status.ready()), refs, obsolete, shown)
        await self._write_status(current.tenant, verdict)
        return SETTLED

    async def _request(self, current: CurrentCluster, provider: ProviderConfig) -> Outcome:
        """Create the cluster's allocations; go on once they hold their ranges."""
        backfill = self._settings.backfill_nodes
        wanted = self._requester.wanted(current.tenant, provider, backfill)
        states = await self._requester.request(current, provider, wanted)
        tenant = current.tenant
        addresses = status.addresses(states)
        refs = status.refs(states)
        if not addresses.status and not tenant.is_ready:
            not_ready = status.not_ready(addresses.reason, addresses.message)
            shown = self._network_status(tenant, provider, states, addresses)
            findings = (addresses, not_ready)
            verdict = status.Verdict(PROVISIONING, findings, refs, network=shown)
            await self._write_status(tenant, verdict)
            return Blocked(addresses.reason, self._settings.requeue_waiting)
        return await self._resize_and_project(current, provider, states, addresses)

    async def _resize_and_project(
        self,
        current: CurrentCluster,
        provider: ProviderConfig,
        states: Sequence[AllocationState],
        addresses: Finding,
    ) -> Outcome:
        """Grow, shrink and project; a cluster that was Ready stays so if the tenant fails.

        Growth and shrink go first, so that what they change is in what is projected.
        """
        elastic = self._records.of(current.tenant).elastic
        resized = await self._resizer.resize(current, provider, elastic)
        await self._projector.assume_begun(current)
        if resized.unavailable is None:
            projected, *installed = await self._project(current)
        else:
            error = resized.unavailable
            projected = status.tenant_unavailable(current.tenant, error)
            installed = []
        await self._resizer.note_projected(current, projected, elastic, resized.offered)
        marked = await self._resizer.release_marked(current.tenant)
        tenant = current.tenant
        if projected.status or tenant.is_ready:
            phase, overall = READY, status.still_ready(projected, behind=is_behind(projected))
        else:
            absent = projected.reason == "KubeconfigMissing"
            phase = PROVISIONING if absent else INSTALLING
            overall = status.not_ready(projected.reason, projected.message)
        unknown, known = status.identified(self._projector.identified(tenant))
        findings = (addresses, projected, *installed, *resized.findings, *unknown, overall)
        record = self._records.of(tenant)
        naming_due = resized.services is not None and self._is_naming_due(record)
        shown = self._network_status(
            tenant, provider, states, addresses, resized, is_naming_due=naming_due
        )
        obsolete = (*resized.obsolete, *known)
        verdict = status.Verdict(phase, findings, status.refs(states), obsolete, shown)
        tenant = await self._write_status(tenant, verdict)
        if naming_due:  # a write that failed has named nothing
            record.named_at = self._clock.monotonic()
        return self._next(tenant, addresses, projected, resized.due_in, marked)

    def _network_status(
        self,
        tenant: TenantCluster,
        provider: ProviderConfig,
        states: Sequence[AllocationState],
        addresses: Finding,
        resized: Resized | None = None,
        *,
        is_naming_due: bool = False,
    ) -> TenantNetwork:
        """Return what status.network should say of a cluster.

        Args:
            tenant: the cluster.
            provider: its ProviderConfig.
            states: the allocations that the cluster should have.
            addresses: the condition NetworkReady.
            resized: the result of the pass over its size; None if it is not due, as in cloud mode.
            is_naming_due: whether the Services of each range are named anew.
        """
        return network_status(
            tenant,
            provider,
            members(self._allocations, tenant),
            states,
            network_ready=addresses,
            services=resized.services if resized is not None else None,
            growth=resized.refused if resized is not None else None,
            is_unread=resized is not None and resized.services is None,
            is_naming_due=is_naming_due,
            now=self._clock.now(),
        )

    def _is_naming_due(self, record: TenantRecord) -> bool:
        """Return whether the Services of a cluster's ranges were named long enough ago.

        Not in each pass: a Service that is served at once costs the management cluster nothing.
        """
        named_at = record.named_at
        return named_at is None or self._clock.monotonic() - named_at >= NAMING_SECONDS

    def _next(
        self,
        tenant: TenantCluster,
        addresses: Finding,
        projected: Finding,
        due_in: float | None,
        marked: int,
    ) -> Outcome:
        """Return when the next pass is due."""
        if is_behind(projected) or self._projector.lags(tenant):
            return Again(SOON)
        look_due = self._projector.due_in(self._records.of(tenant).projection)
        if look_due is not None and projected.reason != UNREACHABLE:
            return Again(max(look_due, SOON))
        if projected.reason == BEING_INSTALLED:
            return Again(self._installer.due_in(self._records.of(tenant).installation) or SOON)
        if projected.reason == WEBHOOK_FAILED:
            return Blocked(projected.reason, WEBHOOK_RETRY)
        for finding in (projected, addresses):
            if not finding.status:
                return Blocked(finding.reason, self._settings.requeue_not_ready)
        after = self._requeue_after(tenant, self._clock.now())
        if marked:
            after = min(after, self._settings.requeue_deleting)
        return Again(after if due_in is None else min(after, max(due_in, SOON)))

    async def _project(self, current: CurrentCluster) -> tuple[Finding, ...]:
        """Write the tenant's MetalLB, installing it if needed; return LoadBalancerReady first."""
        record = self._records.of(current.tenant)
        projected = await self._projector.project(current, record.projection, begin=True)
        if is_behind(projected):
            await self._projector.overwrite_lost_history(current.tenant, record.projection)
        missing = self._projector.is_missing(projected)
        if not missing and not projected.status:
            return (projected,)
        found = await self._installer.install(
            current.tenant, record.installation, current.annotate, missing=missing
        )
        if found is None:
            return (projected,)
        if missing:
            projected = status.load_balancer_ready(False, found.reason, found.message)
        return (projected, found)

    async def _project_again(self, current: CurrentCluster) -> Finding:
        """Write what the tenant should hold, if something was written there before."""
        memory = self._records.of(current.tenant).projection
        return await self._projector.project(current, memory)

    def _requeue_after(self, tenant: TenantCluster, now: datetime) -> float:
        """Return seconds until the next pass, more the longer the cluster has been Ready."""
        since = tenant.status.lastTransitionTime
        age = (now - since).total_seconds() if since and tenant.is_ready else 0.0
        if age < HOUR:
            return self._settings.requeue_young
        return self._settings.requeue_grown if age < DAY else self._settings.requeue_old

    async def _write_status(self, tenant: TenantCluster, verdict: status.Verdict) -> TenantCluster:
        """Patch the status if it changed; record events of a new phase and of new warnings."""
        change = status.patch(tenant, verdict, self._clock.now())
        if not change:
            return tenant
        answer = await self._client.patch_status(TENANT_CLUSTER, tenant, change)
        if "phase" in change:
            self._record(answer, verdict)
        for reason, message in status.warnings(tenant, verdict):
            self._recorder.record(
                TENANT_CLUSTER, answer, "Warning", reason, message, action="Project"
            )
        if verdict.network is not None and "network" in change:
            self._record_ranges(tenant, answer, verdict.network)
        return answer

    def _record_ranges(
        self, before: TenantCluster, after: TenantCluster, network: TenantNetwork
    ) -> None:
        """Record an event for each range that the cluster got or released.

        A Ready cluster without status.network had its ranges before a version that reports them.
        """
        if before.status.network is None and before.is_ready:
            return
        for reason, shown in (
            *(("RangeAllocated", shown) for shown in added_ranges(before.status.network, network)),
            *(
                ("RangeReleased", shown)
                for shown in removed_ranges(before.status.network, network)
            ),
        ):
            meta = ObjectMeta(name=shown.allocation, namespace=shown.namespace)
            self._recorder.record(
                TENANT_CLUSTER,
                after,
                "Normal",
                reason,
                f"{shown.type} range {shown.range} of NetworkPool {shown.pool} ({shown.role})",
                action="Reconcile",
                related=(ALLOCATION_METADATA, MetadataOnly(metadata=meta)),
            )

    def _record(self, tenant: TenantCluster, verdict: status.Verdict) -> None:
        """Record the event of a new phase."""
        if verdict.phase not in status.EVENTS:
            return
        kind, reason = status.EVENTS[verdict.phase]
        message = next((f.message for f in verdict.findings if f.type == "Ready"), verdict.phase)
        self._recorder.record(TENANT_CLUSTER, tenant, kind, reason, message, action="Reconcile")

    async def _reconcile_deleted(self, tenant: TenantCluster) -> Outcome:
        """Delete the cluster's allocations; remove the finalizer once all are released."""
        if not has_finalizer(tenant, names.FINALIZER_TENANT):
            return SETTLED
        if tenant.projection_begun:  # the status says so only until it is written below
            current = self._current(tenant)
            await self._projector.assume_begun(current)
            tenant = current.tenant
        record = self._records.of(tenant)
        if record.deleted_at is None:
            record.deleted_at = tenant.metadata.revision
        left = await self._teardown.delete_allocations(tenant)
        if left == 0:
            await self._projector.remove(tenant)
        if left == 0 and await self._teardown.remove_finalizer(
            tenant, deleted_at=record.deleted_at
        ):
            self._resizer.stop_watching(tenant.metadata.key)
            self._projector.stop_watching(tenant.metadata.key)
            self._logged.forget(tenant.metadata.key)
            named = self._records.of_name(tenant.metadata.key)
            others = {record.uid for record in named}
            await self._remove_records(tenant.metadata.key, others - {tenant.metadata.uid})
            return SETTLED
        not_ready = status.not_ready(
            "Deleting", f"waiting for {count_noun(left, 'IP allocation')} to be released"
        )
        shown = status_without_requests(tenant, members(self._allocations, tenant))
        verdict = status.Verdict(DELETING, (not_ready,), network=shown)
        tenant = await self._write_status(tenant, verdict)
        if tenant.projection_begun:
            projected = await self._project_again(self._current(tenant))
            await self._write_status(tenant, status.Verdict(DELETING, (projected,)))
        return Blocked("Deleting", self._settings.requeue_deleting)
