"""Prometheus metrics of a manager: reconciliations, requests, informers, election, events.

Names, labels and buckets are controller-runtime's and client-go's, so their dashboards and alerts
work unchanged. Names that begin with `controller_` without `runtime` are our own. The metrics of
work queues are in queuemetrics.py; those of webhooks and certificates are with their code.

Each manager has a registry of its own: a global registry would mix the managers of one process.
All series exist from the start with the value 0, so that the first failure is an increase.
"""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

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
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from typing_extensions import override

from controller.endpoint import RequestObserver
from controller.queuemetrics import QueueFamilies, QueueMetrics
from controller.watch import REASONS, WatchObserver

RECONCILE_SECONDS = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8),
    *(0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30),
    *(40, 50, 60),
)
REQUEST_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
RESULTS = ("success", "error", "requeue", "requeue_after")
"""The values of the label `result` of reconciliations."""


class ReconcileMetrics:
    """The metrics of one controller.

    Args:
        families: the metrics of the manager.
        name: the controller's name, for the label `controller`.
        concurrency: how many keys it processes at once at most.
    """

    def __init__(self, families: "Metrics", name: str, concurrency: int) -> None:
        self._results = {
            result: families.reconcile_total.labels(name, result) for result in RESULTS
        }
        self.errors = families.reconcile_errors.labels(name)
        self.terminal_errors = families.terminal_errors.labels(name)
        self.panics = families.reconcile_panics.labels(name)
        self.seconds = families.reconcile_seconds.labels(name)
        self.active = families.active_workers.labels(name)
        self.timeouts = families.reconcile_timeouts.labels(name)
        families.max_concurrent.labels(name).set(concurrency)

    def count_reconciliation(self, result: str, seconds: float) -> None:
        """Count a reconciliation with its result, one of RESULTS, and its duration.

        The result `error` is counted by a metric of its own, too, as in controller-runtime.
        """
        self._results[result].inc()
        self.seconds.observe(seconds)
        if result == "error":
            self.errors.inc()


class InformerMetrics(WatchObserver):
    """The metrics of one informer, or of the informers of one kind in many clusters.

    Args:
        families: the metrics of the manager.
        name: the kind's full name, for the label `resource`.
    """

    def __init__(self, families: "Metrics", name: str) -> None:
        self._families = families
        self._name = name
        self._restarts = {
            reason: families.watch_restarts.labels(name, reason) for reason in REASONS
        }
        self._lists = families.lists.labels(name)
        self._undelivered = families.undelivered.labels(name)

    @override
    def note_restart(self, reason: str) -> None:
        """Count a watch that ended for a reason of REASONS."""
        self._restarts[reason].inc()

    @override
    def note_undelivered(self) -> None:
        """Count a change on which a handler raised."""
        self._undelivered.inc()

    @override
    def note_listed(self) -> None:
        """Count a complete list."""
        self._lists.inc()

    def set_gauge_functions(
        self,
        silent_seconds: Callable[[], float],
        lag_seconds: Callable[[], float],
        objects: Callable[[], int],
    ) -> None:
        """Let the gauges of the watch and its cache call these functions at each scrape.

        Args:
            silent_seconds: returns the seconds since the last list, event or bookmark.
            lag_seconds: returns the age in seconds of the oldest own write that the watch has not
                delivered; 0 if there is none.
            objects: returns the number of cached objects.
        """
        self._families.watch_silence.labels(self._name).set_function(silent_seconds)
        self._families.cache_lag.labels(self._name).set_function(lag_seconds)
        self._families.cache_objects.labels(self._name).set_function(lambda: float(objects()))

    def set_gap_gauge_functions(
        self, unreadable: Callable[[], int], unlisted: Callable[[], int]
    ) -> None:
        """Let the gauges of unreadable objects and missing lists call functions at each scrape.

        Args:
            unreadable: returns the number of objects that cannot be decoded or indexed.
            unlisted: returns the number of informers without a first list.
        """
        families = self._families
        families.unreadable.labels(self._name).set_function(lambda: float(unreadable()))
        families.unlisted.labels(self._name).set_function(lambda: float(unlisted()))

    def remove_gauges(self) -> None:
        """Remove the gauges, because their functions would keep the cache of an ended informer."""
        families = self._families
        for gauge in (
            families.watch_silence,
            families.cache_lag,
            families.cache_objects,
            families.unreadable,
            families.unlisted,
        ):
            gauge.remove(self._name)


class UnmeasuredInformer(InformerMetrics):
    """Keeps no metrics, for an informer of a kind that another informer of the process measures.

    Args:
        name: the kind's full name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @override
    def note_restart(self, reason: str) -> None:
        """Count nothing."""

    @override
    def note_undelivered(self) -> None:
        """Count nothing."""

    @override
    def note_listed(self) -> None:
        """Count nothing."""

    @override
    def set_gauge_functions(
        self,
        silent_seconds: Callable[[], float],
        lag_seconds: Callable[[], float],
        objects: Callable[[], int],
    ) -> None:
        """Show no gauges."""

    @override
    def set_gap_gauge_functions(
        self, unreadable: Callable[[], int], unlisted: Callable[[], int]
    ) -> None:
        """Show no gauges."""

    @override
    def remove_gauges(self) -> None:
        """Remove nothing."""


class Metrics:
    """All metrics of one manager.

    Args:
        registry: where the metrics are registered; a new registry by default.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry: CollectorRegistry = registry or CollectorRegistry()
        """Other metrics of the process can be registered here, too."""
        self._exposed = CollectorRegistry()
        self._exposed.register(_WithoutCreated(self.registry))
        self._queues = QueueFamilies(self.registry)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._add_reconcile_families()
        self._add_informer_families()
        self._requests_total = Counter(
            "rest_client_requests_total",
            "Requests to the API server by HTTP status code; <error> if no response came.",
            ["code", "method", "host"],
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Seconds until the headers of the API server's response came.",
            ["verb", "host"],
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self.leader_status = self._create_gauge(
            "leader_election_master_status",
            "Whether this process holds the lease: 1 if it does, 0 if it is a standby.",
            "name",
        )
        self.election_failures = Counter(
            "leader_election_failed_attempts_total",
            "Attempts at the lease, or at those of shards, that failed by another cause than a"
            " race: the server refused the request or did not answer.",
            ["name"],
            registry=self.registry,
        )
        self.events_dropped = Counter(
            "controller_events_dropped_total",
            "Events that were not recorded, by reason: queue full, limited by object, or refused.",
            ["reason"],
            registry=self.registry,
        )
        for reason in ("full", "limited", "refused"):
            self.events_dropped.labels(reason)  # creates the series with the value 0
        self.loop_lag = Histogram(
            "controller_event_loop_lag_seconds",
            "By how many seconds the event loop ran timers late.",
            buckets=LAG_SECONDS,
            registry=self.registry,
        )
        self.service_restarts = Counter(
            "controller_service_restarts_total",
            "How often a service of the manager failed and was started again.",
            ["service"],
            registry=self.registry,
        )

    def create_reconcile_metrics(self, name: str, concurrency: int) -> ReconcileMetrics:
        """Return the metrics of the controller called `name`.

        Args:
            name: the label `controller`.
            concurrency: how many keys it processes at once at most.
        """
        return ReconcileMetrics(self, name, concurrency)

    def create_queue_metrics(self, name: str) -> QueueMetrics:
        """Return the metrics of the work queue of the controller called `name`."""
        return QueueMetrics(self._queues, name)

    def create_informer_metrics(self, name: str) -> InformerMetrics:
        """Return the metrics of the informer of the kind with the full name `name`."""
        return InformerMetrics(self, name)

    def create_request_observer(self, server: str) -> RequestObserver:
        """Return an observer that counts requests to the API server with the URL `server`.

        Only use it for the few servers that are known when the process starts. The label `host`
        has a value for each server, and one for each tenant would be too many.
        """
        host = urlsplit(server).netloc

        def observe(method: str, code: str, seconds: float) -> None:
            """Count a request; the arguments are those of RequestObserver."""
            self._requests_total.labels(code, method, host).inc()
            self._request_seconds.labels(method, host).observe(seconds)

        return observe

    def render_exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics, and their media type.

        Args:
            accept: the request's header Accept, which may ask for OpenMetrics; by default the
                format is Prometheus' text format.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self._exposed), content_type

    def _add_reconcile_families(self) -> None:
        """Register the metrics of reconciliations, named as controller-runtime names them."""
        self.reconcile_total = Counter(
            "controller_runtime_reconcile_total",
            "Reconciliations by result.",
            ["controller", "result"],
            registry=self.registry,
        )
        self.reconcile_errors = self._create_reconcile_counter(
            "reconcile_errors", "ended in an error"
        )
        self.terminal_errors = self._create_reconcile_counter(
            "terminal_reconcile_errors", "ended in an error that is not retried"
        )
        self.reconcile_panics = self._create_reconcile_counter(
            "reconcile_panics", "raised an exception that is not an error of the API: a bug"
        )
        self.reconcile_timeouts = self._create_reconcile_counter(
            "reconcile_timeouts", "ran out of time"
        )
        self.reconcile_seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "How long a reconciliation took.",
            ["controller"],
            buckets=RECONCILE_SECONDS,
            registry=self.registry,
        )
        self.max_concurrent = self._create_gauge(
            "controller_runtime_max_concurrent_reconciles",
            "How many keys the controller processes at once at most.",
            "controller",
        )
        self.active_workers = self._create_gauge(
            "controller_runtime_active_workers",
            "How many keys the controller is processing.",
            "controller",
        )

    def _add_informer_families(self) -> None:
        """Register the metrics of lists, watches and the delivery of their changes."""
        self.watch_restarts = Counter(
            "controller_watch_restarts_total",
            "Watches that ended, by reason; another one or a list followed.",
            ["resource", "reason"],
            registry=self.registry,
        )
        self.lists = Counter(
            "controller_lists_total",
            "How often all objects of a kind were read at once.",
            ["resource"],
            registry=self.registry,
        )
        self.undelivered = Counter(
            "controller_undelivered_changes_total",
            "Changes on which a mapping or handler raised; they are delivered to it again.",
            ["resource"],
            registry=self.registry,
        )
        self.watch_silence = self._create_gauge(
            "controller_watch_last_event_age_seconds",
            "Seconds since the last list, event or bookmark of a kind.",
            "resource",
        )
        self.cache_lag = self._create_gauge(
            "controller_cache_lag_seconds",
            "Seconds since the oldest own write that the watch has not delivered; 0 if none.",
            "resource",
        )
        self.cache_objects = self._create_gauge(
            "controller_cache_objects", "Objects of a kind in the cache.", "resource"
        )
        self.unreadable = self._create_gauge(
            "controller_cache_unreadable_objects",
            "Objects of a kind whose latest version cannot be decoded or indexed.",
            "resource",
        )
        self.unlisted = self._create_gauge(
            "controller_informers_not_listed",
            "Informers of a kind, one for each namespace and selector, without a first list.",
            "resource",
        )

    def _create_reconcile_counter(self, name: str, ending: str) -> Counter:
        """Register a counter of reconciliations; `ending` completes its description."""
        return Counter(
            f"controller_runtime_{name}_total",
            f"Reconciliations that {ending}.",
            ["controller"],
            registry=self.registry,
        )

    def _create_gauge(self, name: str, documentation: str, label: str) -> Gauge:
        """Register a gauge with one label."""
        return Gauge(name, documentation, [label], registry=self.registry)


class _WithoutCreated(Collector):
    """Collects another registry without the `_created` series.

    prometheus_client adds such a series to each counter and histogram. Go's client has none, no
    query reads them, and they are a fifth of all lines. prometheus_client's own switch is global.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield copies of the registry's metric families without those series."""
        for family in self._registry.collect():
            copy = Metric(family.name, family.documentation, family.type, family.unit)
            copy.samples = [
                sample for sample in family.samples if not sample.name.endswith("_created")
            ]
            yield copy
