"""What runs beside the controllers, without a queue: orphans, gauges, webhooks."""

import anyio

from reconcilers.gauges import Gauges
from reconcilers.orphans.collector import OrphanCollector
from reconcilers.webhooks.serving import Caches, webhooks
from reconcilers.wiring.shared import Shared


def add_orphans(shared: Shared) -> None:
    """Add the collector of orphans, which looks when it can see all that it judges by."""
    informers = shared.informers
    collector = OrphanCollector(
        shared.client,
        pools=informers.pools.cache,
        allocations=informers.allocations.cache,
        clusters=informers.clusters.cache,
        recorder=shared.recorder,
        clock=shared.clock,
        settings=shared.settings.orphans,
        collected=shared.metrics.collected,
    )

    async def run() -> None:
        for informer in (informers.pools, informers.allocations, informers.clusters):
            await informer.wait_synced()
        await collector.run()

    shared.manager.add_service("orphans", run)


def add_gauges(shared: Shared) -> None:
    """Add the series that are read off the caches, by the leader alone."""
    informers = shared.informers
    leading = anyio.Event()

    async def lead() -> None:
        leading.set()

    shared.manager.metrics.registry.register(
        Gauges(
            informers.pools.cache,
            informers.allocations.cache,
            informers.providers.cache,
            informers.clusters.cache,
            shared.clock,
            leading.is_set,
        )
    )
    shared.manager.add_service("gauges", lead)


def add_webhooks(shared: Shared) -> None:
    """Add the webhooks; they are served where the manager's options say so."""
    informers = shared.informers
    caches = Caches(
        informers.pools.cache,
        informers.allocations.cache,
        informers.clusters.cache,
        informers.providers.cache,
    )
    for webhook in webhooks(shared.manager.client, caches, shared.clock, shared.settings):
        shared.manager.add_webhook(webhook)
