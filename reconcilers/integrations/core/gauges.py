"""Metrics of the pools of one integration, read from its caches at a scrape.

They are shown by the replica that serves the kinds.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry
from typing_extensions import override

from controller.clock import Clock
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


UNKNOWN_TOGETHER = {"used", "free"}
"""What is not shown of a pool while an object that may hold some of it cannot be decoded."""


class PoolGauges(Collector):
    """Collects the metrics of all pools at a scrape.

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
                if one.is_known or name not in UNKNOWN_TOGETHER:
                    family.add_metric(one.labels, value(one))
            yield family


class KeptFigures:
    """Figures that are worked out at a scrape, unless nothing changed since the one before.

    Args:
        work_out: returns the figures of all pools at a time.
        clock: the time.
    """

    def __init__(
        self, work_out: Callable[[datetime], Iterable[PoolFigures]], clock: Clock
    ) -> None:
        self._work_out = work_out
        self._clock = clock
        self._kept: list[PoolFigures] | None = None
        self._made = clock.now()

    def note(self, change: object) -> None:
        """Note that something changed that the figures depend on; subscribe this to caches."""
        del change
        self._kept = None

    def __call__(self) -> Iterable[PoolFigures]:
        """Return the figures of all pools; who waits has waited since the last scrape, too."""
        now = self._clock.now()
        if self._kept is None:
            self._kept, self._made = list(self._work_out(now)), now
        passed = (now - self._made).total_seconds()
        return [
            replace(one, oldest=one.oldest + passed) if one.waiting else one for one in self._kept
        ]


def with_gauges(
    gauges: PoolGauges, registry: CollectorRegistry, run: Callable[[], Coroutine[Any, Any, None]]
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
