"""Whether a tenant has released a range: checked before the range counts as free again."""

from collections.abc import Sequence
from datetime import datetime
from itertools import product

from typing_extensions import override

from allocator import AddressRange
from controller.client import Client
from controller.clock import Clock
from controller.conditions import find
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
from reconcilers.loadbalancers.ownernotes import owner_note
from reconcilers.loadbalancers.port import (
    Acknowledgement,
    AllocationName,
    BalancerMemory,
    LoadBalancerKind,
    NotYet,
    Offer,
    Proven,
    Serves,
    Withdrawal,
)
from reconcilers.networkpool.owners import noted_uid
from reconcilers.networkpool.unreadable import unreadable_near
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
from reconcilers.tenantcluster.release.releasenotes import note_for_release, release_note
from reconcilers.tenantcluster.release.teardown import VanishedClusters

Ranges = Sequence[AddressRange]
"""What an allocation holds: one range, or one of each family."""
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
        recorder: takes an event when addresses are given back without the tenant's answer.
        clock: the time.
        settings: how long the tenant of a deleted cluster is asked.
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
        if allocation.spec.type == names.TYPE_NODES:
            return await self._check_nodes(allocation)
        present = await self._owner(allocation)
        answer = await self._check_balancer(allocation, mark, present)
        if isinstance(answer, Released) and present is not None and await self._is_stale(present):
            return InUse(f"TenantCluster {present.metadata.key} has just changed", is_asked=False)
        return answer

    async def _is_stale(self, judged: TenantCluster) -> bool:
        """Return whether a live read shows a cluster that may be judged in another way.

        The cache of a process that was frozen may lack what another one noted on the cluster:
        that its projection began, or which cluster its kubeconfig led to then.
        """
        live = await self._client.find(TENANT_CLUSTER, judged.metadata.key)
        return live is None or _judged_parts(live) != _judged_parts(judged)

    async def _check_balancer(
        self, allocation: IPAllocation, mark: int, present: TenantCluster | None
    ) -> Released | InUse:
        """Check load-balancer addresses.

        Args:
            allocation: who holds them.
            mark: the resourceVersion at which the allocation was marked.
            present: its TenantCluster, or another one that has the name; None if there is none.
        """
        if present is None or is_foreign(allocation, present):
            return await self._check_vanished(allocation, mark, present)
        if names.ANNOTATION_RELEASE_ANYWAY in present.metadata.annotations:
            return _release_anyway()
        if not present.metadata.terminating:
            return await self._read_tenant(present, allocation, mark)
        if not present.projection_begun:
            return Released(NEVER_PROJECTED)
        return await self._check_until_grace(present, allocation, mark)

    def _memory(self, allocation: IPAllocation) -> AllocationMemory:
        """Return the memory of an allocation, in the record of its cluster.

        That is the cluster whose uid is noted on it, also while another one has the name.
        """
        key, uid = allocation.spec.tenantClusterRef.key, noted_uid(allocation)
        cached = self._clusters.get(key)
        if not uid and cached is not None:
            uid = cached.metadata.uid
        gate = self._records.at(key, uid).gate
        return gate.of_allocation(allocation.metadata.uid, self._clock.monotonic())

    async def _check_nodes(self, allocation: IPAllocation) -> Released | InUse:
        """Check node addresses: the machines have them for as long as their cluster exists."""
        present = await self._owner(allocation)
        if present is None or is_foreign(allocation, present):
            return Released("its TenantCluster is gone")
        if names.ANNOTATION_RELEASE_ANYWAY in present.metadata.annotations:
            return _release_anyway()
        if not present.metadata.terminating and await self._has_successor(allocation):
            return Released("another allocation of the cluster gets the range next")
        key = present.metadata.key
        return InUse(f"its machines may use the addresses until TenantCluster {key} is gone")

    async def _has_successor(self, deleted: IPAllocation) -> bool:
        """Return whether the range goes to another allocation of the cluster next.

        A live read of that allocation decides. Its pool has to have looked at it, and nothing but
        the deleted allocation may stand in its way.
        """
        owner = str(deleted.spec.tenantClusterRef.key)
        known = self._allocations.by_index(TENANT_INDEX, owner)
        key = next(
            (
                allocation.metadata.key
                for allocation in known
                if _is_successor(allocation, deleted)
            ),
            None,
        )
        # Last, as it reads all allocations of the pool.
        if key is None or not self._is_servable(deleted):
            return False
        try:
            return _is_successor(await self._client.get(IP_ALLOCATION, key), deleted)
        except NotFound:
            return False

    def _is_servable(self, deleted: IPAllocation) -> bool:
        """Return whether the range could be handed out once the deleted allocation is gone.

        Not while the pool, or an allocation that may hold some of it, cannot be read: then the
        pool hands out nothing.
        """
        pool, spans = self._pools.get(deleted.pool_key), statusranges.list_held_ranges(deleted)
        if pool is None or pool.metadata.terminating or not spans:
            return False
        if deleted.pool_key in self._pools.unreadable:
            return False
        if unreadable_near(self._allocations.unreadable, deleted.pool_key):
            return False
        reserved = (
            addresstexts.parse_cidr_or_span(reservation.cidr)
            for block in pool.spec.blocks
            for reservation in poolgeometry.list_reservations(block)
        )
        others = (
            span
            for allocation in self._allocations.by_index(POOL_INDEX, str(deleted.pool_key))
            if allocation.metadata.uid != deleted.metadata.uid
            for span in statusranges.list_held_ranges(allocation)
        )
        obstacles = (span for span in (*reserved, *others) if span is not None)
        return not any(obstacle.overlaps(span) for obstacle, span in product(obstacles, spans))

    async def _check_vanished(
        self, allocation: IPAllocation, mark: int, present: TenantCluster | None
    ) -> Released | InUse:
        """Check the tenant of a cluster that is gone.

        Another cluster that has the name by now may be in that same tenant, or in its place.
        """
        vanished = self._vanished.owner(allocation)
        if vanished is None:
            return Released("its TenantCluster is gone")
        if names.ANNOTATION_RELEASE_ANYWAY in vanished.metadata.annotations:
            return _release_anyway()
        return await self._check_until_grace(present or vanished, allocation, mark)

    async def _owner(self, allocation: IPAllocation) -> TenantCluster | None:
        """Return the allocation's TenantCluster; None if it is gone.

        It is returned from the cache if it is there; before None is returned, the API server is
        read, as the cache may be late.

        Raises:
            ControllerError: the API server did not answer, or not with a plain NotFound.
        """
        key = allocation.spec.tenantClusterRef.key
        cached = self._clusters.get(key)
        if cached is not None and not is_foreign(allocation, cached):
            return cached
        try:
            return await self._client.get(TENANT_CLUSTER, key)
        except NotFound as missing:
            if missing.reason != "NotFound":
                raise MalformedAnswer(f"TenantCluster {key}: {missing}") from missing
            return None

    async def _check_until_grace(
        self, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> Released | InUse:
        """Check the tenant of a deleted or gone cluster, for the teardown grace at most.

        That ends the wait for a tenant that answers, too: an administrator there could keep its
        addresses for ever by what a Service or a pool shows.
        """
        if await self._secret_is_gone(tenant):
            return Released("the tenant's kubeconfig Secret, or its namespace, is gone")
        answer = await self._read_tenant(tenant, allocation, mark)
        now, memory = self._clock.monotonic(), self._memory(allocation)
        if memory.held_since is None:
            memory.held_since = now
        if isinstance(answer, Released):
            memory.held_since = None
            return answer
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

    async def _secret_is_gone(self, tenant: TenantCluster) -> bool:
        """Return whether a live read finds no kubeconfig; each time it does, reads get rarer."""
        gate, now = self._records.of(tenant).gate, self._clock.monotonic()
        reads = gate.secret_reads or SecretReads(0, now)
        if now < reads.due:
            return False
        if await self._is_gone(tenant):
            gate.secret_reads = None
            return True
        pause = min(FIRST_PAUSE * 2 ** min(reads.times, 10), LONGEST_PAUSE)
        gate.secret_reads = SecretReads(reads.times + 1, now + pause)
        return False

    async def _is_gone(self, tenant: TenantCluster) -> bool:
        """Return whether live reads find no namespace or no kubeconfig Secret of the tenant."""
        try:
            if tenant.status.tenantNamespace:
                await self._client.get(NAMESPACE, Key("", tenant.status.tenantNamespace))
            await self._tenants.read_kubeconfig(tenant)
        except NotFound as missing:
            return missing.reason == "NotFound"
        except TenantUnavailable as error:
            return error.absent
        return False

    async def _read_tenant(
        self, tenant: TenantCluster, allocation: IPAllocation, mark: int
    ) -> Released | InUse:
        """Read the tenant's pool and Services live."""
        ranges = statusranges.list_held_ranges(allocation)
        if not ranges:
            return Released("it holds no range")
        try:
            try:
                return await self._ask(tenant, allocation, ranges=ranges, mark=mark)
            except TenantUnavailable as error:
                if error.reason != SHARED:
                    raise
                return await self._read_shared(tenant, allocation, ranges=ranges, mark=mark)
        except TenantUnavailable as error:
            if error.reason == IS_MANAGEMENT and not tenant.projection_begun:
                return Released(NEVER_PROJECTED)
            why = f"the tenant cannot be asked: {error.message}"
            return InUse(why, is_asked=error.failed_at is None)
        except Conflict:
            title = self._find_balancer(tenant, allocation).title
            return InUse(f"{title}'s pools in the tenant have just changed")

    async def _read_shared(
        self,
        tenant: TenantCluster,
        allocation: IPAllocation,
        ranges: Ranges,
        mark: int,
    ) -> Released | InUse:
        """Read a tenant that is another TenantCluster's, where nothing is written for this one.

        What was written before that was known goes with the other's next projection.
        """
        if not tenant.projection_begun:
            return Released(NEVER_PROJECTED)
        return await self._ask(tenant, allocation, ranges=ranges, mark=mark, guarded=False)

    async def _ask(
        self,
        tenant: TenantCluster,
        allocation: IPAllocation,
        ranges: Ranges,
        mark: int,
        *,
        guarded: bool = True,
    ) -> Released | InUse:
        """Read the cluster that the kubeconfig leads to, if it is the one that has the range."""
        async with self._tenants.client(tenant, guarded=guarded) as client:
            if self._has_moved(tenant) or _was_elsewhere(tenant, allocation):
                return InUse(ELSEWHERE)
            kind = self._find_balancer(tenant, allocation)
            return await self._inspect(
                client, kind, tenant=tenant, allocation=allocation, ranges=ranges, mark=mark
            )

    def _find_balancer(self, tenant: TenantCluster, allocation: IPAllocation) -> LoadBalancerKind:
        """Return the load balancer that may have the range of an allocation.

        Where the cluster names one that this release does not know, nothing is known of the
        tenant, so nothing is released.
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
        """Read the offers, and after them the Services: one that had an address may still show it.

        Args:
            client: of the tenant.
            tenant: says which of its Services the load balancer serves.
            allocation: who holds the ranges.
            ranges: its ranges: none is free before all are.
            mark: the resourceVersion at which the allocation was marked.
        """
        memory, serves = self._memory(allocation), kind.serves_in(tenant)
        balancer = kind.of(client, memory.balancer)
        reading = await balancer.read()
        management = await self._tenants.read_management_identity()
        services = await _list_services(client)
        await note_for_release(self._client, [allocation], services=services, serves=serves)
        user = await _find_user(services, ranges, serves)
        if user is not None:
            reason = f"Service {user.metadata.key} still shows an address of the range"
            return InUse(reason, by_service=True)
        if allocation.is_marked:
            service = await find_service_in_need(
                services,
                ranges,
                mark=allocation.metadata.annotations[names.ANNOTATION_RELEASING],
                earlier=memory.earlier_waits,
                offers=reading.targets.values(),
                serves=serves,
            )
            if service is not None:
                return InUse(f"Service {service.metadata.key} needs the range", by_service=True)
        withdrawal = Withdrawal(
            allocation=AllocationName(allocation.metadata.name, allocation.metadata.uid),
            spans=ranges,
            mark=mark,
            position=max(mark, self._allocations.position),
            owner=owner_note(allocation, management),
            note=AllocationCreationNote(
                self._client, allocation, creations=memory.creations, clock=self._clock
            ),
            release_note=release_note(allocation),
        )
        answer = await balancer.acknowledgement(reading, withdrawal)
        verdict = self._judge(answer, kind, mark=mark, wait=memory.wait)
        if isinstance(verdict, Released):
            return (
                await self._check_others(client, kind, allocation=allocation, ranges=ranges)
                or verdict
            )
        return verdict

    async def _check_others(
        self, client: Client, asked: LoadBalancerKind, allocation: IPAllocation, ranges: Ranges
    ) -> InUse | None:
        """Return that another load balancer offers a range than the one that is noted.

        A restored backup, or a person, may have lost the note. It is corrected, so the next check
        asks the load balancer that offers the range.

        Returns:
            What is waited for; None if no other one has an offer of ours with the range.
        """
        for provider, kind in self._kinds.items():
            if kind is asked:
                continue
            reading = await kind.of(client, BalancerMemory()).read_targets()
            for offer in reading.targets.values():
                if not offer.is_made_by_us or not _has_any(offer, ranges):
                    continue
                note = {names.ANNOTATION_LOAD_BALANCER: provider}
                await annotate(self._client, allocation, note)
                return InUse(f"{kind.title} has the range, too: {offer.kind} {offer.name}")
        return None

    def _judge(
        self, answer: Acknowledgement, kind: LoadBalancerKind, mark: int, wait: BoundedWait
    ) -> Released | InUse:
        """Judge by an answer of the balancer whether the range is released.

        Args:
            answer: of the balancer.
            mark: the resourceVersion at which the allocation was marked.
            wait: of the allocation, for a balancer that cannot show what it hands out.
        """
        if isinstance(answer, Proven):
            return Released(answer.how)
        if isinstance(answer, NotYet):
            wait.clear()
            return InUse(answer.why, by_service=answer.is_used)
        seconds, now = kind.wait, self._clock.monotonic()
        if wait.has_elapsed((mark, *answer.version), seconds, now):
            return Released(answer.then)
        return InUse(f"giving {kind.title} {seconds:g} s {answer.purpose}")


def _judged_parts(cluster: TenantCluster) -> object:
    """Return the parts of a cluster that decide about a release."""
    meta = cluster.metadata
    namespace = cluster.status.tenantNamespace
    return (meta.uid, meta.terminating, dict(meta.annotations), cluster.spec, namespace)


def _has_any(offer: Offer, ranges: Ranges) -> bool:
    """Return whether an offer has an address of the ranges."""
    spans = map(addresstexts.parse_cidr_or_span, offer.entries)
    return any(span is not None and span.overlaps(own) for span in spans for own in ranges)


async def _find_user(
    services: Sequence[Service], ranges: Ranges, serves: Serves
) -> Service | None:
    """Return a Service whose address keeps one of the ranges; None if there is none."""
    turns = ReadingTurns()
    for service in services:
        pairs = product(ranges, await read_addresses(service, turns))
        is_user = any(span.contains(address) for span, address in pairs)
        if is_user and serves(service).keeps_range:
            return service
    return None


async def _list_services(client: Client) -> Sequence[Service]:
    """Return all Services of a tenant, read live."""
    page = await client.list(SERVICE)
    if page.unreadable:
        raise MalformedAnswer(f"Services that cannot be read: {sorted(page.unreadable)}")
    return page.items


def _is_successor(allocation: IPAllocation, deleted: IPAllocation) -> bool:
    """Return whether an allocation waits for nothing but the range of a deleted one."""
    meta = allocation.metadata
    ready = find(allocation.status.conditions, READY)
    return (
        meta.annotations.get(names.ANNOTATION_REPLACES) == deleted.metadata.uid
        and not meta.terminating
        and allocation.spec.is_pinned
        and set(requestedranges.parse_pins(allocation))
        == set(statusranges.list_held_ranges(deleted))
        and ready is not None
        and ready.reason == "PinnedRangeConflict"
    )


def _was_elsewhere(tenant: TenantCluster, allocation: IPAllocation) -> bool:
    """Return whether the kubeconfig led to another cluster after the allocation was made."""
    moved = tenant.metadata.annotations.get(names.ANNOTATION_TENANT_MOVED)
    if moved is None:
        return False
    created = allocation.metadata.creationTimestamp
    try:
        return created is None or created <= datetime.fromisoformat(moved)
    except (TypeError, ValueError):
        return True  # a person wrote something else: then all of them may be there


def _release_anyway() -> Released:
    return Released(f"the TenantCluster carries {names.ANNOTATION_RELEASE_ANYWAY}")
