"""Writes the ranges of a tenant's allocations to its load balancer; the result is a condition.

A *projection* is the set of ranges that the load balancer should hold. Its *basis* is the position
of the cache of IPAllocations from which it was computed. The basis is written with it, so a
process with an older view does not overwrite a newer projection. An *offer* is a pool in the
tenant.

A *lost history*: a management cluster that was restored from a backup counts resourceVersions from
the time of the backup. Then the basis in the tenant is one that this cluster never reached.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.conditions import format_rfc3339, is_true
from controller.errors import Conflict, ControllerError, NotFound
from controller.loggers import get_logger
from controller.meta import Key
from controller.statelog import StateLog
from reconcilers.addressing import statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import TENANT_INDEX, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION
from reconcilers.api.tenantcluster import LOAD_BALANCER_READY, TenantCluster
from reconcilers.clusteraccess.clusteridentity import is_of_other_management
from reconcilers.clusteraccess.tenantclients import LONGEST_PAUSE, TenantClients
from reconcilers.clusteraccess.tenantfailures import UNAUTHORIZED, TenantUnavailable
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.ownernotes import make_owner_annotations
from reconcilers.loadbalancers.port import (
    BEHIND,
    CONTESTED,
    READING_GRACE_SECONDS,
    BalancerBlocked,
    BalancerMemory,
    Health,
    HealthState,
    LoadBalancer,
    LoadBalancerKind,
    Offer,
    Projection,
)
from reconcilers.reporting.conditions import ConditionFinding
from reconcilers.tenantcluster.allocations.membership import (
    is_foreign,
    list_balancer_members,
    list_members,
)
from reconcilers.tenantcluster.balancerwatch import BalancerWatches
from reconcilers.tenantcluster.corrections import CorrectionReports
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.ownership.pools import PoolOwnership
from reconcilers.tenantcluster.projections import (
    find_needed_basis,
    make_projected_ranges,
    make_projection,
)
from reconcilers.tenantcluster.status import make_load_balancer_ready, make_tenant_unavailable

_log = get_logger(__name__)


_UNAVAILABLE = "tenant client"
_REWRITE = "rewrite of the pool"
_REMOVAL = "removal from the tenant"
# The topics of the states that are logged.

HISTORY_SECONDS = 5.0
"""For how many seconds a tenant's pool is ahead of us before its basis is compared with a LIST."""


class _ManagementError(Exception):
    """Wraps a failure of the management cluster, so that it does not count as the tenant's."""

    def __init__(self, error: ControllerError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def _wrap_management_errors() -> Iterator[None]:
    """Wrap each ControllerError of the context in _ManagementError.

    This context is used inside the context of a tenant's client. That one takes any
    ControllerError for a failure of the tenant, also if the management cluster has failed.
    """
    try:
        yield
    except ControllerError as error:
        raise _ManagementError(error) from error


@dataclass(frozen=True, slots=True)
class LostHistoryCheck:
    """When the basis of a pool that is ahead of this process is compared with a LIST next.

    Args:
        due: the time of the next check, in monotonic seconds.
        pause: seconds between the last check and the next.
    """

    due: float
    pause: float


@dataclass(slots=True)
class ProjectionMemory:
    """What is remembered of the projections into one tenant.

    Args:
        balancer: the adapter's memory of the tenant.
        lost_history: the next check of an offer with a higher basis than ours; None if no offer
            has one.
    """

    balancer: BalancerMemory = field(default_factory=BalancerMemory)
    lost_history: LostHistoryCheck | None = None


class Projector:
    """Writes the ranges of allocations to the tenants' load balancers.

    Args:
        client: the management cluster.
        allocations: its IPAllocations, indexed by TenantCluster.
        kinds: the load balancers that tenants may have.
        ownership: decides whether a TenantCluster may write an offer.
        corrections: reports edits by others that were undone.
        watches: the watches of the objects that are written in tenants.
        state_log: the states of tenants that were logged.
        clock: the time.
    """

    def __init__(  # noqa: PLR0913 - the collaborators; the wiring is the one caller
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        *,
        kinds: LoadBalancerKinds,
        ownership: PoolOwnership,
        tenants: TenantClients,
        corrections: CorrectionReports,
        watches: BalancerWatches,
        state_log: StateLog,
        clock: Clock,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._corrections = corrections
        self._watches = watches
        self._state_log = state_log
        self._clock = clock
        self._allocations = allocations
        self._ownership = ownership
        self._tenants = tenants

    def find_projection(self, tenant: TenantCluster, provider: str = "") -> Projection:
        """Return the projection for a tenant, as the cache shows its allocations.

        Allocations of earlier clusters of that name count in `needed`, `releasing` and `evicting`,
        because their ranges may be in the same tenant.

        Args:
            provider: the load balancer; empty for the one that the cluster names. The projection
                for any other load balancer has no ranges: they are to leave it.
        """
        chosen = tenant.load_balancer_provider
        provider = provider or chosen
        allocations_of_name = self._allocations.list_by_index(
            TENANT_INDEX, str(tenant.metadata.key)
        )
        cluster_allocations = list_members(self._allocations, tenant) if provider == chosen else []
        projection = make_projection(
            _select_of_balancer(cluster_allocations, provider), self._allocations.position
        )
        projected_uids = {ranges.allocation.uid for ranges in projection.allocations}
        others = [
            allocation
            for allocation in _select_of_balancer(allocations_of_name, provider)
            if allocation.spec.type == names.TYPE_LOADBALANCER
            and allocation.metadata.uid not in projected_uids
        ]
        # A deletion, or a change of the load balancer, does not wait for Services as a shrink
        # does: they lose their addresses of these ranges.
        deleted_or_leaving = [a for a in others if a.metadata.is_terminating or a.is_leaving]
        return replace(
            projection,
            needed=find_needed_basis(allocations_of_name),
            releasing=frozenset(allocation.metadata.uid for allocation in others),
            evicting=tuple(map(make_projected_ranges, deleted_or_leaving)),
            selector=tenant.service_selector if provider == chosen else None,
        )

    def list_other_balancers(self, tenant: TenantCluster) -> list[str]:
        """Return the load balancers, apart from the one in the spec, that may have a range.

        Ranges of earlier clusters of that name count: they may be in the same tenant. A load
        balancer that this release does not know is left out: nothing can be written there.
        """
        providers = {allocation.load_balancer for allocation in self._list_with_range(tenant)}
        others = providers - {tenant.load_balancer_provider}
        return sorted(filter(self._kinds.is_known, others))

    def count_ranges(self, tenant: TenantCluster, provider: str) -> int:
        """Return how many allocations have a range that may be in the load balancer `provider`."""
        return len(_select_of_balancer(self._list_with_range(tenant), provider))

    def _list_with_range(self, tenant: TenantCluster) -> list[IPAllocation]:
        """Return the load-balancer allocations that hold a range, of all clusters of this name."""
        return [
            allocation
            for allocation in self._allocations.list_by_index(
                TENANT_INDEX, str(tenant.metadata.key)
            )
            if allocation.spec.type == names.TYPE_LOADBALANCER
            and statusranges.find_held_range(allocation) is not None
        ]

    async def _make_owned_projection(
        self, tenant: TenantCluster, provider: str = ""
    ) -> Projection:
        """Return the projection for a tenant, with the note that names its owner.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        owner = make_owner_annotations(tenant, await self._tenants.read_management_identity())
        return replace(self.find_projection(tenant, provider), owner=owner)

    def list_projected(self, tenant: TenantCluster) -> list[str]:
        """Return the names of the load-balancer allocations whose ranges may be in the tenant."""
        if not tenant.projection_begun:
            return []  # nothing was ever projected
        return sorted(
            member.metadata.name for member in list_balancer_members(self._allocations, tenant)
        )

    def is_missing(self, tenant: TenantCluster, balancer_finding: ConditionFinding) -> bool:
        """Return whether the tenant does not serve the kinds of its balancer."""
        return balancer_finding.reason == self._kinds.find_chosen(tenant).missing_reason

    def is_unread(self, tenant: TenantCluster, balancer_finding: ConditionFinding) -> bool:
        """Return whether the tenant's balancer has not read its offers."""
        return balancer_finding.reason == self._kinds.find_chosen(tenant).not_reading_reason

    def stop_watching(self, key: Key) -> None:
        """Close the watches of a tenant that is gone, or to which no pass writes any more."""
        self._watches.close(key)

    def compute_check_delay(
        self, tenant: TenantCluster, balancer_finding: ConditionFinding, memory: ProjectionMemory
    ) -> float | None:
        """Return in how many seconds to check the balancer again; None for no such check.

        Args:
            balancer_finding: the condition LoadBalancerReady of this pass.
            memory: what is remembered of the projections into this tenant.
        """
        has_reached_balancer = (
            balancer_finding.status
            or balancer_finding.reason == CONTESTED
            or self.is_unread(tenant, balancer_finding)
        )
        if not has_reached_balancer:
            # The memory is of an earlier pass, and another check now would fail as well.
            return None
        return self._kinds.find_chosen(tenant).compute_check_delay(memory.balancer)

    def is_basis_low(self, tenant: TenantCluster) -> bool:
        """Return whether the basis of a projection is still below the mark of a range.

        Our own write has put the marked allocation into the cache, whose position is still older
        than that write. So the projection leaves the range out, but its basis does not prove that.
        The pass has to project again once the cache has read past the mark.
        """
        projection = self.find_projection(tenant)
        return projection.basis < projection.needed

    async def _record_projection_begun(self, current: CurrentCluster) -> None:
        """Annotate the cluster: its projection begins, and its tenant has this identity.

        The annotations are written before the projection. So a cluster that is deleted without
        them never had an address in its tenant, and its tenant is not asked. By the identity other
        TenantClusters find out that they lead to the same cluster.

        Raises:
            Conflict: the cluster changed since it was read.
            ControllerError: the management cluster did not answer.
        """
        annotations = self._make_identity_annotations(current.tenant)
        if not current.tenant.projection_noted:
            annotations[names.ANNOTATION_PROJECTION_BEGUN] = format_rfc3339(self._clock.now())
        await self._annotate(current, annotations)

    def _make_identity_annotations(self, tenant: TenantCluster) -> dict[str, str]:
        """Return the annotations of the identity of the tenant's cluster, if it is new.

        If another identity was noted before, the kubeconfig has moved to another cluster. The time
        of the move is noted, because ranges that were handed out before it may be in the earlier
        cluster.

        Returns:
            The annotations; empty if the identity is unknown, or noted already.
        """
        identity = self._tenants.find_identity(tenant)
        noted_identity = tenant.metadata.annotations.get(names.ANNOTATION_TENANT_IDENTITY)
        if not identity or noted_identity == identity:
            return {}
        annotations = {names.ANNOTATION_TENANT_IDENTITY: identity}
        if noted_identity:
            annotations[names.ANNOTATION_TENANT_MOVED] = format_rfc3339(self._clock.now())
        return annotations

    @staticmethod
    async def _annotate(current: CurrentCluster, annotations: dict[str, str]) -> None:
        """Annotate the cluster, if there are annotations to write."""
        if annotations:
            await current.annotate(annotations)

    async def note_possible_projection(self, current: CurrentCluster) -> None:
        """Note on a cluster that its projection has begun, if its tenant may already have ranges.

        The tenant may have ranges if the status shows a projection, or if the cluster is Ready and
        has ranges: another controller may have projected them before us. The note is written even
        if the tenant does not answer, because the ranges may be there.

        Raises:
            Conflict: the cluster changed since it was read.
            ControllerError: the management cluster did not answer.
        """
        tenant = current.tenant
        may_have_ranges = tenant.projection_begun or (
            tenant.is_ready and self.find_projection(tenant).entries
        )
        if may_have_ranges and not tenant.projection_noted:
            await self._record_projection_begun(current)

    def is_identified(self, tenant: TenantCluster) -> bool | None:
        """Return whether the identity of a tenant's cluster is known; None if it was not read yet.

        False if the kubeconfig's user may not read it.
        """
        identity = self._tenants.find_identity(tenant)
        return None if identity is None else bool(identity)

    async def project(
        self,
        current: CurrentCluster,
        memory: ProjectionMemory,
        *,
        begin: bool = False,
        provider: str = "",
    ) -> ConditionFinding:
        """Write a tenant's ranges into its balancer; return the LoadBalancerReady condition.

        The condition is True once the balancer holds the ranges. It is False, with the reason, in
        these cases: the tenant does not answer; the balancer is missing, or does not use its
        offers; an offer is another owner's; another replica has just written.

        Args:
            memory: what is remembered of the projections into this tenant.
            begin: allow the first projection; record it on the TenantCluster beforehand.
            provider: the load balancer; empty for the one that the cluster names. Any other load
                balancer loses all ranges.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        tenant = current.tenant
        kind = self._kinds.find_kind(provider or tenant.load_balancer_provider)
        title = kind.title
        projection = await self._make_owned_projection(tenant, provider)
        try:
            # Without ranges no projection begins: a tenant that never has ranges is never asked.
            begin = begin and bool(projection.entries)
            await self._write(current, kind, projection=projection, memory=memory, begin=begin)
            memory.lost_history = None
            self._log_available(tenant)
        except TenantUnavailable as error:
            self._log_unavailable(tenant, error)
            return make_tenant_unavailable(tenant, error)
        except BalancerBlocked as blocked:
            return make_load_balancer_ready(False, blocked.reason, blocked.message)
        except Conflict:
            # Another replica wrote the pool between our read and our write.
            return make_load_balancer_ready(
                False, BEHIND, f"the tenant's {title} pool just changed"
            )
        except _ManagementError as failed:
            # Not `from failed`: `failed` is raised from this error, and causes must not form a
            # ring.
            raise failed.error from failed.error.__cause__
        finally:
            # Also after a failure: some edits may have been corrected before it.
            self._corrections.report(tenant, kind.take_corrections(memory.balancer))
        if not projection.entries:
            return make_load_balancer_ready(True, "Ready", "the tenant has no load-balancer IPs")
        return make_load_balancer_ready(
            True, "Ready", f"{title} holds {', '.join(projection.entries)}"
        )

    def _log_unavailable(self, tenant: TenantCluster, error: TenantUnavailable) -> None:
        """Log why a tenant cannot be written to, as a warning if that is new."""
        # A Secret that is absent is usual while a cluster is being built, so it is no warning.
        is_new = not error.absent and self._state_log.begin(
            tenant.metadata.key, _UNAVAILABLE, error.message
        )
        log = _log.warning if is_new else _log.debug
        log("cannot get tenant client, skipping", error=error.message)

    def _log_available(self, tenant: TenantCluster) -> None:
        """Log that a tenant can be written to again."""
        error = self._state_log.end(tenant.metadata.key, _UNAVAILABLE)
        if error is not None:
            _log.info("the tenant's client works again", error=error)

    async def overwrite_lost_history(
        self, tenant: TenantCluster, memory: ProjectionMemory, provider: str = ""
    ) -> None:
        """Overwrite a tenant's offers whose basis is of a lost history.

        Without this, a restored management cluster would have to wait until its resourceVersions
        reach the basis in its tenants. A live LIST with a revision below the basis proves a lost
        history. The LIST is made after the pool has been ahead of us for a while, and then ever
        less often. Nothing is written unless the LIST and the cache give the same ranges.

        The offers are read before the LIST, and written at the versions that were read then. An
        offer that another replica has written since then is of the present history.

        Args:
            memory: what is remembered of the projections into this tenant.
            provider: the load balancer; empty for the one that the cluster names.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        chosen = provider or tenant.load_balancer_provider
        kind = self._kinds.find_kind(chosen)
        now = self._clock.monotonic()
        if memory.lost_history is None:
            memory.lost_history = LostHistoryCheck(now + HISTORY_SECONDS, HISTORY_SECONDS)
        if now < memory.lost_history.due:
            return  # a LIST of all allocations is costly, so not every pass makes one
        pause = min(2 * memory.lost_history.pause, LONGEST_PAUSE)
        memory.lost_history = LostHistoryCheck(now + pause, pause)
        try:
            async with self._tenants.open_client(tenant) as client:
                before_list = await kind.make_balancer(client, memory.balancer).read_targets()
        except (TenantUnavailable, BalancerBlocked):
            return  # the projection reports it; the next check is due after the pause
        page = await self._client.list(IP_ALLOCATION)
        lost_versions = {
            (offer.metadata.uid, offer.metadata.resourceVersion)
            for offer in before_list.targets.values()
            if offer.basis > page.revision
        }
        if not lost_versions:
            return  # all offers are of the present history: another replica is ahead of us

        async def permit(offer: Offer) -> None:
            """Raise unless the offer is unchanged since the read before the LIST, and our own."""
            if (offer.metadata.uid, offer.metadata.resourceVersion) not in lost_versions:
                raise Conflict(409, "Conflict", f"{offer.kind} {offer.name} was just written")
            await self._ownership.require(tenant, offer)

        key = tenant.metadata.key
        members_listed = [
            allocation
            for allocation in page.items
            if allocation.spec.tenantClusterRef.key == key and not is_foreign(allocation, tenant)
        ]
        projection = await self._make_owned_projection(tenant, chosen)
        # A load balancer that the spec does not name should hold no range.
        is_of_spec = chosen == tenant.load_balancer_provider
        expected_allocations = _select_of_balancer(members_listed, chosen) if is_of_spec else []
        confirmed = make_projection(expected_allocations, projection.basis)
        if page.unreadable or confirmed.entries != projection.entries:
            return  # the cache is behind the LIST, or an unreadable allocation may have a range
        try:
            async with self._tenants.open_client(tenant) as client:
                balancer = kind.make_balancer(client, memory.balancer)
                overwritten = await balancer.overwrite(projection, page.revision, permit)
            if overwritten is None:
                return  # the offers were corrected or deleted meanwhile
            _log.warning(
                "the tenant's pool was newer than the restored cluster; it was rewritten",
                tenant=str(key),
                basis=overwritten.basis,
                revision=page.revision,
                before=list(overwritten.entries),
                after=list(projection.entries),
            )
            self._state_log.end(key, _REWRITE)
        except (TenantUnavailable, BalancerBlocked, Conflict) as error:
            log = _log.info if self._state_log.begin(key, _REWRITE, str(error)) else _log.debug
            log("cannot rewrite the tenant's pool", error=str(error))

    async def remove(self, tenant: TenantCluster) -> None:
        """Remove our remaining objects from a tenant that has released all of its ranges.

        The objects of all load balancers are removed, because the tenant may have had another one
        before. A failure of the tenant is logged, not raised: the objects hand out nothing, and
        must not keep the cluster from being deleted.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        if not tenant.projection_begun:
            return  # nothing of ours was ever written there
        chosen = self._kinds.find_chosen(tenant)
        for kind in self._kinds:
            try:
                await self._remove(tenant, kind)
            except BalancerBlocked as missing:
                # That a tenant lacks the kinds of another load balancer is usual.
                if kind is chosen:
                    self._log_remaining(tenant, missing)
            except (TenantUnavailable, Conflict) as error:
                self._log_remaining(tenant, error)

    async def remove_other(self, tenant: TenantCluster, provider: str) -> bool:
        """Remove our objects of one load balancer, which has no range any more.

        Returns:
            Whether no offer of ours is left.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        try:
            return await self._remove(tenant, self._kinds.find_kind(provider))
        except BalancerBlocked:
            return True  # its kinds are not served, so there are no objects
        except (TenantUnavailable, Conflict) as error:
            self._log_remaining(tenant, error)
            return False

    async def find_interference(self, tenant: TenantCluster, provider: str) -> str:
        """Return why a load balancer takes addresses from Services though it has no pool.

        Returns:
            The cause as a sentence; empty if it takes none. If the tenant does not answer, the
            sentence says so: the caller has to wait in that case, too.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        try:
            async with self._tenants.open_client(tenant) as client:
                kind = self._kinds.find_kind(provider)
                # An empty memory, because this reads the tenant and remembers nothing.
                balancer = kind.make_balancer(client, BalancerMemory())
                return await balancer.find_interference()
        except TenantUnavailable as error:
            return error.message

    async def _remove(self, tenant: TenantCluster, kind: LoadBalancerKind) -> bool:
        """Remove our objects of one load balancer; return whether no offer of ours is left."""
        management = await self._tenants.read_management_identity()
        async with self._tenants.open_client(tenant) as client:
            # An empty memory, because this is no projection, and remembers nothing.
            balancer = kind.make_balancer(client, BalancerMemory())
            await balancer.remove(management, self.is_being_released)
            reading = await balancer.read_targets()
        return not any(
            offer.is_made_by_us and not is_of_other_management(offer, management)
            for offer in reading.targets.values()
        )

    def is_being_released(self, uid: str) -> bool:
        """Return whether the allocation with this uid exists and is being released.

        Its release may still read and edit its load-balancer objects in the tenant, so they stay.
        """
        return any(
            allocation.metadata.uid == uid and allocation.releasing
            for allocation in self._allocations
        )

    async def find_missing(self, tenant: TenantCluster) -> ConditionFinding | None:
        """Return condition LoadBalancerReady if the tenant lacks the load balancer of its spec.

        Returns:
            The condition if the tenant lacks the load balancer, or does not answer; None if it
            serves the kinds of the load balancer.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        kind = self._kinds.find_chosen(tenant)
        try:
            async with self._tenants.open_client(tenant) as client:
                # An empty memory, because this reads the tenant and remembers nothing.
                reading = await kind.make_balancer(client, BalancerMemory()).read_targets()
            reading.require_backend_kinds(kind.missing_reason)
        except TenantUnavailable as error:
            return make_tenant_unavailable(tenant, error)
        except BalancerBlocked as blocked:
            return make_load_balancer_ready(False, blocked.reason, blocked.message)
        return None

    def _log_remaining(self, tenant: TenantCluster, error: Exception) -> None:
        """Log why objects of ours remain in the tenant; a repeated reason only at debug level."""
        is_new = self._state_log.begin(tenant.metadata.key, _REMOVAL, str(error))
        log = _log.info if is_new else _log.debug
        log("cannot remove what is left in the tenant", error=str(error))

    async def _write(
        self,
        current: CurrentCluster,
        kind: LoadBalancerKind,
        projection: Projection,
        memory: ProjectionMemory,
        *,
        begin: bool,
    ) -> None:
        """Write to the tenant; after a 401 once more, with credentials from a new read.

        The arguments are those of `_write_once`.
        """
        try:
            await self._write_once(
                current, kind, projection=projection, memory=memory, begin=begin
            )
        except TenantUnavailable as error:
            if error.reason != UNAUTHORIZED:
                raise
            # The credentials may have been rotated. The failed client is closed, so this try reads
            # the kubeconfig Secret again.
            await self._write_once(
                current, kind, projection=projection, memory=memory, begin=begin
            )

    async def _write_once(
        self,
        current: CurrentCluster,
        kind: LoadBalancerKind,
        projection: Projection,
        memory: ProjectionMemory,
        *,
        begin: bool,
    ) -> None:
        """Write the projection to a tenant's balancer; check that the balancer uses its offers.

        Args:
            current: the cluster; its annotations are written if the projection begins.
            kind: the load balancer, which may be one that the spec no longer names.
            projection: the ranges that the load balancer should hold.
            memory: what is remembered of the projections into this tenant.
            begin: whether this may be the first projection, which is then recorded.

        Raises:
            BalancerBlocked: the offers could not be written, or the balancer does not use them.
        """
        tenant = current.tenant
        async with self._tenants.open_client(tenant) as client:
            is_chosen = kind is self._kinds.find_chosen(tenant)
            # Objects of a load balancer that the tenant leaves are not watched.
            watched = self._watches.choose_watched(tenant) if is_chosen else None
            balancer = kind.make_balancer(client, memory.balancer, watched)
            if begin:
                await self._begin(current, balancer)
            # The balancer calls the first function before it fills a new offer, because the cache
            # may be behind. It calls the second one before it writes an offer that exists.
            await balancer.project(
                projection,
                lambda: self._project_live(tenant),
                lambda offer: self._permit(tenant, offer),
            )
            health = await balancer.read_health(projection)
        if not self._counts_as_running(tenant, health):
            raise BalancerBlocked(health.reason, health.message)

    def _counts_as_running(self, tenant: TenantCluster, health: Health) -> bool:
        """Return whether a balancer runs, or is believed to be about to read its offers.

        A balancer that was ready needs a moment to read an offer that was just written. Without
        this belief, the condition would be False for a moment after each write.
        """
        if health.state is not HealthState.NOT_READING:
            return health.state is HealthState.RUNNING
        is_moment_over = self._clock.monotonic() - health.since >= READING_GRACE_SECONDS
        return not is_moment_over and is_true(tenant.status.conditions, LOAD_BALANCER_READY)

    async def _begin(self, current: CurrentCluster, balancer: LoadBalancer) -> None:
        """Record that a projection begins; before the first one, check that it may begin.

        If the first projection may not begin, nothing was ever written to the tenant. Then the
        beginning is not noted, so that the tenant is not asked when the cluster is deleted. Only
        the identity of its cluster is noted.

        Raises:
            BalancerBlocked: the first projection may not begin.
        """
        tenant = current.tenant
        try:
            if not tenant.projection_begun:
                await self._require_writable(tenant, balancer)
        except BalancerBlocked:
            with _wrap_management_errors():
                await self._annotate(current, self._make_identity_annotations(tenant))
            raise
        with _wrap_management_errors():
            await self._record_projection_begun(current)

    async def _require_writable(self, tenant: TenantCluster, balancer: LoadBalancer) -> None:
        """Raise BalancerBlocked if the balancer is missing, or its offers must not be written."""
        reading = await balancer.read_targets()
        reading.require_backend_kinds(self._kinds.find_chosen(tenant).missing_reason)
        for offer in reading.targets.values():
            await self._permit(tenant, offer)

    async def _permit(self, tenant: TenantCluster, offer: Offer) -> None:
        """Raise BalancerBlocked if the tenant must not write an existing offer."""
        with _wrap_management_errors():
            await self._ownership.require(tenant, offer)

    async def _project_live(self, tenant: TenantCluster) -> Projection:
        """Return the projection for a tenant, with each of its allocations read live.

        The allocations are read one by one, because a tenant has few: a LIST would return the
        allocations of all tenants. An allocation that is deleted meanwhile is left out.
        """
        live = []
        for cached in list_balancer_members(self._allocations, tenant):
            with _wrap_management_errors(), suppress(NotFound):
                live.append(await self._client.get(IP_ALLOCATION, cached.metadata.key))
        live_members = [a for a in live if not is_foreign(a, tenant)]
        allocations = _select_of_balancer(live_members, tenant.load_balancer_provider)
        return make_projection(allocations, self._allocations.position)


def _select_of_balancer(allocations: Iterable[IPAllocation], provider: str) -> list[IPAllocation]:
    """Return the allocations whose ranges may be in the load balancer `provider`."""
    return [allocation for allocation in allocations if allocation.load_balancer == provider]


def is_behind(balancer_finding: ConditionFinding) -> bool:
    """Return whether another replica has written a newer state of the tenant's pool."""
    return balancer_finding.reason == BEHIND
