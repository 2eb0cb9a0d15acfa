"""The integration as a service: it begins when KKP's kinds are served, and ends when they are not.

What is served is looked up when the process starts and whenever a CustomResourceDefinition of KKP
changes, so that an idle cluster sees no requests.
"""

from collections.abc import Iterable

import anyio
import structlog

from controller.cache import Change
from controller.clock import Clock
from controller.errors import ControllerError
from controller.events import Recorder
from controller.extension import Extension
from controller.informer import Informer
from controller.manager import Manager
from controller.meta import Key, MetadataOnly
from controller.resource import Resource
from controller.triggers import Watch, generation_changed, to_self
from reconcilers.api import names
from reconcilers.integrations.kubermatic.api import (
    ALLOCATIONS,
    CLUSTERS,
    GROUP,
    POOLS,
    Cluster,
    IPAMAllocation,
    IPAMPool,
)
from reconcilers.integrations.kubermatic.clusters import ClusterReconciler
from reconcilers.integrations.kubermatic.pools import PoolReconciler
from reconcilers.integrations.kubermatic.reading import (
    DATACENTER_INDEX,
    NAMESPACE_INDEX,
    POOL_INDEX,
    Reader,
    World,
    datacenter_index,
    namespace_index,
    pool_index,
)
from reconcilers.integrations.kubermatic.telling import Told
from reconcilers.settings import Settings

log = structlog.get_logger(__name__)

DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    MetadataOnly,
    namespaced=False,
)
SETTLING_SECONDS = 10.0
"""How long discovery is asked again after a definition changed: it shows a kind a little later."""
LOOK_SECONDS = 0.5
RETRY_SECONDS = 2.0


class Kubermatic:
    """Serves KKP's IPAMPools while their kinds are served.

    Args:
        manager: runs it.
        recorder: takes the events.
        clock: the time.
        settings: intervals, and how much is done at once.
    """

    def __init__(
        self, manager: Manager, recorder: Recorder, clock: Clock, settings: Settings
    ) -> None:
        self._manager = manager
        self._recorder = recorder
        self._clock = clock
        self._settings = settings
        self._definitions = manager.informer(DEFINITIONS)
        self._changed = anyio.Event()
        manager.add_service("kubermatic", self.run)

    async def run(self) -> None:
        """Run the controllers while the kinds are served, until cancelled."""
        registration = self._definitions.add_handler(self._note)
        try:
            served = await self._served()
            while True:
                served = await self._run_until_not(served)
        finally:
            registration.close()

    def _note(self, change: Change[MetadataOnly]) -> None:
        definition = change.new or change.old
        ours = definition is not None and definition.metadata.name.partition(".")[2] == GROUP
        if ours and not change.initial:
            self._changed.set()

    async def _run_until_not(self, served: bool) -> bool:
        """Run the controllers if the kinds are served, until that changes; return what it is."""
        async with anyio.create_task_group() as group:
            if served:
                group.start_soon(self._extension().run)
                log.info("Serving IPAMPools of KKP")
            else:
                log.info("The kinds of KKP are not served by the API server: waiting for them")
            found = await self._other(served)
            group.cancel_scope.cancel()
        return found

    async def _other(self, served: bool) -> bool:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            until = self._clock.monotonic() + SETTLING_SECONDS
            while self._clock.monotonic() < until:
                if await self._served() != served:
                    return not served
                await self._clock.sleep(LOOK_SECONDS)

    async def _served(self) -> bool:
        """Return whether all three kinds are served, by discovery."""
        while True:
            try:
                client = self._manager.client
                return (
                    await client.served(POOLS)
                    and await client.served(ALLOCATIONS)
                    and await client.served(CLUSTERS)
                )
            except ControllerError as error:
                log.warning("Cannot find out which kinds are served", error=str(error))
            await self._clock.sleep(RETRY_SECONDS)

    def _extension(self) -> Extension:
        """Return the informers and controllers."""
        extension = self._manager.extension()
        pools = extension.informer(POOLS)
        allocations = extension.informer(ALLOCATIONS, indexes={POOL_INDEX: pool_index})
        clusters = extension.informer(
            CLUSTERS,
            indexes={DATACENTER_INDEX: datacenter_index, NAMESPACE_INDEX: namespace_index},
        )
        world = World(pools.cache, allocations.cache, clusters.cache)
        client = extension.client.with_field_manager(names.FIELD_MANAGER)
        settings, told = self._settings.pool, Told(self._recorder)
        reader = Reader(client, allocations.cache, self._clock, settings.cache_patience)
        reconciler = PoolReconciler(client, world, reader, told, self._clock, settings)
        extension.controller(
            "kubermatic-ipampool",
            reconciler.reconcile,
            watches=self._watches(world, pools, allocations, clusters),
            concurrency=self._settings.concurrency,
        )
        condition = extension.controller(
            "kubermatic-cluster",
            ClusterReconciler(client, world, told, self._clock).reconcile,
            watches=[Watch(clusters, to_self)],
            concurrency=settings.width,
        )
        told.changed = condition.queue.add
        return extension

    def _watches(
        self,
        world: World,
        pools: Informer[IPAMPool],
        allocations: Informer[IPAMAllocation],
        clusters: Informer[Cluster],
    ) -> list[Watch[IPAMPool] | Watch[IPAMAllocation] | Watch[Cluster]]:
        """Return which changes lead to a pass over which pools."""

        def gathered(change: object) -> float:
            del change
            return self._settings.pool.gather

        def of_cluster(cluster: Cluster) -> Iterable[Key]:
            for pool in world.pools:
                mine = Key(cluster.namespace, pool.metadata.name)
                if cluster.datacenter in pool.spec.datacenters or mine in world.allocations:
                    yield pool.metadata.key

        def beside(pool: IPAMPool) -> Iterable[Key]:
            datacenters = set(pool.spec.datacenters)
            for other in world.pools:
                if datacenters & set(other.spec.datacenters):
                    yield other.metadata.key

        return [
            Watch(pools, to_self),
            Watch(pools, beside, spec_changed),
            Watch(allocations, lambda one: [one.pool], None, gathered),
            Watch(clusters, of_cluster, concerns, gathered),
        ]


def spec_changed(change: Change[IPAMPool]) -> bool:
    """Return whether a pool came, went or has another spec; at the start each has its own pass."""
    return not change.initial and generation_changed(change)


def concerns(change: Change[Cluster]) -> bool:
    """Return whether a change of a Cluster may concern its addresses."""
    old, new = change.old, change.new
    return old is None or new is None or _seen(old) != _seen(new)


def _seen(cluster: Cluster) -> tuple[object, ...]:
    meta = cluster.metadata
    paused = cluster.spec.pause
    return meta.uid, cluster.datacenter, cluster.namespace, paused, meta.terminating, meta.labels
