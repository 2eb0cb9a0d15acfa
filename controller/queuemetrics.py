"""Prometheus metrics of work queues, with the names of client-go and controller-runtime."""

from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from typing_extensions import override

from controller.workqueue import QueueObserver, QueueStatistics

BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
MAX_PRIORITIES = 25
"""So many priorities of a queue have series of their own."""
OTHER_PRIORITIES = "exceeded_cardinality_limit"
"""The label `priority` of all priorities after the first MAX_PRIORITIES."""


class QueueFamilies:
    """The metric families that all queues of a registry share.

    Args:
        registry: where the families are registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["name", "controller"]
        self.depth = Gauge(
            "workqueue_depth",
            "Keys that are ready and wait for a worker.",
            [*labels, "priority"],
            registry=registry,
        )
        self.adds = Counter(
            "workqueue_adds_total", "Keys that became ready.", labels, registry=registry
        )
        self.retries = Counter(
            "workqueue_retries_total",
            "Keys added with a delay.",
            labels,
            registry=registry,
        )
        self.queued = Histogram(
            "workqueue_queue_duration_seconds",
            "How long a key was ready before a worker took it.",
            labels,
            buckets=BUCKETS,
            registry=registry,
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds",
            "How long a key was processed.",
            labels,
            buckets=BUCKETS,
            registry=registry,
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds spent so far on keys in processing, added up; growth means stuck workers.",
            labels,
            registry=registry,
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds spent so far on the key in processing for longest.",
            labels,
            registry=registry,
        )


class QueueMetrics(QueueObserver):
    """The metrics of one queue.

    Args:
        families: the metric families of the registry.
        name: the labels `name` and `controller`; a queue has the name of its controller.
    """

    def __init__(self, families: QueueFamilies, name: str) -> None:
        self._families = families
        self._name = name
        self._adds = families.adds.labels(name, name)
        self._retries = families.retries.labels(name, name)
        self._queued = families.queued.labels(name, name)
        self._worked = families.worked.labels(name, name)
        # Plain numbers by label, which are read at each scrape: a gauge takes a lock for each
        # change, and each key changes its depth twice.
        self._depths: dict[str, int] = {}
        self._labels: dict[int, str] = {}
        self._add_depth(0, 0)  # so that the series of priority 0 exists from the start

    def set_gauge_functions(self, get_statistics: Callable[[], QueueStatistics]) -> None:
        """Let the gauges of the keys in processing call `get_statistics` at each scrape."""
        labels = (self._name, self._name)
        self._families.unfinished.labels(*labels).set_function(
            lambda: get_statistics().unfinished_seconds
        )
        self._families.longest.labels(*labels).set_function(
            lambda: get_statistics().longest_running_seconds
        )

    def remove_gauges(self) -> None:
        """Remove the gauges of a queue whose controller has ended."""
        labels = (self._name, self._name)
        self._families.unfinished.remove(*labels)
        self._families.longest.remove(*labels)
        for priority in self._depths:
            self._families.depth.remove(*labels, priority)

    @override
    def note_added(self, priority: int) -> None:
        """Count a key that became ready, and add it to the depth of its priority."""
        self._adds.inc()
        self._add_depth(priority, 1)

    @override
    def note_raised(self, before: int, after: int) -> None:
        """Move one key from the depth of a priority to that of another."""
        self._add_depth(before, -1)
        self._add_depth(after, 1)

    @override
    def note_taken(self, priority: int, waited: float) -> None:
        """Take a key off the depth of its priority; observe for how many seconds it was ready."""
        self._add_depth(priority, -1)
        self._queued.observe(waited)

    @override
    def note_processed(self, worked: float) -> None:
        """Observe for how many seconds a key was processed."""
        self._worked.observe(worked)

    @override
    def note_delayed(self) -> None:
        """Count a key that was added with a delay."""
        self._retries.inc()

    @override
    def note_dropped(self, depths: Mapping[int, int]) -> None:
        """Subtract removed keys from the depths of their priorities."""
        for priority, count in depths.items():
            self._add_depth(priority, -count)

    def _add_depth(self, priority: int, count: int) -> None:
        """Change the depth of a priority; priorities beyond the limit share one series."""
        if priority not in self._labels and len(self._labels) < MAX_PRIORITIES:
            self._labels[priority] = str(priority)
        # A priority beyond the limit is not entered: there may be any number of them.
        label = self._labels.get(priority, OTHER_PRIORITIES)
        if label not in self._depths:
            self._depths[label] = 0
            gauge = self._families.depth.labels(self._name, self._name, label)
            gauge.set_function(partial(self._depths.__getitem__, label))
        self._depths[label] += count
