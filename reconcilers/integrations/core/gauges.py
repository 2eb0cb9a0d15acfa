"""Metrics of the pools of one integration, read from its caches at each scrape.

No number is kept, so none can be stale. They are shown by the replica that serves the kinds.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

from reconcilers.integrations.core.views import PoolFigures

GAUGES: Sequence[tuple[str, str, Callable[[PoolFigures], float]]] = (
    ("total", "Addresses, or prefixes, that {} may hand out.", lambda one: one.total),
    ("used", "Of these, how many are in use.", lambda one: one.used),
    ("free", "Of these, how many can be handed out now.", lambda one: one.free),
    ("out_of_range", "What is in use that {} may not hand out.", lambda one: one.outside),
    ("waiting", "How many wait for addresses of {}.", lambda one: one.waiting),
    (
        "oldest_waiting_seconds",
        "For how long the oldest has waited for addresses of {}.",
        lambda one: one.oldest,
    ),
)


class PoolGauges(Collector):
    """Shows them.

    Args:
        prefix: of the metrics' names.
        what: what is counted, in a sentence.
        labels: the names of the labels.
        figures: returns the figures of all pools.
    """

    def __init__(
        self,
        prefix: str,
        what: str,
        labels: Sequence[str],
        figures: Callable[[], Iterable[PoolFigures]],
    ) -> None:
        self._prefix = prefix
        self._what = what
        self._labels = labels
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        """Return nothing: what there is depends on the caches, so there is nothing to check."""
        return ()

    @override
    def collect(self) -> Iterator[Metric]:
        every = list(self._figures())
        for name, text, value in GAUGES:
            family = GaugeMetricFamily(
                f"{self._prefix}_{name}", text.format(self._what), labels=self._labels
            )
            for one in every:
                family.add_metric(one.labels, value(one))
            yield family


def shown(
    gauges: PoolGauges, registry: CollectorRegistry, run: Callable[[], Coroutine[Any, Any, None]]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return work that shows metrics while it runs.

    Args:
        gauges: the metrics.
        registry: where they are shown.
        run: the work.
    """

    async def running() -> None:
        registry.register(gauges)
        try:
            await run()
        finally:
            registry.unregister(gauges)

    return running
