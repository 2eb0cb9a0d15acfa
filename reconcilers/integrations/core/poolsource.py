"""Keeps the index of offers current for the pools of one platform, in every replica.

The *offers* of a pool are the addresses that it hands out. The index compares the offers of all
pools, so that overlaps are reported. Every replica needs it, because each replica answers webhooks
and may serve NetworkPools. But the controllers of an integration run in one replica, or the
replicas share their work. So this module watches the pools once more, only for the index.

A kind that is not served has no pools. Pools that this program may not read are not compared.

The index has two states for the pools of a platform. After `SpaceIndex.expect` they are unknown,
and no overlaps are reported. After `SpaceIndex.settle` they are known.
"""

from collections.abc import Sequence
from functools import partial

import anyio

from controller.clock import Clock
from controller.errors import Forbidden
from controller.extension import Extension
from controller.informer import Informer
from controller.jobs import run_in_background
from controller.loggers import get_logger
from controller.manager import Manager
from controller.meta import Object
from controller.resource import Resource
from reconcilers.integrations.core.discovery import Discovery, ServedKindsLook, Work
from reconcilers.integrations.core.platforms import Platform
from reconcilers.spaces.feeding import feed
from reconcilers.spaces.index import SpaceIndex

LOOK_SECONDS = 1.0
"""Seconds between two checks of whether the API server forbids to read pools."""

_log = get_logger(__name__)
Served = frozenset[Resource[Object]]


class PoolSource:
    """Keeps the index of offers current for the pools of a platform.

    Args:
        manager: runs this service and its informers.
        spaces: the index of offers to update.
        platform: the platform whose pools are read.
    """

    def __init__(
        self, manager: Manager, clock: Clock, spaces: SpaceIndex, platform: Platform
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._spaces = spaces
        self._kinds = platform.compared_kinds
        self._resources = resources = platform.pools
        self._offers_of = platform.list_offers
        groups = sorted({resource.group for resource in resources})
        self._discovery = Discovery(
            manager,
            groups,
            find_served=self._find_served,
            is_sufficient=self._is_sufficient,
            on_stale=self._mark_pools_unknown,
            clock=clock,
        )
        spaces.expect(self._kinds)
        manager.add_service(f"pools/{resources[0].group}", self.run, leader_only=False)

    async def run(self) -> None:
        """Keep the index current, until cancelled."""
        try:
            await self._discovery.run(self._begin)
        finally:
            self._mark_pools_unknown()

    async def _find_served(self) -> Served:
        """Return the served kinds of pools.

        Raises:
            DiscoveryIncomplete: it is unknown whether one of the kinds is served.
        """
        look = ServedKindsLook(self._manager.client)
        served_kinds = frozenset(
            [kind for kind in self._resources if await look.find_first_served([kind]) is not None]
        )
        look.check_complete()
        return served_kinds

    def _is_sufficient(self, served_kinds: Served) -> bool:
        """Return whether all kinds of pools are served, so that discovery need not look again."""
        return served_kinds == frozenset(self._resources)

    def _mark_pools_unknown(self) -> None:
        """Mark the platform's pools as unknown in the index.

        This is done while nothing updates them, or while more kinds of pools may be served.
        """
        self._spaces.expect(self._kinds)

    def _begin(self, served_kinds: Served) -> Work | None:
        """Return a function that watches the pools; None if no kind of pools is served."""
        if not served_kinds:
            self._spaces.settle(self._kinds)  # a kind that is not served has no pools
            return None
        self._spaces.expect(self._kinds)  # until `_settle`
        # Other informers of the same kinds, those of the controllers, have metrics.
        extension = self._manager.create_extension(measured=False)
        informers = [
            extension.get_informer(kind) for kind in self._resources if kind in served_kinds
        ]
        return partial(self._follow, extension, informers)

    async def _follow(self, extension: Extension, informers: Sequence[Informer[Object]]) -> None:
        """Keep the offers of these pools in the index until cancelled."""
        stop_functions = [
            feed(self._spaces, informer.cache, partial(self._offers_of, informer.resource))
            for informer in informers
        ]
        try:
            async with run_in_background([extension.run]):
                await self._settle(informers)
                await anyio.sleep_forever()
        finally:
            self._mark_pools_unknown()
            for stop in stop_functions:
                stop()

    async def _settle(self, informers: Sequence[Informer[Object]]) -> None:
        """Wait until the pools are listed, then note in the index that they are known.

        If the API server forbids to list a kind, the index notes that the platform's pools are not
        compared. That ends once the kind can be listed.
        """
        while not all(
            informer.cache.is_synced or _is_forbidden(informer) for informer in informers
        ):
            with self._clock.move_on_after(LOOK_SECONDS):
                for informer in informers:
                    await informer.wait_synced()
        forbidden_informers = [informer for informer in informers if not informer.cache.is_synced]
        self._spaces.settle(self._kinds, compared=not forbidden_informers)
        for informer in forbidden_informers:
            _log.warning(
                "Pools may not be listed, so other pools are not compared with them",
                resource=informer.resource.full_name,
                error=str(informer.last_error),
            )
            await informer.wait_synced()
        self._spaces.settle(self._kinds)


def _is_forbidden(informer: Informer[Object]) -> bool:
    """Return whether the API server forbids to read a kind, as the last error's cause shows."""
    error = informer.last_error
    return error is not None and isinstance(error.__cause__, Forbidden)
