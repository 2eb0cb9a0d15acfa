"""The controller of ProviderConfigs: what a provider has to offer, and whether it may go."""

from collections.abc import Iterable

from controller.meta import Key
from controller.triggers import Watch, to_self
from reconcilers.api.networkpool import NetworkPool
from reconcilers.api.tenantcluster import TenantCluster
from reconcilers.providerconfig.reconciler import ProviderConfigReconciler
from reconcilers.waking import refers_to
from reconcilers.wiring.shared import Shared


def add(shared: Shared) -> None:
    """Add it to the manager."""
    informers, settings = shared.informers, shared.settings
    configs = informers.providers.cache
    reconciler = ProviderConfigReconciler(
        shared.client,
        configs,
        pools=informers.pools.cache,
        clusters=informers.clusters.cache,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=settings,
    )

    def naming(pool: NetworkPool) -> Iterable[Key]:
        return [
            config.metadata.key
            for config in configs
            if config.metadata.namespace == pool.metadata.namespace
            and pool.metadata.name in config.spec.networking.pools_in_order()
        ]

    def leaving(cluster: TenantCluster) -> Iterable[Key]:
        return [
            config.metadata.key
            for config in configs
            if config.metadata.terminating
            and refers_to(cluster, config, settings.namespace, by_default=False)
        ]

    shared.manager.controller(
        "providerconfig",
        reconciler.reconcile,
        watches=[
            Watch(informers.providers, to_self),
            Watch(informers.pools, naming),
            Watch(informers.clusters, leaving),
        ],
        concurrency=1,
    )
