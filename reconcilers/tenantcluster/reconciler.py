"""One pass over one TenantCluster: `TenantClusterReconciler.reconcile`, from top to bottom.

docs/design/tenants.md explains the pass, and where its order matters.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

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
    add_finalizer,
    has_finalizer,
)
from controller.conditions import find
from controller.loggers import get_logger
from controller.statelog import StateLog
from reconcilers.api import names
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.resources import TENANT_CLUSTER
from reconcilers.api.services import Service
from reconcilers.api.tenantcluster import (
    DELETING,
    DEMAND_MET,
    FAILED,
    INSTALLING,
    LOAD_BALANCER_READY,
    LOAD_BALANCER_SIZED,
    PROVISIONING,
    READY,
    TenantCluster,
)
from reconcilers.api.tenantnetwork import TenantNetwork
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.clusteraccess.tenantfailures import (
    UNREACHABLE,
    WEBHOOK_FAILED,
    WEBHOOK_RETRY,
    TenantUnavailable,
)
from reconcilers.configuration.settings import TenantSettings
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.port import BalancerInstaller
from reconcilers.promises.unreadable import UnreadableObject, describe_unreadable
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.reporting.wording import count_noun
from reconcilers.tenantcluster import status
from reconcilers.tenantcluster.allocations.membership import balancer_members, members
from reconcilers.tenantcluster.allocations.metadatarepair import repair_metadata
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.allocations.unreadable_members import unreadable_members
from reconcilers.tenantcluster.announcements import Announcements
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic.changes import carry_out
from reconcilers.tenantcluster.elastic.decisions import (
    QUOTA_EXCEEDED,
    decide_size,
    describe_size,
)
from reconcilers.tenantcluster.elastic.observation import (
    ElasticMemory,
    SizeObserver,
    note_projected,
)
from reconcilers.tenantcluster.networkstatus import (
    network_status,
    removed_ranges,
    status_without_requests,
)
from reconcilers.tenantcluster.otherbalancers import OtherBalancers
from reconcilers.tenantcluster.platformservice import PlatformLabel
from reconcilers.tenantcluster.projector import ProjectionMemory, Projector, is_behind
from reconcilers.tenantcluster.provider import UNKNOWN_SECONDS, ProviderProblem, Providers
from reconcilers.tenantcluster.record.records import TenantRecord, TenantRecords
from reconcilers.tenantcluster.release.markedranges import MarkedReleaser
from reconcilers.tenantcluster.release.providerchange import CHANGING, ProviderChange
from reconcilers.tenantcluster.release.releasenotes import note_for_release
from reconcilers.tenantcluster.release.teardown import Teardown, VanishedClusters
from reconcilers.tenantcluster.services import TenantServices
from reconcilers.tenantcluster.statuswriter import StatusWriter
from reconcilers.tenantcluster.tenantpass import TenantPass, ranges_to_project

NAMING_SECONDS = 600.0
"""Between two times that the Services of a cluster's ranges are named in its status."""
SOON = 1.0
HOUR = 3600.0
DAY = 24 * HOUR

_NO_WAY_IN = {"KubeconfigMissing", "KubeconfigRefused", UNREACHABLE}
"""Reasons for which another request of the same pass would fail as well."""
_UNREADABLE = "unreadable allocations"
"""The topic of the state that is logged."""
_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BalancerWork:
    """Reads and writes the load balancers in tenants, for `TenantClusterReconciler`.

    Args:
        balancer_kinds: the load balancers that tenants may have.
        projector: writes ranges to the tenant's load balancer.
        installer: installs a load balancer in the tenant.
        provider_change: moves a tenant's ranges from one load balancer to another.
        other_balancers: looks for pools of load balancers that a tenant does not have.
        announcements: looks for what announces addresses in tenants.
        platform_label: labels the platform's Service in tenants.
    """

    balancer_kinds: LoadBalancerKinds
    projector: Projector
    installer: BalancerInstaller
    provider_change: ProviderChange
    other_balancers: OtherBalancers
    announcements: Announcements
    platform_label: PlatformLabel


@dataclass(frozen=True, slots=True)
class ReleaseWork:
    """Takes ranges back from tenants, for `TenantClusterReconciler`.

    Args:
        marked_releaser: releases what shrink has marked.
        teardown: deletes the allocations of a deleted cluster.
        vanished_clusters: the clusters that went in spite of our finalizer.
    """

    marked_releaser: MarkedReleaser
    teardown: Teardown
    vanished_clusters: VanishedClusters


@dataclass(frozen=True, slots=True)
class Reporting:
    """Reports what passes find out, for `TenantClusterReconciler`.

    Args:
        status_writer: writes the statuses of clusters, and records their events.
        state_log: which states of clusters were logged, so that each is logged once.
    """

    status_writer: StatusWriter
    state_log: StateLog


class TenantClusterReconciler:
    """Gives tenants their addresses and takes them back.

    Args:
        client: the management cluster.
        clusters: its TenantClusters, as a watch shows them.
        allocations: its IPAllocations, indexed by TenantCluster.
        providers: finds a cluster's ProviderConfig.
        requester: creates the cluster's allocations.
        services: reads a tenant's Services, by a watch where there is one.
        observer: reads what the size of a tenant is decided from.
        balancer_work: reads and writes the load balancers in tenants.
        release_work: takes ranges back.
        reporting: statuses, events and the log.
        records: what is remembered of each cluster.
        tenant_clients: the clients of tenants, which are closed once a cluster is gone.
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
        services: TenantServices,
        observer: SizeObserver,
        balancer_work: BalancerWork,
        release_work: ReleaseWork,
        reporting: Reporting,
        records: TenantRecords,
        tenant_clients: TenantClients,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._clusters = clusters
        self._allocations = allocations
        self._providers = providers
        self._requester = requester
        self._services = services
        self._observer = observer
        self._balancer_kinds = balancer_work.balancer_kinds
        self._projector = balancer_work.projector
        self._installer = balancer_work.installer
        self._provider_change = balancer_work.provider_change
        self._other_balancers = balancer_work.other_balancers
        self._announcements = balancer_work.announcements
        self._platform_label = balancer_work.platform_label
        self._marked_releaser = release_work.marked_releaser
        self._teardown = release_work.teardown
        self._vanished_clusters = release_work.vanished_clusters
        self._status_writer = reporting.status_writer
        self._state_log = reporting.state_log
        self._records = records
        self._tenant_clients = tenant_clients
        self._clock = clock
        self._settings = settings
        self._not_in_cloud_mode = (DEMAND_MET, LOAD_BALANCER_SIZED, self._installer.condition)
        """Types of conditions that do not apply in cloud mode."""

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one TenantCluster."""
        try:
            return await self._pass_over(key)
        except NotFound as gone:
            if gone.reason != "NotFound":
                raise  # a path that is not served says nothing about objects
        except Conflict:
            pass
        # The cache is behind; the event that brings it up to date enqueues the key again.
        return Again(SOON)

    async def _pass_over(  # noqa: C901, PLR0911 - one function that reads from top to bottom
        self, key: Key
    ) -> Outcome:
        """Read, decide, write and report for one TenantCluster, in this order."""
        if key in self._clusters.unreadable:
            # Not absent: and what is written from an older version is refused.
            return Blocked("Unreadable")
        tenant = self._clusters.get(key)
        if unreadable := self._unreadable_members(key, tenant):
            # First, because the range of such an allocation is in use.
            return await self._report_unreadable(key, tenant, unreadable)
        self._state_log.end(key, _UNREADABLE)
        self._record_released_leftovers(key)
        await self._retain_records(key, tenant)
        has_leftovers = await self._release_leftovers(key, tenant)
        if tenant is None:
            return await self._end_work(key, has_leftovers=has_leftovers)
        if tenant.metadata.terminating:
            return await self._tear_down(self._current(tenant))

        current = await self._with_finalizer(tenant)
        try:
            now = await self._begin_pass(current)
        except ProviderProblem as problem:
            return await self._report_problem(current, problem)
        if now.is_ipam:
            await self._request_allocations(now)
            if not now.network_ready.status and not now.tenant.is_ready:
                return await self._report_waiting(now)
            await repair_metadata(self._client, self._allocations, now.tenant)
            await self._read_services(now)
            if now.services is not None and not now.is_changing:
                await self._note_for_release(now, now.services)
                await self._follow_demand(now)
                await self._platform_label.apply(now.tenant, now.services)
                # A Service may have taken an address since its watch was read. If its range left
                # the pool, a running load balancer would take the address from the Service.
                await self._marked_releaser.withdraw_used(now.tenant)
                # Before the projection: a range that is allocated meanwhile is not in it.
                now.offered = ranges_to_project(members(self._allocations, now.tenant))
            await self._projector.assume_begun(now.current)
        else:
            await self._withdraw_requests(now)
            if not self._projector.list_projected(now.tenant):
                return await self._leave_alone(now)
            await self._marked_releaser.withdraw_used(now.tenant)
        await self._project(now)
        if now.is_ipam:
            if now.load_balancer_ready.status:
                await self._other_balancers.look(now.tenant, now.record.others)
                await self._announcements.look(now.tenant, now.record.announcements)
            await self._install(now)
            await self._note_projected(now)
        now.marked = await self._marked_releaser.release(now.tenant)
        await self._report(now)
        return self._next_pass(now)

    # Before a cluster is worked on, and after it is gone -------------------------------------

    def _record_released_leftovers(self, key: Key) -> None:
        """Record an event for each range of a vanished cluster that was released since.

        The last known state then shows the ranges that remain, so no range has two events.
        """
        for record in self._records.of_name(key):
            vanished = record.last_seen
            if vanished is None:
                continue
            remaining = members(self._allocations, vanished)
            network = status_without_requests(vanished, remaining)
            if network is not None:
                self._status_writer.record_released(vanished, network)
                status = replace(vanished.status, network=network)
                record.last_seen = replace(vanished, status=status)

    async def _retain_records(self, key: Key, present: TenantCluster | None) -> None:
        """Remove the records of a name but the present cluster's and those of leftovers.

        Not before it is known that all allocations can be read: the last state of a cluster that
        is gone is needed for those.
        """
        uids = {present.metadata.uid} if present is not None else set()
        records = self._records.of_name(key)
        uids |= {record.uid for record in records if self._vanished_clusters.is_needed(record)}
        if not uids:
            await self._clear_tenants(records)
        await self._remove_records(key, uids)

    async def _clear_tenants(self, records: Iterable[TenantRecord]) -> None:
        """Remove what is left of ours in the tenants of vanished clusters without allocations.

        Their leftovers were released here. The proof of that leaves an object in the tenant, to
        which nothing in the management cluster leads once the record is removed.
        """
        for record in records:
            if record.has_leftovers:
                await self._projector.remove(self._vanished_clusters.cluster_of(record))

    async def _remove_records(self, key: Key, kept: Container[str]) -> None:
        """Remove the records of a name but those with these uids, and close their clients."""
        for record in self._records.retain(key, kept):
            await self._tenant_clients.forget(record.access)

    def _unreadable_members(
        self, key: Key, tenant: TenantCluster | None
    ) -> tuple[UnreadableObject, ...]:
        """Return the unreadable allocations for which nothing is changed for a cluster.

        Those of earlier clusters of that name count while a cluster's leftovers are released,
        because both are projected to one tenant.
        """
        uid = tenant.metadata.uid if tenant is not None else ""
        if tenant is None or self._vanished_clusters.leftovers(key):
            uid = ""
        return unreadable_members(self._allocations, key, uid)

    async def _report_unreadable(
        self,
        key: Key,
        tenant: TenantCluster | None,
        unreadable: tuple[UnreadableObject, ...],
    ) -> Outcome:
        """Change nothing for a cluster, and report which of its allocations cannot be read.

        The range of such an allocation is in use, and unknown: without it the tenant's pool would
        lose the range, and the cluster would get a second one.
        """
        message = describe_unreadable(unreadable)
        if self._state_log.begin(key, _UNREADABLE, message):
            _log.error("nothing is changed for the cluster", cluster=str(key), reason=message)
        outcome = Blocked(status.UNREADABLE_ALLOCATION, self._settings.requeue_not_ready)
        if tenant is None or not has_finalizer(tenant, names.FINALIZER_TENANT):
            return outcome
        problem = status.allocations_unreadable(message)
        if tenant.metadata.terminating:
            not_ready = status.not_ready(problem.reason, problem.message)
            verdict = status.TenantVerdict(DELETING, (problem, not_ready))
        else:
            verdict = status.problem_verdict(tenant, problem, PROVISIONING)
        await self._status_writer.write(self._current(tenant), verdict)
        return outcome

    async def _release_leftovers(self, key: Key, present: TenantCluster | None) -> bool:
        """Release the allocations of deleted clusters of this name; return whether any goes.

        Those made for a cluster that was deleted while it was being created are deleted at once.
        Others are deleted by the orphan collector, which limits how many; their ranges then have
        to leave the tenant before they are released.
        """
        leftovers = self._vanished_clusters.leftovers(key)
        for vanished, allocations in leftovers:
            if self._vanished_clusters.was_overtaken(vanished):
                await self._teardown.delete_leftovers(vanished, allocations)
        is_releasing = any(
            allocation.metadata.terminating and allocation.spec.type == names.TYPE_LOADBALANCER
            for _, allocations in leftovers
            for allocation in allocations
        )
        if is_releasing:
            # A present cluster of that name writes to the tenant as soon as it has begun to.
            writes = present is not None and present.projection_begun
            tenant = present if present and writes else leftovers[-1][0]
            if tenant is not present:
                self._records.of(tenant).has_leftovers = True
            await self._project_again(self._current(tenant))
        return is_releasing

    async def _end_work(self, key: Key, *, has_leftovers: bool) -> Outcome:
        """Forget a cluster that is gone, once nothing of it is left in its tenant."""
        self._close(key)
        if has_leftovers:
            return Blocked("Deleting", self._settings.requeue_deleting)
        self._state_log.forget(key)
        await self._tenant_clients.close(key)
        return SETTLED

    def forget(self, key: Key) -> None:
        """Forget a cluster that is gone, or that another replica works on from now on.

        Its watches are closed. Its client is closed later, unless its allocations need it here.
        """
        self._close(key)
        self._state_log.forget(key)

    def _close(self, key: Key) -> None:
        """Close a cluster's watches, and forget all but what was logged of it."""
        self._records.end_work(key)
        self._stop_watching(key)

    def _stop_watching(self, key: Key) -> None:
        """End the watches of a tenant that is gone, or that is left alone from now on."""
        self._services.close(key)
        self._projector.stop_watching(key)

    def _current(self, tenant: TenantCluster) -> CurrentCluster:
        return CurrentCluster(self._client, self._clusters, tenant)

    async def _tear_down(self, current: CurrentCluster) -> Outcome:
        """Delete the cluster's allocations; remove the finalizer once all are released.

        The status is written before the projection: a tenant that hangs does not hide the phase.
        """
        key = current.tenant.metadata.key
        if not has_finalizer(current.tenant, names.FINALIZER_TENANT):
            return SETTLED
        if current.tenant.projection_begun:  # the status says so only until it is written below
            await self._projector.assume_begun(current)
        record = self._records.of(current.tenant)
        if record.deleted_at is None:
            record.deleted_at = current.tenant.metadata.revision
        number = await self._teardown.delete_allocations(current.tenant)
        remaining = members(self._allocations, current.tenant)
        network = status_without_requests(current.tenant, remaining)
        if number == 0:
            await self._projector.remove(current.tenant)
            if network is not None and removed_ranges(current.tenant.status.network, network):
                # While the cluster exists: its status tells the next pass which have an event.
                await self._status_writer.write(
                    current, status.TenantVerdict(DELETING, (), network=network)
                )
        if number == 0 and await self._teardown.remove_finalizer(
            current.tenant, deleted_at=record.deleted_at
        ):
            self._stop_watching(key)
            self._state_log.forget(key)
            if self._vanished_clusters.is_needed(record):
                # An event is due when the remaining allocations, those of nodes, are released.
                await self._tenant_clients.close(key)
            else:
                others = {known.uid for known in self._records.of_name(key)} - {record.uid}
                await self._remove_records(key, others)
            return SETTLED
        not_ready = status.not_ready(
            "Deleting", f"waiting for {count_noun(number, 'IP allocation')} to be released"
        )
        await self._status_writer.write(
            current, status.TenantVerdict(DELETING, (not_ready,), network=network)
        )
        if current.tenant.projection_begun:
            projected = await self._project_again(current)
            await self._status_writer.write(current, status.TenantVerdict(DELETING, (projected,)))
        return Blocked("Deleting", self._settings.requeue_deleting)

    async def _project_again(self, current: CurrentCluster) -> ConditionFinding:
        """Project the tenant's ranges again, if something was projected before.

        A load balancer that the tenant had before may have some of them, too.
        """
        memory = self._records.of(current.tenant).projection
        for provider in self._projector.list_other_balancers(current.tenant):
            await self._projector.project(current, memory, provider=provider)
        return await self._projector.project(current, memory)

    # The steps of a pass ----------------------------------------------------------------------

    async def _with_finalizer(self, tenant: TenantCluster) -> CurrentCluster:
        """Return the cluster with our finalizer."""
        added = await add_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        if added is not tenant and added.status.phase is None:
            self._vanished_clusters.note_new(added)
        return self._current(added)

    async def _begin_pass(self, current: CurrentCluster) -> TenantPass:
        """Find the cluster's ProviderConfig, and return the pass.

        Raises:
            ProviderProblem: nothing is requested or projected by its ProviderConfig.
        """
        provider = await self._providers.require(current.tenant)
        record = self._records.of(current.tenant)
        network = status.network_ready(True, "Ready", "cloud networking mode")
        is_changing = self._provider_change.is_due(current.tenant)
        return TenantPass(
            current, record, provider=provider, network_ready=network, is_changing=is_changing
        )

    async def _report_problem(self, current: CurrentCluster, problem: ProviderProblem) -> Outcome:
        """Report why a cluster cannot request addresses; one that was Ready stays Ready."""
        tenant, finding = current.tenant, problem.finding
        if not problem.is_known:
            verdict = status.problem_verdict(tenant, finding, PROVISIONING)
            await self._status_writer.write(current, verdict)
            return Blocked(finding.reason, UNKNOWN_SECONDS)
        network = status_without_requests(tenant, members(self._allocations, tenant))
        await self._status_writer.write(
            current, status.problem_verdict(tenant, finding, phase=FAILED, network=network)
        )
        return Blocked(finding.reason, self._settings.requeue_not_ready)

    async def _request_allocations(self, now: TenantPass) -> None:
        """Create the allocations that are missing; move those that are stuck."""
        backfill = self._settings.backfill_nodes
        required = self._requester.list_required(now.tenant, now.provider, backfill)
        now.states = await self._requester.request(now.current, now.provider, required)
        now.network_ready = status.addresses(now.states)

    async def _report_waiting(self, now: TenantPass) -> Outcome:
        """Report that a cluster waits for its first addresses."""
        network = now.network_ready
        not_ready = status.not_ready(network.reason, network.message)
        network_status = self._network_status(now, is_sized=False)
        refs = status.refs(now.states)
        verdict = status.TenantVerdict(
            PROVISIONING, (network, not_ready), refs, network=network_status
        )
        await self._status_writer.write(now.current, verdict)
        return Blocked(network.reason, self._settings.requeue_waiting)

    async def _read_services(self, now: TenantPass) -> None:
        """Read the tenant's Services; if that fails, the size stays as it is."""
        tenant = now.tenant
        try:
            now.services = await self._services.for_tenant(tenant, watched=tenant.is_ready)
        except TenantUnavailable as error:
            _log.debug("cannot read the tenant's Services, skipping", error=error.message)
            now.unavailable = error if error.reason in _NO_WAY_IN else None

    async def _note_for_release(self, now: TenantPass, services: Sequence[Service]) -> None:
        """Note on the allocations what their release has to know of the tenant's Services."""
        balancers = balancer_members(self._allocations, now.tenant)
        serves = self._balancer_kinds.of(now.tenant).serves_in(now.tenant)
        await note_for_release(self._client, balancers, services=services, serves=serves)

    async def _follow_demand(self, now: TenantPass) -> None:
        """Grow or shrink the tenant, as its Services or its spec ask for."""
        assert now.services is not None, "demand follows from Services"
        now.seen = await self._observer.observe(
            now.tenant, now.provider, services=now.services, memory=now.record.elastic
        )
        change = decide_size(now.seen)
        created = await carry_out(
            change,
            now.seen,
            current=now.current,
            provider=now.provider,
            client=self._client,
            requester=self._requester,
        )
        now.size = describe_size(now.seen, change, created)
        self._log_quota(now.key, now.size.demand)

    def _log_quota(self, key: Key, finding: ConditionFinding) -> None:
        """Log that the quota stops growth, if that is new."""
        if finding.reason != QUOTA_EXCEEDED:
            self._state_log.end(key, QUOTA_EXCEEDED)
        elif self._state_log.begin(key, QUOTA_EXCEEDED, finding.message):
            _log.info("elastic IPAM growth blocked by quota", tenant=str(key), why=finding.message)

    async def _withdraw_requests(self, now: TenantPass) -> None:
        """Request nothing in cloud mode; what Services use of ours stays until it is freed."""
        now.record.elastic = ElasticMemory()
        self._services.close(now.key)
        await self._requester.withdraw(now.tenant)
        if kept := self._projector.list_projected(now.tenant):
            message = f"{now.network_ready.message}; load-balancer IPs from before are kept: "
            now.network_ready = status.network_ready(True, "Ready", message + ", ".join(kept))

    async def _leave_alone(self, now: TenantPass) -> Outcome:
        """Report that the cluster needs nothing of ours; remove what is left of released ranges.

        A tenant that was never written to is never touched.
        """
        if find(now.tenant.status.conditions, LOAD_BALANCER_READY) is not None:
            await self._project_again(now.current)
            await self._projector.remove(now.tenant)
        now.record.projection = ProjectionMemory()
        self._projector.stop_watching(now.key)
        refs: dict[str, str | None] = {status.REF_FIELDS[names.TYPE_LOADBALANCER]: None}
        obsolete = (*self._not_in_cloud_mode, LOAD_BALANCER_READY)
        network = self._network_status(now, is_sized=False)
        findings = (now.network_ready, status.ready_finding())
        verdict = status.TenantVerdict(
            READY, findings, refs=refs, obsolete=obsolete, network=network
        )
        await self._status_writer.write(now.current, verdict)
        return SETTLED

    async def _project(self, now: TenantPass) -> None:
        """Write the tenant's ranges to its load balancer, unless there is no way in.

        While ranges are still in another load balancer, they are taken from that one instead.
        """
        if now.unavailable is not None:
            now.projected = status.tenant_unavailable(now.tenant, now.unavailable)
            return
        memory = now.record.projection
        if now.is_changing:
            now.projected = await self._provider_change.proceed(now.current, memory)
            return
        now.projected = await self._projector.project(now.current, memory, begin=now.is_ipam)
        if now.is_ipam and is_behind(now.projected):
            await self._projector.overwrite_lost_history(now.tenant, memory)

    async def _install(self, now: TenantPass) -> None:
        """Install the load balancer in the tenant if it is missing, or due for a check.

        One that does not run may be installed only in part, so that is no reason to leave it.
        """
        if now.tenant.load_balancer_provider != self._installer.provider:
            return
        projected = now.load_balancer_ready
        is_missing = self._projector.is_missing(now.tenant, projected)
        is_stopped = self._projector.is_unread(now.tenant, projected)
        if now.unavailable is not None or not (is_missing or is_stopped or projected.status):
            return
        now.installed = await self._installer.install(
            now.tenant, now.record.installation, now.current.annotate, missing=is_missing
        )
        if is_missing and now.installed is not None:
            now.projected = status.load_balancer_ready(
                False, now.installed.reason, now.installed.message
            )

    async def _note_projected(self, now: TenantPass) -> None:
        """Remember what was projected; forget growth that did not help if it may help again."""
        takes_ranges_again = note_projected(
            now.record.elastic,
            now.load_balancer_ready,
            now.offered,
            is_unread=self._projector.is_unread(now.tenant, now.load_balancer_ready),
            now=self._clock.monotonic(),
        )
        if not takes_ranges_again:
            return
        if names.ANNOTATION_GROWN_IN_VAIN in now.tenant.metadata.annotations:
            await now.current.annotate({names.ANNOTATION_GROWN_IN_VAIN: None})
        now.record.elastic.is_refused = False  # last, so that a write that fails is tried again

    # What a pass reports ----------------------------------------------------------------------

    async def _report(self, now: TenantPass) -> None:
        """Write the phase, the conditions and status.network."""
        is_naming_due = now.services is not None and self._is_naming_due(now.record.named_at)
        network = self._network_status(now, is_sized=now.is_ipam, is_naming_due=is_naming_due)
        if now.is_ipam:
            identified = self._projector.is_identified(now.tenant)
            verdict = _judge(now, network, identified)
        else:
            findings = (now.network_ready, now.load_balancer_ready, status.ready_finding())
            obsolete = self._not_in_cloud_mode
            verdict = status.TenantVerdict(READY, findings, obsolete=obsolete, network=network)
        await self._status_writer.write(now.current, verdict)
        if is_naming_due:  # a write that failed has named nothing
            now.record.named_at = self._clock.monotonic()

    def _network_status(
        self, now: TenantPass, *, is_sized: bool, is_naming_due: bool = False
    ) -> TenantNetwork:
        """Return the new status.network of a cluster.

        Args:
            is_sized: whether the tenant's Services count, unlike in cloud mode.
            is_naming_due: whether the Services of each range are named again.
        """
        return network_status(
            now.tenant,
            now.provider,
            members=members(self._allocations, now.tenant),
            states=now.states,
            network_ready=now.network_ready,
            services=now.services_seen,
            growth=now.size.refused if now.size is not None else None,
            is_unread=is_sized and now.services is None,
            is_naming_due=is_naming_due,
            now=self._clock.now(),
        )

    def _is_naming_due(self, named_at: float | None) -> bool:
        """Return whether the Services of a cluster's ranges were named long enough ago.

        Not in each pass: a Service that is served at once costs the management cluster nothing.
        """
        return named_at is None or self._clock.monotonic() - named_at >= NAMING_SECONDS

    def _next_pass(self, now: TenantPass) -> Outcome:
        """Return when the next pass is due."""
        projected = now.load_balancer_ready
        if is_behind(projected) or self._projector.lags(now.tenant):
            return Again(SOON)
        looks = (
            self._projector.due_in(now.tenant, projected, now.record.projection),
            self._attempt_due_in(now),
        )
        look_due = min((seconds for seconds in looks if seconds is not None), default=None)
        if look_due is not None:
            return Again(max(look_due, SOON))
        if projected.reason == CHANGING:
            return Blocked(projected.reason, self._settings.requeue_deleting)
        if projected.reason == WEBHOOK_FAILED:
            return Blocked(projected.reason, WEBHOOK_RETRY)
        for finding in (projected, now.network_ready):
            if not finding.status:
                return Blocked(finding.reason, self._settings.requeue_not_ready)
        after = self._requeue_after(now.tenant)
        if now.marked:
            after = min(after, self._settings.requeue_deleting)
        due_in = now.size.due_in if now.size is not None else None
        return Again(after if due_in is None else min(after, max(due_in, SOON)))

    def _attempt_due_in(self, now: TenantPass) -> float | None:
        """Return seconds until the installation goes on; None if this pass found none waiting."""
        findings = (now.projected, now.installed)
        reasons = {finding.reason for finding in findings if finding is not None}
        if self._installer.installing_reason not in reasons:
            return None
        return self._installer.due_in(now.record.installation) or SOON

    def _requeue_after(self, tenant: TenantCluster) -> float:
        """Return seconds until the next pass, more the longer the cluster has been Ready."""
        since = tenant.status.lastTransitionTime
        is_timed = since is not None and tenant.is_ready
        age = (self._clock.now() - since).total_seconds() if since and is_timed else 0.0
        if age < HOUR:
            return self._settings.requeue_young
        return self._settings.requeue_grown if age < DAY else self._settings.requeue_old


def _judge(
    now: TenantPass, network: TenantNetwork, identified: bool | None
) -> status.TenantVerdict:
    """Return the verdict on a cluster that has requested its addresses.

    A cluster that was Ready stays so if its tenant fails.

    Args:
        network: the new status.network.
        identified: whether it is known which cluster the tenant is; None if that was not asked.
    """
    projected = now.load_balancer_ready
    if projected.status or now.tenant.is_ready:
        phase, overall = READY, status.ready_or_degraded(projected, is_behind=is_behind(projected))
    else:
        phase = PROVISIONING if projected.reason == "KubeconfigMissing" else INSTALLING
        overall = status.not_ready(projected.reason, projected.message)
    unknown, obsolete = status.describe_identity(identified)
    findings = [now.network_ready, projected]
    if now.installed is not None:
        findings.append(now.installed)
    if now.size is not None:
        findings += now.size.findings
        obsolete = (*now.size.obsolete, *obsolete)
    for looked in (now.record.others, now.record.announcements):
        new, ended = looked.findings
        findings += new
        obsolete = (*obsolete, *ended)
    findings += [*unknown, overall]
    return status.TenantVerdict(
        phase, tuple(findings), refs=status.refs(now.states), obsolete=obsolete, network=network
    )
