"""Networks in numbers, from what passes over them keep: a scrape costs what has changed."""

from collections.abc import Iterable
from datetime import datetime

from allocator import InvalidPool
from controller.clock import Clock
from reconcilers.integrations.core.journal import journal_of
from reconcilers.integrations.core.rules import settle
from reconcilers.integrations.core.views import PoolFigures
from reconcilers.integrations.vitistack.api import NetworkNamespace
from reconcilers.integrations.vitistack.ranges import NetworkSpace, space_of
from reconcilers.integrations.vitistack.reading import Reader
from reconcilers.integrations.vitistack.world import World, static_of


class NetworkFigures:
    """The figures of all networks that are served.

    Args:
        world: the caches.
        reader: keeps what is held of each network.
        clock: for ages.
    """

    def __init__(self, world: World, reader: Reader, clock: Clock) -> None:
        self._world = world
        self._reader = reader
        self._clock = clock

    def __call__(self) -> Iterable[PoolFigures]:
        """Return the figures of all networks with a static configuration."""
        now = self._clock.now()
        return [
            self._of(network, _space(network), now)
            for network in self._world.networks
            if self._world.is_ours(network) and static_of(network) is not None
        ]

    def _of(
        self, network: NetworkNamespace, space: NetworkSpace | None, now: datetime
    ) -> PoolFigures:
        key = network.metadata.key
        labels = (key.namespace, key.name)
        if space is None:
            found = [one for one in self._world.of_network(key) if one.waits]
            born = [one.metadata.creationTimestamp for one in found]
            since = min((one for one in born if one is not None), default=None)
            return PoolFigures(labels, 0, 0, 0, 0, len(found), _age(since, now))
        view = self._reader.cached(key, space)
        contents = view.contents
        with contents.space.trial():
            for promise in settle(journal_of(network.metadata), view).promises:
                if promise.range is not None:
                    contents.space.hold(promise.range)
            free = contents.space.free
        total = space.layout.total
        waiting, age = contents.waiting, _age(contents.oldest, now)
        return PoolFigures(labels, total, total - free, free, contents.outside, waiting, age)


def _space(network: NetworkNamespace) -> NetworkSpace | None:
    static = static_of(network)
    try:
        return space_of(static) if static is not None else None
    except InvalidPool:
        return None  # it hands out nothing, and says why itself


def _age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
