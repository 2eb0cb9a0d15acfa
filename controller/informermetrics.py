"""How current the view of each kind is: why watches began anew, when something was heard last.

client-go has no such series that controller-runtime would show, so the names are our own.
"""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge
from typing_extensions import override

from controller.watchview import REASONS, WatchObserver


class InformerSeries:
    """The families that all informers of a registry share."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.restarts = Counter(
            "controller_watch_restarts_total",
            "Watches that ended, by why; another one or a list followed.",
            ["resource", "reason"],
            registry=registry,
        )
        self.lists = Counter(
            "controller_lists_total",
            "How often all objects of a kind were read at once.",
            ["resource"],
            registry=registry,
        )
        self.silent = Gauge(
            "controller_watch_last_event_age_seconds",
            "How long ago a list, an event or a bookmark of a kind came last.",
            ["resource"],
            registry=registry,
        )
        self.lag = Gauge(
            "controller_cache_lag_seconds",
            "For how long a write of ours has not come back by the watch; 0 if all have.",
            ["resource"],
            registry=registry,
        )
        self.objects = Gauge(
            "controller_cache_objects",
            "Objects of a kind in the cache.",
            ["resource"],
            registry=registry,
        )

    def informer(self, name: str) -> "InformerMetrics":
        """Return the series of the informer called `name`, all at 0."""
        return InformerMetrics(self, name)


class InformerMetrics(WatchObserver):
    """The series of one informer, or of those for one kind in many clusters."""

    def __init__(self, family: InformerSeries, name: str) -> None:
        self._family = family
        self._name = name
        self._restarts = {reason: family.restarts.labels(name, reason) for reason in REASONS}
        self._lists = family.lists.labels(name)

    @override
    def restarted(self, reason: str) -> None:
        self._restarts[reason].inc()

    @override
    def listed(self) -> None:
        self._lists.inc()

    def watch(
        self,
        silent_seconds: Callable[[], float],
        lag_seconds: Callable[[], float],
        objects: Callable[[], int],
    ) -> None:
        """Read from these, at each scrape, what only the present moment can tell."""
        self._family.silent.labels(self._name).set_function(silent_seconds)
        self._family.lag.labels(self._name).set_function(lag_seconds)
        self._family.objects.labels(self._name).set_function(lambda: float(objects()))
