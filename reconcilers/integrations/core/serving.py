"""Runs an integration's controllers while the API server serves the kinds that they need.

Discovery finds the served kinds, and doubts an answer that a kind is absent when definitions of
kinds change. See `discovery.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from typing_extensions import override

from controller.clock import Clock
from controller.events import Recorder
from controller.informer import Informer
from controller.loggers import get_logger
from controller.manager import Manager
from controller.meta import Object
from controller.resource import Resource
from reconcilers.api.ipallocation import IPAllocation
from reconcilers.api.networkpool import NetworkPool
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.discovery import Discovery, ServedKindsLook, Work
from reconcilers.spaces.announcing import OverlapAnnouncer
from reconcilers.spaces.index import SpaceIndex

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class IntegrationParts:
    """The objects of the process that every integration needs.

    Args:
        manager: runs the integration.
        networkpools: lists and watches NetworkPools, for all integrations.
        allocations: lists and watches IPAllocations, for all integrations.
        recorder: records events.
        settings: intervals, and how many writes run at once.
        spaces: the addresses that pools of all kinds hand out.
        overlaps: announces pools whose overlaps with other pools have changed.
    """

    manager: Manager
    networkpools: Informer[NetworkPool]
    allocations: Informer[IPAllocation]
    recorder: Recorder
    clock: Clock
    settings: Settings
    spaces: SpaceIndex
    overlaps: OverlapAnnouncer


class Integration(ABC, Generic[S]):
    """A service of the manager whose work depends on the served kinds of some API groups.

    S is the type of the answer to which kinds are served.

    Args:
        parts: the objects of the process that every integration needs.
    """

    service: ClassVar[str]
    """The name of the service."""
    groups: ClassVar[Sequence[str]]
    """The API groups of its kinds."""
    every_replica: ClassVar[bool] = False
    """Whether every replica runs it if replicas share the work by shards: each of them serves
    NetworkPools, and has to know what this integration holds of them."""

    def __init__(self, parts: IntegrationParts) -> None:
        self._parts = parts
        self._manager = manager = parts.manager
        self._clock = parts.clock
        self._recorder = parts.recorder
        self._settings = parts.settings
        self._spaces = parts.spaces
        self._overlaps = parts.overlaps
        self._log = get_logger(type(self).__module__)
        self._discovery = Discovery(
            manager,
            self.groups,
            find_served=self._find_served,
            suffices=self._suffices,
            doubt=self._end,
            clock=self._clock,
        )
        manager.add_readiness_check(self._discovery.check(self.service))
        # Without shards only the leader works; a standby needs none of these caches.
        leader_only = manager.shards is None or not self.every_replica
        manager.add_service(self.service, self.run, leader_only=leader_only)

    async def run(self) -> None:
        """Run the controllers for what is served, until cancelled."""
        try:
            await self._discovery.run(self._begin)
        finally:
            self._end()

    def _end(self) -> None:
        """Forget the served kinds and the caches of controllers: nothing updates them any more.

        It is called when the controllers have ended. It is also called when none run because a
        kind was absent, and the kind may be served by now. By default there is nothing to forget.
        """

    @abstractmethod
    async def _find_served(self) -> S:
        """Return the served kinds, by discovery.

        Raises:
            DiscoveryIncomplete: it is unknown whether one of the kinds is served.
        """

    @abstractmethod
    def _suffices(self, served_kinds: S) -> bool:
        """Return whether all kinds that the integration needs are served."""

    @abstractmethod
    def _begin(self, served_kinds: S) -> Work | None:
        """Return a function that runs the controllers for these kinds.

        Returns:
            None if too few kinds are served, so that there is no work.
        """


class AllKindsIntegration(Integration[bool]):
    """An integration that runs while all of its kinds are served, and is idle otherwise."""

    kinds: ClassVar[Sequence[Resource[Object]]]
    """What it needs."""
    missing: ClassVar[str]
    """What the log says is not served, such as "The kinds of KKP"."""

    @override
    async def _find_served(self) -> bool:
        """Return whether all kinds are served."""
        look = ServedKindsLook(self._manager.client)
        # A look asks for all kinds, also after one that is absent (see `ServedKindsLook`).
        served_versions = [await look.first_served([kind]) for kind in self.kinds]
        look.check_complete()
        return all(served_versions)

    @override
    def _suffices(self, are_served: bool) -> bool:
        """Return the answer itself: True if all kinds are served."""
        return are_served

    @override
    def _begin(self, are_served: bool) -> Work | None:
        """Return the work if all kinds are served; else log that, and return None."""
        if not are_served:
            self._log.info(f"{self.missing} are not served by the API server: waiting for them")
            return None
        return self._work()

    @abstractmethod
    def _work(self) -> Work:
        """Return a function that runs informers and controllers; log the kinds that they serve."""
