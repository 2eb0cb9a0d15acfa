"""Runs an integration's controllers while the API server serves the kinds that they need.

An integration is an object with four steps, `IntegrationSteps`. `add_integration_service` makes a
service of the manager out of it. `AllKindsSteps` are the steps of an integration that needs all of
its kinds.

Discovery finds the served kinds. Its answer that a kind is absent becomes stale when definitions
of kinds change. See `discovery.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from controller.client import Client
from controller.clock import Clock
from controller.events import Recorder
from controller.informer import Informer
from controller.loggers import Logger
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


class IntegrationSteps(Protocol[S]):
    """The steps of an integration, which its service and the discovery of its kinds call.

    S is the type of the answer to which kinds are served. Equal answers serve the same kinds.
    """

    async def find_served(self) -> S:
        """Return the served kinds, by discovery.

        Discovery calls it when the service starts, several times after a definition of the
        integration's groups changes, and every half minute while the last answer does not suffice.

        Raises:
            DiscoveryIncomplete: it is unknown whether one of the kinds is served. Discovery calls
                it again.
            ControllerError: the API server did not answer. Discovery calls it again.
        """
        ...

    def is_sufficient(self, served_kinds: S) -> bool:
        """Return whether all kinds that the integration needs are served.

        Discovery calls it after each answer, to decide whether to keep looking for missing kinds.
        """
        ...

    def begin(self, served_kinds: S) -> Work | None:
        """Return a function that runs the controllers for these kinds; None if there is no work.

        Discovery calls it with the first answer, with each answer that differs from the last one,
        and with the first answer after a stale one. By then the work for the last answer has
        ended.
        """
        ...

    def end(self) -> None:
        """Forget the served kinds and the caches of controllers: nothing updates them any more.

        The service calls it last, when its work has ended. Discovery calls it when its answer
        that a kind is absent becomes stale, because the kind may be served by now. Then the work
        without that kind, if there is any, goes on until the next answer. `end` may be called
        several times in a row.
        """
        ...


def add_integration_service(
    parts: IntegrationParts,
    steps: IntegrationSteps[S],
    *,
    service: str,
    groups: Sequence[str],
    every_replica: bool = False,
) -> None:
    """Add an integration to the manager, as a service with a readiness check.

    Args:
        parts: the manager, which runs the service, and the clock.
        steps: find the served kinds, and begin and end the work for them.
        service: the name of the service and of the readiness check.
        groups: the API groups of the integration's kinds.
        every_replica: whether every replica runs the service if replicas share the work by shards.
            Needed if the integration's objects hold addresses of NetworkPools, because every
            replica serves some NetworkPools.
    """
    manager = parts.manager
    discovery = Discovery(
        manager,
        groups,
        find_served=steps.find_served,
        is_sufficient=steps.is_sufficient,
        on_stale=steps.end,
        clock=parts.clock,
    )

    async def run() -> None:
        """Run the controllers for the served kinds, until cancelled."""
        try:
            await discovery.run(steps.begin)
        finally:
            steps.end()

    manager.add_readiness_check(discovery.make_readiness_check(service))
    # Without shards only the leader works; a standby needs none of these caches.
    leader_only = manager.shards is None or not every_replica
    manager.add_service(service, run, leader_only=leader_only)


@dataclass(frozen=True, slots=True)
class AllKindsSteps:
    """The steps of an integration that runs while all of its kinds are served.

    Args:
        client: asks which kinds are served.
        kinds: the kinds that the integration needs.
        missing: the subject of the log line while a kind is missing, such as "The kinds of KKP".
        make_work: logs that the kinds are served, and returns a function that runs the informers
            and controllers.
        log: the logger of the integration.
    """

    client: Client
    kinds: Sequence[Resource[Object]]
    missing: str
    make_work: Callable[[], Work]
    log: Logger

    async def find_served(self) -> bool:
        """Return whether all kinds are served.

        Raises:
            DiscoveryIncomplete: it is unknown whether one of the kinds is served.
        """
        look = ServedKindsLook(self.client)
        # A look asks for all kinds, also after one that is absent (see `ServedKindsLook`).
        served_versions = [await look.find_first_served([kind]) for kind in self.kinds]
        look.check_complete()
        return all(served_versions)

    def is_sufficient(self, are_served: bool) -> bool:
        """Return the answer itself: True if all kinds are served."""
        return are_served

    def begin(self, are_served: bool) -> Work | None:
        """Return the work if all kinds are served; else log that, and return None."""
        if not are_served:
            self.log.info("%s are not served by the API server: waiting for them", self.missing)
            return None
        return self.make_work()

    def end(self) -> None:
        """Do nothing: the work keeps nothing that outlives it."""
