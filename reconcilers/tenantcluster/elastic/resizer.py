"""One pass over the number of a tenant's addresses, which follow its Services in elastic mode.

1. labels are repaired, in every mode
2. the tenant's Services, from a watch or read now
3. growth and shrink                                decisions.py, then changes.py
4. marks of shrink are withdrawn where a Service uses the range       shrink.py
5. after the projection, what is marked and released is deleted       shrink.py
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import structlog

from controller.cache import Cache
from controller.client import Client
from controller.clock import Clock
from controller.errors import ControllerError
from controller.meta import Key, Version
from controller.statelog import StateLog
from reconcilers.api import names
from reconcilers.api.ipallocation import ALLOCATED, IPAllocation
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import IP_ALLOCATION, SERVICE, TENANT_CLUSTER, Service
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.conditions import Finding
from reconcilers.loadbalancers.metallb.reading import NOT_RUNNING
from reconcilers.networkpool.owners import noted_uid
from reconcilers.settings import TenantSettings
from reconcilers.tenantclients import UNAUTHORIZED, UNREACHABLE, TenantClients, TenantUnavailable
from reconcilers.tenantcluster.allocations.membership import members, repairs
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.current_cluster import CurrentCluster
from reconcilers.tenantcluster.elastic.changes import carry_out
from reconcilers.tenantcluster.elastic.decisions import (
    QUOTA_EXCEEDED,
    decide_size,
    describe_size,
)
from reconcilers.tenantcluster.elastic.marked import MarkedReleaser
from reconcilers.tenantcluster.elastic.observation import ElasticMemory, SizeObserver
from reconcilers.tenantcluster.networkstatus import AddressUsers, RefusedGrowth, ServicesSeen
from reconcilers.tenantcluster.projector import is_behind
from reconcilers.tenantcluster.services import TenantServices

_log = structlog.get_logger(__name__)

_NO_WAY_IN = {"KubeconfigMissing", "KubeconfigRefused", UNREACHABLE}
"""Reasons for which another request of the same pass would fail as well."""
_PLATFORM_LABEL = "label of the platform's Service"
"""The topic of the state that is logged."""
_UNANSWERED = {UNREACHABLE, UNAUTHORIZED}
"""Reasons that say nothing about whether the tenant takes ranges."""


@dataclass(frozen=True, slots=True)
class Resized:
    """The result of a pass over a tenant's size.

    Args:
        findings: the conditions to write.
        obsolete: types of conditions that do not apply.
        due_in: seconds until something may be due without anything changing; None for never.
        unavailable: why there is no client of the tenant, where trying again at once is no use.
        services: what the tenant's Services show; None if they could not be read.
        refused: the growth that is refused; None if none is.
        offered: uids of the allocations whose ranges are about to be projected; empty if the
            tenant's Services could not be read.
    """

    findings: tuple[Finding, ...] = ()
    obsolete: tuple[str, ...] = ()
    due_in: float | None = None
    unavailable: TenantUnavailable | None = None
    services: ServicesSeen | None = None
    refused: RefusedGrowth | None = None
    offered: frozenset[str] = frozenset()


class Resizer:
    """Keeps the number of a tenant's addresses in line with its Services.

    Args:
        client: the management cluster.
        allocations: its IPAllocations, indexed by TenantCluster.
        tenants: clients of the tenants.
        services: the Services of tenants.
        observer: reads what the size is decided from.
        requester: creates allocations.
        releaser: gives back what shrink has marked.
        logged: the states of tenants that were logged.
        clock: the time.
        settings: the thresholds.
    """

    def __init__(  # noqa: PLR0913 - the collaborators, each small; the wiring is the one caller
        self,
        client: Client,
        allocations: Cache[IPAllocation],
        *,
        tenants: TenantClients,
        services: TenantServices,
        observer: SizeObserver,
        requester: Requester,
        releaser: MarkedReleaser,
        logged: StateLog,
        clock: Clock,
        settings: TenantSettings,
    ) -> None:
        self._client = client
        self._allocations = allocations
        self._tenants = tenants
        self._services = services
        self._observer = observer
        self._requester = requester
        self._releaser = releaser
        self._logged = logged
        self._clock = clock
        self._settings = settings

    def stop_watching(self, key: Key) -> None:
        """End the watch of the Services of a tenant that is gone, or that is left alone."""
        self._services.close(key)

    async def resize(
        self, current: CurrentCluster, provider: ProviderConfig, memory: ElasticMemory
    ) -> Resized:
        """Repair labels; grow and shrink an elastic tenant.

        Args:
            current: the cluster.
            provider: its ProviderConfig.
            memory: what is remembered of its size.

        Raises:
            Conflict: something changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        tenant = current.tenant
        await self._repair(tenant)
        try:
            services = await self._services.for_tenant(tenant, watched=tenant.is_ready)
        except TenantUnavailable as error:
            _log.debug("cannot read the tenant's Services, skipping", error=error.message)
            return Resized(unavailable=error if error.reason in _NO_WAY_IN else None)
        facts = await self._observer.observe(tenant, provider, services, memory)
        change = decide_size(facts)
        created = await carry_out(
            change,
            facts,
            current=current,
            provider=provider,
            client=self._client,
            requester=self._requester,
        )
        report = describe_size(facts, change, created)
        self._log_quota(tenant.metadata.key, report.demand)
        await self._label_platform(tenant, services)
        await self.withdraw_used(tenant)
        offered = frozenset(
            one.metadata.uid
            for one in members(self._allocations, tenant)
            if one.status.phase == ALLOCATED and not one.releasing
        )
        waiting = len(facts.waiting_long) + facts.demand.unexamined
        return Resized(
            findings=report.findings,
            obsolete=report.obsolete,
            due_in=report.due_in,
            services=ServicesSeen(waiting, AddressUsers(facts.demand.users)),
            refused=report.refused,
            offered=offered,
        )

    def _log_quota(self, key: Key, finding: Finding) -> None:
        """Log that the quota stops growth, if that is new."""
        if finding.reason != QUOTA_EXCEEDED:
            self._logged.end(key, QUOTA_EXCEEDED)
        elif self._logged.begin(key, QUOTA_EXCEEDED, finding.message):
            _log.info("elastic IPAM growth blocked by quota", tenant=str(key), why=finding.message)

    async def note_projected(
        self,
        current: CurrentCluster,
        projected: Finding,
        memory: ElasticMemory,
        offered: Collection[str],
    ) -> None:
        """Remember whether MetalLB in the tenant has what it should have.

        What did not help while the tenant took no ranges may help once it does, so the memory of
        that is dropped then. One that did not answer for a moment may have had them all the time:
        each such moment would make it grow without effect once more.

        Args:
            current: the cluster.
            projected: the condition LoadBalancerReady after the projection.
            memory: what is remembered of its size.
            offered: uids of the allocations whose ranges were to be projected.

        Raises:
            Conflict: the cluster changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        now = self._clock.monotonic()
        if not projected.status:
            memory.in_place_since = None
            if projected.reason == NOT_RUNNING:
                memory.in_pool_since = {}
            if not is_behind(projected) and projected.reason not in _UNANSWERED:
                memory.is_refused = True
            return
        if memory.in_place_since is None:
            memory.in_place_since = now
        before = memory.in_pool_since
        memory.in_pool_since = {uid: before.get(uid, now) for uid in offered}
        if memory.is_refused:
            if names.ANNOTATION_GROWN_IN_VAIN in current.tenant.metadata.annotations:
                await current.annotate({names.ANNOTATION_GROWN_IN_VAIN: None})
            memory.is_refused = False

    async def withdraw_used(self, tenant: TenantCluster) -> None:
        """Withdraw marks of shrink where a Service uses the range, before the range leaves.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        await self._releaser.withdraw_used(tenant)

    async def release_marked(self, tenant: TenantCluster) -> int:
        """Delete allocations marked by shrink that the tenant released; return how many are left.

        Raises:
            Conflict: an allocation changed since it was read; begin again.
            ControllerError: the management cluster did not answer.
        """
        return await self._releaser.release(tenant)

    async def _label_platform(self, tenant: TenantCluster, services: Sequence[Service]) -> None:
        """Label the Service of the platform's ingress; what fails is logged, nothing needs it."""
        service = unlabelled_platform(services, self._settings.platform_service)
        if service is None:
            return
        patch = {"metadata": {"labels": {names.LABEL_PLATFORM_LB: "true"}}}
        key = tenant.metadata.key
        try:
            async with self._tenants.client(tenant) as client:
                try:
                    await client.patch(SERVICE, Version.from_object(service), patch)
                    self._logged.end(key, _PLATFORM_LABEL)
                except ControllerError as error:
                    self._log_unlabelled(key, str(error))
        except TenantUnavailable as error:
            self._log_unlabelled(key, error.message)

    def _log_unlabelled(self, key: Key, error: str) -> None:
        """Log why the platform's Service has no label, if the reason is new."""
        is_new = self._logged.begin(key, _PLATFORM_LABEL, error)
        log = _log.info if is_new else _log.debug
        log("cannot label the platform's Service", error=error)

    async def _repair(self, tenant: TenantCluster) -> None:
        """Repair labels, role and owner on the tenant's allocations.

        Those that wait for a range are left alone: a new version of one voids what it is promised.
        """
        uid: str | None = None
        for allocation in members(self._allocations, tenant):
            if allocation.metadata.terminating or allocation.status.phase != ALLOCATED:
                continue
            if uid is None and not noted_uid(allocation):
                uid = await self._live_uid(tenant)
            patch = repairs(allocation, tenant, uid or "")
            if not patch:
                continue
            await self._client.patch(IP_ALLOCATION, Version.from_object(allocation), patch)
            if names.LABEL_ROLE in patch["metadata"].get("labels", {}):
                _log.info("migrated allocation-role label", allocation=allocation.metadata.name)

    async def _live_uid(self, tenant: TenantCluster) -> str:
        """Read a tenant live, and return its uid; empty if it is another one by now, or leaving.

        A uid out of an old cache would later cost an allocation its range: it may have been made
        for the next cluster of that name.
        """
        meta = tenant.metadata
        found = await self._client.find(TENANT_CLUSTER, meta.key)
        if found is None or found.metadata.terminating or found.metadata.uid != meta.uid:
            return ""
        return meta.uid


def unlabelled_platform(services: Iterable[Service], platform: str) -> Service | None:
    """Return the platform's Service if it lacks its label; `platform` is `namespace/name`.

    People distinguish the platform's load balancer from the tenant's by the label.
    """
    namespace, _, name = platform.partition("/")
    for service in services:
        if service.metadata.key == Key(namespace, name):
            labelled = service.metadata.labels.get(names.LABEL_PLATFORM_LB) == "true"
            return None if labelled or service.metadata.terminating else service
    return None
