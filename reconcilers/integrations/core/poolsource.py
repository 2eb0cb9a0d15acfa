"""Reads what pools of a platform's kinds hand out, in every replica.

The controllers of an integration run in one replica, or share their work. What pools hand out is
compared in all of them: NetworkPools belong to any shard, and each replica answers webhooks. So
the pools are watched here once more, and for nothing else. A kind that is not served has no pools.
Where pools may not be read, nothing is compared with them.
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
"""Between two looks whether pools may not be read."""

_log = get_logger(__name__)
Served = frozenset[Resource[Object]]


class PoolSource:
    """Keeps the index of offers current from the pools of a platform.

    Args:
        manager: runs it.
        clock: the time.
        platform: whose pools are read.
    """

    def __init__(
        self, manager: Manager, clock: Clock, spaces: SpaceIndex, platform: Platform
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._spaces = spaces
        self._kinds = platform.compared_as
        self._resources = resources = platform.pools
        self._offers_of = platform.offers_of
        groups = sorted({resource.group for resource in resources})
        self._discovery = Discovery(
            manager,
            groups,
            find_served=self._find_served,
            suffices=self._suffices,
            doubt=self._doubt,
            clock=clock,
        )
        spaces.expect(self._kinds)
        manager.add_service(f"pools/{resources[0].group}", self.run, leader_only=False)

    async def run(self) -> None:
        """Keep the index current, until cancelled."""
        try:
            await self._discovery.run(self._begin)
        finally:
            self._doubt()

    async def _find_served(self) -> Served:
        look = ServedKindsLook(self._manager.client)
        served_kinds = frozenset(
            [kind for kind in self._resources if await look.first_served([kind]) is not None]
        )
        look.check_complete()
        return served_kinds

    def _suffices(self, served_kinds: Served) -> bool:
        """Return whether all kinds of pools are served, so that no other has to be looked for."""
        return served_kinds == frozenset(self._resources)

    def _doubt(self) -> None:
        self._spaces.expect(self._kinds)

    def _begin(self, served_kinds: Served) -> Work | None:
        if not served_kinds:
            self._spaces.settle(self._kinds)  # a kind that is not served has no pools
            return None
        self._spaces.expect(self._kinds)
        extension = self._manager.extension(measured=False)
        informers = [extension.informer(kind) for kind in self._resources if kind in served_kinds]
        return partial(self._follow, extension, informers)

    async def _follow(self, extension: Extension, informers: Sequence[Informer[Object]]) -> None:
        """Keep the offers of these pools in the index until cancelled."""
        closes = [
            feed(self._spaces, informer.cache, partial(self._offers_of, informer.resource))
            for informer in informers
        ]
        try:
            async with run_in_background([extension.run]):
                await self._settle(informers)
                await anyio.sleep_forever()
        finally:
            self._doubt()
            for close in closes:
                close()

    async def _settle(self, informers: Sequence[Informer[Object]]) -> None:
        """Note that the pools are known once they have been read, or that they may not be."""
        while not all(informer.cache.synced or _is_forbidden(informer) for informer in informers):
            with self._clock.move_on_after(LOOK_SECONDS):
                for informer in informers:
                    await informer.wait_synced()
        refused = [informer for informer in informers if not informer.cache.synced]
        self._spaces.settle(self._kinds, compared=not refused)
        for informer in refused:
            _log.warning(
                "Pools may not be listed, so other pools are not compared with them",
                resource=informer.resource.full_name,
                error=str(informer.last_error),
            )
            await informer.wait_synced()
        self._spaces.settle(self._kinds)


def _is_forbidden(informer: Informer[Object]) -> bool:
    error = informer.last_error
    return error is not None and isinstance(error.__cause__, Forbidden)
