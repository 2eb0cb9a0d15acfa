"""The reconciler of TenantClusters and everybody it works with, put together."""

from dataclasses import dataclass

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from reconcilers.ipallocation.gate import Gate
from reconcilers.metrics import IpamMetrics
from reconcilers.settings import Settings
from reconcilers.tenantcluster.asking import Asking
from reconcilers.tenantcluster.departed import Departed
from reconcilers.tenantcluster.elastic.caring import Elastic
from reconcilers.tenantcluster.elastic.returning import Returning
from reconcilers.tenantcluster.install.installing import Installer
from reconcilers.tenantcluster.poolchoice import PoolChoice
from reconcilers.tenantcluster.projecting import Projector
from reconcilers.tenantcluster.provider import Providers
from reconcilers.tenantcluster.reconciler import TenantClusterReconciler
from reconcilers.tenantcluster.resizing import Sizing
from reconcilers.tenantcluster.services import TenantServices
from reconcilers.tenantcluster.teardown import Teardown
from reconcilers.tenantcluster.tenants import Tenants
from reconcilers.tenantcluster.world import World


@dataclass(frozen=True, slots=True)
class TenantSide:
    """The parts that others need.

    Args:
        reconciler: works on TenantClusters.
        services: watches their Services; `services.watches.run` has to run.
        choice: chooses pools.
    """

    reconciler: TenantClusterReconciler
    services: TenantServices
    choice: PoolChoice


def tenant_side(  # noqa: PLR0913 - the collaborators; the wiring is the one caller
    client: Client,
    world: World,
    *,
    tenants: Tenants,
    departed: Departed,
    gate: Gate,
    recorder: Recorder,
    clock: Clock,
    settings: Settings,
    metrics: IpamMetrics | None = None,
) -> TenantSide:
    """Return the reconciler of TenantClusters, and what it works with."""
    allocations = world.allocations
    metrics = metrics or IpamMetrics()
    choice = PoolChoice(world.pools, allocations, settings.pool.max_addresses)
    asking = Asking(client, allocations, choice, metrics)
    services = TenantServices(world.clusters, tenants, clock, settings.tenant)
    elastic = Elastic(client, world, asking, clock, settings.tenant)
    sizing = Sizing(
        client,
        allocations,
        tenants=tenants,
        services=services,
        elastic=elastic,
        returning=Returning(client, allocations, gate, metrics),
        clock=clock,
        settings=settings.tenant,
    )
    reconciler = TenantClusterReconciler(
        client,
        world.clusters,
        providers=Providers(client, world.providers, clock, settings.namespace),
        asking=asking,
        projector=Projector(client, allocations, tenants, clock, settings.tenant),
        sizing=sizing,
        installer=Installer(client, tenants, clock, settings.tenant, settings.namespace),
        teardown=Teardown(client, allocations),
        departed=departed,
        tenants=tenants,
        recorder=recorder,
        clock=clock,
        settings=settings.tenant,
    )
    return TenantSide(reconciler, services, choice)
