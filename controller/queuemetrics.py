"""The work queue's series, under the names that client-go and controller-runtime use."""

from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from typing_extensions import override

from controller.queueview import QueueObserver, QueueStatistics

BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))
MAX_PRIORITIES = 25
BEYOND = "exceeded_cardinality_limit"


class QueueSeries:
    """The families that all queues of a registry share."""

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
            "workqueue_retries_total", "Keys that were put off.", labels, registry=registry
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
            "How long the work on a key took.",
            labels,
            buckets=BUCKETS,
            registry=registry,
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Time spent so far on the keys in work, added up; growth means stuck workers.",
            labels,
            registry=registry,
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Time spent so far on the key that is longest in work.",
            labels,
            registry=registry,
        )

    def queue(self, name: str) -> "QueueMetrics":
        """Return the series of the queue called `name`; a queue is named as its controller."""
        return QueueMetrics(self, name)


class QueueMetrics(QueueObserver):
    """The series of one queue."""

    def __init__(self, family: QueueSeries, name: str) -> None:
        self._family = family
        self._name = name
        self._adds = family.adds.labels(name, name)
        self._retries = family.retries.labels(name, name)
        self._queued = family.queued.labels(name, name)
        self._worked = family.worked.labels(name, name)
        # Plain numbers that are read at each scrape: a gauge takes a lock for each of its changes,
        # and a key makes two.
        self._depths: dict[str, int] = {}
        self._labels: dict[int, str] = {}
        self._deepen(0, 0)

    def watch(self, statistics: Callable[[], QueueStatistics]) -> None:
        """Read from `statistics`, at each scrape, what only the present moment can tell."""
        labels = (self._name, self._name)
        self._family.unfinished.labels(*labels).set_function(
            lambda: statistics().unfinished_seconds
        )
        self._family.longest.labels(*labels).set_function(
            lambda: statistics().longest_running_seconds
        )

    @override
    def added(self, priority: int) -> None:
        self._adds.inc()
        self._deepen(priority, 1)

    @override
    def moved(self, before: int, after: int) -> None:
        self._deepen(before, -1)
        self._deepen(after, 1)

    @override
    def taken(self, priority: int, waited: float) -> None:
        self._deepen(priority, -1)
        self._queued.observe(waited)

    @override
    def done(self, worked: float) -> None:
        self._worked.observe(worked)

    @override
    def retried(self) -> None:
        self._retries.inc()

    @override
    def dropped(self, depths: Mapping[int, int]) -> None:
        for priority, count in depths.items():
            self._deepen(priority, -count)

    def _deepen(self, priority: int, by: int) -> None:
        label = self._labels.get(priority)
        if label is None:
            label = str(priority) if len(self._labels) < MAX_PRIORITIES else BEYOND
            self._labels[priority] = label
        if label not in self._depths:
            self._depths[label] = 0
            gauge = self._family.depth.labels(self._name, self._name, label)
            gauge.set_function(partial(self._depths.__getitem__, label))
        self._depths[label] += by
