"""Runs an integration's controllers while the API server serves the kinds that they need."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import override

from controller.clock import Clock
from controller.events import Recorder
from controller.loggers import get_logger
from controller.manager import Manager
from controller.resource import Resource
from reconcilers.configuration.settings import Settings
from reconcilers.integrations.core.discovery import Discovery, Look, Work
from reconcilers.spaces.announcing import OverlapAnnouncer
from reconcilers.spaces.index import SpaceIndex

S = TypeVar("S")


class Integration(ABC, Generic[S]):
    """A service of the manager, whose work depends on what is served of some API groups.

    Args:
        manager: runs it.
        clock: the time.
        name: of the service.
        groups: the API groups of its kinds.
        every_replica: run it in every replica if replicas share the work by shards: each of them
            serves NetworkPools, and has to know what this integration holds of them.
    """

    def __init__(
        self,
        manager: Manager,
        clock: Clock,
        name: str,
        groups: Sequence[str],
        *,
        every_replica: bool = False,
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._log = get_logger(type(self).__module__)
        self._discovery = Discovery(
            manager, groups, self._find_served, self._suffices, self._end, clock
        )
        manager.add_readiness_check(self._discovery.check(name))
        # Without shards only the leader works; a standby needs none of these caches.
        manager.add_service(
            name, self.run, leader_only=manager.shards is None or not every_replica
        )

    async def run(self) -> None:
        """Run the controllers for what is served, until cancelled."""
        try:
            await self._discovery.run(self._begin)
        finally:
            self._end()

    def _end(self) -> None:
        """Forget what was served, and the caches of controllers: nothing updates them any more.

        It is called when the controllers have ended, or when it is doubted that there are none.
        """

    @abstractmethod
    async def _find_served(self) -> S:
        """Return the served kinds, by discovery."""

    @abstractmethod
    def _suffices(self, served_kinds: S) -> bool:
        """Return whether all kinds that the integration needs are served."""

    @abstractmethod
    def _begin(self, served_kinds: S) -> Work | None:
        """Return a function that runs the controllers for these kinds; None without any."""


class AllKindsIntegration(Integration[bool]):
    """An integration that runs while all of its kinds are served, and is idle otherwise.

    Args:
        manager: runs it.
        clock: the time.
        every_replica: run it in every replica if replicas share the work by shards.
    """

    service: ClassVar[str]
    """The name of the service."""
    kinds: ClassVar[Sequence[Resource[Any]]]
    """What it needs, all of one API group."""
    missing: ClassVar[str]
    """What the log says is not served, such as "The kinds of KKP"."""

    def __init__(self, manager: Manager, clock: Clock, *, every_replica: bool = False) -> None:
        groups = [self.kinds[0].group]
        super().__init__(manager, clock, self.service, groups, every_replica=every_replica)

    @override
    async def _find_served(self) -> bool:
        look = Look(self._manager.client)
        first_served = [await look.first_served([kind]) for kind in self.kinds]
        look.check_complete()
        return all(first_served)

    @override
    def _suffices(self, are_served: bool) -> bool:
        return are_served

    @override
    def _begin(self, are_served: bool) -> Work | None:
        if not are_served:
            self._log.info(f"{self.missing} are not served by the API server: waiting for them")
            return None
        return self._work()

    @abstractmethod
    def _work(self) -> Work:
        """Return a function that runs informers and controllers; log the kinds that they serve."""


class AllocatingIntegration(AllKindsIntegration):
    """An integration that gives addresses to objects of kinds of another platform.

    Args:
        manager: runs it.
        recorder: takes the events.
        clock: the time.
        settings: intervals, and how much is done at once.
        spaces: what pools of all kinds hand out.
        overlaps: announces pools whose overlaps with others have changed.
    """

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        clock: Clock,
        settings: Settings,
        *,
        spaces: SpaceIndex,
        overlaps: OverlapAnnouncer,
    ) -> None:
        super().__init__(manager, clock)
        self._recorder = recorder
        self._settings = settings
        self._spaces = spaces
        self._overlaps = overlaps
