"""Metrics of the pools of one integration, read from its caches at a scrape.

They are shown by the replica that serves the kinds.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

from controller.clock import Clock
from reconcilers.pictures.poolpicture import FamilyFigures, PoolFigures

Labels = Mapping[str, Callable[[PoolFigures], str]]
"""The labels of a metric, and what stands in each of them."""


def _sum(value: Callable[[FamilyFigures], int]) -> Callable[[PoolFigures], int]:
    """Return the sum of a figure over the families of a pool."""
    return lambda figures: sum(map(value, figures.families))


GAUGES: Sequence[tuple[str, str, Callable[[PoolFigures], int]]] = (
    (
        "total",
        "Addresses, or prefixes, that {} may hand out.",
        _sum(lambda family: family.capacity.total),
    ),
    (
        "used",
        "Of these, how many are in use.",
        _sum(lambda family: family.capacity.allocated),
    ),
    (
        "free",
        "Of these, how many can be handed out now.",
        _sum(lambda family: family.capacity.available),
    ),
    (
        "out_of_range",
        "What is in use that {} may not hand out.",
        _sum(lambda family: family.outside),
    ),
    ("waiting", "How many wait for addresses of {}.", lambda figures: figures.waiting),
)
OLDEST = "oldest_waiting_seconds"
UNKNOWN_TOGETHER = {"used", "free"}
"""What is not shown of a pool while an object that may hold some of it cannot be decoded."""


class PoolGauges(Collector):
    """Collects the metrics of all pools at a scrape.

    Args:
        prefix: of the metrics' names.
        subject: of the counts, in a sentence.
        labels: the labels of the metrics.
        list_figures: returns the figures of all pools.
        clock: for ages.
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
        self._what = subject
        self._labels = labels
        self._list_figures = list_figures
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """Return no metrics, so that registering these reads no cache."""
        return ()

    @override
    def collect(self) -> Iterator[Metric]:
        pools = list(self._list_figures())
        for name, description, value in GAUGES:
            family = self._gauge(name, description)
            for figures in pools:
                if figures.is_known or name not in UNKNOWN_TOGETHER:
                    family.add_metric(self._label(figures), value(figures))
            yield family
        oldest = self._gauge(OLDEST, "For how long the oldest has waited for addresses of {}.")
        now = self._clock.now()
        for figures in pools:
            since = figures.waiting_since
            age = max(0.0, (now - since).total_seconds()) if since is not None else 0.0
            oldest.add_metric(self._label(figures), age)
        yield oldest

    def _gauge(self, name: str, description: str) -> GaugeMetricFamily:
        description = description.format(self._what)
        return GaugeMetricFamily(f"{self._prefix}_{name}", description, labels=[*self._labels])

    def _label(self, figures: PoolFigures) -> list[str]:
        return [label(figures) for label in self._labels.values()]


class KeptFigures:
    """Figures that are computed at a scrape, and reused while nothing changes.

    Args:
        list_figures: returns the figures of all pools.
    """

    def __init__(self, list_figures: Callable[[], Iterable[PoolFigures]]) -> None:
        self._list_figures = list_figures
        self._kept: list[PoolFigures] | None = None

    def note(self, change: object) -> None:
        """Drop the figures after a change of an object; subscribe this to the caches."""
        del change
        self._kept = None

    def __call__(self) -> Iterable[PoolFigures]:
        """Return the figures of all pools."""
        if self._kept is None:
            self._kept = list(self._list_figures())
        return self._kept


def with_gauges(
    gauges: Collector, registry: CollectorRegistry, run: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return work whose metrics are registered while it runs.

    Args:
        gauges: the metrics.
        registry: where they are registered.
        run: the work.
    """

    async def running() -> None:
        registry.register(gauges)
        try:
            await run()
        finally:
            registry.unregister(gauges)

    return running
