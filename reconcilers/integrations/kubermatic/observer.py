"""Observing a KKP that allocates by itself, as a service, while its IPAMAllocations are served."""

import structlog

from controller.clock import Clock
from controller.events import Recorder
from controller.extension import Extension
from controller.informer import Informer
from controller.manager import Manager
from controller.runner import Controller
from controller.triggers import Watch, to_self
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.discovery import Discovery, Work
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, GROUP, IPAMAllocation
from reconcilers.integrations.kubermatic.observing import (
    ConflictReconciler,
    ObservedHolders,
    addresses_changed,
    pools_of,
)

log = structlog.get_logger(__name__)


class KubermaticObserver:
    """Has NetworkPools keep clear of what KKP allocates.

    Args:
        manager: runs it.
        networkpools: NetworkPools, as the manager watches them.
        allocations: IPAllocations, as the manager watches them.
        recorder: takes the events.
        clock: the time.
    """

    def __init__(
        self,
        manager: Manager,
        networkpools: Informer[NetworkPool],
        allocations: Informer[IPAllocation],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        self.holders = ObservedHolders()
        """What KKP holds of NetworkPools, for the reconciler of these."""
        self._manager = manager
        self._pools = networkpools
        self._allocations = allocations
        self._recorder = recorder
        self._networkpools: Controller | None = None
        self._discovery = Discovery(manager, (GROUP,), self._served, clock)
        manager.add_service("kubermatic", self.run)

    def enqueue_networkpools(self, controller: Controller) -> None:
        """Have a controller look at NetworkPools whose addresses KKP gives out or takes back."""
        self._networkpools = controller

    async def run(self) -> None:
        """Watch IPAMAllocations while they are served, until cancelled."""
        await self._discovery.run(self._begin)

    def _begin(self, served: bool) -> Work | None:
        """Return what watches IPAMAllocations; None while they are not served."""
        self.holders.known, self.holders.allocations = False, None
        work = None
        if served:
            log.info("Observing IPAMAllocations of KKP")
            work = self._extension().run
        else:
            log.info("IPAMAllocations are not served by the API server: waiting for them")
        self.holders.known = True
        return work

    async def _served(self) -> bool:
        """Return whether IPAMAllocations are served, by discovery."""
        return await self._manager.client.served(ALLOCATIONS)

    def _extension(self) -> Extension:
        """Return the informer, and the controller that tells conflicts."""
        extension = self._manager.extension()
        observed = extension.informer(ALLOCATIONS)
        self.holders.allocations = observed.cache
        reconciler = ConflictReconciler(
            observed.cache, self._pools.cache, self._allocations.cache, self._recorder
        )
        watches: list[Watch[IPAMAllocation] | Watch[IPAllocation]] = [
            Watch(observed, to_self),
            Watch(self._allocations, reconciler.touched, addresses_changed),
        ]
        extension.controller("kubermatic-observed", reconciler.reconcile, watches=watches)
        if self._networkpools is not None:
            pools = self._pools.cache
            watch = Watch(observed, lambda one: pools_of(pools, one))
            watch.connect(self._networkpools.queue)
        return extension
