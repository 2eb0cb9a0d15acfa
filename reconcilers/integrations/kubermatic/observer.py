"""Observing a KKP that allocates by itself, as a service, while its IPAMAllocations are served."""

from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from controller.clock import Clock
from controller.events import Recorder
from controller.informer import Informer
from controller.manager import Manager
from controller.resource import Resource
from controller.runner import Controller
from controller.triggers import Watch, to_self
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.integrations.core.discovery import Work
from reconcilers.integrations.core.serving import AllKindsIntegration
from reconcilers.integrations.kubermatic.api import ALLOCATIONS, IPAMAllocation
from reconcilers.integrations.kubermatic.observing import (
    ConflictReconciler,
    ObservedHolders,
    addresses_changed,
    pools_of,
)


class KubermaticObserver(AllKindsIntegration):
    """Has NetworkPools keep clear of what KKP allocates.

    Args:
        manager: runs it.
        networkpools: NetworkPools, as the manager watches them.
        allocations: IPAllocations, as the manager watches them.
        recorder: takes the events.
        clock: the time.
    """

    service = "kubermatic"
    kinds: ClassVar[Sequence[Resource[Any]]] = (ALLOCATIONS,)
    missing = "IPAMAllocations"

    def __init__(
        self,
        manager: Manager,
        networkpools: Informer[NetworkPool],
        allocations: Informer[IPAllocation],
        recorder: Recorder,
        clock: Clock,
    ) -> None:
        super().__init__(manager, clock)
        self.holders = ObservedHolders()
        """What KKP holds of NetworkPools, for the reconciler of these."""
        self._pools = networkpools
        self._allocations = allocations
        self._recorder = recorder
        self._networkpools: Controller | None = None

    def enqueue_networkpools(self, controller: Controller) -> None:
        """Have a controller look at NetworkPools whose addresses KKP gives out or takes back."""
        self._networkpools = controller

    @override
    def _begin(self, served: bool) -> Work | None:
        self.holders.known, self.holders.allocations = False, None
        work = super()._begin(served)
        self.holders.known = True
        return work

    @override
    def _work(self) -> Work:
        self._log.info("Observing IPAMAllocations of KKP")
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
        return extension.run
