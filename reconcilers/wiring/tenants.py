"""Builds the reconciler of TenantClusters with its collaborators.

A *record* is what a process remembers of one TenantCluster.
"""

from dataclasses import dataclass

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.statelog import StateLog
from reconcilers.clusteraccess.managementcaches import Caches
from reconcilers.clusteraccess.tenantclients import TenantClients
from reconcilers.configuration.settings import Settings
from reconcilers.ipallocation.release import ReleaseCheck
from reconcilers.loadbalancers.choice import LoadBalancerKinds
from reconcilers.loadbalancers.metallb.installation.installer import Installer
from reconcilers.metrics.counters import IpamMetrics
from reconcilers.tenantcluster.allocations.poolchoice import PoolChoice
from reconcilers.tenantcluster.allocations.requester import Requester
from reconcilers.tenantcluster.announcements import Announcements
from reconcilers.tenantcluster.balancerwatch import BalancerWatches
from reconcilers.tenantcluster.corrections import CorrectionReports
from reconcilers.tenantcluster.elastic.observation import SizeObserver
from reconcilers.tenantcluster.otherbalancers import OtherBalancers
from reconcilers.tenantcluster.ownership.pools import PoolOwnership
from reconcilers.tenantcluster.platformservice import PlatformLabel
from reconcilers.tenantcluster.projector import Projector
from reconcilers.tenantcluster.provider import Providers
from reconcilers.tenantcluster.reconciler import (
    BalancerWork,
    ReleaseWork,
    Reporting,
    TenantClusterReconciler,
)
from reconcilers.tenantcluster.record.records import TenantRecords
from reconcilers.tenantcluster.release.markedranges import MarkedReleaser
from reconcilers.tenantcluster.release.providerchange import ProviderChange
from reconcilers.tenantcluster.release.teardown import Teardown, VanishedClusters
from reconcilers.tenantcluster.services import TenantServices
from reconcilers.tenantcluster.statuswriter import StatusWriter


@dataclass(frozen=True, slots=True)
class TenantParts:
    """The reconciler, and the parts that the wiring or a test uses, too.

    Args:
        reconciler: works on TenantClusters.
        services: watches the Services in tenants; the caller runs `services.watches.run`.
        offers: watches our load-balancer pools in tenants; the caller runs `offers.run`.
        choice: chooses pools for allocations.
    """

    reconciler: TenantClusterReconciler
    services: TenantServices
    offers: BalancerWatches
    choice: PoolChoice


def make_tenant_parts(  # noqa: PLR0913 - the collaborators; the wiring is the one caller
    client: Client,
    caches: Caches,
    *,
    kinds: LoadBalancerKinds,
    tenants: TenantClients,
    vanished: VanishedClusters,
    records: TenantRecords,
    release: ReleaseCheck,
    recorder: Recorder,
    clock: Clock,
    settings: Settings,
    metrics: IpamMetrics | None = None,
) -> TenantParts:
    """Return the reconciler of TenantClusters and its collaborators.

    Args:
        client: a client of the management cluster.
        caches: the objects of the management cluster.
        kinds: the load balancers that tenants may have.
        vanished: the clusters that were deleted without our finalizer's work.
        records: what is remembered of each cluster.
        release: finds out whether a tenant has released a range.
        recorder: takes the events.
        clock: the time.
        settings: intervals and thresholds.
        metrics: takes the counts; None counts for nobody.
    """
    allocations = caches.allocations
    metrics = metrics or IpamMetrics()
    limit, allowed = settings.pool.max_addresses, settings.pool.namespaces
    choice = PoolChoice(caches.pools, allocations, max_addresses=limit, namespaces=allowed)
    requester = Requester(client, allocations, choice=choice, metrics=metrics, recorder=recorder)
    services = TenantServices(caches.clusters, tenants, clock=clock, settings=settings.tenant)
    offers = BalancerWatches(
        kinds, caches.clusters, tenants=tenants, clock=clock, settings=settings.tenant
    )
    state_log = StateLog()
    projector = Projector(
        client,
        allocations,
        kinds=kinds,
        ownership=PoolOwnership(client, allocations, tenants),
        tenants=tenants,
        corrections=CorrectionReports(recorder, metrics),
        watches=offers,
        state_log=state_log,
        clock=clock,
    )
    reconciler = TenantClusterReconciler(
        client,
        caches.clusters,
        allocations,
        providers=Providers(
            client,
            caches.providers,
            clock=clock,
            default_namespace=settings.namespace,
            namespaces=allowed,
        ),
        requester=requester,
        services=services,
        observer=SizeObserver(
            caches, kinds, requester=requester, clock=clock, settings=settings.tenant
        ),
        balancer_work=BalancerWork(
            balancer_kinds=kinds,
            projector=projector,
            installer=Installer(
                client,
                tenants,
                clock=clock,
                settings=settings.tenant,
                namespace=settings.namespace,
            ),
            provider_change=ProviderChange(
                client,
                allocations,
                kinds=kinds,
                release=release,
                projector=projector,
                clock=clock,
            ),
            other_balancers=OtherBalancers(
                kinds, tenants, clock=clock, is_kept=projector.is_being_released
            ),
            announcements=Announcements(kinds, tenants, clock),
            platform_label=PlatformLabel(tenants, state_log, settings.tenant.platform_service),
        ),
        release_work=ReleaseWork(
            marked_releaser=MarkedReleaser(client, allocations, release=release, metrics=metrics),
            teardown=Teardown(client, allocations),
            vanished_clusters=vanished,
        ),
        reporting=Reporting(status_writer=StatusWriter(recorder, clock), state_log=state_log),
        records=records,
        tenant_clients=tenants,
        clock=clock,
        settings=settings.tenant,
    )
    return TenantParts(reconciler, services, offers=offers, choice=choice)
