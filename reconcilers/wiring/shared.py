"""The objects that every controller and service is built with."""

from dataclasses import dataclass

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.informer import Informer
from controller.manager import Manager
from reconcilers.api import names
from reconcilers.api.ipallocation import (
    POOL_INDEX,
    TENANT_INDEX,
    IPAllocation,
    index_by_pool,
    index_by_tenant,
)
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.providerconfig import ProviderConfig
from reconcilers.api.resources import (
    IP_ALLOCATION,
    NETWORK_POOL,
    PROVIDER_CONFIG,
    TENANT_CLUSTER,
)
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.clusteraccess.managementcaches import Caches
from reconcilers.configuration.settings import Settings
from reconcilers.metrics.counters import IpamMetrics
from reconcilers.networkpool.offers import index_network_pools
from reconcilers.spaces.announcing import OverlapAnnouncer
from reconcilers.spaces.index import SpaceIndex


@dataclass(frozen=True, slots=True)
class SharedInformers:
    """The informers of our four kinds, which all controllers read."""

    pools: Informer[NetworkPool]
    allocations: Informer[IPAllocation]
    clusters: Informer[TenantCluster]
    providers: Informer[ProviderConfig]

    @property
    def caches(self) -> Caches:
        """The caches of these informers."""
        return Caches(
            self.pools.cache,
            self.allocations.cache,
            clusters=self.clusters.cache,
            providers=self.providers.cache,
        )

    @classmethod
    def from_manager(cls, manager: Manager) -> "SharedInformers":
        """Return the manager's informers of our kinds, with the indexes for controllers."""
        return cls(
            pools=manager.get_informer(NETWORK_POOL),
            allocations=manager.get_informer(
                IP_ALLOCATION, indexes={POOL_INDEX: index_by_pool, TENANT_INDEX: index_by_tenant}
            ),
            clusters=manager.get_informer(TENANT_CLUSTER),
            providers=manager.get_informer(PROVIDER_CONFIG),
        )


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that every controller and service is built with.

    Args:
        manager: runs the controllers and services.
        informers: the caches of our four kinds.
        client: the manager's client, with the field manager that marks our writes.
        recorder: takes events.
        clock: the time.
        settings: intervals and thresholds.
        metrics: the series about addresses.
        spaces: which addresses each pool of any kind hands out.
        overlaps: announces pools whose overlaps with others have changed.
    """

    manager: Manager
    informers: SharedInformers
    client: Client
    recorder: Recorder
    clock: Clock
    settings: Settings
    metrics: IpamMetrics
    spaces: SpaceIndex
    overlaps: OverlapAnnouncer

    @classmethod
    def from_manager(cls, manager: Manager, clock: Clock, settings: Settings) -> "Shared":
        """Build the shared objects on a manager.

        The announcer of overlaps runs in every replica: with shards, every replica has pools.
        """
        client = manager.client.with_field_manager(names.FIELD_MANAGER)
        recorder = manager.add_recorder(names.COMPONENT, client=client)
        informers = SharedInformers.from_manager(manager)
        spaces = index_network_pools(informers.pools.cache, settings.pool.max_addresses)
        overlaps = OverlapAnnouncer(spaces, clock)
        manager.add_service("pool-overlaps", overlaps.run, leader_only=False)
        return cls(
            manager,
            informers,
            client=client,
            recorder=recorder,
            clock=clock,
            settings=settings,
            metrics=IpamMetrics(manager.metrics.registry),
            spaces=spaces,
            overlaps=overlaps,
        )
