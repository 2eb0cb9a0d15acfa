"""Metrics of the pools of one integration, read from its caches at a scrape.

Only the replica that runs the integration's controllers exports them. The *figures* of a pool are
its numbers: addresses in all, in use, free, and requests that wait. A *metric family* is one
metric name with its values for all label sets.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

from controller.clock import Clock
from reconcilers.pictures.poolpicture import FamilyFigures, PoolFigures

Labels = Mapping[str, Callable[[PoolFigures], str]]
"""By name of a label, a function that returns its value for a pool."""


def _sum_families(get_figure: Callable[[FamilyFigures], int]) -> Callable[[PoolFigures], int]:
    """Return a function that adds up one figure over the address families of a pool."""
    return lambda figures: sum(map(get_figure, figures.families))


GAUGES: Sequence[tuple[str, str, Callable[[PoolFigures], int]]] = (
    (
        "total",
        "Addresses, or prefixes, that {} may hand out.",
        _sum_families(lambda family: family.capacity.total),
    ),
    (
        "used",
        "Addresses, or prefixes, of {} that are in use.",
        _sum_families(lambda family: family.capacity.allocated),
    ),
    (
        "free",
        "Addresses, or prefixes, that {} can hand out now.",
        _sum_families(lambda family: family.capacity.available),
    ),
    (
        "out_of_range",
        "Addresses, or prefixes, that are in use and that {} may not hand out.",
        _sum_families(lambda family: family.outside),
    ),
    ("waiting", "Requests that wait for addresses of {}.", lambda figures: figures.waiting),
)
"""Of each metric: the end of its name, its description with {} for the kind of pool, its value."""
OLDEST = "oldest_waiting_seconds"
"""The end of the name of the metric for the age of the oldest request that waits."""
UNKNOWN_TOGETHER = {"used", "free"}
"""Gauges that are left out for a pool while an object that may hold its addresses cannot be
decoded: such an object may change these numbers."""


class PoolGauges(Collector):
    """Collects the metrics of all pools at a scrape.

    Args:
        prefix: the beginning of the metrics' names.
        subject: the kind of pool with its article, for the descriptions.
        labels: the labels of the metrics.
        list_figures: returns the figures of all pools.
        clock: the time, for the age of the oldest request.
    """

    def __init__(
        self,
        prefix: str,
        subject: str,
        labels: Labels,
        list_figures: Callable[[], Iterable[PoolFigures]],
        *,
        clock: Clock,
    ) -> None:
        self._prefix = prefix
        self._subject = subject
        self._labels = labels
        self._list_figures = list_figures
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, so that registering these reads no cache."""
        return ()

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield a metric family for each of GAUGES, and one for the age of the oldest request.

        The age is 0.0 for a pool if no request waits, or if it is not known since when.
        """
        pools = list(self._list_figures())
        for name, description, value in GAUGES:
            family = self._make_family(name, description)
            for figures in pools:
                if figures.is_known or name not in UNKNOWN_TOGETHER:
                    family.add_metric(self._list_label_values(figures), value(figures))
            yield family
        oldest = self._make_family(
            OLDEST,
            "Seconds since the oldest waiting request for addresses of {} was made; 0 for none.",
        )
        now = self._clock.now()
        for figures in pools:
            since = figures.waiting_since
            # The time comes from another clock, so it may be ahead of ours.
            age = max(0.0, (now - since).total_seconds()) if since is not None else 0.0
            oldest.add_metric(self._list_label_values(figures), age)
        yield oldest

    def _make_family(self, name: str, description: str) -> GaugeMetricFamily:
        """Return a metric family without values.

        Args:
            name: the end of the metric's name.
            description: with {} for the kind of pool.
        """
        description = description.format(self._subject)
        return GaugeMetricFamily(f"{self._prefix}_{name}", description, labels=[*self._labels])

    def _list_label_values(self, figures: PoolFigures) -> list[str]:
        """Return the values of the labels for a pool, in the order of the labels."""
        return [get_value(figures) for get_value in self._labels.values()]


class ObservedCache(Protocol):
    """The part of a cache that reports changes of its objects, whatever their type."""

    def subscribe(self, subscriber: Callable[[object], None], /) -> None:
        """Call `subscriber` with every change."""
        ...

    def subscribe_unreadable(self, subscriber: Callable[[object], None], /) -> None:
        """Call `subscriber` with the key of each object that is or was undecodable."""
        ...


class KeptFigures:
    """Figures that are computed at a scrape, and reused until an object changes.

    Args:
        list_figures: returns the figures of all pools.
    """

    def __init__(self, list_figures: Callable[[], Iterable[PoolFigures]]) -> None:
        self._list_figures = list_figures
        self._kept: list[PoolFigures] | None = None

    def drop_on_changes_of(self, cache: ObservedCache) -> None:
        """Drop the figures whenever an object of a cache changes or cannot be decoded."""
        cache.subscribe(self.drop)
        # An object that cannot be decoded stays in the cache as it was, so this is no change.
        cache.subscribe_unreadable(self.drop)

    def drop(self, change: object) -> None:
        """Drop the figures after a change of an object."""
        del change
        self._kept = None

    def __call__(self) -> Iterable[PoolFigures]:
        """Return the figures of all pools, computed again only after a change."""
        if self._kept is None:
            self._kept = list(self._list_figures())
        return self._kept


def wrap_with_gauges(
    gauges: Collector, registry: CollectorRegistry, run: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a function that runs `run`, with `gauges` registered as long as it runs."""

    async def run_registered() -> None:
        """Register the metrics, run, and unregister them at the end."""
        registry.register(gauges)
        try:
            await run()
        finally:
            registry.unregister(gauges)

    return run_registered
