"""What a controller tells Prometheus, under the names that controller-runtime uses.

The names, labels and buckets are controller-runtime's, so its dashboards and alerts work
unchanged. Each manager has a registry of its own: a global one would mix managers in a process,
and tests. Series exist from the start at 0, so that a first failure is seen as a rise.
"""

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector
from typing_extensions import override

from controller.endpoint import RequestObserver
from controller.informermetrics import InformerMetrics, InformerSeries
from controller.queuemetrics import QueueMetrics, QueueSeries
from controller.requestmetrics import RequestSeries
from controller.servingmetrics import CertificateSeries, WebhookSeries

RECONCILE_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30),
    *(40, 50, 60),
)
RESULTS = ("success", "error", "requeue", "requeue_after")


class ReconcileMetrics:
    """The series of one controller.

    Args:
        family: where the series belong.
        name: the controller's name, the label `controller`.
        concurrency: how many keys it works on at once at most.
    """

    def __init__(self, family: "Metrics", name: str, concurrency: int) -> None:
        self._results = {r: family.reconcile_total.labels(name, r) for r in RESULTS}
        self.errors = family.reconcile_errors.labels(name)
        self.terminal_errors = family.terminal_errors.labels(name)
        self.panics = family.reconcile_panics.labels(name)
        self.seconds = family.reconcile_seconds.labels(name)
        self.active = family.active_workers.labels(name)
        self.timeouts = family.reconcile_timeouts.labels(name)
        family.max_concurrent.labels(name).set(concurrency)

    def ended(self, result: str, seconds: float) -> None:
        """Count one reconciliation: its result (one of RESULTS) and how long it took."""
        self._results[result].inc()
        self.seconds.observe(seconds)
        if result == "error":
            self.errors.inc()


class Metrics:
    """All series of one manager.

    Args:
        registry: where they are registered; a new one by default.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry: CollectorRegistry = registry or CollectorRegistry()
        self._exposed = CollectorRegistry()
        self._exposed.register(_WithoutBirths(self.registry))
        self._queues = QueueSeries(self.registry)
        self._requests = RequestSeries(self.registry)
        self._informers = InformerSeries(self.registry)
        self.webhooks = WebhookSeries(self.registry)
        """The series of webhooks."""
        self.certificates = CertificateSeries(self.registry)
        """How reading serving certificates went."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._reconciling()
        self.leader_status = Gauge(
            "leader_election_master_status",
            "Whether this process holds the lease: 1 if it does, 0 if it is a standby.",
            ["name"],
            registry=self.registry,
        )
        self.events_dropped = Counter(
            "controller_events_dropped_total",
            "Events that were not recorded, by why: queue full, limited by object, or refused.",
            ["reason"],
            registry=self.registry,
        )
        for reason in ("full", "limited", "refused"):
            self.events_dropped.labels(reason)
        self.service_restarts = Counter(
            "controller_service_restarts_total",
            "How often a service of the manager failed and was started again.",
            ["service"],
            registry=self.registry,
        )

    def controller(self, name: str, concurrency: int) -> ReconcileMetrics:
        """Return the series of the controller called `name`, all at 0.

        Args:
            name: the label `controller`.
            concurrency: how many keys it works on at once at most.
        """
        return ReconcileMetrics(self, name, concurrency)

    def queue(self, name: str) -> QueueMetrics:
        """Return an observer for the queue of the controller called `name`."""
        return self._queues.queue(name)

    def requests(self, server: str) -> RequestObserver:
        """Return what counts requests to an API server.

        Args:
            server: its URL; the host in it is the label `host`.
        """
        return self._requests.observer(server)

    def informer(self, name: str) -> InformerMetrics:
        """Return an observer for the informer of the kind called `name`."""
        return self._informers.informer(name)

    def exposition(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._exposed)

    def _reconciling(self) -> None:
        per_controller = ["controller"]
        self.reconcile_total = Counter(
            "controller_runtime_reconcile_total",
            "Reconciliations by result.",
            ["controller", "result"],
            registry=self.registry,
        )
        self.reconcile_errors = self._counter("reconcile_errors", "that ended in an error")
        self.terminal_errors = self._counter(
            "terminal_reconcile_errors", "that ended in an error that is not retried"
        )
        self.reconcile_panics = self._counter(
            "reconcile_panics", "that raised what is no error of the API: a bug"
        )
        self.reconcile_timeouts = self._counter("reconcile_timeouts", "that ran out of time")
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconciliation took.",
            per_controller,
            buckets=RECONCILE_SECONDS,
            registry=self.registry,
        )
        self.max_concurrent = Gauge(
            "controller_runtime_max_concurrent_reconciles",
            "How many keys the controller works on at once at most.",
            per_controller,
            registry=self.registry,
        )
        self.active_workers = Gauge(
            "controller_runtime_active_workers",
            "How many keys the controller is working on.",
            per_controller,
            registry=self.registry,
        )

    def _counter(self, name: str, which: str) -> Counter:
        return Counter(
            f"controller_runtime_{name}_total",
            f"Reconciliations {which}.",
            ["controller"],
            registry=self.registry,
        )


class _WithoutBirths(Collector):
    """What a registry collects, less the moments at which counters were made.

    prometheus_client adds a `_created` series to each counter and histogram. Go's client has
    none, nobody looks at them, and they are a fifth of all lines. Its switch for that is global.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    @override
    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            kept = Metric(family.name, family.documentation, family.type, family.unit)
            kept.samples = [one for one in family.samples if not one.name.endswith("_created")]
            yield kept
