"""The figures of networks for metrics, from the holdings that passes over networks maintain."""

from collections.abc import Iterable
from functools import partial

from allocator import InvalidPool
from reconcilers.integrations.core.gauges import Labels
from reconcilers.integrations.core.heldparts import compute_capacity_with
from reconcilers.integrations.vitistack.api import JOURNALS, NETWORKS, NetworkNamespace
from reconcilers.integrations.vitistack.caches import VitistackCaches, find_static
from reconcilers.integrations.vitistack.ranges import NetworkSpace, parse_space
from reconcilers.integrations.vitistack.reading import VitistackReader
from reconcilers.pictures.poolpicture import FamilyFigures, PoolFigures
from reconcilers.promises.settling import settle
from reconcilers.promises.unreadable import find_unreadable
from reconcilers.spaces.offers import PoolName

METRICS = "butler_vitistack_network"
LABELS: Labels = {
    "namespace": lambda figures: figures.name.key.namespace,
    "network": lambda figures: figures.name.key.name,
}


class NetworkFigures:
    """Computes the figures of all served networks from the holdings that passes keep.

    The holdings are updated by changes only, so a scrape does not read all IPAllocations.

    Args:
        reader: keeps what is held of each network.
    """

    def __init__(self, caches: VitistackCaches, reader: VitistackReader) -> None:
        self._caches = caches
        self._reader = reader

    def __call__(self) -> Iterable[PoolFigures]:
        """Return the figures of all networks of our provider with static settings."""
        return [
            self._compute_figures(network, _find_space(network))
            for network in self._caches.networks
            if self._caches.is_ours(network) and find_static(network) is not None
        ]

    def _compute_figures(
        self, network: NetworkNamespace, space: NetworkSpace | None
    ) -> PoolFigures:
        """Return the figures of a network.

        Args:
            space: the addresses that it hands out; None if its settings are invalid. Then the
                figures tell only how many IPAllocations wait, and since when.
        """
        key = network.metadata.key
        name = PoolName(NETWORKS.kind, key)
        if space is None:
            waiting = [
                allocation
                for allocation in self._caches.list_allocations_in(key)
                if allocation.waits
            ]
            created = [allocation.metadata.creationTimestamp for allocation in waiting]
            since = min((moment for moment in created if moment is not None), default=None)
            return PoolFigures(name, "", families=(), waiting=len(waiting), waiting_since=since)
        view = self._reader.read_cached(key, space)
        holdings = view.holdings
        promises = settle(JOURNALS.read(network), JOURNALS.kind, view).promises
        promised = [part for promise in promises for part in promise.list_ranges_in_space()]
        capacity = compute_capacity_with(holdings.get_space(), promised)
        check = partial(self._caches.check_readable, key, self._caches.allocations.unreadable)
        return PoolFigures(
            name,
            "",
            families=(FamilyFigures(capacity, holdings.outside_count),),
            waiting=holdings.waiting_count,
            waiting_since=holdings.oldest_wait,
            is_known=not find_unreadable(check),
        )


def _find_space(network: NetworkNamespace) -> NetworkSpace | None:
    """Return the space of a network; None if it is not static or its settings are invalid."""
    static = find_static(network)
    try:
        return parse_space(static) if static is not None else None
    except InvalidPool:
        return None  # it hands out nothing; an event on the network says why
