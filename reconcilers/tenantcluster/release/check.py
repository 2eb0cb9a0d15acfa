"""Checks whether a tenant has released a range, before the range counts as free again.

An allocation is *marked* when its release begins: by its deletion, or by an annotation. The *mark*
is the resourceVersion of that write. An answer is `Released`, or `InUse` with the reason to wait.

The *grace* is the longest time that the tenant of a deleted cluster can hold up a release. A
cluster *vanished* if it is gone while allocations of it exist (teardown.py).
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import product

from typing_extensions import override

from allocator import AddressRange
from controller.client import Client
from controller.clock import Clock
from controller.conditions import find_condition
from controller.errors import Conflict, MalformedAnswer, NotFound
from controller.events import Recorder
from controller.loggers import get_logger
from controller.meta import Key
from reconcilers.addressing import addresstexts, poolgeometry, requestedranges, statusranges
from reconcilers.api import names
from reconcilers.api.ipallocation import POOL_INDEX, TENANT_INDEX, IPAllocation
from reconcilers.api.resources import IP_ALLOCATION, NAMESPACE, TENANT_CLUSTER
from reconcilers.api.services import SERVICE, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.managementcaches import Caches
from reconcilers.clusteraccess.tenantclients import FIRST_PAUSE, LONGEST_PAUSE, TenantClients
from reconcilers.clusteraccess.tenantfailures import TenantUnavailable
from reconcilers.configuration.settings import TenantSettings
from reconcilers.ipallocation.release import InUse, ReleaseCheck, Released
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.ownernotes import make_owner_annotations
from reconcilers.loadbalancers.port import (
    AllocationName,
    BalancerMemory,
    LoadBalancerKind,
    NotYet,
    Offer,
    Proven,
    ServiceViewer,
    Withdrawal,
    WithdrawalAnswer,
)
from reconcilers.networkpool.owners import read_noted_uid
from reconcilers.networkpool.unreadable import find_unreadable_names
from reconcilers.reporting.conditions import READY
from reconcilers.tenantcluster.allocations.annotations import annotate
from reconcilers.tenantcluster.allocations.membership import is_foreign
from reconcilers.tenantcluster.elastic.demand import ReadingTurns, read_addresses
from reconcilers.tenantcluster.ownership.identity import IS_MANAGEMENT
from reconcilers.tenantcluster.ownership.pools import SHARED
from reconcilers.tenantcluster.record.gate import AllocationMemory, BoundedWait, SecretReads
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.creationnote import AllocationCreationNote
from reconcilers.tenantcluster.release.lost_addresses import find_service_in_need
from reconcilers.tenantcluster.release.releasenotes import note_for_release, read_release_note
from reconcilers.tenantcluster.release.teardown import VanishedClusters

Ranges = Sequence[AddressRange]
"""The ranges that an allocation holds: one, or one of each family."""
NEVER_PROJECTED = "nothing was ever projected into the tenant"
ELSEWHERE = (
    "the kubeconfig led to another cluster when the range was handed out, which may still have it"
)

_log = get_logger(__name__)


class TenantReleaseCheck(ReleaseCheck):
    """Reads the tenant's pool and Services, unless that is not needed.

    Args:
        client: the management cluster.
        caches: its objects.
        vanished: TenantClusters that are gone.
        records: what is remembered of each TenantCluster.
        kinds: the load balancers that tenants may have.
        recorder: takes an event when addresses are released without the tenant's answer.
        clock: the time.
        settings: has the grace.
    """

    def __init__(  # noqa: PLR0913 - what it reads; the wiring is the one caller
        self,
        client: Client,
        caches: Caches,
        vanished: VanishedClusters,
        records: TenantRecords,
        tenants: TenantClients,
        *,
        kinds: LoadBalancerKinds,
        recorder: Recorder,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._pools = caches.pools
        self._clusters = caches.clusters
        self._allocations = caches.allocations
        self._vanished = vanished
        self._records = records
        self._tenants = tenants
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._kinds = kinds

    @override
    async def check(self, allocation: IPAllocation, mark: int) -> Released | InUse:
        """Return whether the allocation's ranges are released.

        Before load-balancer ranges count as released, their TenantCluster, if it exists, is read
        live once more. If it has changed since it was judged, the ranges count as in use.
        """
        if allocation.spec.type == names.TYPE_NODES:
            return await self._check_nodes(allocation)
        present = await self._find_owner(allocation)
        answer = await self._check_balancer(allocation, mark, present)
        if isinstance(answer, Released) and present is not None and await self._is_stale(present):
            # The tenant's answer was about another state of the cluster, so it does not count.
            return InUse(f"TenantCluster {present.metadata.key} has just changed", is_fresh=False)
        return answer

    async def _is_stale(self, judged: TenantCluster) -> bool:
        """Return whether a live read differs from `judged` in a part that decides about a release.

        The cache of a process that was frozen may lack what another process noted on the cluster:
        that its projection began, or which cluster its kubeconfig led to.
        """
        live = await self._client.find(TENANT_CLUSTER, judged.metadata.key)
        return live is None or _select_judged_parts(live) != _select_judged_parts(judged)

    async def _check_balancer(
        self, allocation: IPAllocation, mark: int, present: TenantCluster | None
    ) -> Released | InUse:
        """Return whether load-balancer ranges are released.

        Args:
            allocation: the allocation that holds the ranges.
            mark: the resourceVersion at which the allocation was marked.
            present: the cluster that has the name of the allocation's TenantCluster, which may be
                a later one; None if there is none.
        """
        if present is None or is_foreign(allocation, present):
            return await self._check_vanished(allocation, mark, present)
        if names.ANNOTATION_RELEASE_ANYWAY in present.metadata.annotations:
            return _make_released_anyway()  # a person has taken the decision
        if not present.metadata.is_terminating:
            # No grace: the Services of a cluster that stays may use the range for ever.
            return await self._check_tenant(present, allocation, mark)
        if not present.projection_begun:
            return Released(NEVER_PROJECTED)
        return await self._check_until_grace(present, allocation, mark)

    def _get_memory(self, allocation: IPAllocation) -> AllocationMemory:
        """Return the memory of an allocation, from the record of its cluster.

        The uid that the allocation notes decides which cluster that is, even if a later cluster
        has the name. Without a noted uid it is the present cluster.
        """
        key = allocation.spec.tenantClusterRef.key
        uid = read_noted_uid(allocation)
        cached = self._clusters.get(key)
        if not uid and cached is not None:
            uid = cached.metadata.uid
        gate = self._records.get_or_create_by_uid(key, uid).gate
        return gate.get_or_create(allocation.metadata.uid, self._clock.monotonic())

    async def _check_nodes(self, allocation: IPAllocation) -> Released | InUse:
        """Return whether node addresses are released.

        Machines have their addresses for as long as their cluster exists. A range can change to
        another allocation of that cluster, its successor.
        """
        present = await self._find_owner(allocation)
        if present is None or is_foreign(allocation, present):
            return Released("its TenantCluster is gone")
        if names.ANNOTATION_RELEASE_ANYWAY in present.metadata.annotations:
            return _make_released_anyway()
        # A cluster that is being deleted requests nothing, so it has no successor.
        if not present.metadata.is_terminating and await self._has_successor(allocation):
            return Released("another allocation of the cluster gets the range next")
        key = present.metadata.key
        return InUse(f"its machines may use the addresses until TenantCluster {key} is gone")

    async def _has_successor(self, deleted: IPAllocation) -> bool:
        """Return whether the range goes to another allocation of the cluster next.

        A live read of that allocation decides. Its pool must have reported a conflict for it, and
        the deleted allocation must be the only obstacle.
        """
        owner = str(deleted.spec.tenantClusterRef.key)
        successor_key = next(
            (
                allocation.metadata.key
                for allocation in self._allocations.list_by_index(TENANT_INDEX, owner)
                if _is_successor(allocation, deleted)
            ),
            None,
        )
        if successor_key is None:
            return False
        # Checked second, because this goes through all allocations of the pool.
        if not self._is_servable(deleted):
            return False
        try:
            return _is_successor(await self._client.get(IP_ALLOCATION, successor_key), deleted)
        except NotFound:
            return False

    def _is_servable(self, deleted: IPAllocation) -> bool:
        """Return whether only the deleted allocation keeps its pool from handing out the range.

        The blocks of the pool are not checked: the pool has reported a conflict for the range.
        """
        pool, spans = self._pools.get(deleted.pool_key), statusranges.list_held_ranges(deleted)
        if pool is None or pool.metadata.is_terminating or not spans:
            return False  # there is no pool that hands out anything, or no range
        # A pool hands out nothing while it is unreadable, or while an allocation that may belong
        # to it is unreadable.
        if deleted.pool_key in self._pools.unreadable:
            return False
        if find_unreadable_names(self._allocations.unreadable, deleted.pool_key):
            return False
        reserved_spans = (
            addresstexts.parse_cidr_or_span(reservation.cidr)
            for block in pool.spec.blocks
            for reservation in poolgeometry.list_reservations(block)
        )
        spans_of_others = (
            span
            for allocation in self._allocations.list_by_index(POOL_INDEX, str(deleted.pool_key))
            if allocation.metadata.uid != deleted.metadata.uid
            for span in statusranges.list_held_ranges(allocation)
        )
        obstacles = (span for span in (*reserved_spans, *spans_of_others) if span is not None)
        return not any(obstacle.overlaps(span) for obstacle, span in product(obstacles, spans))

    async def _check_vanished(
        self, allocation: IPAllocation, mark: int, present: TenantCluster | None
    ) -> Released | InUse:
        """Return whether the ranges of a vanished cluster are released.

        Args:
            present: a later cluster of that name; None if there is none.
        """
        vanished = self._vanished.find_owner(allocation)
        if vanished is None:
            # The allocation notes no owner, so no tenant is known that could be asked.
            return Released("its TenantCluster is gone")
        if names.ANNOTATION_RELEASE_ANYWAY in vanished.metadata.annotations:
            return _make_released_anyway()
        # If a later cluster has that name, its kubeconfig leads to the tenant that may have the
        # range now.
        return await self._check_until_grace(present or vanished, allocation, mark)

    async def _find_owner(self, allocation: IPAllocation) -> TenantCluster | None:
        """Return the TenantCluster that the allocation names; None if a live read finds none.

        The live read may return a later cluster of that name.

        Raises:
            MalformedAnswer: TenantClusters are not served, so nothing is known.
            ControllerError: the management cluster did not answer.
        """
        key = allocation.spec.tenantClusterRef.key
        cached = self._clusters.get(key)
        if cached is not None and not is_foreign(allocation, cached):
            return cached
        # The cache may be behind, and a release must not rely on its gap.
        try:
            return await self._client.get(TENANT_CLUSTER, key)
        except NotFound as missing:
            if missing.reason != "NotFound":
                raise MalformedAnswer(f"TenantCluster {key}: {missing}") from missing
            return None

    async def _check_until_grace(
        self, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> Released | InUse:
        """Check the tenant of a deleted or gone cluster, but release after the grace anyway.

        The grace also ends the wait for a tenant that answers: an administrator there could keep
        the addresses for ever by a Service or a pool.
        """
        if await self._is_secret_gone(tenant):
            return Released("the tenant's kubeconfig Secret, or its namespace, is gone")
        answer = await self._check_tenant(tenant, allocation, mark)
        now, memory = self._clock.monotonic(), self._get_memory(allocation)
        if isinstance(answer, Released):
            memory.held_since = None
            return answer
        if memory.held_since is None:
            memory.held_since = now
        waited = now - memory.held_since
        if waited < self._settings.teardown_grace:
            return answer
        self._recorder.record(
            TENANT_CLUSTER,
            tenant,
            "Warning",
            "TeardownGracePassed",
            f"Releasing {allocation.metadata.name} without confirmation: {answer.why}",
            action="Release",
        )
        return Released(f"the tenant did not confirm it within {waited:.0f} s: {answer.why}")

    async def _is_secret_gone(self, tenant: TenantCluster) -> bool:
        """Return whether a live read shows that the tenant has no kubeconfig any more.

        After each read that finds the Secret, the pause before the next read doubles. During the
        pause the answer is False.
        """
        gate, now = self._records.get_or_create(tenant).gate, self._clock.monotonic()
        reads = gate.secret_reads or SecretReads(0, now)
        if now < reads.due:
            return False
        if await self._is_absent_live(tenant):
            gate.secret_reads = None
            return True
        # The exponent is bounded, so that the power stays small after many reads.
        pause = min(FIRST_PAUSE * 2 ** min(reads.times, 10), LONGEST_PAUSE)
        gate.secret_reads = SecretReads(reads.times + 1, now + pause)
        return False

    async def _is_absent_live(self, tenant: TenantCluster) -> bool:
        """Return whether live reads show no namespace or no kubeconfig Secret of the tenant."""
        try:
            if tenant.status.tenantNamespace:
                await self._client.get(NAMESPACE, Key("", tenant.status.tenantNamespace))
            await self._tenants.read_kubeconfig(tenant)
        except NotFound as missing:
            # A 404 with another reason says that the kind is not served.
            return missing.reason == "NotFound"
        except TenantUnavailable as error:
            return error.absent  # False if the Secret exists and is unusable
        return False

    async def _check_tenant(
        self, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> Released | InUse:
        """Return whether live reads of the tenant show that the ranges are released.

        A failure of the tenant becomes an InUse with the reason. Without a range, or if nothing
        was ever projected, the tenant does not have to answer.

        Raises:
            ControllerError: the management cluster did not answer.
        """
        ranges = statusranges.list_held_ranges(allocation)
        if not ranges:
            return Released("it holds no range")
        try:
            try:
                return await self._ask_tenant(tenant, allocation, ranges=ranges, mark=mark)
            except TenantUnavailable as error:
                if error.reason != SHARED:
                    raise
                # Another TenantCluster goes first there, so this one is not admitted.
                return await self._check_shared(tenant, allocation, ranges=ranges, mark=mark)
        except TenantUnavailable as error:
            if error.reason == IS_MANAGEMENT and not tenant.projection_begun:
                # Nothing is ever written there, and nothing was written elsewhere before.
                return Released(NEVER_PROJECTED)
            why = f"the tenant cannot be asked: {error.message}"
            # With `failed_at`, the error is the remembered one of an earlier request.
            return InUse(why, is_fresh=error.failed_at is None)
        except Conflict:
            # A projection, or another check, wrote between our read and our write.
            title = self._find_balancer(tenant, allocation).title
            return InUse(f"{title}'s pools in the tenant have just changed")

    async def _check_shared(
        self,
        tenant: TenantCluster,
        allocation: IPAllocation,
        ranges: Ranges,
        mark: int,
    ) -> Released | InUse:
        """Check a tenant to which another TenantCluster leads, too, and goes first.

        Nothing is projected there for this cluster any more. Ranges that were projected before
        leave with the next projection of the other cluster.
        """
        if not tenant.projection_begun:
            return Released(NEVER_PROJECTED)
        # The guard admits only the TenantCluster that goes first. This check only reads, so it is
        # made without the guard.
        return await self._ask_tenant(tenant, allocation, ranges=ranges, mark=mark, guarded=False)

    async def _ask_tenant(
        self,
        tenant: TenantCluster,
        allocation: IPAllocation,
        ranges: Ranges,
        mark: int,
        *,
        guarded: bool = True,
    ) -> Released | InUse:
        """Inspect the cluster that the kubeconfig leads to.

        If another cluster may have the range, because the kubeconfig has moved, return InUse.

        Args:
            guarded: whether the guard (ownership/identity.py) has to admit the cluster as the
                tenant's own, as it has to before writes.
        """
        async with self._tenants.open_client(tenant, guarded=guarded) as client:
            if self._has_moved(tenant) or _was_elsewhere(tenant, allocation):
                return InUse(ELSEWHERE)
            kind = self._find_balancer(tenant, allocation)
            return await self._inspect(
                client, kind, tenant=tenant, allocation=allocation, ranges=ranges, mark=mark
            )

    def _find_balancer(self, tenant: TenantCluster, allocation: IPAllocation) -> LoadBalancerKind:
        """Return the load balancer that may have the range of an allocation.

        It is the load balancer that the allocation notes. An exception is a cluster whose spec
        names a load balancer that this release does not know. Then that unknown one is returned.
        It never proves a release, so the range stays.
        """
        chosen = tenant.load_balancer_provider
        provider = allocation.load_balancer if self._kinds.is_known(chosen) else chosen
        return self._kinds.find_kind(provider)

    def _has_moved(self, tenant: TenantCluster) -> bool:
        """Return whether the kubeconfig leads to another cluster than the last projection went to.

        The last projection noted the identity of its cluster on the TenantCluster. If either
        identity is unknown, the cluster counts as the same.
        """
        projected_to = tenant.metadata.annotations.get(names.ANNOTATION_TENANT_IDENTITY)
        leads_to = self._tenants.find_identity(tenant)
        if not projected_to or not leads_to:
            return False
        return projected_to != leads_to

    async def _inspect(
        self,
        client: Client,
        kind: LoadBalancerKind,
        tenant: TenantCluster,
        allocation: IPAllocation,
        ranges: Ranges,
        mark: int,
    ) -> Released | InUse:
        """Return whether the tenant's offers and Services show that the ranges are released.

        Offers are read before Services. In the other order a Service could take an address between
        the two reads, and the range could leave the offers before the second one.

        Args:
            client: of the tenant.
            kind: the load balancer that may have the ranges.
            tenant: says which of its Services the load balancer serves.
            allocation: the allocation that holds the ranges.
            ranges: the allocation's ranges; they are released together.
            mark: the resourceVersion at which the allocation was marked.
        """
        memory = self._get_memory(allocation)
        view_service = kind.make_service_viewer(tenant)
        balancer = kind.make_balancer(client, memory.balancer)
        reading = await balancer.read()
        management = await self._tenants.read_management_identity()
        services = await _list_services(client)
        await note_for_release(
            self._client, [allocation], services=services, view_service=view_service
        )
        user = await _find_user(services, ranges, view_service)
        if user is not None:
            reason = f"Service {user.metadata.key} still shows an address of the range"
            return InUse(reason, by_service=True)
        if allocation.is_marked:
            # Only shrink sets this mark, and its range can still be given back to a Service.
            service = await find_service_in_need(
                services,
                ranges,
                mark=allocation.metadata.annotations[names.ANNOTATION_RELEASING],
                earlier=memory.earlier_waits,
                offers=reading.targets.values(),
                view_service=view_service,
            )
            if service is not None:
                return InUse(f"Service {service.metadata.key} needs the range", by_service=True)
        withdrawal = Withdrawal(
            allocation=AllocationName(allocation.metadata.name, allocation.metadata.uid),
            spans=ranges,
            mark=mark,
            # The cache may be older than the mark, if our own write has put the mark into it.
            position=max(mark, self._allocations.position),
            owner=make_owner_annotations(allocation, management),
            note=AllocationCreationNote(
                self._client, allocation, creations=memory.creations, clock=self._clock
            ),
            release_note=read_release_note(allocation),
        )
        answer = await balancer.prove_withdrawal(reading, withdrawal)
        verdict = self._judge(answer, kind, mark=mark, wait=memory.wait)
        if not isinstance(verdict, Released):
            return verdict
        # The proof is about one load balancer. Another one of the tenant may offer the range, too.
        other_use = await self._find_other_offer(
            client, kind, allocation=allocation, ranges=ranges
        )
        return other_use or verdict

    async def _find_other_offer(
        self,
        client: Client,
        proven_kind: LoadBalancerKind,
        allocation: IPAllocation,
        ranges: Ranges,
    ) -> InUse | None:
        """Look for the ranges in our offers of other load balancers; correct the note if found.

        A restored backup, or a person, may have lost the allocation's note of its load balancer.
        With the corrected note, the next check asks the load balancer that offers the range.

        Args:
            proven_kind: the load balancer that has proven the release.

        Returns:
            An InUse that names the offer; None if there is no such offer.
        """
        for provider, kind in self._kinds.items():
            if kind is proven_kind:
                continue  # its offers were read for the proof
            # An empty memory, because this reads the tenant and remembers nothing.
            reading = await kind.make_balancer(client, BalancerMemory()).read_targets()
            for offer in reading.targets.values():
                if not offer.is_made_by_us or not _has_any(offer, ranges):
                    continue
                note = {names.ANNOTATION_LOAD_BALANCER: provider}
                await annotate(self._client, allocation, note)
                return InUse(f"{kind.title} has the range, too: {offer.kind} {offer.name}")
        return None

    def _judge(
        self, answer: WithdrawalAnswer, kind: LoadBalancerKind, mark: int, wait: BoundedWait
    ) -> Released | InUse:
        """Return whether the range is released, by the answer of the balancer.

        Proven releases the range, and NotYet does not. Unprovable releases it after the bounded
        wait of `kind`; NotYet ends such a wait.

        Args:
            answer: the balancer's answer.
            mark: the resourceVersion at which the allocation was marked.
            wait: the bounded wait of the allocation, which an answer Unprovable starts.
        """
        if isinstance(answer, Proven):
            return Released(answer.how)
        if isinstance(answer, NotYet):
            # The balancer may hand out the range after all, so the time waited so far is void.
            wait.clear()
            return InUse(answer.why, by_service=answer.is_used)
        seconds, now = kind.wait, self._clock.monotonic()
        if wait.start_or_check((mark, *answer.version), seconds, now):
            return Released(answer.then)
        return InUse(f"giving {kind.title} {seconds:g} s {answer.purpose}")


def _select_judged_parts(cluster: TenantCluster) -> object:
    """Return the parts of a cluster that decide about a release, for a comparison."""
    meta = cluster.metadata
    namespace = cluster.status.tenantNamespace
    return (meta.uid, meta.is_terminating, dict(meta.annotations), cluster.spec, namespace)


def _has_any(offer: Offer, ranges: Ranges) -> bool:
    """Return whether an offer has an address of the ranges."""
    spans = map(addresstexts.parse_cidr_or_span, offer.entries)
    return any(
        span is not None and span.overlaps(own_range) for span in spans for own_range in ranges
    )


async def _find_user(
    services: Sequence[Service], ranges: Ranges, view_service: ServiceViewer
) -> Service | None:
    """Return a Service that shows an address of the ranges and keeps them; None if none does."""
    turns = ReadingTurns()
    for service in services:
        pairs = product(ranges, await read_addresses(service, turns))
        is_user = any(span.contains(address) for span, address in pairs)
        if is_user and view_service(service).keeps_range:
            return service
    return None


async def _list_services(client: Client) -> Sequence[Service]:
    """Return all Services of a tenant, read live.

    Raises:
        MalformedAnswer: a Service cannot be read, and may show an address of the range.
    """
    page = await client.list(SERVICE)
    if page.unreadable:
        raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
    return page.items


def _is_successor(allocation: IPAllocation, deleted: IPAllocation) -> bool:
    """Return whether an allocation was created for the range of a deleted one, and waits for it.

    The reason of its condition shows that its pool has seen the request and refused it for now.
    """
    meta = allocation.metadata
    ready = find_condition(allocation.status.conditions, READY)
    return (
        meta.annotations.get(names.ANNOTATION_REPLACES) == deleted.metadata.uid
        and not meta.is_terminating
        and allocation.spec.is_pinned
        and set(requestedranges.parse_pins(allocation))
        == set(statusranges.list_held_ranges(deleted))
        and ready is not None
        and ready.reason == "PinnedRangeConflict"
    )


def _was_elsewhere(tenant: TenantCluster, allocation: IPAllocation) -> bool:
    """Return whether the kubeconfig led to another cluster after the allocation was created.

    Then that other cluster may have the range.
    """
    moved_at = tenant.metadata.annotations.get(names.ANNOTATION_TENANT_MOVED)
    if moved_at is None:
        return False
    created = allocation.metadata.creationTimestamp
    try:
        return created is None or created <= datetime.fromisoformat(moved_at)
    except (TypeError, ValueError):
        # A person wrote something else, so the time is unknown: any allocation may be there.
        return True


def _make_released_anyway() -> Released:
    """Return the answer if a person has annotated the TenantCluster to release its ranges."""
    return Released(f"the TenantCluster carries {names.ANNOTATION_RELEASE_ANYWAY}")
