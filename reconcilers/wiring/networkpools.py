"""The controller of NetworkPools, which alone hands out ranges."""

from collections.abc import Iterable

from controller.meta import Key
from controller.triggers import Watch, generation_changed, to_self
from reconcilers.api.networkpool import NetworkPool
from reconcilers.networkpool.neighbours import neighbours
from reconcilers.networkpool.reconciler import NetworkPoolReconciler
from reconcilers.wiring.shared import Shared


def add(shared: Shared) -> None:
    """Add it to the manager."""
    settings = shared.settings
    pools, allocations = shared.informers.pools, shared.informers.allocations
    reconciler = NetworkPoolReconciler(
        shared.client,
        pools.cache,
        allocations.cache,
        shared.recorder,
        shared.clock,
        settings.pool,
        metrics=shared.metrics,
    )

    def overlapping(pool: NetworkPool) -> Iterable[Key]:
        return [one.key for one in neighbours(pool, pools.cache, settings.pool.max_addresses)]

    shared.manager.controller(
        "networkpool",
        reconciler.reconcile,
        watches=[
            Watch(pools, to_self),
            Watch(pools, overlapping, generation_changed),
            Watch(allocations, lambda allocation: [allocation.pool_key]),
        ],
        concurrency=settings.concurrency,
    )
