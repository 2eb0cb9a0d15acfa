"""One pass over one TenantCluster: `TenantClusterReconciler.reconcile`, from top to bottom.

docs/design/tenants.md explains the pass, and where its order matters. Words of this module:

tenant      a TenantCluster, and the cluster that its kubeconfig leads to
project     write the ranges of the tenant's allocations to the load balancer in the tenant
leftovers   allocations of an earlier cluster of the same name, which is gone
record      what this process remembers of one TenantCluster
offered     an allocation whose range is projected, so that Services can use it
mark        an annotation on an allocation: shrink wants its range back
in vain     growth after which the Services still wait for an address
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

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
from controller.conditions import find_condition
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
from reconcilers.tenantcluster.allocations.membership import list_balancer_members, list_members
from reconcilers.tenantcluster.allocations.metadatarepair import repair_metadata
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.allocations.unreadable_members import list_unreadable_members
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
    find_removed_ranges,
    make_network_status,
    make_status_without_requests,
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
from reconcilers.tenantcluster.tenantpass import TenantPass, find_projected_uids

NAMING_SECONDS = 600.0
"""Seconds after which the Services of a cluster's ranges are named again in its status."""
SOON = 1.0
"""Seconds until a pass that has to follow at once, but not in a busy loop."""
HOUR = 3600.0
DAY = 24 * HOUR

_CONNECTION_FAILURES = {"KubeconfigMissing", "KubeconfigRefused", UNREACHABLE}
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
        other_balancers: finds pools of load balancers that the cluster does not name.
        announcements: checks whether something announces addresses in tenants.
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
        self._ipam_condition_types = (DEMAND_MET, LOAD_BALANCER_SIZED, self._installer.condition)
        """Types of conditions that do not apply in cloud mode."""

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one TenantCluster; after a conflict with a newer object, again soon."""
        try:
            return await self._run_pass(key)
        except NotFound as missing:
            if missing.reason != "NotFound":
                raise  # the kind is not served, which says nothing about objects
            # An object was deleted, and the cache does not show that yet.
        except Conflict:
            pass  # an object was written, and the cache does not show that yet
        # The event that brings the cache up to date enqueues the key, too.
        return Again(SOON)

    async def _run_pass(  # noqa: C901, PLR0911 - one function that reads from top to bottom
        self, key: Key
    ) -> Outcome:
        """Read, decide, write and report for one TenantCluster, in this order.

        The first case that applies ends the pass:

        1. The cluster cannot be read: nothing is done until it is corrected.
        2. An allocation of it cannot be read: nothing is changed, and the status says so.
        3. The cluster is gone, or is being deleted: its allocations are released.
        4. It may not use its ProviderConfig, or has none: the status says so.
        5. It waits for its first addresses.
        6. It is in cloud mode, and nothing of ours is in its tenant.
        7. All other clusters: the ranges are projected, and the outcome is reported.
        """
        if key in self._clusters.unreadable:
            # The cluster exists, so its addresses are not released. It is not written either: the
            # cache has at most an older version, and the API server rejects a write based on that.
            return Blocked("Unreadable")
        tenant = self._clusters.get(key)
        if unreadable := self._list_unreadable_members(key, tenant):
            # First, because the range of such an allocation is in use.
            return await self._report_unreadable(key, tenant, unreadable)
        self._state_log.end(key, _UNREADABLE)
        self._record_released_leftovers(key)
        await self._retain_records(key, tenant)
        has_leftovers = await self._release_leftovers(key, tenant)
        if tenant is None:
            return await self._end_work(key, has_leftovers=has_leftovers)
        if tenant.metadata.is_terminating:
            return await self._tear_down(self._make_current(tenant))

        current = await self._ensure_finalizer(tenant)
        try:
            this_pass = await self._begin_pass(current)
        except ProviderProblem as problem:
            return await self._report_problem(current, problem)
        if this_pass.is_ipam:
            await self._request_allocations(this_pass)
            if not this_pass.network_ready.status and not this_pass.tenant.is_ready:
                # There are no addresses to project. A Ready cluster has some, and goes on.
                return await self._report_waiting(this_pass)
            await repair_metadata(self._client, self._allocations, this_pass.tenant)
            await self._read_services(this_pass)
            if this_pass.services is not None and not this_pass.is_changing:
                await self._note_for_release(this_pass, this_pass.services)
                await self._follow_demand(this_pass)
                await self._platform_label.apply(this_pass.tenant, this_pass.services)
                # Since the watch was read, a Service may have taken an address of a marked range.
                # If that range left the pool, the load balancer would take the address away.
                await self._marked_releaser.withdraw_used(this_pass.tenant)
                # Listed before the projection: a range that is allocated during it may be missing
                # there, and must not count as offered.
                this_pass.offered_uids = find_projected_uids(
                    list_members(self._allocations, this_pass.tenant)
                )
            await self._projector.note_possible_projection(this_pass.current)
        else:
            # In cloud mode the cluster requests no addresses. It may have some from before.
            await self._withdraw_requests(this_pass)
            if not self._projector.list_projected(this_pass.tenant):
                return await self._report_cloud_mode(this_pass)
            await self._marked_releaser.withdraw_used(this_pass.tenant)
        await self._project(this_pass)
        if this_pass.is_ipam:
            if this_pass.load_balancer_ready.status:
                await self._other_balancers.check_if_due(this_pass.tenant, this_pass.record.others)
                await self._announcements.check_if_due(
                    this_pass.tenant, this_pass.record.announcements
                )
            await self._install(this_pass)
            await self._note_projected(this_pass)
        this_pass.marked_number = await self._marked_releaser.release(this_pass.tenant)
        await self._report(this_pass)
        return self._choose_next_pass(this_pass)

    # Before a cluster is worked on, and after it is gone -------------------------------------

    def _record_released_leftovers(self, key: Key) -> None:
        """Record an event for each range that was released since its cluster vanished.

        After that the last known state of a cluster shows only its remaining ranges, so no range
        has two events.
        """
        for record in self._records.list_by_name(key):
            vanished = record.last_seen
            if vanished is None:
                continue  # the cluster exists, or it had no allocations when it was deleted
            remaining = list_members(self._allocations, vanished)
            network = make_status_without_requests(vanished, remaining)
            # Without status.network no earlier ranges are known, so none can be missed.
            if network is not None:
                self._status_writer.record_released(vanished, network)
                new_status = replace(vanished.status, network=network)
                record.last_seen = replace(vanished, status=new_status)

    async def _retain_records(self, key: Key, present: TenantCluster | None) -> None:
        """Remove the records of a name, except those of the present cluster and of leftovers.

        The caller has checked that all allocations can be read. An unreadable allocation may be a
        leftover, and its release needs the last state of its cluster, which only the record has.
        """
        needed_uids = {present.metadata.uid} if present is not None else set()
        records = self._records.list_by_name(key)
        needed_uids |= {
            record.uid for record in records if self._vanished_clusters.is_needed(record)
        }
        if not needed_uids:
            # After this the records are removed, and with them the only way into their tenants.
            await self._clear_tenants(records)
        await self._remove_records(key, needed_uids)

    async def _clear_tenants(self, records: Iterable[TenantRecord]) -> None:
        """Remove our remaining objects from the tenants of vanished clusters.

        The release of leftovers may create an object in the tenant, which proves that the load
        balancer has dropped a range. Once the record is removed, nothing in the management cluster
        leads to that object.
        """
        for record in records:
            if record.has_leftovers:
                await self._projector.remove(self._vanished_clusters.find_cluster(record))

    async def _remove_records(self, key: Key, kept_uids: Container[str]) -> None:
        """Remove the records of a name, except those with these uids; close their clients."""
        for record in self._records.retain(key, kept_uids):
            await self._tenant_clients.forget(record.access)

    def _list_unreadable_members(
        self, key: Key, tenant: TenantCluster | None
    ) -> tuple[UnreadableObject, ...]:
        """Return the unreadable allocations that stop all work on a cluster.

        While leftovers are released, the unreadable allocations of every cluster of that name
        count, because all of them are projected to one tenant.
        """
        if tenant is None or self._vanished_clusters.list_leftovers(key):
            uid = ""  # the allocations of all clusters of that name count
        else:
            uid = tenant.metadata.uid
        return list_unreadable_members(self._allocations, key, uid)

    async def _report_unreadable(
        self,
        key: Key,
        tenant: TenantCluster | None,
        unreadable: tuple[UnreadableObject, ...],
    ) -> Outcome:
        """Change nothing for a cluster, and report which of its allocations cannot be read.

        The range of such an allocation is in use, but not known. If the pass went on, the tenant's
        pool would lose the range, and the cluster would get a second allocation.
        """
        message = describe_unreadable(unreadable)
        if self._state_log.begin(key, _UNREADABLE, message):
            _log.error("nothing is changed for the cluster", cluster=str(key), reason=message)
        outcome = Blocked(status.UNREADABLE_ALLOCATION, self._settings.requeue_not_ready)
        if tenant is None or not has_finalizer(tenant, names.FINALIZER_TENANT):
            return outcome  # there is no status to write, or the cluster is not ours yet
        problem = status.make_allocations_unreadable(message)
        if tenant.metadata.is_terminating:
            not_ready = status.make_not_ready(problem.reason, problem.message)
            verdict = status.TenantVerdict(DELETING, (problem, not_ready))
        else:
            verdict = status.make_problem_verdict(tenant, problem, PROVISIONING)
        await self._status_writer.write(self._make_current(tenant), verdict)
        return outcome

    async def _release_leftovers(self, key: Key, present: TenantCluster | None) -> bool:
        """Delete leftovers that may be deleted here, and take deleted ranges out of the tenant.

        A leftover is an allocation of a vanished cluster of this name. If the deletion of the
        cluster came before the finalizer that this process added, its leftovers are deleted here
        at once. The orphan collector deletes all others, a limited number at a time. A deleted
        allocation keeps its range until the tenant no longer has it. So the tenant is given a
        projection without these ranges.

        Args:
            present: the cluster that has this name now; None if there is none.

        Returns:
            Whether load-balancer allocations of a vanished cluster were being released when the
            pass read them. Deletions of this pass do not count yet: their events bring another
            pass.
        """
        leftovers = self._vanished_clusters.list_leftovers(key)
        for vanished, allocations in leftovers:
            if self._vanished_clusters.deletion_may_precede_finalizer(vanished):
                await self._teardown.delete_leftovers(vanished, allocations)
        is_releasing = any(
            allocation.metadata.is_terminating and allocation.spec.type == names.TYPE_LOADBALANCER
            for _, allocations in leftovers
            for allocation in allocations
        )
        if is_releasing:
            if present is not None and present.projection_begun:
                tenant = present  # its projection leaves out the ranges of the leftovers
            else:
                # All clusters of one name lead to one tenant; this one was there last.
                tenant = leftovers[-1][0]
                self._records.get_or_create(tenant).has_leftovers = True
            await self._project_again(self._make_current(tenant))
        return is_releasing

    async def _end_work(self, key: Key, *, has_leftovers: bool) -> Outcome:
        """Forget a cluster that is gone; keep its client while its leftovers are released.

        Args:
            has_leftovers: whether load-balancer allocations of the cluster are being released.
        """
        self._close(key)
        if has_leftovers:
            # Each pass projects once more, until the tenant has released the ranges.
            return Blocked("Deleting", self._settings.requeue_deleting)
        self._state_log.forget(key)
        await self._tenant_clients.close_clients(key)
        return SETTLED

    def forget(self, key: Key) -> None:
        """Forget a cluster that is gone, or that another replica works on from now on.

        Its watches are closed. Its client is closed later, unless its allocations need it here.
        """
        self._close(key)
        self._state_log.forget(key)

    def _close(self, key: Key) -> None:
        """Close a cluster's watches, and clear what its passes remember, except the state log."""
        self._records.end_work(key)
        self._stop_watching(key)

    def _stop_watching(self, key: Key) -> None:
        """Close the watches of a tenant that is gone, or to which no pass writes any more."""
        self._services.close(key)
        self._projector.stop_watching(key)

    def _make_current(self, tenant: TenantCluster) -> CurrentCluster:
        """Return the object through which the steps of this pass read and write the cluster."""
        return CurrentCluster(self._client, self._clusters, tenant)

    async def _tear_down(self, current: CurrentCluster) -> Outcome:
        """Delete the cluster's allocations; remove the finalizer once all are released.

        The status is written before the projection: a tenant that hangs does not hide the phase.
        """
        key = current.tenant.metadata.key
        if not has_finalizer(current.tenant, names.FINALIZER_TENANT):
            return SETTLED  # it is torn down, or was never worked on
        if current.tenant.projection_begun:
            # If the annotation is missing, only the status shows that a projection has begun. The
            # status is overwritten below, so the annotation is written now.
            await self._projector.note_possible_projection(current)
        record = self._records.get_or_create(current.tenant)
        if record.deletion_revision is None:
            # Only the first version counts: later writes of the cluster have higher ones.
            record.deletion_revision = current.tenant.metadata.revision
        balancer_number = await self._teardown.delete_allocations(current.tenant)
        remaining = list_members(self._allocations, current.tenant)
        network = make_status_without_requests(current.tenant, remaining)
        if balancer_number == 0:
            await self._projector.remove(current.tenant)
            if network is not None and find_removed_ranges(current.tenant.status.network, network):
                # Written before the finalizer goes: the write also records an event for each
                # released range. If the pass fails later, the status shows the next pass which
                # ranges have their event.
                await self._status_writer.write(
                    current, status.TenantVerdict(DELETING, (), network=network)
                )
        if balancer_number == 0 and await self._teardown.remove_finalizer(
            current.tenant, deletion_revision=record.deletion_revision
        ):
            self._stop_watching(key)
            self._state_log.forget(key)
            if self._vanished_clusters.is_needed(record):
                # The record stays: the allocations of nodes remain, and an event is due when they
                # are released.
                await self._tenant_clients.close_clients(key)
            else:
                other_uids = {known.uid for known in self._records.list_by_name(key)} - {
                    record.uid
                }
                await self._remove_records(key, other_uids)
            return SETTLED
        not_ready = status.make_not_ready(
            "Deleting",
            f"waiting for {count_noun(balancer_number, 'IP allocation')} to be released",
        )
        await self._status_writer.write(
            current, status.TenantVerdict(DELETING, (not_ready,), network=network)
        )
        if current.tenant.projection_begun:
            balancer_finding = await self._project_again(current)
            await self._status_writer.write(
                current, status.TenantVerdict(DELETING, (balancer_finding,))
            )
        return Blocked("Deleting", self._settings.requeue_deleting)

    async def _project_again(self, current: CurrentCluster) -> ConditionFinding:
        """Project the tenant's ranges, but do not begin if nothing was ever projected.

        A load balancer that the tenant had before may still have some of the ranges. So they are
        taken from it, too.

        Returns:
            Condition LoadBalancerReady, of the load balancer that the spec names.
        """
        memory = self._records.get_or_create(current.tenant).projection
        for provider in self._projector.list_other_balancers(current.tenant):
            await self._projector.project(current, memory, provider=provider)
        return await self._projector.project(current, memory)

    # The steps of a pass ----------------------------------------------------------------------

    async def _ensure_finalizer(self, tenant: TenantCluster) -> CurrentCluster:
        """Add our finalizer if the cluster lacks it; return the cluster with it.

        `add_finalizer` returns the same object if the finalizer is there already.
        """
        written = await add_finalizer(self._client, TENANT_CLUSTER, tenant, names.FINALIZER_TENANT)
        if written is not tenant and written.status.phase is None:
            # The cluster is new. If it vanishes soon in spite of the finalizer, its allocations
            # are deleted at once, without the limits of the orphan collector.
            self._vanished_clusters.note_new(written)
        return self._make_current(written)

    async def _begin_pass(self, current: CurrentCluster) -> TenantPass:
        """Find the cluster's ProviderConfig, and return the pass.

        Raises:
            ProviderProblem: the cluster gets no addresses by its ProviderConfig.
        """
        provider = await self._providers.require(current.tenant)
        record = self._records.get_or_create(current.tenant)
        # This condition is for cloud mode. In mode ipam `_request_allocations` replaces it.
        network_ready = status.make_network_ready(True, "Ready", "cloud networking mode")
        return TenantPass(
            current,
            record,
            provider=provider,
            network_ready=network_ready,
            is_changing=self._provider_change.is_due(current.tenant),
        )

    async def _report_problem(self, current: CurrentCluster, problem: ProviderProblem) -> Outcome:
        """Report why a cluster cannot request addresses; one that was Ready stays Ready."""
        tenant, finding = current.tenant, problem.finding
        if not problem.is_known:
            # Which ProviderConfig counts may soon be known, so the phase is not Failed, and
            # status.network stays.
            verdict = status.make_problem_verdict(tenant, finding, PROVISIONING)
            await self._status_writer.write(current, verdict)
            return Blocked(finding.reason, UNKNOWN_SECONDS)
        network = make_status_without_requests(tenant, list_members(self._allocations, tenant))
        await self._status_writer.write(
            current, status.make_problem_verdict(tenant, finding, phase=FAILED, network=network)
        )
        return Blocked(finding.reason, self._settings.requeue_not_ready)

    async def _request_allocations(self, this_pass: TenantPass) -> None:
        """Create missing allocations; move waiting ones to a pool that has room."""
        backfill = self._settings.backfill_nodes
        required = self._requester.list_required(this_pass.tenant, this_pass.provider, backfill)
        this_pass.states = await self._requester.request_missing(
            this_pass.current, this_pass.provider, required
        )
        this_pass.network_ready = status.judge_states(this_pass.states)

    async def _report_waiting(self, this_pass: TenantPass) -> Outcome:
        """Report that a cluster waits for its first addresses."""
        network_ready = this_pass.network_ready
        verdict = status.TenantVerdict(
            PROVISIONING,
            (network_ready, status.make_not_ready(network_ready.reason, network_ready.message)),
            refs=status.list_refs(this_pass.states),
            network=self._make_network_status(this_pass, expects_services=False),
        )
        await self._status_writer.write(this_pass.current, verdict)
        return Blocked(network_ready.reason, self._settings.requeue_waiting)

    async def _read_services(self, this_pass: TenantPass) -> None:
        """Read the tenant's Services; a failure of the tenant leaves its size as it is.

        The projection reports a failure of the tenant, so none is raised here.
        """
        tenant = this_pass.tenant
        try:
            this_pass.services = await self._services.read(tenant, watched=tenant.is_ready)
        except TenantUnavailable as error:
            _log.debug("cannot read the tenant's Services, skipping", error=error.message)
            # After any other failure the projection may still succeed, so it is tried.
            this_pass.unavailable = error if error.reason in _CONNECTION_FAILURES else None

    async def _note_for_release(self, this_pass: TenantPass, services: Sequence[Service]) -> None:
        """Note on allocations the facts about Services that their release will need.

        The Services may be gone by then.
        """
        balancers = list_balancer_members(self._allocations, this_pass.tenant)
        view_service = self._balancer_kinds.find_chosen(this_pass.tenant).make_service_viewer(
            this_pass.tenant
        )
        await note_for_release(
            self._client, balancers, services=services, view_service=view_service
        )

    async def _follow_demand(self, this_pass: TenantPass) -> None:
        """Grow or shrink the tenant as its Services or its spec require."""
        assert this_pass.services is not None, "demand follows from Services"
        this_pass.size_facts = await self._observer.observe(
            this_pass.tenant,
            this_pass.provider,
            services=this_pass.services,
            memory=this_pass.record.elastic,
        )
        change = decide_size(this_pass.size_facts)
        created = await carry_out(
            change,
            this_pass.size_facts,
            current=this_pass.current,
            provider=this_pass.provider,
            client=self._client,
            requester=self._requester,
        )
        this_pass.size_report = describe_size(this_pass.size_facts, change, created)
        self._log_quota(this_pass.key, this_pass.size_report.demand)

    def _log_quota(self, key: Key, finding: ConditionFinding) -> None:
        """Log that the quota stops growth, if the log does not say so yet."""
        if finding.reason != QUOTA_EXCEEDED:
            self._state_log.end(key, QUOTA_EXCEEDED)
        elif self._state_log.begin(key, QUOTA_EXCEEDED, finding.message):
            _log.info("elastic IPAM growth blocked by quota", tenant=str(key), why=finding.message)

    async def _withdraw_requests(self, this_pass: TenantPass) -> None:
        """Withdraw the cluster's requests in cloud mode, and report the ranges that it keeps.

        Ranges from before stay while Services may use them; NetworkReady names their allocations.
        """
        # In cloud mode the size follows no Services, so their memory and their watch end.
        this_pass.record.elastic = ElasticMemory()
        self._services.close(this_pass.key)
        await self._requester.withdraw_requests(this_pass.tenant)
        if kept_names := self._projector.list_projected(this_pass.tenant):
            message = (
                f"{this_pass.network_ready.message}; load-balancer IPs from before are kept: "
            )
            this_pass.network_ready = status.make_network_ready(
                True, "Ready", message + ", ".join(kept_names)
            )

    async def _report_cloud_mode(self, this_pass: TenantPass) -> Outcome:
        """Report that the cluster needs nothing of ours; remove our objects from its tenant."""
        # The condition shows that the tenant was written to; without it the tenant is not touched.
        # The verdict below removes the condition, so the tenant is cleared only once.
        if find_condition(this_pass.tenant.status.conditions, LOAD_BALANCER_READY) is not None:
            # The cluster has no ranges any more, so the projection empties our pools. `remove`
            # deletes only empty pools.
            await self._project_again(this_pass.current)
            await self._projector.remove(this_pass.tenant)
        this_pass.record.projection = ProjectionMemory()
        self._projector.stop_watching(this_pass.key)
        verdict = status.TenantVerdict(
            READY,
            (this_pass.network_ready, status.make_ready()),
            refs={status.REF_FIELDS[names.TYPE_LOADBALANCER]: None},
            obsolete=(*self._ipam_condition_types, LOAD_BALANCER_READY),
            network=self._make_network_status(this_pass, expects_services=False),
        )
        await self._status_writer.write(this_pass.current, verdict)
        return SETTLED

    async def _project(self, this_pass: TenantPass) -> None:
        """Write the tenant's ranges to its load balancer; set the condition LoadBalancerReady.

        While ranges are still in another load balancer, they are taken from that one instead.
        """
        if this_pass.unavailable is not None:
            # A second request in this pass would fail for the same reason.
            this_pass.balancer_finding = status.make_tenant_unavailable(
                this_pass.tenant, this_pass.unavailable
            )
            return
        memory = this_pass.record.projection
        if this_pass.is_changing:
            this_pass.balancer_finding = await self._provider_change.proceed(
                this_pass.current, memory
            )
            return
        this_pass.balancer_finding = await self._projector.project(
            this_pass.current, memory, begin=this_pass.is_ipam
        )
        if this_pass.is_ipam and is_behind(this_pass.balancer_finding):
            # Usually another replica just wrote. After a restore of the management cluster, the
            # tenant stays ahead for good.
            await self._projector.overwrite_lost_history(this_pass.tenant, memory)

    async def _install(self, this_pass: TenantPass) -> None:
        """Install the load balancer if it is missing, does not run, or is due for a check.

        A load balancer that does not run may be installed only in part.
        """
        if this_pass.tenant.load_balancer_provider != self._installer.provider:
            return  # other controllers install Cilium, because it is the tenant's network
        if this_pass.unavailable is not None:
            return  # the tenant cannot be entered, so an installation would fail as well
        balancer_finding = this_pass.load_balancer_ready
        is_missing = self._projector.is_missing(this_pass.tenant, balancer_finding)
        is_stopped = self._projector.is_unread(this_pass.tenant, balancer_finding)
        if not (is_missing or is_stopped or balancer_finding.status):
            return  # the projection failed for a reason that an installation does not change
        this_pass.installation_finding = await self._installer.install(
            this_pass.tenant,
            this_pass.record.installation,
            this_pass.current.annotate,
            is_missing=is_missing,
        )
        if is_missing and this_pass.installation_finding is not None:
            # "Is being installed" says more than "is missing", which the projection found.
            this_pass.balancer_finding = status.make_load_balancer_ready(
                False,
                this_pass.installation_finding.reason,
                this_pass.installation_finding.message,
            )

    async def _note_projected(self, this_pass: TenantPass) -> None:
        """Remember which ranges are projected; forget growth in vain after a rejection has ended.

        While the balancer rejected ranges, growth could not help any Service. Now it may help.
        """
        takes_ranges_again = note_projected(
            this_pass.record.elastic,
            this_pass.load_balancer_ready,
            this_pass.offered_uids,
            is_unread=self._projector.is_unread(this_pass.tenant, this_pass.load_balancer_ready),
            now=self._clock.monotonic(),
        )
        if not takes_ranges_again:
            return
        if names.ANNOTATION_GROWN_IN_VAIN in this_pass.tenant.metadata.annotations:
            await this_pass.current.annotate({names.ANNOTATION_GROWN_IN_VAIN: None})
        # Cleared last: if the write fails, the next pass repeats it.
        this_pass.record.elastic.is_refused = False

    # What a pass reports ----------------------------------------------------------------------

    async def _report(self, this_pass: TenantPass) -> None:
        """Write the phase, the conditions and status.network."""
        is_naming_due = this_pass.services is not None and self._is_naming_due(
            this_pass.record.named_at
        )
        network = self._make_network_status(
            this_pass, expects_services=this_pass.is_ipam, is_naming_due=is_naming_due
        )
        if this_pass.is_ipam:
            is_identified = self._projector.is_identified(this_pass.tenant)
            verdict = _judge(this_pass, network, is_identified)
        else:
            findings = (
                this_pass.network_ready,
                this_pass.load_balancer_ready,
                status.make_ready(),
            )
            obsolete = self._ipam_condition_types
            verdict = status.TenantVerdict(READY, findings, obsolete=obsolete, network=network)
        await self._status_writer.write(this_pass.current, verdict)
        if is_naming_due:
            # Set after the write: if the write fails, the next pass names the Services.
            this_pass.record.named_at = self._clock.monotonic()

    def _make_network_status(
        self, this_pass: TenantPass, *, expects_services: bool, is_naming_due: bool = False
    ) -> TenantNetwork:
        """Return the new status.network of a cluster.

        Args:
            expects_services: whether the pass had to read the tenant's Services. If it could not
                read them, what they showed last stays in the status.
            is_naming_due: whether the Services of each range are named again.
        """
        return make_network_status(
            this_pass.tenant,
            this_pass.provider,
            members=list_members(self._allocations, this_pass.tenant),
            states=this_pass.states,
            network_ready=this_pass.network_ready,
            services=this_pass.services_seen,
            growth=this_pass.size_report.refused if this_pass.size_report is not None else None,
            is_unread=expects_services and this_pass.services is None,
            is_naming_due=is_naming_due,
            now=self._clock.now(),
        )

    def _is_naming_due(self, named_at: float | None) -> bool:
        """Return whether to name the Services of a cluster's ranges in its status again.

        They are not named in each pass, so that a Service that is served at once costs no write
        on the management cluster.

        Args:
            named_at: when they were last named, in monotonic seconds; None for never.
        """
        return named_at is None or self._clock.monotonic() - named_at >= NAMING_SECONDS

    def _choose_next_pass(self, this_pass: TenantPass) -> Outcome:
        """Return when the next pass is due.

        The first case that applies decides. The cases with the shortest waits come first:

        1. The pool could not be written on the newest basis: at once.
        2. The balancer or the installation is to be checked again: when that check is due.
        3. Ranges move to another load balancer: by the interval of releases.
        4. A webhook in the tenant failed: by its own interval.
        5. The load balancer or the addresses are not ready: by the interval for that.
        6. Nothing is wrong: the longer the cluster has been Ready, the later. Marked ranges, or a
           change of size that falls due, bring the pass forward.
        """
        balancer_finding = this_pass.load_balancer_ready
        if is_behind(balancer_finding) or self._projector.is_basis_low(this_pass.tenant):
            # Another replica just wrote, or the cache has yet to show a mark: both pass soon.
            return Again(SOON)
        check_delays = (
            self._projector.compute_check_delay(
                this_pass.tenant, balancer_finding, this_pass.record.projection
            ),
            self._compute_installation_delay(this_pass),
        )
        shortest_delay = min(
            (seconds for seconds in check_delays if seconds is not None), default=None
        )
        if shortest_delay is not None:
            return Again(max(shortest_delay, SOON))
        if balancer_finding.reason == CHANGING:
            # Each pass checks whether the old balancer has released the ranges.
            return Blocked(balancer_finding.reason, self._settings.requeue_deleting)
        if balancer_finding.reason == WEBHOOK_FAILED:
            # The API server answers, so a retry costs little, and no event says when it succeeds.
            return Blocked(balancer_finding.reason, WEBHOOK_RETRY)
        for finding in (balancer_finding, this_pass.network_ready):
            if not finding.status:
                return Blocked(finding.reason, self._settings.requeue_not_ready)
        after = self._choose_requeue(this_pass.tenant)
        if this_pass.marked_number:
            # Each pass checks whether the marked ranges have left the tenant.
            after = min(after, self._settings.requeue_deleting)
        size_due_in = this_pass.size_report.due_in if this_pass.size_report is not None else None
        return Again(after if size_due_in is None else min(after, max(size_due_in, SOON)))

    def _compute_installation_delay(self, this_pass: TenantPass) -> float | None:
        """Return the seconds until the installation goes on; None if none is in progress.

        The reason of a condition shows whether an installation is in progress.
        """
        findings = (this_pass.balancer_finding, this_pass.installation_finding)
        reasons = {finding.reason for finding in findings if finding is not None}
        if self._installer.installing_reason not in reasons:
            return None
        # The memory may have no attempt to repeat. Then the next pass checks again soon.
        return self._installer.compute_check_delay(this_pass.record.installation) or SOON

    def _choose_requeue(self, tenant: TenantCluster) -> float:
        """Return the seconds until the next pass: more, the longer the cluster has been Ready."""
        since = tenant.status.lastTransitionTime
        # A cluster that only now becomes Ready has the time of its earlier phase.
        age = (self._clock.now() - since).total_seconds() if since and tenant.is_ready else 0.0
        if age < HOUR:
            return self._settings.requeue_young
        return self._settings.requeue_grown if age < DAY else self._settings.requeue_old


def _judge(
    this_pass: TenantPass, network: TenantNetwork, is_identified: bool | None
) -> status.TenantVerdict:
    """Return the verdict on a cluster that has requested its addresses.

    A cluster that was Ready stays Ready if its tenant fails, because its Services still work.

    Args:
        network: the new status.network.
        is_identified: whether it is known which cluster the tenant is; None if the tenant was not
            asked yet.
    """
    balancer_finding = this_pass.load_balancer_ready
    if balancer_finding.status or this_pass.tenant.is_ready:
        phase = READY
        overall = status.make_ready_or_degraded(
            balancer_finding, is_behind=is_behind(balancer_finding)
        )
    else:
        # Without a kubeconfig, the cluster itself is still being built.
        phase = PROVISIONING if balancer_finding.reason == "KubeconfigMissing" else INSTALLING
        overall = status.make_not_ready(balancer_finding.reason, balancer_finding.message)
    identity_findings, obsolete = status.describe_identity(is_identified)
    findings = [this_pass.network_ready, balancer_finding]
    if this_pass.installation_finding is not None:
        findings.append(this_pass.installation_finding)
    if this_pass.size_report is not None:
        findings += this_pass.size_report.findings
        obsolete = (*this_pass.size_report.obsolete, *obsolete)
    for check_memory in (this_pass.record.others, this_pass.record.announcements):
        check_findings, ended_types = check_memory.findings
        findings += check_findings
        obsolete = (*obsolete, *ended_types)
    findings += [*identity_findings, overall]
    return status.TenantVerdict(
        phase,
        tuple(findings),
        refs=status.list_refs(this_pass.states),
        obsolete=obsolete,
        network=network,
    )
